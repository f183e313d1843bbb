#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

#include "source/protocol/settings.h"
#include "source/store/maintenance_store.h"
#include "source/store/postgres/duplicate_share.h"
#include "source/store/postgres/engine.h"
#include "source/store/store.h"

namespace idempotency {

struct PostgresStoreOptions {
  PostgresSettings postgres;
  // What may wait to be written, in this process.
  uint64_t queue_bytes = 64 << 20;
  uint64_t queue_operations = 20'000;
};

// A Store on PostgreSQL 13 and later. One thread and a few connections, for all callers: what comes
// while the connections are busy goes out together, as many statements under one Sync.
//
// create() does not wait for the database: it may be down, and come later.
class PostgresStore : public Store, public MaintenanceStore {
public:
  // An error if the settings cannot work: the conninfo is malformed, or the kernel gives no
  // descriptors.
  static absl::StatusOr<std::unique_ptr<PostgresStore>> create(const PostgresStoreOptions& options);

  // Answers everything, and waits a moment for what is under way. Not on the store's own thread.
  ~PostgresStore() override;

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

  // Any thread.
  postgres::EngineStats stats() const { return engine_.stats(); }
  uint64_t queuedOperations() const { return bound_->usedOperations(); }
  uint64_t queuedBytes() const { return bound_->usedBytes(); }

private:
  PostgresStore(postgres::EngineSettings settings, const PostgresStoreOptions& options);

  void submit(postgres::OperationPtr operation);
  // Runs on the store's thread, like every callback.
  void answer(postgres::Task task) { inbox_->push(std::move(task)); }
  template <typename Request>
  void write(Request request, size_t bytes, Deadline deadline,
             std::function<void(WriteResult)> done);

  const std::shared_ptr<postgres::QueueBound> bound_;
  const std::shared_ptr<postgres::Inbox> inbox_;
  postgres::DuplicateShare duplicates_;
  postgres::Engine engine_;
  std::thread thread_;
};

}  // namespace idempotency
