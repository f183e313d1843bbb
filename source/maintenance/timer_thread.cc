#include "source/maintenance/timer_thread.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace idempotency {

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
    Deadline next = Deadline::max();
    for (const std::shared_ptr<TimedTask>& task : tasks_) {
      next = std::min(next, task->onTime(std::chrono::steady_clock::now()));
    }
    waker_->waitUntil(next);
  }
}

}  // namespace idempotency
