#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "source/store/store.h"

namespace idempotency {

// What one step of maintenance did. Failed steps changed nothing.
struct MaintenanceResult {
  bool ok = false;
  std::string reason;       // When not ok.
  uint64_t to_unknown = 0;  // Sweep: leases that ran out.
  uint64_t to_retry = 0;    // Sweep: leases that ran out under RETRY, claimable again.
  uint64_t to_failed = 0;   // Reap: unknown ones past their life, ended as failed (408).
  uint64_t expired = 0;     // Reap: soft-expired records.
  uint64_t deleted = 0;     // Reap: deleted records.
  bool more = false;        // The bound was reached: call again.
};

struct Leadership {
  bool ours = false;
  std::string reason;  // When the store could not tell: then nobody leads from here.
};

// The background jobs of a store; the maintainer calls them, one process at a time by the leader
// row. Same rules for threads and callbacks as Store. What a step did is audited in the same
// transaction: one row for each record that it moved to another state, one for all that it deleted
// or soft-expired.
class MaintenanceStore {
public:
  virtual ~MaintenanceStore() = default;

  // Takes or renews the one leader's lease. `owner` names this process. A lease of 0 gives it up.
  virtual void lead(std::string owner, std::chrono::milliseconds lease, Deadline deadline,
                    std::function<void(Leadership)> done) = 0;

  // Records in progress whose lease ran out: to unknown, due for reconciliation after
  // `reconcile_after` (none: nobody will ask), or under RETRY to FailedRetryable. At most `limit`
  // records.
  virtual void sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
                     Deadline deadline, std::function<void(MaintenanceResult)> done) = 0;

  // Records past their life. Completed and FailedRetryable ones are deleted, or with `soft` become
  // Expired and lose their response. Unknown ones are given up: Completed with status 408,
  // Tombstone::Abandoned and error "abandoned"; a later call takes those. At most `limit` records;
  // whole partitions of responses go at once.
  virtual void reap(uint32_t limit, bool soft, Deadline deadline,
                    std::function<void(MaintenanceResult)> done) = 0;
};

}  // namespace idempotency
