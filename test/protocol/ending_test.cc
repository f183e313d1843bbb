#include "source/protocol/ending.h"

#include <gtest/gtest.h>

namespace idempotency::protocol {
namespace {

TEST(EndingTest, ZeroedEndingFreesNoKey) {
  EXPECT_TRUE(std::holds_alternative<Unknown>(Ending{}));
}

TEST(EndingTest, OnlyACompletionHasAResponse) {
  Completed completed;
  completed.response = "response";
  EXPECT_EQ(responseBytes(completed), 8U);
  EXPECT_EQ(responseBytes(Unknown{"error", {}}), 0U);
  EXPECT_EQ(responseBytes(Failed{"error"}), 0U);
  EXPECT_EQ(responseBytes(Released{}), 0U);
}

TEST(EndingTest, SizeCountsTheResponseOrTheError) {
  Completed completed;
  completed.response = "response";
  EXPECT_EQ(bytesOf(completed), 8U);
  EXPECT_EQ(bytesOf(Unknown{"error", {}}), 5U);
  EXPECT_EQ(bytesOf(Failed{"failed"}), 6U);
  EXPECT_EQ(bytesOf(Released{}), 0U);
}

}  // namespace
}  // namespace idempotency::protocol
