#pragma once

#include <atomic>
#include <cstdint>

namespace idempotency::postgres {

// How many of the last claims met a record, as a moving average. Where most do, a claim looks
// before it inserts: one exchange with the server less. Only speed depends on it.
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
  static constexpr int32_t Memory = 64;  // About so many claims count.

  std::atomic<int32_t> share_{0};
};

}  // namespace idempotency::postgres
