#include "source/store/operator_rules.h"

#include <array>
#include <optional>
#include <string>

#include "gtest/gtest.h"

#include "source/protocol/ending.h"

namespace idempotency::store {
namespace {

using protocol::RecordState;

constexpr protocol::Attempt Seen = 7;

Record record(RecordState state, bool lease_alive = false) {
  Record found;
  found.state = state;
  found.attempt = Seen;
  found.lease_alive = lease_alive;
  return found;
}

const OperatorAction Complete = protocol::Completed{};
const OperatorAction SayNotRun = NotRun{};
const OperatorAction FreeKey = Free{};
const OperatorAction BustResult = Bust{};
const OperatorAction Ask = AskAgain{};
const OperatorAction Stop = GiveUp{};

// What an operator is promised: nothing here can run a request twice unless the operator says that
// it did not run, or asks for the result to be deleted.
struct Row {
  const char* what;
  Record found;
  bool complete, not_run, free, bust, ask;
};

TEST(OperatorRulesTest, StateDecidesWhatAnOperatorMayDo) {
  const std::array<Row, 6> rows = {{
      {"running", record(RecordState::InProgress, true), false, false, false, false, false},
      {"lease expired", record(RecordState::InProgress, false), true, true, true, false, false},
      {"unknown", record(RecordState::Unknown), true, true, true, false, true},
      {"failed", record(RecordState::FailedRetryable), false, false, true, true, false},
      {"completed", record(RecordState::Completed), false, false, false, true, false},
      {"expired", record(RecordState::Expired), false, false, false, true, false},
  }};
  const auto outcome = [](bool allowed) {
    return allowed ? ChangeOutcome::Done : ChangeOutcome::Refused;
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    EXPECT_EQ(judgeChange(Complete, Seen, row.found), outcome(row.complete));
    EXPECT_EQ(judgeChange(SayNotRun, Seen, row.found), outcome(row.not_run));
    EXPECT_EQ(judgeChange(FreeKey, Seen, row.found), outcome(row.free));
    EXPECT_EQ(judgeChange(BustResult, Seen, row.found), outcome(row.bust));
    EXPECT_EQ(judgeChange(Ask, Seen, row.found), outcome(row.ask));
    EXPECT_EQ(judgeChange(Stop, Seen, row.found), outcome(row.ask));
  }
}

TEST(OperatorRulesTest, RecordThatIsGoneOrOfAnotherAttemptIsNotChanged) {
  for (const OperatorAction& action : {Complete, SayNotRun, FreeKey, BustResult, Ask, Stop}) {
    EXPECT_EQ(judgeChange(action, Seen, std::nullopt), ChangeOutcome::Absent);
    for (const RecordState state :
         {RecordState::InProgress, RecordState::Completed, RecordState::FailedRetryable,
          RecordState::Unknown, RecordState::Expired}) {
      EXPECT_EQ(judgeChange(action, Seen + 1, record(state)), ChangeOutcome::Stale);
    }
  }
}

TEST(OperatorRulesTest, EachActionHasItsOwnWordInTheAudit) {
  EXPECT_EQ(name(auditAction(Complete)), "resolve_completed");
  EXPECT_EQ(name(auditAction(SayNotRun)), "resolve_not_run");
  EXPECT_EQ(name(auditAction(FreeKey)), "release");
  EXPECT_EQ(name(auditAction(BustResult)), "bust");
  EXPECT_EQ(name(auditAction(Ask)), "ask_again");
  EXPECT_EQ(name(auditAction(Stop)), "dead_letter");
}

}  // namespace
}  // namespace idempotency::store
