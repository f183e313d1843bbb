// What the reconciler does with records whose outcome is unknown, and how they are counted.
#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "source/store/operator_rules.h"
#include "source/store/operator_store.h"
#include "test/store/store_contract.h"

namespace idempotency::test {

using namespace std::chrono_literals;

namespace {

using Keys = std::vector<std::string>;

// Far longer than a test takes, far shorter than it lets pass.
constexpr auto Hold = 5min;

protocol::Identity inOperation(const std::string& operation, const std::string& key) {
  return {.tenant = "tenant", .operation = operation, .key = key};
}

std::vector<store::DueRecord> takeDue(store::OperatorStore& by, uint32_t limit = 1000,
                                      const store::OperationSet& operations = {.names = {},
                                                                               .all_but = true}) {
  auto due = by.takeDue(operations, Hold, limit);
  if (!due.ok()) {
    ADD_FAILURE() << due.status();
    return {};
  }
  return *std::move(due);
}

Keys keys(const std::vector<store::DueRecord>& due) {
  Keys found;
  found.reserve(due.size());
  for (const store::DueRecord& record : due) {
    found.push_back(record.claim.identity.key);
  }
  return found;
}

Keys sorted(Keys keys) {
  std::ranges::sort(keys);
  return keys;
}

// --- Which records are due

TEST_P(OperatorContractTest, UnknownRecordIsDueWhenItsTimeHasCome) {
  const store::ClaimRef unknown = mustClaim(identity("late"));
  ASSERT_EQ(markUnknown(unknown, 1h), store::WriteOutcome::Done);
  EXPECT_TRUE(takeDue(*operator_).empty());
  rig_->passTime(2h);
  const auto due = takeDue(*operator_);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due.front().claim.identity, unknown.identity);
  EXPECT_EQ(due.front().claim.attempt, unknown.attempt);
  EXPECT_EQ(due.front().tries, 1U);
  EXPECT_GE(due.front().claim_age, 2h);
  EXPECT_LT(due.front().claim_age, 3h);
}

TEST_P(OperatorContractTest, RecordThatWasNeverScheduledIsDueAtOnce) {
  const store::ClaimRef unknown = mustClaim(identity("unscheduled"));
  ASSERT_EQ(markUnknown(unknown), store::WriteOutcome::Done);
  EXPECT_EQ(keys(takeDue(*operator_)), Keys{"unscheduled"});
}

TEST_P(OperatorContractTest, SweptRecordIsDueWhenItsTimeHasCome) {
  const store::ClaimRef lost = reach(Situation::LeaseOver, identity("lost"));
  EXPECT_EQ(sweep(1000, 1h).to_unknown, 1U);
  EXPECT_TRUE(takeDue(*operator_).empty());
  rig_->passTime(2h);
  const auto due = takeDue(*operator_);
  ASSERT_EQ(keys(due), Keys{"lost"});
  EXPECT_EQ(due.front().claim.attempt, lost.attempt);
}

TEST_P(OperatorContractTest, TakenRecordIsHeldAndItsTriesCount) {
  const store::ClaimRef unknown = mustClaim(identity("held"));
  ASSERT_EQ(markUnknown(unknown), store::WriteOutcome::Done);
  for (uint32_t tries = 1; tries <= 3; ++tries) {
    const auto due = takeDue(*operator_);
    ASSERT_EQ(due.size(), 1U);
    EXPECT_EQ(due.front().tries, tries);
    EXPECT_TRUE(takeDue(*operator_).empty());
    // Requests announce the next try.
    const store::Record record = mustFind(unknown.identity);
    ASSERT_TRUE(record.reconcile_after.has_value());
    EXPECT_GT(*record.reconcile_after, 0ms);
    EXPECT_LE(*record.reconcile_after, Hold);
    rig_->passTime(Hold + 1s);
  }
}

TEST_P(OperatorContractTest, LongestDueIsTakenFirst) {
  for (const auto& [key, after] :
       std::map<std::string, std::chrono::hours>{{"a", 3h}, {"b", 1h}, {"c", 2h}, {"d", 9h}}) {
    ASSERT_EQ(markUnknown(mustClaim(identity(key)), after), store::WriteOutcome::Done);
  }
  rig_->passTime(4h);
  EXPECT_EQ(keys(takeDue(*operator_, 2)), (Keys{"b", "c"}));
  EXPECT_EQ(keys(takeDue(*operator_, 2)), Keys{"a"});
  EXPECT_EQ(keys(takeDue(*operator_, 2)), Keys{});
}

TEST_P(OperatorContractTest, OnlyTheNamedOperationsAreTaken) {
  const Keys operations = {"pay", "refund", "ship", ""};
  for (const std::string& operation : operations) {
    ASSERT_EQ(markUnknown(mustClaim(inOperation(operation, "of " + operation))),
              store::WriteOutcome::Done);
  }
  EXPECT_EQ(keys(takeDue(*operator_, 1000, {.names = {}, .all_but = false})), Keys{});
  EXPECT_EQ(keys(takeDue(*operator_, 1000, {.names = {"no such one"}, .all_but = false})), Keys{});
  EXPECT_EQ(sorted(keys(takeDue(*operator_, 1000, {.names = {"pay", "ship"}, .all_but = false}))),
            (Keys{"of pay", "of ship"}));
  EXPECT_EQ(sorted(keys(takeDue(*operator_, 1000, {.names = {""}, .all_but = true}))),
            Keys{"of refund"});
  EXPECT_EQ(keys(takeDue(*operator_)), Keys{"of "});
}

TEST_P(OperatorContractTest, LongestDueOfManyOperationsIsTakenFirst) {
  int hours = 0;
  for (const char* const operation : {"c", "a", "d", "b"}) {
    ASSERT_EQ(
        markUnknown(mustClaim(inOperation(operation, operation)), std::chrono::hours(++hours)),
        store::WriteOutcome::Done);
  }
  rig_->passTime(9h);
  EXPECT_EQ(keys(takeDue(*operator_, 3)), (Keys{"c", "a", "d"}));
  EXPECT_EQ(keys(takeDue(*operator_, 3)), Keys{"b"});
}

TEST_P(OperatorContractTest, WhatIsSettledIsNeverDue) {
  const store::ClaimRef finished = mustClaim(identity("finished"));
  const store::ClaimRef resolved = mustClaim(identity("resolved"));
  const store::ClaimRef freed = mustClaim(identity("freed"));
  for (const store::ClaimRef& claim : {finished, resolved, freed}) {
    ASSERT_EQ(markUnknown(claim), store::WriteOutcome::Done);
  }
  ASSERT_EQ(complete(finished, completion("late")), store::WriteOutcome::Done);
  ASSERT_EQ(change(resolved, completion("by hand")), store::ChangeOutcome::Done);
  ASSERT_EQ(change(freed, store::Free{}), store::ChangeOutcome::Done);
  EXPECT_EQ(keys(takeDue(*operator_)), Keys{});
}

TEST_P(OperatorContractTest, NextAttemptOfAKeyStartsItsTriesAgain) {
  const store::ClaimRef first = mustClaim(identity("twice"));
  ASSERT_EQ(markUnknown(first), store::WriteOutcome::Done);
  ASSERT_EQ(takeDue(*operator_).size(), 1U);
  ASSERT_EQ(change(first, store::NotRun{}), store::ChangeOutcome::Done);
  const store::ClaimRef second = mustReclaim(first.identity);
  EXPECT_EQ(keys(takeDue(*operator_)), Keys{});
  ASSERT_EQ(markUnknown(second), store::WriteOutcome::Done);
  const auto due = takeDue(*operator_);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due.front().claim.attempt, second.attempt);
  EXPECT_EQ(due.front().tries, 1U);
}

