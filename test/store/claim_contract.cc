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
  const ClaimRequest request = claimRequest(identity("new"));
  const ClaimResult result = claim(request);
  const auto* const claimed = std::get_if<Claimed>(&result);
  ASSERT_NE(claimed, nullptr);
  EXPECT_EQ(claimed->attempt, request.attempt);
  EXPECT_EQ(claimed->recovery_point, "started");

  const Record record = mustFind(request.identity);
  EXPECT_EQ(record.state, RecordState::InProgress);
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
    const Identity id = identity(std::string(name(situation)));
    reach(situation, id);
    const std::optional<Record> before = lookUp(id);
    const ClaimResult result = claim(claimRequest(id));
    const auto* const exists = std::get_if<Exists>(&result);
    ASSERT_NE(exists, nullptr);
    EXPECT_TRUE(sameRecord(before, exists->record));
    EXPECT_TRUE(sameRecord(before, lookUp(id)));
  }
}

TEST_P(StoreContractTest, DuplicateOfACompletedKeyGetsTheResponse) {
  const ClaimRef ref = mustClaim(identity("done"));
  ASSERT_EQ(complete(completeRequest(ref, everyByte())), WriteOutcome::Done);
  const ClaimResult result = claim(claimRequest(ref.identity));
  const auto* const exists = std::get_if<Exists>(&result);
  ASSERT_NE(exists, nullptr);
  EXPECT_EQ(exists->record.state, RecordState::Completed);
  EXPECT_EQ(exists->record.status, 201);
  EXPECT_EQ(exists->record.response, everyByte());
}

TEST_P(StoreContractTest, EachPartOfTheIdentityTellsRecordsApart) {
  const Identity base{.tenant = "t", .operation = "o", .key = "k"};
  const std::vector<Identity> all = {
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
  std::vector<ClaimRef> refs;
  for (const Identity& id : all) {
    refs.push_back(mustClaim(id));
  }
  for (const ClaimRef& ref : refs) {
    EXPECT_EQ(mustFind(ref.identity).attempt, ref.attempt);
  }
}

TEST_P(StoreContractTest, KeysTenantsAndOperationsMayHoldAnyBytes) {
  const std::string bytes = everyByte();
  const ClaimRef ref = mustClaim(Identity{bytes, bytes, bytes});
  const Record record = mustFind(ref.identity);
  EXPECT_EQ(record.attempt, ref.attempt);
  EXPECT_EQ(complete(completeRequest(ref, bytes)), WriteOutcome::Done);
  EXPECT_EQ(mustFind(ref.identity).response, bytes);
  EXPECT_TRUE(isAbsent(Identity{bytes, bytes, bytes.substr(0, 255)}));
}

TEST_P(StoreContractTest, FingerprintMayHoldAnyBytes) {
  ClaimRequest request = claimRequest(identity("fingerprint"));
  request.fingerprint = everyByte();
  const ClaimRef ref = mustClaim(request);
  EXPECT_EQ(mustFind(ref.identity).fingerprint, everyByte());
}

TEST_P(StoreContractTest, BadValueIsRefusedAndHurtsNoStranger) {
  constexpr int Strangers = 20;
  rig_->block();
  std::vector<Answer<ClaimResult>> strangers(Strangers);
  Answer<ClaimResult> bad;
  for (int i = 0; i < Strangers; ++i) {
    if (i == Strangers / 2) {
      ClaimRequest request = claimRequest(identity("bad"));
      request.attempt = 0;
      store().claim(request, soon(), bad.callback());
    }
    store().claim(claimRequest(identity(std::to_string(i))), soon(), strangers[i].callback());
  }
  rig_->unblock();
  EXPECT_TRUE(std::holds_alternative<Unavailable>(bad.get()));
  for (int i = 0; i < Strangers; ++i) {
    EXPECT_TRUE(std::holds_alternative<Claimed>(strangers[i].get())) << i;
    EXPECT_EQ(mustFind(identity(std::to_string(i))).state, RecordState::InProgress);
  }
  EXPECT_TRUE(isAbsent(identity("bad")));
}

// --- Races

// Starts all threads at once; each makes one claim on one of the stores.
std::vector<ClaimResult> race(std::vector<Store*> stores, const std::vector<ClaimRequest>& requests,
                              size_t thread_count) {
  std::vector<Answer<ClaimResult>> answers(requests.size());
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
  std::vector<ClaimResult> results;
  for (const Answer<ClaimResult>& answer : answers) {
    results.push_back(answer.get());
  }
  return results;
}

// One wins; every loser sees the winner's record.
void expectOneWinner(const std::vector<ClaimRequest>& requests,
                     const std::vector<ClaimResult>& results) {
  Attempt winner = 0;
  size_t winners = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (std::holds_alternative<Claimed>(results[i])) {
      ++winners;
      winner = requests[i].attempt;
    }
  }
  ASSERT_EQ(winners, 1U);
  for (const ClaimResult& result : results) {
    if (std::holds_alternative<Claimed>(result)) {
      continue;
    }
    const auto* const exists = std::get_if<Exists>(&result);
    ASSERT_NE(exists, nullptr) << "alternative " << result.index();
    EXPECT_EQ(exists->record.attempt, winner);
    EXPECT_EQ(exists->record.state, RecordState::InProgress);
  }
}

