#include "source/store/postgres/settle_list.h"

#include "gtest/gtest.h"

namespace idempotency::postgres {
namespace {

using namespace std::chrono_literals;

class SettleListTest : public ::testing::Test {
protected:
  SettleList list_;
  Deadline now_{1000h};

  static ClaimRef claim(Attempt attempt) { return {{"t", "o", "k"}, attempt}; }
  void add(Attempt attempt, bool certain) { list_.add({claim(attempt), certain, 30s}, now_); }
  size_t due() { return list_.takeDue(now_, 100).size(); }
  // Moves on to the next one that is due; false if nothing ever is.
  bool wait() {
    if (list_.nextDue() == Deadline::max()) {
      return false;
    }
    now_ = std::max(now_, list_.nextDue());
    return true;
  }
};

TEST_F(SettleListTest, ClaimIsDueAtOnceAndOnlyOnceUnderWay) {
  add(1, true);
  EXPECT_EQ(due(), 1U);
  now_ += 1h;
  EXPECT_EQ(due(), 0U);
}

TEST_F(SettleListTest, ReleasedClaimIsDoneWith) {
  add(1, true);
  add(2, false);
  EXPECT_EQ(due(), 2U);
  list_.onReleased(claim(1), true, now_);
  list_.onReleased(claim(2), true, now_);
  EXPECT_EQ(list_.size(), 0U);
}

TEST_F(SettleListTest, CertainClaimThatIsGoneIsDoneWith) {
  add(1, true);
  EXPECT_EQ(due(), 1U);
  list_.onReleased(claim(1), false, now_);
  EXPECT_EQ(list_.size(), 0U) << "somebody else moved it";
}

TEST_F(SettleListTest, ClaimInDoubtIsLookedForAgainUntilTheServerMustHaveEndedIt) {
  add(1, false);
  const Deadline start = now_;
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

TEST_F(SettleListTest, ClaimThatAppearsLateIsReleasedThen) {
  add(1, false);
  EXPECT_EQ(due(), 1U);
  list_.onReleased(claim(1), false, now_);
  ASSERT_TRUE(wait());
  EXPECT_EQ(due(), 1U);
  list_.onReleased(claim(1), true, now_);
  EXPECT_EQ(list_.size(), 0U);
}

TEST_F(SettleListTest, FailedReleaseIsTriedAgainWithGrowingPauses) {
  add(1, true);
  std::chrono::nanoseconds last{0};
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(due(), 1U);
    const Deadline before = now_;
    list_.onFailed(claim(1), now_);
    EXPECT_EQ(due(), 0U);
    ASSERT_TRUE(wait());
    EXPECT_GT(now_ - before, last);
    last = now_ - before;
  }
}

TEST_F(SettleListTest, HopelessReleaseIsGivenUpAfterTheLease) {
  list_.add({claim(1), true, 10min}, now_);
  const Deadline start = now_;
  while (list_.size() > 0 && wait()) {
    ASSERT_EQ(due(), 1U);
    list_.onFailed(claim(1), now_);
  }
  EXPECT_GE(now_ - start, 9min);
  EXPECT_LE(now_ - start, 11min);
}

TEST_F(SettleListTest, TakesNoMoreThanAskedFor) {
  for (Attempt attempt = 1; attempt <= 10; ++attempt) {
    add(attempt, true);
  }
  EXPECT_EQ(list_.takeDue(now_, 4).size(), 4U);
  EXPECT_LE(list_.nextDue(), now_);
  EXPECT_EQ(list_.takeDue(now_, 100).size(), 6U);
}

TEST_F(SettleListTest, IsBounded) {
  SettleList small(2);
  for (Attempt attempt = 1; attempt <= 5; ++attempt) {
    small.add({claim(attempt), true, 1s}, now_);
  }
  EXPECT_EQ(small.size(), 2U);
}

TEST_F(SettleListTest, AnswerForAStrangerIsIgnored) {
  list_.onReleased(claim(9), true, now_);
  list_.onFailed(claim(9), now_);
  EXPECT_EQ(list_.size(), 0U);
}

}  // namespace
}  // namespace idempotency::postgres
