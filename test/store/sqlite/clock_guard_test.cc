#include "source/store/sqlite/clock_guard.h"

#include <tuple>

#include "gtest/gtest.h"

#include "test/store/sqlite/sqlite_rig.h"

namespace idempotency::sqlite {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int64_t Start = 1'700'000'000'000;

// A wall clock that can be set, beside an uptime that cannot.
class ClockGuardTest : public ::testing::Test {
protected:
  void start(std::optional<int64_t> remembered = std::nullopt) {
    guard_.start(remembered, wall_, uptime_);
  }
  void pass(milliseconds time) {
    wall_ += time.count();
    uptime_ += time;
  }
  void set(milliseconds ahead) { wall_ += ahead.count(); }
  ClockGuard::Now look() { return guard_.look(wall_, uptime_); }
  // Looks all the while.
  void passLooking(milliseconds time) {
    for (milliseconds passed{0}; passed < time; passed += 5s) {
      pass(5s);
      std::ignore = look();
    }
  }

  ClockGuard guard_;
  int64_t wall_ = Start;
  milliseconds uptime_{1000};
};

TEST_F(ClockGuardTest, FollowsTheClockWhileItRuns) {
  start();
  for (const milliseconds time : {1ms, 5000ms, 3'600'000ms}) {
    pass(time);
    const ClockGuard::Now now = look();
    EXPECT_EQ(now.judges, wall_);
    EXPECT_EQ(now.written, wall_);
  }
  EXPECT_FALSE(guard_.doubtsStep());
}

TEST_F(ClockGuardTest, FollowsAClockThatIsSlewedOrSetByALittle) {
  start();
  set(1500ms);
  EXPECT_EQ(look().judges, wall_);
  set(-1500ms);
  EXPECT_EQ(look().judges, wall_);
  for (int i = 0; i < 1000; ++i) {
    pass(60s);
    set(30ms);  // Half a thousandth: the most that a kernel slews.
    EXPECT_EQ(look().judges, wall_);
  }
  pass(24h);
  set(43s);
  EXPECT_EQ(look().judges, wall_) << "the same, after a night without a look";
}

TEST_F(ClockGuardTest, JumpAheadEndsNothingUntilItHasLasted) {
  start();
  set(48h);
  const ClockGuard::Now now = look();
  EXPECT_EQ(now.judges, Start) << "nothing is over";
  EXPECT_EQ(now.written, Start + milliseconds(48h).count()) << "what begins now has its whole life";
  EXPECT_TRUE(guard_.doubtsStep());
  passLooking(ClockGuard::StableFor - 10s);
  EXPECT_EQ(look().judges, wall_ - milliseconds(48h).count());
  passLooking(20s);
  EXPECT_EQ(look().judges, wall_);
  EXPECT_FALSE(guard_.doubtsStep());
}

TEST_F(ClockGuardTest, JumpThatIsTakenBackLeavesNoTrace) {
  start();
  set(48h);
  passLooking(5min);
  set(-48h);
  EXPECT_EQ(look().judges, wall_);
  EXPECT_EQ(look().written, wall_);
  EXPECT_FALSE(guard_.doubtsStep());
}

TEST_F(ClockGuardTest, EachFurtherJumpBeginsTheWaitAgain) {
  start();
  set(48h);
  passLooking(9min);
  set(1h);
  passLooking(9min);
  EXPECT_LT(look().judges, Start + milliseconds(1h).count());
  passLooking(2min);
  EXPECT_EQ(look().judges, wall_);
}

TEST_F(ClockGuardTest, JumpBackIsJudgedByAtOnceAndNotWritten) {
  start();
  set(-48h);
  const ClockGuard::Now now = look();
  EXPECT_EQ(now.judges, wall_) << "all lives longer";
  EXPECT_EQ(now.written, Start) << "else a life that begins now would be over when it is set right";
  passLooking(ClockGuard::StableFor);
  EXPECT_EQ(look().written, wall_);
}

TEST_F(ClockGuardTest, JumpIsNoticedAfterAnyPause) {
  start();
  pass(10h);
  set(48h);
  EXPECT_EQ(look().judges, Start + milliseconds(10h).count());
}

TEST_F(ClockGuardTest, RestartAfterALongTimeIsBelievedAfterAWhile) {
  start(Start - milliseconds(48h).count());
  const ClockGuard::Now now = look();
  EXPECT_EQ(now.judges, Start - milliseconds(48h).count());
  EXPECT_EQ(now.written, Start);
  EXPECT_FALSE(guard_.doubtsStep()) << "no reason for an alarm";
  passLooking(ClockGuard::StableFor);
  EXPECT_EQ(look().judges, wall_);
}

TEST_F(ClockGuardTest, RestartAfterAShortTimeIsBelieved) {
  start(Start - milliseconds(4min).count());
  EXPECT_EQ(look().judges, Start);
}

TEST_F(ClockGuardTest, MachineThatStartsWithAClockOfThePast) {
  start(Start + milliseconds(24h * 365).count());
  const ClockGuard::Now now = look();
  EXPECT_EQ(now.judges, Start);
  EXPECT_EQ(now.written, Start + milliseconds(24h * 365).count());
}

// --- With a store

class ClockJumpTest : public ::testing::Test {
protected:
  store::ClaimRef claim(const std::string& key,
                        protocol::LeaseExpired on_lease_expired = protocol::LeaseExpired::Unknown) {
    store::ClaimRequest request;
    request.identity = {"tenant", "operation", key};
    request.fingerprint = "f";
    request.attempt = store::newAttempt();
    request.on_lease_expired = on_lease_expired;
    test::Answer<store::ClaimResult> answer;
    rig_.store().claim(request, test::soon(), answer.callback());
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
    return {request.identity, request.attempt};
  }
  store::ClaimRef complete(const std::string& key) {
    const store::ClaimRef ref = claim(key);
    complete(ref);
    return ref;
  }
  void complete(const store::ClaimRef& ref) {
    protocol::Completed ending;
    ending.status = 201;
    ending.response = "kept";
    test::Answer<store::WriteResult> answer;
    rig_.store().settle(ref, ending, test::soon(), answer.callback());
    EXPECT_EQ(answer.get().outcome, store::WriteOutcome::Done);
  }
  store::Record find(const store::ClaimRef& ref) {
    test::Answer<store::LookUpResult> answer;
    rig_.store().lookUp(ref.identity, test::soon(), answer.callback());
    store::LookUpResult found = answer.get();
    EXPECT_TRUE(std::holds_alternative<store::Record>(found));
    return std::holds_alternative<store::Record>(found) ? std::get<store::Record>(found)
                                                        : store::Record();
  }
  store::MaintenanceResult reap() {
    test::Answer<store::MaintenanceResult> answer;
    rig_.maintenance().reap(100, false, test::soon(), answer.callback());
    return answer.get();
  }
  void lead() {
    test::Answer<store::Leadership> answer;
    rig_.maintenance().lead("me", 30s, test::soon(), answer.callback());
    EXPECT_TRUE(answer.get().ours);
  }
  bool mayReclaim(const store::ClaimRef& ref, protocol::RecordState state) {
    store::ClaimRequest request;
    request.identity = ref.identity;
    request.fingerprint = "f";
    request.attempt = store::newAttempt();
    request.on_lease_expired = protocol::LeaseExpired::Retry;
    request.from = store::ReclaimFrom{state, ref.attempt};
    test::Answer<store::ClaimResult> answer;
    rig_.store().claim(request, test::soon(), answer.callback());
    return std::holds_alternative<store::Claimed>(answer.get());
  }

