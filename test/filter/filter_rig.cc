#include "test/filter/filter_rig.h"

#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <thread>

namespace idempotency::test {

using envoy::raw::Attribute;

FilterRig::FilterRig() {
  fake::resetProcess();
  resetStores();
}

FilterRig::~FilterRig() = default;

void FilterRig::useFilter(const std::string& fields) {
  filter_fields_ = fields;
}

void FilterRig::usePolicy(const std::string& fields) {
  policy_fields_ = fields;
}

fake::Config& FilterRig::config() {
  if (config_ == nullptr) {
    config_ = std::make_unique<fake::Config>(
        "idempotency",
        fmt::format(
            R"({{"store": {{"{}": {{{}, "timeout": "{}"}}}},
                       "tenant": {{"sources": [{{"header": "x-tenant-id"}}]}},
                       "maintenance": {{"enabled": false}}{}{}}})",
            store_,
            store_ == "sqlite" ? R"("path": "/never/opened.db")" : R"("conninfo": "host=never")",
            store_timeout_, filter_fields_.empty() ? "" : ", ", filter_fields_));
    EXPECT_TRUE(config_->loaded());
  }
  return *config_;
}

const fake::Route& FilterRig::route() {
  if (route_ == nullptr) {
    route_ = std::make_unique<fake::Route>(
        "idempotency",
        fmt::format(R"({{"policy": {{"enforcement": "REQUIRED", "operation": "pay"{}{}}}}})",
                    policy_fields_.empty() ? "" : ", ", policy_fields_));
    EXPECT_TRUE(route_->loaded());
  }
  return *route_;
}

fake::FieldList FilterRig::request(const fake::FieldList& changes) {
  fake::FieldList headers = {{":method", "POST"},
                             {":path", "/payments"},
                             {"x-tenant-id", "acme"},
                             {"content-type", "application/json"},
                             {"idempotency-key", fmt::format("\"{}\"", KeyText)}};
  for (const auto& [name, value] : changes) {
    std::erase_if(headers, [&name = name](const auto& field) { return field.first == name; });
    if (!value.empty()) {
      headers.emplace_back(name, value);
    }
  }
  return headers;
}

std::unique_ptr<fake::Stream> FilterRig::newStream() {
  return std::make_unique<fake::Stream>(config(), &route());
}

std::unique_ptr<fake::Stream> FilterRig::send(const std::string& body,
                                              const fake::FieldList& changes) {
  std::unique_ptr<fake::Stream> stream = newStream();
  stream->requestHeaders(request(changes), body.empty());
  if (!body.empty() && !stream->reply.has_value()) {
    stream->requestBody(body, true);
  }
  settle(*stream);
  return stream;
}

void FilterRig::responseHeaders(fake::Stream& stream, const std::string& status, bool end,
                                const fake::FieldList& headers) {
  stream.texts[Attribute::ResponseCodeDetails] = "via_upstream";
  stream.numbers[Attribute::UpstreamAttemptCount] = 1;
  fake::FieldList all = {{":status", status}};
  all.insert(all.end(), headers.begin(), headers.end());
  stream.responseHeaders(all, end);
}

void FilterRig::respond(fake::Stream& stream, const std::string& status, const std::string& body,
                        const fake::FieldList& headers) {
  responseHeaders(stream, status, body.empty(), headers);
  if (!body.empty()) {
    stream.responseBody(body, true);
  }
  settle(stream);
}

void FilterRig::settle(fake::Stream& stream) {
  // An answer may lead to the next question.
  do {
    store().flush();
  } while (stream.runScheduled() > 0);
}

void FilterRig::settleUntil(fake::Stream& stream, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "it never came to that";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stream.runScheduled();
  }
}

std::optional<store::Record> FilterRig::record(const protocol::Identity& which) {
  const store::LookUpResult result = database().lookUp(which);
  const auto* found = std::get_if<store::Record>(&result);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

protocol::RecordState FilterRig::stateOf(const protocol::Identity& which) {
  const auto found = record(which);
  EXPECT_TRUE(found.has_value()) << "no record";
  return found.has_value() ? found->state : protocol::RecordState::Expired;
}

std::string FilterRig::header(const fake::FieldList& headers, const std::string& name) {
  for (const auto& [field, value] : headers) {
    if (field == name) {
      return value;
    }
  }
  return "";
}

}  // namespace idempotency::test
