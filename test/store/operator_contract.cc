// What operators see and do.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "source/protocol/key_hash.h"
#include "source/store/audit.h"
#include "source/store/operator_rules.h"
#include "source/store/operator_store.h"
#include "test/store/store_contract.h"

namespace idempotency::test {

using namespace std::chrono_literals;

store::ChangeResult OperatorContractTest::change(store::OperatorStore& by,
                                                 const store::ClaimRef& seen,
                                                 store::OperatorAction action, bool dry_run) {
  const auto result = by.change({.seen = seen,
                                 .action = std::move(action),
                                 .actor = "alice",
                                 .reason = "asked the bank",
                                 .dry_run = dry_run});
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    return {};
  }
  return *result;
}

std::vector<store::ListedRecord> OperatorContractTest::list(
    const store::RecordFilter& filter, const std::optional<protocol::Identity>& after,
    uint32_t limit) {
  const auto page = operator_->list(filter, after, limit);
  if (!page.ok()) {
    ADD_FAILURE() << page.status();
    return {};
  }
  return page->records;
}

namespace {

const std::vector<store::OperatorAction>& allActions() {
  static const std::vector<store::OperatorAction> actions = {protocol::Completed{}, store::NotRun{},
                                                             store::Free{}, store::Bust{}};
  return actions;
}

std::vector<std::string> keys(const std::vector<store::ListedRecord>& records) {
  std::vector<std::string> found;
  found.reserve(records.size());
  for (const store::ListedRecord& listed : records) {
    found.push_back(listed.identity.key);
  }
  return found;
}

using Keys = std::vector<std::string>;

// --- Settling

TEST_P(OperatorContractTest, ResultThatTheOperatorBringsIsReplayed) {
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("paid"));
  ASSERT_EQ(change(unknown, completion("the receipt")), store::ChangeOutcome::Done);
  const store::Record record = mustFind(unknown.identity);
  EXPECT_EQ(record.state, protocol::RecordState::Completed);
  EXPECT_EQ(record.response, "the receipt");
  EXPECT_EQ(record.status, completion().status);
  EXPECT_EQ(record.last_error, "");
  EXPECT_FALSE(record.reconcile_after.has_value());
  EXPECT_TRUE(record.completed_at.has_value());
}

TEST_P(OperatorContractTest, TombstoneCanBeTheResult) {
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("paid"));
  protocol::Completed result;
  result.status = 201;
  result.tombstone = protocol::Tombstone::Secret;
  ASSERT_EQ(change(unknown, result), store::ChangeOutcome::Done);
  const store::Record record = mustFind(unknown.identity);
  EXPECT_EQ(record.state, protocol::RecordState::Completed);
  EXPECT_EQ(record.tombstone, protocol::Tombstone::Secret);
  EXPECT_FALSE(record.response.has_value());
}

// Clients that were told "unknown" come back: they must find the result, not an expired record.
TEST_P(OperatorContractTest, SettledRecordPastItsExpiryStartsItsLifeAgain) {
  const store::ClaimRef paid = reach(Situation::UnknownPastLife, identity("paid"));
  const store::ClaimRef unpaid = reach(Situation::UnknownPastLife, identity("unpaid"));
  ASSERT_EQ(change(paid, completion()), store::ChangeOutcome::Done);
  ASSERT_EQ(change(unpaid, store::NotRun{}), store::ChangeOutcome::Done);
  reap();
  for (const store::ClaimRef& claim : {paid, unpaid}) {
    const store::Record record = mustFind(claim.identity);
    EXPECT_FALSE(record.past_life);
    EXPECT_GT(record.life_left, 0ms);
  }
}

TEST_P(OperatorContractTest, KeyThatDidNotRunCanBeClaimedAgainAndTheOldAttemptIsFenced) {
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("unpaid"));
  ASSERT_EQ(change(unknown, store::NotRun{}), store::ChangeOutcome::Done);
  const store::Record record = mustFind(unknown.identity);
  EXPECT_EQ(record.state, protocol::RecordState::FailedRetryable);
  EXPECT_EQ(record.last_error, store::ResolvedNotRunError);
  EXPECT_FALSE(record.reconcile_after.has_value());
  EXPECT_EQ(complete(unknown, completion("late")), store::WriteOutcome::Fenced);
  const store::ClaimRef again = mustReclaim(unknown.identity);
  EXPECT_EQ(complete(unknown, completion("late")), store::WriteOutcome::Fenced);
  EXPECT_EQ(complete(again, completion("again")), store::WriteOutcome::Done);
}

