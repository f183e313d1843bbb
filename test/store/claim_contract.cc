// Claims: who gets them, who is told what, quota, re-claims.
#include <algorithm>
#include <thread>
#include <vector>

#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

std::string everyByte() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

TEST_P(StoreContractTest, ClaimOfAnAbsentKeyIsDurableAndSaysHowLong) {
  const store::ClaimRequest request = claimRequest(identity("new"));
  const store::ClaimResult result = claim(request);
  const auto* const claimed = std::get_if<store::Claimed>(&result);
  ASSERT_NE(claimed, nullptr);
  EXPECT_EQ(claimed->attempt, request.attempt);
  EXPECT_EQ(claimed->recovery_point, "started");

  const store::Record record = mustFind(request.identity);
  EXPECT_EQ(record.state, protocol::RecordState::InProgress);
  EXPECT_EQ(record.attempt, request.attempt);
  EXPECT_EQ(record.fingerprint, request.fingerprint);
  EXPECT_EQ(record.recovery_point, "started");
  EXPECT_TRUE(record.lease_alive);
  EXPECT_GT(record.lease_left, 50min);
  EXPECT_LE(record.lease_left, 1h);
  EXPECT_FALSE(record.past_life);
  EXPECT_GT(record.life_left, 23h);
  EXPECT_LE(record.life_left, 24h);
  EXPECT_EQ(record.expires_at, claimed->expires_at);
  EXPECT_EQ(record.expires_at - record.created_at, 24h);
  EXPECT_FALSE(record.completed_at.has_value());
  EXPECT_FALSE(record.reconcile_after.has_value());
  EXPECT_FALSE(record.dead_letter);
  EXPECT_EQ(record.last_error, "");
  EXPECT_FALSE(record.response.has_value());
}

TEST_P(StoreContractTest, ClaimWithoutReclaimChangesNoRecordInAnySituation) {
  for (const Situation situation : AllSituations) {
    if (situation == Situation::Absent) {
      continue;
    }
    SCOPED_TRACE(name(situation));
    const protocol::Identity id = identity(std::string(name(situation)));
    reach(situation, id);
    const std::optional<store::Record> before = lookUp(id);
    const store::ClaimResult result = claim(claimRequest(id));
    const auto* const exists = std::get_if<store::Exists>(&result);
    ASSERT_NE(exists, nullptr);
    EXPECT_TRUE(sameRecord(before, exists->record));
    EXPECT_TRUE(sameRecord(before, lookUp(id)));
  }
}

TEST_P(StoreContractTest, DuplicateOfACompletedKeyGetsTheResponse) {
  const store::ClaimRef ref = mustClaim(identity("done"));
  ASSERT_EQ(complete(ref, completion(everyByte())), store::WriteOutcome::Done);
  const store::ClaimResult result = claim(claimRequest(ref.identity));
  const auto* const exists = std::get_if<store::Exists>(&result);
  ASSERT_NE(exists, nullptr);
  EXPECT_EQ(exists->record.state, protocol::RecordState::Completed);
  EXPECT_EQ(exists->record.status, 201);
  EXPECT_EQ(exists->record.response, everyByte());
}

TEST_P(StoreContractTest, EachPartOfTheIdentityDistinguishesRecords) {
  const protocol::Identity base{.tenant = "t", .operation = "o", .key = "k"};
  const std::vector<protocol::Identity> all = {
      base,
      {"T", "o", "k"},
      {"t", "O", "k"},
      {"t", "o", "K"},
      // The same bytes in a row, cut elsewhere.
      {"to", "", "k"},
      {"t", "", "ok"},
      {"", "to", "k"},
      {"", "", "tok"},
      {std::string("t\0", 2), "o", "k"},
      {"t", std::string("\0o", 2), "k"},
      {"t", "o", std::string("k\0", 2)},
      {"t ", "o", "k"},
  };
  std::vector<store::ClaimRef> refs;
  for (const protocol::Identity& id : all) {
    refs.push_back(mustClaim(id));
  }
  for (const store::ClaimRef& ref : refs) {
    EXPECT_EQ(mustFind(ref.identity).attempt, ref.attempt);
  }
}

