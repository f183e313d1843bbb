#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "source/filter/held_claim.h"
#include "source/maintenance/timed_task.h"

namespace idempotency {

// Claims on their way from one filter to the next: where Envoy follows an internal redirect, the
// stream ends and the same request comes again through a new filter. It carries the attempt in the
// header that the first filter added; the attempt is random and known to the upstream alone, so a
// stranger cannot take over a claim.
//
// Any thread; both filters are on one worker.
class Redirects : public TimedTask {
public:
  // `lost` gets the claims whose request did not come again. On the timer's thread.
  explicit Redirects(std::function<void(HeldClaim)> lost) : lost_(std::move(lost)) {}

  void give(HeldClaim claim, Deadline now);
  std::optional<HeldClaim> take(Attempt attempt);
  // Cheap, for each request.
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

  // TimedTask
  Deadline onTime(Deadline now) override;

private:
  struct Entry {
    HeldClaim claim;
    Deadline until{};
  };

  const std::function<void(HeldClaim)> lost_;
  std::mutex mutex_;
  std::map<Attempt, Entry> entries_;  // Guarded by mutex_.
  std::atomic<size_t> size_{0};       // Of entries_; written under mutex_.
};

}  // namespace idempotency
