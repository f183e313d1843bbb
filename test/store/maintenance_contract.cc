// Sweeper, reaper, leader.
#include <algorithm>
#include <vector>

#include "source/store/audit.h"
#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

// How many records the audit says this was done to; with an identity: to this one.
uint64_t audited(StoreRig& rig, store::AuditAction action,
                 const std::optional<protocol::Identity>& identity = {}) {
  uint64_t count = 0;
  for (const AuditEntry& entry : rig.audit()) {
    if (entry.action == store::name(action) && entry.identity == identity) {
      count += entry.count;
    }
  }
  return count;
}

// --- Sweeper

TEST_P(MaintenanceContractTest, SweepMovesALeaseThatRanOutToUnknown) {
  const store::ClaimRef dead = mustClaim(identity("dead"));
  rig_->passTime(2h);
  const store::ClaimRef alive = mustClaim(identity("alive"));
  const store::MaintenanceResult result = sweep(1000, 3h);
  EXPECT_EQ(result.to_unknown, 1U);
  EXPECT_EQ(result.to_retry, 0U);
  EXPECT_FALSE(result.more);
  const store::Record record = mustFind(dead.identity);
  EXPECT_EQ(record.state, protocol::RecordState::Unknown);
  EXPECT_EQ(record.attempt, dead.attempt);
  EXPECT_EQ(record.last_error, store::LeaseExpiredError);
  ASSERT_TRUE(record.reconcile_after.has_value());
  EXPECT_GT(*record.reconcile_after, 2h);
  EXPECT_LE(*record.reconcile_after, 3h);
  EXPECT_EQ(mustFind(alive.identity).state, protocol::RecordState::InProgress);
  EXPECT_EQ(audited(*rig_, store::AuditAction::LeaseToUnknown, dead.identity), 1U);
  EXPECT_EQ(audited(*rig_, store::AuditAction::LeaseToUnknown, alive.identity), 0U);
}

TEST_P(MaintenanceContractTest, AttemptThatWasTakenForDeadMayStillBringItsResult) {
  const store::ClaimRef dead = reach(Situation::LeaseOver, identity("dead"));
  ASSERT_EQ(sweep().to_unknown, 1U);
  EXPECT_EQ(fail(dead), store::WriteOutcome::Fenced) << "that would free the key";
  EXPECT_EQ(release(dead), store::WriteOutcome::Fenced) << "that would free the key";
  store::ClaimRef other = dead;
  other.attempt = dead.attempt == 1 ? 2 : dead.attempt - 1;
  EXPECT_EQ(complete(other, completion("another's")), store::WriteOutcome::Fenced);
  EXPECT_EQ(mustFind(dead.identity).state, protocol::RecordState::Unknown);
  ASSERT_EQ(complete(dead, completion("late")), store::WriteOutcome::Done);
  const store::Record record = mustFind(dead.identity);
  EXPECT_EQ(record.state, protocol::RecordState::Completed);
  EXPECT_EQ(record.response, "late");
  EXPECT_EQ(sweep().to_unknown, 0U);
}

TEST_P(MaintenanceContractTest, SweepWithoutReconciliationPromisesNone) {
  const store::ClaimRef dead = reach(Situation::LeaseOver, identity("dead"));
  EXPECT_EQ(sweep().to_unknown, 1U);
  EXPECT_FALSE(mustFind(dead.identity).reconcile_after.has_value());
}

TEST_P(MaintenanceContractTest, SweepUnderRetryMakesTheKeyClaimableAgain) {
  store::ClaimRequest request = claimRequest(identity("dead"));
  request.on_lease_expired = protocol::LeaseExpired::Retry;
  const store::ClaimRef dead = mustClaim(request);
  rig_->setRecoveryPoint(dead.identity, "charged");
  rig_->passTime(2h);
  const store::MaintenanceResult result = sweep(1000, 3h);
  EXPECT_EQ(result.to_unknown, 0U);
  EXPECT_EQ(result.to_retry, 1U);
  const store::Record record = mustFind(dead.identity);
  EXPECT_EQ(record.state, protocol::RecordState::FailedRetryable);
  EXPECT_EQ(record.last_error, store::LeaseExpiredError);
  EXPECT_EQ(record.recovery_point, "charged");
  EXPECT_FALSE(record.reconcile_after.has_value());
  EXPECT_EQ(complete(dead, completion()), store::WriteOutcome::Fenced);
  EXPECT_EQ(audited(*rig_, store::AuditAction::LeaseToRetry, dead.identity), 1U);
  mustReclaim(dead.identity);
}

