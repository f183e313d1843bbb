#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "source/store/store.h"

namespace idempotency::runtime {

// Wakes a thread that waits for a time. May outlive both sides. Any thread.
class Waker {
public:
  void wake() { wakeBy(store::Deadline::min()); }
  // Wakes at this time at the latest. No system call if it is already so.
  void wakeBy(store::Deadline time);
  // Waits until this time, or until woken; calls of wakeBy() since the last wait count.
  void waitUntil(store::Deadline time);

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // When the current wait ends, or the next one at the latest. Guarded by mutex_.
  store::Deadline wakes_at_ = store::Deadline::max();
};

// A task that runs at intervals. It reads no clock: a TimerThread, or a test, passes the time.
class TimedTask {
public:
  virtual ~TimedTask() = default;

  // Does what is due, without blocking; returns when to call it next. One thread at a time.
  virtual store::Deadline onTime(store::MonotonicTime now) = 0;

  // Used to ask for an earlier call.
  void attach(std::shared_ptr<Waker> waker);

protected:
  // Any thread. Asks to be called now, or at this time at the latest.
  void wake() const { wakeBy(store::Deadline::min()); }
  void wakeBy(store::Deadline time) const;

private:
  mutable std::mutex mutex_;
  std::shared_ptr<Waker> waker_;  // Guarded by mutex_.
};

}  // namespace idempotency::runtime
