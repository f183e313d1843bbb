#pragma once

#include <cstddef>

namespace idempotency {

// What operator new gave to the calling thread since resetAllocations(). A program that links this
// library has its global operator new and delete replaced. malloc() called by C libraries is not
// seen.
struct AllocationCount {
  size_t calls = 0;
  size_t peak_bytes = 0;  // The most that was held at one time, above what was held at the reset.
};

void resetAllocations();
AllocationCount allocations();

// While it lives, allocations of this thread fail: `good` of them succeed first, then `bad` throw
// std::bad_alloc. At most one per thread.
class FailingAllocations {
public:
  FailingAllocations(size_t good, size_t bad);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  // How many have thrown.
  static size_t thrown();
};

}  // namespace idempotency
