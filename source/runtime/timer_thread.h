#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "source/runtime/timed_task.h"

namespace idempotency::runtime {

// One thread that calls tasks at their times, by the steady clock. Destroy it on another thread; no
// task is called afterwards.
class TimerThread {
public:
  explicit TimerThread(std::vector<std::shared_ptr<TimedTask>> tasks);
  ~TimerThread();
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

private:
  void run();

  const std::vector<std::shared_ptr<TimedTask>> tasks_;
  const std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // Last, so that the other members exist when it starts.
};

}  // namespace idempotency::runtime
