#include "source/filter/stream/response_reader.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "source/filter/stream/request_reader.h"
#include "source/http/grpc.h"
#include "source/http/header_names.h"
#include "source/http/http_date.h"
#include "source/message/headers.h"
#include "source/protocol/proxy_evidence.h"
#include "source/runtime/times.h"

namespace idempotency::filter {
namespace {

std::vector<protocol::FieldView> fieldViews(const std::vector<envoy::Field>& fields) {
  std::vector<protocol::FieldView> views;
  views.reserve(fields.size());
  for (const envoy::Field& field : fields) {
    views.emplace_back(field.nameView(), field.valueView());
  }
  return views;
}

std::optional<protocol::FieldList> toStore(const protocol::Policy& policy,
                                           const envoy::Headers& headers) {
  const std::vector<envoy::Field> fields = headers.all();
  return message::fieldsToStore(policy, fieldViews(fields));
}

// A field that gRPC sends in trailers, or in headers where those are all.
std::optional<std::string_view> grpcField(envoy::Stream stream, std::string_view name) {
  const auto in_trailers = stream.responseTrailers().get(name);
  return in_trailers.has_value() ? in_trailers : stream.responseHeaders().get(name);
}

void observeGrpc(envoy::Stream stream, protocol::Observation& seen) {
  const auto text = grpcField(stream, "grpc-status");
  const std::optional<int> status = text.has_value() ? http::httpStatusOfGrpc(*text) : std::nullopt;
  seen.judged_status = status.value_or(seen.status);
  // With another HTTP status than 200 the answer may not be the service's, and that status counts.
  seen.grpc_status_missing = !status.has_value() && seen.status == 200;
}

protocol::ProxyEvidence evidenceOf(envoy::Stream stream, std::string_view text, int judged_status) {
  const std::vector<envoy::Field> headers = stream.responseHeaders().all();
  const std::vector<envoy::Field> trailers = stream.responseTrailers().all();
  const std::vector<protocol::FieldView> header_views = fieldViews(headers);
  const std::vector<protocol::FieldView> trailer_views = fieldViews(trailers);
  return protocol::proxyEvidence({judged_status, header_views, trailer_views, text});
}

bool isEndless(envoy::Stream stream) {
  const std::string_view type = stream.responseHeaders().get("content-type").value_or("");
  return http::toLower(type).starts_with("text/event-stream");
}

protocol::DeclaredOutcome takeDeclaredOutcome(const envoy::Headers& headers) {
  std::vector<std::string_view> lines;
  while (const auto line = headers.get(http::OutcomeHeader, lines.size())) {
    lines.push_back(*line);
  }
  const protocol::DeclaredOutcome declared = protocol::parseDeclaredOutcome(lines);
  if (!lines.empty()) {
    headers.remove(http::OutcomeHeader);
  }
  return declared;
}

}  // namespace

bool isFromUpstream(envoy::Stream stream) {
  return stream.text(envoy::Attribute::ResponseCodeDetails).value_or("") == "via_upstream";
}

int StreamResponse::status() const {
  const std::string_view text = stream_.responseHeaders().get(":status").value_or("");
  uint64_t status = 0;
  std::from_chars(text.data(), text.data() + text.size(), status);
  return static_cast<int>(status);
}

protocol::DeclaredOutcome StreamResponse::takeDeclaredInHeaders() {
  return takeDeclaredOutcome(stream_.responseHeaders());
}

protocol::DeclaredOutcome StreamResponse::takeDeclaredInTrailers() {
  return takeDeclaredOutcome(stream_.responseTrailers());
}

bool StreamResponse::announcesDeclaration() const {
  const envoy::Headers headers = stream_.responseHeaders();
  for (size_t line = 0; const auto value = headers.get("trailer", line); ++line) {
    const std::vector<std::string> names = message::splitList(*value);
    if (std::find(names.begin(), names.end(), http::OutcomeHeader) != names.end()) {
      return true;
    }
  }
  return false;
}

bool StreamResponse::isTooLongToHold(const protocol::Policy& policy) const {
  const std::string_view length = stream_.responseHeaders().get("content-length").value_or("");
  const bool too_long =
      !protocol::isError(status()) && message::announcesMoreThan(length, policy.max_response_bytes);
  return too_long || isEndless(stream_);
}

protocol::Observation StreamResponse::observeCall() const {
  protocol::Observation seen;
  seen.details = stream_.text(envoy::Attribute::ResponseCodeDetails).value_or("");
  seen.flags = stream_.number(envoy::Attribute::ResponseFlags).value_or(0);
  seen.attempts = stream_.number(envoy::Attribute::UpstreamAttemptCount).value_or(0);
  return seen;
}

void StreamResponse::observeWhole(std::optional<std::string_view> beginning,
                                  protocol::Observation& seen) const {
  seen.complete = true;
  seen.status = status();
  seen.judged_status = seen.status;
  const bool grpc = http::isGrpc(stream_.responseHeaders().get("content-type").value_or(""));
  if (grpc) {
    observeGrpc(stream_, seen);
  }
  // Most responses are no errors, and cost nothing here.
  if (!protocol::isError(seen.judged_status)) {
    return;
  }
  if (grpc) {
    const std::string_view message = grpcField(stream_, "grpc-message").value_or("");
    seen.proxy = evidenceOf(stream_, message, seen.judged_status);
  } else {
    const std::string held = beginning.has_value() ? std::string() : this->beginning();
    seen.proxy = evidenceOf(stream_, beginning.value_or(held), seen.judged_status);
  }
}

std::optional<request::ResponseFields> StreamResponse::fieldsToStore(
    const protocol::Policy& policy) const {
  std::optional<protocol::FieldList> headers = toStore(policy, stream_.responseHeaders());
  std::optional<protocol::FieldList> trailers = toStore(policy, stream_.responseTrailers());
  if (!headers.has_value() || !trailers.has_value()) {
    return std::nullopt;
  }
  return request::ResponseFields{*std::move(headers), *std::move(trailers)};
}

uint64_t StreamResponse::bodySize() const {
  return stream_.wholeBodySize(envoy::Direction::Response);
}

std::string StreamResponse::body() const {
  std::string body;
  body.reserve(bodySize());
  for (const std::string_view chunk : stream_.wholeBody(envoy::Direction::Response)) {
    body += chunk;
  }
  return body;
}

std::string StreamResponse::beginning() const {
  std::string text;
  for (const std::string_view chunk : stream_.wholeBody(envoy::Direction::Response)) {
    text += chunk.substr(0, protocol::EnoughText - text.size());
    if (text.size() == protocol::EnoughText) {
      break;
    }
  }
  return text;
}

void StreamResponse::allowToHold(uint64_t bytes) {
  if (stream_.bufferLimit() < bytes) {
    stream_.setBufferLimit(bytes);
  }
}

void StreamResponse::mark(const request::ResponseMark& mark) {
  const envoy::Headers headers = stream_.responseHeaders();
  if (!mark.stored) {
    headers.set(http::StoredHeader, "false");
  } else if (mark.expires_at.has_value()) {
    headers.set(http::ExpiresHeader, http::formatHttpDate(*mark.expires_at));
  }
  // A filter for CORS before ours adds its fields after this.
  if (headers.get(http::AllowOriginHeader).has_value() || isCrossOrigin(stream_)) {
    const std::string_view exposed = headers.get(http::ExposeHeadersHeader).value_or("");
    if (const auto extended = message::exposedWithOwnHeaders(exposed)) {
      headers.set(http::ExposeHeadersHeader, *extended);
    }
  }
}

RequestTraits traitsOf(envoy::Stream stream) {
  return {.head = stream.requestHeaders().get(":method") == "HEAD",
          .cross_origin = isCrossOrigin(stream)};
}

std::optional<message::ReplayMessage> answerFrom(const runtime::CompletedRecord& completed,
                                                 const RequestTraits& request) {
  auto message =
      message::buildReplay(completed.response, {.head = request.head,
                                                .replayed = false,
                                                .expires_at = runtime::secondsOf(completed.expires_at)});
  if (message.has_value() && request.cross_origin) {
    message::exposeOwnHeaders(message->headers);
  }
  return message;
}

void observeHeaders(envoy::Stream stream, request::RunningAttempt& attempt, bool local_reply,
                    bool end) {
  const bool awaited = attempt.phase() == request::RunningAttempt::Phase::Running ||
                       attempt.phase() == request::RunningAttempt::Phase::Gathering;
  if (!awaited) {
    return;
  }
  stream.responseHeaders().remove(
      {http::ReplayedHeader, http::ExpiresHeader, http::StoredHeader, http::EnforcedHeader});
  if (local_reply) {
    attempt.onOtherAnswer();
  } else if (!isFromUpstream(stream)) {
    // Another filter's own response, of any length: nothing to hold it for.
    attempt.onOtherAnswer();
    attempt.stopHolding();
  } else {
    attempt.onHeaders(end);
  }
}

}  // namespace idempotency::filter
