// What follows a claim: completion, failure, release, unknown outcomes, heartbeats, look-ups.
#include <vector>

#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

// Every write in every situation, by the attempt that made it and by another.
struct WriteCase {
  Situation situation;
  store::WriteOutcome complete;
  store::WriteOutcome fail;
  store::WriteOutcome release;
  store::WriteOutcome mark_unknown;
  store::WriteOutcome extend;
};
constexpr store::WriteOutcome Done = store::WriteOutcome::Done;
constexpr store::WriteOutcome Fenced = store::WriteOutcome::Fenced;
constexpr WriteCase WriteCases[] = {
    {Situation::Absent, Fenced, Fenced, Done, Fenced, Fenced},
    {Situation::Running, Done, Done, Done, Done, Done},
    {Situation::LeaseOver, Done, Done, Done, Done, Done},
    {Situation::LeaseOverRetry, Done, Done, Done, Done, Done},
    {Situation::Completed, Done, Fenced, Fenced, Fenced, Fenced},
    {Situation::CompletedPastLife, Done, Fenced, Fenced, Fenced, Fenced},
    {Situation::Failed, Fenced, Done, Fenced, Fenced, Fenced},
    {Situation::FailedPastLife, Fenced, Done, Fenced, Fenced, Fenced},
    {Situation::Unknown, Done, Fenced, Fenced, Done, Fenced},
    {Situation::UnknownPastLife, Done, Fenced, Fenced, Done, Fenced},
    {Situation::Expired, Fenced, Fenced, Fenced, Fenced, Fenced},
};

bool isUnknown(Situation situation) {
  return situation == Situation::Unknown || situation == Situation::UnknownPastLife;
}

bool isInProgress(Situation situation) {
  return situation == Situation::Running || situation == Situation::LeaseOver ||
         situation == Situation::LeaseOverRetry;
}

TEST_P(StoreContractTest, CompleteInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const store::ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<store::Record> before = lookUp(ref.identity);
    protocol::Completed completed = completion("late");
    completed.status = 202;
    EXPECT_EQ(complete(ref, completed), test.complete);
    if (!isInProgress(test.situation) && !isUnknown(test.situation)) {
      EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
      continue;
    }
    const store::Record after = mustFind(ref.identity);
    EXPECT_EQ(after.state, protocol::RecordState::Completed);
    EXPECT_EQ(after.attempt, ref.attempt);
    EXPECT_EQ(after.status, 202);
    EXPECT_EQ(after.tombstone, protocol::Tombstone::None);
    EXPECT_EQ(after.response_schema, 1);
    EXPECT_EQ(after.response, "late");
    EXPECT_TRUE(after.completed_at.has_value());
    EXPECT_FALSE(after.lease_alive);
    if (isUnknown(test.situation)) {
      EXPECT_EQ(after.expires_at, *after.completed_at + 24h) << "it lives from now on";
      EXPECT_FALSE(after.past_life);
    } else {
      EXPECT_EQ(after.expires_at, before->expires_at);
    }
    EXPECT_EQ(after.fingerprint, before->fingerprint);
    EXPECT_EQ(complete(ref, completed), Done) << "the same write again";
    EXPECT_TRUE(sameRecord(after, lookUp(ref.identity)));
  }
}

TEST_P(StoreContractTest, FailInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const store::ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<store::Record> before = lookUp(ref.identity);
    EXPECT_EQ(fail(ref, "other_code"), test.fail);
    if (!isInProgress(test.situation)) {
      EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
      continue;
    }
    const store::Record after = mustFind(ref.identity);
    EXPECT_EQ(after.state, protocol::RecordState::FailedRetryable);
    EXPECT_EQ(after.attempt, ref.attempt);
    EXPECT_EQ(after.last_error, "other_code");
    EXPECT_FALSE(after.response.has_value());
  }
}

TEST_P(StoreContractTest, ReleaseInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const store::ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<store::Record> before = lookUp(ref.identity);
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
    const store::ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<store::Record> before = lookUp(ref.identity);
    EXPECT_EQ(markUnknown(ref), test.mark_unknown);
    if (!isInProgress(test.situation)) {
      EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
      continue;
    }
    const store::Record after = mustFind(ref.identity);
    EXPECT_EQ(after.state, protocol::RecordState::Unknown);
    EXPECT_EQ(after.attempt, ref.attempt);
    EXPECT_EQ(after.last_error, "upstream_reset");
    EXPECT_FALSE(after.reconcile_after.has_value());
    EXPECT_FALSE(after.dead_letter);
  }
}

