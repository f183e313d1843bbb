#include "source/message/trace_context.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <optional>

namespace idempotency::message {
namespace {

constexpr std::string_view TraceParent = "traceparent";
constexpr std::string_view TraceState = "tracestate";
constexpr std::string_view B3 = "b3";
constexpr std::string_view B3TraceId = "x-b3-traceid";
constexpr std::string_view B3SpanId = "x-b3-spanid";
constexpr std::string_view B3Sampled = "x-b3-sampled";

// A state belongs to its traceparent: only the client's trace keeps it.
constexpr std::array<std::string_view, 1> SameTrace = {TraceParent};
constexpr std::array<std::string_view, 2> NewTrace = {TraceParent, TraceState};
constexpr std::array<std::string_view, 6> AllB3 = {
    B3, B3TraceId, B3SpanId, B3Sampled, "x-b3-parentspanid", "x-b3-flags",
};

constexpr size_t SpanIdSize = 16;
constexpr size_t TraceIdSize = 32;

std::optional<std::string_view> valueOf(std::span<const protocol::FieldView> headers,
                                        std::string_view name) {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? std::nullopt : std::optional(found->second);
}

bool isId(std::string_view text, size_t size) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == size && std::all_of(text.begin(), text.end(), is_digit);
}

// Envoy's decision, which its request id holds in place of the UUID's version. Unknown: the id is
// none of Envoy's.
std::optional<bool> isSampledByEnvoy(std::span<const protocol::FieldView> headers) {
  constexpr size_t UuidSize = 36;
  constexpr size_t Version = 14;
  constexpr std::string_view Sampled = "9ab";  // At random, by the service, by the client.
  const std::string_view id = valueOf(headers, "x-request-id").value_or("");
  if (id.size() != UuidSize) {
    return std::nullopt;
  }
  return Sampled.find(id[Version]) != std::string_view::npos;
}

// version-trace-span-flags
struct Parent {
  std::string_view trace_id;
  bool sampled = false;
};

std::optional<Parent> parentOf(std::span<const protocol::FieldView> headers) {
  constexpr size_t Size = 55;
  constexpr size_t TraceAt = 3;
  const std::string_view text = valueOf(headers, TraceParent).value_or("");
  if (text.size() < Size) {
    return std::nullopt;
  }
  // The lowest bit of the flags.
  constexpr std::string_view Odd = "13579bdf";
  return Parent{text.substr(TraceAt, TraceIdSize),
                Odd.find(text[Size - 1]) != std::string_view::npos};
}

TraceContext w3cContext(std::string_view trace_id, std::string_view span_id,
                        std::span<const protocol::FieldView> headers) {
  const std::optional<bool> decision = isSampledByEnvoy(headers);
  if (!decision) {
    return {};
  }
  const std::optional<Parent> parent = parentOf(headers);
  const bool continues = parent && parent->trace_id == trace_id;
  const bool sampled = *decision && (!continues || parent->sampled);
  const std::span<const std::string_view> replaced =
      continues ? std::span<const std::string_view>(SameTrace) : NewTrace;
  return {replaced,
          {{TraceParent, fmt::format("00-{}-{}-{:02}", trace_id, span_id, sampled ? 1 : 0)}}};
}

// What the client says, without which Envoy decides.
std::optional<bool> isSampledByB3(std::span<const protocol::FieldView> headers) {
  if (const auto single = valueOf(headers, B3)) {
    return *single != "0";
  }
  if (const auto sampled = valueOf(headers, B3Sampled)) {
    return *sampled == "1" || *sampled == "true";
  }
  return isSampledByEnvoy(headers);
}

bool hasB3Context(std::span<const protocol::FieldView> headers) {
  const std::string_view single = valueOf(headers, B3).value_or("");
  return single.size() > 1 || (valueOf(headers, B3TraceId) && valueOf(headers, B3SpanId));
}

TraceContext b3Context(std::string_view trace_id, std::span<const protocol::FieldView> headers) {
  const std::optional<bool> sampled = isSampledByB3(headers);
  const std::optional<Parent> parent = parentOf(headers);
  if (!sampled || hasB3Context(headers) || (parent && parent->trace_id == trace_id)) {
    return {};
  }
  return {AllB3,
          {{B3TraceId, std::string(trace_id)},
           {B3SpanId, std::string(trace_id.substr(trace_id.size() - SpanIdSize))},
           {B3Sampled, *sampled ? "1" : "0"}}};
}

}  // namespace

TraceContext traceContext(std::string_view trace_id, std::string_view span_id,
                          std::span<const protocol::FieldView> headers) {
  if (isId(trace_id, TraceIdSize) && isId(span_id, SpanIdSize)) {
    return w3cContext(trace_id, span_id, headers);
  }
  if (span_id.empty() && (isId(trace_id, TraceIdSize) || isId(trace_id, SpanIdSize))) {
    return b3Context(trace_id, headers);
  }
  return {};
}

std::vector<protocol::FieldView> withContext(std::span<const protocol::FieldView> headers,
                                             const TraceContext& context) {
  std::vector<protocol::FieldView> all;
  all.reserve(headers.size() + context.headers.size());
  const auto& replaced = context.replaced;
  std::copy_if(headers.begin(), headers.end(), std::back_inserter(all), [&](const auto& header) {
    return std::find(replaced.begin(), replaced.end(), header.first) == replaced.end();
  });
  all.insert(all.end(), context.headers.begin(), context.headers.end());
  return all;
}

}  // namespace idempotency::message
