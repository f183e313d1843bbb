#include "source/http/prefer.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::http {
namespace {

using namespace std::chrono_literals;

struct Row {
  std::vector<std::string_view> lines;
  bool respond_async;
  std::optional<std::chrono::seconds> wait;
  std::string others;
};

class PreferTest : public testing::TestWithParam<Row> {};

TEST_P(PreferTest, IsRead) {
  const Preferences preferences = parsePreferences(GetParam().lines);
  EXPECT_EQ(preferences.respond_async, GetParam().respond_async);
  EXPECT_EQ(preferences.wait, GetParam().wait);
  EXPECT_EQ(preferences.others, GetParam().others);
}

// RFC 7240, 2: names without regard to case; a value may be quoted; an empty value is none; white
// space around everything; the first of two with one name counts.
INSTANTIATE_TEST_SUITE_P(
    Grammar, PreferTest,
    testing::Values(
        Row{{}, false, {}, ""}, Row{{""}, false, {}, ""}, Row{{" , ,"}, false, {}, ""},
        Row{{"respond-async"}, true, {}, ""}, Row{{"Respond-ASYNC"}, true, {}, ""},
        Row{{"respond-async=\"\""}, true, {}, ""}, Row{{"respond-async;a=1"}, true, {}, ""},
        Row{{"respond-async, wait=10"}, true, 10s, ""},
        Row{{"wait=10", "respond-async"}, true, 10s, ""},
        Row{{" wait = \"7\" ; x , respond-async "}, true, 7s, ""}, Row{{"wait=0"}, false, 0s, ""},
        Row{{"wait=1, wait=2"}, false, 1s, ""}, Row{{"wait=1", "WAIT=2"}, false, 1s, ""},
        Row{{"return=minimal, respond-async"}, true, {}, "return=minimal"},
        Row{{"return=minimal; a=\"b, c\"", "handling=lenient"},
            false,
            {},
            "return=minimal; a=\"b, c\", handling=lenient"},
        Row{{"a=\"respond-async, \\\"wait=1\""}, false, {}, "a=\"respond-async, \\\"wait=1\""}));

// It is not understood, so it is the upstream's.
INSTANTIATE_TEST_SUITE_P(NotUnderstood, PreferTest,
                         testing::Values(Row{{"respond-async=1"}, false, {}, "respond-async=1"},
                                         Row{{"respond-async2"}, false, {}, "respond-async2"},
                                         Row{{"wait"}, false, {}, "wait"},
                                         Row{{"wait="}, false, {}, "wait="},
                                         Row{{"wait=-1"}, false, {}, "wait=-1"},
                                         Row{{"wait=1.5"}, false, {}, "wait=1.5"},
                                         Row{{"wait=1s"}, false, {}, "wait=1s"},
                                         Row{{"wait=99999999999"}, false, {}, "wait=99999999999"},
                                         Row{{"wait=x, wait=2"}, false, 2s, "wait=x"}));

TEST(PreferenceAppliedTest, NamesWhatTheAnswerFollows) {
  EXPECT_EQ(preferenceApplied({.respond_async = true}, 0ms), "respond-async");
  EXPECT_EQ(preferenceApplied({.respond_async = true, .wait = 2s}, 2000ms),
            "respond-async, wait=2");
  EXPECT_EQ(preferenceApplied({.respond_async = true, .wait = 20s}, 2000ms), "respond-async");
  EXPECT_EQ(preferenceApplied({.wait = 2s}, 2000ms), "wait=2");
  EXPECT_EQ(preferenceApplied({}, 0ms), "");
}

}  // namespace
}  // namespace idempotency::http
