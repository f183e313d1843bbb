#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

// Where whole-body code stands: a chunk that was just received is visible in the body hook alone.
enum class Within : uint8_t { BodyHook, OtherHook };

// A response code's numbered reasons (bits of Stream::responseFlags()).
enum class ResponseFlag : uint8_t {
  NoHealthyUpstream = 1,
  UpstreamTimeout = 2,
  LocalReset = 3,
  UpstreamRemoteReset = 4,
  UpstreamConnectFailure = 5,
  UpstreamConnectionTerminated = 6,
  UpstreamOverflow = 7,
  NoRoute = 8,
  DownstreamGone = 14,
  RetryLimit = 15,
  StreamIdleTimeout = 16,
  MaxDurationTimeout = 19,
  DurationTimeout = 22,
  NoCluster = 24,
};

// One request and its answer, as Envoy shows it to our filter. A handle without ownership, copied
// freely. Worker thread of the stream only, and only until the filter is destroyed. Texts that it
// returns belong to Envoy and live until the hook returns or until what they come from is changed.
//
// Calls marked TERMINAL may end the stream before they return, running onStreamComplete inside:
// make them the last use of the stream in a hook. (The filter object itself lives until the hook
// returns.)
class Stream {
public:
  explicit Stream(raw::StreamPtr handle) : handle_(handle) {}
  raw::StreamPtr handle() const { return handle_; }

  Headers requestHeaders() const { return {handle_, HeaderMap::Request}; }
  Headers requestTrailers() const { return {handle_, HeaderMap::RequestTrailers}; }
  Headers responseHeaders() const { return {handle_, HeaderMap::Response}; }
  Headers responseTrailers() const { return {handle_, HeaderMap::ResponseTrailers}; }

  // What Envoy kept because a hook answered StopIterationAndBuffer.
  Body buffered(Direction direction) const {
    return {handle_, direction == Direction::Request ? BodyKind::BufferedRequest
                                                     : BodyKind::BufferedResponse};
  }
  // The chunk that the running body hook is about.
  Body received(Direction direction) const {
    return {handle_, direction == Direction::Request ? BodyKind::ReceivedRequest
                                                     : BodyKind::ReceivedResponse};
  }

  // All bytes of the body so far, without a copy.
  std::vector<std::string_view> wholeBody(Direction direction, Within within) const {
    std::vector<std::string_view> chunks;
    buffered(direction).appendChunksTo(chunks);
    if (within == Within::BodyHook && !receivedIsBuffered(direction)) {
      received(direction).appendChunksTo(chunks);
    }
    return chunks;
  }
  size_t wholeBodySize(Direction direction, Within within) const {
    const bool add = within == Within::BodyHook && !receivedIsBuffered(direction);
    return buffered(direction).size() + (add ? received(direction).size() : 0);
  }

  // How much Envoy buffers before it answers 413 or 500 by itself; one limit for both directions.
  uint64_t bufferLimit() const {
    return raw::envoy_dynamic_module_callback_http_get_buffer_limit(handle_);
  }
  void setBufferLimit(uint64_t bytes) const {
    raw::envoy_dynamic_module_callback_http_set_buffer_limit(handle_, bytes);
  }

  // Resume what a hook stopped; without effect where nothing is stopped. TERMINAL.
  void continueRequest() const {
    raw::envoy_dynamic_module_callback_http_filter_continue_decoding(handle_);
  }
  void continueResponse() const {
    raw::envoy_dynamic_module_callback_http_filter_continue_encoding(handle_);
  }

  // Answers in Envoy's name. The details show as RESPONSE_CODE_DETAILS. Our own response hooks do
  // not run for it. TERMINAL.
  void sendLocalReply(uint32_t code, std::span<const Field> headers, std::string_view body,
                      std::string_view details) const {
    raw::envoy_dynamic_module_callback_http_send_response(
        handle_, code, headers.data(), headers.size(), toBytes(body), toBytes(details));
  }

  // An answer piece by piece. Headers first, `:status` among them; Envoy checks neither
  // content-length nor CR and LF. TERMINAL with end, and for trailers.
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

  // Cuts the stream: the client sees a reset or a closed connection. TERMINAL.
  void reset(StreamReset reason, std::string_view details) const {
    raw::envoy_dynamic_module_callback_http_filter_reset_stream(handle_, reason, toBytes(details));
  }

  // Chooses the route anew. A route config that was held before may be dead after it.
  void clearRouteCache() const {
    raw::envoy_dynamic_module_callback_http_clear_route_cache(handle_);
  }

  // False answers: absent, or of another kind.
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

  bool hasResponseFlag(ResponseFlag which) const {
    const uint64_t flags = number(Attribute::ResponseFlags).value_or(0);
    return (flags >> static_cast<unsigned>(which) & 1) != 0;
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
  // Several texts at once: each call makes Envoy build a message and merge it.
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

  // A short word in upper case for %CUSTOM_FLAGS% of access logs.
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

  // A request of our own; it ends with this stream. Answered by the filter's SideRequestHooks.
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
  // False: that side stream is over.
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
  bool receivedIsBuffered(Direction direction) const {
    return direction == Direction::Request
               ? raw::envoy_dynamic_module_callback_http_received_buffered_request_body(handle_)
               : raw::envoy_dynamic_module_callback_http_received_buffered_response_body(handle_);
  }

  raw::StreamPtr handle_;
};

}  // namespace idempotency::envoy
