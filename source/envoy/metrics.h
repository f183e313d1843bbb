#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "source/envoy/types.h"

// Handles of metrics, each kind a type of its own: Envoy numbers plain and labelled metrics
// separately, so a mixed-up id would silently change an unrelated metric. Created by
// ConfigHandle::define…, valid as long as the config.
//
// Threads: through a Stream, on its worker; through a ConfigHandle, on the main thread. Plain
// counters and gauges also from any thread through a ConfigHandle while the config exists; labelled
// metrics and histograms never (Envoy crashes).
namespace idempotency::envoy {

struct Counter {
  size_t id = 0;
};
struct Gauge {
  size_t id = 0;
};
struct Histogram {
  size_t id = 0;
};
template <size_t N>
struct LabelledCounter {
  static_assert(N > 0);
  size_t id = 0;
};
template <size_t N>
struct LabelledGauge {
  static_assert(N > 0);
  size_t id = 0;
};

template <size_t N>
using Labels = std::array<std::string_view, N>;

template <size_t N>
std::array<raw::Bytes, N> toBytes(const Labels<N>& labels) {
  std::array<raw::Bytes, N> bytes;
  for (size_t i = 0; i < N; ++i) {
    bytes[i] = toBytes(labels[i]);
  }
  return bytes;
}

}  // namespace idempotency::envoy
