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
  void wake() { wakeBy(Deadline::min()); }
  // At that time at the latest. Costs no call of the kernel where it is so already.
  void wakeBy(Deadline time);
  // Until that time, or until somebody wakes; what was asked for since the last wait counts.
  void waitUntil(Deadline time);

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // When the present wait ends, or the next one at the latest. Guarded by mutex_.
  Deadline wakes_at_ = Deadline::max();
};

// Something that has things to do now and then. It knows no clock: a TimerThread, or a test, tells
// it the time.
class TimedTask {
public:
  virtual ~TimedTask() = default;

  // Does what is due, without blocking; when it wants to be called next. One thread at a time.
  virtual Deadline onTime(Deadline now) = 0;

  // Whom to wake when something has happened that makes an earlier call worth while.
  void attach(std::shared_ptr<Waker> waker);

protected:
  // Any thread. Wants to be called at once, or at that time at the latest.
  void wake() const { wakeBy(Deadline::min()); }
  void wakeBy(Deadline time) const;

private:
  mutable std::mutex mutex_;
  std::shared_ptr<Waker> waker_;  // Guarded by mutex_.
};

}  // namespace idempotency
