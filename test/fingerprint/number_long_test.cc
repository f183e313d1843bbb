#include <gtest/gtest.h>

#include "test/fingerprint/es6_numbers.h"

namespace idempotency::fingerprint {
namespace {

TEST(NumberLongTest, PublishedSequenceGivesPublishedHash) {
  const Es6Lines lines = es6Lines(100000);
  EXPECT_EQ(lines.bytes, 4031728U);
  EXPECT_EQ(lines.sha256, "22776e6d4b49fa294a0d0f349268e5c28808fe7e0cb2bcbe28f63894e494d4c7");
  EXPECT_EQ(lines.changed, 0U);
}

// Published in the same place; far enough for every kind of number, too far for each run by hand.
TEST(NumberLongTest, PublishedSequenceGivesPublishedHashFurtherOn) {
  const Es6Lines lines = es6Lines(1000000);
  EXPECT_EQ(lines.sha256, "49415fee2c56c77864931bd3624faad425c3c577d6d74e89a83bc725506dad16");
  EXPECT_EQ(lines.changed, 0U);
}

}  // namespace
}  // namespace idempotency::fingerprint
