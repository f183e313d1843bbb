#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/envoy/body.h"
#include "source/envoy/headers.h"
#include "source/envoy/mailbox.h"
#include "source/envoy/metrics.h"
#include "source/envoy/side_requests.h"
#include "source/envoy/types.h"

namespace idempotency::envoy {

// Request or response.
enum class Direction : uint8_t { Request, Response };

// Which body hooks of a stream are on the stack. The chunk that Envoy has just received exists only
// inside one. Maintained by hooks.cc, on the stream's worker.
struct BodyHooks {
  bool request = false;
  bool response = false;
};

// As the tracer writes them; empty where it does not tell.
struct SpanIds {
  std::string trace;
  std::string span;
};

// One request and its response, as Envoy shows them to the filter. Does not own them; copied
// freely. Only on the stream's worker thread, and only until the filter is destroyed. The texts
// that it returns belong to Envoy and stay valid until the hook returns or their source is changed.
//
// Calls marked TERMINAL may end the stream before they return, and run onStreamComplete inside:
// make them the last use of the stream in a hook. (The filter object itself exists until the hook
// returns.)
class Stream {
public:
  // `hooks` must outlive the use of this handle. Null: no body hook of this stream ever runs.
  explicit Stream(raw::StreamPtr handle, const BodyHooks* hooks = nullptr)
      : handle_(handle), hooks_(hooks) {}
  raw::StreamPtr handle() const { return handle_; }

  Headers requestHeaders() const { return {handle_, HeaderMap::Request}; }
  Headers requestTrailers() const { return {handle_, HeaderMap::RequestTrailers}; }
  Headers responseHeaders() const { return {handle_, HeaderMap::Response}; }
  Headers responseTrailers() const { return {handle_, HeaderMap::ResponseTrailers}; }

  // What Envoy buffered because a hook returned StopIterationAndBuffer.
  Body buffered(Direction direction) const {
    return {handle_, direction == Direction::Request ? BodyKind::BufferedRequest
                                                     : BodyKind::BufferedResponse};
  }
  // The chunk of the body hook that is running.
  Body received(Direction direction) const {
    return {handle_, direction == Direction::Request ? BodyKind::ReceivedRequest
                                                     : BodyKind::ReceivedResponse};
  }

  // All bytes of the body so far, without a copy. In any hook; includes the chunk of a running body
  // hook.
  std::vector<std::string_view> wholeBody(Direction direction) const {
    std::vector<std::string_view> chunks;
    buffered(direction).appendChunksTo(chunks);
    if (hasUnbufferedChunk(direction)) {
      received(direction).appendChunksTo(chunks);
    }
    return chunks;
  }
  size_t wholeBodySize(Direction direction) const {
    return buffered(direction).size() +
           (hasUnbufferedChunk(direction) ? received(direction).size() : 0);
  }

  // Drops all bytes of the body so far. In any hook.
  void dropBody(Direction direction) const {
    const bool has_chunk = hasUnbufferedChunk(direction);
    const Body kept = buffered(direction);
    kept.drain(kept.size());
    if (has_chunk) {
      const Body chunk = received(direction);
      chunk.drain(chunk.size());
    }
  }

  // How much Envoy buffers before it answers 413 or 500 itself; one limit for both directions.
  uint64_t bufferLimit() const {
    return raw::envoy_dynamic_module_callback_http_get_buffer_limit(handle_);
  }
  void setBufferLimit(uint64_t bytes) const {
    raw::envoy_dynamic_module_callback_http_set_buffer_limit(handle_, bytes);
  }

  // Resume what a hook stopped; no effect if nothing is stopped. TERMINAL.
  void continueRequest() const {
    raw::envoy_dynamic_module_callback_http_filter_continue_decoding(handle_);
  }
  void continueResponse() const {
    raw::envoy_dynamic_module_callback_http_filter_continue_encoding(handle_);
  }

  // Replies through Envoy. The details appear as RESPONSE_CODE_DETAILS. Our own response hooks do
  // not run for it. TERMINAL.
  void sendLocalReply(uint32_t code, std::span<const Field> headers, std::string_view body,
                      std::string_view details) const {
    raw::envoy_dynamic_module_callback_http_send_response(
        handle_, code, headers.data(), headers.size(), toBytes(body), toBytes(details));
  }

  // A reply in pieces. Headers first, including `:status`; Envoy checks neither content-length nor
  // CR and LF. TERMINAL with end, and for trailers.
  void sendResponseHeaders(std::span<const Field> headers, bool end) const {
    raw::envoy_dynamic_module_callback_http_send_response_headers(handle_, headers.data(),
                                                                  headers.size(), end);
  }
  void sendResponseData(std::string_view data, bool end) const {
    raw::envoy_dynamic_module_callback_http_send_response_data(handle_, toBytes(data), end);
  }
  void sendResponseTrailers(std::span<const Field> trailers) const {
    raw::envoy_dynamic_module_callback_http_send_response_trailers(handle_, trailers.data(),
                                                                   trailers.size());
  }

