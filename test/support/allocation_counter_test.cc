#include "test/support/allocation_counter.h"

#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency {
namespace {

struct alignas(64) Aligned {
  char bytes[64];
};

// Through a volatile pointer, or the compiler may leave the pair of new and delete out.
template <typename T>
void touch(T* pointer) {
  T* volatile sink = pointer;
  (void)sink;
}

TEST(AllocationCounterTest, EveryFormOfNewCounts) {
  resetAllocations();
  const auto one = std::make_unique<int>(1);
  touch(one.get());
  const auto many = std::make_unique<char[]>(100);
  touch(many.get());
  const auto aligned = std::make_unique<Aligned>();
  touch(aligned.get());
  const std::unique_ptr<int> nothrow(new (std::nothrow) int(1));
  touch(nothrow.get());
  EXPECT_EQ(allocations().calls, 4);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned.get()) % 64, 0);
}

TEST(AllocationCounterTest, NothingIsCountedWhereNothingIsAllocated) {
  const std::string text(100, 'x');
  resetAllocations();
  touch(text.data());
  EXPECT_EQ(allocations().calls, 0);
  EXPECT_EQ(allocations().peak_bytes, 0);
}

TEST(AllocationCounterTest, PeakIsTheMostHeldAtOneTime) {
  resetAllocations();
  for (int i = 0; i < 10; ++i) {
    const auto block = std::make_unique<char[]>(1000);
    touch(block.get());
  }
  EXPECT_EQ(allocations().calls, 10);
  EXPECT_GE(allocations().peak_bytes, 1000);
  EXPECT_LT(allocations().peak_bytes, 2000);
}

// std::string's code is in the shared C++ library, which must call our operator new too.
TEST(AllocationCounterTest, AllocationsInTheSharedLibraryCount) {
  std::string text;
  resetAllocations();
  text.append(1000, 'x');
  EXPECT_EQ(allocations().calls, 1);
}

TEST(AllocationCounterTest, OtherThreadsDoNotCount) {
  resetAllocations();
  std::thread([] { touch(std::make_unique<char[]>(1 << 20).get()); }).join();
  EXPECT_LT(allocations().peak_bytes, 1 << 20);
}

}  // namespace
}  // namespace idempotency
