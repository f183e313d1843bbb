#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "source/store/store.h"

namespace idempotency::postgres {

struct BreakerSettings {
  uint32_t failures = 5;  // In a row, until it opens.
  std::chrono::milliseconds first_pause{250};
  std::chrono::milliseconds longest_pause{5000};
};

// Refuses at once while the database is in trouble, instead of making every request wait for it.
// After a pause it lets single operations through; the first success closes it. Only outages count:
// whoever sends bad values stops nobody else. Not thread-safe; the clock is the caller's.
class Breaker {
public:
  enum class State : uint8_t { Closed, Open, HalfOpen };

  // `jitter` gives a number in [0, 1): processes must not come back all at once.
  Breaker(BreakerSettings settings, std::function<double()> jitter);

  // Whether an operation may go. In state HalfOpen one at a time may; its result must follow.
  [[nodiscard]] bool admit(Deadline now);

  // The database answered as it should.
  void onSuccess();
  // An outage.
  void onFailure(Deadline now, std::string reason);
  // A probe ended without telling anything: it was withdrawn, or its statement was bad.
  void onNoVerdict();
  // A session was made: probes may go now.
  void onConnected();

  State state() const { return state_; }
  const std::string& reason() const { return reason_; }

private:
  void open(Deadline now);

  const BreakerSettings settings_;
  const std::function<double()> jitter_;
  State state_ = State::Closed;
  uint32_t failures_ = 0;
  std::chrono::milliseconds pause_;
  Deadline open_until_{};
  bool probing_ = false;
  std::string reason_;
};

}  // namespace idempotency::postgres
