#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "source/envoy/metrics.h"
#include "source/envoy/side_requests.h"
#include "source/envoy/types.h"

namespace idempotency::envoy {

// Envoy's side of one filter config. Does not own it: do not use it after the config's destructor
// has run. Main thread, except as stated in metrics.h.
class ConfigHandle {
public:
  explicit ConfigHandle(raw::ConfigPtr handle) : handle_(handle) {}
  raw::ConfigPtr handle() const { return handle_; }

  // Definitions: only while the config is being created. None: refused, which makes the config
  // unusable.
  std::optional<Counter> defineCounter(std::string_view name) const {
    return define<Counter>(raw::envoy_dynamic_module_callback_http_filter_config_define_counter,
                           name, {});
  }
  std::optional<Gauge> defineGauge(std::string_view name) const {
    return define<Gauge>(raw::envoy_dynamic_module_callback_http_filter_config_define_gauge, name,
                         {});
  }
  std::optional<Histogram> defineHistogram(std::string_view name) const {
    return define<Histogram>(raw::envoy_dynamic_module_callback_http_filter_config_define_histogram,
                             name, {});
  }
  template <size_t N>
  std::optional<LabelledCounter<N>> defineCounter(std::string_view name,
                                                  const Labels<N>& labels) const {
    return define<LabelledCounter<N>>(
        raw::envoy_dynamic_module_callback_http_filter_config_define_counter, name,
        toBytes(labels));
  }
  template <size_t N>
  std::optional<LabelledGauge<N>> defineGauge(std::string_view name,
                                              const Labels<N>& labels) const {
    return define<LabelledGauge<N>>(
        raw::envoy_dynamic_module_callback_http_filter_config_define_gauge, name, toBytes(labels));
  }

  void increment(Counter counter, uint64_t by = 1) const {
    raw::envoy_dynamic_module_callback_http_filter_config_increment_counter(handle_, counter.id,
                                                                            nullptr, 0, by);
  }
  template <size_t N>
  void increment(LabelledCounter<N> counter, const Labels<N>& labels, uint64_t by = 1) const {
    const auto bytes = toBytes(labels);
    raw::envoy_dynamic_module_callback_http_filter_config_increment_counter(handle_, counter.id,
                                                                            bytes.data(), N, by);
  }
  void increment(Gauge gauge, uint64_t by = 1) const {
    raw::envoy_dynamic_module_callback_http_filter_config_increment_gauge(handle_, gauge.id,
                                                                          nullptr, 0, by);
  }
  void decrement(Gauge gauge, uint64_t by = 1) const {
    raw::envoy_dynamic_module_callback_http_filter_config_decrement_gauge(handle_, gauge.id,
                                                                          nullptr, 0, by);
  }
  void set(Gauge gauge, uint64_t value) const {
    raw::envoy_dynamic_module_callback_http_filter_config_set_gauge(handle_, gauge.id, nullptr, 0,
                                                                    value);
  }
  template <size_t N>
  void set(LabelledGauge<N> gauge, const Labels<N>& labels, uint64_t value) const {
    const auto bytes = toBytes(labels);
    raw::envoy_dynamic_module_callback_http_filter_config_set_gauge(handle_, gauge.id, bytes.data(),
                                                                    N, value);
  }
  void record(Histogram histogram, uint64_t value) const {
    raw::envoy_dynamic_module_callback_http_filter_config_record_histogram_value(
        handle_, histogram.id, nullptr, 0, value);
  }

  // A request without a client, from a task of the config's mailbox. The response goes to the
  // config's SideRequestHooks.
  SideRequestStart startCallout(const SideRequest& request) const {
    SideRequestStart start;
    start.result = raw::envoy_dynamic_module_callback_http_filter_config_http_callout(
        handle_, &start.id, toBytes(request.cluster), request.headers.data(),
        request.headers.size(), toBytes(request.body),
        static_cast<uint64_t>(request.timeout.count()));
    return start;
  }
  SideRequestStart startSideStream(const SideRequest& request, bool end) const {
    SideRequestStart start;
    start.result = raw::envoy_dynamic_module_callback_http_filter_config_start_http_stream(
        handle_, &start.id, toBytes(request.cluster), request.headers.data(),
        request.headers.size(), toBytes(request.body), end,
        static_cast<uint64_t>(request.timeout.count()));
    return start;
  }
  bool sendSideData(uint64_t id, std::string_view data, bool end) const {
    return raw::envoy_dynamic_module_callback_http_filter_config_stream_send_data(
        handle_, id, toBytes(data), end);
  }
  bool sendSideTrailers(uint64_t id, std::span<const Field> trailers) const {
    return raw::envoy_dynamic_module_callback_http_filter_config_stream_send_trailers(
        handle_, id, trailers.data(), trailers.size());
  }
  void resetSideStream(uint64_t id) const {
    raw::envoy_dynamic_module_callback_http_filter_config_reset_http_stream(handle_, id);
  }

  // Subscribes to a secret, only while the config is being created. An empty json names a static
  // secret. None: Envoy 1.39, or refused.
  std::optional<size_t> subscribeSecret(std::string_view name, std::string_view sds_json) const {
    if (raw::envoy_dynamic_module_callback_http_filter_config_generic_secret_subscribe == nullptr) {
      return std::nullopt;
    }
    const size_t id =
        raw::envoy_dynamic_module_callback_http_filter_config_generic_secret_subscribe(
            handle_, toBytes(name), toBytes(sds_json));
    if (id == 0) {
      return std::nullopt;
    }
    return id;
  }
  std::optional<std::string_view> secret(size_t id) const {
    raw::Bytes value{nullptr, 0};
    if (raw::envoy_dynamic_module_callback_http_filter_config_get_generic_secret == nullptr ||
        !raw::envoy_dynamic_module_callback_http_filter_config_get_generic_secret(handle_, id,
                                                                                  &value)) {
      return std::nullopt;
    }
    return toView(value);
  }

private:
  using DefineFunction = raw::MetricResult (*)(raw::ConfigPtr, raw::Bytes, const raw::Bytes*,
                                               size_t, size_t*);

  template <class Metric>
  std::optional<Metric> define(DefineFunction function, std::string_view name,
                               std::span<const raw::Bytes> labels) const {
    Metric metric;
    if (function(handle_, toBytes(name), labels.data(), labels.size(), &metric.id) !=
        raw::MetricResult::Ok) {
      return std::nullopt;
    }
    return metric;
  }

  raw::ConfigPtr handle_;
};

}  // namespace idempotency::envoy
