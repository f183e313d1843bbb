// A run between its two streams, without an Envoy and without a store.
#include "source/request/detached_run.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "test/request/fake_keeper.h"
#include "test/request/task_queue.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using request::DetachedRun;
using request::RunFailure;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Writes down what it is told.
class FakeClient : public request::RunClient {
public:
  void onRunStarted() override { ++started; }
  void onRunHeaders(const protocol::FieldList& headers, bool end,
                    std::string_view ending) override {
    std::string text = std::string(ending) + ":";
    for (const auto& [name, value] : headers) {
      text += " " + name + "=" + value;
    }
    add(text, end);
  }
  void onRunBody(const std::string& bytes, bool end) override { add(bytes, end); }
  void onRunTrailers(const protocol::FieldList& trailers) override {
    add(trailers.front().first + "=" + trailers.front().second, true);
  }
  void onRunEnding(std::string_view ending) override { endings.emplace_back(ending); }
  void onRunFailed(RunFailure failure) override { failures.push_back(failure); }

  int started = 0;
  std::vector<std::string> endings;
  std::vector<std::string> parts;
  std::vector<RunFailure> failures;

private:
  void add(const std::string& text, bool end) { parts.push_back(text + (end ? "|" : "")); }
};

class FakeRunStream : public request::RunStream {
public:
  void onClientReady() override { ++ready; }
  int ready = 0;
};

runtime::HeldClaim claimOf(bool redirected = false) {
  runtime::HeldClaim claim;
  claim.ref = {{"acme", "pay", "0123456789abcdef"}, 7};
  claim.policy = std::make_shared<const protocol::Policy>();
  claim.redirected = redirected;
  return claim;
}

class DetachedRunTest : public ::testing::Test {
protected:
  std::shared_ptr<DetachedRun> newRun() {
    return std::make_shared<DetachedRun>(keeper_, holdOf(), "hash", admission_.charge(0),
                                         client_worker_.post(), client_);
  }
  // Forgets the run and what became of it, and makes another.
  void renew() {
    run_.reset();
    keeper_->settled.clear();
    client_.failures.clear();
    run_ = newRun();
  }
  request::RunHold holdOf(bool redirected = false) {
    request::RunHold hold{claimOf(redirected), {}};
    EXPECT_EQ(admission_.enter("acme", &share_, hold.place), runtime::Refusal::None);
    return hold;
  }
  std::optional<request::RunHold> start() { return run_->start(run_worker_.post(), stream_); }
  // More than may be on the way.
  void sendMuch() { run_->sendBody(std::string(Much, 'x'), false); }
  // The ending of the only claim that was settled.
  const protocol::Ending& settled() {
    EXPECT_EQ(keeper_->settled.size(), 1u) << "exactly once";
    return keeper_->settled.at(0).ending;
  }
  // The store has written it.
  void written() { keeper_->settled.at(0).report({runtime::Settled::Done, ""}); }
  bool isReleased() { return std::holds_alternative<protocol::Released>(settled()); }
  bool isUnknown() { return std::holds_alternative<protocol::Unknown>(settled()); }

  static constexpr size_t Much = 300 << 10;
  const protocol::TenantShare share_{.in_flight = 4, .waiters = 1, .request_bytes = 10000};
  runtime::Admission admission_{protocol::LimitSettings()};
  std::shared_ptr<FakeKeeper> keeper_ = std::make_shared<FakeKeeper>();
  TaskQueue client_worker_;
  TaskQueue run_worker_;
  FakeClient client_;
  FakeRunStream stream_;
  std::shared_ptr<DetachedRun> run_ = newRun();
};

// --- The claim has one owner

TEST_F(DetachedRunTest, StreamTakesTheClaimOver) {
  EXPECT_EQ(run_->claim().ref.attempt, 7u);
  const std::optional<request::RunHold> hold = start();
  ASSERT_TRUE(hold.has_value());
  EXPECT_EQ(hold->claim.ref.attempt, 7u);
  EXPECT_FALSE(start().has_value()) << "it starts once";
  EXPECT_FALSE(run_->cancel(RunFailure::NotStarted, *keeper_)) << "too late";
  run_.reset();
  EXPECT_THAT(keeper_->settled, IsEmpty()) << "the stream does that";
}

TEST_F(DetachedRunTest, CancelledRunCannotStart) {
  EXPECT_TRUE(run_->cancel(RunFailure::NotStarted, *keeper_));
  EXPECT_TRUE(isReleased());
  EXPECT_FALSE(start().has_value());
  EXPECT_FALSE(run_->cancel(RunFailure::NotStarted, *keeper_));
  run_.reset();
  EXPECT_TRUE(isReleased());
}

TEST_F(DetachedRunTest, ForgottenRunSettlesItsClaim) {
  run_.reset();
  EXPECT_TRUE(isReleased());
}

