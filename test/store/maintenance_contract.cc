// Sweeper, reaper, leader.
#include <algorithm>
#include <vector>

#include "source/store/audit.h"
#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

// How many records the audit says this was done to; with an identity: to this one.
uint64_t audited(StoreRig& rig, AuditAction action, const std::optional<Identity>& identity = {}) {
  uint64_t count = 0;
  for (const AuditEntry& entry : rig.audit()) {
    if (entry.action == name(action) && entry.identity == identity) {
      count += entry.count;
    }
  }
  return count;
}

// --- Sweeper

TEST_P(MaintenanceContractTest, SweepMovesALeaseThatRanOutToUnknown) {
  const ClaimRef dead = mustClaim(identity("dead"));
  rig_->passTime(2h);
  const ClaimRef alive = mustClaim(identity("alive"));
  const MaintenanceResult result = sweep(1000, 3h);
  EXPECT_EQ(result.to_unknown, 1U);
  EXPECT_EQ(result.to_retry, 0U);
  EXPECT_FALSE(result.more);
  const Record record = mustFind(dead.identity);
  EXPECT_EQ(record.state, RecordState::Unknown);
  EXPECT_EQ(record.attempt, dead.attempt);
  EXPECT_EQ(record.last_error, LeaseExpiredError);
  ASSERT_TRUE(record.reconcile_after.has_value());
  EXPECT_GT(*record.reconcile_after, 2h);
  EXPECT_LE(*record.reconcile_after, 3h);
  EXPECT_EQ(mustFind(alive.identity).state, RecordState::InProgress);
  EXPECT_EQ(complete(completeRequest(dead)), WriteOutcome::Fenced) << "it came too late";
  EXPECT_EQ(audited(*rig_, AuditAction::LeaseToUnknown, dead.identity), 1U);
  EXPECT_EQ(audited(*rig_, AuditAction::LeaseToUnknown, alive.identity), 0U);
}

TEST_P(MaintenanceContractTest, SweepWithoutReconciliationPromisesNone) {
  const ClaimRef dead = reach(Situation::LeaseOver, identity("dead"));
  EXPECT_EQ(sweep().to_unknown, 1U);
  EXPECT_FALSE(mustFind(dead.identity).reconcile_after.has_value());
}

TEST_P(MaintenanceContractTest, SweepUnderRetryMakesTheKeyClaimableAgain) {
  ClaimRequest request = claimRequest(identity("dead"));
  request.on_lease_expired = LeaseExpired::Retry;
  const ClaimRef dead = mustClaim(request);
  rig_->setRecoveryPoint(dead.identity, "charged");
  rig_->passTime(2h);
  const MaintenanceResult result = sweep(1000, 3h);
  EXPECT_EQ(result.to_unknown, 0U);
  EXPECT_EQ(result.to_retry, 1U);
  const Record record = mustFind(dead.identity);
  EXPECT_EQ(record.state, RecordState::FailedRetryable);
  EXPECT_EQ(record.last_error, LeaseExpiredError);
  EXPECT_EQ(record.recovery_point, "charged");
  EXPECT_FALSE(record.reconcile_after.has_value());
  EXPECT_EQ(complete(completeRequest(dead)), WriteOutcome::Fenced);
  EXPECT_EQ(audited(*rig_, AuditAction::LeaseToRetry, dead.identity), 1U);
  mustReclaim(dead.identity);
}

TEST_P(MaintenanceContractTest, SweepTakesThePolicyOfTheLastClaim) {
  const Identity id = identity("changed");
  reach(Situation::Failed, id);
  ClaimRequest request = claimRequest(id);
  request.on_lease_expired = LeaseExpired::Retry;
  request.from = ReclaimFrom{RecordState::FailedRetryable, mustFind(id).attempt};
  mustClaim(request);
  rig_->passTime(2h);
  EXPECT_EQ(sweep().to_retry, 1U);
}

TEST_P(MaintenanceContractTest, SweepTouchesNothingButDeadLeases) {
  for (const Situation situation :
       {Situation::Completed, Situation::Failed, Situation::Unknown, Situation::Expired}) {
    reach(situation, identity(std::string(name(situation))));
  }
  rig_->passTime(2h);
  const MaintenanceResult result = sweep();
  EXPECT_EQ(result.to_unknown + result.to_retry, 0U);
}

TEST_P(MaintenanceContractTest, SweepLeavesAClaimWhoseHeartBeats) {
  const ClaimRef ref = mustClaim(identity("long"));
  for (int beat = 0; beat < 5; ++beat) {
    rig_->passTime(50min);
    ASSERT_EQ(extend(ref, 1h), WriteOutcome::Done);
    EXPECT_EQ(sweep().to_unknown, 0U);
  }
  EXPECT_EQ(complete(completeRequest(ref)), WriteOutcome::Done);
}