TEST_P(OperatorContractTest, FreedKeyIsAbsentAndTheOldAttemptIsFenced) {
  for (const Situation situation :
       {Situation::Unknown, Situation::UnknownPastLife, Situation::LeaseOver, Situation::Failed}) {
    SCOPED_TRACE(name(situation));
    const store::ClaimRef claim = reach(situation, identity(std::string(name(situation))));
    ASSERT_EQ(change(claim, store::Free{}), store::ChangeOutcome::Done);
    EXPECT_TRUE(isAbsent(claim.identity));
    EXPECT_EQ(complete(claim, completion("late")), store::WriteOutcome::Fenced);
    EXPECT_TRUE(isAbsent(claim.identity));
    mustClaim(claim.identity);
  }
}

TEST_P(OperatorContractTest, BustedResultIsGone) {
  for (const Situation situation : {Situation::Completed, Situation::CompletedPastLife,
                                    Situation::Expired, Situation::FailedPastLife}) {
    SCOPED_TRACE(name(situation));
    const store::ClaimRef claim = reach(situation, identity(std::string(name(situation))));
    ASSERT_EQ(change(claim, store::Bust{}), store::ChangeOutcome::Done);
    EXPECT_TRUE(isAbsent(claim.identity));
    const store::ClaimRef again = mustClaim(claim.identity);
    EXPECT_FALSE(mustFind(again.identity).response.has_value());
  }
}

// --- What an operator must not do

TEST_P(OperatorContractTest, EachSituationAllowsWhatTheRulesSay) {
  int number = 0;
  for (const Situation situation : AllSituations) {
    for (const store::OperatorAction& action : allActions()) {
      SCOPED_TRACE(::testing::Message() << name(situation) << ", action " << action.index());
      const store::ClaimRef claim = reach(situation, identity(std::to_string(++number)));
      const std::optional<store::Record> before = lookUp(claim.identity);
      const store::ChangeOutcome expected = store::judgeChange(action, claim.attempt, before);
      ASSERT_EQ(change(claim, action, true), expected) << "dry run";
      EXPECT_TRUE(sameRecord(before, lookUp(claim.identity))) << "dry run";
      ASSERT_EQ(change(claim, action), expected);
      const std::optional<store::Record> after = lookUp(claim.identity);
      const bool changed = (before.has_value() != after.has_value()) ||
                           (before.has_value() && before->state != after->state);
      EXPECT_EQ(changed, expected == store::ChangeOutcome::Done);
      if (expected != store::ChangeOutcome::Done) {
        EXPECT_TRUE(sameRecord(before, after));
      }
    }
  }
}

TEST_P(OperatorContractTest, RunningRequestKeepsItsClaim) {
  const store::ClaimRef running = mustClaim(identity("running"));
  for (const store::OperatorAction& action : allActions()) {
    EXPECT_EQ(change(running, action), store::ChangeOutcome::Refused);
  }
  EXPECT_EQ(complete(running, completion()), store::WriteOutcome::Done);
}

TEST_P(OperatorContractTest, ChangeOfAnotherAttemptIsStale) {
  const store::ClaimRef old = reach(Situation::Failed, identity("moved"));
  const store::ClaimRef fresh = mustReclaim(old.identity);
  ASSERT_EQ(markUnknown(fresh), store::WriteOutcome::Done);
  const std::optional<store::Record> before = lookUp(old.identity);
  for (const store::OperatorAction& action : allActions()) {
    const store::ChangeResult result = change(*operator_, old, action);
    EXPECT_EQ(result.outcome, store::ChangeOutcome::Stale);
    ASSERT_TRUE(result.found.has_value());
    EXPECT_EQ(result.found->attempt, fresh.attempt);
    EXPECT_EQ(result.found->state, protocol::RecordState::Unknown);
  }
  EXPECT_TRUE(sameRecord(before, lookUp(old.identity)));
  EXPECT_TRUE(std::ranges::none_of(
      rig_->audit(), [&](const AuditEntry& entry) { return entry.identity == old.identity; }));
}

