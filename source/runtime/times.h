#pragma once

#include <chrono>
#include <cstdint>

#include "source/store/store.h"

namespace idempotency::runtime {

// Whole seconds since 1970, for headers.
inline int64_t secondsOf(store::StoreTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

// For histograms.
inline uint64_t microsecondsSince(store::Deadline begin) {
  const auto passed = std::chrono::steady_clock::now() - begin;
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(passed).count());
}

}  // namespace idempotency::runtime
