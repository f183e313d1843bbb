#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

#include "source/protocol/ending.h"
#include "source/protocol/settings.h"
#include "source/store/maintenance_store.h"
#include "source/store/sqlite/clock_guard.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

class OperationQueue;

// The embedded store: one file on a local disk, for the Envoys of one machine.
//
// Durable: a result is reported only when it is on disk (write-ahead log, synchronous=FULL).
// Operations that arrive while the disk is busy are committed together.
//
// Several processes may use one file concurrently, as Envoy does during a hot restart; SQLite's
// locks protect it.
//
// Time is SQLite's 'now', the machine's wall clock, with a guard: if it jumps, nothing expires
// before the new time has been stable for a while (see ClockGuard).
//
// The destructor joins two threads, so do not destroy it in a callback. It takes little longer than
// a write to the disk.
class SqliteStore : public store::Store, public store::MaintenanceStore {
public:
  // Fails if the settings can never work. The file is opened in the background: while that fails,
  // operations are Unavailable, with the reason.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> create(
      const protocol::SqliteSettings& settings, const protocol::LimitSettings& limits = {},
      const Uptime& uptime = machineUptime);
  ~SqliteStore() override;

  // Store
  void claim(store::ClaimRequest request, store::Deadline deadline,
             std::function<void(store::ClaimResult)> done) override;
  void abandon(store::ClaimRef claim) override;
  void settle(store::ClaimRef claim, protocol::Ending ending, store::Deadline deadline,
              std::function<void(store::WriteResult)> done) override;
  void extend(std::vector<store::ClaimRef> claims, std::chrono::milliseconds lease,
              store::Deadline deadline, std::function<void(store::ExtendResult)> done) override;
  void lookUp(protocol::Identity identity, store::Deadline deadline,
              std::function<void(store::LookUpResult)> done) override;
  void lookUpMany(std::vector<protocol::Identity> identities, store::Deadline deadline,
                  store::LookUpManyCallback done) override;
  store::StoreStatus status() const override;

  // MaintenanceStore
  void lead(std::string owner, std::chrono::milliseconds lease, store::Deadline deadline,
            std::function<void(store::Leadership)> done) override;
  void sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
             store::Deadline deadline, std::function<void(store::MaintenanceResult)> done) override;
  void reap(uint32_t limit, bool soft, store::Deadline deadline,
            std::function<void(store::MaintenanceResult)> done) override;

private:
  SqliteStore(const protocol::SqliteSettings& settings, const protocol::LimitSettings& limits,
              const Uptime& uptime);

  const std::unique_ptr<OperationQueue> queue_;
  std::thread io_thread_;     // Carries out.
  std::thread store_thread_;  // Runs callbacks.
};

}  // namespace idempotency::sqlite