TEST_P(OperatorContractTest, OfTwoOperatorsOnlyOneSettles) {
  for (int round = 0; round < 10; ++round) {
    const store::ClaimRef unknown = reach(Situation::Unknown, identity(std::to_string(round)));
    const auto other = rig_->openOperator();
    store::ChangeOutcome first{}, second{};
    std::thread one([&] { first = change(unknown, completion("one")); });
    second = change(*other, unknown, store::NotRun{}).outcome;
    one.join();
    const std::set<store::ChangeOutcome> outcomes = {first, second};
    EXPECT_EQ(outcomes, (std::set{store::ChangeOutcome::Done, store::ChangeOutcome::Refused}));
    const store::Record record = mustFind(unknown.identity);
    EXPECT_EQ(record.state, first == store::ChangeOutcome::Done
                                ? protocol::RecordState::Completed
                                : protocol::RecordState::FailedRetryable);
  }
}

// The attempt brings its own result while an operator says that it did not run: exactly one of them
// is believed, and if that is the operator, the attempt learns that its result was not stored.
TEST_P(OperatorContractTest, OperatorAndLateCompletionAreNeverBothBelieved) {
  for (int round = 0; round < 10; ++round) {
    const store::ClaimRef unknown = reach(Situation::Unknown, identity(std::to_string(round)));
    store::ChangeOutcome said{};
    std::thread saying([&] { said = change(unknown, store::NotRun{}); });
    store::WriteOutcome wrote{};
    do {
      wrote = complete(unknown, completion("its own"));
    } while (wrote == store::WriteOutcome::Locked);
    saying.join();
    EXPECT_NE(said == store::ChangeOutcome::Done, wrote == store::WriteOutcome::Done);
    EXPECT_EQ(mustFind(unknown.identity).state, wrote == store::WriteOutcome::Done
                                                    ? protocol::RecordState::Completed
                                                    : protocol::RecordState::FailedRetryable);
  }
}

// The first one wins: the attempt learns that its result is not the one that retries get.
TEST_P(OperatorContractTest, LateCompletionLearnsThatAnOperatorHasBroughtTheResult) {
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("paid"));
  ASSERT_EQ(change(unknown, completion("the receipt")), store::ChangeOutcome::Done);
  const auto write = [&](const store::ClaimRef& claim, const std::string& response) {
    Answer<store::WriteResult> answer;
    store().settle(claim, completion(response), soon(), answer.callback());
    return answer.get();
  };
  const store::WriteResult late = write(unknown, "late");
  EXPECT_EQ(late.outcome, store::WriteOutcome::Done);
  EXPECT_TRUE(late.repeated);
  EXPECT_EQ(mustFind(unknown.identity).response, "the receipt");
  const store::ClaimRef own = mustClaim(identity("own"));
  EXPECT_FALSE(write(own, "its own").repeated);
  EXPECT_TRUE(write(own, "its own").repeated) << "the same write again";
}

// --- The audit

TEST_P(OperatorContractTest, ChangeIsAuditedWithItsActorAndReason) {
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("audited"));
  ASSERT_EQ(change(unknown, store::NotRun{}, true), store::ChangeOutcome::Done);
  const store::AuditFilter filter{.tenant = unknown.identity.tenant,
                                  .operation = unknown.identity.operation,
                                  .key = unknown.identity.key,
                                  .attempt = {}};
  auto page = operator_->audit(filter, std::nullopt, 10);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_TRUE(page->entries.empty()) << "a dry run";
  ASSERT_EQ(change(unknown, store::NotRun{}), store::ChangeOutcome::Done);
  ASSERT_EQ(change(unknown, store::NotRun{}), store::ChangeOutcome::Refused);
  page = operator_->audit(filter, std::nullopt, 10);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->entries.size(), 1U);
  const store::AuditEntry& entry = page->entries.front();
  EXPECT_EQ(entry.action, "resolve_not_run");
  EXPECT_EQ(entry.actor, "alice");
  EXPECT_EQ(entry.detail, "asked the bank");
  EXPECT_EQ(entry.identity, unknown.identity);
  EXPECT_EQ(entry.attempt, unknown.attempt);
  EXPECT_EQ(entry.records, 1U);
  EXPECT_GT(entry.at.time_since_epoch(), 0ms);
}

