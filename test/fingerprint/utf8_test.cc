#include "source/fingerprint/utf8.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace idempotency::fingerprint {
namespace {

bool isSurrogate(uint32_t code_point) {
  return code_point >= 0xd800 && code_point <= 0xdfff;
}

TEST(Utf8Test, EveryCharacterIsReadAsItIsWritten) {
  for (uint32_t code_point = 0x80; code_point <= 0x10ffff; ++code_point) {
    if (isSurrogate(code_point)) {
      continue;
    }
    std::array<char, 5> text = {};
    const size_t size = utf8Encode(code_point, text.data());
    ASSERT_EQ(utf8Length(text.data()), size) << code_point;
  }
}

// All that are well-formed were seen by the test above: the numbers must be the same.
TEST(Utf8Test, NothingElseIsWellFormed) {
  size_t two = 0;
  size_t three = 0;
  size_t four = 0;
  std::array<char, 5> text = {};
  for (int a = 0x80; a < 0x100; ++a) {
    text[0] = static_cast<char>(a);
    for (int b = 0; b < 0x100; ++b) {
      text[1] = static_cast<char>(b);
      text[2] = text[3] = 0;
      two += utf8Length(text.data()) == 2 ? 1 : 0;
      for (int c = 0; c < 0x100 && a >= 0xe0; ++c) {
        text[2] = static_cast<char>(c);
        text[3] = 0;
        three += utf8Length(text.data()) == 3 ? 1 : 0;
        // What the fourth byte may be does not depend on the others.
        for (const int d : {0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff}) {
          text[3] = static_cast<char>(d);
          four += utf8Length(text.data()) == 4 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_EQ(two, 0x800U - 0x80U);
  EXPECT_EQ(three, 0x10000U - 0x800U - 0x800U);
  EXPECT_EQ(four, (0x110000U - 0x10000U) / 64 * 2);
}

TEST(Utf8Test, TextsAreCheckedToTheirEnds) {
  EXPECT_TRUE(isUtf8(""));
  EXPECT_TRUE(isUtf8("abc"));
  EXPECT_TRUE(isUtf8(std::string_view("a\0b", 3)));
  EXPECT_TRUE(isUtf8("\xe2\x82\xac\xf0\x9f\x98\x80"));
  EXPECT_FALSE(isUtf8("abc\xe2\x82"));
  EXPECT_FALSE(isUtf8(std::string_view("\xe2\x82\xac", 2)));
  EXPECT_FALSE(isUtf8("\x80"));
}

}  // namespace
}  // namespace idempotency::fingerprint
