// How a tenant's records are deleted.
#include <algorithm>
#include <set>
#include <vector>

#include "source/store/operator_store.h"
#include "test/store/store_contract.h"

namespace idempotency::test {

using namespace std::chrono_literals;

namespace {

store::PurgeResult purge(store::OperatorStore& by, const std::string& tenant, bool dry_run = false,
                         uint32_t limit = 1000) {
  const auto result = by.purge(
      {.tenant = tenant, .actor = "alice", .reason = "contract ended", .dry_run = dry_run}, limit);
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    return {};
  }
  return *result;
}

std::vector<store::AuditEntry> auditOf(store::OperatorStore& by,
                                       const store::AuditFilter& filter = {}) {
  auto page = by.audit(filter, std::nullopt, 1000);
  if (!page.ok()) {
    ADD_FAILURE() << page.status();
    return {};
  }
  return std::move(page->entries);
}

TEST_P(OperatorContractTest, PurgeDeletesWhateverIsNotRunning) {
  std::vector<store::ClaimRef> ended;
  for (const Situation situation : AllSituations) {
    // Time passes on the way to some situations: the leases of the others end.
    if (situation != Situation::Absent && situation != Situation::Running) {
      ended.push_back(reach(situation, identity(std::string(name(situation)))));
    }
  }
  const store::ClaimRef running = mustClaim(identity("running"));
  const store::PurgeResult result = purge(*operator_, "tenant");
  EXPECT_EQ(result.records, ended.size());
  EXPECT_EQ(result.running, 1U);
  EXPECT_FALSE(result.more);
  for (const store::ClaimRef& claim : ended) {
    SCOPED_TRACE(claim.identity.key);
    EXPECT_TRUE(isAbsent(claim.identity));
    EXPECT_EQ(complete(claim, completion("late")), store::WriteOutcome::Fenced);
  }
  EXPECT_EQ(complete(running, completion("its own")), store::WriteOutcome::Done);
  EXPECT_EQ(mustFind(running.identity).response, "its own");
}

TEST_P(OperatorContractTest, PurgeCountsUnknownOutcomes) {
  reach(Situation::Completed, identity("completed"));
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("unknown"));
  const store::ClaimRef dead = reach(Situation::Unknown, identity("dead"));
  ASSERT_EQ(change(dead, store::GiveUp{}), store::ChangeOutcome::Done);
  const store::PurgeResult result = purge(*operator_, "tenant");
  EXPECT_EQ(result.records, 3U);
  EXPECT_EQ(result.unsettled, 2U);
  const auto found = operator_->summary();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->unsettled.empty());
  EXPECT_TRUE(found->tenants.empty());
  rig_->passTime(2h);
  const auto due = operator_->takeDue({.names = {}, .all_but = true}, 1min, 10);
  ASSERT_TRUE(due.ok()) << due.status();
  EXPECT_TRUE(due->empty());
}

TEST_P(OperatorContractTest, PurgeLeavesOtherTenants) {
  const store::ClaimRef gone = reach(Situation::Completed, identity("same key"));
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("same key", "other"));
  const store::ClaimRef longer = reach(Situation::Completed, identity("same key", "tenant2"));
  ASSERT_EQ(change(unknown, store::AskAgain{.after = 1h}), store::ChangeOutcome::Done);
  const auto before = lookUp(unknown.identity);
  EXPECT_EQ(purge(*operator_, "tenant").records, 1U);
  EXPECT_TRUE(isAbsent(gone.identity));
  EXPECT_TRUE(sameRecord(before, lookUp(unknown.identity)));
  EXPECT_EQ(mustFind(longer.identity).response, "response");
  const auto entries =
      auditOf(*operator_, {.tenant = "other", .operation = {}, .key = {}, .attempt = {}});
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries.front().identity, unknown.identity);
  EXPECT_EQ(entries.front().detail, "asked the bank");
  EXPECT_EQ(purge(*operator_, "no such tenant").records, 0U);
}