TEST_P(MaintenanceContractTest, SweepIsBoundedAndSaysThatThereIsMore) {
  for (int i = 0; i < 5; ++i) {
    mustClaim(identity(std::to_string(i)));
  }
  rig_->passTime(2h);
  MaintenanceResult result = sweep(2);
  EXPECT_EQ(result.to_unknown, 2U);
  EXPECT_TRUE(result.more);
  result = sweep(2);
  EXPECT_EQ(result.to_unknown, 2U);
  EXPECT_TRUE(result.more);
  result = sweep(2);
  EXPECT_EQ(result.to_unknown, 1U);
  EXPECT_FALSE(result.more);
}

TEST_P(MaintenanceContractTest, DeadLeaseCanStillCompleteBeforeTheSweep) {
  const ClaimRef ref = reach(Situation::LeaseOver, identity("slow"));
  EXPECT_EQ(complete(completeRequest(ref)), WriteOutcome::Done);
  EXPECT_EQ(sweep().to_unknown, 0U);
  EXPECT_EQ(mustFind(ref.identity).state, RecordState::Completed);
}

// --- Reaper

TEST_P(MaintenanceContractTest, ReapDeletesOnlySettledRecordsPastTheirLife) {
  struct Case {
    Situation situation;
    bool deleted;
  };
  for (const Case& test : {
           Case{Situation::Running, false},
           Case{Situation::Completed, false},
           Case{Situation::Failed, false},
           Case{Situation::Unknown, false},
           Case{Situation::CompletedPastLife, true},
           Case{Situation::FailedPastLife, true},
       }) {
    SCOPED_TRACE(name(test.situation));
    const ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const MaintenanceResult result = reap();
    EXPECT_EQ(result.deleted, test.deleted ? 1U : 0U);
    EXPECT_EQ(result.expired, 0U);
    EXPECT_EQ(result.to_failed, 0U);
    EXPECT_FALSE(result.more);
    EXPECT_EQ(isAbsent(ref.identity), test.deleted);
    EXPECT_EQ(release(ref), test.situation == Situation::Running || test.deleted
                                ? WriteOutcome::Done
                                : WriteOutcome::Fenced);
    // Nothing of this round is left for the next.
    rig_->passTime(50h);
    reap();
    reap();
  }
}

TEST_P(MaintenanceContractTest, ReapedKeyRunsAsNew) {
  const ClaimRef ref = reach(Situation::CompletedPastLife, identity("done"));
  EXPECT_EQ(reap().deleted, 1U);
  EXPECT_EQ(audited(*rig_, AuditAction::Delete), 1U);
  const ClaimRef next = mustClaim(ref.identity);
  EXPECT_FALSE(mustFind(ref.identity).response.has_value());
  EXPECT_EQ(complete(completeRequest(next, "next")), WriteOutcome::Done);
  EXPECT_EQ(mustFind(ref.identity).response, "next");
}

TEST_P(MaintenanceContractTest, ReapLeavesAClaimInProgressToTheSweeper) {
  const ClaimRef ref = mustClaim(identity("long"));
  rig_->passTime(25h);
  EXPECT_EQ(reap().deleted, 0U);
  EXPECT_EQ(mustFind(ref.identity).state, RecordState::InProgress);
  ASSERT_EQ(extend(ref, 1h), WriteOutcome::Done);
  EXPECT_EQ(sweep().to_unknown, 0U);
  EXPECT_EQ(reap().deleted, 0U);
  CompleteRequest request = completeRequest(ref);
  request.ttl = 24h;
  EXPECT_EQ(complete(request), WriteOutcome::Done);
  EXPECT_FALSE(mustFind(ref.identity).past_life);
}

TEST_P(MaintenanceContractTest, AbandonedRecordEndsAsFailedBeforeItGoes) {
  const ClaimRef ref = mustClaim(identity("lost"));
  rig_->passTime(25h);
  ASSERT_EQ(sweep(1000, 1h).to_unknown, 1U);
  MaintenanceResult result = reap();
  EXPECT_EQ(result.to_failed, 1U);
  EXPECT_EQ(result.deleted, 0U);
  const Record record = mustFind(ref.identity);
  EXPECT_EQ(record.state, RecordState::Completed);
  EXPECT_EQ(record.status, AbandonedStatus);
  EXPECT_EQ(record.tombstone, Tombstone::Abandoned);
  EXPECT_EQ(record.last_error, AbandonedError);
  EXPECT_TRUE(record.completed_at.has_value());
  EXPECT_TRUE(record.past_life);
  EXPECT_FALSE(record.response.has_value());
  EXPECT_EQ(audited(*rig_, AuditAction::GiveUp, ref.identity), 1U);
  // What was given up is not what a late attempt would have stored.
  EXPECT_EQ(complete(completeRequest(ref, "late")), WriteOutcome::Fenced);
  result = reap();
  EXPECT_EQ(result.to_failed, 0U);
  EXPECT_EQ(result.deleted, 1U);
  EXPECT_TRUE(isAbsent(ref.identity));
}

