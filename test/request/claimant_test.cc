// The way to a decision, on a store in memory and without an Envoy.
#include "source/request/claimant.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/message/stored_response.h"
#include "source/store/audit.h"
#include "test/request/fake_claimant_stream.h"
#include "test/support/fake_store.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const protocol::Identity Who{"acme", "pay", "0123456789abcdef"};
const store::ClaimRef Earlier{Who, 7};
const request::Next ToRun = protocol::Run{};
const request::Next ToHold = request::Hold{};
const request::Next ToReplay = protocol::Replay{};

class ClaimantTest : public ::testing::Test {
protected:
  ~ClaimantTest() override {
    claimant_.reset();
    store_.reset();
  }

  request::Claimant& claimant() {
    if (claimant_ == nullptr) {
      const request::ClaimServices services{.store = *store_,
                                            .cache = cache_,
                                            .waiters = *waiters_,
                                            .key_rate = *key_rate_,
                                            .store_timeout = 60s,
                                            .tenant_live_keys = std::nullopt};
      claimant_ = std::make_unique<request::Claimant>(
          services, stream_, std::make_shared<const protocol::Policy>(policy_), Who);
    }
    return *claimant_;
  }
  // Lets the store answer, and delivers the answers.
  void settle() {
    do {
      store_->flush();
    } while (stream_.worker.run() > 0);
  }
  // What a request does in the end.
  request::Next outcome() {
    request::Next next = claimant().start();
    if (next != ToHold) {
      return next;
    }
    settle();
    EXPECT_LE(stream_.next.size(), 1u);
    return stream_.next.empty() ? ToHold : stream_.next.back();
  }
  static protocol::Problem problemOf(const request::Next& next) {
    const auto* answer = std::get_if<protocol::Answer>(&next);
    EXPECT_NE(answer, nullptr) << "no answer: " << next.index();
    return answer == nullptr ? protocol::Problem::ConfigInvalid : answer->problem;
  }

  // Another attempt with this key, of the request 1.
  void claimBefore(uint8_t version = fingerprint::FingerprintVersion) {
    const fingerprint::Fingerprint fingerprint = fingerprintFor(version, 1);
    store::ClaimRequest request;
    request.identity = Who;
    request.fingerprint.assign(fingerprint.begin(), fingerprint.end());
    request.attempt = Earlier.attempt;
    store_->database().claim(request);
  }
  void completeBefore(const std::string& bytes) {
    protocol::Completed completed;
    completed.status = 201;
    completed.response_schema = protocol::ResponseSchema;
    completed.response = bytes;
    store_->database().settle(Earlier, completed);
  }
  void failBefore() { store_->database().settle(Earlier, protocol::Failed{"status_503"}); }
  bool hasRecord() {
    const store::LookUpResult result = store_->database().lookUp(Who);
    return std::holds_alternative<store::Record>(result);
  }

  static std::string storedBytes() {
    return message::serializeResponse({201, {{"x-a", "1"}}, "made", {}});
  }

  protocol::Policy policy_;
  std::unique_ptr<FakeStore> store_ = std::make_unique<FakeStore>();
  runtime::ReplayCache cache_{protocol::ReplayCacheSettings()};
  std::unique_ptr<runtime::KeyRate> key_rate_ = std::make_unique<runtime::KeyRate>(std::nullopt);
  std::shared_ptr<runtime::Waiters> waiters_ = std::make_shared<runtime::Waiters>(
      *store_, [](protocol::Attempt) { return false; },
      [](const protocol::Identity&, const store::Record&, store::Deadline) {});
  FakeClaimantStream stream_;
  std::unique_ptr<request::Claimant> claimant_;
};

// --- To a claim

TEST_F(ClaimantTest, NewKeyRunsOnceItsClaimIsStored) {
  store_->pause();
  EXPECT_EQ(claimant().start(), ToHold);
  stream_.worker.run();
  EXPECT_THAT(stream_.next, IsEmpty());
  store_->resume();
  settle();
  EXPECT_THAT(stream_.next, ElementsAre(ToRun));
  EXPECT_TRUE(hasRecord());
  const runtime::HeldClaim claim = claimant().takeClaim();
  EXPECT_EQ(claim.ref.identity, Who);
  EXPECT_NE(claim.ref.attempt, 0);
  EXPECT_EQ(claimant().expiresAt(), claim.expires_at);
  EXPECT_EQ(claimant().reclaimedFrom(), std::nullopt);
  EXPECT_EQ(claimant().recoveryPoint(), store::FirstRecoveryPoint);
  EXPECT_EQ(stream_.claims_answered, 1);
  EXPECT_EQ(stream_.found, 0);
}

