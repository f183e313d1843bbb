#include "source/store/postgres/operations/duplicate_share.h"

#include "gtest/gtest.h"

namespace idempotency::postgres {
namespace {

TEST(DuplicateShareTest, IsHighOnlyWhileMostAreDuplicates) {
  DuplicateShare share;
  EXPECT_FALSE(share.isHigh());
  share.add(true);
  EXPECT_FALSE(share.isHigh()) << "one is no habit";
  for (int i = 0; i < 1000; ++i) {
    share.add(true);
  }
  EXPECT_TRUE(share.isHigh());
  share.add(false);
  EXPECT_TRUE(share.isHigh());
  for (int i = 0; i < 1000; ++i) {
    share.add(i % 3 == 0);
  }
  EXPECT_FALSE(share.isHigh());
}

}  // namespace
}  // namespace idempotency::postgres
