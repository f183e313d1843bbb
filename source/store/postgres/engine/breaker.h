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

// Refuses operations immediately during an outage, instead of making every request wait. After a
// pause it lets single operations through; the first success closes it. Not thread-safe; the caller
// passes the time.
//
// What counts, so that no tenant can stop another:
//
//  a batch was committed                              good: the count restarts at 0
//  no session at all, a session lost with its batch,
//  an error that every statement would meet           one failure
//  operations waited for a session until their
//  deadline, while no batch was committed             one failure
//  a time limit or a lock, met by a single operation  one failure, if operations of two tenants
//                                                     met one, and nothing was committed since
//  the same, met by a batch of several                nothing: they are sent again one by one
//  bad values, deadlocks, a full queue                nothing
class Breaker {
public:
  enum class State : uint8_t { Closed, Open, HalfOpen };

  // `jitter` returns a number in [0, 1), so that processes do not all retry at the same time.
  Breaker(BreakerSettings settings, std::function<double()> jitter);

  // Whether an operation may be sent. In state HalfOpen, one at a time; its result must follow.
  [[nodiscard]] bool admit(store::MonotonicTime now);

  // The database responded normally.
  void onSuccess();
  // An outage.
  void onFailure(store::MonotonicTime now, std::string reason);
  // An operation of this tenant timed out. That may mean that the database is slow for all.
  void onTimeout(store::MonotonicTime now, const std::string& tenant, std::string reason);
  // A probe ended without a verdict: it was withdrawn, or its statement was invalid.
  void onNoVerdict();
  // A session was opened: probes may be sent now.
  void onConnected();

  State state() const { return state_; }
  const std::string& reason() const { return reason_; }

private:
  void open(store::MonotonicTime now);

  const BreakerSettings settings_;
  const std::function<double()> jitter_;
  State state_ = State::Closed;
  uint32_t failures_ = 0;
  // Timeouts since the last success; they count as failures once a second tenant has one.
  uint32_t timeouts_ = 0;
  std::string first_timeout_;
  bool several_tenants_ = false;
  std::chrono::milliseconds pause_;
  store::Deadline open_until_{};
  bool probing_ = false;
  std::string reason_;
};

}  // namespace idempotency::postgres
