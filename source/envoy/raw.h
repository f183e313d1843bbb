#pragma once

// Envoy's C interface for dynamic modules, as far as this filter uses it: types, numbers and
// prototypes. The names of the functions, the order and width of their parameters, and the numbers
// are Envoy's contract; everything else is ours. Code of the filter does not include this file: it
// uses the safe types in this folder.

#include <cstddef>
#include <cstdint>

namespace idempotency::envoy::raw {

// Bytes that belong to the other side. Not std::string_view, because its members are in the
// opposite order. A null pointer with length 0 means nothing.
struct Bytes {
  const char* data;
  size_t size;
};
static_assert(sizeof(Bytes) == 16 && offsetof(Bytes, size) == 8);

// A header or trailer, also in arrays.
struct Field {
  const char* name;
  size_t name_size;
  const char* value;
  size_t value_size;
};
static_assert(sizeof(Field) == 32 && offsetof(Field, value) == 16);

// Handles. Envoy's are opaque to us, ours are opaque to Envoy.
using StreamPtr = void*;
using ConfigPtr = void*;
using FilterPtr = const void*;
using ModuleConfigPtr = const void*;
using RouteConfigPtr = const void*;

enum class LogLevel : uint32_t { Trace, Debug, Info, Warn, Error, Critical, Off };
enum class HeaderMap : uint32_t { Request, RequestTrailers, Response, ResponseTrailers };
enum class BodyKind : uint32_t {
  ReceivedRequest,
  BufferedRequest,
  ReceivedResponse,
  BufferedResponse,
};
enum class HeadersAction : uint32_t {
  Continue,
  StopIteration,
  ContinueAndDontEndStream,
  StopAllIterationAndBuffer,
  StopAllIterationAndWatermark,
};
enum class BodyAction : uint32_t {
  Continue,
  StopIterationAndBuffer,
  StopIterationAndWatermark,
  StopIterationNoBuffer,
};
enum class TrailersAction : uint32_t { Continue, StopIteration };
enum class LocalReplyAction : uint32_t { Continue, ContinueAndResetStream };
enum class StreamReset : uint32_t { LocalReset, LocalRefusedStreamReset };
enum class MetadataSource : uint32_t { Dynamic, Route, Cluster, Host, HostLocality };
enum class MetricResult : uint32_t { Ok, UnknownId, WrongLabelCount, TooLate };
enum class CalloutStart : uint32_t { Ok, MissingHeader, NoSuchCluster, DuplicateId, CannotCreate };
enum class CalloutResult : uint32_t { Success, Reset, ResponseTooLarge };
enum class SideStreamReset : uint32_t {
  ConnectionFailure,
  ConnectionTermination,
  LocalReset,
  LocalRefusedStreamReset,
  Overflow,
  RemoteReset,
  RemoteRefusedStreamReset,
  ProtocolError,
};

// Only the attributes that are used. The comment gives the type.
enum class Attribute : uint32_t {
  RequestPath = 0,             // string
  RequestUrlPath = 1,          // string
  RequestHost = 2,             // string
  RequestScheme = 3,           // string
  RequestMethod = 4,           // string
  RequestId = 9,               // string
  RequestProtocol = 10,        // string
  RequestQuery = 11,           // string
  ResponseCode = 15,           // int
  ResponseCodeDetails = 16,    // string
  ResponseFlags = 17,          // int, a bit set
  SourceAddress = 24,          // string, ip:port
  ConnectionId = 28,           // int
  ConnectionMtls = 29,         // bool
  PeerSubject = 33,            // string
  PeerDnsSan = 35,             // string, the first one only
  PeerUriSan = 37,             // string, the first one only
  PeerDigest = 38,             // string
  UpstreamAddress = 41,        // string
  UpstreamLocalAddress = 51,   // string
  UpstreamFailureReason = 52,  // string
  UpstreamAttemptCount = 53,   // int, 0 when never tried
  RouteName = 61,              // string, empty when unnamed
};

extern "C" {

// Functions that Envoy provides.

// Process. Any thread; the last two: main thread only.
void envoy_dynamic_module_callback_log(LogLevel level, Bytes message);
bool envoy_dynamic_module_callback_log_enabled(LogLevel level);
bool envoy_dynamic_module_callback_is_validation_mode();
uint32_t envoy_dynamic_module_callback_get_concurrency();

// Headers. Worker. False: the map does not exist at the moment.
bool envoy_dynamic_module_callback_http_get_header(StreamPtr stream, HeaderMap map, Bytes key,
                                                   Bytes* value, size_t index, size_t* total);
size_t envoy_dynamic_module_callback_http_get_headers_size(StreamPtr stream, HeaderMap map);
bool envoy_dynamic_module_callback_http_get_headers(StreamPtr stream, HeaderMap map, Field* out);
bool envoy_dynamic_module_callback_http_add_header(StreamPtr stream, HeaderMap map, Bytes key,
                                                   Bytes value);
bool envoy_dynamic_module_callback_http_set_header(StreamPtr stream, HeaderMap map, Bytes key,
                                                   Bytes value);

// Bodies. Worker.
size_t envoy_dynamic_module_callback_http_get_body_size(StreamPtr stream, BodyKind kind);
size_t envoy_dynamic_module_callback_http_get_body_chunks_size(StreamPtr stream, BodyKind kind);
bool envoy_dynamic_module_callback_http_get_body_chunks(StreamPtr stream, BodyKind kind,
                                                        Bytes* out);
bool envoy_dynamic_module_callback_http_append_body(StreamPtr stream, BodyKind kind, Bytes data);
bool envoy_dynamic_module_callback_http_drain_body(StreamPtr stream, BodyKind kind, size_t bytes);
bool envoy_dynamic_module_callback_http_received_buffered_request_body(StreamPtr stream);
bool envoy_dynamic_module_callback_http_received_buffered_response_body(StreamPtr stream);
uint64_t envoy_dynamic_module_callback_http_get_buffer_limit(StreamPtr stream);
void envoy_dynamic_module_callback_http_set_buffer_limit(StreamPtr stream, uint64_t limit);

// Flow control and replies. Worker. Each of them may end the stream before it returns.
void envoy_dynamic_module_callback_http_filter_continue_decoding(StreamPtr stream);
void envoy_dynamic_module_callback_http_filter_continue_encoding(StreamPtr stream);
void envoy_dynamic_module_callback_http_send_response(StreamPtr stream, uint32_t code,
                                                      const Field* headers, size_t count,
                                                      Bytes body, Bytes details);
void envoy_dynamic_module_callback_http_send_response_headers(StreamPtr stream,
                                                              const Field* headers, size_t count,
                                                              bool end);
void envoy_dynamic_module_callback_http_send_response_data(StreamPtr stream, Bytes data, bool end);
void envoy_dynamic_module_callback_http_send_response_trailers(StreamPtr stream,
                                                               const Field* trailers, size_t count);
void envoy_dynamic_module_callback_http_filter_reset_stream(StreamPtr stream, StreamReset reason,
                                                            Bytes details);
void envoy_dynamic_module_callback_http_clear_route_cache(StreamPtr stream);

// Schedulers. new: worker, or main thread for a config. commit, delete: any thread.
void* envoy_dynamic_module_callback_http_filter_scheduler_new(StreamPtr stream);
void envoy_dynamic_module_callback_http_filter_scheduler_commit(void* scheduler, uint64_t event);
void envoy_dynamic_module_callback_http_filter_scheduler_delete(void* scheduler);
void* envoy_dynamic_module_callback_http_filter_config_scheduler_new(ConfigPtr config);
void envoy_dynamic_module_callback_http_filter_config_scheduler_commit(void* scheduler,
                                                                       uint64_t event);
void envoy_dynamic_module_callback_http_filter_config_scheduler_delete(void* scheduler);

// Properties of a stream. Worker.
bool envoy_dynamic_module_callback_http_filter_get_attribute_string(StreamPtr stream,
                                                                    Attribute attribute,
                                                                    Bytes* value);
bool envoy_dynamic_module_callback_http_filter_get_attribute_int(StreamPtr stream,
                                                                 Attribute attribute,
                                                                 uint64_t* value);
bool envoy_dynamic_module_callback_http_filter_get_attribute_bool(StreamPtr stream,
                                                                  Attribute attribute, bool* value);
bool envoy_dynamic_module_callback_http_get_cluster_name(StreamPtr stream, Bytes* value);
uint32_t envoy_dynamic_module_callback_http_filter_get_worker_index(StreamPtr stream);
const void* envoy_dynamic_module_callback_get_most_specific_route_config(StreamPtr stream);
void envoy_dynamic_module_callback_http_set_dynamic_metadata_string(StreamPtr stream, Bytes ns,
                                                                    Bytes key, Bytes value);
void envoy_dynamic_module_callback_http_set_dynamic_metadata_string_batch(StreamPtr stream,
                                                                          Bytes ns,
                                                                          const Field* entries,
                                                                          size_t count);
void envoy_dynamic_module_callback_http_set_dynamic_metadata_number(StreamPtr stream, Bytes ns,
                                                                    Bytes key, double value);
void envoy_dynamic_module_callback_http_set_dynamic_metadata_bool(StreamPtr stream, Bytes ns,
                                                                  Bytes key, bool value);
bool envoy_dynamic_module_callback_http_get_metadata_string(StreamPtr stream, MetadataSource source,
                                                            Bytes ns, Bytes key, Bytes* value);
bool envoy_dynamic_module_callback_http_get_metadata_number(StreamPtr stream, MetadataSource source,
                                                            Bytes ns, Bytes key, double* value);
bool envoy_dynamic_module_callback_http_get_metadata_bool(StreamPtr stream, MetadataSource source,
                                                          Bytes ns, Bytes key, bool* value);
bool envoy_dynamic_module_callback_http_set_filter_state_bytes(StreamPtr stream, Bytes key,
                                                               Bytes value);
bool envoy_dynamic_module_callback_http_get_filter_state_bytes(StreamPtr stream, Bytes key,
                                                               Bytes* value);
void envoy_dynamic_module_callback_http_add_custom_flag(StreamPtr stream, Bytes flag);
void* envoy_dynamic_module_callback_http_get_active_span(StreamPtr stream);
void envoy_dynamic_module_callback_http_span_set_tag(void* span, Bytes key, Bytes value);
// Valid until the next call for a span on the same thread. False: the tracer does not tell.
bool envoy_dynamic_module_callback_http_span_get_trace_id(void* span, Bytes* value);
bool envoy_dynamic_module_callback_http_span_get_span_id(void* span, Bytes* value);

// Metrics. define: only inside config_new. Through a stream: worker. Through a config: see
// metrics.h.
MetricResult envoy_dynamic_module_callback_http_filter_config_define_counter(
    ConfigPtr config, Bytes name, const Bytes* labels, size_t count, size_t* id);
MetricResult envoy_dynamic_module_callback_http_filter_config_define_gauge(
    ConfigPtr config, Bytes name, const Bytes* labels, size_t count, size_t* id);
MetricResult envoy_dynamic_module_callback_http_filter_config_define_histogram(
    ConfigPtr config, Bytes name, const Bytes* labels, size_t count, size_t* id);
MetricResult envoy_dynamic_module_callback_http_filter_increment_counter(
    StreamPtr stream, size_t id, const Bytes* labels, size_t count, uint64_t value);
MetricResult envoy_dynamic_module_callback_http_filter_increment_gauge(StreamPtr stream, size_t id,
                                                                       const Bytes* labels,
                                                                       size_t count,
                                                                       uint64_t value);
MetricResult envoy_dynamic_module_callback_http_filter_decrement_gauge(StreamPtr stream, size_t id,
                                                                       const Bytes* labels,
                                                                       size_t count,
                                                                       uint64_t value);
MetricResult envoy_dynamic_module_callback_http_filter_set_gauge(StreamPtr stream, size_t id,
                                                                 const Bytes* labels, size_t count,
                                                                 uint64_t value);
MetricResult envoy_dynamic_module_callback_http_filter_record_histogram_value(
    StreamPtr stream, size_t id, const Bytes* labels, size_t count, uint64_t value);
MetricResult envoy_dynamic_module_callback_http_filter_config_increment_counter(
    ConfigPtr config, size_t id, const Bytes* labels, size_t count, uint64_t value);
MetricResult envoy_dynamic_module_callback_http_filter_config_increment_gauge(
    ConfigPtr config, size_t id, const Bytes* labels, size_t count, uint64_t value);
MetricResult envoy_dynamic_module_callback_http_filter_config_decrement_gauge(
    ConfigPtr config, size_t id, const Bytes* labels, size_t count, uint64_t value);
MetricResult envoy_dynamic_module_callback_http_filter_config_set_gauge(ConfigPtr config, size_t id,
                                                                        const Bytes* labels,
                                                                        size_t count,
                                                                        uint64_t value);
MetricResult envoy_dynamic_module_callback_http_filter_config_record_histogram_value(
    ConfigPtr config, size_t id, const Bytes* labels, size_t count, uint64_t value);

// Side requests. Stream: worker. Config: main thread, from a config event.
CalloutStart envoy_dynamic_module_callback_http_filter_http_callout(StreamPtr stream, uint64_t* id,
                                                                    Bytes cluster,
                                                                    const Field* headers,
                                                                    size_t count, Bytes body,
                                                                    uint64_t timeout_ms);
CalloutStart envoy_dynamic_module_callback_http_filter_start_http_stream(
    StreamPtr stream, uint64_t* id, Bytes cluster, const Field* headers, size_t count, Bytes body,
    bool end, uint64_t timeout_ms);
bool envoy_dynamic_module_callback_http_stream_send_data(StreamPtr stream, uint64_t id, Bytes data,
                                                         bool end);
bool envoy_dynamic_module_callback_http_stream_send_trailers(StreamPtr stream, uint64_t id,
                                                             const Field* trailers, size_t count);
void envoy_dynamic_module_callback_http_filter_reset_http_stream(StreamPtr stream, uint64_t id);
CalloutStart envoy_dynamic_module_callback_http_filter_config_http_callout(
    ConfigPtr config, uint64_t* id, Bytes cluster, const Field* headers, size_t count, Bytes body,
    uint64_t timeout_ms);
CalloutStart envoy_dynamic_module_callback_http_filter_config_start_http_stream(
    ConfigPtr config, uint64_t* id, Bytes cluster, const Field* headers, size_t count, Bytes body,
    bool end, uint64_t timeout_ms);
bool envoy_dynamic_module_callback_http_filter_config_stream_send_data(ConfigPtr config,
                                                                       uint64_t id, Bytes data,
                                                                       bool end);
bool envoy_dynamic_module_callback_http_filter_config_stream_send_trailers(ConfigPtr config,
                                                                           uint64_t id,
                                                                           const Field* trailers,
                                                                           size_t count);
void envoy_dynamic_module_callback_http_filter_config_reset_http_stream(ConfigPtr config,
                                                                        uint64_t id);

// Since Envoy 1.40: weak, so null on 1.39. Check the address before each call.
[[gnu::weak]] size_t envoy_dynamic_module_callback_http_filter_config_generic_secret_subscribe(
    ConfigPtr config, Bytes name, Bytes sds_json);
[[gnu::weak]] bool envoy_dynamic_module_callback_http_filter_get_generic_secret(StreamPtr stream,
                                                                                size_t id,
                                                                                Bytes* value);
[[gnu::weak]] bool envoy_dynamic_module_callback_http_filter_config_get_generic_secret(
    ConfigPtr config, size_t id, Bytes* value);
// Only its address is used, to distinguish 1.40 from 1.39; the parameters are omitted.
[[gnu::weak]] void envoy_dynamic_module_callback_http_get_timing_info();

// Functions that Envoy calls, defined in hooks.cc. Thread: worker of the stream, unless filter.h
// says otherwise.
[[gnu::visibility("default")]] const char* envoy_dynamic_module_on_program_init();
[[gnu::visibility("default")]] ModuleConfigPtr envoy_dynamic_module_on_http_filter_config_new(
    ConfigPtr config, Bytes name, Bytes json);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_config_destroy(
    ModuleConfigPtr module_config);
[[gnu::visibility("default")]] RouteConfigPtr
envoy_dynamic_module_on_http_filter_per_route_config_new(Bytes name, Bytes json);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_per_route_config_destroy(
    RouteConfigPtr route_config);
[[gnu::visibility("default")]] FilterPtr envoy_dynamic_module_on_http_filter_new(
    ModuleConfigPtr module_config, StreamPtr stream);
[[gnu::visibility("default")]] HeadersAction envoy_dynamic_module_on_http_filter_request_headers(
    StreamPtr stream, FilterPtr filter, bool end);
[[gnu::visibility("default")]] BodyAction envoy_dynamic_module_on_http_filter_request_body(
    StreamPtr stream, FilterPtr filter, bool end);
[[gnu::visibility("default")]] TrailersAction envoy_dynamic_module_on_http_filter_request_trailers(
    StreamPtr stream, FilterPtr filter);
[[gnu::visibility("default")]] HeadersAction envoy_dynamic_module_on_http_filter_response_headers(
    StreamPtr stream, FilterPtr filter, bool end);
[[gnu::visibility("default")]] BodyAction envoy_dynamic_module_on_http_filter_response_body(
    StreamPtr stream, FilterPtr filter, bool end);
[[gnu::visibility("default")]] TrailersAction envoy_dynamic_module_on_http_filter_response_trailers(
    StreamPtr stream, FilterPtr filter);
[[gnu::visibility("default")]] LocalReplyAction envoy_dynamic_module_on_http_filter_local_reply(
    StreamPtr stream, FilterPtr filter, uint32_t code, Bytes details, bool reset_imminent);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_stream_complete(
    StreamPtr stream, FilterPtr filter);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_destroy(FilterPtr filter);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_scheduled(StreamPtr stream,
                                                                                  FilterPtr filter,
                                                                                  uint64_t event);
[[gnu::visibility("default")]] void
envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(StreamPtr stream,
                                                                                 FilterPtr filter);
[[gnu::visibility("default")]] void
envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(StreamPtr stream,
                                                                                FilterPtr filter);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_http_callout_done(
    StreamPtr stream, FilterPtr filter, uint64_t id, CalloutResult result, const Field* headers,
    size_t header_count, const Bytes* body, size_t chunk_count);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_http_stream_headers(
    StreamPtr stream, FilterPtr filter, uint64_t id, const Field* headers, size_t count, bool end);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_http_stream_data(
    StreamPtr stream, FilterPtr filter, uint64_t id, const Bytes* data, size_t count, bool end);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_http_stream_trailers(
    StreamPtr stream, FilterPtr filter, uint64_t id, const Field* trailers, size_t count);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_http_stream_complete(
    StreamPtr stream, FilterPtr filter, uint64_t id);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_http_stream_reset(
    StreamPtr stream, FilterPtr filter, uint64_t id, SideStreamReset reason);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_config_scheduled(
    ConfigPtr config, ModuleConfigPtr module_config, uint64_t event);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_config_http_callout_done(
    ConfigPtr config, ModuleConfigPtr module_config, uint64_t id, CalloutResult result,
    const Field* headers, size_t header_count, const Bytes* body, size_t chunk_count);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_config_http_stream_headers(
    ConfigPtr config, ModuleConfigPtr module_config, uint64_t id, const Field* headers,
    size_t count, bool end);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_config_http_stream_data(
    ConfigPtr config, ModuleConfigPtr module_config, uint64_t id, const Bytes* data, size_t count,
    bool end);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_config_http_stream_trailers(
    ConfigPtr config, ModuleConfigPtr module_config, uint64_t id, const Field* trailers,
    size_t count);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_config_http_stream_complete(
    ConfigPtr config, ModuleConfigPtr module_config, uint64_t id);
[[gnu::visibility("default")]] void envoy_dynamic_module_on_http_filter_config_http_stream_reset(
    ConfigPtr config, ModuleConfigPtr module_config, uint64_t id, SideStreamReset reason);

}  // extern "C"

}  // namespace idempotency::envoy::raw
