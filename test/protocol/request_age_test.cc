#include "source/protocol/request_age.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace idempotency::protocol {
namespace {

using namespace std::chrono_literals;

constexpr int64_t Now = 784111777;  // Sun, 06 Nov 1994 08:49:37 GMT

RequestAge judge(std::vector<std::string_view> lines) {
  return judgeRequestAge({"x-time", 60s}, lines, Now);
}

TEST(RequestAgeTest, HttpDateAndSecondsAreRead) {
  EXPECT_EQ(judge({"Sun, 06 Nov 1994 08:49:37 GMT"}), RequestAge::Fresh);
  EXPECT_EQ(judge({"784111777"}), RequestAge::Fresh);
}

TEST(RequestAgeTest, LimitIsInclusiveInBothDirections) {
  EXPECT_EQ(judge({"784111717"}), RequestAge::Fresh);
  EXPECT_EQ(judge({"784111716"}), RequestAge::TooOld);
  EXPECT_EQ(judge({"784111837"}), RequestAge::Fresh);
  EXPECT_EQ(judge({"784111838"}), RequestAge::TooNew);
  EXPECT_EQ(judge({"Sun, 06 Nov 1994 08:48:36 GMT"}), RequestAge::TooOld);
  EXPECT_EQ(judge({"0"}), RequestAge::TooOld);
  EXPECT_EQ(judge({"999999999999"}), RequestAge::TooNew);
}

TEST(RequestAgeTest, NoLineOrTwoAreMissing) {
  EXPECT_EQ(judge({}), RequestAge::Missing);
  EXPECT_EQ(judge({"784111777", "784111777"}), RequestAge::Missing);
}

TEST(RequestAgeTest, OtherTextIsUnreadable) {
  for (const std::string_view text : {"", "now", "-1", "+784111777", "784111777 ", "784111777.5",
                                      "9999999999999", "99999999999999999999999999", "0x10"}) {
    EXPECT_EQ(judge({text}), RequestAge::Unreadable) << text;
  }
}

}  // namespace
}  // namespace idempotency::protocol
