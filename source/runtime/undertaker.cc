#include "source/runtime/undertaker.h"

#include <utility>

namespace idempotency::runtime {

Undertaker& Undertaker::instance() {
  static Undertaker instance;
  return instance;
}

void Undertaker::bury(std::function<void()> destroy, std::thread::id main_thread) {
  if (std::this_thread::get_id() == main_thread) {
    destroy();
    join();
    return;
  }
  std::thread thread(std::move(destroy));
  const std::lock_guard lock(mutex_);
  threads_.push_back(std::move(thread));
}

void Undertaker::join() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace idempotency::runtime
