#include "source/runtime/waiters.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "source/runtime/timer_thread.h"
#include "test/support/fake_store.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class WaitersTest : public ::testing::Test {
protected:
  WaitersTest() {
    store::ClaimRequest request;
    request.identity = Who;
    request.attempt = 7;
    store_->database().claim(request);
  }
  ~WaitersTest() override {
    timer_.reset();
    store_.reset();
  }

  runtime::Waiters::Ticket add(std::atomic<int>& woken, std::chrono::milliseconds time = 60s,
                               protocol::Attempt seen = 7) {
    const auto now = steady_clock::now();
    return waiters_->add(Who, seen, now, now + time, [&woken] { ++woken; });
  }
  void waitFor(const std::function<bool()>& condition) {
    const auto end = steady_clock::now() + 60s;
    while (!condition()) {
      ASSERT_LT(steady_clock::now(), end);
      std::this_thread::sleep_for(1ms);
    }
  }
  // Several polls have come back.
  void waitForPolls() {
    const uint64_t before = store_->operations();
    waitFor([&] { return store_->operations() >= before + 3; });
  }

  const protocol::Identity Who{"acme", "pay", "key"};
  std::atomic<int> polled_{0};
  std::atomic<bool> held_here_{false};
  std::unique_ptr<FakeStore> store_ = std::make_unique<FakeStore>();
  std::shared_ptr<runtime::Waiters> waiters_ = std::make_shared<runtime::Waiters>(
      *store_, [this](protocol::Attempt) { return held_here_.load(); },
      [this](const protocol::Identity&, const store::Record&, store::Deadline) { ++polled_; });
  std::unique_ptr<runtime::TimerThread> timer_ = std::make_unique<runtime::TimerThread>(
      std::vector<std::shared_ptr<runtime::TimedTask>>{waiters_});
};

TEST_F(WaitersTest, ChangeHereWakesAllAtOnceAndOnce) {
  std::atomic<int> woken{0};
  store_->pause();
  for (int i = 0; i < 5; ++i) {
    add(woken);
  }
  EXPECT_EQ(waiters_->size(), 5u);
  waiters_->wakeAll({"other", "pay", "key"});
  EXPECT_EQ(woken, 0);
  waiters_->wakeAll(Who);
  EXPECT_EQ(woken, 5);
  waiters_->wakeAll(Who);
  EXPECT_EQ(woken, 5);
  EXPECT_EQ(waiters_->size(), 0u);
  store_->resume();
}

TEST_F(WaitersTest, PollingSeesACompletionElsewhere) {
  std::atomic<int> woken{0};
  add(woken);
  waitForPolls();
  EXPECT_EQ(woken, 0) << "still running";
  protocol::Completed completed;
  completed.status = 200;
  store_->database().settle({Who, 7}, completed);
  waitFor([&] { return woken == 1; });
  EXPECT_GT(polled_, 0);
}

TEST_F(WaitersTest, PollingSeesAReleaseAndANewAttempt) {
  std::atomic<int> old{0};
  std::atomic<int> current{0};
  add(old, 60s, 6);
  add(current, 60s, 7);
  waitFor([&] { return old == 1; });
  EXPECT_EQ(current, 0);
  store_->database().settle({Who, 7}, protocol::Released{});
  waitFor([&] { return current == 1; });
}

TEST_F(WaitersTest, PollingSeesALeaseThatRanOut) {
  std::atomic<int> woken{0};
  add(woken);
  waitForPolls();
  EXPECT_EQ(woken, 0);
  store_->database().passTime(1h);
  waitFor([&] { return woken == 1; });
}

TEST_F(WaitersTest, FailingStoreWakesNoWaiterBeforeItsTime) {
  std::atomic<int> woken{0};
  store_->setFailure("down");
  add(woken);
  waitForPolls();
  EXPECT_EQ(woken, 0);
  EXPECT_EQ(waiters_->size(), 1u);
}

TEST_F(WaitersTest, TimeEndsTheWait) {
  std::atomic<int> woken{0};
  store_->pause();
  add(woken, 20ms);
  waitFor([&] { return woken == 1; });
  EXPECT_EQ(waiters_->size(), 0u);
  store_->resume();
}

