#include "source/runtime/timer_thread.h"

#include <atomic>
#include <memory>

#include "gtest/gtest.h"

#include "source/runtime/heartbeat.h"
#include "source/runtime/maintainer.h"
#include "test/runtime/support.h"
#include "test/store/sqlite/sqlite_rig.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

class CountingTask : public runtime::TimedTask {
public:
  explicit CountingTask(std::chrono::milliseconds interval) : interval_(interval) {}
  store::Deadline onTime(store::MonotonicTime now) override {
    ++calls;
    return interval_ == 0ms ? store::Deadline::max() : now + interval_;
  }
  void poke() { wake(); }
  void pokeBy(store::Deadline time) { wakeBy(time); }
  std::atomic<int> calls{0};

private:
  const std::chrono::milliseconds interval_;
};

TEST(WakerTest, WhatWasAskedForBeforeTheWaitCounts) {
  runtime::Waker waker;
  const store::Deadline start = std::chrono::steady_clock::now();
  waker.wakeBy(start + 20ms);
  waker.waitUntil(start + 1h);
  EXPECT_GE(std::chrono::steady_clock::now(), start + 20ms);
  waker.wake();
  waker.waitUntil(store::Deadline::max());
  // And only for one wait.
  const store::Deadline later = std::chrono::steady_clock::now();
  waker.waitUntil(later + 20ms);
  EXPECT_GE(std::chrono::steady_clock::now(), later + 20ms);
}

TEST(TimerThreadTest, TasksAreCalledWhenTheyWish) {
  auto often = std::make_shared<CountingTask>(1ms);
  auto seldom = std::make_shared<CountingTask>(1h);
  const runtime::TimerThread thread({often, seldom});
  EXPECT_TRUE(eventually([&] { return often->calls > 20; }));
  EXPECT_GE(seldom->calls, 1);
}

TEST(TimerThreadTest, TaskCanWakeTheThread) {
  auto task = std::make_shared<CountingTask>(0ms);
  const runtime::TimerThread thread({task});
  EXPECT_TRUE(eventually([&] { return task->calls == 1; }));
  task->poke();
  EXPECT_TRUE(eventually([&] { return task->calls >= 2; }));
}

TEST(TimerThreadTest, TaskCanAskForAnEarlierCall) {
  auto task = std::make_shared<CountingTask>(1h);
  const runtime::TimerThread thread({task});
  ASSERT_TRUE(eventually([&] { return task->calls == 1; }));
  const store::Deadline start = std::chrono::steady_clock::now();
  task->pokeBy(start + 2h);  // Later than it is called anyway.
  task->pokeBy(start + 100ms);
  task->pokeBy(start + 1h);
  EXPECT_TRUE(eventually([&] { return task->calls == 2; }));
  EXPECT_GE(std::chrono::steady_clock::now(), start + 100ms);
}

TEST(TimerThreadTest, NoTaskIsCalledAfterTheEnd) {
  auto task = std::make_shared<CountingTask>(1ms);
  { const runtime::TimerThread thread({task}); }
  const int calls = task->calls;
  task->poke();
  EXPECT_EQ(task->calls, calls);
}

// All together, for real: an embedded store, the real clock.
TEST(TimerThreadTest, LivingClaimsStayAndDeadOnesAreSwept) {
  SqliteRig rig;
  auto observer = std::make_shared<CountingObserver>();
  auto heartbeat = runtime::Heartbeat::create(rig.store(), observer);
  runtime::MaintainerOptions options;
  options.owner = "test";
  options.settings.sweep_interval = 50ms;
  options.settings.reap_interval = 50ms;
  auto maintainer = runtime::Maintainer::create(rig.store(), options, observer, [] { return 0.5; });
  const runtime::TimerThread thread({heartbeat, maintainer});

  // Long enough that a busy machine does not make the heart stop.
  constexpr std::chrono::milliseconds Lease = 3s;
  const auto claim = [&](const std::string& key, std::chrono::milliseconds ttl) {
    store::ClaimRequest request;
    request.identity = {.tenant = "tenant", .operation = "operation", .key = key};
    request.attempt = store::newAttempt();
    request.lease = Lease;
    request.ttl = ttl;
    const store::Deadline asked = std::chrono::steady_clock::now();
    Answer<store::ClaimResult> answer;
    rig.store().claim(request, soon(), answer.callback());
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
    return std::pair(store::ClaimRef{request.identity, request.attempt}, asked);
  };
  const auto state = [&](const store::ClaimRef& ref) -> std::optional<protocol::RecordState> {
    Answer<store::LookUpResult> answer;
    rig.store().lookUp(ref.identity, soon(), answer.callback());
    const store::LookUpResult found = answer.get();
    return std::holds_alternative<store::Record>(found)
               ? std::optional(std::get<store::Record>(found).state)
               : std::nullopt;
  };
  const auto [living, asked] = claim("living", 24h);
  const store::ClaimRef dead = claim("dead", 24h).first;
  const store::ClaimRef forgotten = claim("forgotten", Lease).first;
  const store::ClaimRef done = claim("done", Lease).first;
  protocol::Completed ending;
  ending.status = 200;
  ending.response = "done";
  Answer<store::WriteResult> completed;
  rig.store().settle(done, ending, soon(), completed.callback());
  ASSERT_EQ(completed.get().outcome, store::WriteOutcome::Done);
  heartbeat->add(living, Lease, asked, [] { ADD_FAILURE() << "fenced"; });

  EXPECT_TRUE(eventually([&] { return state(dead) == protocol::RecordState::Unknown; }));
  EXPECT_TRUE(eventually([&] { return state(done) == std::nullopt; }));
  EXPECT_TRUE(eventually([&] { return state(forgotten) == protocol::RecordState::Unknown; }));
  EXPECT_EQ(state(living), protocol::RecordState::InProgress);
  EXPECT_TRUE(observer->leads);
  EXPECT_GE(observer->extended, 1U);
  EXPECT_EQ(observer->to_unknown, 2U);
  EXPECT_EQ(observer->deleted, 1U);

  // An operator takes the claim away: its owner is told.
  heartbeat->remove(living.attempt);
  std::atomic<bool> fenced{false};
  heartbeat->add(living, Lease, asked, [&] { fenced = true; });
  rig.run("UPDATE record SET attempt = 1 WHERE state = 1");
  EXPECT_TRUE(eventually([&] { return fenced.load(); }));
}

}  // namespace
}  // namespace idempotency::test