TEST_F(DetachedRunTest, ForgottenRunThatWasRedirectedMayHaveRun) {
  ASSERT_TRUE(start().has_value());
  ASSERT_TRUE(run_->redirect(holdOf(true)));
  run_.reset();
  EXPECT_TRUE(isUnknown());
}

TEST_F(DetachedRunTest, WithoutMemoryTheLeaseEnds) {
  keeper_->failures = 1;
  EXPECT_TRUE(run_->cancel(RunFailure::NotStarted, *keeper_));
  EXPECT_THAT(keeper_->settled, IsEmpty());
  EXPECT_THAT(keeper_->let_end, ElementsAre(7u));
  client_worker_.run();
  EXPECT_THAT(client_.failures, ElementsAre(RunFailure::NotStarted));
}

TEST_F(DetachedRunTest, KeeperMayBeGone) {
  keeper_.reset();
  run_.reset();
}

TEST_F(DetachedRunTest, RunDoesNotKeepItsKeeper) {
  EXPECT_EQ(keeper_.use_count(), 1);
}

// Exactly one of them has the claim, whoever comes first.
TEST_F(DetachedRunTest, StartAndCancelMayRace) {
  int started = 0;
  std::vector<std::string> endings;
  for (int i = 0; i < 2000; ++i) {
    renew();
    std::atomic<bool> go{false};
    bool cancelled = false;
    std::thread dialer([&] {
      while (!go) {
      }
      cancelled = run_->cancel(RunFailure::NotStarted, *keeper_);
    });
    go = true;
    const bool has_claim = start().has_value();
    dialer.join();
    ASSERT_NE(has_claim, cancelled);
    ASSERT_EQ(keeper_->settled.size(), cancelled ? 1u : 0u);
    started += has_claim ? 1 : 0;
  }
  RecordProperty("started", started);
}

// --- An internal redirect

TEST_F(DetachedRunTest, AnotherStreamTakesTheClaimOverAfterARedirect) {
  ASSERT_TRUE(start().has_value());
  ASSERT_TRUE(run_->redirect(holdOf(true)));
  TaskQueue other_worker;
  FakeRunStream other;
  const auto claim = run_->start(other_worker.post(), other);
  ASSERT_TRUE(claim.has_value());
  EXPECT_TRUE(claim->claim.redirected);
  EXPECT_THAT(keeper_->settled, IsEmpty());
  // It is the one that the client wakes.
  sendMuch();
  EXPECT_FALSE(run_->mayContinue());
  run_->onSent(Much);
  EXPECT_EQ(run_worker_.run(), 0u);
  EXPECT_EQ(other_worker.run(), 1u);
  EXPECT_EQ(other.ready, 1);
}

TEST_F(DetachedRunTest, ConnectionThatEndsAfterARedirectLeavesTheOutcomeUnknown) {
  for (const bool timed_out : {false, true}) {
    renew();
    ASSERT_TRUE(start().has_value());
    ASSERT_TRUE(run_->redirect(holdOf(true)));
    if (timed_out) {
      run_->onTimeout();
    }
    EXPECT_TRUE(run_->cancel(RunFailure::NotStarted, *keeper_));
    EXPECT_TRUE(isUnknown());
    written();
    client_worker_.run();
    EXPECT_THAT(client_.failures, ElementsAre(timed_out ? RunFailure::TimedOut : RunFailure::Lost));
  }
}

// The connection's end comes first: nobody would come for the claim.
TEST_F(DetachedRunTest, RedirectAfterTheConnectionsEndSettlesTheClaim) {
  ASSERT_TRUE(start().has_value());
  run_->onTimeout();
  EXPECT_FALSE(run_->cancel(RunFailure::NotStarted, *keeper_));
  EXPECT_FALSE(run_->redirect(holdOf(true)));
  EXPECT_TRUE(isUnknown());
  EXPECT_FALSE(start().has_value());
  written();
  client_worker_.run();
  EXPECT_THAT(client_.failures, ElementsAre(RunFailure::TimedOut));
  run_.reset();
  EXPECT_TRUE(isUnknown());
}

// --- Kinds of failure

TEST_F(DetachedRunTest, WhatMayHaveRunIsUnknown) {
  const std::vector<std::pair<RunFailure, bool>> kinds = {
      {RunFailure::NotStarted, false}, {RunFailure::Full, false}, {RunFailure::Lost, true}};
  for (const auto& [failure, may_have_run] : kinds) {
    renew();
    EXPECT_TRUE(run_->cancel(failure, *keeper_));
    EXPECT_EQ(isUnknown(), may_have_run);
    EXPECT_EQ(isReleased(), !may_have_run);
    EXPECT_EQ(client_worker_.run(), 0u) << "a client that is told can retry at once";
    written();
    client_worker_.run();
    EXPECT_THAT(client_.failures, ElementsAre(failure));
  }
}

