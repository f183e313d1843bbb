#include "source/runtime/timed_task.h"

#include <algorithm>
#include <chrono>

namespace idempotency::runtime {

void Waker::wakeBy(store::Deadline time) {
  {
    const std::lock_guard lock(mutex_);
    if (wakes_at_ <= time) {
      return;
    }
    wakes_at_ = time;
  }
  changed_.notify_one();
}

void Waker::waitUntil(store::Deadline time) {
  std::unique_lock lock(mutex_);
  wakes_at_ = std::min(wakes_at_, time);
  while (std::chrono::steady_clock::now() < wakes_at_) {
    if (wakes_at_ == store::Deadline::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, store::Deadline(wakes_at_));
    }
  }
  wakes_at_ = store::Deadline::max();
}

void TimedTask::attach(std::shared_ptr<Waker> waker) {
  const std::lock_guard lock(mutex_);
  waker_ = std::move(waker);
}

void TimedTask::wakeBy(store::Deadline time) const {
  std::shared_ptr<Waker> waker;
  {
    const std::lock_guard lock(mutex_);
    waker = waker_;
  }
  if (waker != nullptr) {
    waker->wakeBy(time);
  }
}

}  // namespace idempotency::runtime
