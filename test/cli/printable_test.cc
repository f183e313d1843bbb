#include "source/cli/printable.h"

#include "gtest/gtest.h"

namespace idempotency::cli {
namespace {

using namespace std::string_view_literals;

TEST(PrintableTest, PlainTextStaysAsItIs) {
  for (const std::string_view text : {"", "abc", "a \\ b \"c\"", "f\xc3\xbc\xc3\xbc",
                                      "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xc2\xa0"}) {
    EXPECT_TRUE(isPrintable(text)) << text;
    EXPECT_EQ(printable(text), text);
  }
}

TEST(PrintableTest, ControlCharactersAndBrokenUtf8AreEscaped) {
  EXPECT_EQ(printable("a\nb"), "a\\nb");
  EXPECT_EQ(printable("\r\t"), "\\r\\t");
  EXPECT_EQ(printable("\0"sv), "\\x00");
  EXPECT_EQ(printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xe2\x82\xac\x01"), "\xe2\x82\xac\\x01");
}

TEST(PrintableTest, EscapesCannotBeMistakenForText) {
  EXPECT_EQ(escaped("a\\nb"), "a\\\\nb");
  EXPECT_EQ(escaped("a\nb"), "a\\nb");
  EXPECT_EQ(printable("\\\n"), "\\\\\\n");
}

}  // namespace
}  // namespace idempotency::cli
