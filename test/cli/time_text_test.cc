#include "source/cli/time_text.h"

#include "gtest/gtest.h"

namespace idempotency::cli {
namespace {

using namespace std::chrono_literals;

TEST(TimeTextTest, DurationsShowTheirTwoLargestUnits) {
  EXPECT_EQ(shownDuration(0ms), "0.0s");
  EXPECT_EQ(shownDuration(420ms), "0.4s");
  EXPECT_EQ(shownDuration(1s), "1s");
  EXPECT_EQ(shownDuration(59'999ms), "59s");
  EXPECT_EQ(shownDuration(60s), "1m 0s");
  EXPECT_EQ(shownDuration(2h + 5min + 7s), "2h 5m");
  EXPECT_EQ(shownDuration(76h + 59min), "3d 4h");
}

TEST(TimeTextTest, DurationsAreReadWithTheirUnit) {
  EXPECT_EQ(parseDuration("90"), 90s);
  EXPECT_EQ(parseDuration("90s"), 90s);
  EXPECT_EQ(parseDuration("0s"), 0s);
  EXPECT_EQ(parseDuration("5m"), 5min);
  EXPECT_EQ(parseDuration("2h"), 2h);
  EXPECT_EQ(parseDuration("1d"), 24h);
  EXPECT_EQ(parseDuration("3653d"), 3653 * 24h);
}

TEST(TimeTextTest, WhatIsNoDurationIsRefused) {
  for (const std::string_view text : {"", "s", "-1s", "1.5s", "1w", "1ms", "1 s", "s1", "3654d",
                                      "99999999999999999999s", "9223372036854775807d"}) {
    EXPECT_EQ(parseDuration(text), std::nullopt) << text;
  }
}

TEST(TimeTextTest, TimesAreUtc) {
  EXPECT_EQ(shownTime(store::StoreTime(1'700'000'000'999ms)), "2023-11-14T22:13:20Z");
}

}  // namespace
}  // namespace idempotency::cli
