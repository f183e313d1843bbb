#include "source/store/postgres/engine/batch_end.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "test/store/postgres/scripted_operation.h"

namespace idempotency::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Health = BatchVerdict::Health;
using Kind = BatchEnd::Kind;
using Next = Operation::Next;
using Script = ScriptedOperation::Script;

class BatchEndTest : public ::testing::Test {
protected:
  std::shared_ptr<OperationLog> add(Script script, bool alone = false, uint8_t tries = 0) {
    auto log = std::make_shared<OperationLog>();
    OperationPtr operation = scripted(std::move(script), log);
    operation->alone = alone;
    operation->tries = tries;
    batch_.operations.push_back(std::move(operation));
    arrange(batch_);
    return log;
  }
  BatchVerdict rollBack(const std::string& sqlstate) {
    return conclude(std::move(batch_), {Kind::RolledBack, sqlstate, sqlstate + ": bad", {}});
  }
  BatchVerdict lose() { return conclude(std::move(batch_), {Kind::Lost, "", "cut", {}}); }
  BatchVerdict commit() {
    BatchEnd end{Kind::Committed, "", "", {}};
    for (size_t i = 0; i < statementCount(batch_); ++i) {
      end.results.push_back(makeResult({{"x"}}, 1));
    }
    return conclude(std::move(batch_), std::move(end));
  }

  Batch batch_;
};

const Operation::Orphan SomeClaim{{{"t", "o", "k"}, 7}, true, std::chrono::seconds(1)};

TEST_F(BatchEndTest, CommittedOperationsGetTheirResults) {
  const auto a = add({.key = "a"});
  const auto b = add({.key = "b", .after_results = Next::SendAgain});
  const BatchVerdict verdict = commit();
  EXPECT_EQ(a->results, 1);
  EXPECT_TRUE(a->destroyed);
  EXPECT_EQ(b->results, 1);
  EXPECT_THAT(keysOf(verdict.send_again), ElementsAre("b"));
  EXPECT_EQ(verdict.health, Health::Good);
}

TEST_F(BatchEndTest, OperationThatContinuesAfterASuccessMayShareABatchAgain) {
  add({.key = "a", .after_results = Next::SendAgain}, /*alone=*/true);
  const BatchVerdict verdict = commit();
  EXPECT_FALSE(verdict.send_again[0]->alone);
}

TEST_F(BatchEndTest, UnusedClaimIsReported) {
  add({.key = "a", .orphan = SomeClaim});
  const BatchVerdict verdict = commit();
  ASSERT_EQ(verdict.orphans.size(), 1U);
  EXPECT_EQ(verdict.orphans[0].claim.attempt, 7);
}

TEST_F(BatchEndTest, LostOperationsAreInDoubtAndReadsGoAgain) {
  const auto claim = add({.key = "a", .orphan = SomeClaim});
  const auto read = add({.key = "b", .after_loss = Next::SendAgain});
  const BatchVerdict verdict = lose();
  EXPECT_EQ(claim->lost, 1);
  EXPECT_EQ(claim->reason, "cut");
  EXPECT_EQ(verdict.orphans.size(), 1U);
  EXPECT_THAT(keysOf(verdict.send_again), ElementsAre("b"));
  EXPECT_EQ(verdict.health, Health::Outage);
}

TEST_F(BatchEndTest, BatchWithABadValueIsTakenApart) {
  const auto a = add({.key = "a"});
  const auto b = add({.key = "b"});
  const BatchVerdict verdict = rollBack("22021");
  EXPECT_THAT(keysOf(verdict.send_again), ElementsAre("a", "b"));
  EXPECT_TRUE(verdict.send_again[0]->alone);
  EXPECT_TRUE(verdict.send_again[1]->alone);
  EXPECT_EQ(a->refused + b->refused, 0);
  EXPECT_EQ(verdict.health, Health::NoVerdict) << "bad values are no outage";
}

