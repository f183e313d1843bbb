#include "source/maintenance/timer_thread.h"

#include <atomic>
#include <memory>

#include "gtest/gtest.h"

#include "source/maintenance/heartbeat.h"
#include "source/maintenance/maintainer.h"
#include "test/maintenance/support.h"
#include "test/store/sqlite/sqlite_rig.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

class CountingTask : public TimedTask {
public:
  explicit CountingTask(std::chrono::milliseconds interval) : interval_(interval) {}
  Deadline onTime(Deadline now) override {
    ++calls;
    return interval_ == 0ms ? Deadline::max() : now + interval_;
  }
  void poke() { wake(); }
  void pokeBy(Deadline time) { wakeBy(time); }
  std::atomic<int> calls{0};

private:
  const std::chrono::milliseconds interval_;
};

TEST(WakerTest, WhatWasAskedForBeforeTheWaitCounts) {
  Waker waker;
  const Deadline start = std::chrono::steady_clock::now();
  waker.wakeBy(start + 20ms);
  waker.waitUntil(start + 1h);
  EXPECT_GE(std::chrono::steady_clock::now(), start + 20ms);
  waker.wake();
  waker.waitUntil(Deadline::max());
  // And only for one wait.
  const Deadline later = std::chrono::steady_clock::now();
  waker.waitUntil(later + 20ms);
  EXPECT_GE(std::chrono::steady_clock::now(), later + 20ms);
}

TEST(TimerThreadTest, TasksAreCalledWhenTheyWish) {
  auto often = std::make_shared<CountingTask>(1ms);
  auto seldom = std::make_shared<CountingTask>(1h);
  const TimerThread thread({often, seldom});
  EXPECT_TRUE(eventually([&] { return often->calls > 20; }));
  EXPECT_GE(seldom->calls, 1);
}

TEST(TimerThreadTest, TaskCanWakeTheThread) {
  auto task = std::make_shared<CountingTask>(0ms);
  const TimerThread thread({task});
  EXPECT_TRUE(eventually([&] { return task->calls == 1; }));
  task->poke();
  EXPECT_TRUE(eventually([&] { return task->calls >= 2; }));
}

TEST(TimerThreadTest, TaskCanAskForAnEarlierCall) {
  auto task = std::make_shared<CountingTask>(1h);
  const TimerThread thread({task});
  ASSERT_TRUE(eventually([&] { return task->calls == 1; }));
  const Deadline start = std::chrono::steady_clock::now();
  task->pokeBy(start + 2h);  // Later than it is called anyway.
  task->pokeBy(start + 100ms);
  task->pokeBy(start + 1h);
  EXPECT_TRUE(eventually([&] { return task->calls == 2; }));
  EXPECT_GE(std::chrono::steady_clock::now(), start + 100ms);
}

TEST(TimerThreadTest, NoTaskIsCalledAfterTheEnd) {
  auto task = std::make_shared<CountingTask>(1ms);
  { const TimerThread thread({task}); }
  const int calls = task->calls;
  task->poke();
  EXPECT_EQ(task->calls, calls);
}

// All together, for real: an embedded store, the real clock.
TEST(TimerThreadTest, LivingClaimsStayAndDeadOnesAreSwept) {
  SqliteRig rig;
  auto observer = std::make_shared<CountingObserver>();
  auto heartbeat = Heartbeat::create(rig.store(), observer);
  MaintainerOptions options;
  options.owner = "test";
  options.settings.sweep_interval = 50ms;
  options.settings.reap_interval = 50ms;
  auto maintainer = Maintainer::create(rig.store(), options, observer, [] { return 0.5; });
  const TimerThread thread({heartbeat, maintainer});

  // Long enough that a busy machine does not make the heart stop.
  constexpr std::chrono::milliseconds Lease = 3s;
  const auto claim = [&](const std::string& key, std::chrono::milliseconds ttl) {
    ClaimRequest request;
    request.identity = {.tenant = "tenant", .operation = "operation", .key = key};
    request.attempt = newAttempt();
    request.lease = Lease;
    request.ttl = ttl;
    const Deadline asked = std::chrono::steady_clock::now();
    Answer<ClaimResult> answer;
    rig.store().claim(request, soon(), answer.callback());
    EXPECT_TRUE(std::holds_alternative<Claimed>(answer.get()));
    return std::pair(ClaimRef{request.identity, request.attempt}, asked);
  };
  const auto state = [&](const ClaimRef& ref) -> std::optional<RecordState> {
    Answer<LookUpResult> answer;
    rig.store().lookUp(ref.identity, soon(), answer.callback());
    const LookUpResult found = answer.get();
    return std::holds_alternative<Record>(found) ? std::optional(std::get<Record>(found).state)
                                                 : std::nullopt;
  };
  const auto [living, asked] = claim("living", 24h);
  const ClaimRef dead = claim("dead", 24h).first;
  const ClaimRef forgotten = claim("forgotten", Lease).first;
  heartbeat->add(living, Lease, asked, [] { ADD_FAILURE() << "fenced"; });

  EXPECT_TRUE(eventually([&] { return state(dead) == RecordState::Unknown; }));
  EXPECT_TRUE(eventually([&] { return state(forgotten) == std::nullopt; }));
  EXPECT_EQ(state(living), RecordState::InProgress);
  EXPECT_TRUE(observer->leads);
  EXPECT_GE(observer->extended, 1U);
  EXPECT_EQ(observer->to_unknown, 2U);
  EXPECT_EQ(observer->to_failed, 1U);
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
