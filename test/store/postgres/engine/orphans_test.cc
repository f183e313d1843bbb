#include "source/store/postgres/engine/orphans.h"

#include "gtest/gtest.h"

namespace idempotency::postgres {
namespace {

using namespace std::chrono_literals;

class OrphansTest : public ::testing::Test {
protected:
  Orphans list_;
  store::MonotonicTime now_{1000h};

  static store::ClaimRef claim(protocol::Attempt attempt) { return {{"t", "o", "k"}, attempt}; }
  void add(protocol::Attempt attempt, bool certain) {
    list_.add({claim(attempt), certain, 30s}, now_);
  }
  size_t due() { return list_.takeDue(now_, 100).size(); }
  // Moves on to the next one that is due; false if nothing ever is.
  bool wait() {
    if (list_.nextDue() == store::Deadline::max()) {
      return false;
    }
    now_ = std::max(now_, list_.nextDue());
    return true;
  }
};

TEST_F(OrphansTest, ClaimIsDueAtOnceAndOnlyOnceUnderWay) {
  add(1, true);
  EXPECT_EQ(due(), 1U);
  now_ += 1h;
  EXPECT_EQ(due(), 0U);
}

TEST_F(OrphansTest, ReleasedClaimIsDoneWith) {
  add(1, true);
  add(2, false);
  EXPECT_EQ(due(), 2U);
  list_.onReleased(claim(1), true, now_);
  list_.onReleased(claim(2), true, now_);
  EXPECT_EQ(list_.size(), 0U);
}

TEST_F(OrphansTest, CertainClaimThatIsGoneIsDoneWith) {
  add(1, true);
  EXPECT_EQ(due(), 1U);
  list_.onReleased(claim(1), false, now_);
  EXPECT_EQ(list_.size(), 0U) << "somebody else moved it";
}

TEST_F(OrphansTest, ClaimInDoubtIsLookedForAgainUntilTheServerMustHaveEndedIt) {
  add(1, false);
  const store::Deadline start = now_;
  int looks = 0;
  while (list_.size() > 0 && wait()) {
    ASSERT_EQ(due(), 1U);
    ++looks;
    list_.onReleased(claim(1), false, now_);
  }
  EXPECT_GE(looks, 5);
  EXPECT_LT(looks, 20);
  EXPECT_GE(now_ - start, 40s);
  EXPECT_LE(now_ - start, 61s);
}

TEST_F(OrphansTest, ClaimThatAppearsLateIsReleasedThen) {
  add(1, false);
  EXPECT_EQ(due(), 1U);
  list_.onReleased(claim(1), false, now_);
  ASSERT_TRUE(wait());
  EXPECT_EQ(due(), 1U);
  list_.onReleased(claim(1), true, now_);
  EXPECT_EQ(list_.size(), 0U);
}

TEST_F(OrphansTest, FailedReleaseIsTriedAgainWithGrowingPauses) {
  add(1, true);
  std::chrono::nanoseconds last{0};
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(due(), 1U);
    const store::Deadline before = now_;
    list_.onFailed(claim(1), now_);
    EXPECT_EQ(due(), 0U);
    ASSERT_TRUE(wait());
    EXPECT_GT(now_ - before, last);
    last = now_ - before;
  }
}

TEST_F(OrphansTest, HopelessReleaseIsGivenUpAfterTheLease) {
  list_.add({claim(1), true, 10min}, now_);
  const store::Deadline start = now_;
  while (list_.size() > 0 && wait()) {
    ASSERT_EQ(due(), 1U);
    list_.onFailed(claim(1), now_);
  }
  EXPECT_GE(now_ - start, 9min);
  EXPECT_LE(now_ - start, 11min);
}

TEST_F(OrphansTest, TakesNoMoreThanAskedFor) {
  for (protocol::Attempt attempt = 1; attempt <= 10; ++attempt) {
    add(attempt, true);
  }
  EXPECT_EQ(list_.takeDue(now_, 4).size(), 4U);
  EXPECT_LE(list_.nextDue(), now_);
  EXPECT_EQ(list_.takeDue(now_, 100).size(), 6U);
}

TEST_F(OrphansTest, IsBounded) {
  Orphans small(2);
  for (protocol::Attempt attempt = 1; attempt <= 5; ++attempt) {
    small.add({claim(attempt), true, 1s}, now_);
  }
  EXPECT_EQ(small.size(), 2U);
}

TEST_F(OrphansTest, AnswerForAStrangerIsIgnored) {
  list_.onReleased(claim(9), true, now_);
  list_.onFailed(claim(9), now_);
  EXPECT_EQ(list_.size(), 0U);
}

}  // namespace
}  // namespace idempotency::postgres