  // Resets the stream: the client sees a reset or a closed connection. TERMINAL.
  void reset(StreamReset reason, std::string_view details) const {
    raw::envoy_dynamic_module_callback_http_filter_reset_stream(handle_, reason, toBytes(details));
  }

  // Selects the route again. A route config that was obtained before may be invalid afterwards.
  void clearRouteCache() const {
    raw::envoy_dynamic_module_callback_http_clear_route_cache(handle_);
  }

  // False: absent, or of another type.
  std::optional<std::string_view> text(Attribute attribute) const {
    raw::Bytes value{nullptr, 0};
    if (!raw::envoy_dynamic_module_callback_http_filter_get_attribute_string(handle_, attribute,
                                                                             &value)) {
      return std::nullopt;
    }
    return toView(value);
  }
  std::optional<uint64_t> number(Attribute attribute) const {
    uint64_t value = 0;
    if (!raw::envoy_dynamic_module_callback_http_filter_get_attribute_int(handle_, attribute,
                                                                          &value)) {
      return std::nullopt;
    }
    return value;
  }
  std::optional<bool> flag(Attribute attribute) const {
    bool value = false;
    if (!raw::envoy_dynamic_module_callback_http_filter_get_attribute_bool(handle_, attribute,
                                                                           &value)) {
      return std::nullopt;
    }
    return value;
  }

  std::optional<std::string_view> clusterName() const {
    raw::Bytes value{nullptr, 0};
    if (!raw::envoy_dynamic_module_callback_http_get_cluster_name(handle_, &value)) {
      return std::nullopt;
    }
    return toView(value);
  }
  uint32_t workerIndex() const {
    return raw::envoy_dynamic_module_callback_http_filter_get_worker_index(handle_);
  }

  // Dynamic metadata, for access logs and for filters after ours.
  void setMetadata(std::string_view ns, std::string_view key, std::string_view value) const {
    raw::envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
        handle_, toBytes(ns), toBytes(key), toBytes(value));
  }
  // Several texts at once, because for each call Envoy builds a message and merges it.
  void setMetadata(std::string_view ns, std::span<const Field> entries) const {
    raw::envoy_dynamic_module_callback_http_set_dynamic_metadata_string_batch(
        handle_, toBytes(ns), entries.data(), entries.size());
  }
  void setMetadataNumber(std::string_view ns, std::string_view key, double value) const {
    raw::envoy_dynamic_module_callback_http_set_dynamic_metadata_number(handle_, toBytes(ns),
                                                                        toBytes(key), value);
  }
  void setMetadataFlag(std::string_view ns, std::string_view key, bool value) const {
    raw::envoy_dynamic_module_callback_http_set_dynamic_metadata_bool(handle_, toBytes(ns),
                                                                      toBytes(key), value);
  }

  // A scalar at the top level of a metadata namespace; nested values cannot be reached.
  std::optional<std::string_view> metadata(MetadataSource source, std::string_view ns,
                                           std::string_view key) const {
    raw::Bytes value{nullptr, 0};
    if (!raw::envoy_dynamic_module_callback_http_get_metadata_string(handle_, source, toBytes(ns),
                                                                     toBytes(key), &value)) {
      return std::nullopt;
    }
    return toView(value);
  }
  std::optional<double> metadataNumber(MetadataSource source, std::string_view ns,
                                       std::string_view key) const {
    double value = 0;
    if (!raw::envoy_dynamic_module_callback_http_get_metadata_number(handle_, source, toBytes(ns),
                                                                     toBytes(key), &value)) {
      return std::nullopt;
    }
    return value;
  }
  std::optional<bool> metadataFlag(MetadataSource source, std::string_view ns,
                                   std::string_view key) const {
    bool value = false;
    if (!raw::envoy_dynamic_module_callback_http_get_metadata_bool(handle_, source, toBytes(ns),
                                                                   toBytes(key), &value)) {
      return std::nullopt;
    }
    return value;
  }

  // Filter state: bytes under a name, for this stream's other filters. Does not survive an internal
  // redirect.
  bool setFilterState(std::string_view key, std::string_view value) const {
    return raw::envoy_dynamic_module_callback_http_set_filter_state_bytes(handle_, toBytes(key),
                                                                          toBytes(value));
  }
  std::optional<std::string_view> filterState(std::string_view key) const {
    raw::Bytes value{nullptr, 0};
    if (!raw::envoy_dynamic_module_callback_http_get_filter_state_bytes(handle_, toBytes(key),
                                                                        &value)) {
      return std::nullopt;
    }
    return toView(value);
  }

  // A short word in upper case for %CUSTOM_FLAGS% in access logs.
  void addCustomFlag(std::string_view flag) const {
    raw::envoy_dynamic_module_callback_http_add_custom_flag(handle_, toBytes(flag));
  }

