#include "source/protocol/record.h"

#include <gtest/gtest.h>

namespace idempotency::protocol {
namespace {

TEST(RecordTest, SettledRecordIsOverOnceItHasExpired) {
  for (const RecordState state : {RecordState::Completed, RecordState::FailedRetryable}) {
    EXPECT_FALSE(isOver(state, false));
    EXPECT_TRUE(isOver(state, true));
  }
  EXPECT_TRUE(isOver(RecordState::Expired, true));
  EXPECT_TRUE(isOver(RecordState::Expired, false)) << "whatever the clock says now";
}

TEST(RecordTest, UnsettledRecordIsNeverOver) {
  for (const RecordState state :
       {RecordState::InProgress, RecordState::Unknown, static_cast<RecordState>(99)}) {
    EXPECT_FALSE(isOver(state, false));
    EXPECT_FALSE(isOver(state, true));
  }
}

}  // namespace
}  // namespace idempotency::protocol
