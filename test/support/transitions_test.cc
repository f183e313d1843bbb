#include "test/support/transitions.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace idempotency {
namespace {

using enum protocol::RecordState;
using enum RecordEvent;

constexpr RecordPlace Absent = std::nullopt;
constexpr std::array Places = {Absent,
                               RecordPlace(InProgress),
                               RecordPlace(Completed),
                               RecordPlace(FailedRetryable),
                               RecordPlace(Unknown),
                               RecordPlace(Expired)};
constexpr std::array Events = {Claim,
                               Reclaim,
                               ReclaimDeadLease,
                               Complete,
                               Fail,
                               Release,
                               HandBack,
                               LoseOutcome,
                               RunOutOfLease,
                               AllowRetry,
                               ResolveCompleted,
                               ResolveFailed,
                               Expire,
                               Delete,
                               Bust};

// The whole matrix, written a second time by event: what is not here must be illegal.
const std::map<std::pair<RecordPlace, RecordEvent>, RecordPlace> Expected = {
    {{Absent, Claim}, InProgress},
    {{FailedRetryable, Reclaim}, InProgress},
    {{Completed, Reclaim}, InProgress},
    {{Expired, Reclaim}, InProgress},
    {{InProgress, ReclaimDeadLease}, InProgress},
    {{InProgress, Complete}, Completed},
    {{InProgress, Fail}, FailedRetryable},
    {{InProgress, Release}, Absent},
    {{InProgress, HandBack}, FailedRetryable},
    {{InProgress, LoseOutcome}, Unknown},
    {{InProgress, RunOutOfLease}, Unknown},
    {{InProgress, AllowRetry}, FailedRetryable},
    {{InProgress, ResolveCompleted}, Completed},
    {{Unknown, ResolveCompleted}, Completed},
    {{Unknown, ResolveFailed}, FailedRetryable},
    {{Unknown, Complete}, Completed},
    {{Completed, Expire}, Expired},
    {{FailedRetryable, Expire}, Expired},
    {{Completed, Delete}, Absent},
    {{FailedRetryable, Delete}, Absent},
    {{Expired, Delete}, Absent},
    {{InProgress, Bust}, Absent},
    {{Completed, Bust}, Absent},
    {{FailedRetryable, Bust}, Absent},
    {{Unknown, Bust}, Absent},
    {{Expired, Bust}, Absent},
};

TEST(TransitionsTest, MatrixIsAsDesigned) {
  for (const RecordPlace from : Places) {
    for (const RecordEvent event : Events) {
      const Transition* found = findTransition(from, event);
      const auto expected = Expected.find({from, event});
      const std::string where =
          std::string(from ? name(*from) : "absent") + " " + std::string(name(event));
      ASSERT_EQ(found != nullptr, expected != Expected.end()) << where;
      if (found != nullptr) {
        EXPECT_EQ(found->to, expected->second) << where;
      }
    }
  }
  EXPECT_EQ(legalTransitions().size(), Expected.size());
}

TEST(TransitionsTest, NoClaimLeadsOutOfUnknown) {
  for (const RecordEvent event : {Claim, Reclaim, ReclaimDeadLease}) {
    EXPECT_EQ(findTransition(Unknown, event), nullptr) << name(event);
  }
}

TEST(TransitionsTest, TimeNeverLeadsOutOfUnknown) {
  for (const RecordEvent event : {RunOutOfLease, AllowRetry, Expire, Delete}) {
    EXPECT_EQ(findTransition(Unknown, event), nullptr) << name(event);
  }
  for (const RecordEvent event : {Expire, Delete}) {
    EXPECT_EQ(findTransition(InProgress, event), nullptr) << name(event);
  }
}

TEST(TransitionsTest, OnlyAnAttemptInProgressCanBeFinishedByItsWriter) {
  for (const RecordEvent event : {Fail, Release, HandBack, LoseOutcome}) {
    for (const Transition& transition : legalTransitions()) {
      if (transition.event == event) {
        EXPECT_EQ(transition.from, RecordPlace(InProgress)) << name(event);
      }
    }
  }
}

// An attempt that was taken for dead may still bring its result; it may not free the key.
TEST(TransitionsTest, AnAttemptMayCompleteLateAndNothingElse) {
  for (const Transition& transition : legalTransitions()) {
    if (transition.event == Complete) {
      EXPECT_TRUE(transition.from == InProgress || transition.from == Unknown);
      EXPECT_EQ(transition.to, RecordPlace(Completed));
    }
  }
}

TEST(TransitionsTest, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (const RecordEvent event : Events) {
    EXPECT_TRUE(names.insert(name(event)).second) << name(event);
  }
  names.clear();
  for (const RecordPlace place : Places) {
    EXPECT_TRUE(names.insert(place ? name(*place) : "absent").second);
  }
  EXPECT_FALSE(names.contains("invalid"));
}

// These numbers are in tables of running systems.
TEST(TransitionsTest, StoredNumbersNeverChange) {
  EXPECT_EQ(static_cast<int>(InProgress), 1);
  EXPECT_EQ(static_cast<int>(Completed), 2);
  EXPECT_EQ(static_cast<int>(FailedRetryable), 3);
  EXPECT_EQ(static_cast<int>(Unknown), 4);
  EXPECT_EQ(static_cast<int>(Expired), 5);
  EXPECT_EQ(static_cast<int>(protocol::Tombstone::None), 0);
  EXPECT_EQ(static_cast<int>(protocol::Tombstone::TooLarge), 1);
  EXPECT_EQ(static_cast<int>(protocol::Tombstone::Secret), 2);
  EXPECT_EQ(static_cast<int>(protocol::Tombstone::Unstorable), 3);
}

}  // namespace
}  // namespace idempotency