TEST_F(DetachedRunTest, UnknownOutcomeIsAskedForWhenTheKeeperSays) {
  EXPECT_TRUE(run_->cancel(RunFailure::Lost, *keeper_));
  EXPECT_EQ(std::get<protocol::Unknown>(settled()).reconcile_after, keeper_->reconcileAfter({}));
}

TEST_F(DetachedRunTest, StreamThatFailsIsLostOrTimedOut) {
  ASSERT_TRUE(start().has_value());
  run_->fail();
  run_->onTimeout();
  run_->fail();
  client_worker_.run();
  EXPECT_THAT(client_.failures, ElementsAre(RunFailure::Lost, RunFailure::TimedOut));
  EXPECT_THAT(keeper_->settled, IsEmpty());
}

// --- The start

TEST_F(DetachedRunTest, ClientThatAsksIsToldOfTheStartOnce) {
  run_->announceStart();
  ASSERT_TRUE(start().has_value());
  EXPECT_EQ(client_.started, 0) << "on the client's worker only";
  ASSERT_TRUE(run_->redirect(holdOf(true)));
  ASSERT_TRUE(start().has_value());
  client_worker_.run();
  EXPECT_EQ(client_.started, 1);
}

TEST_F(DetachedRunTest, OthersAreNot) {
  ASSERT_TRUE(start().has_value());
  EXPECT_EQ(client_worker_.run(), 0u);
  renew();
  run_->announceStart();
  EXPECT_TRUE(run_->cancel(RunFailure::NotStarted, *keeper_));
  written();
  client_worker_.run();
  EXPECT_EQ(client_.started, 0) << "nothing started";
}

// --- The place among the requests in flight

TEST_F(DetachedRunTest, HasItsPlaceWhileItWaits) {
  run_->leave();
  EXPECT_EQ(admission_.inFlight(), 1u);
}

TEST_F(DetachedRunTest, HandsItsPlaceToItsStream) {
  {
    const std::optional<request::RunHold> hold = start();
    run_.reset();
    EXPECT_EQ(admission_.inFlight(), 1u);
  }
  EXPECT_EQ(admission_.inFlight(), 0u);
}

TEST_F(DetachedRunTest, KeepsItsPlaceAcrossARedirect) {
  std::optional<request::RunHold> hold = start();
  ASSERT_TRUE(run_->redirect(*std::move(hold)));
  EXPECT_EQ(admission_.inFlight(), 1u);
  hold = start();
  EXPECT_TRUE(hold.has_value());
  hold.reset();
  EXPECT_EQ(admission_.inFlight(), 0u);
}

TEST_F(DetachedRunTest, LeavesItsPlaceBeforeTheClientIsTold) {
  run_->holdRequest(1000);
  EXPECT_EQ(admission_.heldBytes(), 1000u);
  EXPECT_TRUE(run_->cancel(RunFailure::NotStarted, *keeper_));
  EXPECT_EQ(admission_.inFlight(), 0u);
  EXPECT_EQ(admission_.heldBytes(), 0u);
  EXPECT_THAT(client_.failures, IsEmpty());
}

TEST_F(DetachedRunTest, LeavesItsPlaceWhenItIsDestroyed) {
  run_->holdRequest(1000);
  run_.reset();
  keeper_->settled.clear();
  EXPECT_EQ(admission_.inFlight(), 0u);
  EXPECT_EQ(admission_.heldBytes(), 0u);
}

TEST_F(DetachedRunTest, ItsRequestIsHeldUntilItsStreamLetsItGo) {
  run_->holdRequest(1000);
  std::optional<request::RunHold> hold = start();
  EXPECT_EQ(admission_.heldBytes(), 1000u);
  hold->place.hold(0);
  EXPECT_EQ(admission_.heldBytes(), 0u);
}

TEST_F(DetachedRunTest, ResponseIsHeldUntilTheClientHasSentIt) {
  run_->sendBody(std::string(500, 'x'), false);
  run_->sendBody(std::string(300, 'x'), true);
  EXPECT_EQ(admission_.heldBytes(), 800u);
  run_->onSent(500);
  EXPECT_EQ(admission_.heldBytes(), 300u);
  run_->onSent(300);
  EXPECT_EQ(admission_.heldBytes(), 0u);
}

TEST_F(DetachedRunTest, NothingIsHeldForAClientThatHasLeft) {
  run_->sendBody(std::string(500, 'x'), false);
  run_->leave();
  EXPECT_EQ(admission_.heldBytes(), 0u);
  run_->sendBody(std::string(300, 'x'), true);
  EXPECT_EQ(admission_.heldBytes(), 0u);
}

