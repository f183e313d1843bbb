#include "test/fuzz/mutator.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

std::vector<std::string> take(Mutator mutator, size_t count) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < count; ++i) {
    inputs.push_back(mutator.next());
  }
  return inputs;
}

TEST(MutatorTest, SameSeedGivesSameInputs) {
  EXPECT_EQ(take(Mutator({"abc", "defgh"}, 1), 1000), take(Mutator({"abc", "defgh"}, 1), 1000));
}

// Compilers and libraries must not matter, or a crash could not be repeated elsewhere.
TEST(MutatorTest, InputsAreTheSameWithEveryCompiler) {
  std::string all;
  for (const std::string& input : take(Mutator({"0123456789", "abcdefghij"}, 1), 1000)) {
    all += input;
  }
  uint32_t sum = 0;
  for (const char c : all) {
    sum = sum * 31 + static_cast<uint8_t>(c);
  }
  EXPECT_EQ(sum, 3520644001);
}

TEST(MutatorTest, AnotherSeedGivesOtherInputs) {
  EXPECT_NE(take(Mutator({"abc", "defgh"}, 1), 100), take(Mutator({"abc", "defgh"}, 2), 100));
}

TEST(MutatorTest, InputsVary) {
  const auto inputs = take(Mutator({"0123456789abcdef0123456789abcdef"}, 1), 1000);
  EXPECT_GT(std::set<std::string>(inputs.begin(), inputs.end()).size(), 900);
}

TEST(MutatorTest, EveryInputOfTheCorpusIsUsed) {
  const auto inputs = take(Mutator({"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"}, 1), 200);
  EXPECT_THAT(inputs, testing::Contains(testing::HasSubstr("aaaa")));
  EXPECT_THAT(inputs, testing::Contains(testing::HasSubstr("bbbb")));
}

TEST(MutatorTest, AnEmptyCorpusFileStillGivesInputs) {
  EXPECT_THAT(take(Mutator({""}, 1), 200), testing::Contains(testing::SizeIs(testing::Gt(0))));
}

TEST(MutatorTest, SizesAreBounded) {
  for (const std::string& input : take(Mutator({std::string(100, 'x')}, 1), 5000)) {
    EXPECT_LE(input.size(), 200);
  }
}

TEST(MutatorTest, EveryByteComesUp) {
  std::set<char> bytes;
  for (const std::string& input : take(Mutator({std::string(64, 'x')}, 1), 20000)) {
    bytes.insert(input.begin(), input.end());
  }
  EXPECT_EQ(bytes.size(), 256);
}

}  // namespace
}  // namespace idempotency
