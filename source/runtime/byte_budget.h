#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace idempotency::runtime {

// How many bytes of bodies this process holds and may hold. Any thread, without a lock.
// Must outlive its charges.
class ByteBudget {
public:
  explicit ByteBudget(uint64_t bytes) : bytes_(bytes) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  uint64_t bytes() const { return bytes_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

  // What one owner holds; given back when destroyed. One thread at a time.
  class Charge {
  public:
    Charge() = default;
    explicit Charge(ByteBudget& budget) : budget_(&budget) {}
    Charge(Charge&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Charge& operator=(Charge&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Charge() { set(0); }

    uint64_t bytes() const { return bytes_; }
    // From now on it holds this much, even if there is no room.
    void set(uint64_t bytes);
    // The same, but only if all charges together then hold at most `limit`; holding less is always
    // possible. False: nothing has changed.
    [[nodiscard]] bool trySet(uint64_t bytes, uint64_t limit);

  private:
    ByteBudget* budget_ = nullptr;  // Null: nothing is counted, and there is always room.
    uint64_t bytes_ = 0;
  };

private:
  const uint64_t bytes_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace idempotency::runtime