TEST_P(MaintenanceContractTest, SoftReapKeepsTheRecordWithoutItsResponse) {
  const ClaimRef ref = reach(Situation::CompletedPastLife, identity("done"));
  const Record before = mustFind(ref.identity);
  const MaintenanceResult result = reap(1000, true);
  EXPECT_EQ(result.expired, 1U);
  EXPECT_EQ(result.deleted, 0U);
  const Record record = mustFind(ref.identity);
  EXPECT_EQ(record.state, RecordState::Expired);
  EXPECT_EQ(record.attempt, ref.attempt);
  EXPECT_EQ(record.status, before.status);
  EXPECT_EQ(record.created_at, before.created_at);
  EXPECT_EQ(record.expires_at, before.expires_at);
  EXPECT_EQ(record.completed_at, before.completed_at);
  EXPECT_FALSE(record.response.has_value());
  EXPECT_EQ(audited(*rig_, AuditAction::Expire), 1U);
  EXPECT_EQ(reap(1000, true).expired, 0U) << "once is enough";
  EXPECT_FALSE(isAbsent(ref.identity));
}

TEST_P(MaintenanceContractTest, HardReapLeavesSoftExpiredRecords) {
  const ClaimRef ref = reach(Situation::Expired, identity("kept"));
  const MaintenanceResult result = reap();
  EXPECT_EQ(result.deleted, 0U);
  EXPECT_EQ(mustFind(ref.identity).state, RecordState::Expired);
}

TEST_P(MaintenanceContractTest, ReapIsBoundedAndSaysThatThereIsMore) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(complete(completeRequest(mustClaim(identity(std::to_string(i))))),
              WriteOutcome::Done);
  }
  ASSERT_EQ(markUnknown(mustClaim(identity("unknown"))), WriteOutcome::Done);
  rig_->passTime(25h);
  uint64_t deleted = 0;
  uint64_t failed = 0;
  int steps = 0;
  for (bool more = true; more && steps < 100; ++steps) {
    const MaintenanceResult result = reap(2);
    EXPECT_LE(result.deleted + result.to_failed, 2U);
    deleted += result.deleted;
    failed += result.to_failed;
    more = result.more;
  }
  EXPECT_GE(steps, 3);
  EXPECT_EQ(failed, 1U);
  // The one that was given up may have gone in a later step of the same run.
  deleted += reap().deleted;
  EXPECT_EQ(deleted, 6U);
  EXPECT_EQ(audited(*rig_, AuditAction::Delete), 6U);
}

TEST_P(MaintenanceContractTest, MaintenanceWithADeadlineThatIsOverDoesNothing) {
  const ClaimRef dead = reach(Situation::LeaseOver, identity("dead"));
  const Deadline past = std::chrono::steady_clock::now() - 1ms;
  Answer<MaintenanceResult> swept;
  Answer<MaintenanceResult> reaped;
  Answer<Leadership> led;
  rig_->maintenance().sweep(10, 1h, past, swept.callback());
  rig_->maintenance().reap(10, false, past, reaped.callback());
  rig_->maintenance().lead("me", 1h, past, led.callback());
  EXPECT_FALSE(swept.get().ok);
  EXPECT_NE(swept.get().reason, "");
  EXPECT_FALSE(reaped.get().ok);
  EXPECT_FALSE(led.get().ours);
  EXPECT_NE(led.get().reason, "");
  EXPECT_EQ(mustFind(dead.identity).state, RecordState::InProgress);
}

// --- Leader

class Leader {
public:
  Leader(StoreRig& rig, std::string owner) : rig_(rig), owner_(std::move(owner)) {}
  bool lead(std::chrono::milliseconds lease) const {
    Answer<Leadership> answer;
    rig_.maintenance().lead(owner_, lease, soon(), answer.callback());
    EXPECT_EQ(answer.get().reason, "");
    return answer.get().ours;
  }

private:
  StoreRig& rig_;
  std::string owner_;
};

TEST_P(MaintenanceContractTest, OneLeadsUntilItsLeaseRunsOut) {
  const Leader a(*rig_, "a");
  const Leader b(*rig_, "b");
  EXPECT_TRUE(a.lead(1h));
  EXPECT_FALSE(b.lead(1h));
  rig_->passTime(50min);
  EXPECT_TRUE(a.lead(1h)) << "renewed";
  rig_->passTime(50min);
  EXPECT_FALSE(b.lead(1h));
  rig_->passTime(20min);
  EXPECT_TRUE(b.lead(1h));
  EXPECT_FALSE(a.lead(1h));
}

TEST_P(MaintenanceContractTest, LeaderMayGiveUpItsLease) {
  const Leader a(*rig_, "a");
  const Leader b(*rig_, "b");
  EXPECT_FALSE(b.lead(0ms)) << "nothing to give up";
  EXPECT_TRUE(a.lead(1h));
  EXPECT_FALSE(b.lead(0ms)) << "not b's to give up";
  EXPECT_FALSE(b.lead(1h));
  EXPECT_FALSE(a.lead(0ms));
  EXPECT_TRUE(b.lead(1h));
}

}  // namespace
}  // namespace idempotency::test
