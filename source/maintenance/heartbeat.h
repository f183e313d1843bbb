#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "source/maintenance/maintenance_observer.h"
#include "source/maintenance/timed_task.h"
#include "source/store/store.h"

namespace idempotency {

// Keeps the leases of running claims alive: every third of a lease, all claims with that length of
// lease in one call to the store. Claims younger than a sixth of it wait for the next turn, so that
// short requests cost nothing; none goes unrenewed for more than half of its lease. What failed is
// tried again after a twelfth.
//
// The store must outlive the last callback, that is: be destroyed after this.
class Heartbeat : public TimedTask, public std::enable_shared_from_this<Heartbeat> {
public:
  static std::shared_ptr<Heartbeat> create(Store& store,
                                           std::shared_ptr<MaintenanceObserver> observer);

  // Any thread. `claimed` is when the claim was asked for. `fenced` runs at most once, on the
  // store's thread, when the store says that the record belongs to this attempt no more; the claim
  // is then forgotten.
  void add(ClaimRef claim, std::chrono::milliseconds lease, Deadline claimed,
           std::function<void()> fenced);
  // Any thread. The attempt is over. `fenced` does not begin to run after this.
  void remove(Attempt attempt);
  // How many claims are kept alive.
  size_t size() const;

  // TimedTask
  Deadline onTime(Deadline now) override;

private:
  struct Claim {
    Identity identity;
    Deadline renewed{};
    std::function<void()> fenced;
  };
  // Claims with the same length of lease.
  struct Group {
    absl::flat_hash_map<Attempt, Claim> claims;
    Deadline next_beat{};
    size_t calls = 0;     // Under way.
    bool failed = false;  // Some claim of the last calls was not extended.
  };
  using Groups = std::map<std::chrono::milliseconds, Group>;

  Heartbeat(Store& store, std::shared_ptr<MaintenanceObserver> observer)
      : store_(store), observer_(std::move(observer)) {}

  // With the lock held: the claims of the group that need it now, in portions for the store.
  static std::vector<std::vector<ClaimRef>> portions(const Group& group,
                                                     std::chrono::milliseconds lease, Deadline now);
  void extend(std::vector<ClaimRef> claims, std::chrono::milliseconds lease, Deadline now);
  void onExtended(const std::vector<ClaimRef>& claims, std::chrono::milliseconds lease,
                  Deadline sent, const ExtendResult& result);

  Store& store_;
  const std::shared_ptr<MaintenanceObserver> observer_;
  mutable std::mutex mutex_;
  Groups groups_;                                                   // Guarded by mutex_.
  absl::flat_hash_map<Attempt, std::chrono::milliseconds> leases_;  // Guarded by mutex_.
};

}  // namespace idempotency