// The first attempt's own late completion is all that this store hears of its end.
TEST_P(OperatorContractTest, KeyThatWasUnknownBeforeCanBecomeUnknownAgain) {
  const store::ClaimRef first = mustClaim(identity("twice"));
  ASSERT_EQ(markUnknown(first, 1h), store::WriteOutcome::Done);
  ASSERT_EQ(complete(first, completion("late")), store::WriteOutcome::Done);
  ASSERT_EQ(change(first, store::Bust{}), store::ChangeOutcome::Done);
  const store::ClaimRef second = mustClaim(first.identity);
  ASSERT_EQ(markUnknown(second), store::WriteOutcome::Done);
  const auto due = takeDue(*operator_);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due.front().claim.attempt, second.attempt);
}

TEST_P(OperatorContractTest, RacingReconcilersTakeEachRecordOnce) {
  constexpr int Records = 60;
  Keys expected;
  for (int i = 0; i < Records; ++i) {
    const store::ClaimRef claim = mustClaim(inOperation(std::to_string(i % 3), std::to_string(i)));
    ASSERT_EQ(markUnknown(claim), store::WriteOutcome::Done);
    expected.push_back(claim.identity.key);
  }
  const auto other = rig_->openOperator();
  std::atomic<int> taken{0};
  const auto takeAll = [&](store::OperatorStore& by, Keys& found) {
    // A caller may pass over what the other one is taking at that moment.
    const store::Deadline end = soon();
    while (taken < Records && std::chrono::steady_clock::now() < end) {
      for (const std::string& key : keys(takeDue(by, 4))) {
        found.push_back(key);
        ++taken;
      }
    }
  };
  Keys ours;
  Keys theirs;
  std::thread racer([&] { takeAll(*other, theirs); });
  takeAll(*operator_, ours);
  racer.join();
  ours.insert(ours.end(), theirs.begin(), theirs.end());
  EXPECT_EQ(sorted(ours), sorted(expected));
}

