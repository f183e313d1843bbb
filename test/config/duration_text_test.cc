#include "source/config/duration_text.h"

#include <gtest/gtest.h>

namespace idempotency::config {
namespace {

using namespace std::chrono_literals;

TEST(DurationTextTest, ReadsProtobufsForm) {
  struct Row {
    const char* text;
    DurationParts want;
  };
  for (const Row& row : {
           Row{"0s", {0, 0}},
           Row{"30s", {30, 0}},
           Row{"030s", {30, 0}},
           Row{"1.5s", {1, 500'000'000}},
           Row{"0.000000001s", {0, 1}},
           Row{"1.000s", {1, 0}},
           Row{"-1.5s", {-1, -500'000'000}},
           Row{"-0.5s", {0, -500'000'000}},
           Row{"315576000000s", {315'576'000'000, 0}},
       }) {
    EXPECT_EQ(parseDuration(row.text), std::optional(row.want)) << row.text;
  }
}

TEST(DurationTextTest, RefusesEverythingElse) {
  for (const char* text : {"",
                           "s",
                           "1",
                           "1S",
                           "1 s",
                           " 1s",
                           "1s ",
                           "1m",
                           "1h",
                           "1ms",
                           "1.s",
                           ".5s",
                           "1.0000000000s",
                           "--1s",
                           "+1s",
                           "1e3s",
                           "1,5s",
                           "0x1s",
                           "1.-5s",
                           "-s",
                           "315576000001s",
                           "99999999999999999999s",
                           "1.5.5s",
                           "infs",
                           "nans"}) {
    EXPECT_EQ(parseDuration(text), std::nullopt) << text;
  }
}

TEST(DurationTextTest, WritesTheShortestForm) {
  EXPECT_EQ(formatDuration(0ms), "0s");
  EXPECT_EQ(formatDuration(1ms), "0.001s");
  EXPECT_EQ(formatDuration(250ms), "0.25s");
  EXPECT_EQ(formatDuration(1500ms), "1.5s");
  EXPECT_EQ(formatDuration(10s), "10s");
  EXPECT_EQ(formatDuration(720h), "2592000s");
  EXPECT_EQ(formatDuration(-1500ms), "-1.5s");
}

}  // namespace
}  // namespace idempotency::config
