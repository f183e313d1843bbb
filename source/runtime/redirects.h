#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "source/runtime/held_claim.h"
#include "source/runtime/timed_task.h"

namespace idempotency::runtime {

// Claims on their way from one filter to the next: when Envoy follows an internal redirect, the
// stream ends and the same request passes through a new filter. It has the attempt in the header
// that the first filter added. The attempt is random and known only to the upstream, so no one else
// can take over a claim.
//
// Any thread; both filters are on one worker.
class Redirects : public TimedTask {
public:
  // `lost` gets the claims whose request did not return. On the timer's thread.
  explicit Redirects(std::function<void(HeldClaim)> lost) : lost_(std::move(lost)) {}

  void give(HeldClaim claim, store::MonotonicTime now);
  std::optional<HeldClaim> take(protocol::Attempt attempt);
  // Cheap, for each request.
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

  // TimedTask
  store::Deadline onTime(store::MonotonicTime now) override;

private:
  struct Entry {
    HeldClaim claim;
    store::Deadline until{};
  };

  const std::function<void(HeldClaim)> lost_;
  std::mutex mutex_;
  std::map<protocol::Attempt, Entry> entries_;  // Guarded by mutex_.
  std::atomic<size_t> size_{0};                 // Of entries_; written under mutex_.
};

}  // namespace idempotency::runtime