TEST_P(StoreContractTest, KeysTenantsAndOperationsMayHoldAnyBytes) {
  const std::string bytes = everyByte();
  const store::ClaimRef ref = mustClaim(protocol::Identity{bytes, bytes, bytes});
  const store::Record record = mustFind(ref.identity);
  EXPECT_EQ(record.attempt, ref.attempt);
  EXPECT_EQ(complete(ref, completion(bytes)), store::WriteOutcome::Done);
  EXPECT_EQ(mustFind(ref.identity).response, bytes);
  EXPECT_TRUE(isAbsent(protocol::Identity{bytes, bytes, bytes.substr(0, 255)}));
}

TEST_P(StoreContractTest, FingerprintMayHoldAnyBytes) {
  store::ClaimRequest request = claimRequest(identity("fingerprint"));
  request.fingerprint = everyByte();
  const store::ClaimRef ref = mustClaim(request);
  EXPECT_EQ(mustFind(ref.identity).fingerprint, everyByte());
}

TEST_P(StoreContractTest, BadValueIsRefusedAndHurtsNoStranger) {
  constexpr int Strangers = 20;
  rig_->block();
  std::vector<Answer<store::ClaimResult>> strangers(Strangers);
  Answer<store::ClaimResult> bad;
  for (int i = 0; i < Strangers; ++i) {
    if (i == Strangers / 2) {
      store::ClaimRequest request = claimRequest(identity("bad"));
      request.attempt = 0;
      store().claim(request, soon(), bad.callback());
    }
    store().claim(claimRequest(identity(std::to_string(i))), soon(), strangers[i].callback());
  }
  rig_->unblock();
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(bad.get()));
  for (int i = 0; i < Strangers; ++i) {
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(strangers[i].get())) << i;
    EXPECT_EQ(mustFind(identity(std::to_string(i))).state, protocol::RecordState::InProgress);
  }
  EXPECT_TRUE(isAbsent(identity("bad")));
}

// --- Races

// Starts all threads at once; each makes one claim on one of the stores.
std::vector<store::ClaimResult> race(std::vector<store::Store*> stores,
                                     const std::vector<store::ClaimRequest>& requests,
                                     size_t thread_count) {
  std::vector<Answer<store::ClaimResult>> answers(requests.size());
  std::mutex mutex;
  std::condition_variable changed;
  bool go = false;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return go; });
      }
      for (size_t i = t; i < requests.size(); i += thread_count) {
        stores[i % stores.size()]->claim(requests[i], soon(), answers[i].callback());
      }
    });
  }
  {
    const std::lock_guard lock(mutex);
    go = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::vector<store::ClaimResult> results;
  for (const Answer<store::ClaimResult>& answer : answers) {
    results.push_back(answer.get());
  }
  return results;
}

// One wins; every loser sees the winner's record. A re-claim may also see the record as it was
// before: the winner's transaction still holds the row.
void expectOneWinner(const std::vector<store::ClaimRequest>& requests,
                     const std::vector<store::ClaimResult>& results) {
  protocol::Attempt winner = 0;
  size_t winners = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (std::holds_alternative<store::Claimed>(results[i])) {
      ++winners;
      winner = requests[i].attempt;
    }
  }
  ASSERT_EQ(winners, 1U);
  for (size_t i = 0; i < results.size(); ++i) {
    if (std::holds_alternative<store::Claimed>(results[i])) {
      continue;
    }
    const auto* const exists = std::get_if<store::Exists>(&results[i]);
    ASSERT_NE(exists, nullptr) << "alternative " << results[i].index();
    const std::optional<store::ReclaimFrom>& from = requests[i].from;
    if (from.has_value() && exists->record.attempt == from->attempt) {
      EXPECT_EQ(exists->record.state, from->state);
      continue;
    }
    EXPECT_EQ(exists->record.attempt, winner);
    EXPECT_EQ(exists->record.state, protocol::RecordState::InProgress);
  }
}

TEST_P(StoreContractTest, OneOf64RacingClaimersWinsAndTheOthersSeeItsRecord) {
  for (int round = 0; round < 20; ++round) {
    std::vector<store::ClaimRequest> requests;
    for (int i = 0; i < 64; ++i) {
      requests.push_back(claimRequest(identity("race" + std::to_string(round))));
    }
    expectOneWinner(requests, race({&store()}, requests, 8));
  }
}

TEST_P(StoreContractTest, OneOf64RacingClaimersOnTwoStoresWins) {
  for (int round = 0; round < 20; ++round) {
    std::vector<store::ClaimRequest> requests;
    for (int i = 0; i < 64; ++i) {
      requests.push_back(claimRequest(identity("race" + std::to_string(round))));
    }
    expectOneWinner(requests, race({&store(), &rig_->other()}, requests, 7));
  }
}