TEST_P(OperatorContractTest, AuditIsReadNewestFirstAndInPages) {
  std::vector<std::string> expected;
  for (int i = 0; i < 5; ++i) {
    const store::ClaimRef unknown = reach(Situation::Unknown, identity(std::to_string(i)));
    ASSERT_EQ(change(unknown, store::NotRun{}), store::ChangeOutcome::Done);
    expected.insert(expected.begin(), unknown.identity.key);
  }
  const store::AuditFilter filter{.tenant = "tenant", .operation = {}, .key = {}, .attempt = {}};
  std::vector<std::string> found;
  std::optional<int64_t> before;
  for (bool more = true; more;) {
    const auto page = operator_->audit(filter, before, 2);
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_LE(page->entries.size(), 2U);
    ASSERT_FALSE(page->entries.empty());
    for (const store::AuditEntry& entry : page->entries) {
      found.push_back(entry.identity->key);
    }
    before = page->entries.back().id;
    more = page->more;
  }
  EXPECT_EQ(found, expected);
}

// --- Looking

TEST_P(OperatorContractTest, FoundRecordIsWhatTheFilterSees) {
  for (const Situation situation : AllSituations) {
    SCOPED_TRACE(name(situation));
    const store::ClaimRef claim = reach(situation, identity(std::string(name(situation))));
    const auto found = operator_->find(claim.identity);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->has_value(), lookUp(claim.identity).has_value());
    if (found->has_value()) {
      EXPECT_EQ((*found)->identity, claim.identity);
      EXPECT_TRUE(sameRecord(lookUp(claim.identity), (*found)->record));
    }
  }
}

TEST_P(OperatorContractTest, ListShowsEveryRecordInOrderAndInPages) {
  Keys expected;
  for (int i = 0; i < 7; ++i) {
    expected.push_back("key-" + std::to_string(i));
    reach(i % 2 == 0 ? Situation::Unknown : Situation::Completed, identity(expected.back()));
  }
  EXPECT_EQ(keys(list()), expected);
  Keys found;
  std::optional<protocol::Identity> after;
  for (bool more = true; more;) {
    const auto page = operator_->list({}, after, 3);
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_LE(page->records.size(), 3U);
    ASSERT_FALSE(page->records.empty());
    std::ranges::copy(keys(page->records), std::back_inserter(found));
    after = page->records.back().identity;
    more = page->more;
  }
  EXPECT_EQ(found, expected);
}

TEST_P(OperatorContractTest, ListIsFiltered) {
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("b", "one"));
  const store::ClaimRef completed = reach(Situation::Completed, identity("c", "one"));
  reach(Situation::Unknown, identity("d", "two"));
  reach(Situation::Failed, identity("e", "two"));
  using enum protocol::RecordState;
  const auto found = [this](const store::RecordFilter& filter) { return keys(list(filter)); };
  store::RecordFilter filter;
  filter.states = {Unknown};
  EXPECT_EQ(found(filter), (Keys{"b", "d"}));
  filter.states = {Unknown, FailedRetryable};
  EXPECT_EQ(found(filter), (Keys{"b", "d", "e"}));
  filter.tenant = "two";
  EXPECT_EQ(found(filter), (Keys{"d", "e"}));
  filter = {};
  filter.key = "c";
  EXPECT_EQ(found(filter), (Keys{"c"}));
  filter = {};
  filter.attempt = unknown.attempt;
  EXPECT_EQ(found(filter), (Keys{"b"}));
  filter = {};
  filter.operation = completed.identity.operation;
  EXPECT_EQ(found(filter).size(), 4U);
  filter.operation = "no such operation";
  EXPECT_EQ(found(filter), Keys{});
  filter = {};
  filter.error = "upstream_503";
  EXPECT_EQ(found(filter), (Keys{"e"}));
  filter = {};
  filter.dead_letters_only = true;
  EXPECT_EQ(found(filter), Keys{});
}