TEST_F(BatchEndTest, BadValueAloneIsRefused) {
  const auto a = add({.key = "a"}, /*alone=*/true);
  const BatchVerdict verdict = rollBack("22021");
  EXPECT_EQ(a->refused, 1);
  EXPECT_EQ(a->reason, "22021: bad");
  EXPECT_THAT(verdict.send_again, IsEmpty());
  EXPECT_EQ(verdict.health, Health::NoVerdict);
}

TEST_F(BatchEndTest, DeadlockAloneIsTriedAgainButNotForEver) {
  const auto a = add({.key = "a"}, /*alone=*/true, /*tries=*/0);
  BatchVerdict verdict = rollBack("40P01");
  ASSERT_EQ(verdict.send_again.size(), 1U);
  EXPECT_EQ(verdict.send_again[0]->tries, 1);
  batch_ = {};
  batch_.operations = std::move(verdict.send_again);
  arrange(batch_);
  verdict = rollBack("40001");
  ASSERT_EQ(verdict.send_again.size(), 1U);
  batch_ = {};
  batch_.operations = std::move(verdict.send_again);
  arrange(batch_);
  verdict = rollBack("40P01");
  EXPECT_THAT(verdict.send_again, IsEmpty());
  EXPECT_EQ(a->refused, 1);
}

TEST_F(BatchEndTest, TroubleOfTheServerIsToldToAllAtOnce) {
  for (const char* const code :
       {"53100", "25006", "42P01", "57P01", "58030", "XX000", "42501", ""}) {
    const auto a = add({.key = "a"});
    const auto b = add({.key = "b"});
    const BatchVerdict verdict = rollBack(code);
    EXPECT_EQ(a->refused, 1) << code;
    EXPECT_EQ(b->refused, 1) << code;
    EXPECT_THAT(verdict.send_again, IsEmpty()) << code;
    EXPECT_EQ(verdict.health, Health::Outage) << code;
    batch_ = {};
  }
}

TEST_F(BatchEndTest, LockOrTimeLimitOfABatchMeansNothingUntilItsOperationsWereSentAlone) {
  for (const char* const code : {"55P03", "57014"}) {
    add({.key = "a"});
    add({.key = "b"});
    BatchVerdict verdict = rollBack(code);
    EXPECT_THAT(keysOf(verdict.send_again), ElementsAre("a", "b")) << code;
    EXPECT_EQ(verdict.health, Health::NoVerdict) << code;
    batch_ = {};
    batch_.operations.push_back(std::move(verdict.send_again[0]));
    arrange(batch_);
    verdict = rollBack(code);
    EXPECT_EQ(verdict.health, Health::Timeout) << code;
    EXPECT_EQ(verdict.tenant, "t") << code;
    batch_ = {};
  }
}

TEST_F(BatchEndTest, OperationThatMeetsALockAloneWaitsAgainUntilItsDeadline) {
  const auto a = add({.key = "a"}, /*alone=*/true);
  for (int i = 0; i < 10; ++i) {
    BatchVerdict verdict = rollBack("55P03");
    ASSERT_EQ(verdict.send_again.size(), 1U);
    batch_ = {};
    batch_.operations = std::move(verdict.send_again);
    arrange(batch_);
  }
  EXPECT_EQ(a->refused, 0);
  EXPECT_THAT(rollBack("57014").send_again, IsEmpty()) << "what is slow by itself stays slow";
  EXPECT_EQ(a->refused, 1);
}

TEST_F(BatchEndTest, FinishedOperationIsNeverSentAgain) {
  const auto a = add({.key = "a", .finished = true});
  add({.key = "b"});
  const BatchVerdict verdict = rollBack("22021");
  EXPECT_THAT(keysOf(verdict.send_again), ElementsAre("b"));
  EXPECT_TRUE(a->destroyed);
}

TEST_F(BatchEndTest, ZeroedEndRefuses) {
  const auto a = add({.key = "a"});
  const BatchVerdict verdict = conclude(std::move(batch_), {});
  EXPECT_EQ(a->lost, 1);
  EXPECT_EQ(verdict.health, Health::Outage);
}

}  // namespace
}  // namespace idempotency::postgres
