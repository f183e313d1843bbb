#pragma once

#include <functional>

#include "source/protocol/record.h"

namespace idempotency::test {

// Chance that repeats itself. A program that links this gets, in all of its own code, attempt
// tokens and a std::random_device that go through the same numbers after each restart(). One
// thread.
class ManualRandom {
public:
  static void restart();
  // Hears of each attempt token when it is made. May be empty.
  static void onAttempt(std::function<void(protocol::Attempt)> heard);
};

}  // namespace idempotency::test
