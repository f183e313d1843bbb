#include "source/runtime/maintainer.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "test/runtime/support.h"
#include "test/support/fake_store.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

class MaintainerTest : public ::testing::Test {
protected:
  // A process that uses the store.
  struct Process {
    std::shared_ptr<CountingObserver> observer = std::make_shared<CountingObserver>();
    std::shared_ptr<runtime::Maintainer> maintainer;
  };

  Process process(const std::string& owner, protocol::MaintenanceSettings settings = {},
                  double random = 0.5) {
    Process made;
    runtime::MaintainerOptions options;
    options.settings = settings;
    options.owner = owner;
    options.step = 3;
    made.maintainer =
        runtime::Maintainer::create(store_, options, made.observer, [random] { return random; });
    return made;
  }

  store::ClaimRef claim(const std::string& key,
                        protocol::LeaseExpired on_lease_expired = protocol::LeaseExpired::Unknown,
                        std::chrono::milliseconds ttl = 24h) {
    store::ClaimRequest request;
    request.identity = {.tenant = "tenant", .operation = "operation", .key = key};
    request.attempt = store::newAttempt();
    request.lease = 30s;
    request.ttl = ttl;
    request.on_lease_expired = on_lease_expired;
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(store_.database().claim(request)));
    return {request.identity, request.attempt};
  }
  store::ClaimRef complete(const std::string& key, std::chrono::milliseconds ttl) {
    const store::ClaimRef ref = claim(key, protocol::LeaseExpired::Unknown, ttl);
    EXPECT_EQ(store_.database().settle(ref, protocol::Completed{}).outcome,
              store::WriteOutcome::Done);
    return ref;
  }
  std::optional<store::Record> find(const store::ClaimRef& ref) {
    const store::LookUpResult found = store_.database().lookUp(ref.identity);
    return std::holds_alternative<store::Record>(found)
               ? std::optional(std::get<store::Record>(found))
               : std::nullopt;
  }

  FakeStore store_;
};

TEST_F(MaintainerTest, DeadLeasesAreSweptWithinTheInterval) {
  const Process one = process("one");
  TimeMachine time(*one.maintainer, store_);
  time.pass(1s);
  const store::ClaimRef ref = claim("dead");
  const store::ClaimRef retry = claim("retry", protocol::LeaseExpired::Retry);
  time.pass(29s);
  EXPECT_EQ(find(ref)->state, protocol::RecordState::InProgress);
  time.pass(67s);
  EXPECT_EQ(find(ref)->state, protocol::RecordState::Unknown);
  EXPECT_FALSE(find(ref)->reconcile_after.has_value());
  EXPECT_EQ(find(retry)->state, protocol::RecordState::FailedRetryable);
  EXPECT_EQ(one.observer->to_unknown, 1U);
  EXPECT_EQ(one.observer->to_retry, 1U);
}

TEST_F(MaintainerTest, RecordsPastTheirLifeAreReaped) {
  const Process one = process("one");
  TimeMachine time(*one.maintainer, store_);
  const store::ClaimRef old = complete("old", 1h);
  const store::ClaimRef fresh = complete("fresh", 24h);
  time.pass(59min);
  EXPECT_TRUE(find(old).has_value());
  time.pass(3min);
  EXPECT_FALSE(find(old).has_value());
  EXPECT_TRUE(find(fresh).has_value());
  EXPECT_EQ(one.observer->deleted, 1U);
}

TEST_F(MaintainerTest, SoftExpiryKeepsTheRecord) {
  protocol::MaintenanceSettings settings;
  settings.soft_expire = true;
  const Process one = process("one", settings);
  TimeMachine time(*one.maintainer, store_);
  const store::ClaimRef old = complete("old", 1h);
  time.pass(2h);
  ASSERT_TRUE(find(old).has_value());
  EXPECT_EQ(find(old)->state, protocol::RecordState::Expired);
  EXPECT_EQ(one.observer->expired, 1U);
  EXPECT_EQ(one.observer->deleted, 0U);
}

TEST_F(MaintainerTest, ClaimThatIsLostStaysUnknownPastItsLife) {
  const Process one = process("one");
  TimeMachine time(*one.maintainer, store_);
  const store::ClaimRef lost = claim("lost", protocol::LeaseExpired::Unknown, 1h);
  time.pass(30min);
  EXPECT_EQ(find(lost)->state, protocol::RecordState::Unknown);
  time.pass(24h);
  ASSERT_TRUE(find(lost).has_value());
  EXPECT_EQ(find(lost)->state, protocol::RecordState::Unknown);
  EXPECT_EQ(one.observer->to_unknown, 1U);
  EXPECT_EQ(one.observer->deleted, 0U);
}

TEST_F(MaintainerTest, StepsFollowEachOtherWhileThereIsMore) {
  const Process one = process("one");
  TimeMachine time(*one.maintainer, store_);
  time.pass(10s);
  const uint64_t sweeps = one.observer->sweeps;
  for (int i = 0; i < 20; ++i) {
    claim("dead" + std::to_string(i));
  }
  time.pass(67s);
  EXPECT_EQ(one.observer->to_unknown, 20U);
  EXPECT_EQ(one.observer->sweeps, sweeps + 7) << "three at a time";
}