// The access log shows the hash; the same key of another tenant or operation has another one.
TEST_P(OperatorContractTest, RecordIsFoundByTheHashOfItsKey) {
  const store::ClaimRef ours = reach(Situation::Unknown, identity("same", "one"));
  reach(Situation::Unknown, identity("same", "two"));
  reach(Situation::Completed, identity("other", "one"));
  store::RecordFilter filter;
  filter.key_hash = protocol::keyHash(ours.identity);
  const auto listed = list(filter);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed.front().identity, ours.identity);
  filter.states = {protocol::RecordState::Unknown};
  EXPECT_EQ(list(filter).size(), 1U);
  filter.tenant = "two";
  EXPECT_TRUE(list(filter).empty());
  filter = {};
  filter.key_hash = "0123456789abcdef";
  EXPECT_TRUE(list(filter).empty());
}

// A page ends at its limit, not at what it has looked at.
TEST_P(OperatorContractTest, PagesOfAFilteredListAreFull) {
  Keys expected;
  for (int i = 10; i < 30; ++i) {
    const bool wanted = i % 4 == 0;
    reach(wanted ? Situation::Unknown : Situation::Completed, identity(std::to_string(i)));
    if (wanted) {
      expected.push_back(std::to_string(i));
    }
  }
  store::RecordFilter filter;
  filter.states = {protocol::RecordState::Unknown};
  const auto first = operator_->list(filter, std::nullopt, 3);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(keys(first->records), Keys(expected.begin(), expected.begin() + 3));
  EXPECT_TRUE(first->more);
  const auto rest = operator_->list(filter, first->records.back().identity, 2);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(keys(rest->records), Keys(expected.begin() + 3, expected.end()));
  EXPECT_FALSE(rest->more);
}

TEST_P(OperatorContractTest, ListIsFilteredByAge) {
  reach(Situation::Completed, identity("old"));
  rig_->passTime(2h);
  reach(Situation::Completed, identity("new"));
  store::RecordFilter filter;
  filter.min_age = 1h;
  EXPECT_EQ(keys(list(filter)), (Keys{"old"}));
  filter.min_age = 0ms;
  EXPECT_EQ(keys(list(filter)), (Keys{"new", "old"}));
}

TEST_P(OperatorContractTest, ListShowsTheSameAsFindButNoResponses) {
  for (const Situation situation : AllSituations) {
    reach(situation, identity(std::string(name(situation))));
  }
  for (const store::ListedRecord& listed : list()) {
    SCOPED_TRACE(listed.identity.key);
    EXPECT_FALSE(listed.record.response.has_value());
    std::optional<store::Record> expected = lookUp(listed.identity);
    ASSERT_TRUE(expected.has_value());
    expected->response.reset();
    EXPECT_TRUE(sameRecord(expected, listed.record));
  }
}

TEST_P(OperatorContractTest, AnyBytesAreFoundAgain) {
  const protocol::Identity odd{"t\xff\x01", "o'; DROP TABLE record; --", "k\"\\\n\xc3\x28"};
  const store::ClaimRef claim = mustClaim(odd);
  ASSERT_EQ(markUnknown(claim), store::WriteOutcome::Done);
  const auto found = operator_->find(odd);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  store::RecordFilter filter;
  filter.tenant = odd.tenant;
  filter.operation = odd.operation;
  filter.key = odd.key;
  const auto listed = list(filter);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed.front().identity, odd);
  EXPECT_EQ(change(claim, store::NotRun{}), store::ChangeOutcome::Done);
}

TEST_P(OperatorContractTest, TenantsQuotaFollowsWhatOperatorsDelete) {
  const store::ClaimRef completed = reach(Situation::Completed, identity("one"));
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("two"));
  store::ClaimRequest request = claimRequest(identity("three"));
  request.tenant_live_keys = 2;
  ASSERT_TRUE(std::holds_alternative<store::OverQuota>(claim(request)));
  ASSERT_EQ(change(completed, store::Bust{}), store::ChangeOutcome::Done);
  ASSERT_EQ(change(unknown, store::Free{}), store::ChangeOutcome::Done);
  // PostgreSQL counts again from time to time.
  EXPECT_TRUE(eventually([&] {
    reap();
    rig_->passTime(1min);
    return std::holds_alternative<store::Claimed>(claim(request));
  }));
}

}  // namespace
}  // namespace idempotency::test