// --- Asking again, giving up

TEST_P(OperatorContractTest, RecordIsAskedAboutAgainAfterTheTimeThatItsAskerSays) {
  const store::ClaimRef unknown = mustClaim(identity("asked"));
  ASSERT_EQ(markUnknown(unknown), store::WriteOutcome::Done);
  ASSERT_EQ(takeDue(*operator_).size(), 1U);
  ASSERT_EQ(change(unknown, store::AskAgain{.after = 2h}), store::ChangeOutcome::Done);
  const store::Record record = mustFind(unknown.identity);
  EXPECT_EQ(record.state, protocol::RecordState::Unknown);
  ASSERT_TRUE(record.reconcile_after.has_value());
  EXPECT_GT(*record.reconcile_after, 1h);
  EXPECT_LE(*record.reconcile_after, 2h);
  rig_->passTime(1h);
  EXPECT_EQ(keys(takeDue(*operator_)), Keys{});
  rig_->passTime(1h + 1min);
  const auto due = takeDue(*operator_);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due.front().tries, 2U);
}

TEST_P(OperatorContractTest, DeadLetterIsLeftToOperators) {
  const store::ClaimRef dead = mustClaim(identity("dead"));
  const store::ClaimRef alive = mustClaim(identity("alive"));
  ASSERT_EQ(markUnknown(dead, 1h), store::WriteOutcome::Done);
  ASSERT_EQ(markUnknown(alive, 1h), store::WriteOutcome::Done);
  ASSERT_EQ(change(dead, store::GiveUp{}), store::ChangeOutcome::Done);
  const store::Record record = mustFind(dead.identity);
  EXPECT_EQ(record.state, protocol::RecordState::Unknown);
  EXPECT_TRUE(record.dead_letter);
  EXPECT_FALSE(record.reconcile_after.has_value());
  EXPECT_FALSE(mustFind(alive.identity).dead_letter);
  store::RecordFilter filter;
  filter.dead_letters_only = true;
  const auto listed = list(filter);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed.front().identity, dead.identity);
  rig_->passTime(2h);
  EXPECT_EQ(keys(takeDue(*operator_)), Keys{"alive"});
}