TEST_P(StoreContractTest, ExtendInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const store::ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<store::Record> before = lookUp(ref.identity);
    EXPECT_EQ(extend(ref, 7h), test.extend);
    if (!isInProgress(test.situation)) {
      EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
      continue;
    }
    const store::Record after = mustFind(ref.identity);
    EXPECT_EQ(after.state, protocol::RecordState::InProgress);
    EXPECT_TRUE(after.lease_alive);
    EXPECT_GT(after.lease_left, 6h);
    EXPECT_LE(after.lease_left, 7h);
    EXPECT_EQ(after.expires_at, before->expires_at);
  }
}

TEST_P(StoreContractTest, AbandonInEverySituation) {
  for (const WriteCase& test : WriteCases) {
    SCOPED_TRACE(name(test.situation));
    const store::ClaimRef ref = reach(test.situation, identity(std::string(name(test.situation))));
    const std::optional<store::Record> before = lookUp(ref.identity);
    store().abandon(ref);
    if (isInProgress(test.situation)) {
      EXPECT_TRUE(eventually([&] { return isAbsent(ref.identity); }));
      continue;
    }
    // What the store does by itself it has done before it does this.
    const store::ClaimRef later = mustClaim(identity("later" + ref.identity.key));
    store().abandon(later);
    EXPECT_TRUE(eventually([&] { return isAbsent(later.identity); }));
    EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
  }
}

// With own_transaction, a result of the same attempt stays whatever the ending is, and comes back.
// Everything else is as without it.
TEST_P(StoreContractTest, SettlingLooksFirstWhereTheUpstreamSettlesItself) {
  const std::vector<protocol::Ending> endings = {
      protocol::Unknown{"late", std::nullopt}, completion("late"), protocol::Failed{"late"},
      protocol::Released{}};
  for (const WriteCase& test : WriteCases) {
    const store::WriteOutcome wanted[] = {test.mark_unknown, test.complete, test.fail,
                                          test.release};
    for (const protocol::Ending& ending : endings) {
      const std::string key =
          std::string(name(test.situation)) + " and " + std::to_string(ending.index());
      SCOPED_TRACE(key);
      store::ClaimRef ref = reach(test.situation, identity(key));
      ref.own_transaction = true;
      const std::optional<store::Record> before = lookUp(ref.identity);
      const store::WriteResult result = settleWith(ref, ending);
      const bool completed = before.has_value() &&
                             before->state == protocol::RecordState::Completed &&
                             before->attempt == ref.attempt;
      EXPECT_EQ(result.completed.has_value(), completed);
      if (!completed) {
        EXPECT_EQ(result.outcome, wanted[ending.index()]);
        continue;
      }
      EXPECT_EQ(result.outcome, Done);
      EXPECT_TRUE(result.repeated);
      EXPECT_EQ(result.completed->response, before->response);
      EXPECT_EQ(result.completed->status, before->status);
      EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
    }
  }
}

TEST_P(StoreContractTest, OfAnotherAttemptsResultNothingComesBack) {
  store::ClaimRef ref = reach(Situation::Completed, identity("k"));
  ref.own_transaction = true;
  ref.attempt += 1;
  const store::WriteResult result = settleWith(ref, completion("late"));
  EXPECT_EQ(result.outcome, Fenced);
  EXPECT_FALSE(result.completed.has_value());
}

TEST_P(StoreContractTest, AnotherAttemptChangesNothingInAnySituation) {
  for (const Situation situation : AllSituations) {
    if (situation == Situation::Absent) {
      continue;
    }
    SCOPED_TRACE(name(situation));
    const store::ClaimRef ref = reach(situation, identity(std::string(name(situation))));
    const store::ClaimRef other{ref.identity, store::newAttempt()};
    const std::optional<store::Record> before = lookUp(ref.identity);
    EXPECT_EQ(complete(other, completion()), Fenced);
    EXPECT_EQ(fail(other), Fenced);
    EXPECT_EQ(release(other), Fenced);
    EXPECT_EQ(markUnknown(other), Fenced);
    EXPECT_EQ(extend(other, 7h), Fenced);
    store().abandon(other);
    const store::ClaimRef later = mustClaim(identity("later" + ref.identity.key));
    store().abandon(later);
    EXPECT_TRUE(eventually([&] { return isAbsent(later.identity); }));
    EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
  }
}