TEST_P(StoreContractTest, OneOf64RacingReclaimersWins) {
  const store::ClaimRef failed = reach(Situation::Failed, identity("race"));
  std::vector<store::ClaimRequest> requests;
  for (int i = 0; i < 64; ++i) {
    store::ClaimRequest request = claimRequest(failed.identity);
    request.from = store::ReclaimFrom{protocol::RecordState::FailedRetryable, failed.attempt};
    requests.push_back(request);
  }
  expectOneWinner(requests, race({&store(), &rig_->other()}, requests, 7));
}

TEST_P(StoreContractTest, OneOfManyDuplicatesInsideOneBatchWins) {
  std::vector<store::ClaimRequest> requests;
  for (int i = 0; i < 200; ++i) {
    requests.push_back(claimRequest(identity("batch")));
  }
  std::vector<Answer<store::ClaimResult>> answers(requests.size());
  rig_->block();
  for (size_t i = 0; i < requests.size(); ++i) {
    store().claim(requests[i], soon(), answers[i].callback());
  }
  rig_->unblock();
  std::vector<store::ClaimResult> results;
  for (const Answer<store::ClaimResult>& answer : answers) {
    results.push_back(answer.get());
  }
  expectOneWinner(requests, results);
}

TEST_P(StoreContractTest, ManyKeysInManyOrdersAllGetTheirClaims) {
  constexpr size_t Keys = 300;
  std::vector<store::ClaimRequest> requests;
  for (size_t i = 0; i < Keys; ++i) {
    requests.push_back(claimRequest(identity("many" + std::to_string(i))));
  }
  // Every key twice, the second time in the opposite order and from the other store.
  std::vector<Answer<store::ClaimResult>> first(Keys);
  std::vector<Answer<store::ClaimResult>> second(Keys);
  std::thread other([&] {
    for (size_t i = Keys; i-- > 0;) {
      store::ClaimRequest request = requests[i];
      request.attempt = store::newAttempt();
      rig_->other().claim(request, soon(), second[i].callback());
    }
  });
  for (size_t i = 0; i < Keys; ++i) {
    store().claim(requests[i], soon(), first[i].callback());
  }
  other.join();
  for (size_t i = 0; i < Keys; ++i) {
    const store::ClaimResult a = first[i].get();
    const store::ClaimResult b = second[i].get();
    EXPECT_NE(std::holds_alternative<store::Claimed>(a), std::holds_alternative<store::Claimed>(b));
    EXPECT_NE(std::holds_alternative<store::Exists>(a), std::holds_alternative<store::Exists>(b));
  }
}

// --- Re-claims

TEST_P(StoreContractTest, ReclaimHoldsExactlyWhereItsReasonDoes) {
  struct Case {
    Situation situation;
    bool holds;
    bool new_life;
  };
  for (const Case& test : {
           Case{Situation::Running, false, false},
           Case{Situation::LeaseOver, false, false},
           Case{Situation::LeaseOverRetry, true, false},
           Case{Situation::Completed, false, false},
           Case{Situation::CompletedPastLife, true, true},
           Case{Situation::Failed, true, false},
           Case{Situation::FailedPastLife, true, true},
           Case{Situation::Unknown, false, false},
           Case{Situation::UnknownPastLife, false, false},
           Case{Situation::Expired, true, true},
       }) {
    SCOPED_TRACE(name(test.situation));
    const protocol::Identity id = identity(std::string(name(test.situation)));
    reach(test.situation, id);
    rig_->setRecoveryPoint(id, "charged");
    const std::optional<store::Record> before = lookUp(id);
    ASSERT_TRUE(before.has_value());

    store::ClaimRequest request = reclaimRequest(id);
    request.fingerprint = std::string("\x01", 1) + std::string(32, 'g');
    const store::ClaimResult result = claim(request);
    if (!test.holds) {
      const auto* const exists = std::get_if<store::Exists>(&result);
      ASSERT_NE(exists, nullptr);
      EXPECT_TRUE(sameRecord(before, exists->record));
      EXPECT_TRUE(sameRecord(before, lookUp(id)));
      continue;
    }
    const auto* const claimed = std::get_if<store::Claimed>(&result);
    ASSERT_NE(claimed, nullptr);
    EXPECT_EQ(claimed->attempt, request.attempt);
    EXPECT_EQ(claimed->recovery_point, test.new_life ? "started" : "charged");
    const store::Record after = mustFind(id);
    EXPECT_EQ(after.state, protocol::RecordState::InProgress);
    EXPECT_EQ(after.attempt, request.attempt);
    EXPECT_EQ(after.fingerprint, request.fingerprint);
    EXPECT_EQ(after.recovery_point, claimed->recovery_point);
    EXPECT_EQ(after.expires_at, claimed->expires_at);
    EXPECT_TRUE(after.lease_alive);
    EXPECT_FALSE(after.past_life);
    EXPECT_EQ(after.created_at == before->created_at, !test.new_life);
    // Nothing is left of what was.
    EXPECT_FALSE(after.response.has_value());
    EXPECT_FALSE(after.completed_at.has_value());
    EXPECT_EQ(after.last_error, "");
    EXPECT_EQ(after.status, 0);
    EXPECT_EQ(after.tombstone, protocol::Tombstone::None);
    // And the old attempt is fenced off.
    EXPECT_EQ(complete({id, before->attempt}, completion()), store::WriteOutcome::Fenced);
    EXPECT_TRUE(sameRecord(after, lookUp(id)));
  }
}

