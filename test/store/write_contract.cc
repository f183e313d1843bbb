// What follows a claim: completion, failure, release, unknown outcomes, heartbeats, look-ups.
#include <vector>

#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

// Every write in every situation, by the attempt that made it and by another.
struct WriteCase {
  Situation situation;
  WriteOutcome complete;
  WriteOutcome fail;
  WriteOutcome release;
  WriteOutcome mark_unknown;
  WriteOutcome extend;
};
constexpr WriteOutcome Done = WriteOutcome::Done;
constexpr WriteOutcome Fenced = WriteOutcome::Fenced;
constexpr WriteCase WriteCases[] = {
    {Situation::Absent, Fenced, Fenced, Done, Fenced, Fenced},
    {Situation::Running, Done, Done, Done, Done, Done},
    {Situation::LeaseOver, Done, Done, Done, Done, Done},
    {Situation::Completed, Done, Fenced, Fenced, Fenced, Fenced},
    {Situation::CompletedPastLife, Done, Fenced, Fenced, Fenced, Fenced},
    {Situation::Failed, Fenced, Done, Fenced, Fenced, Fenced},
    {Situation::FailedPastLife, Fenced, Done, Fenced, Fenced, Fenced},
    {Situation::Unknown, Fenced, Fenced, Fenced, Done, Fenced},
    {Situation::UnknownPastLife, Fenced, Fenced, Fenced, Done, Fenced},
    {Situation::Expired, Fenced, Fenced, Fenced, Fenced, Fenced},
};

bool isInProgress(Situation situation) {
  return situation == Situation::Running || situation == Situation::LeaseOver;
}

TEST_P(StoreContractTest, CompleteInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<Record> before = lookUp(ref.identity);
    CompleteRequest request = completeRequest(ref, "late");
    request.status = 202;
    EXPECT_EQ(complete(request), test.complete);
    if (!isInProgress(test.situation)) {
      EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
      continue;
    }
    const Record after = mustFind(ref.identity);
    EXPECT_EQ(after.state, RecordState::Completed);
    EXPECT_EQ(after.attempt, ref.attempt);
    EXPECT_EQ(after.status, 202);
    EXPECT_EQ(after.tombstone, Tombstone::None);
    EXPECT_EQ(after.response_schema, 1);
    EXPECT_EQ(after.response, "late");
    EXPECT_TRUE(after.completed_at.has_value());
    EXPECT_FALSE(after.lease_alive);
    EXPECT_EQ(after.expires_at, before->expires_at);
    EXPECT_EQ(after.fingerprint, before->fingerprint);
    EXPECT_EQ(complete(request), Done) << "the same write again";
    EXPECT_TRUE(sameRecord(after, lookUp(ref.identity)));
  }
}

TEST_P(StoreContractTest, FailInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<Record> before = lookUp(ref.identity);
    EXPECT_EQ(fail(ref, "other_code"), test.fail);
    if (!isInProgress(test.situation)) {
      EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
      continue;
    }
    const Record after = mustFind(ref.identity);
    EXPECT_EQ(after.state, RecordState::FailedRetryable);
    EXPECT_EQ(after.attempt, ref.attempt);
    EXPECT_EQ(after.last_error, "other_code");
    EXPECT_FALSE(after.response.has_value());
  }
}

TEST_P(StoreContractTest, ReleaseInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<Record> before = lookUp(ref.identity);
    EXPECT_EQ(release(ref), test.release);
    if (isInProgress(test.situation)) {
      EXPECT_TRUE(isAbsent(ref.identity));
      mustClaim(ref.identity);
    } else {
      EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
    }
  }
}

TEST_P(StoreContractTest, MarkUnknownInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<Record> before = lookUp(ref.identity);
    EXPECT_EQ(markUnknown(ref), test.mark_unknown);
    if (!isInProgress(test.situation)) {
      EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
      continue;
    }
    const Record after = mustFind(ref.identity);
    EXPECT_EQ(after.state, RecordState::Unknown);
    EXPECT_EQ(after.attempt, ref.attempt);
    EXPECT_EQ(after.last_error, "upstream_reset");
    EXPECT_FALSE(after.reconcile_after.has_value());
    EXPECT_FALSE(after.dead_letter);
  }
}