TEST_P(MaintenanceContractTest, SweepTakesThePolicyOfTheLastClaim) {
  const protocol::Identity id = identity("changed");
  reach(Situation::Failed, id);
  store::ClaimRequest request = claimRequest(id);
  request.on_lease_expired = protocol::LeaseExpired::Retry;
  request.from = store::ReclaimFrom{protocol::RecordState::FailedRetryable, mustFind(id).attempt};
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
  const store::MaintenanceResult result = sweep();
  EXPECT_EQ(result.to_unknown + result.to_retry, 0U);
}

TEST_P(MaintenanceContractTest, SweepLeavesAClaimWhoseHeartBeats) {
  const store::ClaimRef ref = mustClaim(identity("long"));
  for (int beat = 0; beat < 5; ++beat) {
    rig_->passTime(50min);
    ASSERT_EQ(extend(ref, 1h), store::WriteOutcome::Done);
    EXPECT_EQ(sweep().to_unknown, 0U);
  }
  EXPECT_EQ(complete(ref, completion()), store::WriteOutcome::Done);
}

TEST_P(MaintenanceContractTest, SweepIsBoundedAndSaysThatThereIsMore) {
  for (int i = 0; i < 5; ++i) {
    mustClaim(identity(std::to_string(i)));
  }
  rig_->passTime(2h);
  store::MaintenanceResult result = sweep(2);
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
  const store::ClaimRef ref = reach(Situation::LeaseOver, identity("slow"));
  EXPECT_EQ(complete(ref, completion()), store::WriteOutcome::Done);
  EXPECT_EQ(sweep().to_unknown, 0U);
  EXPECT_EQ(mustFind(ref.identity).state, protocol::RecordState::Completed);
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
           Case{Situation::UnknownPastLife, false},
           Case{Situation::CompletedPastLife, true},
           Case{Situation::FailedPastLife, true},
       }) {
    SCOPED_TRACE(name(test.situation));
    const store::ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const store::MaintenanceResult result = reap();
    EXPECT_EQ(result.deleted, test.deleted ? 1U : 0U);
    EXPECT_EQ(result.expired, 0U);
    EXPECT_FALSE(result.more);
    EXPECT_EQ(isAbsent(ref.identity), test.deleted);
    EXPECT_EQ(release(ref), test.situation == Situation::Running || test.deleted
                                ? store::WriteOutcome::Done
                                : store::WriteOutcome::Fenced);
    // Nothing of this round is left for the next.
    rig_->passTime(50h);
    reap();
    reap();
  }
}

TEST_P(MaintenanceContractTest, ReapedKeyRunsAsNew) {
  const store::ClaimRef ref = reach(Situation::CompletedPastLife, identity("done"));
  EXPECT_EQ(reap().deleted, 1U);
  EXPECT_EQ(audited(*rig_, store::AuditAction::Delete), 1U);
  const store::ClaimRef next = mustClaim(ref.identity);
  EXPECT_FALSE(mustFind(ref.identity).response.has_value());
  EXPECT_EQ(complete(next, completion("next")), store::WriteOutcome::Done);
  EXPECT_EQ(mustFind(ref.identity).response, "next");
}

TEST_P(MaintenanceContractTest, ReapLeavesAClaimInProgressToTheSweeper) {
  const store::ClaimRef ref = mustClaim(identity("long"));
  rig_->passTime(25h);
  EXPECT_EQ(reap().deleted, 0U);
  EXPECT_EQ(mustFind(ref.identity).state, protocol::RecordState::InProgress);
  ASSERT_EQ(extend(ref, 1h), store::WriteOutcome::Done);
  EXPECT_EQ(sweep().to_unknown, 0U);
  EXPECT_EQ(reap().deleted, 0U);
  protocol::Completed completed = completion();
  completed.ttl = 24h;
  EXPECT_EQ(complete(ref, completed), store::WriteOutcome::Done);
  EXPECT_FALSE(mustFind(ref.identity).past_life);
}