// Two Envoys may have different policies for one route, while a change of it is rolled out.
TEST_P(StoreContractTest, DeadLeaseIsReclaimedOnlyWhereItsClaimAndTheNextBothSayRetry) {
  for (const protocol::LeaseExpired first :
       {protocol::LeaseExpired::Unknown, protocol::LeaseExpired::Retry}) {
    for (const protocol::LeaseExpired next :
         {protocol::LeaseExpired::Unknown, protocol::LeaseExpired::Retry}) {
      const bool holds =
          first == protocol::LeaseExpired::Retry && next == protocol::LeaseExpired::Retry;
      const protocol::Identity id = identity(std::to_string(static_cast<int>(first)) +
                                             std::to_string(static_cast<int>(next)));
      SCOPED_TRACE(id.key);
      const store::ClaimRef dead = reach(
          first == protocol::LeaseExpired::Retry ? Situation::LeaseOverRetry : Situation::LeaseOver,
          id);
      const std::optional<store::Record> before = lookUp(id);
      const store::ClaimResult result = claim(reclaimRequest(id, next));
      EXPECT_EQ(std::holds_alternative<store::Claimed>(result), holds)
          << "alternative " << result.index();
      if (!holds) {
        const auto* const exists = std::get_if<store::Exists>(&result);
        ASSERT_NE(exists, nullptr);
        EXPECT_TRUE(sameRecord(before, exists->record));
        EXPECT_TRUE(sameRecord(before, lookUp(id)));
        EXPECT_EQ(complete(dead, completion()), store::WriteOutcome::Done)
            << "it still holds its claim";
      }
    }
  }
}

TEST_P(StoreContractTest, RecordSaysWhatItsLatestClaimWantsOfADeadLease) {
  const protocol::Identity id = identity("says");
  reach(Situation::LeaseOverRetry, id);
  EXPECT_EQ(mustFind(id).on_lease_expired, protocol::LeaseExpired::Retry);
  const store::ClaimResult found = claim(claimRequest(id));
  const auto* const exists = std::get_if<store::Exists>(&found);
  ASSERT_NE(exists, nullptr);
  EXPECT_EQ(exists->record.on_lease_expired, protocol::LeaseExpired::Retry);
  ASSERT_EQ(fail({id, exists->record.attempt}), store::WriteOutcome::Done);
  mustClaim(reclaimRequest(id, protocol::LeaseExpired::Unknown));
  EXPECT_EQ(mustFind(id).on_lease_expired, protocol::LeaseExpired::Unknown);

  reach(Situation::Running, identity("plain"));
  reach(Situation::LeaseOverRetry, identity("bold"));
  std::vector<Answer<store::LookUpResult>> answers(3);
  store().lookUpMany({identity("plain"), identity("bold"), id}, soon(),
                     [&](size_t place, store::LookUpResult result) {
                       answers[place].callback()(std::move(result));
                     });
  EXPECT_EQ(std::get<store::Record>(answers[0].get()).on_lease_expired,
            protocol::LeaseExpired::Unknown);
  EXPECT_EQ(std::get<store::Record>(answers[1].get()).on_lease_expired,
            protocol::LeaseExpired::Retry);
  EXPECT_EQ(std::get<store::Record>(answers[2].get()).on_lease_expired,
            protocol::LeaseExpired::Unknown);
}

