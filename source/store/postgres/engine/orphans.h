#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "source/store/postgres/operations/operation.h"
#include "source/store/store.h"

namespace idempotency::postgres {

// The orphans that wait to be withdrawn: each is released by its attempt. If it is unknown whether
// a claim is stored, it is looked for several times, because the server may still be processing
// what a lost connection sent. Not thread-safe.
class Orphans {
public:
  // Limited: further claims are left until their lease expires.
  explicit Orphans(size_t limit = 100'000) : limit_(limit) {}

  void add(const Operation::Orphan& orphan, store::MonotonicTime now);

  // Those to be released now, at most `limit`. Each needs a call of onReleased() or onFailed().
  [[nodiscard]] std::vector<store::ClaimRef> takeDue(store::MonotonicTime now, size_t limit);

  // The release was carried out. `removed`: there was something to release.
  void onReleased(const store::ClaimRef& claim, bool removed, store::MonotonicTime now);
  // It was not, or this is unknown.
  void onFailed(const store::ClaimRef& claim, store::MonotonicTime now);

  // Never later than the next one is due.
  store::Deadline nextDue() const { return next_due_; }
  size_t size() const { return entries_.size(); }

private:
  struct Entry {
    store::ClaimRef claim;
    bool certain = false;
    bool under_way = false;
    store::Deadline due{};
    std::chrono::milliseconds pause{};
    store::Deadline give_up{};
  };
  // Comes back after a pause, or is given up.
  void postpone(protocol::Attempt attempt, store::MonotonicTime now);

  const size_t limit_;
  absl::flat_hash_map<protocol::Attempt, Entry> entries_;
  store::Deadline next_due_ = store::Deadline::max();
};

}  // namespace idempotency::postgres
