#include <set>

#include "gtest/gtest.h"

#include "source/store/store.h"

namespace idempotency::store {
namespace {

TEST(NewAttemptTest, IsPositiveAndNeverTheSameTwice) {
  std::set<protocol::Attempt> seen;
  for (int i = 0; i < 10'000; ++i) {
    const protocol::Attempt attempt = newAttempt();
    ASSERT_GT(attempt, 0);
    ASSERT_TRUE(seen.insert(attempt).second);
  }
}

TEST(NewAttemptTest, UsesAll63Bits) {
  protocol::Attempt ones = 0;
  protocol::Attempt zeros = 0;
  for (int i = 0; i < 1000; ++i) {
    const protocol::Attempt attempt = newAttempt();
    ones |= attempt;
    zeros |= ~attempt;
  }
  EXPECT_EQ(ones, std::numeric_limits<protocol::Attempt>::max());
  EXPECT_EQ(zeros & std::numeric_limits<protocol::Attempt>::max(),
            std::numeric_limits<protocol::Attempt>::max());
}

}  // namespace
}  // namespace idempotency::store
