#include "source/filter/waiters.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "source/maintenance/timer_thread.h"
#include "test/support/fake_store.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class WaitersTest : public ::testing::Test {
protected:
  WaitersTest() {
    ClaimRequest request;
    request.identity = Who;
    request.attempt = 7;
    store_->database().claim(request);
  }
  ~WaitersTest() override {
    timer_.reset();
    store_.reset();
  }

  Waiters::Ticket add(std::atomic<int>& woken, std::chrono::milliseconds time = 60s,
                      Attempt seen = 7) {
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

  const Identity Who{"acme", "pay", "key"};
  std::atomic<int> polled_{0};
  std::unique_ptr<FakeStore> store_ = std::make_unique<FakeStore>();
  std::shared_ptr<Waiters> waiters_ = std::make_shared<Waiters>(
      *store_, [this](const Identity&, const Record&, Deadline) { ++polled_; });
  std::unique_ptr<TimerThread> timer_ =
      std::make_unique<TimerThread>(std::vector<std::shared_ptr<TimedTask>>{waiters_});
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
  CompleteRequest complete;
  complete.claim = {Who, 7};
  complete.status = 200;
  store_->database().complete(complete);
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
  store_->database().release({Who, 7});
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

TEST_F(WaitersTest, StoreThatFailsWakesNobodyBeforeTheTime) {
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
  const Waiters::Ticket ticket = add(stays);
  waiters_->remove(ticket + 1);
  waiters_->wakeAll(Who);
  EXPECT_EQ(gone, 0);
  EXPECT_EQ(stays, 1);
  waiters_->remove(ticket);
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