TEST_F(WaitersTest, WhoHasLeftIsNotWoken) {
  std::atomic<int> gone{0};
  std::atomic<int> stays{0};
  waiters_->remove(add(gone));
  const runtime::Waiters::Ticket ticket = add(stays);
  waiters_->wakeAll(Who);
  EXPECT_EQ(gone, 0);
  EXPECT_EQ(stays, 1);
  waiters_->remove(ticket);
}

TEST_F(WaitersTest, HolderInThisProcessIsPolledSeldom) {
  timer_.reset();  // The test tells the time.
  held_here_ = true;
  std::atomic<int> woken{0};
  const auto start = steady_clock::now();
  add(woken);
  waiters_->onTime(start + 1s);
  waiters_->onTime(start + 5s);
  EXPECT_EQ(store_->operations(), 0u) << "its end is told";
  // Somebody else settles its record, and this process does not learn it.
  store_->database().settle({Who, 7}, protocol::Released{});
  waiters_->onTime(start + 7s);
  EXPECT_EQ(store_->operations(), 1u);
  store_->flush();
  EXPECT_EQ(woken, 1);
}

TEST_F(WaitersTest, HolderThatIsNotHereAnyMoreIsPolledAgain) {
  timer_.reset();
  held_here_ = true;
  std::atomic<int> woken{0};
  const auto start = steady_clock::now();
  add(woken);
  waiters_->onTime(start + 1s);
  held_here_ = false;
  waiters_->onTime(start + 7s);
  store_->flush();
  const uint64_t before = store_->operations();
  const auto next = waiters_->onTime(steady_clock::now());
  EXPECT_LT(next, steady_clock::now() + 1s);
  waiters_->onTime(steady_clock::now() + 1s);
  EXPECT_EQ(store_->operations(), before + 1);
  store_->flush();
  EXPECT_EQ(woken, 0);
}

TEST_F(WaitersTest, ManyKeysGoInFewCallsAndNotAllAtOnce) {
  timer_.reset();
  store_->pause();
  std::atomic<int> woken{0};
  const auto start = steady_clock::now();
  for (int i = 0; i < 10'000; ++i) {
    waiters_->add({"acme", "pay", std::to_string(i)}, 7, start, start + 60s, [&] { ++woken; });
  }
  const auto later = start + 10s;
  EXPECT_EQ(waiters_->onTime(later), start + 60s) << "it waits for the answers";
  EXPECT_EQ(store_->operations(), 1u) << "with a thousand keys";
  store_->resume();
  store_->flush();
  EXPECT_EQ(woken, 1000) << "their records are not there";
  for (int i = 0; i < 9; ++i) {
    waiters_->onTime(later);
    store_->flush();
  }
  EXPECT_EQ(store_->operations(), 10u);
  EXPECT_EQ(woken, 10'000);
}

TEST_F(WaitersTest, EachIsWokenAtMostOnceWhileOthersComeAndLeave) {
  constexpr int Rounds = 3000;
  std::atomic<int> woken{0};
  std::atomic<int> left{0};
  std::atomic<bool> over{false};
  std::thread waker([&] {
    while (!over) {
      waiters_->wakeAll(Who);
    }
  });
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&, worker] {
      for (int i = 0; i < Rounds; ++i) {
        const auto calls = std::make_shared<std::atomic<int>>(0);
        const auto now = steady_clock::now();
        const auto ticket = waiters_->add(Who, 7 + i % 2, now, now + 60s, [calls, &woken] {
          EXPECT_EQ(++*calls, 1);
          ++woken;
        });
        if (i % 3 == worker) {
          waiters_->remove(ticket);
          waiters_->remove(ticket);
          left += calls->load() == 0 ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  over = true;
  waker.join();
  waiters_->wakeAll(Who);
  EXPECT_EQ(waiters_->size(), 0u);
  // One whose wake was on its way when it left is counted in both.
  EXPECT_GE(woken + left, 3 * Rounds);
}

TEST_F(WaitersTest, OnePollServesAllWhoWaitForAnIdentity) {
  std::atomic<int> woken{0};
  store_->pause();
  for (int i = 0; i < 100; ++i) {
    add(woken);
  }
  std::this_thread::sleep_for(50ms);
  EXPECT_LE(store_->operations(), 1u);
  store_->resume();
}

}  // namespace
}  // namespace idempotency::test
