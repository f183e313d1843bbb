#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "source/request/late_answer.h"

namespace idempotency::test {

// A stream's worker, as far as late answers need one: tasks from any thread wait until the test
// runs them. They are dropped with the queue.
class TaskQueue {
public:
  request::Post post() {
    return [tasks = std::weak_ptr(tasks_)](std::function<void()> task) {
      if (const auto alive = tasks.lock()) {
        const std::lock_guard lock(alive->mutex);
        alive->waiting.push_back(std::move(task));
      }
    };
  }

  // Runs what waits. Returns how many tasks that were.
  size_t run() {
    size_t ran = 0;
    for (; std::function<void()> task = take(); ++ran) {
      task();
    }
    return ran;
  }

private:
  struct Tasks {
    std::mutex mutex;
    std::deque<std::function<void()>> waiting;  // Guarded by mutex.
  };

  std::function<void()> take() {
    const std::lock_guard lock(tasks_->mutex);
    if (tasks_->waiting.empty()) {
      return {};
    }
    std::function<void()> task = std::move(tasks_->waiting.front());
    tasks_->waiting.pop_front();
    return task;
  }

  const std::shared_ptr<Tasks> tasks_ = std::make_shared<Tasks>();
};

}  // namespace idempotency::test
