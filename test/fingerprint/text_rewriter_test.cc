#include "source/fingerprint/text_rewriter.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace idempotency::fingerprint {
namespace {

class TextRewriterTest : public testing::Test {
protected:
  char* start(const std::string& text) {
    buffer_ = text + std::string(TextRewriter::Padding, '\0');
    size_ = text.size();
    rewriter_.emplace(buffer_.data());
    return buffer_.data();
  }
  std::string finish() {
    char* const end = buffer_.data() + size_;
    rewriter_->settle(end);
    return buffer_.substr(0, rewriter_->position(end));
  }

  std::string buffer_;
  size_t size_ = 0;
  std::optional<TextRewriter> rewriter_;
};

TEST_F(TextRewriterTest, WhatIsReadStays) {
  start("abc");
  EXPECT_EQ(finish(), "abc");
}

TEST_F(TextRewriterTest, SpaceIsDropped) {
  char* p = start("a \t\r\n                     b  c");
  p = rewriter_->skipSpace(p);
  EXPECT_EQ(*p, 'a');
  p = rewriter_->skipSpace(p + 1);
  EXPECT_EQ(*p, 'b');
  EXPECT_EQ(rewriter_->position(p), 1U);
  p = rewriter_->skipSpace(p + 1);
  EXPECT_EQ(*p, 'c');
  EXPECT_EQ(rewriter_->position(p), 2U);
  EXPECT_EQ(finish(), "abc");
}

TEST_F(TextRewriterTest, OtherControlsAreNoSpace) {
  for (const char c : {'\0', '\v', '\f', '\x1f', '\b'}) {
    char* const p = start(std::string(1, c) + "a");
    EXPECT_EQ(rewriter_->skipSpace(p), p);
  }
}

TEST_F(TextRewriterTest, ReplacedBytesComeInPlaceOfOthers) {
  char* const p = start("ab1.00cd");
  rewriter_->replace(p + 2, p + 6, "1", 1);
  EXPECT_EQ(rewriter_->position(p + 6), 3U);
  EXPECT_EQ(finish(), "ab1cd");
}

TEST_F(TextRewriterTest, RewindForgetsText) {
  char* const p = start("abcdef");
  rewriter_->settle(p + 2);
  rewriter_->rewind(2, p + 4);
  EXPECT_EQ(rewriter_->position(p + 4), 2U);
  EXPECT_EQ(finish(), "abef");
}

TEST_F(TextRewriterTest, TextCanBeChangedBeforeAndAfterItMoved) {
  char* const p = start("a   bcdef");
  char* const b = rewriter_->skipSpace(p + 1);
  EXPECT_EQ(rewriter_->textFrom(1, b + 2), b);  // Not yet moved.
  b[1] = 'C';
  EXPECT_EQ(rewriter_->textFrom(0, b + 3), buffer_.data());  // In two pieces before.
  buffer_[3] = 'D';
  EXPECT_EQ(finish(), "abCDef");
}

// Against a plain string that does the same.
TEST_F(TextRewriterTest, RandomChangesGiveWhatTheyShould) {
  constexpr uint32_t Seed = 7;
  std::mt19937 random(Seed);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t i = random() % 400; i > 0; --i) {
      text += random() % 4 == 0 ? ' ' : static_cast<char>('a' + random() % 26);
    }
    char* p = start(text);
    char* const end = p + text.size();
    std::string want;
    uint32_t settled = 0;
    while (p != end) {
      const auto left = static_cast<size_t>(end - p);
      const size_t count = std::min<size_t>(random() % 40 + 1, left);
      switch (random() % 5) {
        case 0: {
          const std::string other(random() % (count + 1), 'X');
          rewriter_->replace(p, p + count, other.data(), other.size());
          want += other;
          p += count;
          break;
        }
        case 1:
          p = rewriter_->skipSpace(p);
          break;
        case 2:
          rewriter_->settle(p);
          settled = rewriter_->position(p);
          break;
        case 3:
          if (random() % 8 == 0) {
            rewriter_->settle(p);
            settled = static_cast<uint32_t>(settled == 0 ? 0 : random() % settled);
            rewriter_->rewind(settled, p);
            want.resize(settled);
          }
          break;
        default:
          want.append(p, count);
          p += count;
          break;
      }
      ASSERT_EQ(rewriter_->position(p), want.size());
    }
    ASSERT_EQ(finish(), want);
  }
}

}  // namespace
}  // namespace idempotency::fingerprint
