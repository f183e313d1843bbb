#include "source/store/postgres/engine/queue.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "test/store/postgres/scripted_operation.h"

namespace idempotency::postgres {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Script = ScriptedOperation::Script;

class QueueTest : public ::testing::Test {
protected:
  Queue queue_{{.operations = 4, .least_share = 2, .bytes = 100}};

  void push(Script script) { queue_.push(scripted(std::move(script))); }
  std::vector<std::string> take(size_t idle = 1) { return keysOf(queue_.take(idle).operations); }
};

TEST_F(QueueTest, TakesTheOldestUpToTheLimitAndSortsThem) {
  for (const char* const key : {"e", "d", "c", "b", "a"}) {
    push({.key = key});
  }
  EXPECT_THAT(take(), ElementsAre("b", "c", "d", "e"));
  EXPECT_THAT(take(), ElementsAre("a"));
  EXPECT_THAT(take(), IsEmpty());
}

TEST_F(QueueTest, IdleConnectionsShareWhatWaits) {
  for (const char* const key : {"a", "b", "c", "d", "e", "f"}) {
    push({.key = key});
  }
  EXPECT_THAT(take(2), ElementsAre("a", "b", "c"));
  EXPECT_THAT(take(1), ElementsAre("d", "e", "f"));
}

TEST_F(QueueTest, SharesAreNotSplitTooSmall) {
  for (const char* const key : {"a", "b", "c"}) {
    push({.key = key});
  }
  EXPECT_THAT(take(4), ElementsAre("a", "b"));
  EXPECT_THAT(take(3), ElementsAre("c"));
}

TEST_F(QueueTest, LoneOperationGoesAtOnce) {
  push({.key = "a"});
  EXPECT_THAT(take(4), ElementsAre("a"));
}

TEST_F(QueueTest, BytesAreBounded) {
  push({.key = "a", .bytes = 60});
  push({.key = "b", .bytes = 60});
  push({.key = "c", .bytes = 40});
  EXPECT_THAT(take(), ElementsAre("a", "c"));
  EXPECT_THAT(take(), ElementsAre("b"));
}

TEST_F(QueueTest, OperationAboveTheBoundGoesByItself) {
  push({.key = "a", .bytes = 1000});
  push({.key = "b", .bytes = 1});
  EXPECT_THAT(take(), ElementsAre("a"));
  EXPECT_THAT(take(), ElementsAre("b"));
}

TEST_F(QueueTest, LargeOperationIsNotPassedOverForEver) {
  push({.key = "a", .bytes = 50});
  push({.key = "large", .bytes = 1000});
  push({.key = "b", .bytes = 50});
  EXPECT_THAT(take(), ElementsAre("a", "b"));
  push({.key = "c", .bytes = 50});
  EXPECT_THAT(take(), ElementsAre("large"));
}

TEST_F(QueueTest, SoloOperationsGoWithoutCompany) {
  push({.key = "a"});
  push({.key = "solo", .lane = Lane::Solo});
  push({.key = "b"});
  EXPECT_THAT(take(), ElementsAre("a", "b"));
  push({.key = "c"});
  EXPECT_THAT(take(), ElementsAre("solo"));
  EXPECT_THAT(take(), ElementsAre("c"));
}

TEST_F(QueueTest, OperationOfABatchThatFailedGoesAlone) {
  OperationPtr suspect = scripted({.key = "suspect"});
  suspect->alone = true;
  queue_.push(std::move(suspect));
  push({.key = "a"});
  EXPECT_THAT(take(), ElementsAre("suspect"));
  EXPECT_THAT(take(), ElementsAre("a"));
}

TEST_F(QueueTest, WhatIsPushedToTheFrontGoesFirst) {
  for (const char* const key : {"a", "b", "c", "d"}) {
    push({.key = key});
  }
  queue_.pushFront(scripted({.key = "z"}));
  EXPECT_THAT(take(), ElementsAre("a", "b", "c", "z"));
}

TEST_F(QueueTest, ExpiredOnesAreTakenOutAtTheirDeadline) {
  const store::Deadline start{1000h};
  push({.key = "late", .deadline = start + 20ms});
  push({.key = "early", .deadline = start + 10ms});
  push({.key = "never"});
  EXPECT_LE(queue_.nextDeadline(), start + 10ms);
  EXPECT_THAT(keysOf(queue_.takeExpired(start + 9ms)), IsEmpty());
  EXPECT_THAT(keysOf(queue_.takeExpired(start + 10ms)), ElementsAre("early"));
  EXPECT_LE(queue_.nextDeadline(), start + 20ms);
  EXPECT_GT(queue_.nextDeadline(), start + 10ms);
  EXPECT_THAT(keysOf(queue_.takeExpired(start + 20ms)), ElementsAre("late"));
  EXPECT_EQ(queue_.nextDeadline(), store::Deadline::max());
  EXPECT_THAT(take(), ElementsAre("never"));
}

TEST_F(QueueTest, TakeIfTakesOneAndKeepsTheOrder) {
  for (const char* const key : {"a", "b", "c"}) {
    push({.key = key});
  }
  const OperationPtr taken =
      queue_.takeIf([](Operation& operation) { return operation.identity()->key == "b"; });
  EXPECT_EQ(keyOf(taken), "b");
  EXPECT_EQ(queue_.takeIf([](Operation&) { return false; }), nullptr);
  EXPECT_THAT(take(), ElementsAre("a", "c"));
}

}  // namespace
}  // namespace idempotency::postgres