TEST_P(StoreContractTest, ReclaimComparesTheAttempt) {
  const store::ClaimRef ref = reach(Situation::Failed, identity("cas"));
  store::ClaimRequest request = claimRequest(ref.identity);
  request.from = store::ReclaimFrom{protocol::RecordState::FailedRetryable, ref.attempt ^ 1};
  EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(request)));
  EXPECT_EQ(mustFind(ref.identity).state, protocol::RecordState::FailedRetryable);
}

TEST_P(StoreContractTest, ReclaimComparesTheState) {
  for (const Situation situation : AllSituations) {
    if (situation == Situation::Absent) {
      continue;
    }
    const protocol::Identity id = identity(std::string(name(situation)));
    const store::ClaimRef ref = reach(situation, id);
    const std::optional<store::Record> before = lookUp(id);
    ASSERT_TRUE(before.has_value());
    for (const protocol::RecordState state :
         {protocol::RecordState::InProgress, protocol::RecordState::Completed,
          protocol::RecordState::FailedRetryable, protocol::RecordState::Unknown,
          protocol::RecordState::Expired}) {
      if (state == before->state) {
        continue;
      }
      store::ClaimRequest request = claimRequest(id);
      request.from = store::ReclaimFrom{state, ref.attempt};
      EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(request))) << name(situation);
      EXPECT_TRUE(sameRecord(before, lookUp(id))) << name(situation);
    }
  }
}

TEST_P(StoreContractTest, ReclaimOfARecordThatHasGoneIsANewClaim) {
  const store::ClaimRef gone = reach(Situation::Absent, identity("gone"));
  store::ClaimRequest request = claimRequest(gone.identity);
  request.from = store::ReclaimFrom{protocol::RecordState::FailedRetryable, gone.attempt};
  const store::ClaimResult result = claim(request);
  const auto* const claimed = std::get_if<store::Claimed>(&result);
  ASSERT_NE(claimed, nullptr);
  EXPECT_EQ(claimed->recovery_point, "started");
  EXPECT_EQ(mustFind(gone.identity).attempt, request.attempt);
}

TEST_P(StoreContractTest, CompletionOfAReclaimedRecordStoresItsOwnResponse) {
  const protocol::Identity id = identity("again");
  reach(Situation::CompletedPastLife, id);
  const store::ClaimRef second = mustReclaim(id);
  ASSERT_EQ(complete(second, completion("second")), store::WriteOutcome::Done);
  EXPECT_EQ(mustFind(id).response, "second");
}

// --- Quota

class QuotaCase {
public:
  explicit QuotaCase(uint64_t cap) : cap_(cap) {}
  store::ClaimRequest operator()(store::ClaimRequest request) const {
    request.tenant_live_keys = cap_;
    return request;
  }

private:
  uint64_t cap_;
};

TEST_P(StoreContractTest, QuotaRefusesTheClaimAboveItAndStoresNothing) {
  const QuotaCase capped(2);
  mustClaim(capped(claimRequest(identity("1"))));
  mustClaim(capped(claimRequest(identity("2"))));
  const store::ClaimResult result = claim(capped(claimRequest(identity("3"))));
  const auto* const over = std::get_if<store::OverQuota>(&result);
  ASSERT_NE(over, nullptr);
  EXPECT_GT(over->retry_after, 0ms);
  EXPECT_TRUE(isAbsent(identity("3")));
}

TEST_P(StoreContractTest, QuotaHoldsInsideOneBatch) {
  const QuotaCase capped(5);
  std::vector<Answer<store::ClaimResult>> answers(20);
  rig_->block();
  for (size_t i = 0; i < answers.size(); ++i) {
    store().claim(capped(claimRequest(identity(std::to_string(i)))), soon(), answers[i].callback());
  }
  rig_->unblock();
  size_t claimed = 0;
  size_t refused = 0;
  for (const Answer<store::ClaimResult>& answer : answers) {
    const store::ClaimResult result = answer.get();
    claimed += std::holds_alternative<store::Claimed>(result) ? 1 : 0;
    refused += std::holds_alternative<store::OverQuota>(result) ? 1 : 0;
  }
  EXPECT_EQ(claimed, 5U);
  EXPECT_EQ(refused, 15U);
}

