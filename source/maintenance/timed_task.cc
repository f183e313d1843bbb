#include "source/maintenance/timed_task.h"

namespace idempotency {

void Waker::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void Waker::waitUntil(Deadline time) {
  std::unique_lock lock(mutex_);
  const auto woken = [this] { return woken_; };
  if (time == Deadline::max()) {
    changed_.wait(lock, woken);
  } else {
    changed_.wait_until(lock, time, woken);
  }
  woken_ = false;
}

void TimedTask::attach(std::shared_ptr<Waker> waker) {
  const std::lock_guard lock(mutex_);
  waker_ = std::move(waker);
}

void TimedTask::wake() const {
  std::shared_ptr<Waker> waker;
  {
    const std::lock_guard lock(mutex_);
    waker = waker_;
  }
  if (waker != nullptr) {
    waker->wake();
  }
}

}  // namespace idempotency
