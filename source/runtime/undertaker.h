#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace idempotency::runtime {

// Destroys what waits for threads in its destructor. On the main thread that happens at once. A
// worker must not wait, so it happens on a thread of its own, which is joined at the next
// destruction on the main thread, at the latest at the end of the process.
class Undertaker {
public:
  static Undertaker& instance();

  // Any thread. `main_thread` is the one that may wait.
  void bury(std::function<void()> destroy, std::thread::id main_thread);

  ~Undertaker() { join(); }

private:
  void join();

  std::mutex mutex_;
  std::vector<std::thread> threads_;  // Guarded by mutex_.
};

}  // namespace idempotency::runtime