TEST_P(StoreContractTest, ExtendInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<Record> before = lookUp(ref.identity);
    EXPECT_EQ(extend(ref, 7h), test.extend);
    if (!isInProgress(test.situation)) {
      EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
      continue;
    }
    const Record after = mustFind(ref.identity);
    EXPECT_EQ(after.state, RecordState::InProgress);
    EXPECT_TRUE(after.lease_alive);
    EXPECT_GT(after.lease_left, 6h);
    EXPECT_LE(after.lease_left, 7h);
    EXPECT_EQ(after.expires_at, before->expires_at);
  }
}

TEST_P(StoreContractTest, AbandonInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<Record> before = lookUp(ref.identity);
    store().abandon(ref);
    if (isInProgress(test.situation)) {
      EXPECT_TRUE(eventually([&] { return isAbsent(ref.identity); }));
      continue;
    }
    // What the store does by itself it has done before it does this.
    const ClaimRef later = mustClaim(identity("later" + ref.identity.key));
    store().abandon(later);
    EXPECT_TRUE(eventually([&] { return isAbsent(later.identity); }));
    EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
  }
}

TEST_P(StoreContractTest, AnotherAttemptChangesNothingInAnySituation) {
  for (const Situation situation : AllSituations) {
    if (situation == Situation::Absent) {
      continue;
    }
    SCOPED_TRACE(name(situation));
    const ClaimRef ref = reach(situation, identity(std::string(name(situation))));
    const ClaimRef other{ref.identity, newAttempt()};
    const std::optional<Record> before = lookUp(ref.identity);
    EXPECT_EQ(complete(completeRequest(other)), Fenced);
    EXPECT_EQ(fail(other), Fenced);
    EXPECT_EQ(release(other), Fenced);
    EXPECT_EQ(markUnknown(other), Fenced);
    EXPECT_EQ(extend(other, 7h), Fenced);
    store().abandon(other);
    const ClaimRef later = mustClaim(identity("later" + ref.identity.key));
    store().abandon(later);
    EXPECT_TRUE(eventually([&] { return isAbsent(later.identity); }));
    EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
  }
}

TEST_P(StoreContractTest, SameAttemptOnAnotherIdentityIsFenced) {
  const ClaimRef ref = mustClaim(identity("mine"));
  const ClaimRef other = mustClaim(identity("other"));
  EXPECT_EQ(complete(completeRequest({other.identity, ref.attempt})), Fenced);
  EXPECT_EQ(mustFind(ref.identity).state, RecordState::InProgress);
  EXPECT_EQ(mustFind(other.identity).state, RecordState::InProgress);
}

TEST_P(StoreContractTest, ReleaseOfAReclaimedRecordKeepsWhatTheFirstAttemptReached) {
  for (const Situation situation : {Situation::Failed, Situation::LeaseOver}) {
    for (const bool by_abandon : {false, true}) {
      SCOPED_TRACE(name(situation));
      const Identity id = identity(std::string(name(situation)) + (by_abandon ? "a" : "r"));
      const ClaimRef first = reach(situation, id);
      rig_->setRecoveryPoint(id, "charged");
      const ClaimRef second = mustReclaim(id);
      if (by_abandon) {
        store().abandon(second);
        EXPECT_TRUE(eventually([&] { return mustFind(id).state == RecordState::FailedRetryable; }));
      } else {
        EXPECT_EQ(release(second), Done);
      }
      const Record record = mustFind(id);
      EXPECT_EQ(record.state, RecordState::FailedRetryable);
      EXPECT_EQ(record.recovery_point, "charged");
      EXPECT_EQ(complete(completeRequest(first)), Fenced);
      EXPECT_EQ(complete(completeRequest(second)), Fenced);
      mustReclaim(id);
    }
  }
}

