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

#include "source/protocol/settings.h"
#include "source/store/maintenance_store.h"
#include "source/store/store.h"

namespace idempotency {

namespace sqlite {
class OperationQueue;
}

// The embedded store: one file on a local disk, for the Envoys of one machine.
//
// Durable: a result is given only when it is on the disk (write-ahead log, synchronous=FULL). What
// comes in while the disk is busy is committed together.
//
// Several processes may use one file at once, as Envoy does during a hot restart; SQLite's locks
// keep them apart.
//
// Time is SQLite's 'now', the machine's wall clock. If it jumps ahead, leases and lives end early:
// a request that still runs may become Unknown, or under RETRY run again. If it jumps back, they
// last longer. Nothing is forgotten.
//
// The destructor joins two threads: destroy it on neither of them, that is in no callback. It takes
// at most a moment longer than a write to the disk.
class SqliteStore : public Store, public MaintenanceStore {
public:
  // Fails on settings that can never work. The file is opened in the background: while that fails,
  // operations are Unavailable and the reason tells why.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> create(const SqliteSettings& settings,
                                                             const LimitSettings& limits = {});
  ~SqliteStore() override;

  // Store
  void claim(ClaimRequest request, Deadline deadline,
             std::function<void(ClaimResult)> done) override;
  void abandon(ClaimRef claim) override;
  void complete(CompleteRequest request, Deadline deadline,
                std::function<void(WriteResult)> done) override;
  void fail(FailRequest request, Deadline deadline, std::function<void(WriteResult)> done) override;
  void release(ClaimRef claim, Deadline deadline, std::function<void(WriteResult)> done) override;
  void markUnknown(UnknownRequest request, Deadline deadline,
                   std::function<void(WriteResult)> done) override;
  void extend(std::vector<ClaimRef> claims, std::chrono::milliseconds lease, Deadline deadline,
              std::function<void(ExtendResult)> done) override;
  void lookUp(Identity identity, Deadline deadline,
              std::function<void(LookUpResult)> done) override;
  StoreStatus status() const override;

  // MaintenanceStore
  void lead(std::string owner, std::chrono::milliseconds lease, Deadline deadline,
            std::function<void(Leadership)> done) override;
  void sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
             Deadline deadline, std::function<void(MaintenanceResult)> done) override;
  void reap(uint32_t limit, bool soft, Deadline deadline,
            std::function<void(MaintenanceResult)> done) override;

private:
  SqliteStore(const SqliteSettings& settings, const LimitSettings& limits);

  const std::unique_ptr<sqlite::OperationQueue> queue_;
  std::thread io_thread_;     // Carries out.
  std::thread store_thread_;  // Answers.
};

}  // namespace idempotency
