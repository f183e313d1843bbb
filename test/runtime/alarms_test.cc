#include "source/runtime/alarms.h"

#include <chrono>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace idempotency::runtime {
namespace {

using namespace std::chrono_literals;

const store::MonotonicTime Start{1000s};

class AlarmsTest : public testing::Test {
protected:
  Alarms::Ticket set(store::Deadline time, const std::string& name) {
    return alarms_.set(time, [this, name] { rung_ += name; });
  }

  Alarms alarms_;
  std::string rung_;
};

TEST_F(AlarmsTest, RingOnceEachInTheOrderOfTheirTimes) {
  set(Start + 3s, "c");
  set(Start + 1s, "a");
  set(Start + 1s, "b");
  EXPECT_EQ(alarms_.onTime(Start), Start + 1s);
  EXPECT_EQ(rung_, "");
  EXPECT_EQ(alarms_.onTime(Start + 1s), Start + 3s);
  EXPECT_EQ(rung_, "ab");
  EXPECT_EQ(alarms_.onTime(Start + 9s), store::Deadline::max());
  EXPECT_EQ(alarms_.onTime(Start + 9s), store::Deadline::max());
  EXPECT_EQ(rung_, "abc");
}

TEST_F(AlarmsTest, CancelledOneDoesNotRing) {
  const Alarms::Ticket first = set(Start, "a");
  set(Start, "b");
  alarms_.cancel(first);
  alarms_.cancel(first);
  alarms_.onTime(Start);
  EXPECT_EQ(rung_, "b");
}

TEST_F(AlarmsTest, CallbackMaySetAndCancelOthers) {
  const Alarms::Ticket later = set(Start + 1s, "x");
  alarms_.set(Start, [&] {
    alarms_.cancel(later);
    set(Start + 2s, "y");
  });
  alarms_.onTime(Start);
  EXPECT_EQ(alarms_.onTime(Start + 1s), Start + 2s);
  alarms_.onTime(Start + 2s);
  EXPECT_EQ(rung_, "y");
}

TEST_F(AlarmsTest, CancelledCallbackIsDestroyedAtOnce) {
  const auto held = std::make_shared<int>();
  const Alarms::Ticket ticket = alarms_.set(Start, [held] {});
  EXPECT_EQ(held.use_count(), 2);
  alarms_.cancel(ticket);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace idempotency::runtime