TEST_P(StoreContractTest, OneOf64RacingClaimersWinsAndTheOthersSeeItsRecord) {
  for (int round = 0; round < 20; ++round) {
    std::vector<ClaimRequest> requests;
    for (int i = 0; i < 64; ++i) {
      requests.push_back(claimRequest(identity("race" + std::to_string(round))));
    }
    expectOneWinner(requests, race({&store()}, requests, 8));
  }
}

TEST_P(StoreContractTest, OneOf64RacingClaimersOnTwoStoresWins) {
  for (int round = 0; round < 20; ++round) {
    std::vector<ClaimRequest> requests;
    for (int i = 0; i < 64; ++i) {
      requests.push_back(claimRequest(identity("race" + std::to_string(round))));
    }
    expectOneWinner(requests, race({&store(), &rig_->other()}, requests, 7));
  }
}

TEST_P(StoreContractTest, OneOf64RacingReclaimersWins) {
  const ClaimRef failed = reach(Situation::Failed, identity("race"));
  std::vector<ClaimRequest> requests;
  for (int i = 0; i < 64; ++i) {
    ClaimRequest request = claimRequest(failed.identity);
    request.from = ReclaimFrom{RecordState::FailedRetryable, failed.attempt};
    requests.push_back(request);
  }
  expectOneWinner(requests, race({&store(), &rig_->other()}, requests, 7));
}

TEST_P(StoreContractTest, OneOfManyDuplicatesInsideOneBatchWins) {
  std::vector<ClaimRequest> requests;
  for (int i = 0; i < 200; ++i) {
    requests.push_back(claimRequest(identity("batch")));
  }
  std::vector<Answer<ClaimResult>> answers(requests.size());
  rig_->block();
  for (size_t i = 0; i < requests.size(); ++i) {
    store().claim(requests[i], soon(), answers[i].callback());
  }
  rig_->unblock();
  std::vector<ClaimResult> results;
  for (const Answer<ClaimResult>& answer : answers) {
    results.push_back(answer.get());
  }
  expectOneWinner(requests, results);
}

TEST_P(StoreContractTest, ManyKeysInManyOrdersAllGetTheirClaims) {
  constexpr size_t Keys = 300;
  std::vector<ClaimRequest> requests;
  for (size_t i = 0; i < Keys; ++i) {
    requests.push_back(claimRequest(identity("many" + std::to_string(i))));
  }
  // Every key twice, the second time in the opposite order and from the other store.
  std::vector<Answer<ClaimResult>> first(Keys);
  std::vector<Answer<ClaimResult>> second(Keys);
  std::thread other([&] {
    for (size_t i = Keys; i-- > 0;) {
      ClaimRequest request = requests[i];
      request.attempt = newAttempt();
      rig_->other().claim(request, soon(), second[i].callback());
    }
  });
  for (size_t i = 0; i < Keys; ++i) {
    store().claim(requests[i], soon(), first[i].callback());
  }
  other.join();
  for (size_t i = 0; i < Keys; ++i) {
    const ClaimResult a = first[i].get();
    const ClaimResult b = second[i].get();
    EXPECT_NE(std::holds_alternative<Claimed>(a), std::holds_alternative<Claimed>(b));
    EXPECT_NE(std::holds_alternative<Exists>(a), std::holds_alternative<Exists>(b));
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
           Case{Situation::LeaseOver, true, false},
           Case{Situation::Completed, false, false},
           Case{Situation::CompletedPastLife, true, true},
           Case{Situation::Failed, true, false},
           Case{Situation::FailedPastLife, true, true},
           Case{Situation::Unknown, false, false},
           Case{Situation::UnknownPastLife, false, false},
           Case{Situation::Expired, true, true},
       }) {
    SCOPED_TRACE(name(test.situation));
    const Identity id = identity(std::string(name(test.situation)));
    reach(test.situation, id);
    rig_->setRecoveryPoint(id, "charged");
    const std::optional<Record> before = lookUp(id);
    ASSERT_TRUE(before.has_value());

    ClaimRequest request = claimRequest(id);
    request.fingerprint = std::string("\x01", 1) + std::string(32, 'g');
    request.from = ReclaimFrom{before->state, before->attempt};
    const ClaimResult result = claim(request);
    if (!test.holds) {
      const auto* const exists = std::get_if<Exists>(&result);
      ASSERT_NE(exists, nullptr);
      EXPECT_TRUE(sameRecord(before, exists->record));
      EXPECT_TRUE(sameRecord(before, lookUp(id)));
      continue;
    }
    const auto* const claimed = std::get_if<Claimed>(&result);
    ASSERT_NE(claimed, nullptr);
    EXPECT_EQ(claimed->attempt, request.attempt);
    EXPECT_EQ(claimed->recovery_point, test.new_life ? "started" : "charged");
    const Record after = mustFind(id);
    EXPECT_EQ(after.state, RecordState::InProgress);
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
    EXPECT_EQ(after.tombstone, Tombstone::None);
    // And the old attempt is fenced off.
    EXPECT_EQ(complete(completeRequest({id, before->attempt})), WriteOutcome::Fenced);
    EXPECT_TRUE(sameRecord(after, lookUp(id)));
  }
}

