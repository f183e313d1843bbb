#include "source/store/postgres/operations/rows.h"

#include <algorithm>

#include "source/store/postgres/schema/statements.h"
#include "source/store/postgres/wire/wire.h"

namespace idempotency::postgres {
namespace {

using std::chrono::milliseconds;

std::optional<store::StoreTime> optionalTime(const Rows& rows, int row, int column) {
  if (rows.isNull(row, column)) {
    return std::nullopt;
  }
  return toStoreTime(rows.int64(row, column));
}

// Rounded up, so that remaining time is never reported as none.
milliseconds left(int64_t until, int64_t now) {
  return std::chrono::ceil<milliseconds>(
      std::chrono::microseconds(std::max<int64_t>(until - now, 0)));
}

}  // namespace

bool Rows::changed() const {
  if (PQresultStatus(result_) == PGRES_TUPLES_OK) {
    return count_ > 0;
  }
  const std::string_view count = PQcmdTuples(const_cast<PGresult*>(result_));
  return !count.empty() && count != "0";
}

std::string_view Rows::bytes(int row, int column) const {
  return {PQgetvalue(result_, first_ + row, column),
          static_cast<size_t>(PQgetlength(result_, first_ + row, column))};
}

int16_t Rows::int16(int row, int column) const {
  return readInt16(bytes(row, column));
}

int64_t Rows::int64(int row, int column) const {
  return readInt64(bytes(row, column));
}

bool Rows::boolean(int row, int column) const {
  const std::string_view value = bytes(row, column);
  return !value.empty() && value.front() != '\0';
}

store::Record readRecord(const Rows& rows, int row) {
  store::Record record;
  record.state = static_cast<protocol::RecordState>(rows.int16(row, RecordColumn::State));
  record.attempt = rows.int64(row, RecordColumn::Attempt);
  record.fingerprint = rows.bytes(row, RecordColumn::Fingerprint);
  record.recovery_point = rows.bytes(row, RecordColumn::RecoveryPoint);
  const int64_t now = rows.int64(row, RecordColumn::Now);
  if (record.state == protocol::RecordState::InProgress) {
    record.lease_left = left(rows.int64(row, RecordColumn::LeaseUntil), now);
    record.lease_alive = record.lease_left > milliseconds(0);
  }
  record.on_lease_expired = rows.int16(row, RecordColumn::OnLeaseExpired) == 1
                                ? protocol::LeaseExpired::Retry
                                : protocol::LeaseExpired::Unknown;
  record.past_life = rows.int64(row, RecordColumn::ExpiresAt) <= now;
  record.life_left = left(rows.int64(row, RecordColumn::ExpiresAt), now);
  // Rounded down, so that a time in the future is never reported as past.
  record.claim_age = std::chrono::floor<milliseconds>(std::chrono::microseconds(
      std::max<int64_t>(now - rows.int64(row, RecordColumn::ClaimedAt), 0)));
  record.created_at = toStoreTime(rows.int64(row, RecordColumn::CreatedAt));
  record.expires_at = toStoreTime(rows.int64(row, RecordColumn::ExpiresAt));
  record.completed_at = optionalTime(rows, row, RecordColumn::CompletedAt);
  record.dead_letter = rows.boolean(row, RecordColumn::DeadLetter);
  if (record.state == protocol::RecordState::Unknown && !record.dead_letter &&
      !rows.isNull(row, RecordColumn::ReconcileAfter)) {
    record.reconcile_after = std::chrono::floor<milliseconds>(
        std::chrono::microseconds(rows.int64(row, RecordColumn::ReconcileAfter) - now));
  }
  record.last_error = rows.bytes(row, RecordColumn::LastError);
  record.status = rows.int16(row, RecordColumn::Status);
  record.tombstone = static_cast<protocol::Tombstone>(rows.int16(row, RecordColumn::Tombstone));
  record.response_schema = rows.int16(row, RecordColumn::ResponseSchema);
  return record;
}

}  // namespace idempotency::postgres
