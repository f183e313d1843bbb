#include "source/fingerprint/json_pointer_set.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::fingerprint {
namespace {

using testing::ElementsAre;
using Node = JsonPointerSet::Node;

JsonPointer pointer(std::string_view text) {
  return *JsonPointer::parse(text);
}

std::vector<std::string> textsOf(const JsonPointerSet& set) {
  std::vector<std::string> texts;
  for (const JsonPointer& pointer : set) {
    texts.push_back(pointer.text());
  }
  return texts;
}

TEST(JsonPointerSetTest, OrderAndRepetitionDoNotMatter) {
  const JsonPointerSet set = {pointer("/b"), pointer("/a/c"), pointer("/b"), pointer("/a")};
  EXPECT_THAT(textsOf(set), ElementsAre("/a", "/a/c", "/b"));
  EXPECT_EQ(set, JsonPointerSet({pointer("/a"), pointer("/b"), pointer("/a/c")}));
  EXPECT_FALSE(set == JsonPointerSet({pointer("/a"), pointer("/b")}));
}

TEST(JsonPointerSetTest, GrowsOneByOne) {
  JsonPointerSet set;
  EXPECT_TRUE(set.empty());
  set.push_back(pointer("/b"));
  set.push_back(pointer("/a"));
  set.push_back(pointer("/b"));
  EXPECT_EQ(set.size(), 2U);
  EXPECT_EQ(set.member(*set.root(), "a")->pointer(), 0U);
  EXPECT_EQ(set.member(*set.root(), "b")->pointer(), 1U);
}

TEST(JsonPointerSetTest, EmptyPointerEndsAtTheRoot) {
  EXPECT_EQ(JsonPointerSet().root()->pointer(), Node::NoPointer);
  EXPECT_EQ(JsonPointerSet({pointer("")}).root()->pointer(), 0U);
}

TEST(JsonPointerSetTest, StepsLeadToPointersAndNowhereElse) {
  const JsonPointerSet set = {pointer("/a/b"), pointer("/a/c"), pointer("/x")};
  const Node* const a = set.member(*set.root(), "a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->pointer(), Node::NoPointer);
  EXPECT_EQ(set.member(*a, "b")->pointer(), 0U);
  EXPECT_EQ(set.member(*a, "c")->pointer(), 1U);
  EXPECT_EQ(set.member(*a, "x"), nullptr);
  EXPECT_EQ(set.member(*a, ""), nullptr);
  EXPECT_EQ(set.member(*set.root(), "x")->pointer(), 2U);
  EXPECT_EQ(set.member(*set.root(), "b"), nullptr);
}

TEST(JsonPointerSetTest, NamesAreFoundByTheirCanonicalForm) {
  const JsonPointerSet set = {pointer("/\n"), pointer("/q\"/x"), pointer("/a~1b"), pointer("/z")};
  EXPECT_NE(set.member(*set.root(), "\\n"), nullptr);
  EXPECT_NE(set.member(*set.root(), "q\\\""), nullptr);
  EXPECT_NE(set.member(*set.root(), "a/b"), nullptr);
  EXPECT_NE(set.member(*set.root(), "z"), nullptr);
  EXPECT_EQ(set.member(*set.root(), "\n"), nullptr);
}

TEST(JsonPointerSetTest, OnlyIndexesWithoutLeadingZerosNameElements) {
  const JsonPointerSet set = {pointer("/0"),  pointer("/10"), pointer("/9"),
                              pointer("/01"), pointer("/-"),  pointer("/4294967296"),
                              pointer("/+3"), pointer("/5x"), pointer("/")};
  for (const auto& [index, text] :
       {std::pair<uint32_t, std::string>{0, "/0"}, {9, "/9"}, {10, "/10"}}) {
    const Node* const node = set.element(*set.root(), index);
    ASSERT_NE(node, nullptr);
    EXPECT_EQ((set.begin() + node->pointer())->text(), text);
  }
  for (const uint32_t index : {1U, 3U, 5U, 4294967295U}) {
    EXPECT_EQ(set.element(*set.root(), index), nullptr);
  }
}

TEST(JsonPointerSetTest, CopiesStandAlone) {
  JsonPointerSet copy;
  {
    const JsonPointerSet set = {pointer("/a/b")};
    copy = set;
  }
  const Node* const a = copy.member(*copy.root(), "a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(copy.member(*a, "b")->pointer(), 0U);
}

TEST(JsonPointerSetTest, ManyPointersAreFoundOneByOne) {
  std::vector<JsonPointer> pointers;
  for (int i = 0; i < 20000; ++i) {
    pointers.push_back(pointer("/" + std::to_string(i) + "/x"));
  }
  const JsonPointerSet set(pointers);
  for (uint32_t i = 0; i < 20000; ++i) {
    ASSERT_NE(set.element(*set.root(), i), nullptr);
    ASSERT_EQ(set.element(*set.root(), i), set.member(*set.root(), std::to_string(i)));
  }
}

}  // namespace
}  // namespace idempotency::fingerprint
