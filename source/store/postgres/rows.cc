#include "source/store/postgres/rows.h"

#include <algorithm>

#include "source/store/postgres/statements.h"
#include "source/store/postgres/wire.h"

namespace idempotency::postgres {
namespace {

using std::chrono::milliseconds;

std::optional<StoreTime> optionalTime(const Rows& rows, int row, int column) {
  if (rows.isNull(row, column)) {
    return std::nullopt;
  }
  return toStoreTime(rows.int64(row, column));
}

// Rounded up, so that what is left is never told as nothing.
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

Record readRecord(const Rows& rows, int row) {
  Record record;
  record.state = static_cast<RecordState>(rows.int16(row, KeyColumn::State));
  record.attempt = rows.int64(row, KeyColumn::Attempt);
  record.fingerprint = rows.bytes(row, KeyColumn::Fingerprint);
  record.recovery_point = rows.bytes(row, KeyColumn::RecoveryPoint);
  const int64_t now = rows.int64(row, KeyColumn::Now);
  if (record.state == RecordState::InProgress) {
    record.lease_left = left(rows.int64(row, KeyColumn::LeaseUntil), now);
    record.lease_alive = record.lease_left > milliseconds(0);
  }
  record.past_life = rows.int64(row, KeyColumn::ExpiresAt) <= now;
  record.life_left = left(rows.int64(row, KeyColumn::ExpiresAt), now);
  record.created_at = toStoreTime(rows.int64(row, KeyColumn::CreatedAt));
  record.expires_at = toStoreTime(rows.int64(row, KeyColumn::ExpiresAt));
  record.completed_at = optionalTime(rows, row, KeyColumn::CompletedAt);
  if (record.state == RecordState::Unknown && !rows.isNull(row, KeyColumn::ReconcileAfter)) {
    record.reconcile_after = left(rows.int64(row, KeyColumn::ReconcileAfter), now);
  }
  record.dead_letter = rows.boolean(row, KeyColumn::DeadLetter);
  record.last_error = rows.bytes(row, KeyColumn::LastError);
  record.status = rows.int16(row, KeyColumn::Status);
  record.tombstone = static_cast<Tombstone>(rows.int16(row, KeyColumn::Tombstone));
  record.response_schema = rows.int16(row, KeyColumn::ResponseSchema);
  return record;
}

}  // namespace idempotency::postgres
