#include "source/runtime/byte_budget.h"

namespace idempotency::runtime {

void ByteBudget::Charge::set(uint64_t bytes) {
  if (budget_ != nullptr && bytes != bytes_) {
    // Unsigned numbers wrap: the sum is right also where the difference is negative.
    budget_->used_.fetch_add(bytes - bytes_, std::memory_order_relaxed);
  }
  bytes_ = bytes;
}

bool ByteBudget::Charge::trySet(uint64_t bytes, uint64_t limit) {
  if (budget_ == nullptr || bytes <= bytes_) {
    set(bytes);
    return true;
  }
  const uint64_t growth = bytes - bytes_;
  // Added first and checked afterwards, so that two concurrent callers cannot both pass the limit.
  if (budget_->used_.fetch_add(growth, std::memory_order_relaxed) + growth > limit) {
    budget_->used_.fetch_sub(growth, std::memory_order_relaxed);
    return false;
  }
  bytes_ = bytes;
  return true;
}

}  // namespace idempotency::runtime