TEST_P(OperatorContractTest, OperatorStartsADeadLetterAllOver) {
  const store::ClaimRef unknown = mustClaim(identity("dead"));
  ASSERT_EQ(markUnknown(unknown), store::WriteOutcome::Done);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(takeDue(*operator_).size(), 1U);
    rig_->passTime(Hold + 1s);
  }
  ASSERT_EQ(change(unknown, store::GiveUp{}), store::ChangeOutcome::Done);
  ASSERT_EQ(change(unknown, store::AskAgain{.after = 0ms, .start_over = true}),
            store::ChangeOutcome::Done);
  EXPECT_FALSE(mustFind(unknown.identity).dead_letter);
  const auto due = takeDue(*operator_);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due.front().tries, 1U);
}

TEST_P(OperatorContractTest, DeadLetterCanBeSettledByItsAttemptAndByOperators) {
  const store::ClaimRef late = mustClaim(identity("late"));
  const store::ClaimRef unpaid = mustClaim(identity("unpaid"));
  for (const store::ClaimRef& claim : {late, unpaid}) {
    ASSERT_EQ(markUnknown(claim), store::WriteOutcome::Done);
    ASSERT_EQ(change(claim, store::GiveUp{}), store::ChangeOutcome::Done);
  }
  ASSERT_EQ(complete(late, completion("late")), store::WriteOutcome::Done);
  ASSERT_EQ(change(unpaid, store::NotRun{}), store::ChangeOutcome::Done);
  for (const store::ClaimRef& claim : {late, unpaid}) {
    EXPECT_FALSE(mustFind(claim.identity).dead_letter);
  }
  store::RecordFilter filter;
  filter.dead_letters_only = true;
  EXPECT_TRUE(list(filter).empty());
}

TEST_P(OperatorContractTest, ReconcilerMovesNothingButUnknownRecords) {
  int number = 0;
  for (const Situation situation : AllSituations) {
    for (const store::OperatorAction& action :
         {store::OperatorAction(store::AskAgain{.after = 1h, .start_over = true}),
          store::OperatorAction(store::GiveUp{})}) {
      SCOPED_TRACE(::testing::Message() << name(situation) << ", action " << action.index());
      const store::ClaimRef claim = reach(situation, identity(std::to_string(++number)));
      const std::optional<store::Record> before = lookUp(claim.identity);
      const store::ChangeOutcome expected = store::judgeChange(action, claim.attempt, before);
      EXPECT_EQ(change(claim, action, true), expected);
      EXPECT_TRUE(sameRecord(before, lookUp(claim.identity))) << "dry run";
      EXPECT_EQ(change(claim, action), expected);
      if (expected != store::ChangeOutcome::Done) {
        EXPECT_TRUE(sameRecord(before, lookUp(claim.identity)));
      }
    }
  }
}

TEST_P(OperatorContractTest, StepsOfTheReconcilerAreAudited) {
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("steps"));
  ASSERT_EQ(change(unknown, store::AskAgain{.after = 1h}), store::ChangeOutcome::Done);
  ASSERT_EQ(change(unknown, store::GiveUp{}), store::ChangeOutcome::Done);
  Keys actions;
  for (const AuditEntry& entry : rig_->audit()) {
    EXPECT_EQ(entry.identity, unknown.identity);
    actions.push_back(entry.action);
  }
  EXPECT_EQ(actions, (Keys{"ask_again", "dead_letter"}));
}

// --- The summary

store::Summary summary(store::OperatorStore& by) {
  auto found = by.summary();
  if (!found.ok()) {
    ADD_FAILURE() << found.status();
    return {};
  }
  return *std::move(found);
}

