#include "source/config/suggestion.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace idempotency::config {
namespace {

const std::vector<std::string> Names = {"enforcement", "ttl", "min_key_length", "max_key_length",
                                        "FAIL_OPEN"};

TEST(SuggestionTest, FindsAMisspelledName) {
  struct Case {
    const char* given;
    const char* want;
  };
  for (const Case& test : {
           Case{"enforcment", "enforcement"},         // A character is missing.
           Case{"enforceement", "enforcement"},       // One too many.
           Case{"enfrocement", "enforcement"},        // Two are swapped.
           Case{"Enforcement", "enforcement"},        // Case,
           Case{"min-key-length", "min_key_length"},  // dashes
           Case{"minkeylength", "min_key_length"},    // and underscores do not count.
           Case{"tll", "ttl"},
           Case{"fail-open", "FAIL_OPEN"},
       }) {
    EXPECT_EQ(closestName(test.given, Names), test.want) << test.given;
  }
}

TEST(SuggestionTest, GuessesNothingFromFarAway) {
  for (const char* const given :
       {"", "t", "t1", "abc", "timeout", "length", "OPEN", "enforcing-it"}) {
    EXPECT_EQ(closestName(given, Names), std::nullopt) << given;
  }
  EXPECT_EQ(closestName("ttl", {}), std::nullopt);
}

TEST(SuggestionTest, GuessesNothingBetweenTwoNames) {
  EXPECT_EQ(closestName("mix_key_length", Names), std::nullopt);
}

TEST(SuggestionTest, DoesNotCompareLongText) {
  const std::string text(100'000, 'a');
  EXPECT_EQ(closestName(text, std::vector<std::string>{text}), std::nullopt);
}

}  // namespace
}  // namespace idempotency::config