TEST_P(StoreContractTest, SameAttemptOnAnotherIdentityIsFenced) {
  const store::ClaimRef ref = mustClaim(identity("mine"));
  const store::ClaimRef other = mustClaim(identity("other"));
  EXPECT_EQ(complete({other.identity, ref.attempt}, completion()), Fenced);
  EXPECT_EQ(mustFind(ref.identity).state, protocol::RecordState::InProgress);
  EXPECT_EQ(mustFind(other.identity).state, protocol::RecordState::InProgress);
}

TEST_P(StoreContractTest, ReleaseOfAReclaimedRecordKeepsWhatTheFirstAttemptReached) {
  for (const Situation situation : {Situation::Failed, Situation::LeaseOverRetry}) {
    for (const bool by_abandon : {false, true}) {
      SCOPED_TRACE(name(situation));
      const protocol::Identity id =
          identity(std::string(name(situation)) + (by_abandon ? "a" : "r"));
      const store::ClaimRef first = reach(situation, id);
      rig_->setRecoveryPoint(id, "charged");
      const store::ClaimRef second = mustReclaim(id);
      if (by_abandon) {
        store().abandon(second);
        EXPECT_TRUE(eventually(
            [&] { return mustFind(id).state == protocol::RecordState::FailedRetryable; }));
      } else {
        EXPECT_EQ(release(second), Done);
      }
      const store::Record record = mustFind(id);
      EXPECT_EQ(record.state, protocol::RecordState::FailedRetryable);
      EXPECT_EQ(record.recovery_point, "charged");
      EXPECT_EQ(complete(first, completion()), Fenced);
      EXPECT_EQ(complete(second, completion()), Fenced);
      mustReclaim(id);
    }
  }
}

TEST_P(StoreContractTest, ReleaseOfANewLifeRemovesTheRecord) {
  for (const Situation situation : {Situation::CompletedPastLife, Situation::Expired}) {
    const protocol::Identity id = identity(std::string(name(situation)));
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
    const store::ClaimRef ref = mustClaim(identity("size" + std::to_string(size)));
    ASSERT_EQ(complete(ref, completion(response)), Done);
    const store::Record record = mustFind(ref.identity);
    ASSERT_TRUE(record.response.has_value());
    EXPECT_TRUE(*record.response == response) << size;
  }
}

TEST_P(StoreContractTest, TombstoneHasNoResponse) {
  for (const protocol::Tombstone tombstone :
       {protocol::Tombstone::TooLarge, protocol::Tombstone::Secret,
        protocol::Tombstone::Unstorable}) {
    const store::ClaimRef ref =
        mustClaim(identity("t" + std::to_string(static_cast<int>(tombstone))));
    protocol::Completed completed = completion("");
    completed.tombstone = tombstone;
    ASSERT_EQ(complete(ref, completed), Done);
    const store::Record record = mustFind(ref.identity);
    EXPECT_EQ(record.state, protocol::RecordState::Completed);
    EXPECT_EQ(record.tombstone, tombstone);
    EXPECT_EQ(record.status, 201);
    EXPECT_FALSE(record.response.has_value());
  }
}

TEST_P(StoreContractTest, CompletionMayGiveANewLife) {
  const store::ClaimRef ref = mustClaim(identity("ttl"));
  protocol::Completed completed = completion();
  completed.ttl = 72h;
  ASSERT_EQ(complete(ref, completed), Done);
  const store::Record record = mustFind(ref.identity);
  EXPECT_EQ(record.expires_at - *record.completed_at, 72h);
  rig_->passTime(71h);
  EXPECT_FALSE(mustFind(ref.identity).past_life);
  rig_->passTime(2h);
  EXPECT_TRUE(mustFind(ref.identity).past_life);
}

TEST_P(StoreContractTest, TextsMayHoldAnyBytes) {
  const store::ClaimRef failed = mustClaim(identity("fail"));
  const std::string text = "code \xff\xfe 'quoted' \"x\" \\";
  // Codes are ours; a store keeps them or refuses them, and never anything in between.
  if (fail(failed, text) == Done) {
    EXPECT_EQ(mustFind(failed.identity).last_error, text);
  } else {
    EXPECT_EQ(mustFind(failed.identity).state, protocol::RecordState::InProgress);
  }
}

