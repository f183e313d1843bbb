#include "source/filter/stream/own_reply.h"

#include <cstdint>
#include <fmt/format.h>
#include <vector>

#include "source/filter/stream/request_reader.h"
#include "source/http/grpc.h"
#include "source/message/answer.h"
#include "source/message/headers.h"
#include "source/runtime/times.h"

namespace idempotency::filter {
namespace {

void appendFields(const protocol::FieldList& list, std::vector<envoy::Field>& fields) {
  fields.reserve(fields.size() + list.size());
  for (const auto& [name, value] : list) {
    fields.emplace_back(name, value);
  }
}

// Removes all fields but :status.
void clear(const envoy::Headers& headers) {
  std::vector<std::string> names;  // Copies, because each removal ends the views.
  for (const envoy::Field& field : headers.all()) {
    if (!field.nameView().starts_with(':')) {
      names.emplace_back(field.nameView());
    }
  }
  for (const std::string& name : names) {
    headers.remove(name);
  }
}

}  // namespace

std::vector<envoy::Field> toFields(const protocol::FieldList& list) {
  std::vector<envoy::Field> fields;
  appendFields(list, fields);
  return fields;
}

void sendAnswer(envoy::Stream stream, const protocol::Policy& policy,
                const protocol::Answer& answer, message::AnswerContext context) {
  context.grpc = http::isGrpc(stream.requestHeaders().get("content-type").value_or(""));
  message::HttpAnswer rendered = message::renderAnswer(policy, answer, context);
  if (isCrossOrigin(stream)) {
    message::exposeOwnHeaders(rendered.headers);
  }
  std::vector<envoy::Field> headers;
  appendFields(rendered.headers, headers);
  stream.sendLocalReply(static_cast<uint32_t>(rendered.status), headers, rendered.body,
                        protocol::problemCode(answer.problem));
}

void replaceHeldResponse(envoy::Stream stream, const message::ReplayMessage& message) {
  const envoy::Headers headers = stream.responseHeaders();
  clear(headers);
  const fmt::format_int status(message.status);
  headers.set(":status", {status.data(), status.size()});
  for (const auto& [name, value] : message.headers) {
    headers.add(name, value);
  }
  stream.dropBody(envoy::Direction::Response);
  if (!message.body.empty()) {
    // Above its limit, Envoy would answer 500 itself.
    if (stream.bufferLimit() < message.body.size()) {
      stream.setBufferLimit(message.body.size());
    }
    stream.buffered(envoy::Direction::Response).append(message.body);
  }
  const envoy::Headers trailers = stream.responseTrailers();
  const bool had_trailers = trailers.size() > 0;
  clear(trailers);
  if (had_trailers || message.trailers.empty()) {
    for (const auto& [name, value] : message.trailers) {
      trailers.add(name, value);
    }
    stream.continueResponse();
    return;
  }
  // They make Envoy continue with all that is held, and then with them.
  std::vector<envoy::Field> fields;
  appendFields(message.trailers, fields);
  stream.sendResponseTrailers(fields);
}

void sendReplay(envoy::Stream stream, const message::ReplayMessage& message) {
  const fmt::format_int status(message.status);
  std::vector<envoy::Field> headers = {{":status", {status.data(), status.size()}}};
  protocol::FieldList exposing;
  if (isCrossOrigin(stream)) {
    exposing = message.headers;
    message::exposeOwnHeaders(exposing);
    appendFields(exposing, headers);
  } else {
    appendFields(message.headers, headers);
  }
  std::vector<envoy::Field> trailers;
  appendFields(message.trailers, trailers);
  const bool has_body = !message.body.empty();
  const bool has_trailers = !trailers.empty();
  // The last call may end the stream. Its arguments stay valid until this function returns.
  stream.sendResponseHeaders(headers, !has_body && !has_trailers);
  if (has_body) {
    stream.sendResponseData(message.body, !has_trailers);
  }
  if (has_trailers) {
    stream.sendResponseTrailers(trailers);
  }
}

}  // namespace idempotency::filter
