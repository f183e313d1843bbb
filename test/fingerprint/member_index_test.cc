#include "source/fingerprint/member_index.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/fingerprint/canonicalize.h"

namespace idempotency::fingerprint {
namespace {

using testing::ElementsAre;

std::vector<uint32_t> membersOf(const MemberIndex& index, uint32_t object) {
  std::vector<uint32_t> members;
  for (const uint32_t* member = index.find(object);; ++member) {
    members.push_back(*member & Member::Position);
    if ((*member & Member::Last) != 0) {
      return members;
    }
  }
}

TEST(MemberIndexTest, KeptObjectsAreFoundByTheirStart) {
  std::vector<uint32_t> words(32);
  MemberIndex index(words.data(), words.size());
  EXPECT_TRUE(index.empty());
  // An object at 0 that has one at 10, which has one at 20, and then one at 30.
  const size_t first = index.open();
  ASSERT_TRUE(index.add(1));
  const size_t second = index.open();
  ASSERT_TRUE(index.add(11));
  const size_t third = index.open();
  ASSERT_TRUE(index.add(21));
  ASSERT_TRUE(index.add(25));
  ASSERT_TRUE(index.closeAndKeep(third, 20));
  ASSERT_TRUE(index.add(15));
  ASSERT_TRUE(index.closeAndKeep(second, 10));
  ASSERT_TRUE(index.add(8));
  const size_t fourth = index.open();
  ASSERT_TRUE(index.add(31));
  ASSERT_TRUE(index.add(35));
  ASSERT_TRUE(index.closeAndKeep(fourth, 30));
  ASSERT_TRUE(index.closeAndKeep(first, 0));
  EXPECT_FALSE(index.empty());
  ASSERT_TRUE(index.finish());
  EXPECT_THAT(membersOf(index, 0), ElementsAre(1, 8));
  EXPECT_THAT(membersOf(index, 10), ElementsAre(11, 15));
  EXPECT_THAT(membersOf(index, 20), ElementsAre(21, 25));
  EXPECT_THAT(membersOf(index, 30), ElementsAre(31, 35));
}

TEST(MemberIndexTest, ObjectsThatNeedNoOrderLeaveNothing) {
  std::vector<uint32_t> words(4);
  MemberIndex index(words.data(), words.size());
  for (int i = 0; i < 100; ++i) {
    const size_t opened = index.open();
    ASSERT_TRUE(index.add(1));
    ASSERT_TRUE(index.add(2));
    EXPECT_THAT(index.members(opened), ElementsAre(1, 2));
    index.close(opened);
  }
  EXPECT_TRUE(index.empty());
}

TEST(MemberIndexTest, ForgottenObjectsMakeRoom) {
  std::vector<uint32_t> words(8);
  MemberIndex index(words.data(), words.size());
  for (int i = 0; i < 100; ++i) {
    const size_t kept = index.kept();
    ASSERT_TRUE(index.add(1));
    ASSERT_TRUE(index.add(2));
    ASSERT_TRUE(index.closeAndKeep(0, 0));
    index.forget(kept);
  }
  EXPECT_TRUE(index.empty());
}

TEST(MemberIndexTest, FullMemoryIsToldAndNotExceeded) {
  std::vector<uint32_t> words(7, 0xdddddddd);
  MemberIndex index(words.data(), 6);
  ASSERT_TRUE(index.add(1));
  ASSERT_TRUE(index.add(2));
  EXPECT_TRUE(index.closeAndKeep(0, 0));
  ASSERT_TRUE(index.add(11));
  ASSERT_TRUE(index.add(12));
  EXPECT_FALSE(index.closeAndKeep(0, 10));
  ASSERT_TRUE(index.add(13));
  EXPECT_FALSE(index.add(14));
  EXPECT_EQ(words[6], 0xdddddddd);
}

TEST(MemberIndexTest, FinishNeedsAWordPerObject) {
  std::vector<uint32_t> words(5);
  MemberIndex index(words.data(), words.size());
  ASSERT_TRUE(index.add(1));
  ASSERT_TRUE(index.closeAndKeep(0, 0));
  ASSERT_TRUE(index.add(5));
  ASSERT_TRUE(index.closeAndKeep(0, 4));
  EXPECT_FALSE(index.finish());
}

// The shortest distinct names: of one byte, two bytes, three ...; `reverse` so that nothing is
// sorted.
std::vector<std::string> shortNames(size_t count) {
  std::vector<std::string> names = {""};
  for (size_t i = 0; names.size() < count; ++i) {
    for (char c = '~'; c >= '#' && names.size() < count; --c) {
      if (c != '\\') {
        names.push_back(names[i] + c);
      }
    }
  }
  return names;
}

std::string objectOf(const std::vector<std::string>& names, const std::string& value) {
  std::string text = "{";
  for (size_t i = names.size(); i-- > 0;) {
    text += '"' + names[i] + "\":" + value + (i == 0 ? "}" : ",");
  }
  return text;
}

std::string arrayOf(const std::string& value, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ",") + value;
  }
  return text + "]";
}

// Texts with as much to index as their size allows. Escaped names are never sorted in place.
std::vector<std::string> hungryTexts() {
  std::vector<std::string> texts;
  const std::string pair = R"({"\n":1,"":1})";
  std::string nested = pair;
  std::string thin = pair;
  for (int i = 0; i < 120; ++i) {
    nested = R"({"\n":)" + nested + R"(,"":1})";
    thin = R"({"":)" + thin + "}";
  }
  for (const size_t count : {2U, 3U, 5U, 16U, 17U, 18U, 50U, 91U, 92U, 200U, 5000U, 20000U}) {
    const std::vector<std::string> names = shortNames(count);
    texts.push_back(objectOf(names, "1"));
    texts.push_back(arrayOf(objectOf(names, "1"), 20000 / count + 1));
    texts.push_back(objectOf(names, pair));
  }
  for (const size_t count : {1U, 2U, 3U, 10U, 1000U, 20000U}) {
    texts.push_back(arrayOf(pair, count));
    texts.push_back(arrayOf(R"({"\n":0,"z":1,"":1})", count));
    texts.push_back(arrayOf(R"({"":{"\n":1,"":1}})", count));
  }
  texts.push_back(nested);
  texts.push_back(thin);
  texts.push_back(arrayOf(nested, 20));
  texts.push_back(arrayOf(thin, 20));
  texts.push_back(objectOf(shortNames(50), nested));
  return texts;
}

TEST(MemberIndexTest, HungriestTextsFindRoom) {
  for (const std::string& text : hungryTexts()) {
    const std::string canonical = canonicalize(text);
    ASSERT_EQ(canonical.find("rejected"), std::string::npos) << text.substr(0, 80) << canonical;
    ASSERT_EQ(canonical.size(), text.size()) << text.substr(0, 80);
    ASSERT_EQ(canonicalize(canonical), canonical) << text.substr(0, 80);
  }
}

// However a text breaks off, it is malformed, not too large.
TEST(MemberIndexTest, BrokenTextsFindRoom) {
  const std::string malformed = "rejected: " + std::string(describe(JsonRejection::Malformed));
  for (const std::string& text : hungryTexts()) {
    for (size_t size = 1; size < std::min<size_t>(text.size(), 2000); size += 41) {
      ASSERT_EQ(canonicalize(text.substr(0, size)), malformed) << text.substr(0, size);
    }
  }
}

}  // namespace
}  // namespace idempotency::fingerprint
