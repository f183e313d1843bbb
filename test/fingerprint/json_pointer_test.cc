#include "source/fingerprint/json_pointer.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::fingerprint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> tokensOf(std::string_view text) {
  return JsonPointer::parse(text)->tokens();
}

TEST(JsonPointerTest, TokensStandBetweenSlashes) {
  EXPECT_THAT(tokensOf(""), IsEmpty());
  EXPECT_THAT(tokensOf("/"), ElementsAre(""));
  EXPECT_THAT(tokensOf("/foo"), ElementsAre("foo"));
  EXPECT_THAT(tokensOf("/foo/0"), ElementsAre("foo", "0"));
  EXPECT_THAT(tokensOf("//a//"), ElementsAre("", "a", "", ""));
  EXPECT_THAT(tokensOf("/ /c%d/k\"l"), ElementsAre(" ", "c%d", "k\"l"));
}

// RFC 6901, section 4: ~01 is ~1, not a slash.
TEST(JsonPointerTest, EscapesAreDecodedOnce) {
  EXPECT_THAT(tokensOf("/a~1b/m~0n/~01/~10"), ElementsAre("a/b", "m~n", "~1", "/0"));
}

TEST(JsonPointerTest, TextStaysAsGiven) {
  EXPECT_EQ(JsonPointer::parse("/a~1b")->text(), "/a~1b");
}

TEST(JsonPointerTest, WhatIsNoPointerIsRefusedWithAReason) {
  for (const auto& [text, why] : {std::pair<std::string, std::string>{"a", "start with '/'"},
                                  {"a/b", "start with '/'"},
                                  {"#/a", "start with '/'"},
                                  {" /a", "start with '/'"},
                                  {"/~", "followed by 0 or 1"},
                                  {"/a~2", "followed by 0 or 1"},
                                  {"/~/0", "followed by 0 or 1"},
                                  {"/\x80", "UTF-8"},
                                  {"/\xed\xa0\x80", "UTF-8"}}) {
    const absl::StatusOr<JsonPointer> pointer = JsonPointer::parse(text);
    ASSERT_FALSE(pointer.ok()) << text;
    EXPECT_EQ(pointer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(pointer.status().message()), HasSubstr(why));
  }
}

TEST(JsonPointerTest, PointersReachAsDeepAsBodiesAreRead) {
  std::string text;
  for (size_t i = 0; i < MaxJsonDepth; ++i) {
    text += "/a";
  }
  EXPECT_TRUE(JsonPointer::parse(text).ok());
  EXPECT_FALSE(JsonPointer::parse(text + "/a").ok());
}

}  // namespace
}  // namespace idempotency::fingerprint
