#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "source/store/postgres/operation.h"
#include "source/store/store.h"

namespace idempotency::postgres {

// Claims that nobody will use and that are stored, or may be: each is released by its attempt.
// One whose fate is unknown is looked for several times: the server may still be working on what a
// lost connection sent. Not thread-safe.
class SettleList {
public:
  // Bounded: beyond it a claim is left to its lease.
  explicit SettleList(size_t limit = 100'000) : limit_(limit) {}

  void add(const Operation::Leftover& leftover, Deadline now);

  // Those to be released now, at most `limit`. Each must come back by onReleased() or onFailed().
  [[nodiscard]] std::vector<ClaimRef> takeDue(Deadline now, size_t limit);

  // The release was carried out. `removed`: there was something to release.
  void onReleased(const ClaimRef& claim, bool removed, Deadline now);
  // It was not, or nobody knows.
  void onFailed(const ClaimRef& claim, Deadline now);

  // Never later than the next one is due.
  Deadline nextDue() const { return next_due_; }
  size_t size() const { return entries_.size(); }

private:
  struct Entry {
    ClaimRef claim;
    bool certain = false;
    bool under_way = false;
    Deadline due{};
    std::chrono::milliseconds pause{};
    Deadline give_up{};
  };
  // Comes back after a pause, or is given up.
  void postpone(Attempt attempt, Deadline now);

  const size_t limit_;
  absl::flat_hash_map<Attempt, Entry> entries_;
  Deadline next_due_ = Deadline::max();
};

}  // namespace idempotency::postgres