  test::SqliteRig rig_;
};

TEST_F(ClockJumpTest, ClockThatIsSetPastALifeEndsNoCompletedKey) {
  const store::ClaimRef done = complete("done");
  rig_.setClockAhead(48h);
  EXPECT_FALSE(find(done).past_life);
  EXPECT_FALSE(mayReclaim(done, protocol::RecordState::Completed)) << "it would run a second time";
  const store::MaintenanceResult result = reap();
  EXPECT_FALSE(result.ok);
  EXPECT_NE(result.reason.find("clock"), std::string::npos) << result.reason;
  EXPECT_EQ(find(done).response, "kept");
  rig_.setClockAhead(-48h);
  EXPECT_TRUE(reap().ok);
  EXPECT_EQ(find(done).response, "kept");
}

TEST_F(ClockJumpTest, ClockThatIsSetPastALeaseKillsNoRunningRequest) {
  const store::ClaimRef running = claim("running", protocol::LeaseExpired::Retry);
  rig_.setClockAhead(1h);
  EXPECT_TRUE(find(running).lease_alive);
  EXPECT_FALSE(mayReclaim(running, protocol::RecordState::InProgress))
      << "it would run beside the first";
  test::Answer<store::MaintenanceResult> swept;
  rig_.maintenance().sweep(100, {}, test::soon(), swept.callback());
  EXPECT_EQ(swept.get().to_retry, 0U);
}

TEST_F(ClockJumpTest, WhatBeginsInDoubtHasItsWholeLifeWhenTheNewTimeIsBelieved) {
  const store::ClaimRef before = complete("before");
  rig_.setClockAhead(48h);
  const store::ClaimRef doubtful = complete("doubtful");
  rig_.passTime(ClockGuard::StableFor / 2);
  EXPECT_FALSE(find(before).past_life);
  rig_.passTime(ClockGuard::StableFor);
  EXPECT_TRUE(find(before).past_life) << "the new time has lasted: it is believed";
  EXPECT_FALSE(find(doubtful).past_life);
  const store::MaintenanceResult result = reap();
  EXPECT_TRUE(result.ok) << result.reason;
  EXPECT_EQ(result.deleted, 1U);
  EXPECT_EQ(find(doubtful).response, "kept");
}

TEST_F(ClockJumpTest, WhatCompletesInDoubtIsNotOverWhenTheNewTimeIsBelieved) {
  const store::ClaimRef slow = claim("slow");
  rig_.setClockAhead(48h);
  complete(slow);
  EXPECT_FALSE(find(slow).past_life);
  rig_.passTime(ClockGuard::StableFor + 1s);
  EXPECT_FALSE(find(slow).past_life) << "it has lived for ten minutes";
  EXPECT_EQ(find(slow).response, "kept");
}

TEST_F(ClockJumpTest, ClockThatIsSetWhileNoProcessRunsEndsNothingAtOnce) {
  const store::ClaimRef done = complete("done");
  lead();
  rig_.stop();
  rig_.setClockAhead(48h);
  rig_.start();
  EXPECT_FALSE(find(done).past_life);
  EXPECT_EQ(reap().deleted, 0U);
  EXPECT_EQ(find(done).response, "kept");
  rig_.passTime(ClockGuard::StableFor + 1s);
  EXPECT_TRUE(find(done).past_life);
  EXPECT_EQ(reap().deleted, 1U);
}

}  // namespace
}  // namespace idempotency::sqlite
