#include "source/protocol/question_template.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace idempotency::protocol {
namespace {

constexpr Attempt Token = 42;

std::optional<std::string> path(std::string_view text, const Identity& identity) {
  const auto parsed = QuestionTemplate::parse(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed->path(identity, Token);
}

std::string header(std::string_view text, const Identity& identity) {
  const auto parsed = QuestionTemplate::parse(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed->headerValue(identity, Token);
}

TEST(QuestionTemplateTest, PlaceholdersStandForTheAttempt) {
  EXPECT_EQ(path("/{operation}/{key}?tenant={tenant}&attempt={attempt}", {"t", "o", "k"}),
            "/o/k?tenant=t&attempt=42");
  EXPECT_EQ(path("/{key}{key}/x", {"t", "o", "k"}), "/kk/x");
  EXPECT_EQ(path("/fixed?a=%20b", {"t", "o", "k"}), "/fixed?a=%20b");
  EXPECT_EQ(header("{tenant}:{operation}:{key}:{attempt}", {"t", "o", "k"}), "t:o:k:42");
  EXPECT_EQ(header("", {"t", "o", "k"}), "");
}

TEST(QuestionTemplateTest, BracesWithoutAKnownNameAreRefused) {
  for (const char* text : {"/{", "/}", "/{}", "/{Key}", "/{key", "/key}", "/{{key}}", "/{token}",
                           "/{ key }", "/{key}/}"}) {
    EXPECT_FALSE(QuestionTemplate::parse(text).has_value()) << text;
  }
}

TEST(QuestionTemplateTest, NoValueLeavesItsPlaceInAPath) {
  EXPECT_EQ(path("/a/{key}/b", {"", "", "x/..y/z"}), "/a/x%2F..y%2Fz/b");
  EXPECT_EQ(path("/a?k={key}&b=1", {"", "", "x&b=2#f %"}), "/a?k=x%26b%3D2%23f%20%25&b=1");
  EXPECT_EQ(path("/{tenant}", {"a b?c", "", ""}), "/a%20b%3Fc");
  EXPECT_EQ(path("/{tenant}", {"caf\xc3\xa9", "", ""}), "/caf%C3%A9");
  EXPECT_EQ(path("/{tenant}", {std::string("\r\n\0", 3), "", ""}), "/%0D%0A%00");
  EXPECT_EQ(path("/{key}", {"", "", "az-AZ.09_~"}), "/az-AZ.09_~");
}

TEST(QuestionTemplateTest, NoPathHasADotSegment) {
  EXPECT_EQ(path("/a/{tenant}/b", {"..", "", ""}), std::nullopt);
  EXPECT_EQ(path("/a/{tenant}", {".", "", ""}), std::nullopt);
  EXPECT_EQ(path("/{tenant}{operation}", {".", ".", ""}), std::nullopt);
  EXPECT_EQ(path("/a/{tenant}", {"...", "", ""}), "/a/...");
  EXPECT_EQ(path("/a/x{tenant}", {"..", "", ""}), "/a/x..");
  EXPECT_EQ(path("/a?t={tenant}", {"..", "", ""}), "/a?t=..");
  EXPECT_EQ(path("/a?t={tenant}", {"x/../y", "", ""}), "/a?t=x%2F..%2Fy");
  // Nor after its slashes were decoded.
  EXPECT_EQ(path("/a/{key}/b", {"", "", "x/../y"}), std::nullopt);
  EXPECT_EQ(path("/a/{tenant}/{key}", {"t", "", "../other/k"}), std::nullopt);
  EXPECT_EQ(path("/a/{key}", {"", "", "x\\..\\y"}), std::nullopt);
  EXPECT_EQ(path("/a/{key}", {"", "", "x/."}), std::nullopt);
}

TEST(QuestionTemplateTest, NoValueEndsAHeader) {
  EXPECT_EQ(header("{key}", {"", "", std::string("a\r\nx: y\0\x7f", 9)}), "a%0D%0Ax: y%00%7F");
  EXPECT_EQ(header("{key}", {"", "", "100%"}), "100%25");
  EXPECT_EQ(header("\"{tenant}\"", {"caf\xc3\xa9 {key}", "", ""}), "\"caf\xc3\xa9 {key}\"");
}

}  // namespace
}  // namespace idempotency::protocol
