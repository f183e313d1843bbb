#pragma once

#include <chrono>

#include "source/store/store.h"

namespace idempotency::test {

// Time that passes only when a test says so. A program that links this gets, in all of its own
// code, a std::chrono::steady_clock that stands still, and TimerThreads without a thread: their
// tasks run when the test calls runTimers(). So what the module does depends on nothing but what
// the test does.
class ManualTime {
public:
  static store::MonotonicTime now();
  static void pass(std::chrono::milliseconds time);
  // Back to the moment at which the program began. Only where nothing remembers a later one.
  static void restart();

  // Calls every task of every TimerThread, as a thread does that was woken. When they want to be
  // called next.
  static store::Deadline runTimers();
};

}  // namespace idempotency::test
