#include "source/fingerprint/simd.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace idempotency::fingerprint {
namespace {

// Every byte in every place, among others that are `around`.
void expectMask(const std::function<uint32_t(const Bytes16&)>& mask,
                const std::function<bool(uint8_t)>& want, char around) {
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t place = 0; place < Bytes16::Size; ++place) {
      std::string text(Bytes16::Size, around);
      text[place] = static_cast<char>(byte);
      uint32_t bits = 0;
      for (size_t i = 0; i < text.size(); ++i) {
        bits |= want(static_cast<uint8_t>(text[i])) ? 1U << i : 0;
      }
      ASSERT_EQ(mask(Bytes16::load(text.data())), bits) << byte << " at " << place;
    }
  }
}

TEST(Bytes16Test, MasksTellBytesApart) {
  for (const char around : {'a', '"', '\xff', '\0'}) {
    expectMask([](const Bytes16& bytes) { return bytes.notPlain(); },
               [](uint8_t c) { return c < 0x20 || c >= 0x80 || c == '"' || c == '\\'; }, around);
    expectMask([](const Bytes16& bytes) { return bytes.below0x20(); },
               [](uint8_t c) { return c < 0x20; }, around);
    expectMask([](const Bytes16& bytes) { return bytes.notSpace(); },
               [](uint8_t c) { return c != ' ' && c != '\n' && c != '\r' && c != '\t'; }, around);
    expectMask([](const Bytes16& bytes) { return bytes.equal('"'); },
               [](uint8_t c) { return c == '"'; }, around);
  }
}

TEST(Bytes16Test, DifferencesAreFound) {
  const std::string a = "abcdefghijklmnop";
  for (size_t place = 0; place < Bytes16::Size; ++place) {
    std::string b = a;
    b[place] = '!';
    EXPECT_EQ(Bytes16::load(a.data()).equal(Bytes16::load(b.data())), Bytes16::All ^ (1U << place));
  }
}

TEST(CopyWideTest, CopiesAtLeastWhatIsAskedFor) {
  for (size_t size = 0; size < 200; ++size) {
    std::string from(size + WideSlack, 'x');
    for (size_t i = 0; i < size; ++i) {
      from[i] = static_cast<char>('a' + i % 26);
    }
    std::string to(size + WideSlack, '?');
    copyWide(to.data(), from.data(), size);
    ASSERT_EQ(to.substr(0, size), from.substr(0, size));
  }
}

TEST(CopyWideTest, TextMayMoveDownOverItself) {
  for (size_t gap = 0; gap < 70; ++gap) {
    for (const size_t size : {1U, 31U, 32U, 33U, 100U}) {
      std::string text(gap + size + WideSlack, '?');
      for (size_t i = 0; i < size; ++i) {
        text[gap + i] = static_cast<char>('a' + i % 26);
      }
      const std::string want = text.substr(gap, size);
      copyWide(text.data(), text.data() + gap, size);
      ASSERT_EQ(text.substr(0, size), want) << gap;
    }
  }
}

}  // namespace
}  // namespace idempotency::fingerprint
