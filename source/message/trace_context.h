#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/protocol/record.h"

namespace idempotency::message {

// The headers by which the next hop joins the trace of a span, in place of the client's.
struct TraceContext {
  std::span<const std::string_view> replaced;  // Names in lower case.
  std::vector<std::pair<std::string_view, std::string>> headers;
};

// For the span that Envoy made for a request with these headers. OpenTelemetry tells both ids, and
// gets a traceparent. Zipkin tells only the trace; where it began that trace, the id of its span is
// the end of the trace's, and it gets B3 headers. Everything else changes nothing: the client's
// headers stand. Whether the span is sampled is in Envoy's request id, and in the client's context.
TraceContext traceContext(std::string_view trace_id, std::string_view span_id,
                          std::span<const protocol::FieldView> headers);

// `headers` with the context, whose texts it points to.
std::vector<protocol::FieldView> withContext(std::span<const protocol::FieldView> headers,
                                             const TraceContext& context);

}  // namespace idempotency::message