// Zeroes: it does not name the operation.
store::UnsettledUse useOf(store::OperatorStore& by, const std::string& operation = "operation") {
  const auto unsettled = by.unsettled();
  EXPECT_TRUE(unsettled.ok()) << unsettled.status();
  const auto summarized = summary(by).unsettled;
  EXPECT_TRUE(std::ranges::equal(*unsettled, summarized, {}, &store::UnsettledUse::records,
                                 &store::UnsettledUse::records));
  for (const store::UnsettledUse& use : summarized) {
    if (use.operation == operation) {
      return use;
    }
  }
  return {};
}

TEST_P(OperatorContractTest, SummaryCountsWhatIsUnknown) {
  EXPECT_TRUE(summary(*operator_).unsettled.empty());
  const store::ClaimRef lost = reach(Situation::LeaseOver, identity("lost"));
  EXPECT_EQ(useOf(*operator_).records, 0U) << "not swept yet";
  sweep();
  EXPECT_EQ(useOf(*operator_).records, 1U);
  const store::ClaimRef late = reach(Situation::Unknown, identity("late"));
  const store::ClaimRef unpaid = reach(Situation::Unknown, identity("unpaid"));
  reach(Situation::Completed, identity("paid"));
  EXPECT_EQ(useOf(*operator_).records, 3U);
  EXPECT_EQ(useOf(*operator_).dead_letters, 0U);

  ASSERT_EQ(change(unpaid, store::GiveUp{}), store::ChangeOutcome::Done);
  EXPECT_EQ(useOf(*operator_).records, 3U);
  EXPECT_EQ(useOf(*operator_).dead_letters, 1U);
  ASSERT_EQ(change(lost, store::GiveUp{}), store::ChangeOutcome::Done);
  ASSERT_EQ(change(lost, store::AskAgain{.after = 1h, .start_over = true}),
            store::ChangeOutcome::Done);
  EXPECT_EQ(useOf(*operator_).dead_letters, 1U);

  ASSERT_EQ(change(unpaid, store::NotRun{}, true), store::ChangeOutcome::Done);
  EXPECT_EQ(useOf(*operator_).records, 3U) << "a dry run";
  ASSERT_EQ(change(unpaid, store::NotRun{}), store::ChangeOutcome::Done);
  EXPECT_EQ(useOf(*operator_).records, 2U);
  EXPECT_EQ(useOf(*operator_).dead_letters, 0U);
  ASSERT_EQ(change(lost, store::Free{}), store::ChangeOutcome::Done);
  EXPECT_EQ(useOf(*operator_).records, 1U);

  // The completion of a request costs nothing extra, so a background job may be what counts it.
  ASSERT_EQ(complete(late, completion("late")), store::WriteOutcome::Done);
  EXPECT_TRUE(eventually([&] {
    reap();
    return summary(*operator_).unsettled.empty();
  }));
}

TEST_P(OperatorContractTest, SummaryNamesTheOperationsWithMostUnknownRecordsFirst) {
  const std::map<std::string, int> counts = {{"pay", 2}, {"refund", 3}, {"ship", 1}};
  for (const auto& [operation, count] : counts) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(markUnknown(mustClaim(inOperation(operation, std::to_string(i)))),
                store::WriteOutcome::Done);
    }
  }
  std::vector<std::pair<std::string, uint64_t>> found;
  for (const store::UnsettledUse& use : summary(*operator_).unsettled) {
    found.emplace_back(use.operation, use.records);
  }
  const std::vector<std::pair<std::string, uint64_t>> expected = {
      {"refund", 3}, {"pay", 2}, {"ship", 1}};
  EXPECT_EQ(found, expected);
}

