#include "test/support/allocation_counter.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <malloc.h>
#include <new>

namespace idempotency {
namespace {

thread_local size_t calls = 0;
thread_local int64_t held_bytes = 0;
thread_local int64_t peak_bytes = 0;
thread_local size_t good_left = 0;
thread_local size_t bad_left = 0;
thread_local size_t thrown_count = 0;

// Whether this allocation is to fail.
bool mustFail() {
  if (bad_left == 0) {
    return false;
  }
  if (good_left > 0) {
    --good_left;
    return false;
  }
  --bad_left;
  ++thrown_count;
  return true;
}

void* allocate(size_t size, size_t alignment) {
  void* const memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(std::max<size_t>(size, 1))
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) {
    return nullptr;
  }
  ++calls;
  held_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  peak_bytes = std::max(peak_bytes, held_bytes);
  return memory;
}

void* allocateOrThrow(size_t size, size_t alignment) {
  void* const memory = mustFail() ? nullptr : allocate(size, alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) {
    held_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
    std::free(memory);
  }
}

}  // namespace

void resetAllocations() {
  calls = 0;
  held_bytes = 0;
  peak_bytes = 0;
}

AllocationCount allocations() {
  return {.calls = calls, .peak_bytes = static_cast<size_t>(peak_bytes)};
}

FailingAllocations::FailingAllocations(size_t good, size_t bad) {
  good_left = good;
  bad_left = bad;
  thrown_count = 0;
}

FailingAllocations::~FailingAllocations() {
  bad_left = 0;
}

size_t FailingAllocations::thrown() {
  return thrown_count;
}

}  // namespace idempotency

// All forms, since a sanitizer's runtime replaces those that are left out by its own.
void* operator new(size_t size) {
  return idempotency::allocateOrThrow(size, alignof(std::max_align_t));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return idempotency::allocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return idempotency::allocate(size, alignof(std::max_align_t));
}
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return idempotency::allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  idempotency::release(memory);
}
void operator delete(void* memory, size_t) noexcept {
  idempotency::release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  idempotency::release(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  idempotency::release(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  idempotency::release(memory);
}
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  idempotency::release(memory);
}
void* operator new[](size_t size) {
  return idempotency::allocateOrThrow(size, alignof(std::max_align_t));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return idempotency::allocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return idempotency::allocate(size, alignof(std::max_align_t));
}
void* operator new[](size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return idempotency::allocate(size, static_cast<size_t>(alignment));
}
void operator delete[](void* memory) noexcept {
  idempotency::release(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  idempotency::release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  idempotency::release(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  idempotency::release(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  idempotency::release(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  idempotency::release(memory);
}