TEST_P(StoreContractTest, ReclaimComparesTheAttempt) {
  const ClaimRef ref = reach(Situation::Failed, identity("cas"));
  ClaimRequest request = claimRequest(ref.identity);
  request.from = ReclaimFrom{RecordState::FailedRetryable, ref.attempt ^ 1};
  EXPECT_TRUE(std::holds_alternative<Exists>(claim(request)));
  EXPECT_EQ(mustFind(ref.identity).state, RecordState::FailedRetryable);
}

TEST_P(StoreContractTest, ReclaimComparesTheState) {
  for (const Situation situation : AllSituations) {
    if (situation == Situation::Absent) {
      continue;
    }
    const Identity id = identity(std::string(name(situation)));
    const ClaimRef ref = reach(situation, id);
    const std::optional<Record> before = lookUp(id);
    ASSERT_TRUE(before.has_value());
    for (const RecordState state :
         {RecordState::InProgress, RecordState::Completed, RecordState::FailedRetryable,
          RecordState::Unknown, RecordState::Expired}) {
      if (state == before->state) {
        continue;
      }
      ClaimRequest request = claimRequest(id);
      request.from = ReclaimFrom{state, ref.attempt};
      EXPECT_TRUE(std::holds_alternative<Exists>(claim(request))) << name(situation);
      EXPECT_TRUE(sameRecord(before, lookUp(id))) << name(situation);
    }
  }
}

TEST_P(StoreContractTest, ReclaimOfARecordThatHasGoneIsANewClaim) {
  const ClaimRef gone = reach(Situation::Absent, identity("gone"));
  ClaimRequest request = claimRequest(gone.identity);
  request.from = ReclaimFrom{RecordState::FailedRetryable, gone.attempt};
  const ClaimResult result = claim(request);
  const auto* const claimed = std::get_if<Claimed>(&result);
  ASSERT_NE(claimed, nullptr);
  EXPECT_EQ(claimed->recovery_point, "started");
  EXPECT_EQ(mustFind(gone.identity).attempt, request.attempt);
}

TEST_P(StoreContractTest, CompletionOfAReclaimedRecordStoresItsOwnResponse) {
  const Identity id = identity("again");
  reach(Situation::CompletedPastLife, id);
  const ClaimRef second = mustReclaim(id);
  ASSERT_EQ(complete(completeRequest(second, "second")), WriteOutcome::Done);
  EXPECT_EQ(mustFind(id).response, "second");
}

// --- Quota

