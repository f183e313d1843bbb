#include "source/runtime/timer_thread.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace idempotency::runtime {

TimerThread::TimerThread(std::vector<std::shared_ptr<TimedTask>> tasks) : tasks_(std::move(tasks)) {
  for (const std::shared_ptr<TimedTask>& task : tasks_) {
    task->attach(waker_);
  }
  thread_ = std::thread([this] { run(); });
}

TimerThread::~TimerThread() {
  stopping_ = true;
  waker_->wake();
  thread_.join();
  for (const std::shared_ptr<TimedTask>& task : tasks_) {
    task->attach(nullptr);
  }
}

void TimerThread::run() {
  while (!stopping_) {
    store::Deadline next = store::Deadline::max();
    for (const std::shared_ptr<TimedTask>& task : tasks_) {
      next = std::min(next, task->onTime(std::chrono::steady_clock::now()));
    }
    waker_->waitUntil(next);
  }
}

}  // namespace idempotency::runtime
