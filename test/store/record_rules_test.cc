#include "source/store/record_rules.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::store {
namespace {

constexpr protocol::Attempt Ours = 7;
constexpr protocol::Attempt Other = 8;
constexpr protocol::RecordState AllStates[] = {
    protocol::RecordState::InProgress, protocol::RecordState::Completed,
    protocol::RecordState::FailedRetryable, protocol::RecordState::Unknown,
    protocol::RecordState::Expired};

std::vector<protocol::Ending> allEndings() {
  return {protocol::Unknown{}, protocol::Completed{}, protocol::Failed{}, protocol::Released{}};
}

TEST(OutcomeWithoutWriteTest, RecordInProgressIsWritten) {
  for (const protocol::Ending& ending : allEndings()) {
    EXPECT_EQ(
        outcomeWithoutWrite(ending, Ours, RecordHead{protocol::RecordState::InProgress, Ours}),
        std::nullopt)
        << ending.index();
  }
}

TEST(OutcomeWithoutWriteTest, OnlyACompletionSettlesAnUnknownRecord) {
  const RecordHead unknown{protocol::RecordState::Unknown, Ours};
  EXPECT_EQ(outcomeWithoutWrite(protocol::Completed{}, Ours, unknown), std::nullopt);
  EXPECT_EQ(outcomeWithoutWrite(protocol::Failed{}, Ours, unknown), WriteOutcome::Fenced);
  EXPECT_EQ(outcomeWithoutWrite(protocol::Released{}, Ours, unknown), WriteOutcome::Fenced);
}

TEST(OutcomeWithoutWriteTest, SameEndingAgainIsDone) {
  const auto again = [](const protocol::Ending& ending, protocol::RecordState state) {
    return outcomeWithoutWrite(ending, Ours, RecordHead{state, Ours});
  };
  EXPECT_EQ(again(protocol::Completed{}, protocol::RecordState::Completed), WriteOutcome::Done);
  EXPECT_EQ(again(protocol::Failed{}, protocol::RecordState::FailedRetryable), WriteOutcome::Done);
  EXPECT_EQ(again(protocol::Unknown{}, protocol::RecordState::Unknown), WriteOutcome::Done);
  EXPECT_EQ(outcomeWithoutWrite(protocol::Released{}, Ours, std::nullopt), WriteOutcome::Done);
}

TEST(OutcomeWithoutWriteTest, AnotherEndingAfterTheFirstIsFenced) {
  EXPECT_EQ(outcomeWithoutWrite(protocol::Failed{}, Ours,
                                RecordHead{protocol::RecordState::Completed, Ours}),
            WriteOutcome::Fenced);
  EXPECT_EQ(outcomeWithoutWrite(protocol::Completed{}, Ours,
                                RecordHead{protocol::RecordState::FailedRetryable, Ours}),
            WriteOutcome::Fenced);
  EXPECT_EQ(outcomeWithoutWrite(protocol::Unknown{}, Ours,
                                RecordHead{protocol::RecordState::Completed, Ours}),
            WriteOutcome::Fenced);
  EXPECT_EQ(outcomeWithoutWrite(protocol::Released{}, Ours,
                                RecordHead{protocol::RecordState::FailedRetryable, Ours}),
            WriteOutcome::Fenced);
  for (const protocol::Ending& ending : allEndings()) {
    EXPECT_EQ(outcomeWithoutWrite(ending, Ours, RecordHead{protocol::RecordState::Expired, Ours}),
              WriteOutcome::Fenced)
        << ending.index();
  }
}

TEST(OutcomeWithoutWriteTest, RecordOfAnotherAttemptIsNeverWritten) {
  for (const protocol::Ending& ending : allEndings()) {
    for (const protocol::RecordState state : AllStates) {
      EXPECT_EQ(outcomeWithoutWrite(ending, Ours, RecordHead{state, Other}), WriteOutcome::Fenced)
          << ending.index();
    }
  }
}

TEST(OutcomeWithoutWriteTest, RecordThatIsGoneIsFenced) {
  EXPECT_EQ(outcomeWithoutWrite(protocol::Completed{}, Ours, std::nullopt), WriteOutcome::Fenced);
  EXPECT_EQ(outcomeWithoutWrite(protocol::Failed{}, Ours, std::nullopt), WriteOutcome::Fenced);
  EXPECT_EQ(outcomeWithoutWrite(protocol::Unknown{}, Ours, std::nullopt), WriteOutcome::Fenced);
}

class MayReclaimTest : public ::testing::Test {
protected:
  // Of the record as it is.
  bool mayReclaim() {
    request_.from = ReclaimFrom{record_.state, record_.attempt};
    return idempotency::store::mayReclaim(request_, record_);
  }

  ClaimRequest request_;
  Record record_;
};

TEST_F(MayReclaimTest, FailedAndExpiredAlways) {
  for (const protocol::RecordState state :
       {protocol::RecordState::FailedRetryable, protocol::RecordState::Expired}) {
    record_.state = state;
    EXPECT_TRUE(mayReclaim());
  }
}

TEST_F(MayReclaimTest, CompletedOnceItHasExpired) {
  record_.state = protocol::RecordState::Completed;
  EXPECT_FALSE(mayReclaim());
  record_.past_life = true;
  EXPECT_TRUE(mayReclaim());
}

TEST_F(MayReclaimTest, ExpiredLeaseIfBothSayRetry) {
  record_.state = protocol::RecordState::InProgress;
  for (const protocol::LeaseExpired theirs :
       {protocol::LeaseExpired::Unknown, protocol::LeaseExpired::Retry}) {
    for (const protocol::LeaseExpired ours :
         {protocol::LeaseExpired::Unknown, protocol::LeaseExpired::Retry}) {
      record_.on_lease_expired = theirs;
      request_.on_lease_expired = ours;
      record_.lease_alive = true;
      EXPECT_FALSE(mayReclaim());
      record_.lease_alive = false;
      EXPECT_EQ(mayReclaim(),
                theirs == protocol::LeaseExpired::Retry && ours == protocol::LeaseExpired::Retry);
    }
  }
}

TEST_F(MayReclaimTest, UnknownNever) {
  record_.state = protocol::RecordState::Unknown;
  record_.past_life = true;
  record_.on_lease_expired = protocol::LeaseExpired::Retry;
  request_.on_lease_expired = protocol::LeaseExpired::Retry;
  EXPECT_FALSE(mayReclaim());
}

TEST_F(MayReclaimTest, OnlyTheVeryRecordThatWasSeen) {
  record_.state = protocol::RecordState::FailedRetryable;
  record_.attempt = Ours;
  EXPECT_FALSE(idempotency::store::mayReclaim(request_, record_)) << "it is no re-claim";
  request_.from = ReclaimFrom{protocol::RecordState::FailedRetryable, Other};
  EXPECT_FALSE(idempotency::store::mayReclaim(request_, record_));
  request_.from = ReclaimFrom{protocol::RecordState::Expired, Ours};
  EXPECT_FALSE(idempotency::store::mayReclaim(request_, record_));
}

}  // namespace
}  // namespace idempotency::store
