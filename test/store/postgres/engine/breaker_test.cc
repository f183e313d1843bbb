#include "source/store/postgres/engine/breaker.h"

#include "gtest/gtest.h"

namespace idempotency::postgres {
namespace {

using namespace std::chrono_literals;
using State = Breaker::State;

class BreakerTest : public ::testing::Test {
protected:
  Breaker breaker_{{.failures = 3, .first_pause = 100ms, .longest_pause = 400ms},
                   [this] { return jitter_; }};
  double jitter_ = 0.999999;  // Pauses are as long as they get.
  store::MonotonicTime now_{1000h};

  void fail(int times) {
    for (int i = 0; i < times; ++i) {
      breaker_.onFailure(now_, "down");
    }
  }
};

TEST_F(BreakerTest, LetsEverythingPassAtFirst) {
  EXPECT_TRUE(breaker_.admit(now_));
  EXPECT_TRUE(breaker_.admit(now_));
}

TEST_F(BreakerTest, OpensAfterFailuresInARow) {
  fail(2);
  EXPECT_TRUE(breaker_.admit(now_));
  fail(1);
  EXPECT_EQ(breaker_.state(), State::Open);
  EXPECT_FALSE(breaker_.admit(now_));
  EXPECT_EQ(breaker_.reason(), "down");
}

TEST_F(BreakerTest, SuccessInBetweenRestartsTheCount) {
  fail(2);
  breaker_.onSuccess();
  fail(2);
  EXPECT_EQ(breaker_.state(), State::Closed);
}

TEST_F(BreakerTest, NoVerdictNeitherOpensNorCloses) {
  fail(2);
  breaker_.onNoVerdict();
  fail(1);
  EXPECT_EQ(breaker_.state(), State::Open);
  breaker_.onNoVerdict();
  EXPECT_FALSE(breaker_.admit(now_));
}

TEST_F(BreakerTest, TimeoutsOfOneTenantNeverOpenIt) {
  for (int i = 0; i < 100; ++i) {
    breaker_.onTimeout(now_, "slow", "57014");
  }
  EXPECT_EQ(breaker_.state(), State::Closed);
}

TEST_F(BreakerTest, TimeoutsOfOneTenantDoNotHelpAFewFailuresToOpenIt) {
  fail(2);
  breaker_.onTimeout(now_, "slow", "57014");
  EXPECT_EQ(breaker_.state(), State::Closed);
}

TEST_F(BreakerTest, TimeoutsOfTwoTenantsOpenIt) {
  breaker_.onTimeout(now_, "a", "55P03");
  breaker_.onTimeout(now_, "a", "55P03");
  EXPECT_EQ(breaker_.state(), State::Closed);
  breaker_.onTimeout(now_, "b", "55P03");
  EXPECT_EQ(breaker_.state(), State::Open);
  EXPECT_EQ(breaker_.reason(), "55P03");
}

TEST_F(BreakerTest, SuccessOfAnybodyMakesTimeoutsTheTenantsOwnAgain) {
  for (int i = 0; i < 10; ++i) {
    breaker_.onTimeout(now_, "a", "57014");
    breaker_.onTimeout(now_, "b", "57014");
    breaker_.onSuccess();
  }
  EXPECT_EQ(breaker_.state(), State::Closed);
}

TEST_F(BreakerTest, ProbeThatMeetsATimeLimitGivesNoVerdict) {
  fail(3);
  ASSERT_TRUE(breaker_.admit(now_ + 100ms));
  breaker_.onTimeout(now_ + 100ms, "slow", "57014");
  EXPECT_EQ(breaker_.state(), State::HalfOpen);
  EXPECT_TRUE(breaker_.admit(now_ + 100ms)) << "the next one may tell";
}

TEST_F(BreakerTest, AfterThePauseOneProbeGoesAtATime) {
  fail(3);
  EXPECT_FALSE(breaker_.admit(now_ + 99ms));
  EXPECT_TRUE(breaker_.admit(now_ + 100ms));
  EXPECT_EQ(breaker_.state(), State::HalfOpen);
  EXPECT_FALSE(breaker_.admit(now_ + 100ms));
  EXPECT_FALSE(breaker_.admit(now_ + 1h)) << "its result must come first";
}

TEST_F(BreakerTest, ProbeThatSucceedsCloses) {
  fail(3);
  EXPECT_TRUE(breaker_.admit(now_ + 100ms));
  breaker_.onSuccess();
  EXPECT_TRUE(breaker_.admit(now_ + 100ms));
  EXPECT_TRUE(breaker_.admit(now_ + 100ms));
  fail(2);
  EXPECT_EQ(breaker_.state(), State::Closed) << "the count began anew";
}

TEST_F(BreakerTest, ProbeThatFailsOpensForTwiceAsLongUpToABound) {
  fail(3);
  for (const auto pause : {100ms, 200ms, 400ms, 400ms}) {
    EXPECT_FALSE(breaker_.admit(now_ + pause - 1ms)) << pause.count();
    now_ += pause;
    EXPECT_TRUE(breaker_.admit(now_)) << pause.count();
    fail(1);
    EXPECT_EQ(breaker_.state(), State::Open);
  }
  now_ += 400ms;
  EXPECT_TRUE(breaker_.admit(now_));
  breaker_.onSuccess();
  fail(3);
  EXPECT_TRUE(breaker_.admit(now_ + 100ms)) << "a success makes the pause short again";
}

TEST_F(BreakerTest, ProbeWithoutVerdictLetsAnotherGo) {
  fail(3);
  EXPECT_TRUE(breaker_.admit(now_ + 100ms));
  breaker_.onNoVerdict();
  EXPECT_TRUE(breaker_.admit(now_ + 100ms));
  EXPECT_FALSE(breaker_.admit(now_ + 100ms));
}

TEST_F(BreakerTest, NewConnectionLetsAProbeGoAtOnce) {
  fail(3);
  EXPECT_FALSE(breaker_.admit(now_));
  breaker_.onConnected();
  EXPECT_EQ(breaker_.state(), State::HalfOpen);
  EXPECT_TRUE(breaker_.admit(now_));
  EXPECT_FALSE(breaker_.admit(now_));
}

TEST_F(BreakerTest, LateFailuresWhileOpenDoNotProlongThePause) {
  fail(3);
  now_ += 90ms;
  fail(10);
  EXPECT_TRUE(breaker_.admit(now_ + 10ms));
}

TEST_F(BreakerTest, JitterShortensThePauseToHalfAtMost) {
  jitter_ = 0;
  fail(3);
  EXPECT_FALSE(breaker_.admit(now_ + 49ms));
  EXPECT_TRUE(breaker_.admit(now_ + 50ms));
}

}  // namespace
}  // namespace idempotency::postgres
