#include "source/runtime/heartbeat.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "test/runtime/support.h"
#include "test/support/fake_store.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

class HeartbeatTest : public ::testing::Test {
protected:
  store::ClaimRef claim(const std::string& key, std::chrono::milliseconds lease) {
    store::ClaimRequest request;
    request.identity = {.tenant = "tenant", .operation = "operation", .key = key};
    request.attempt = store::newAttempt();
    request.lease = lease;
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(store_.database().claim(request)));
    return {request.identity, request.attempt};
  }
  // Claims, and keeps the claim alive.
  store::ClaimRef add(const std::string& key, std::chrono::milliseconds lease,
                      std::function<void()> fenced = nullptr) {
    store::ClaimRef ref = claim(key, lease);
    heartbeat_->add(ref, lease, time_.now(), std::move(fenced));
    return ref;
  }
  store::Record find(const store::ClaimRef& ref) {
    const store::LookUpResult found = store_.database().lookUp(ref.identity);
    EXPECT_TRUE(std::holds_alternative<store::Record>(found));
    return std::holds_alternative<store::Record>(found) ? std::get<store::Record>(found)
                                                        : store::Record();
  }
  store::WriteResult end(const store::ClaimRef& ref) {
    return store_.database().settle(ref, protocol::Failed{"code"});
  }

  std::shared_ptr<CountingObserver> observer_ = std::make_shared<CountingObserver>();
  FakeStore store_;
  std::shared_ptr<runtime::Heartbeat> heartbeat_ = runtime::Heartbeat::create(store_, observer_);
  TimeMachine time_{*heartbeat_, store_};
};

TEST_F(HeartbeatTest, ClaimIsExtendedEveryThirdOfItsLease) {
  const store::ClaimRef ref = add("long", 30s);
  time_.pass(9s);
  EXPECT_EQ(observer_->extended, 0U);
  EXPECT_EQ(find(ref).lease_left, 21s);
  time_.pass(2s);
  EXPECT_EQ(observer_->extended, 1U);
  EXPECT_EQ(find(ref).lease_left, 29s);
  time_.pass(10s);
  EXPECT_EQ(observer_->extended, 2U);
  EXPECT_EQ(find(ref).lease_left, 29s);
}

TEST_F(HeartbeatTest, RequestOfAnyLengthKeepsItsClaim) {
  const store::ClaimRef ref = add("very long", 30s);
  for (int minute = 0; minute < 120; ++minute) {
    time_.pass(1min);
    const store::MaintenanceResult swept = store_.database().sweep(10, std::nullopt);
    ASSERT_EQ(swept.to_unknown, 0U) << minute;
    ASSERT_GE(find(ref).lease_left, 15s) << minute;
  }
}

TEST_F(HeartbeatTest, ClaimNeverGoesUnrenewedForMoreThanHalfItsLease) {
  // Claims join at all times of a turn.
  std::vector<store::ClaimRef> refs;
  for (int i = 0; i < 60; ++i) {
    refs.push_back(add("key" + std::to_string(i), 30s));
    time_.pass(700ms);
    for (const store::ClaimRef& ref : refs) {
      ASSERT_GE(find(ref).lease_left, 14s) << i;
    }
  }
}

TEST_F(HeartbeatTest, ShortRequestCostsNothing) {
  add("long", 30s);
  for (int i = 0; i < 100; ++i) {
    const store::ClaimRef ref = add("short" + std::to_string(i), 30s);
    time_.pass(300ms);
    heartbeat_->remove(ref.attempt);
    end(ref);
  }
  EXPECT_EQ(observer_->extended, 3U) << "the long one's, after 10, 20 and 30 s";
}

TEST_F(HeartbeatTest, AllClaimsOfALeaseGoInOneCall) {
  for (int i = 0; i < 1000; ++i) {
    add("key" + std::to_string(i), 30s);
  }
  time_.pass(11s);
  EXPECT_EQ(observer_->extended, 1000U);
  EXPECT_EQ(observer_->extend_calls, 1U);
  EXPECT_EQ(heartbeat_->size(), 1000U);
}

