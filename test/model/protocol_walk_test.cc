#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "test/model/world.h"

namespace idempotency::model {
namespace {

constexpr uint64_t DefaultWalks = 10'000;
constexpr int Steps = 150;

uint64_t fromEnvironment(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Violation {
  uint64_t seed = 0;
  std::string what;
  std::string log;
};

std::optional<std::string> run(World& world) {
  for (int i = 0; i < Steps; ++i) {
    if (auto violation = world.step()) {
      return violation;
    }
  }
  return world.comeToRest();
}

// The first violation of a walk from this seed; a second walk of the same seed gives its log.
std::optional<Violation> walk(uint64_t seed, Mutant mutant, Coverage& coverage) {
  World world(seed, mutant, coverage);
  const std::optional<std::string> violation = run(world);
  if (!violation) {
    return std::nullopt;
  }
  Coverage unused;
  World again(seed, mutant, unused, true);
  (void)run(again);
  Violation result{seed, *violation, ""};
  for (const std::string& line : again.log()) {
    result.log += line + "\n";
  }
  return result;
}

TEST(ProtocolWalkTest, RandomWalksKeepThePromise) {
  // IDEMPOTENCY_SEED repeats a run, IDEMPOTENCY_WALKS makes it longer.
  const uint64_t seed = fromEnvironment("IDEMPOTENCY_SEED", std::random_device()());
  const uint64_t walks = fromEnvironment("IDEMPOTENCY_WALKS", DefaultWalks);
  std::cout << "IDEMPOTENCY_SEED=" << seed << std::endl;
  Coverage coverage;
  for (uint64_t i = 0; i < walks; ++i) {
    const auto violation = walk(seed + i, Mutant::None, coverage);
    ASSERT_FALSE(violation.has_value())
        << "IDEMPOTENCY_SEED=" << violation->seed << ": " << violation->what << "\n"
        << violation->log;
  }
  for (const auto& [what, count] : coverage.counts) {
    std::cout << "  " << what << ": " << count << "\n";
  }
  for (const char* what : {"run",
                           "replay",
                           "wait",
                           "crash",
                           "claim in doubt",
                           "new life",
                           "write lost",
                           "write of a stale attempt",
                           "second run under RETRY",
                           "run without result",
                           "reconciled as completed",
                           "reconciled as failed",
                           "reclaim from in_progress",
                           "reclaim from failed_retryable",
                           "reclaim from completed",
                           "reclaim from expired",
                           "answer idempotency_in_progress",
                           "answer idempotency_key_reused",
                           "answer idempotency_outcome_unknown",
                           "answer idempotency_response_unavailable",
                           "answer idempotency_key_expired",
                           "answer idempotency_store_unavailable",
                           "event claim",
                           "event reclaim",
                           "event reclaim_dead_lease",
                           "event complete",
                           "event fail",
                           "event release",
                           "event hand_back",
                           "event lose_outcome",
                           "event run_out_of_lease",
                           "event allow_retry",
                           "event resolve_completed",
                           "event resolve_failed",
                           "late completion",
                           "event expire",
                           "event delete"}) {
    EXPECT_GT(coverage.counts[what], walks / 500) << "the walks hardly ever meet: " << what;
  }
}

class MutantTest : public testing::TestWithParam<Mutant> {};

// A checker that finds nothing proves nothing: each of these mistakes must be found, and soon.
TEST_P(MutantTest, IsFound) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= DefaultWalks; ++seed) {
    if (const auto violation = walk(seed, GetParam(), coverage)) {
      std::cout << "found by walk " << seed << ": " << violation->what << "\n";
      return;
    }
  }
  FAIL() << "no walk noticed " << name(GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, MutantTest, testing::ValuesIn(AllMutants),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace idempotency::model
