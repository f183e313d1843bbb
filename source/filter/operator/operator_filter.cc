#include "source/filter/operator/operator_filter.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "source/filter/stream/name_reader.h"
#include "source/operator_api/problem.h"
#include "source/operator_api/routing.h"

namespace idempotency::filter {
namespace {

using operator_api::ApiAnswer;
using operator_api::ApiProblem;

std::string textOf(const envoy::HeaderLines& headers, std::string_view name) {
  return std::string(name.empty() ? "" : headers.get(name).value_or(""));
}

std::string_view statusClass(int status) {
  constexpr std::array<std::string_view, 4> Classes = {"2xx", "3xx", "4xx", "5xx"};
  constexpr int First = 2;
  const auto index = static_cast<size_t>(std::max(status / 100 - First, 0));
  return Classes[std::min(index, Classes.size() - 1)];
}

// The client has left before the answer.
constexpr std::string_view Left = "left";

}  // namespace

OperatorFilterConfig::OperatorFilterConfig(envoy::ConfigHandle handle,
                                           std::vector<protocol::NameSource> actor_sources,
                                           const OperatorStats& stats,
                                           std::shared_ptr<OperatorBackend> backend)
    : envoy::FilterFactory(handle),
      actor_sources_(std::move(actor_sources)),
      stats_(stats),
      backend_(std::move(backend)) {
  if (backend_ != nullptr) {
    backend_->log().attach(handle, stats_, mailbox());
  }
}

OperatorFilterConfig::~OperatorFilterConfig() {
  if (backend_ != nullptr) {
    backend_->log().detach(handle());
  }
}

std::unique_ptr<envoy::Filter> OperatorFilterConfig::createFilter(envoy::Stream stream) {
  return std::make_unique<OperatorFilter>(stream, *this);
}

OperatorFilter::OperatorFilter(envoy::Stream stream, const OperatorFilterConfig& config)
    : envoy::Filter(stream), config_(config) {}

envoy::HeadersAction OperatorFilter::onRequestHeaders(bool end) {
  head_ = readHead();
  operator_api::HeadOutcome outcome = api().onHead(head_);
  endpoint_ = outcome.endpoint;
  if (const auto* decided = std::get_if<ApiAnswer>(&outcome.next)) {
    answer(*decided);
    return envoy::HeadersAction::StopIteration;
  }
  target_ = std::get<operator_api::Target>(std::move(outcome.next));
  // Otherwise Envoy itself would refuse a body that the config allows.
  const uint64_t largest = api().settings().max_request_bytes;
  stream().setBufferLimit(std::max(stream().bufferLimit(), largest + 1));
  if (end) {
    onRequest();
  }
  return envoy::HeadersAction::StopIteration;
}

envoy::BodyAction OperatorFilter::onRequestBody(bool end) {
  if (answered_ || !target_.has_value()) {
    return envoy::BodyAction::StopIterationNoBuffer;
  }
  if (stream().wholeBodySize(envoy::Direction::Request) > api().settings().max_request_bytes) {
    answer(operator_api::problemAnswer(ApiProblem::TooLarge));
    return envoy::BodyAction::StopIterationNoBuffer;
  }
  if (end) {
    onRequest();
    return envoy::BodyAction::StopIterationNoBuffer;
  }
  return envoy::BodyAction::StopIterationAndBuffer;
}

envoy::TrailersAction OperatorFilter::onRequestTrailers() {
  if (!answered_ && target_.has_value()) {
    onRequest();
  }
  return envoy::TrailersAction::StopIteration;
}

void OperatorFilter::onStreamComplete() {
  gone_->store(true, std::memory_order_relaxed);
  if (!answered_ && !endpoint_.empty()) {
    count(Left, Left);
  }
}

operator_api::RequestHead OperatorFilter::readHead() const {
  const envoy::HeaderLines headers(stream().requestHeaders());
  operator_api::RequestHead head;
  head.method = textOf(headers, ":method");
  head.path = textOf(headers, ":path");
  head.content_type = textOf(headers, "content-type");
  head.content_length = textOf(headers, "content-length");
  head.sec_fetch_site = textOf(headers, "sec-fetch-site");
  head.actor = readName(stream(), headers, config_.actorSources());
  if (const auto& webhook = api().settings().webhook) {
    const auto names = operator_api::signatureHeaderNames(webhook->format);
    head.signature = {textOf(headers, names.id), textOf(headers, names.timestamp),
                      textOf(headers, names.signature)};
  }
  return head;
}

void OperatorFilter::onRequest() {
  const operator_api::Target target = *std::exchange(target_, std::nullopt);
  std::string body;
  for (const std::string_view chunk : stream().wholeBody(envoy::Direction::Request)) {
    body += chunk;
  }
  auto outcome = api().onRequest(target, head_, body);
  if (const auto* decided = std::get_if<ApiAnswer>(&outcome)) {
    return answer(*decided);
  }
  ask(std::get<operator_api::StoreCall>(std::move(outcome)));
}

void OperatorFilter::ask(operator_api::StoreCall call) {
  operator_api::DeskJob job;
  job.call = std::move(call);
  job.wanted = [gone = gone_] { return !gone->load(std::memory_order_relaxed); };
  // The task runs only while this filter lives.
  job.done = [this, mailbox = mailbox()](ApiAnswer result) {
    mailbox->post([this, result = std::move(result)] { answer(result); });
  };
  if (!config_.backend().desk().submit(std::move(job))) {
    answer(operator_api::problemAnswer(ApiProblem::Overloaded));
  }
}

void OperatorFilter::answer(const ApiAnswer& answer) {
  if (std::exchange(answered_, true)) {
    return;
  }
  countAnswer(answer);
  const fmt::format_int status(answer.status);
  const fmt::format_int length(answer.body.size());
  std::vector<envoy::Field> headers = {{":status", {status.data(), status.size()}}};
  for (const auto& [name, value] : answer.headers) {
    headers.emplace_back(name, value);
  }
  if (!answer.body.empty()) {
    headers.emplace_back("content-length", std::string_view(length.data(), length.size()));
  }
  const bool has_body = !answer.body.empty() && head_.method != "HEAD";
  stream().sendResponseHeaders(headers, !has_body);
  if (has_body) {
    stream().sendResponseData(answer.body, true);
  }
}

void OperatorFilter::countAnswer(const ApiAnswer& answer) {
  constexpr int FirstServerError = 500;
  const auto& problem = answer.problem;
  count(statusClass(answer.status),
        problem.has_value() ? operator_api::problemText(*problem).code : "settled");
  // The desk has logged why the store failed.
  if (isEvent() && problem.has_value() && answer.status < FirstServerError) {
    config_.backend().log().onRefusedEvent(*problem);
  }
}

void OperatorFilter::count(std::string_view status, std::string_view result) {
  const OperatorStats& stats = config_.stats();
  stream().increment(stats.requests, {endpoint_, status});
  if (isEvent()) {
    stream().increment(stats.webhook_events, {result});
  }
}

bool OperatorFilter::isEvent() const {
  return endpoint_ == operator_api::endpointName(operator_api::Endpoint::Webhook) &&
         head_.method == "POST";
}

}  // namespace idempotency::filter
