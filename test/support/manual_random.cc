#include "test/support/manual_random.h"

#include <cstdint>
#include <limits>
#include <random>
#include <utility>

#include "source/store/store.h"

namespace idempotency {
namespace {

constexpr uint64_t Seed = 8941;

uint64_t state = Seed;

std::function<void(protocol::Attempt)>& listener() {
  static std::function<void(protocol::Attempt)> instance;
  return instance;
}

// Numbers that look random and never come twice: a step of a full-period generator, mixed by
// multiplications that can be undone.
uint64_t next() {
  state = state * 6364136223846793005U + 1442695040888963407U;
  uint64_t mixed = (state ^ state >> 29) * 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93U;
  return mixed ^ mixed >> 31;
}

}  // namespace

// In place of source/store/new_attempt.cc: the linker takes that out of its archive only if nobody
// else has defined this.
namespace store {

protocol::Attempt newAttempt() {
  const auto attempt =
      static_cast<protocol::Attempt>(
          next() % static_cast<uint64_t>(std::numeric_limits<protocol::Attempt>::max())) +
      1;
  if (listener()) {
    listener()(attempt);
  }
  return attempt;
}

}  // namespace store

namespace test {

void ManualRandom::restart() {
  state = Seed;
}

void ManualRandom::onAttempt(std::function<void(protocol::Attempt)> heard) {
  listener() = std::move(heard);
}

}  // namespace test
}  // namespace idempotency

// In place of the C++ library's, for the code of this program.
// NOLINTNEXTLINE(cert-dcl58-cpp)
std::random_device::result_type std::random_device::_M_getval() {
  return static_cast<result_type>(idempotency::next());
}
