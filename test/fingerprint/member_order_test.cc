#include "source/fingerprint/member_order.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "source/fingerprint/json_escape.h"
#include "source/fingerprint/utf8.h"

namespace idempotency::fingerprint {
namespace {

// The definition: names as UTF-16.
std::u16string utf16(const std::u32string& name) {
  std::u16string units;
  for (const char32_t c : name) {
    if (c < 0x10000) {
      units += static_cast<char16_t>(c);
    } else {
      units += static_cast<char16_t>(0xd800 + ((c - 0x10000) >> 10));
      units += static_cast<char16_t>(0xdc00 + ((c - 0x10000) & 0x3ff));
    }
  }
  return units;
}

std::string canonicalName(const std::u32string& name) {
  std::string text;
  for (const char32_t c : name) {
    std::array<char, 4> bytes;
    text.append(bytes.data(), utf8Encode(c, bytes.data()));
  }
  return canonicalString(text);
}

bool isPlain(const std::u32string& name) {
  return std::all_of(name.begin(), name.end(),
                     [](char32_t c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; });
}

int sign(int value) {
  return value < 0 ? -1 : value > 0 ? 1 : 0;
}

// A name with its end and what is readable behind.
std::string guarded(const std::u32string& name) {
  return canonicalName(name) + "\":" + std::string(32, '?');
}

void expectOrder(const std::u32string& a, const std::u32string& b) {
  const int want = sign(utf16(a).compare(utf16(b)));
  const std::string left = guarded(a);
  const std::string right = guarded(b);
  ASSERT_EQ(sign(compareNames(left.data(), right.data())), want) << left << " " << right;
  if (!isPlain(a) || !isPlain(b)) {
    return;
  }
  ASSERT_EQ(sign(comparePlainNames(left.data(), right.data())), want) << left << " " << right;
  const uint64_t x = namePrefix(left.data());
  const uint64_t y = namePrefix(right.data());
  if (x != y) {
    ASSERT_EQ(x < y ? -1 : 1, want) << left << " " << right;
  } else {
    ASSERT_EQ(a.substr(0, 8), b.substr(0, 8));
  }
}

TEST(MemberOrderTest, NamesFollowUtf16) {
  const std::vector<std::u32string> names = {
      U"",           U"a",          U"aa",   U"b",      U" ",      U"!",        U"\"",
      U"#",          U"[",          U"\\",   U"]",      U"\n",     U"\x1f",     U"\x01",
      U"\b",         U"\x7f",       U"\x80", U"\u00e9", U"\ud7ff", U"\ue000",   U"\ufffd",
      U"\U00010000", U"\U0010ffff", U"a\"",  U"a\\",    U"a\n",    U"aa\ufb33", U"aa\U0001f600"};
  for (const std::u32string& a : names) {
    for (const std::u32string& b : names) {
      expectOrder(a, b);
    }
  }
}

std::u32string randomName(std::mt19937& random, const std::u32string& letters, size_t longest) {
  std::u32string name(random() % (longest + 1), U' ');
  for (char32_t& c : name) {
    c = letters[random() % letters.size()];
  }
  return name;
}

TEST(MemberOrderTest, RandomNamesFollowUtf16) {
  constexpr uint32_t Seed = 16;
  std::mt19937 random(Seed);
  const std::u32string letters = U"ab\"\\\n\x01\u00e9\ue000\ufffd\U00010000";
  const std::u32string plain = U"ab !~";
  for (int i = 0; i < 30000; ++i) {
    expectOrder(randomName(random, letters, 5), randomName(random, letters, 5));
    const std::u32string common = randomName(random, plain, 20);
    expectOrder(common + randomName(random, plain, 3), common + randomName(random, plain, 3));
  }
}

// Objects of random names, sorted by both ways that there are.
class SortTest : public testing::Test {
protected:
  void makeMembers(const std::vector<std::u32string>& names) {
    names_ = names;
    text_ = "{";
    members_.clear();
    for (const std::u32string& name : names) {
      members_.push_back(static_cast<uint32_t>(text_.size()));
      text_ += '"' + canonicalName(name) + "\":1,";
    }
    text_ += std::string(32, '?');
  }

  bool hasDuplicates() const {
    std::vector<std::u32string> sorted = names_;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  }

  std::vector<uint32_t> wanted() const {
    std::vector<size_t> order(names_.size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    std::sort(order.begin(), order.end(),
              [this](size_t a, size_t b) { return utf16(names_[a]) < utf16(names_[b]); });
    std::vector<uint32_t> members;
    for (const size_t i : order) {
      members.push_back(members_[i]);
    }
    return members;
  }

  SmallOrder::Prefixes prefixes() const {
    SmallOrder::Prefixes prefixes = {};
    for (size_t i = 0; i < members_.size(); ++i) {
      prefixes[i] = namePrefix(text_.data() + members_[i] + 1);
    }
    return prefixes;
  }

  std::vector<std::u32string> names_;
  std::string text_;
  std::vector<uint32_t> members_;
};

TEST_F(SortTest, RandomObjectsAreSortedOrRefused) {
  constexpr uint32_t Seed = 3;
  std::mt19937 random(Seed);
  SmallOrder small_order;  // Over all of them: a last order must not mislead.
  const std::u32string letters = U"abc\"\n\u00e9\U00010000";
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    const bool plain = random() % 2 == 0;
    const std::u32string common = random() % 3 == 0 ? U"shipping_" : U"";
    std::vector<std::u32string> names(random() % 24 + 2);
    for (std::u32string& name : names) {
      name = common + randomName(random, plain ? U"abcdefgh" : letters, 4);
    }
    makeMembers(names);
    refused += hasDuplicates() ? 1 : 0;
    if (plain && names.size() <= SmallOrder::MaxMembers) {
      const uint8_t* const order = small_order.find(text_.data(), members_, prefixes());
      ASSERT_EQ(order == nullptr, hasDuplicates());
      for (size_t place = 0; order != nullptr && place < members_.size(); ++place) {
        ASSERT_EQ(members_[order[place]], wanted()[place]);
      }
    }
    std::vector<uint32_t> sorted = members_;
    ASSERT_EQ(sortMembers(text_.data(), sorted, plain), !hasDuplicates());
    if (!hasDuplicates()) {
      ASSERT_EQ(sorted, wanted());
    }
  }
  EXPECT_GT(refused, 400);
  EXPECT_LT(refused, 3600);
}

TEST_F(SortTest, FlagsStayWithTheirMembers) {
  makeMembers({U"b", U"a"});
  members_[0] |= Member::Excluded;
  ASSERT_TRUE(sortMembers(text_.data(), members_, true));
  EXPECT_EQ(members_[0] & Member::Excluded, 0U);
  EXPECT_EQ(members_[1] & Member::Excluded, Member::Excluded);
}

}  // namespace
}  // namespace idempotency::fingerprint