TEST_P(OperatorContractTest, PurgedTenantIsNoLongerNamedInTheAudit) {
  const store::ClaimRef one = reach(Situation::Unknown, identity("one"));
  const store::ClaimRef two = reach(Situation::Unknown, identity("two"));
  ASSERT_EQ(change(one, store::AskAgain{.after = 1h}), store::ChangeOutcome::Done);
  ASSERT_EQ(change(one, store::NotRun{}), store::ChangeOutcome::Done);
  ASSERT_EQ(change(two, store::GiveUp{}), store::ChangeOutcome::Done);
  const store::PurgeResult result = purge(*operator_, "tenant");
  EXPECT_EQ(result.audit_entries, 3U);

  EXPECT_TRUE(
      auditOf(*operator_, {.tenant = "tenant", .operation = {}, .key = {}, .attempt = {}}).empty());
  const auto entries = auditOf(*operator_);
  ASSERT_EQ(entries.size(), 4U);
  const store::AuditEntry& own = entries.front();
  EXPECT_EQ(own.action, "purge");
  EXPECT_EQ(own.actor, "alice");
  EXPECT_EQ(own.records, result.records);
  EXPECT_EQ(own.detail, "contract ended");
  std::set<protocol::Identity> identities;
  for (const store::AuditEntry& entry : entries) {
    if (entry.identity.has_value()) {
      EXPECT_NE(entry.identity->tenant, "tenant");
      EXPECT_NE(entry.identity->key, "one");
      EXPECT_NE(entry.identity->key, "two");
    }
    if (&entry != &own) {
      // What was done, by whom, and whether it was one key or two can still be seen.
      EXPECT_EQ(entry.actor, "alice");
      EXPECT_EQ(entry.detail, "");
      ASSERT_TRUE(entry.identity.has_value());
      identities.insert(*entry.identity);
    }
  }
  EXPECT_EQ(identities.size(), 2U);
}

TEST_P(OperatorContractTest, DryRunOfAPurgeOnlyCounts) {
  const store::ClaimRef completed = reach(Situation::Completed, identity("completed"));
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("unknown"));
  const store::ClaimRef running = mustClaim(identity("running"));
  ASSERT_EQ(change(unknown, store::AskAgain{.after = 1h}), store::ChangeOutcome::Done);
  const auto before = auditOf(*operator_);
  const store::PurgeResult planned = purge(*operator_, "tenant", true);
  EXPECT_EQ(planned.records, 2U);
  EXPECT_EQ(planned.unsettled, 1U);
  EXPECT_EQ(planned.running, 1U);
  EXPECT_EQ(planned.audit_entries, 1U);
  EXPECT_FALSE(planned.more);
  for (const store::ClaimRef& claim : {completed, unknown, running}) {
    EXPECT_TRUE(lookUp(claim.identity).has_value());
  }
  const auto after = auditOf(*operator_);
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(after.front().identity, before.front().identity);
  EXPECT_EQ(after.front().detail, before.front().detail);
}

TEST_P(OperatorContractTest, PurgeStopsAtItsLimit) {
  std::vector<store::ClaimRef> claims;
  for (int i = 0; i < 5; ++i) {
    claims.push_back(reach(Situation::Completed, identity(std::to_string(i))));
  }
  EXPECT_TRUE(purge(*operator_, "tenant", true, 2).more);
  uint64_t deleted = 0;
  int steps = 0;
  for (bool more = true; more; ++steps) {
    ASSERT_LT(steps, 10);
    const store::PurgeResult result = purge(*operator_, "tenant", false, 2);
    EXPECT_LE(result.records, 2U);
    deleted += result.records;
    more = result.more;
  }
  EXPECT_EQ(deleted, claims.size());
  EXPECT_GE(steps, 3);
  for (const store::ClaimRef& claim : claims) {
    EXPECT_TRUE(isAbsent(claim.identity));
  }
}

TEST_P(OperatorContractTest, PurgedKeyCanBeClaimedAsNew) {
  const store::ClaimRef old = reach(Situation::Completed, identity("back"));
  purge(*operator_, "tenant");
  const store::ClaimRef again = mustClaim(old.identity);
  EXPECT_FALSE(mustFind(again.identity).response.has_value());
  EXPECT_EQ(complete(again, completion("new")), store::WriteOutcome::Done);
  EXPECT_EQ(mustFind(again.identity).response, "new");
}

}  // namespace
}  // namespace idempotency::test