TEST_P(StoreContractTest, StoppedAndStartedStoreKnowsEverything) {
  const store::ClaimRef running = reach(Situation::Running, identity("running"));
  const store::ClaimRef done = mustClaim(identity("done"));
  ASSERT_EQ(complete(done, completion("kept")), Done);
  const store::ClaimRef unknown = reach(Situation::Unknown, identity("unknown"));
  rig_->stop();
  rig_->start();
  EXPECT_EQ(mustFind(running.identity).attempt, running.attempt);
  EXPECT_EQ(mustFind(done.identity).response, "kept");
  EXPECT_EQ(mustFind(unknown.identity).state, protocol::RecordState::Unknown);
  EXPECT_EQ(complete(running, completion()), Done);
}

// --- Unknown outcomes

TEST_P(StoreContractTest, UnknownSaysWhenReconciliationAsks) {
  const store::ClaimRef ref = mustClaim(identity("unknown"));
  ASSERT_EQ(markUnknown(ref, 2h), Done);
  const store::Record record = mustFind(ref.identity);
  ASSERT_TRUE(record.reconcile_after.has_value());
  EXPECT_GT(*record.reconcile_after, 1h);
  EXPECT_LE(*record.reconcile_after, 2h);
  rig_->passTime(3h);
  const store::Record overdue = mustFind(ref.identity);
  ASSERT_TRUE(overdue.reconcile_after.has_value());
  EXPECT_LE(*overdue.reconcile_after, -1h);
  EXPECT_GT(*overdue.reconcile_after, -2h);
}

TEST_P(StoreContractTest, LateCompletionSettlesAnUnknownOutcome) {
  const store::ClaimRef ref = mustClaim(identity("late"));
  ASSERT_EQ(markUnknown(ref, 2h), Done);
  rig_->passTime(30h);
  ASSERT_EQ(complete(ref, completion("late")), Done);
  const store::Record record = mustFind(ref.identity);
  EXPECT_EQ(record.state, protocol::RecordState::Completed);
  EXPECT_EQ(record.response, "late");
  EXPECT_EQ(record.last_error, "");
  EXPECT_FALSE(record.reconcile_after.has_value());
  // As long as at the claim, from the settlement on.
  EXPECT_EQ(record.expires_at - *record.completed_at, 24h);
  rig_->passTime(23h);
  EXPECT_FALSE(mustFind(ref.identity).past_life);
  EXPECT_EQ(mustFind(ref.identity).response, "late") << "the response lives as long as its record";
  rig_->passTime(2h);
  EXPECT_TRUE(mustFind(ref.identity).past_life);
}

TEST_P(StoreContractTest, LateCompletionMayBeATombstone) {
  const store::ClaimRef ref = reach(Situation::UnknownPastLife, identity("late"));
  protocol::Completed completed = completion("");
  completed.tombstone = protocol::Tombstone::TooLarge;
  ASSERT_EQ(complete(ref, completed), Done);
  const store::Record record = mustFind(ref.identity);
  EXPECT_EQ(record.state, protocol::RecordState::Completed);
  EXPECT_EQ(record.tombstone, protocol::Tombstone::TooLarge);
  EXPECT_EQ(record.status, 201);
  EXPECT_FALSE(record.past_life);
  EXPECT_EQ(record.expires_at - *record.completed_at, 24h);
  EXPECT_FALSE(record.response.has_value());
}

TEST_P(StoreContractTest, LateCompletionMayNameALifeOfItsOwn) {
  const store::ClaimRef ref = reach(Situation::UnknownPastLife, identity("late"));
  protocol::Completed completed = completion("late");
  completed.ttl = 72h;
  ASSERT_EQ(complete(ref, completed), Done);
  const store::Record record = mustFind(ref.identity);
  EXPECT_EQ(record.expires_at - *record.completed_at, 72h);
  EXPECT_EQ(record.response, "late");
}