TEST_F(MaintainerTest, IntervalsAreKeptAndVaryByATenth) {
  protocol::MaintenanceSettings settings;
  settings.sweep_interval = 100s;
  settings.reap_interval = 1000s;
  for (const double random : {0.0, 0.5, 0.999}) {
    FakeStore store;
    auto observer = std::make_shared<CountingObserver>();
    runtime::MaintainerOptions options;
    options.settings = settings;
    options.owner = "one";
    const auto maintainer =
        runtime::Maintainer::create(store, options, observer, [random] { return random; });
    TimeMachine time(*maintainer, store);
    time.pass(10'000s);
    const double expected = 10'000.0 / (100.0 * (0.9 + 0.2 * random));
    EXPECT_NEAR(static_cast<double>(observer->sweeps), expected, 2) << random;
    EXPECT_NEAR(static_cast<double>(observer->reaps), expected / 10, 2) << random;
  }
}

TEST_F(MaintainerTest, OneOfTwoProcessesWorks) {
  const Process one = process("one");
  const Process two = process("two");
  TimeMachine first(*one.maintainer, store_);
  TimeMachine second(*two.maintainer, store_);
  // Their clocks go together; the database's goes twice as fast, which no lease minds here.
  for (int i = 0; i < 600; ++i) {
    first.pass(500ms);
    second.pass(500ms);
  }
  EXPECT_TRUE(one.observer->leads);
  EXPECT_FALSE(two.observer->leads);
  EXPECT_GE(one.observer->sweeps, 3U);
  EXPECT_EQ(two.observer->sweeps, 0U);
  EXPECT_EQ(two.observer->reaps, 0U);
}

TEST_F(MaintainerTest, DeadLeaderIsFollowedWithinHalfAMinute) {
  {
    const Process one = process("one");
    TimeMachine first(*one.maintainer, store_);
    first.pass(20s);
    ASSERT_TRUE(one.observer->leads);
  }
  store_.flush();
  const Process two = process("two");
  TimeMachine second(*two.maintainer, store_);
  second.pass(10s);
  EXPECT_FALSE(two.observer->leads);
  second.pass(35s);
  EXPECT_TRUE(two.observer->leads);
  EXPECT_GE(two.observer->sweeps, 1U) << "at once: it was due";
}

TEST_F(MaintainerTest, LeaderThatEndsIsFollowedAtOnce) {
  {
    const Process one = process("one");
    TimeMachine first(*one.maintainer, store_);
    first.pass(20s);
    ASSERT_TRUE(one.observer->leads);
    one.maintainer->stop();
    one.maintainer->stop();
  }
  store_.flush();
  const Process two = process("two");
  TimeMachine second(*two.maintainer, store_);
  second.pass(1ms);
  EXPECT_TRUE(two.observer->leads);
}

TEST_F(MaintainerTest, FailureIsToldAndTriedAgainSoon) {
  const Process one = process("one");
  TimeMachine time(*one.maintainer, store_);
  time.pass(65s);
  const uint64_t sweeps = one.observer->sweeps;
  store_.setFailure("down");
  time.pass(5min);
  EXPECT_GE(one.observer->failures[static_cast<size_t>(runtime::MaintenanceJob::Lead)], 10U);
  EXPECT_EQ(one.observer->lastReason(), "down");
  EXPECT_EQ(one.observer->sweeps, sweeps);
  store_.setFailure(std::nullopt);
  const store::ClaimRef ref = claim("dead");
  time.pass(45s);
  EXPECT_GT(one.observer->sweeps, sweeps);
  time.pass(60s);
  EXPECT_EQ(find(ref)->state, protocol::RecordState::Unknown);
}

TEST_F(MaintainerTest, NoJobRunsOnALeaseThatMayBeOver) {
  const Process one = process("one");
  TimeMachine time(*one.maintainer, store_);
  time.pass(10s);
  store_.setFailure("down");
  // Renewals fail for longer than the lease; the sweep that falls due then is not even tried.
  time.pass(40s);
  const uint64_t tries =
      one.observer->failures[static_cast<size_t>(runtime::MaintenanceJob::Sweep)];
  time.pass(5min);
  EXPECT_EQ(one.observer->failures[static_cast<size_t>(runtime::MaintenanceJob::Sweep)], tries);
}

TEST_F(MaintainerTest, DisabledDoesNothing) {
  protocol::MaintenanceSettings settings;
  settings.enabled = false;
  const Process one = process("one", settings);
  EXPECT_EQ(one.maintainer->onTime(store::Deadline()), store::Deadline::max());
  EXPECT_EQ(store_.operations(), 0U);
}

TEST_F(MaintainerTest, ReaperRestsLongerThanItWorks) {
  const Process one = process("one");
  for (int i = 0; i < 7; ++i) {
    complete(std::to_string(i), 1s);
  }
  store_.database().passTime(1h);
  const store::Deadline start = std::chrono::steady_clock::now() + 1000h;
  const auto step = [&](store::MonotonicTime now) {
    const store::Deadline next = one.maintainer->onTime(now);
    store_.flush();
    return next;
  };
  step(start);                                     // Leads.
  const store::Deadline first = step(start);       // When the jobs begin.
  ASSERT_EQ(step(first), store::Deadline::max());  // Sweeps.
  ASSERT_EQ(step(first), store::Deadline::max());  // Reaps three of seven.
  ASSERT_EQ(one.observer->deleted, 3U);
  const store::Deadline ended = first + 100ms;
  EXPECT_EQ(step(ended), ended + 200ms);
  EXPECT_EQ(one.observer->deleted, 3U);
  EXPECT_EQ(step(ended + 200ms), store::Deadline::max());
  EXPECT_EQ(one.observer->deleted, 6U);
}

TEST_F(MaintainerTest, OneCallAtATime) {
  const Process one = process("one");
  store_.pause();
  const store::MonotonicTime now = std::chrono::steady_clock::now() + 1000h;
  EXPECT_EQ(one.maintainer->onTime(now), store::Deadline::max());
  EXPECT_EQ(one.maintainer->onTime(now + 1h), store::Deadline::max());
  EXPECT_EQ(store_.operations(), 1U);
  store_.resume();
  store_.flush();
}

}  // namespace
}  // namespace idempotency::test
