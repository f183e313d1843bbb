#pragma once

#include <memory>

#include "source/filter/operator/operator_log.h"
#include "source/store/operator_store.h"

namespace idempotency::filter {

// Another store, whose changes are counted and logged: whoever asks for one, and whether or not the
// client still waits for the answer. The log must live as long as this object.
class ObservedStore : public store::OperatorStore {
public:
  ObservedStore(std::unique_ptr<store::OperatorStore> store, OperatorLog& log);

  // store::OperatorStore
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
  const std::unique_ptr<store::OperatorStore> store_;
  OperatorLog& log_;
};

}  // namespace idempotency::filter
