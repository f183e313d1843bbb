#pragma once

#include <atomic>
#include <cstdint>

namespace idempotency::postgres {

// The share of recent claims that found a record, as a moving average. If most do, a claim reads
// before it inserts, which saves a round trip. This affects only the speed.
class DuplicateShare {
public:
  // The store's thread.
  void add(bool duplicate) {
    const int32_t before = share_.load(std::memory_order_relaxed);
    share_.store(before + ((duplicate ? All : 0) - before) / Memory, std::memory_order_relaxed);
  }

  // Any thread.
  bool isHigh() const { return share_.load(std::memory_order_relaxed) > All / 2; }

private:
  static constexpr int32_t All = 1 << 16;
  static constexpr int32_t Memory = 64;  // About how many claims are averaged.

  std::atomic<int32_t> share_{0};
};

}  // namespace idempotency::postgres
