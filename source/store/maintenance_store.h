#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "source/store/store.h"

namespace idempotency::store {

// The result of one maintenance step. Failed steps changed nothing.
struct MaintenanceResult {
  bool ok = false;
  std::string reason;       // If not ok.
  uint64_t to_unknown = 0;  // Sweep: expired leases.
  uint64_t to_retry = 0;    // Sweep: expired leases with RETRY, claimable again.
  uint64_t expired = 0;     // Reap: soft-expired records.
  uint64_t deleted = 0;     // Reap: deleted records.
  bool more = false;        // The limit was reached: call again.
};

struct Leadership {
  bool ours = false;
  std::string reason;  // If the store failed: then this process does not lead.
};

// The background jobs of a store. The maintainer calls them, in one process at a time (the leader).
// Same rules for threads and callbacks as Store. Each step is audited in the same transaction: one
// row for each record that changed its state, and one for all deleted or soft-expired records.
class MaintenanceStore {
public:
  virtual ~MaintenanceStore() = default;

  // Takes or extends the leader's lease. `owner` identifies this process. A lease of 0 gives it up.
  virtual void lead(std::string owner, std::chrono::milliseconds lease, Deadline deadline,
                    std::function<void(Leadership)> done) = 0;

  // Records in progress with an expired lease become Unknown, with reconciliation after
  // `reconcile_after` (none: no reconciliation), or with RETRY become FailedRetryable. At most
  // `limit` records.
  virtual void sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
                     Deadline deadline, std::function<void(MaintenanceResult)> done) = 0;

  // Expired records. Completed and FailedRetryable ones are deleted, or with `soft` become Expired
  // and lose their response. Unsettled ones (InProgress, Unknown) stay unchanged, because time does
  // not show whether an attempt ran. At most `limit` records; partitions of responses are dropped
  // whole.
  virtual void reap(uint32_t limit, bool soft, Deadline deadline,
                    std::function<void(MaintenanceResult)> done) = 0;
};

}  // namespace idempotency::store