// --- The response

TEST_F(DetachedRunTest, ResponseReachesTheClientInItsOrder) {
  ASSERT_TRUE(start().has_value());
  run_->sendHeaders({{":status", "201"}, {"x-a", "1"}}, false, "stored");
  run_->sendBody("first", false);
  run_->sendBody("second", false);
  run_->sendTrailers({{"checksum", "9"}});
  EXPECT_THAT(client_.parts, IsEmpty()) << "on the client's worker only";
  EXPECT_EQ(client_worker_.run(), 4u);
  EXPECT_THAT(client_.parts,
              ElementsAre("stored: :status=201 x-a=1", "first", "second", "checksum=9|"));
}

TEST_F(DetachedRunTest, ClientThatHasLeftGetsNothing) {
  ASSERT_TRUE(start().has_value());
  EXPECT_TRUE(run_->hasClient());
  run_->leave();
  EXPECT_FALSE(run_->hasClient());
  run_->sendHeaders({{":status", "200"}}, true, "stored");
  run_->fail();
  EXPECT_EQ(client_worker_.run(), 0u);
  EXPECT_TRUE(run_->mayContinue());
}

TEST_F(DetachedRunTest, ClientMayLeaveBeforeItsRunStarts) {
  run_->leave();
  EXPECT_TRUE(start().has_value()) << "it runs all the same";
}

// --- Flow control

TEST_F(DetachedRunTest, ResponseWaitsForASlowClient) {
  ASSERT_TRUE(start().has_value());
  run_->onClientSlow(true);
  EXPECT_FALSE(run_->mayContinue());
  EXPECT_EQ(run_worker_.run(), 0u);
  run_->onClientSlow(false);
  EXPECT_EQ(run_worker_.run(), 1u);
  EXPECT_EQ(stream_.ready, 1);
  EXPECT_TRUE(run_->mayContinue());
}

TEST_F(DetachedRunTest, ResponseWaitsForTheClientsWorker) {
  ASSERT_TRUE(start().has_value());
  sendMuch();
  sendMuch();
  EXPECT_FALSE(run_->mayContinue());
  run_->onSent(Much);
  EXPECT_EQ(run_worker_.run(), 0u) << "the other half is still on its way";
  run_->onSent(Much);
  EXPECT_EQ(run_worker_.run(), 1u);
  EXPECT_EQ(stream_.ready, 1);
}

TEST_F(DetachedRunTest, ClientThatWasSentAllAndIsSlowHoldsItUp) {
  ASSERT_TRUE(start().has_value());
  sendMuch();
  EXPECT_FALSE(run_->mayContinue());
  run_->onClientSlow(true);
  run_->onSent(Much);
  EXPECT_EQ(run_worker_.run(), 0u);
  run_->onClientSlow(false);
  EXPECT_EQ(run_worker_.run(), 1u);
}

TEST_F(DetachedRunTest, LeavingClientWakesTheResponse) {
  ASSERT_TRUE(start().has_value());
  run_->onClientSlow(true);
  EXPECT_FALSE(run_->mayContinue());
  run_->leave();
  EXPECT_EQ(run_worker_.run(), 1u);
  EXPECT_EQ(stream_.ready, 1);
}

TEST_F(DetachedRunTest, WhoDoesNotWaitIsNotWoken) {
  ASSERT_TRUE(start().has_value());
  run_->onClientSlow(true);
  run_->onClientSlow(false);
  run_->leave();
  EXPECT_EQ(run_worker_.run(), 0u);
}

// The client becomes ready just when the response is about to wait: it does not wait, or is woken.
TEST_F(DetachedRunTest, NoWakeUpIsLost) {
  ASSERT_TRUE(start().has_value());
  constexpr int Rounds = 100'000;
  std::atomic<int> round{0};
  std::atomic<int> done{0};
  std::thread client([&] {
    for (int i = 1; i <= Rounds; ++i) {
      while (round < i) {
        std::this_thread::yield();
      }
      run_->onClientSlow(false);
      done = i;
    }
  });
  int waited = 0;
  int lost = 0;
  for (int i = 1; i <= Rounds; ++i) {
    run_->onClientSlow(true);
    round = i;
    for (std::atomic<int> delay{i % 50}; delay > 0;) {  // Each time at another moment.
      --delay;
    }
    const bool waits = !run_->mayContinue();
    while (done < i) {
      std::this_thread::yield();
    }
    const bool woken = run_worker_.run() > 0;
    waited += waits ? 1 : 0;
    lost += waits && !woken ? 1 : 0;
  }
  client.join();
  EXPECT_EQ(lost, 0);
  EXPECT_GT(waited, 0);
}

}  // namespace
}  // namespace idempotency::test
