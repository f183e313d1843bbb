#include "source/filter/operator/observed_store.h"

#include <utility>

namespace idempotency::filter {

ObservedStore::ObservedStore(std::unique_ptr<store::OperatorStore> store, OperatorLog& log)
    : store_(std::move(store)), log_(log) {}

absl::StatusOr<store::RecordPage> ObservedStore::list(
    const store::RecordFilter& filter, const std::optional<protocol::Identity>& after,
    uint32_t limit) {
  return store_->list(filter, after, limit);
}

absl::StatusOr<std::optional<store::ListedRecord>> ObservedStore::find(
    const protocol::Identity& identity) {
  return store_->find(identity);
}

absl::StatusOr<store::AuditPage> ObservedStore::audit(const store::AuditFilter& filter,
                                                      std::optional<int64_t> before,
                                                      uint32_t limit) {
  return store_->audit(filter, before, limit);
}

absl::StatusOr<store::ChangeResult> ObservedStore::change(const store::OperatorChange& change) {
  auto result = store_->change(change);
  log_.onChange(change, result);
  return result;
}

absl::StatusOr<store::PurgeResult> ObservedStore::purge(const store::Purge& purge, uint32_t limit) {
  auto result = store_->purge(purge, limit);
  log_.onPurge(purge, result);
  return result;
}

absl::StatusOr<store::Summary> ObservedStore::summary() {
  return store_->summary();
}

absl::StatusOr<std::vector<store::UnsettledUse>> ObservedStore::unsettled() {
  return store_->unsettled();
}

absl::StatusOr<std::vector<store::DueRecord>> ObservedStore::takeDue(
    const store::OperationSet& operations, std::chrono::milliseconds hold, uint32_t limit) {
  return store_->takeDue(operations, hold, limit);
}

}  // namespace idempotency::filter
