#include "source/store/postgres/operations/use_operation.h"

#include <utility>

namespace idempotency::postgres {
namespace {

store::MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

UseOperation::UseOperation(std::vector<TenantUse::Change> changes, store::Deadline deadline,
                           TenantUse& use)
    : Operation(deadline, {}), changes_(std::move(changes)), use_(use) {}

StatementId UseOperation::bind(size_t index, Parameters& parameters) const {
  const bool tracks = index == 0;
  Arrays arrays;
  arrays.bytesColumn(0);
  arrays.int64Column(1);
  for (const TenantUse::Change& change : changes_) {
    if (tracks && !change.first.has_value()) {
      continue;
    }
    arrays.bytes(0, change.tenant);
    arrays.int64(1, tracks ? *change.first : change.delta);
  }
  arrays.moveAll(parameters);
  return tracks ? StatementId::TrackTenants : StatementId::ChangeUse;
}

Operation::Next UseOperation::onResults(std::span<const Rows> results) {
  const Rows& rows = results[1];
  absl::flat_hash_map<std::string, int64_t> records;
  for (int row = 0; row < rows.count(); ++row) {
    records[std::string(rows.bytes(row, 0))] = rows.int64(row, 1);
  }
  if (!std::exchange(finished_, true)) {
    use_.onWritten(changes_, records, now());
  }
  return Next::Finished;
}

Operation::Next UseOperation::onLost(const std::string&) {
  if (!std::exchange(finished_, true)) {
    use_.onLost(changes_, now());
  }
  return Next::Finished;
}

void UseOperation::onRefused(const std::string&) {
  if (!std::exchange(finished_, true)) {
    use_.onNotWritten(changes_, now());
  }
}

void UseOperation::onDeadline(bool sent) {
  if (sent) {
    (void)onLost(DeadlineReason);
  } else {
    onRefused(DeadlineReason);
  }
}

}  // namespace idempotency::postgres
