#include "source/store/postgres/operations/tenant_use.h"

#include "gtest/gtest.h"

namespace idempotency::postgres {
namespace {

using namespace std::chrono_literals;
using Change = TenantUse::Change;

class TenantUseTest : public ::testing::Test {
protected:
  TenantUse use_;
  store::MonotonicTime now_{1000h};

  void tell(uint64_t records) { use_.onRead("t", records, use_.writes("t"), now_); }
  bool enter(uint64_t cap) { return use_.enter("t", cap, now_); }
  bool enterUnasked(uint64_t cap) { return use_.enterUnasked("t", cap, now_); }
  void leave(bool added) { use_.leave("t", added, now_); }
  // What the database would be told now; `records`: what it then has.
  std::vector<Change> write(int64_t records) {
    std::vector<Change> changes = use_.takeChanges(now_);
    use_.onWritten(changes, {{"t", records}}, now_);
    return changes;
  }
};

TEST_F(TenantUseTest, PlacesAreTakenUpToTheCapAndNotAbove) {
  tell(3);
  EXPECT_TRUE(enter(5));
  EXPECT_TRUE(enter(5));
  EXPECT_FALSE(enter(5));
}

TEST_F(TenantUseTest, PlaceThatWasNotUsedIsFreeAgain) {
  tell(4);
  EXPECT_TRUE(enter(5));
  leave(false);
  EXPECT_TRUE(enter(5));
}

TEST_F(TenantUseTest, RecordThatWasAddedCountsBeforeWhileAndAfterItIsWritten) {
  tell(4);
  EXPECT_TRUE(enter(5));
  leave(true);
  EXPECT_FALSE(enter(5));
  const std::vector<Change> changes = use_.takeChanges(now_);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].delta, 1);
  EXPECT_FALSE(enter(5));
  use_.onWritten(changes, {{"t", 5}}, now_);
  EXPECT_FALSE(enter(5));
  EXPECT_TRUE(enter(6));
}

TEST_F(TenantUseTest, DeletedRecordMakesRoom) {
  tell(5);
  EXPECT_FALSE(enter(5));
  use_.onDeleted("t", now_);
  EXPECT_TRUE(enter(5));
}

TEST_F(TenantUseTest, NumberThatWasAskedForBeforeAWriteIsOutOfDate) {
  tell(4);
  const uint64_t asked = use_.writes("t");
  EXPECT_TRUE(enter(5));
  leave(true);
  write(5);
  use_.onRead("t", 4, asked, now_);
  EXPECT_FALSE(enter(5));
}

TEST_F(TenantUseTest, NoClaimEntersUnaskedWithoutAFreshNumber) {
  EXPECT_FALSE(enterUnasked(1'000'000));
  tell(0);
  EXPECT_TRUE(enterUnasked(1'000'000));
  now_ += TenantUse::FreshFor;
  EXPECT_FALSE(enterUnasked(1'000'000));
}

TEST_F(TenantUseTest, OneProcessUsesUpAnEighthOfTheRoomBeforeItAsksAgain) {
  tell(200);
  int entered = 0;
  while (enterUnasked(1000)) {
    leave(true);
    ++entered;
  }
  EXPECT_EQ(entered, 100);
  // So eight processes that all saw the same do not exceed the cap.
  tell(200 + 8 * 100);
  EXPECT_FALSE(enterUnasked(1000));
}

TEST_F(TenantUseTest, SmallRoomIsAskedForEachTime) {
  tell(0);
  EXPECT_FALSE(enterUnasked(7));
  EXPECT_TRUE(enter(7));
}

TEST_F(TenantUseTest, WhatIsNearTheCapIsWrittenAtOnceAndTheRestTogether) {
  tell(0);
  EXPECT_TRUE(enter(2));
  leave(true);
  EXPECT_EQ(use_.nextWrite(), now_);
  write(1);
  ASSERT_TRUE(enterUnasked(1'000'000));
  leave(true);
  EXPECT_EQ(use_.nextWrite(), now_ + TenantUse::WriteEvery);
}

TEST_F(TenantUseTest, CountOfLiveRecordsIsTakenForWhatItIs) {
  tell(5);
  EXPECT_TRUE(use_.enterCounted("t", 5, 4, now_)) << "one of the five was past its life";
  EXPECT_FALSE(use_.enterCounted("t", 5, 4, now_)) << "that place is taken";
}

TEST_F(TenantUseTest, FirstCountHoldsWhatWasClaimedHereAndIsNotWrittenTwice) {
  use_.onFirstCount("t", 0, now_);
  EXPECT_TRUE(enter(5));
  leave(true);
  use_.onFirstCount("t", 1, now_);
  const std::vector<Change> changes = use_.takeChanges(now_);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(*changes[0].first + changes[0].delta, 1);
}

TEST_F(TenantUseTest, RefusedTenantIsWrittenDownSoThatItIsCountedAgain) {
  tell(5);
  use_.onRefused("t", now_);
  const std::vector<Change> changes = write(5);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].delta, 0);
}

TEST_F(TenantUseTest, TenantThatWasLockedIsWrittenLater) {
  tell(0);
  EXPECT_TRUE(enter(5));
  leave(true);
  std::vector<Change> changes = use_.takeChanges(now_);
  use_.onWritten(changes, {}, now_);
  EXPECT_LE(use_.nextWrite(), now_ + TenantUse::WriteEvery);
  changes = use_.takeChanges(now_);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].delta, 1);
}

TEST_F(TenantUseTest, LostWriteOfAdditionsIsRepeatedAndOfDeletionsIsNot) {
  use_.onRead("a", 5, 0, now_);
  use_.onRead("d", 5, 0, now_);
  EXPECT_TRUE(use_.enter("a", 10, now_));
  use_.leave("a", true, now_);
  use_.onDeleted("d", now_);
  use_.onLost(use_.takeChanges(now_), now_);
  const std::vector<Change> again = use_.takeChanges(now_ + 1h);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].delta, 1);
  EXPECT_EQ(again[1].delta, 0);
}

TEST_F(TenantUseTest, IdleTenantIsForgotten) {
  tell(0);
  EXPECT_TRUE(enter(5));
  leave(true);
  write(1);
  EXPECT_EQ(use_.size(), 1U);
  now_ += 2min;
  (void)use_.takeChanges(now_);
  EXPECT_EQ(use_.size(), 0U);
}

TEST_F(TenantUseTest, TenantWithAClaimUnderWayIsNotForgotten) {
  tell(0);
  EXPECT_TRUE(enter(5));
  now_ += 2min;
  (void)use_.takeChanges(now_);
  EXPECT_EQ(use_.size(), 1U);
}

}  // namespace
}  // namespace idempotency::postgres