TEST_F(ClaimantTest, FailedRecordIsClaimedAgain) {
  claimBefore();
  failBefore();
  EXPECT_EQ(outcome(), ToRun);
  EXPECT_EQ(claimant().reclaimedFrom(), protocol::RecordState::FailedRetryable);
  EXPECT_EQ(stream_.claims_answered, 2) << "one that found the record, and one that took it";
}

// --- To leave

TEST_F(ClaimantTest, PendingClaimIsAbandoned) {
  store_->pause();
  EXPECT_EQ(claimant().start(), ToHold);
  claimant().leave();
  store_->resume();
  settle();
  EXPECT_THAT(stream_.next, IsEmpty());
  EXPECT_FALSE(hasRecord());
}

TEST_F(ClaimantTest, AnswerOnItsWayIsNotForWhoLeft) {
  EXPECT_EQ(claimant().start(), ToHold);
  store_->flush();
  EXPECT_TRUE(hasRecord());
  claimant().leave();
  settle();
  EXPECT_THAT(stream_.next, IsEmpty());
  EXPECT_FALSE(hasRecord());
}

TEST_F(ClaimantTest, GrantedClaimThatWasNotTakenIsAbandoned) {
  EXPECT_EQ(outcome(), ToRun);
  claimant_.reset();
  settle();
  EXPECT_FALSE(hasRecord());
}

TEST_F(ClaimantTest, ClaimThatWasTakenIsTheCallers) {
  EXPECT_EQ(outcome(), ToRun);
  claimant().takeClaim();
  claimant_.reset();
  settle();
  EXPECT_TRUE(hasRecord());
}

// --- To a record

TEST_F(ClaimantTest, StoredResponseIsReplayedAndCached) {
  claimBefore();
  completeBefore(storedBytes());
  EXPECT_EQ(outcome(), ToReplay);
  EXPECT_EQ(claimant().completed().response.body, "made");
  EXPECT_TRUE(claimant().expiresAt().has_value());
  EXPECT_THAT(stream_.events, IsEmpty());

  claimant_.reset();
  const uint64_t operations = store_->operations();
  EXPECT_EQ(claimant().start(), ToReplay) << "at once";
  EXPECT_THAT(stream_.events, ElementsAre(request::ClaimEvent::FoundInCache));
  EXPECT_EQ(store_->operations(), operations);
  EXPECT_EQ(stream_.found, 2);
}

TEST_F(ClaimantTest, CachedResponseNeedsNoPlace) {
  claimBefore();
  completeBefore(storedBytes());
  EXPECT_EQ(outcome(), ToReplay);
  claimant_.reset();
  stream_.enter_refusal = runtime::Refusal::InFlight;
  EXPECT_EQ(claimant().start(), ToReplay);
}

TEST_F(ClaimantTest, UnreadableResponseIsNotReplayed) {
  claimBefore();
  completeBefore("no record");
  EXPECT_EQ(problemOf(outcome()), protocol::Problem::ResponseUnavailable);
  EXPECT_EQ(stream_.unreadable.size(), 1u);
}

TEST_F(ClaimantTest, OtherRequestWithTheKeyIsRefused) {
  claimBefore();
  stream_.request = 2;
  EXPECT_EQ(problemOf(outcome()), protocol::Problem::KeyReused);
}

TEST_F(ClaimantTest, RecordIsComparedByItsOwnVersion) {
  claimBefore(fingerprint::OldestFingerprintVersion);
  completeBefore(storedBytes());
  EXPECT_EQ(outcome(), ToReplay);
  EXPECT_THAT(stream_.versions,
              ElementsAre(fingerprint::FingerprintVersion, fingerprint::OldestFingerprintVersion));
}

TEST_F(ClaimantTest, RunningRequestIsNotWaitedForUnlessThePolicySaysSo) {
  claimBefore();
  EXPECT_EQ(problemOf(outcome()), protocol::Problem::InProgress);
  EXPECT_EQ(waiters_->size(), 0u);
}

// --- To wait

class WaitingClaimantTest : public ClaimantTest {
protected:
  WaitingClaimantTest() {
    policy_.in_flight.action = protocol::InFlightAction::Wait;
    policy_.in_flight.wait = 60s;
    claimBefore();
  }
};

