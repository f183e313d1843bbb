#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "source/store/store.h"

namespace idempotency {

// Wakes whoever waits for the time to pass. May outlive both sides. Any thread.
class Waker {
public:
  void wake();
  // Until somebody wakes, or has done so since the last wait, or it is that time.
  void waitUntil(Deadline time);

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;  // Guarded by mutex_.
};

// Something that has things to do now and then. It knows no clock: a TimerThread, or a test, tells
// it the time.
class TimedTask {
public:
  virtual ~TimedTask() = default;

  // Does what is due, without blocking; when it wants to be called next. One thread at a time.
  virtual Deadline onTime(Deadline now) = 0;

  // Whom to wake when something has happened that makes a call worth while at once.
  void attach(std::shared_ptr<Waker> waker);

protected:
  // Any thread.
  void wake() const;

private:
  mutable std::mutex mutex_;
  std::shared_ptr<Waker> waker_;  // Guarded by mutex_.
};

}  // namespace idempotency
