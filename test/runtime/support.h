#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "source/runtime/maintenance_observer.h"
#include "source/runtime/timed_task.h"
#include "test/store/store_contract.h"
#include "test/support/fake_store.h"

namespace idempotency::test {

// Counts what it is told.
class CountingObserver : public runtime::MaintenanceObserver {
public:
  void onExtended(uint64_t claims) override {
    ++extend_calls;
    extended += claims;
  }
  void onFenced(uint64_t claims) override { fenced += claims; }
  void onExtendFailed(uint64_t claims, const std::string& reason) override {
    extend_failed += claims;
    note(reason);
  }
  void onLeadership(bool ours) override { leads = ours; }
  void onSwept(const store::MaintenanceResult& result) override {
    ++sweeps;
    to_unknown += result.to_unknown;
    to_retry += result.to_retry;
  }
  void onReaped(const store::MaintenanceResult& result) override {
    ++reaps;
    expired += result.expired;
    deleted += result.deleted;
  }
  void onJobFailed(runtime::MaintenanceJob job, const std::string& reason) override {
    ++failures[static_cast<size_t>(job)];
    note(reason);
  }
  std::string lastReason() const {
    const std::lock_guard lock(mutex_);
    return reason_;
  }

  std::atomic<uint64_t> extend_calls{0};
  std::atomic<uint64_t> extended{0};
  std::atomic<uint64_t> fenced{0};
  std::atomic<uint64_t> extend_failed{0};
  std::atomic<bool> leads{false};
  std::atomic<uint64_t> sweeps{0};
  std::atomic<uint64_t> to_unknown{0};
  std::atomic<uint64_t> to_retry{0};
  std::atomic<uint64_t> reaps{0};
  std::atomic<uint64_t> expired{0};
  std::atomic<uint64_t> deleted{0};
  std::atomic<uint64_t> failures[3] = {};

private:
  void note(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    reason_ = reason;
  }
  mutable std::mutex mutex_;
  std::string reason_;
};

// The time, in a test's hand: for the task and for the database alike. The store's answers come
// from a thread of its own; the time stands still until they are there.
class TimeMachine {
public:
  TimeMachine(runtime::TimedTask& task, FakeStore& store) : task_(task), store_(store) {}

  store::MonotonicTime now() const { return now_; }

  // Lets the time pass, calling the task whenever it wishes.
  void pass(std::chrono::milliseconds time) {
    const store::Deadline end = now_ + time;
    for (;;) {
      const store::Deadline next = settle();
      const store::Deadline to = std::min(next, end);
      store_.database().passTime(std::chrono::duration_cast<std::chrono::milliseconds>(to - now_));
      now_ = to;
      if (next > end) {
        return;
      }
    }
  }

private:
  // Calls the task until it asks the store for nothing more; when it wants to be called next.
  store::Deadline settle() {
    for (;;) {
      const uint64_t before = store_.operations();
      const store::Deadline next = task_.onTime(now_);
      if (store_.operations() == before) {
        EXPECT_GT(next, now_) << "it would be called again and again";
        return std::max(next, now_ + std::chrono::milliseconds(1));
      }
      store_.flush();
    }
  }

  runtime::TimedTask& task_;
  FakeStore& store_;
  // Not the real one's: nothing may depend on how fast the test runs.
  store::MonotonicTime now_ = std::chrono::steady_clock::now() + std::chrono::hours(1000);
};

}  // namespace idempotency::test
