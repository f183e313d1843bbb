#include "source/store/sqlite/record_row.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "source/protocol/policy.h"

namespace idempotency::sqlite {

using std::chrono::milliseconds;

store::StoreTime toTime(int64_t value) {
  return store::StoreTime(milliseconds(value));
}

protocol::RecordState toState(int64_t value) {
  switch (value) {
    case static_cast<int64_t>(protocol::RecordState::InProgress):
      return protocol::RecordState::InProgress;
    case static_cast<int64_t>(protocol::RecordState::Completed):
      return protocol::RecordState::Completed;
    case static_cast<int64_t>(protocol::RecordState::FailedRetryable):
      return protocol::RecordState::FailedRetryable;
    case static_cast<int64_t>(protocol::RecordState::Expired):
      return protocol::RecordState::Expired;
    default:
      return protocol::RecordState::Unknown;
  }
}

protocol::LeaseExpired toLeaseExpired(int64_t value) {
  return value == static_cast<int64_t>(protocol::LeaseExpired::Retry)
             ? protocol::LeaseExpired::Retry
             : protocol::LeaseExpired::Unknown;
}

RecordRow readRecord(const Query& row, const ClockGuard::Now& now) {
  RecordRow found;
  store::Record& record = found.record;
  found.id = row.integer(0);
  record.state = toState(row.integer(1));
  record.attempt = row.integer(2);
  found.reclaimed = row.integer(3) != 0;
  record.fingerprint = row.bytes(4);
  record.recovery_point = row.bytes(5);
  const int64_t lease_until = row.integer(6);
  record.created_at = toTime(row.integer(7));
  record.expires_at = toTime(row.integer(8));
  record.past_life = row.integer(8) <= now.judges;
  record.life_left = milliseconds(std::max<int64_t>(row.integer(8) - now.judges, 0));
  if (const std::optional<int64_t> completed_at = row.optionalInteger(9)) {
    record.completed_at = toTime(*completed_at);
  }
  const std::optional<int64_t> reconcile_after = row.optionalInteger(10);
  record.dead_letter = row.integer(11) != 0;
  record.last_error = row.bytes(12);
  record.status = static_cast<int32_t>(row.integer(13));
  record.tombstone = static_cast<protocol::Tombstone>(row.integer(14));
  record.response_schema = static_cast<int16_t>(row.integer(15));
  if (!row.isNull(16)) {
    record.response = row.bytes(16);
  }
  record.claim_age = milliseconds(std::max<int64_t>(now.judges - row.integer(17), 0));
  found.counted = row.isNull(18);
  record.on_lease_expired = toLeaseExpired(row.integer(19));
  if (record.state == protocol::RecordState::InProgress && lease_until > now.judges) {
    record.lease_alive = true;
    record.lease_left = milliseconds(lease_until - now.judges);
  }
  if (record.state == protocol::RecordState::Unknown && !record.dead_letter &&
      reconcile_after.has_value()) {
    record.reconcile_after = milliseconds(*reconcile_after - now.judges);
  }
  return found;
}

}  // namespace idempotency::sqlite
