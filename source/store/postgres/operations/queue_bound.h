#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace idempotency::postgres {

// Limits the operations that wait for the database, by number and by bytes. Any thread. Must
// outlive its tickets: hold it by shared_ptr.
class QueueBound : public std::enable_shared_from_this<QueueBound> {
public:
  QueueBound(uint64_t operations, uint64_t bytes) : operations_(operations), bytes_(bytes) {}

  // A place in the queue; gives itself back.
  class Ticket {
  public:
    Ticket() = default;
    Ticket(std::shared_ptr<QueueBound> bound, uint64_t bytes)
        : bound_(std::move(bound)), bytes_(bytes) {}
    Ticket(Ticket&& other) noexcept = default;
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(bound_, other.bound_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Ticket() {
      if (bound_ != nullptr) {
        bound_->used_operations_.fetch_sub(1, std::memory_order_relaxed);
        bound_->used_bytes_.fetch_sub(bytes_, std::memory_order_relaxed);
      }
    }
    explicit operator bool() const { return bound_ != nullptr; }

  private:
    std::shared_ptr<QueueBound> bound_;
    uint64_t bytes_ = 0;
  };

  // Operations after a claim may use all of it. New claims leave a quarter free, so that the
  // outcome of requests that already ran can be stored.
  enum class Use : uint8_t { Begin, Follow };

  // An empty ticket when there is no room.
  [[nodiscard]] Ticket enter(uint64_t bytes, Use use);

  uint64_t usedOperations() const { return used_operations_.load(std::memory_order_relaxed); }
  uint64_t usedBytes() const { return used_bytes_.load(std::memory_order_relaxed); }

private:
  const uint64_t operations_;
  const uint64_t bytes_;
  std::atomic<uint64_t> used_operations_{0};
  std::atomic<uint64_t> used_bytes_{0};
};

}  // namespace idempotency::postgres
