#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "source/runtime/maintenance_observer.h"
#include "source/runtime/timed_task.h"
#include "source/store/store.h"

namespace idempotency::runtime {

// Extends the leases of running claims: every third of a lease, all claims with the same lease
// duration in one call to the store. Claims younger than a sixth of it wait for the next turn, so
// that short requests cost nothing. No lease goes more than half of its duration without an
// extension. A failed call is repeated after a twelfth.
//
// The store's callbacks keep this object alive. It calls the store in onTime() only.
class Heartbeat : public TimedTask, public std::enable_shared_from_this<Heartbeat> {
public:
  static std::shared_ptr<Heartbeat> create(store::Store& store,
                                           std::shared_ptr<MaintenanceObserver> observer);

  // Any thread. `claimed` is when the claim was requested. `fenced` runs at most once, on the
  // store's thread, if the store reports that the record no longer belongs to this attempt; the
  // claim is then forgotten.
  void add(store::ClaimRef claim, std::chrono::milliseconds lease, store::Deadline claimed,
           std::function<void()> fenced);
  // Any thread. The attempt has ended. `fenced` is not started after this.
  void remove(protocol::Attempt attempt);
  // Any thread. Whether the attempt is kept alive here.
  bool holds(protocol::Attempt attempt) const;
  // How many claims are kept alive.
  size_t size() const;

  // TimedTask
  store::Deadline onTime(store::MonotonicTime now) override;

private:
  struct Claim {
    protocol::Identity identity;
    store::Deadline renewed{};
    std::function<void()> fenced;
  };
  // Claims with the same lease duration.
  struct Group {
    absl::flat_hash_map<protocol::Attempt, Claim> claims;
    store::Deadline next_beat{};
    size_t calls = 0;     // Under way.
    bool failed = false;  // Some claim of the last calls was not extended.
  };
  using Groups = std::map<std::chrono::milliseconds, Group>;

  Heartbeat(store::Store& store, std::shared_ptr<MaintenanceObserver> observer)
      : store_(store), observer_(std::move(observer)) {}

  // With the lock held: the claims of the group that need it now, in chunks for the store.
  static std::vector<std::vector<store::ClaimRef>> portions(const Group& group,
                                                            std::chrono::milliseconds lease,
                                                            store::MonotonicTime now);
  void extend(std::vector<store::ClaimRef> claims, std::chrono::milliseconds lease,
              store::MonotonicTime now);
  void onExtended(const std::vector<store::ClaimRef>& claims, std::chrono::milliseconds lease,
                  store::Deadline sent, const store::ExtendResult& result);

  store::Store& store_;
  const std::shared_ptr<MaintenanceObserver> observer_;
  mutable std::mutex mutex_;
  Groups groups_;                                                             // Guarded by mutex_.
  absl::flat_hash_map<protocol::Attempt, std::chrono::milliseconds> leases_;  // Guarded by mutex_.
};

}  // namespace idempotency::runtime
