#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "source/store/operator_store.h"
#include "source/store/postgres/blocking_session.h"

namespace idempotency::postgres {

using OperatorOptions = BlockingSessionOptions;

// PostgreSQL as operators and the reconciler use it: over one session of its own, which is opened
// again when it was lost. A change waits at most a second for a record that another transaction has
// locked.
class PostgresOperatorStore : public store::OperatorStore {
public:
  // Connects. An error if the database is not there, or its schema is not the one of this build.
  static absl::StatusOr<std::unique_ptr<PostgresOperatorStore>> open(
      const OperatorOptions& options);

  // OperatorStore
  absl::StatusOr<store::RecordPage> list(const store::RecordFilter& filter,
                                         const std::optional<protocol::Identity>& after,
                                         uint32_t limit) override;
  absl::StatusOr<std::optional<store::ListedRecord>> find(
      const protocol::Identity& identity) override;
  absl::StatusOr<store::AuditPage> audit(const store::AuditFilter& filter,
                                         std::optional<int64_t> before, uint32_t limit) override;
  absl::StatusOr<store::ChangeResult> change(const store::OperatorChange& change) override;
  absl::StatusOr<store::PurgeResult> purge(const store::Purge& purge, uint32_t limit) override;
  absl::StatusOr<store::Summary> summary() override;
  absl::StatusOr<std::vector<store::UnsettledUse>> unsettled() override;
  absl::StatusOr<std::vector<store::DueRecord>> takeDue(const store::OperationSet& operations,
                                                        std::chrono::milliseconds hold,
                                                        uint32_t limit) override;

private:
  // A record, and what is needed to find its response.
  struct Found {
    store::Record record;
    int64_t expires_at = 0;  // As the server has it, to the microsecond.
  };
  // A transaction that holds the record's lock.
  struct Locked {
    std::optional<Found> found;
    std::string transaction;
    std::string server;
  };

  // Removes stale rows of the table of unknown records. A transaction of its own, which ends at
  // once: it locks what it deletes.
  absl::Status tidy();

  explicit PostgresOperatorStore(const OperatorOptions& options)
      : options_(options), session_(options) {}

  absl::StatusOr<std::optional<Found>> read(const protocol::Identity& identity);
  absl::StatusOr<Locked> lock(const protocol::Identity& identity);
  absl::Status write(const store::OperatorChange& change, const Locked& locked);
  // After the connection was lost during the commit.
  absl::Status findOutWhetherCommitted(const Locked& locked, const absl::Status& lost);

  absl::StatusOr<store::RecordPage> listFrom(bool unsettled, const store::RecordFilter& filter,
                                             const std::optional<protocol::Identity>& after,
                                             uint32_t limit);
  absl::StatusOr<store::RecordPage> listByHash(const store::RecordFilter& filter,
                                               const std::optional<protocol::Identity>& after);
  absl::StatusOr<std::optional<protocol::Identity>> findByHash(
      bool unsettled, const store::RecordFilter& filter,
      const std::optional<protocol::Identity>& after);

  const OperatorOptions options_;
  BlockingSession session_;
};

}  // namespace idempotency::postgres