// Its retries got 409 with Retry-After. The record that they find later must not let them run.
TEST_P(StoreContractTest, RequestThatOutlivesItsRecordIsRememberedFromItsCompletionOn) {
  store::ClaimRequest request = claimRequest(identity("slow"));
  request.ttl = 2h;
  const store::ClaimRef ref = mustClaim(request);
  rig_->passTime(2h + 30min);
  ASSERT_EQ(extend(ref, 1h), Done);
  EXPECT_TRUE(mustFind(ref.identity).past_life);
  ASSERT_EQ(complete(ref, completion("slow")), Done);
  const store::Record record = mustFind(ref.identity);
  EXPECT_EQ(record.state, protocol::RecordState::Completed);
  EXPECT_FALSE(record.past_life);
  EXPECT_EQ(record.expires_at - *record.completed_at, 2h) << "as long as at the claim";
  EXPECT_EQ(reap().deleted, 0U);
  EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(reclaimRequest(ref.identity))))
      << "it would run";
  rig_->passTime(1h + 30min);
  EXPECT_EQ(mustFind(ref.identity).response, "slow") << "the response lives as long as its record";
  EXPECT_EQ(complete(ref, completion("again")), Done);
  rig_->passTime(1h);
  EXPECT_TRUE(mustFind(ref.identity).past_life) << "the same write again gives no new life";
  EXPECT_EQ(reap().deleted, 1U);
}

TEST_P(StoreContractTest, TombstoneOfARequestThatOutlivesItsRecordIsRememberedToo) {
  const store::ClaimRef ref = mustClaim(identity("slow"));
  rig_->passTime(30h);
  protocol::Completed completed = completion("");
  completed.tombstone = protocol::Tombstone::TooLarge;
  ASSERT_EQ(complete(ref, completed), Done);
  const store::Record record = mustFind(ref.identity);
  EXPECT_EQ(record.tombstone, protocol::Tombstone::TooLarge);
  EXPECT_FALSE(record.past_life);
  EXPECT_EQ(record.expires_at - *record.completed_at, 24h);
  EXPECT_EQ(reap().deleted, 0U);
}

TEST_P(StoreContractTest, RequestThatOutlivesItsRecordMayNameALifeOfItsOwn) {
  const store::ClaimRef ref = mustClaim(identity("slow"));
  rig_->passTime(30h);
  protocol::Completed completed = completion("slow");
  completed.ttl = 72h;
  ASSERT_EQ(complete(ref, completed), Done);
  const store::Record record = mustFind(ref.identity);
  EXPECT_EQ(record.expires_at - *record.completed_at, 72h);
  EXPECT_EQ(record.response, "slow");
  rig_->passTime(73h);
  EXPECT_EQ(reap().deleted, 1U);
}

TEST_P(StoreContractTest, RequestThatOutlivesItsSecondClaimsLifeIsRememberedToo) {
  const store::ClaimRef failed = reach(Situation::Failed, identity("slow"));
  rig_->passTime(20h);
  const store::ClaimRef second = mustReclaim(failed.identity);
  rig_->passTime(25h);
  ASSERT_EQ(complete(second, completion("second")), Done);
  const store::Record record = mustFind(second.identity);
  EXPECT_EQ(record.expires_at - *record.completed_at, 24h) << "as at the second claim";
  EXPECT_EQ(record.response, "second");
}

TEST_P(StoreContractTest, ManyCompletionsAtOnceOfWhichSomeAreLate) {
  std::vector<store::ClaimRef> refs;
  for (int i = 0; i < 40; ++i) {
    refs.push_back(mustClaim(identity("many" + std::to_string(i))));
    if (i % 2 == 0) {
      ASSERT_EQ(markUnknown(refs.back()), Done);
    }
  }
  rig_->passTime(30h);
  EXPECT_EQ(reap().deleted, 0U);
  std::vector<Answer<store::WriteResult>> answers(refs.size());
  rig_->block();
  for (size_t i = 0; i < refs.size(); ++i) {
    store::ClaimRef ref = refs[i];
    ref.attempt += i % 5 == 0 ? 1 : 0;  // Another attempt's, which the record does not have.
    store().settle(ref, completion(std::to_string(i)), soon(), answers[i].callback());
  }
  rig_->unblock();
  for (size_t i = 0; i < refs.size(); ++i) {
    SCOPED_TRACE(i);
    const bool fenced = i % 5 == 0;
    EXPECT_EQ(answers[i].get().outcome, fenced ? Fenced : Done);
    const store::Record record = mustFind(refs[i].identity);
    if (fenced) {
      EXPECT_EQ(record.state,
                i % 2 == 0 ? protocol::RecordState::Unknown : protocol::RecordState::InProgress);
      continue;
    }
    EXPECT_EQ(record.state, protocol::RecordState::Completed);
    EXPECT_EQ(record.response, std::to_string(i));
    const auto life = record.expires_at - *record.completed_at;
    EXPECT_EQ(life, 24h) << "all are over by the clock, taken for dead or not";
  }
  rig_->passTime(25h);
  EXPECT_EQ(reap().deleted, 32U) << "late ones come to their end, too";
}

