#include <set>

#include "gtest/gtest.h"

#include "source/store/store.h"

namespace idempotency {
namespace {

TEST(NewAttemptTest, IsPositiveAndNeverTheSameTwice) {
  std::set<Attempt> seen;
  for (int i = 0; i < 10'000; ++i) {
    const Attempt attempt = newAttempt();
    ASSERT_GT(attempt, 0);
    ASSERT_TRUE(seen.insert(attempt).second);
  }
}

TEST(NewAttemptTest, UsesAll63Bits) {
  Attempt ones = 0;
  Attempt zeros = 0;
  for (int i = 0; i < 1000; ++i) {
    const Attempt attempt = newAttempt();
    ones |= attempt;
    zeros |= ~attempt;
  }
  EXPECT_EQ(ones, std::numeric_limits<Attempt>::max());
  EXPECT_EQ(zeros & std::numeric_limits<Attempt>::max(), std::numeric_limits<Attempt>::max());
}

}  // namespace
}  // namespace idempotency