TEST_P(StoreContractTest, ReleaseOfANewLifeRemovesTheRecord) {
  for (const Situation situation : {Situation::CompletedPastLife, Situation::Expired}) {
    const Identity id = identity(std::string(name(situation)));
    reach(situation, id);
    EXPECT_EQ(release(mustReclaim(id)), Done);
    EXPECT_TRUE(isAbsent(id));
  }
}

// --- Completion

TEST_P(StoreContractTest, ResponseOfAnySizeComesBackByteForByte) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1023}, size_t{4096}, size_t{65537},
                            size_t{1} << 20, (size_t{5} << 20) + 3}) {
    std::string response(size, '\0');
    for (size_t i = 0; i < size; ++i) {
      response[i] = static_cast<char>((i * 2654435761U) >> 11);
    }
    const ClaimRef ref = mustClaim(identity("size" + std::to_string(size)));
    ASSERT_EQ(complete(completeRequest(ref, response)), Done);
    const Record record = mustFind(ref.identity);
    ASSERT_TRUE(record.response.has_value());
    EXPECT_TRUE(*record.response == response) << size;
  }
}

TEST_P(StoreContractTest, TombstoneHasNoResponse) {
  for (const Tombstone tombstone :
       {Tombstone::TooLarge, Tombstone::Secret, Tombstone::Unstorable}) {
    const ClaimRef ref = mustClaim(identity("t" + std::to_string(static_cast<int>(tombstone))));
    CompleteRequest request = completeRequest(ref, "");
    request.tombstone = tombstone;
    ASSERT_EQ(complete(request), Done);
    const Record record = mustFind(ref.identity);
    EXPECT_EQ(record.state, RecordState::Completed);
    EXPECT_EQ(record.tombstone, tombstone);
    EXPECT_EQ(record.status, 201);
    EXPECT_FALSE(record.response.has_value());
  }
}

TEST_P(StoreContractTest, CompletionMayGiveANewLife) {
  const ClaimRef ref = mustClaim(identity("ttl"));
  CompleteRequest request = completeRequest(ref);
  request.ttl = 72h;
  ASSERT_EQ(complete(request), Done);
  const Record record = mustFind(ref.identity);
  EXPECT_EQ(record.expires_at - *record.completed_at, 72h);
  rig_->passTime(71h);
  EXPECT_FALSE(mustFind(ref.identity).past_life);
  rig_->passTime(2h);
  EXPECT_TRUE(mustFind(ref.identity).past_life);
}

TEST_P(StoreContractTest, TextsMayHoldAnyBytes) {
  const ClaimRef failed = mustClaim(identity("fail"));
  const std::string text = "code \xff\xfe 'quoted' \"x\" \\";
  // Codes are ours; a store keeps them or refuses them, and never anything in between.
  if (fail(failed, text) == Done) {
    EXPECT_EQ(mustFind(failed.identity).last_error, text);
  } else {
    EXPECT_EQ(mustFind(failed.identity).state, RecordState::InProgress);
  }
}

TEST_P(StoreContractTest, StoppedAndStartedStoreKnowsEverything) {
  const ClaimRef running = reach(Situation::Running, identity("running"));
  const ClaimRef done = mustClaim(identity("done"));
  ASSERT_EQ(complete(completeRequest(done, "kept")), Done);
  const ClaimRef unknown = reach(Situation::Unknown, identity("unknown"));
  rig_->stop();
  rig_->start();
  EXPECT_EQ(mustFind(running.identity).attempt, running.attempt);
  EXPECT_EQ(mustFind(done.identity).response, "kept");
  EXPECT_EQ(mustFind(unknown.identity).state, RecordState::Unknown);
  EXPECT_EQ(complete(completeRequest(running)), Done);
}

// --- Unknown outcomes