// Time alone does not tell whether a request ran: its key is never free again by it.
TEST_P(MaintenanceContractTest, TimeNeverFreesAnUnknownKey) {
  for (const bool soft : {false, true}) {
    const std::string kind = soft ? "soft" : "hard";
    const store::ClaimRef marked = mustClaim(identity("marked-" + kind));
    ASSERT_EQ(markUnknown(marked), store::WriteOutcome::Done);
    const store::ClaimRef swept = mustClaim(identity("swept-" + kind));
    rig_->passTime(2h);
    ASSERT_EQ(sweep().to_unknown, 1U);
    // Past its life before it is even swept.
    const store::ClaimRef dead = mustClaim(identity("dead-" + kind));
    for (const std::chrono::hours time : {25h, 24h * 20}) {
      rig_->passTime(time);
      const store::ClaimRef alive =
          mustClaim(identity("alive-" + kind + std::to_string(time.count())));
      for (int round = 0; round < 3; ++round) {
        const store::MaintenanceResult result = reap(1000, soft);
        EXPECT_EQ(result.deleted, 0U);
        EXPECT_EQ(result.expired, 0U);
        EXPECT_FALSE(result.more);
      }
      for (const store::ClaimRef& ref : {marked, swept}) {
        SCOPED_TRACE(ref.identity.key);
        const store::Record record = mustFind(ref.identity);
        EXPECT_EQ(record.state, protocol::RecordState::Unknown);
        EXPECT_EQ(record.attempt, ref.attempt);
        EXPECT_GE(record.claim_age, time);
        store::ClaimRequest again = claimRequest(ref.identity);
        EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(again)));
        again.from = store::ReclaimFrom{protocol::RecordState::Unknown, ref.attempt};
        again.attempt = store::newAttempt();
        EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(again)));
      }
      EXPECT_FALSE(isAbsent(dead.identity));
      EXPECT_EQ(release(alive), store::WriteOutcome::Done);
    }
    EXPECT_EQ(mustFind(dead.identity).state, protocol::RecordState::InProgress);
    EXPECT_EQ(sweep().to_unknown, 1U);
    EXPECT_EQ(reap(1000, soft).deleted, 0U);
    EXPECT_EQ(mustFind(dead.identity).state, protocol::RecordState::Unknown);
  }
}

TEST_P(MaintenanceContractTest, RecordThatIsSettledLateIsReapedAtItsNewEnd) {
  for (const bool reaped_before : {false, true}) {
    SCOPED_TRACE(reaped_before);
    const store::ClaimRef ref = mustClaim(identity(reaped_before ? "after" : "before"));
    ASSERT_EQ(markUnknown(ref), store::WriteOutcome::Done);
    rig_->passTime(30h);
    if (reaped_before) {
      EXPECT_EQ(reap().deleted, 0U);
    }
    ASSERT_EQ(complete(ref, completion("late")), store::WriteOutcome::Done);
    EXPECT_EQ(reap().deleted, 0U);
    rig_->passTime(23h);
    EXPECT_EQ(reap().deleted, 0U);
    EXPECT_EQ(mustFind(ref.identity).response, "late");
    rig_->passTime(2h);
    EXPECT_EQ(reap().deleted, 1U);
    EXPECT_TRUE(isAbsent(ref.identity));
  }
}

// They are there for ever: a reaper that met them in each step would come to nothing else.
TEST_P(MaintenanceContractTest, UnknownRecordsDoNotKeepTheReaperFromItsWork) {
  for (int i = 0; i < 9; ++i) {
    ASSERT_EQ(markUnknown(mustClaim(identity("unknown" + std::to_string(i)))),
              store::WriteOutcome::Done);
  }
  rig_->passTime(1h);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(complete(mustClaim(identity(std::to_string(i))), completion()),
              store::WriteOutcome::Done);
  }
  rig_->passTime(30h);
  uint64_t deleted = 0;
  int steps = 0;
  for (bool more = true; more && steps < 100; ++steps) {
    const store::MaintenanceResult result = reap(2);
    deleted += result.deleted;
    more = result.more;
  }
  EXPECT_LE(steps, 8);
  EXPECT_EQ(deleted, 3U);
  EXPECT_FALSE(reap(2).more) << "they are out of the way from then on";
}