TEST_P(OperatorContractTest, SummaryTellsHowLongTheOldestHasBeenUnknown) {
  const store::ClaimRef first = mustClaim(identity("first"));
  rig_->passTime(30min);
  ASSERT_EQ(markUnknown(first), store::WriteOutcome::Done);
  EXPECT_LT(useOf(*operator_).oldest, 10min) << "since it is unknown, not since its claim";
  rig_->passTime(2h);
  const store::ClaimRef second = reach(Situation::Unknown, identity("second"));
  rig_->passTime(1h);
  EXPECT_GE(useOf(*operator_).oldest, 3h);
  EXPECT_LT(useOf(*operator_).oldest, 3h + 10min);
  ASSERT_EQ(change(first, store::AskAgain{.after = 1h, .start_over = true}),
            store::ChangeOutcome::Done);
  EXPECT_GE(useOf(*operator_).oldest, 3h) << "asking does not settle it";
  ASSERT_EQ(change(first, store::NotRun{}), store::ChangeOutcome::Done);
  EXPECT_GE(useOf(*operator_).oldest, 1h);
  EXPECT_LT(useOf(*operator_).oldest, 1h + 10min);
  // It is not counted, even if it is still in some table.
  ASSERT_EQ(complete(second, completion("late")), store::WriteOutcome::Done);
  EXPECT_EQ(useOf(*operator_).oldest, 0ms);
}

TEST_P(OperatorContractTest, SummaryTellsWhichTenantsWait) {
  reach(Situation::Unknown, identity("a", "longest"));
  rig_->passTime(1h);
  reach(Situation::Unknown, identity("b", "shortest"));
  reach(Situation::Unknown, identity("c", "longest"));
  reach(Situation::Completed, identity("d", "content"));
  const store::Summary found = summary(*operator_);
  EXPECT_TRUE(found.tenants_complete);
  ASSERT_EQ(found.tenants.size(), 2U);
  EXPECT_EQ(found.tenants[0].tenant, "longest");
  EXPECT_EQ(found.tenants[0].records, 2U);
  EXPECT_GE(found.tenants[0].oldest, 1h);
  EXPECT_EQ(found.tenants[1].tenant, "shortest");
  EXPECT_EQ(found.tenants[1].records, 1U);
  EXPECT_LT(found.tenants[1].oldest, 1h);
}

TEST_P(OperatorContractTest, SummaryCountsTheRecordsInEachState) {
  using enum protocol::RecordState;
  // First those for which time must pass.
  reach(Situation::Expired, identity("expired"));
  reach(Situation::Completed, identity("completed"));
  reach(Situation::Unknown, identity("unknown"));
  reach(Situation::Unknown, identity("unknown too"));
  reach(Situation::Running, identity("running"));
  const store::Summary found = summary(*operator_);
  EXPECT_TRUE(found.states_complete);
  const std::map<protocol::RecordState, uint64_t> expected = {
      {InProgress, 1}, {Completed, 1}, {Unknown, 2}, {Expired, 1}};
  EXPECT_EQ(found.states, expected);
}

TEST_P(OperatorContractTest, SummaryNamesTheLeaderWhileItsLeaseIsAlive) {
  EXPECT_EQ(summary(*operator_).leader, "");
  Answer<store::Leadership> answer;
  rig_->maintenance().lead("the one", 1h, soon(), answer.callback());
  ASSERT_TRUE(answer.get().ours);
  EXPECT_EQ(summary(*operator_).leader, "the one");
  rig_->passTime(2h);
  EXPECT_EQ(summary(*operator_).leader, "");
}

TEST_P(OperatorContractTest, SummaryTellsVersionAndTime) {
  const store::ClaimRef claim = mustClaim(identity("now"));
  const store::Summary found = summary(*operator_);
  EXPECT_GT(found.schema_version, 0);
  const store::Record record = mustFind(claim.identity);
  EXPECT_GE(found.now, record.created_at);
  EXPECT_LT(found.now, record.created_at + 10min);
}

}  // namespace
}  // namespace idempotency::test
