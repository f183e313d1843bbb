#pragma once

#include <condition_variable>
#include <mutex>

namespace idempotency::test {

// Holds whoever comes by at a moment that a test aims at, until the test has done what it wants to
// do then. Any thread.
class Gate {
public:
  // Holds the caller until open(); what open() said.
  bool pass() {
    std::unique_lock lock(mutex_);
    held_ = true;
    opened_.wait(lock, [this] { return open_; });
    return goes_on_;
  }

  // Somebody came.
  bool held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }

  // For whoever is held, and whoever comes later.
  void open(bool goes_on) {
    const std::lock_guard lock(mutex_);
    open_ = true;
    goes_on_ = goes_on;
    opened_.notify_all();
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable opened_;
  bool held_ = false;  // Guarded by mutex_, as the rest.
  bool open_ = false;
  bool goes_on_ = false;
};

}  // namespace idempotency::test
