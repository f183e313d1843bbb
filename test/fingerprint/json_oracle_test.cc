#include "test/fingerprint/json_oracle.h"

#include <string>

#include <gtest/gtest.h>

#include "test/fingerprint/canonicalize.h"
#include "test/fingerprint/hostile_bodies.h"
#include "test/fingerprint/random_json.h"

namespace idempotency::fingerprint {
namespace {

constexpr uint32_t Seed = 8259;

TEST(JsonOracleTest, RandomTextsMeanTheSame) {
  RandomJson random(Seed);
  size_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = random.text();
    ASSERT_EQ(disagreement(text), "") << "seed " << Seed << " round " << i << ": " << text;
    accepted += canonicalize(text).find("rejected: ") == 0 ? 0 : 1;
  }
  EXPECT_GT(accepted, 12000U);
}

TEST(JsonOracleTest, BrokenTextsAreRejectedByBoth) {
  RandomJson random(Seed + 1);
  size_t rejected = 0;
  for (int i = 0; i < 40000; ++i) {
    const std::string text = random.mutated(random.text());
    ASSERT_EQ(disagreement(text), "") << "seed " << Seed + 1 << " round " << i << ": " << text;
    rejected += canonicalize(text).find("rejected: ") == 0 ? 1 : 0;
  }
  EXPECT_GT(rejected, 12000U);
}

TEST(JsonOracleTest, HostileTextsMeanTheSame) {
  for (const HostileBody& body : hostileBodies(20000)) {
    EXPECT_EQ(disagreement(body.text), "") << body.name;
  }
}

TEST(JsonOracleTest, CanonicalFormIsItsOwn) {
  RandomJson random(Seed + 2);
  for (int i = 0; i < 20000; ++i) {
    const std::string canonical = canonicalize(random.text());
    if (canonical.find("rejected: ") != 0) {
      ASSERT_EQ(canonicalize(canonical), canonical);
    }
  }
}

// The oracle itself: it must see what it is asked for.
TEST(JsonOracleTest, OracleSeesDuplicatesDepthAndNumbers) {
  EXPECT_TRUE(askOracle(R"({"a":1,"\u0061":2})").has_duplicates);
  EXPECT_FALSE(askOracle(R"({"a":1,"b":2})").has_duplicates);
  EXPECT_EQ(askOracle("[[{}]]").depth, 3U);
  EXPECT_TRUE(askOracle("100000000000000000000").number_error);
  EXPECT_EQ(askOracle(R"({ "b" : 1.0, "a" : "\u0041" })").canonical, R"({"a":"A","b":1})");
  EXPECT_FALSE(askOracle("[1,]").accepted);
}

}  // namespace
}  // namespace idempotency::fingerprint