class QuotaCase {
public:
  explicit QuotaCase(uint64_t cap) : cap_(cap) {}
  ClaimRequest operator()(ClaimRequest request) const {
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
  const ClaimResult result = claim(capped(claimRequest(identity("3"))));
  const auto* const over = std::get_if<OverQuota>(&result);
  ASSERT_NE(over, nullptr);
  EXPECT_GT(over->retry_after, 0ms);
  EXPECT_TRUE(isAbsent(identity("3")));
}

TEST_P(StoreContractTest, QuotaHoldsInsideOneBatch) {
  const QuotaCase capped(5);
  std::vector<Answer<ClaimResult>> answers(20);
  rig_->block();
  for (size_t i = 0; i < answers.size(); ++i) {
    store().claim(capped(claimRequest(identity(std::to_string(i)))), soon(), answers[i].callback());
  }
  rig_->unblock();
  size_t claimed = 0;
  size_t refused = 0;
  for (const Answer<ClaimResult>& answer : answers) {
    const ClaimResult result = answer.get();
    claimed += std::holds_alternative<Claimed>(result) ? 1 : 0;
    refused += std::holds_alternative<OverQuota>(result) ? 1 : 0;
  }
  EXPECT_EQ(claimed, 5U);
  EXPECT_EQ(refused, 15U);
}

TEST_P(StoreContractTest, QuotaIsEachTenantsOwn) {
  const QuotaCase capped(1);
  mustClaim(capped(claimRequest(identity("1", "a"))));
  mustClaim(capped(claimRequest(identity("1", "b"))));
  EXPECT_TRUE(std::holds_alternative<OverQuota>(claim(capped(claimRequest(identity("2", "a"))))));
}

TEST_P(StoreContractTest, QuotaDoesNotHideARecordThatExists) {
  const QuotaCase capped(1);
  const ClaimRef ref = mustClaim(capped(claimRequest(identity("1"))));
  const ClaimResult result = claim(capped(claimRequest(identity("1"))));
  const auto* const exists = std::get_if<Exists>(&result);
  ASSERT_NE(exists, nullptr);
  EXPECT_EQ(exists->record.attempt, ref.attempt);
}

TEST_P(StoreContractTest, ReleasedRecordMakesRoomInTheQuota) {
  const QuotaCase capped(1);
  const ClaimRef ref = mustClaim(capped(claimRequest(identity("1"))));
  ASSERT_EQ(release(ref), WriteOutcome::Done);
  mustClaim(capped(claimRequest(identity("2"))));
}

TEST_P(StoreContractTest, RecordPastItsLifeMakesRoomInTheQuota) {
  const QuotaCase capped(1);
  const ClaimRef ref = mustClaim(capped(claimRequest(identity("1"))));
  ASSERT_EQ(complete(completeRequest(ref)), WriteOutcome::Done);
  EXPECT_TRUE(std::holds_alternative<OverQuota>(claim(capped(claimRequest(identity("2"))))));
  rig_->passTime(25h);
  mustClaim(capped(claimRequest(identity("2"))));
  EXPECT_TRUE(std::holds_alternative<OverQuota>(claim(capped(claimRequest(identity("3"))))));
}

TEST_P(StoreContractTest, ExpiredAndDeletedRecordsMakeRoomInTheQuota) {
  const QuotaCase capped(2);
  reach(Situation::Expired, identity("soft"));
  mustClaim(capped(claimRequest(identity("1"))));
  const ClaimRef second = mustClaim(capped(claimRequest(identity("2"))));
  EXPECT_TRUE(std::holds_alternative<OverQuota>(claim(capped(claimRequest(identity("3"))))));
  ASSERT_EQ(complete(completeRequest(second)), WriteOutcome::Done);
  rig_->passTime(25h);
  EXPECT_EQ(reap().deleted, 1U);
  mustClaim(capped(claimRequest(identity("3"))));
  mustClaim(capped(claimRequest(identity("4"))));
  EXPECT_TRUE(std::holds_alternative<OverQuota>(claim(capped(claimRequest(identity("5"))))));
}

TEST_P(StoreContractTest, ReclaimOfALiveRecordNeedsNoRoom) {
  const ClaimRef ref = reach(Situation::Failed, identity("1"));
  ClaimRequest request = claimRequest(ref.identity);
  request.from = ReclaimFrom{RecordState::FailedRetryable, ref.attempt};
  mustClaim(QuotaCase(1)(request));
}

TEST_P(StoreContractTest, ReclaimOfAnOverRecordNeedsRoom) {
  for (const Situation situation : {Situation::CompletedPastLife, Situation::Expired}) {
    SCOPED_TRACE(name(situation));
    const std::string tenant(name(situation));
    const ClaimRef over = reach(situation, identity("1", tenant));
    const ClaimRef live = mustClaim(QuotaCase(1)(claimRequest(identity("2", tenant))));
    const std::optional<Record> before = lookUp(over.identity);
    ClaimRequest request = claimRequest(over.identity);
    request.from = ReclaimFrom{before->state, over.attempt};
    EXPECT_TRUE(std::holds_alternative<OverQuota>(claim(QuotaCase(1)(request))));
    EXPECT_TRUE(sameRecord(before, lookUp(over.identity)));
    ASSERT_EQ(release(live), WriteOutcome::Done);
    mustClaim(QuotaCase(1)(request));
    EXPECT_TRUE(std::holds_alternative<OverQuota>(
        claim(QuotaCase(1)(claimRequest(identity("3", tenant))))));
  }
}

}  // namespace
}  // namespace idempotency::test
