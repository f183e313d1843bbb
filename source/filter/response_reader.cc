#include "source/filter/response_reader.h"

#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "source/protocol/grpc.h"
#include "source/protocol/header_names.h"
#include "source/protocol/headers.h"

namespace idempotency {
namespace {

std::optional<FieldList> toStore(const Policy& policy, const envoy::Headers& headers) {
  std::vector<FieldView> views;
  for (const envoy::Field& field : headers.all()) {
    views.emplace_back(field.nameView(), field.valueView());
  }
  return fieldsToStore(policy, views);
}

// gRPC tells its status in trailers, or in headers where those are all.
std::optional<int> grpcStatus(envoy::Stream stream) {
  const envoy::Headers headers = stream.responseHeaders();
  if (!isGrpc(headers.get("content-type").value_or(""))) {
    return std::nullopt;
  }
  const auto in_trailers = stream.responseTrailers().get("grpc-status");
  const auto text = in_trailers.has_value() ? in_trailers : headers.get("grpc-status");
  return text.has_value() ? httpStatusOfGrpc(*text) : std::nullopt;
}

uint64_t numberOf(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

int statusOf(envoy::Stream stream) {
  return static_cast<int>(numberOf(stream.responseHeaders().get(":status").value_or("")));
}

bool isFromUpstream(envoy::Stream stream) {
  return stream.text(envoy::Attribute::ResponseCodeDetails).value_or("") == "via_upstream";
}

bool isKnownTooLarge(envoy::Stream stream, const Policy& policy) {
  return numberOf(stream.responseHeaders().get("content-length").value_or("")) >
         policy.max_response_bytes;
}

bool isEndless(envoy::Stream stream) {
  const std::string_view type = stream.responseHeaders().get("content-type").value_or("");
  return toLower(type).starts_with("text/event-stream");
}

StreamFacts streamFacts(envoy::Stream stream, bool via_upstream, bool complete) {
  StreamFacts facts;
  facts.released = true;
  facts.via_upstream = via_upstream;
  facts.complete = complete;
  facts.details = stream.text(envoy::Attribute::ResponseCodeDetails).value_or("");
  facts.flags = stream.number(envoy::Attribute::ResponseFlags).value_or(0);
  facts.attempts = stream.number(envoy::Attribute::UpstreamAttemptCount).value_or(0);
  return facts;
}

std::optional<ResponseFields> fieldsOf(envoy::Stream stream, const Policy& policy) {
  std::optional<FieldList> headers = toStore(policy, stream.responseHeaders());
  std::optional<FieldList> trailers = toStore(policy, stream.responseTrailers());
  if (!headers.has_value() || !trailers.has_value()) {
    return std::nullopt;
  }
  return ResponseFields{*std::move(headers), *std::move(trailers)};
}

ResponseFacts responseFacts(envoy::Stream stream) {
  ResponseFacts facts;
  facts.status = statusOf(stream);
  facts.judged_status = grpcStatus(stream).value_or(facts.status);
  facts.attempts = stream.number(envoy::Attribute::UpstreamAttemptCount).value_or(0);
  return facts;
}

std::string bodyOf(envoy::Stream stream, envoy::Within within) {
  std::string body;
  body.reserve(stream.wholeBodySize(envoy::Direction::Response, within));
  for (const std::string_view chunk : stream.wholeBody(envoy::Direction::Response, within)) {
    body += chunk;
  }
  return body;
}

}  // namespace idempotency