TEST_F(WaitingClaimantTest, WokenRequestAsksAgain) {
  EXPECT_EQ(outcome(), ToHold);
  EXPECT_THAT(stream_.events, ElementsAre(request::ClaimEvent::WaitStarted));
  EXPECT_EQ(waiters_->size(), 1u);
  completeBefore(storedBytes());
  waiters_->wakeAll(Who);
  settle();
  EXPECT_THAT(stream_.next, ElementsAre(ToReplay));
}

TEST_F(WaitingClaimantTest, WokenRequestMayHaveToWaitAgain) {
  EXPECT_EQ(outcome(), ToHold);
  waiters_->wakeAll(Who);
  settle();
  EXPECT_EQ(waiters_->size(), 1u);
  EXPECT_THAT(stream_.events, ElementsAre(request::ClaimEvent::WaitStarted)) << "counted once";
}

TEST_F(WaitingClaimantTest, RequestThatLeavesWaitsNoLonger) {
  EXPECT_EQ(outcome(), ToHold);
  claimant().leave();
  EXPECT_EQ(waiters_->size(), 0u);
}

TEST_F(WaitingClaimantTest, NoRoomToWait) {
  stream_.wait_refusal = runtime::Refusal::TenantWaiters;
  EXPECT_EQ(problemOf(outcome()), protocol::Problem::QuotaExceeded);
  EXPECT_EQ(waiters_->size(), 0u);
}

// --- To a refusal

TEST_F(ClaimantTest, WithoutAPlaceNothingIsAsked) {
  stream_.enter_refusal = runtime::Refusal::InFlight;
  const uint64_t operations = store_->operations();
  EXPECT_EQ(problemOf(claimant().start()), protocol::Problem::Overloaded);
  stream_.enter_refusal = runtime::Refusal::TenantInFlight;
  claimant_.reset();
  EXPECT_EQ(problemOf(claimant().start()), protocol::Problem::QuotaExceeded);
  EXPECT_EQ(store_->operations(), operations);
}

TEST_F(ClaimantTest, OverTheKeyRateOnlyKnownKeysAreAnswered) {
  key_rate_ = std::make_unique<runtime::KeyRate>(0);
  EXPECT_EQ(problemOf(outcome()), protocol::Problem::QuotaExceeded);
  EXPECT_FALSE(hasRecord());

  claimBefore();
  completeBefore(storedBytes());
  claimant_.reset();
  stream_.next.clear();
  EXPECT_EQ(outcome(), ToReplay);
}

TEST_F(ClaimantTest, StoreThatFailsRefusesOrLetsPassByPolicy) {
  store_->setFailure("down");
  EXPECT_EQ(problemOf(outcome()), protocol::Problem::StoreUnavailable);
  EXPECT_THAT(stream_.errors, ElementsAre("down"));

  policy_.on_store_failure = protocol::StoreFailure::FailOpen;
  claimant_.reset();
  stream_.next.clear();
  const request::Next next = outcome();
  EXPECT_TRUE(std::holds_alternative<protocol::Pass>(next)) << next.index();
}

TEST_F(ClaimantTest, FullQueueIsNoFailureOfTheStore) {
  policy_.on_store_failure = protocol::StoreFailure::FailOpen;
  store_->setFailure(FakeStore::QueueFull);
  EXPECT_EQ(problemOf(outcome()), protocol::Problem::Overloaded);
  EXPECT_THAT(stream_.events, ElementsAre(request::ClaimEvent::QueueFull));
  EXPECT_THAT(stream_.errors, IsEmpty());
}

TEST_F(ClaimantTest, RequestThatCannotBeHashedIsRefused) {
  stream_.hashes = false;
  EXPECT_EQ(problemOf(claimant().start()), protocol::Problem::StoreUnavailable);
  EXPECT_EQ(stream_.errors.size(), 1u);
}

TEST_F(ClaimantTest, ClaimThatIsGrantedAfterItsLeaseIsGivenBack) {
  policy_.lease = 0ms;
  EXPECT_EQ(problemOf(outcome()), protocol::Problem::StoreUnavailable);
  EXPECT_THAT(stream_.events, ElementsAre(request::ClaimEvent::GrantedAfterLease));
  settle();
  EXPECT_FALSE(hasRecord());
}

TEST_F(ClaimantTest, RejectedJsonIsCounted) {
  stream_.body_form = fingerprint::BodyForm::RejectedJson;
  EXPECT_EQ(outcome(), ToRun);
  EXPECT_THAT(stream_.events, Contains(request::ClaimEvent::JsonRejected));
}

}  // namespace
}  // namespace idempotency::test
