#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

#include "source/protocol/ending.h"
#include "source/protocol/settings.h"
#include "source/store/maintenance_store.h"
#include "source/store/postgres/engine/engine.h"
#include "source/store/postgres/operations/duplicate_share.h"
#include "source/store/store.h"

namespace idempotency::postgres {

struct PostgresStoreOptions {
  protocol::PostgresSettings postgres;
  // Limit of the bytes that wait to be written, in this process.
  uint64_t queue_bytes = 64 << 20;
  uint64_t queue_operations = 20'000;
};

// A Store on PostgreSQL 13 and later. One thread and a few connections for all callers: operations
// that arrive while the connections are busy are sent together, as many statements under one Sync.
//
// create() does not wait for the database, which may be down.
class PostgresStore : public store::Store, public store::MaintenanceStore {
public:
  // An error if the settings cannot work: the conninfo is malformed, or there are no file
  // descriptors left.
  static absl::StatusOr<std::unique_ptr<PostgresStore>> create(const PostgresStoreOptions& options);

  // Runs all callbacks, and waits briefly for pending operations. Not on the store's own thread.
  ~PostgresStore() override;

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

  // Any thread.
  EngineStats stats() const { return engine_.stats(); }
  uint64_t queuedOperations() const { return bound_->usedOperations(); }
  uint64_t queuedBytes() const { return bound_->usedBytes(); }

private:
  PostgresStore(EngineSettings settings, const PostgresStoreOptions& options);

  void submit(OperationPtr operation);
  // Runs on the store's thread, like every callback.
  void answer(Task task) { inbox_->push(std::move(task)); }

  const std::shared_ptr<QueueBound> bound_;
  const std::shared_ptr<Inbox> inbox_;
  DuplicateShare duplicates_;
  TenantUse use_;
  Engine engine_;
  std::thread thread_;
};

}  // namespace idempotency::postgres