TEST_P(StoreContractTest, QuotaIsEachTenantsOwn) {
  const QuotaCase capped(1);
  mustClaim(capped(claimRequest(identity("1", "a"))));
  mustClaim(capped(claimRequest(identity("1", "b"))));
  EXPECT_TRUE(
      std::holds_alternative<store::OverQuota>(claim(capped(claimRequest(identity("2", "a"))))));
}

TEST_P(StoreContractTest, QuotaDoesNotHideARecordThatExists) {
  const QuotaCase capped(1);
  const store::ClaimRef ref = mustClaim(capped(claimRequest(identity("1"))));
  const store::ClaimResult result = claim(capped(claimRequest(identity("1"))));
  const auto* const exists = std::get_if<store::Exists>(&result);
  ASSERT_NE(exists, nullptr);
  EXPECT_EQ(exists->record.attempt, ref.attempt);
}

TEST_P(StoreContractTest, ReleasedRecordMakesRoomInTheQuota) {
  const QuotaCase capped(1);
  const store::ClaimRef ref = mustClaim(capped(claimRequest(identity("1"))));
  ASSERT_EQ(release(ref), store::WriteOutcome::Done);
  mustClaim(capped(claimRequest(identity("2"))));
}

TEST_P(StoreContractTest, RecordPastItsLifeMakesRoomInTheQuota) {
  const QuotaCase capped(1);
  const store::ClaimRef ref = mustClaim(capped(claimRequest(identity("1"))));
  ASSERT_EQ(complete(ref, completion()), store::WriteOutcome::Done);
  EXPECT_TRUE(std::holds_alternative<store::OverQuota>(claim(capped(claimRequest(identity("2"))))));
  rig_->passTime(25h);
  mustClaim(capped(claimRequest(identity("2"))));
  EXPECT_TRUE(std::holds_alternative<store::OverQuota>(claim(capped(claimRequest(identity("3"))))));
}

TEST_P(StoreContractTest, ExpiredAndDeletedRecordsMakeRoomInTheQuota) {
  const QuotaCase capped(2);
  reach(Situation::Expired, identity("soft"));
  mustClaim(capped(claimRequest(identity("1"))));
  const store::ClaimRef second = mustClaim(capped(claimRequest(identity("2"))));
  EXPECT_TRUE(std::holds_alternative<store::OverQuota>(claim(capped(claimRequest(identity("3"))))));
  ASSERT_EQ(complete(second, completion()), store::WriteOutcome::Done);
  rig_->passTime(25h);
  EXPECT_EQ(reap().deleted, 1U);
  mustClaim(capped(claimRequest(identity("3"))));
  mustClaim(capped(claimRequest(identity("4"))));
  EXPECT_TRUE(std::holds_alternative<store::OverQuota>(claim(capped(claimRequest(identity("5"))))));
}

TEST_P(StoreContractTest, ReclaimOfALiveRecordNeedsNoRoom) {
  const store::ClaimRef ref = reach(Situation::Failed, identity("1"));
  store::ClaimRequest request = claimRequest(ref.identity);
  request.from = store::ReclaimFrom{protocol::RecordState::FailedRetryable, ref.attempt};
  mustClaim(QuotaCase(1)(request));
}

TEST_P(StoreContractTest, ReclaimOfAnOverRecordNeedsRoom) {
  for (const Situation situation : {Situation::CompletedPastLife, Situation::Expired}) {
    SCOPED_TRACE(name(situation));
    const std::string tenant(name(situation));
    const store::ClaimRef over = reach(situation, identity("1", tenant));
    const store::ClaimRef live = mustClaim(QuotaCase(1)(claimRequest(identity("2", tenant))));
    const std::optional<store::Record> before = lookUp(over.identity);
    store::ClaimRequest request = claimRequest(over.identity);
    request.from = store::ReclaimFrom{before->state, over.attempt};
    EXPECT_TRUE(std::holds_alternative<store::OverQuota>(claim(QuotaCase(1)(request))));
    EXPECT_TRUE(sameRecord(before, lookUp(over.identity)));
    ASSERT_EQ(release(live), store::WriteOutcome::Done);
    mustClaim(QuotaCase(1)(request));
    EXPECT_TRUE(std::holds_alternative<store::OverQuota>(
        claim(QuotaCase(1)(claimRequest(identity("3", tenant))))));
  }
}

}  // namespace
}  // namespace idempotency::test