TEST_F(HeartbeatTest, EachLengthOfLeaseHasItsOwnTurn) {
  const store::ClaimRef slow = add("slow", 60s);
  const store::ClaimRef fast = add("fast", 3s);
  time_.pass(10'500ms);
  EXPECT_EQ(find(fast).lease_left, 2500ms);
  EXPECT_EQ(find(slow).lease_left, 49'500ms) << "not yet due";
  time_.pass(10s);
  EXPECT_EQ(find(slow).lease_left, 59'500ms);
}

TEST_F(HeartbeatTest, RemovedClaimIsLeftAlone) {
  const store::ClaimRef ref = add("gone", 30s, [] { ADD_FAILURE() << "fenced"; });
  heartbeat_->remove(ref.attempt);
  heartbeat_->remove(ref.attempt);
  EXPECT_EQ(heartbeat_->size(), 0U);
  end(ref);
  time_.pass(100s);
  EXPECT_EQ(observer_->extended, 0U);
  EXPECT_EQ(observer_->fenced, 0U);
}

TEST_F(HeartbeatTest, FencedClaimIsReportedOnceAndForgotten) {
  int reports = 0;
  const store::ClaimRef lost = add("lost", 30s, [&] { ++reports; });
  const store::ClaimRef kept = add("kept", 30s, [] { ADD_FAILURE() << "fenced"; });
  end(lost);
  time_.pass(60s);
  EXPECT_EQ(reports, 1);
  EXPECT_EQ(observer_->fenced, 1U);
  EXPECT_EQ(heartbeat_->size(), 1U);
  EXPECT_GE(find(kept).lease_left, 15s);
}

TEST_F(HeartbeatTest, OwnerMayRemoveItsClaimWhenItIsFenced) {
  store::ClaimRef ref;
  ref = add("lost", 30s, [&] { heartbeat_->remove(ref.attempt); });
  end(ref);
  time_.pass(60s);
  EXPECT_EQ(heartbeat_->size(), 0U);
}

TEST_F(HeartbeatTest, ClaimThatEndsWhileItIsExtendedIsNotFenced) {
  const store::ClaimRef ref = add("ends", 30s, [] { ADD_FAILURE() << "fenced"; });
  store_.pause();
  ASSERT_GT(heartbeat_->onTime(time_.now() + 10s), time_.now());
  end(ref);
  heartbeat_->remove(ref.attempt);
  store_.resume();
  store_.flush();
  EXPECT_EQ(observer_->fenced, 0U);
}

TEST_F(HeartbeatTest, NoSecondCallWhileOneIsUnderWay) {
  add("slow", 30s);
  store_.pause();
  const uint64_t before = store_.operations();
  heartbeat_->onTime(time_.now() + 10s);
  EXPECT_EQ(store_.operations(), before + 1);
  heartbeat_->onTime(time_.now() + 20s);
  heartbeat_->onTime(time_.now() + 30s);
  EXPECT_EQ(store_.operations(), before + 1);
  store_.resume();
  store_.flush();
  heartbeat_->onTime(time_.now() + 31s);
  EXPECT_EQ(store_.operations(), before + 2);
  store_.flush();
}

TEST_F(HeartbeatTest, FailureIsTriedAgainAfterATwelfth) {
  const store::ClaimRef ref = add("key", 30s, [] { ADD_FAILURE() << "fenced"; });
  store_.setFailure("down");
  time_.pass(11s);
  EXPECT_EQ(observer_->extend_failed, 1U);
  EXPECT_EQ(observer_->lastReason(), "down");
  time_.pass(2500ms);
  EXPECT_EQ(observer_->extend_failed, 2U);
  store_.setFailure(std::nullopt);
  time_.pass(2500ms);
  EXPECT_EQ(observer_->extended, 1U);
  EXPECT_GE(find(ref).lease_left, 27s);
}

TEST_F(HeartbeatTest, LostAnswerIsNoFencing) {
  const store::ClaimRef ref = add("doubt", 30s, [] { ADD_FAILURE() << "fenced"; });
  store_.loseNextAnswer();
  time_.pass(11s);
  EXPECT_EQ(observer_->extend_failed, 1U);
  time_.pass(10s);
  EXPECT_EQ(observer_->extended, 1U);
  EXPECT_TRUE(find(ref).lease_alive);
}

TEST_F(HeartbeatTest, FirstClaimOfAGroupSaysWhenItNeedsTheTimer) {
  auto waker = std::make_shared<runtime::Waker>();
  heartbeat_->attach(waker);
  EXPECT_EQ(heartbeat_->onTime(time_.now()), store::Deadline::max());
  const store::Deadline claimed = std::chrono::steady_clock::now();
  heartbeat_->add(claim("first", 300ms), 300ms, claimed, nullptr);
  waker->waitUntil(store::Deadline::max());  // Comes back when the claim needs it.
  EXPECT_GE(std::chrono::steady_clock::now(), claimed + 100ms);
  EXPECT_EQ(heartbeat_->onTime(claimed), claimed + 100ms);
}

TEST_F(HeartbeatTest, CallbackMayComeAfterEverybodyHasLetGo) {
  add("late", 30s);
  store_.pause();
  heartbeat_->onTime(time_.now() + 10s);
  heartbeat_.reset();
  store_.resume();
  store_.flush();
  EXPECT_EQ(observer_->extended, 1U);
}

}  // namespace
}  // namespace idempotency::test