TEST_P(StoreContractTest, UnknownSaysWhenReconciliationAsks) {
  const ClaimRef ref = mustClaim(identity("unknown"));
  ASSERT_EQ(markUnknown(ref, 2h), Done);
  const Record record = mustFind(ref.identity);
  ASSERT_TRUE(record.reconcile_after.has_value());
  EXPECT_GT(*record.reconcile_after, 1h);
  EXPECT_LE(*record.reconcile_after, 2h);
  rig_->passTime(3h);
  EXPECT_EQ(mustFind(ref.identity).reconcile_after, 0ms);
}

// --- Heartbeat

TEST_P(StoreContractTest, ExtendTellsEachClaimItsOwnFate) {
  const ClaimRef running = reach(Situation::Running, identity("a-running"));
  const ClaimRef absent = reach(Situation::Absent, identity("b-absent"));
  const ClaimRef done = reach(Situation::Completed, identity("c-done"));
  const ClaimRef taken = reach(Situation::Failed, identity("d-taken"));
  mustReclaim(taken.identity);
  const ClaimRef also = reach(Situation::Running, identity("e-running"));
  // Not in the order of the keys.
  Answer<ExtendResult> answer;
  store().extend({also, done, absent, taken, running}, 5h, soon(), answer.callback());
  const ExtendResult result = answer.get();
  ASSERT_EQ(result.size(), 5U);
  EXPECT_EQ(result[0].outcome, Done);
  EXPECT_EQ(result[1].outcome, Fenced);
  EXPECT_EQ(result[2].outcome, Fenced);
  EXPECT_EQ(result[3].outcome, Fenced);
  EXPECT_EQ(result[4].outcome, Done);
  EXPECT_GT(mustFind(also.identity).lease_left, 4h);
  EXPECT_GT(mustFind(running.identity).lease_left, 4h);
  EXPECT_LE(mustFind(taken.identity).lease_left, 1h);
}

TEST_P(StoreContractTest, ExtendOfManyClaims) {
  std::vector<ClaimRef> refs;
  std::vector<Answer<ClaimResult>> claims(500);
  for (size_t i = 0; i < claims.size(); ++i) {
    const ClaimRequest request = claimRequest(identity("many" + std::to_string(i)));
    refs.push_back({request.identity, request.attempt});
    store().claim(request, soon(), claims[i].callback());
  }
  for (const Answer<ClaimResult>& answer : claims) {
    ASSERT_TRUE(std::holds_alternative<Claimed>(answer.get()));
  }
  Answer<ExtendResult> answer;
  store().extend(refs, 9h, soon(), answer.callback());
  const ExtendResult result = answer.get();
  ASSERT_EQ(result.size(), refs.size());
  for (size_t i = 0; i < refs.size(); ++i) {
    EXPECT_EQ(result[i].outcome, Done) << i;
  }
  EXPECT_GT(mustFind(refs[0].identity).lease_left, 8h);
  EXPECT_GT(mustFind(refs[499].identity).lease_left, 8h);
}

TEST_P(StoreContractTest, ExtendOfNothingAnswers) {
  Answer<ExtendResult> answer;
  store().extend({}, 1h, soon(), answer.callback());
  EXPECT_TRUE(answer.get().empty());
}

TEST_P(StoreContractTest, ExtendMayShortenALease) {
  const ClaimRef ref = mustClaim(identity("short"));
  ASSERT_EQ(extend(ref, 10min), Done);
  EXPECT_LE(mustFind(ref.identity).lease_left, 10min);
}

TEST_P(StoreContractTest, LeaseRunsOutByTheStoresClock) {
  const ClaimRef ref = mustClaim(identity("lease"));
  rig_->passTime(59min);
  EXPECT_TRUE(mustFind(ref.identity).lease_alive);
  rig_->passTime(2min);
  const Record record = mustFind(ref.identity);
  EXPECT_FALSE(record.lease_alive);
  EXPECT_EQ(record.lease_left, 0ms);
  EXPECT_EQ(record.state, RecordState::InProgress) << "nobody has moved it";
}

}  // namespace
}  // namespace idempotency::test
