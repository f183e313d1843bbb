#pragma once

#include <cstdint>

#include "source/protocol/record.h"
#include "source/store/record.h"
#include "source/store/sqlite/clock_guard.h"
#include "source/store/sqlite/database.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

// What a write after the claim needs to know about a row of the table of records.
struct ClaimRow {
  int64_t id = 0;
  protocol::RecordState state = protocol::RecordState::Unknown;
  protocol::Attempt attempt = 0;
  bool reclaimed = false;
  bool counted = true;  // In tenant_use.
  bool dead_letter = false;
};

// A whole row.
struct RecordRow {
  int64_t id = 0;
  bool reclaimed = false;
  bool counted = true;  // In tenant_use.
  store::Record record;

  ClaimRow head() const {
    return {.id = id,
            .state = record.state,
            .attempt = record.attempt,
            .reclaimed = reclaimed,
            .counted = counted,
            .dead_letter = record.dead_letter};
  }
};

store::StoreTime toTime(int64_t value);

// A number that no version of the tables allows reads as Unknown: the state that nothing moves.
protocol::RecordState toState(int64_t value);

protocol::LeaseExpired toLeaseExpired(int64_t value);

// Reads the columns of Sql::FindRecord, which every statement that is read by this has in the same
// order.
RecordRow readRecord(const Query& row, const ClockGuard::Now& now);

}  // namespace idempotency::sqlite