  // Tags the active trace span, if the request is traced.
  void setSpanTags(std::span<const Field> tags) const {
    void* const span = raw::envoy_dynamic_module_callback_http_get_active_span(handle_);
    if (span == nullptr) {
      return;
    }
    for (const Field& tag : tags) {
      raw::envoy_dynamic_module_callback_http_span_set_tag(span, toBytes(tag.nameView()),
                                                           toBytes(tag.valueView()));
    }
  }
  void setSpanTag(std::string_view key, std::string_view value) const {
    const Field tag(key, value);
    setSpanTags(std::span(&tag, 1));
  }

  // Of the active trace span. None: the request is not traced.
  std::optional<SpanIds> spanIds() const {
    void* const span = raw::envoy_dynamic_module_callback_http_get_active_span(handle_);
    if (span == nullptr) {
      return std::nullopt;
    }
    SpanIds ids;
    raw::Bytes value{};
    if (raw::envoy_dynamic_module_callback_http_span_get_trace_id(span, &value)) {
      ids.trace = toView(value);
    }
    if (raw::envoy_dynamic_module_callback_http_span_get_span_id(span, &value)) {
      ids.span = toView(value);
    }
    return ids;
  }

  void increment(Counter counter, uint64_t by = 1) const {
    raw::envoy_dynamic_module_callback_http_filter_increment_counter(handle_, counter.id, nullptr,
                                                                     0, by);
  }
  template <size_t N>
  void increment(LabelledCounter<N> counter, const Labels<N>& labels, uint64_t by = 1) const {
    const auto bytes = toBytes(labels);
    raw::envoy_dynamic_module_callback_http_filter_increment_counter(handle_, counter.id,
                                                                     bytes.data(), N, by);
  }
  void increment(Gauge gauge, uint64_t by = 1) const {
    raw::envoy_dynamic_module_callback_http_filter_increment_gauge(handle_, gauge.id, nullptr, 0,
                                                                   by);
  }
  void decrement(Gauge gauge, uint64_t by = 1) const {
    raw::envoy_dynamic_module_callback_http_filter_decrement_gauge(handle_, gauge.id, nullptr, 0,
                                                                   by);
  }
  void set(Gauge gauge, uint64_t value) const {
    raw::envoy_dynamic_module_callback_http_filter_set_gauge(handle_, gauge.id, nullptr, 0, value);
  }
  void record(Histogram histogram, uint64_t value) const {
    raw::envoy_dynamic_module_callback_http_filter_record_histogram_value(handle_, histogram.id,
                                                                          nullptr, 0, value);
  }

  // A request of the filter itself; it ends with this stream. The response goes to the filter's
  // SideRequestHooks.
  SideRequestStart startCallout(const SideRequest& request) const {
    SideRequestStart start;
    start.result = raw::envoy_dynamic_module_callback_http_filter_http_callout(
        handle_, &start.id, toBytes(request.cluster), request.headers.data(),
        request.headers.size(), toBytes(request.body),
        static_cast<uint64_t>(request.timeout.count()));
    return start;
  }
  SideRequestStart startSideStream(const SideRequest& request, bool end) const {
    SideRequestStart start;
    start.result = raw::envoy_dynamic_module_callback_http_filter_start_http_stream(
        handle_, &start.id, toBytes(request.cluster), request.headers.data(),
        request.headers.size(), toBytes(request.body), end,
        static_cast<uint64_t>(request.timeout.count()));
    return start;
  }
  // False: that side stream has ended.
  bool sendSideData(uint64_t id, std::string_view data, bool end) const {
    return raw::envoy_dynamic_module_callback_http_stream_send_data(handle_, id, toBytes(data),
                                                                    end);
  }
  bool sendSideTrailers(uint64_t id, std::span<const Field> trailers) const {
    return raw::envoy_dynamic_module_callback_http_stream_send_trailers(
        handle_, id, trailers.data(), trailers.size());
  }
  // onSideReset runs inside this call.
  void resetSideStream(uint64_t id) const {
    raw::envoy_dynamic_module_callback_http_filter_reset_http_stream(handle_, id);
  }

  // A secret by its id; none on Envoy 1.39, none until delivered. Copy at once.
  std::optional<std::string_view> secret(size_t id) const {
    raw::Bytes value{nullptr, 0};
    if (raw::envoy_dynamic_module_callback_http_filter_get_generic_secret == nullptr ||
        !raw::envoy_dynamic_module_callback_http_filter_get_generic_secret(handle_, id, &value)) {
      return std::nullopt;
    }
    return toView(value);
  }

private:
  // Whether there is a received chunk that the buffered body does not contain.
  bool hasUnbufferedChunk(Direction direction) const {
    const bool in_hook =
        hooks_ != nullptr && (direction == Direction::Request ? hooks_->request : hooks_->response);
    return in_hook && !receivedIsBuffered(direction);
  }
  bool receivedIsBuffered(Direction direction) const {
    return direction == Direction::Request
               ? raw::envoy_dynamic_module_callback_http_received_buffered_request_body(handle_)
               : raw::envoy_dynamic_module_callback_http_received_buffered_response_body(handle_);
  }

  raw::StreamPtr handle_;
  const BodyHooks* hooks_;
};

}  // namespace idempotency::envoy