TEST_P(MaintenanceContractTest, QuotaCountsALateResultOnce) {
  const auto has_room = [&](const std::string& key, uint64_t cap) {
    store::ClaimRequest request = claimRequest(identity(key));
    request.tenant_live_keys = cap;
    const store::ClaimResult result = claim(request);
    if (!std::holds_alternative<store::Claimed>(result)) {
      return false;
    }
    EXPECT_EQ(release({request.identity, request.attempt}), store::WriteOutcome::Done);
    return true;
  };
  const store::ClaimRef ref = mustClaim(identity("late"));
  ASSERT_EQ(markUnknown(ref), store::WriteOutcome::Done);
  EXPECT_FALSE(has_room("a", 1));
  rig_->passTime(30h);
  EXPECT_EQ(reap().deleted, 0U);
  EXPECT_TRUE(has_room("b", 1));
  ASSERT_EQ(complete(ref, completion()), store::WriteOutcome::Done);
  EXPECT_FALSE(has_room("c", 1));
  EXPECT_TRUE(has_room("d", 2));
  rig_->passTime(30h);
  EXPECT_EQ(reap().deleted, 1U);
  EXPECT_TRUE(has_room("e", 1));
  mustClaim(identity("one"));
  EXPECT_FALSE(has_room("f", 1));
}

TEST_P(MaintenanceContractTest, SoftReapKeepsTheRecordWithoutItsResponse) {
  const store::ClaimRef ref = reach(Situation::CompletedPastLife, identity("done"));
  const store::Record before = mustFind(ref.identity);
  const store::MaintenanceResult result = reap(1000, true);
  EXPECT_EQ(result.expired, 1U);
  EXPECT_EQ(result.deleted, 0U);
  const store::Record record = mustFind(ref.identity);
  EXPECT_EQ(record.state, protocol::RecordState::Expired);
  EXPECT_EQ(record.attempt, ref.attempt);
  EXPECT_EQ(record.status, before.status);
  EXPECT_EQ(record.created_at, before.created_at);
  EXPECT_EQ(record.expires_at, before.expires_at);
  EXPECT_EQ(record.completed_at, before.completed_at);
  EXPECT_FALSE(record.response.has_value());
  EXPECT_EQ(audited(*rig_, store::AuditAction::Expire), 1U);
  EXPECT_EQ(reap(1000, true).expired, 0U) << "once is enough";
  EXPECT_FALSE(isAbsent(ref.identity));
}

TEST_P(MaintenanceContractTest, HardReapLeavesSoftExpiredRecords) {
  const store::ClaimRef ref = reach(Situation::Expired, identity("kept"));
  const store::MaintenanceResult result = reap();
  EXPECT_EQ(result.deleted, 0U);
  EXPECT_EQ(mustFind(ref.identity).state, protocol::RecordState::Expired);
}

TEST_P(MaintenanceContractTest, ReapIsBoundedAndSaysThatThereIsMore) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(complete(mustClaim(identity(std::to_string(i))), completion()),
              store::WriteOutcome::Done);
  }
  rig_->passTime(25h);
  uint64_t deleted = 0;
  int steps = 0;
  for (bool more = true; more && steps < 100; ++steps) {
    const store::MaintenanceResult result = reap(2);
    EXPECT_LE(result.deleted, 2U);
    deleted += result.deleted;
    more = result.more;
  }
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(deleted, 5U);
  EXPECT_EQ(audited(*rig_, store::AuditAction::Delete), 5U);
}

TEST_P(MaintenanceContractTest, MaintenanceWithADeadlineThatIsOverDoesNothing) {
  const store::ClaimRef dead = reach(Situation::LeaseOver, identity("dead"));
  const store::Deadline past = std::chrono::steady_clock::now() - 1ms;
  Answer<store::MaintenanceResult> swept;
  Answer<store::MaintenanceResult> reaped;
  Answer<store::Leadership> led;
  rig_->maintenance().sweep(10, 1h, past, swept.callback());
  rig_->maintenance().reap(10, false, past, reaped.callback());
  rig_->maintenance().lead("me", 1h, past, led.callback());
  EXPECT_FALSE(swept.get().ok);
  EXPECT_NE(swept.get().reason, "");
  EXPECT_FALSE(reaped.get().ok);
  EXPECT_FALSE(led.get().ours);
  EXPECT_NE(led.get().reason, "");
  EXPECT_EQ(mustFind(dead.identity).state, protocol::RecordState::InProgress);
}

// --- Leader

class Leader {
public:
  Leader(StoreRig& rig, std::string owner) : rig_(rig), owner_(std::move(owner)) {}
  bool lead(std::chrono::milliseconds lease) const {
    Answer<store::Leadership> answer;
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