TEST_P(StoreContractTest, ClaimAgeCountsFromTheLastClaim) {
  const store::ClaimRef ref = mustClaim(identity("aged"));
  EXPECT_LT(mustFind(ref.identity).claim_age, 1h);
  rig_->passTime(50h);
  EXPECT_GE(mustFind(ref.identity).claim_age, 50h);
  EXPECT_LT(mustFind(ref.identity).claim_age, 51h);
  ASSERT_EQ(markUnknown(ref), Done);
  EXPECT_GE(mustFind(ref.identity).claim_age, 50h) << "not from when it became unknown";
  const store::ClaimRef failed = reach(Situation::Failed, identity("failed"));
  rig_->passTime(5h);
  mustReclaim(failed.identity);
  EXPECT_LT(mustFind(failed.identity).claim_age, 1h);
}

// --- Heartbeat

TEST_P(StoreContractTest, ExtendTellsEachClaimItsOwnFate) {
  const store::ClaimRef running = reach(Situation::Running, identity("a-running"));
  const store::ClaimRef absent = reach(Situation::Absent, identity("b-absent"));
  const store::ClaimRef done = reach(Situation::Completed, identity("c-done"));
  const store::ClaimRef taken = reach(Situation::Failed, identity("d-taken"));
  mustReclaim(taken.identity);
  const store::ClaimRef also = reach(Situation::Running, identity("e-running"));
  // Not in the order of the keys.
  Answer<store::ExtendResult> answer;
  store().extend({also, done, absent, taken, running}, 5h, soon(), answer.callback());
  const store::ExtendResult result = answer.get();
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
  std::vector<store::ClaimRef> refs;
  std::vector<Answer<store::ClaimResult>> claims(500);
  for (size_t i = 0; i < claims.size(); ++i) {
    const store::ClaimRequest request = claimRequest(identity("many" + std::to_string(i)));
    refs.push_back({request.identity, request.attempt});
    store().claim(request, soon(), claims[i].callback());
  }
  for (const Answer<store::ClaimResult>& answer : claims) {
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
  }
  Answer<store::ExtendResult> answer;
  store().extend(refs, 9h, soon(), answer.callback());
  const store::ExtendResult result = answer.get();
  ASSERT_EQ(result.size(), refs.size());
  for (size_t i = 0; i < refs.size(); ++i) {
    EXPECT_EQ(result[i].outcome, Done) << i;
  }
  EXPECT_GT(mustFind(refs[0].identity).lease_left, 8h);
  EXPECT_GT(mustFind(refs[499].identity).lease_left, 8h);
}

TEST_P(StoreContractTest, ExtendOfNothingAnswers) {
  Answer<store::ExtendResult> answer;
  store().extend({}, 1h, soon(), answer.callback());
  EXPECT_TRUE(answer.get().empty());
}

TEST_P(StoreContractTest, ExtendMayShortenALease) {
  const store::ClaimRef ref = mustClaim(identity("short"));
  ASSERT_EQ(extend(ref, 10min), Done);
  EXPECT_LE(mustFind(ref.identity).lease_left, 10min);
}

TEST_P(StoreContractTest, LeaseRunsOutByTheStoresClock) {
  const store::ClaimRef ref = mustClaim(identity("lease"));
  rig_->passTime(59min);
  EXPECT_TRUE(mustFind(ref.identity).lease_alive);
  rig_->passTime(2min);
  const store::Record record = mustFind(ref.identity);
  EXPECT_FALSE(record.lease_alive);
  EXPECT_EQ(record.lease_left, 0ms);
  EXPECT_EQ(record.state, protocol::RecordState::InProgress) << "nobody has moved it";
}

}  // namespace
}  // namespace idempotency::test
