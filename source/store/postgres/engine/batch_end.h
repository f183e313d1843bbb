#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "source/store/postgres/engine/batch.h"
#include "source/store/postgres/engine/error_scope.h"
#include "source/store/postgres/operations/operation.h"

namespace idempotency::postgres {

// How a batch ended.
struct BatchEnd {
  enum class Kind : uint8_t {
    Lost,        // No Sync came back: in doubt. First, so that a zeroed value refuses.
    RolledBack,  // A statement failed: certainly nothing of the batch took effect.
    Committed,   // The Sync came back: durable.
  };
  Kind kind = Kind::Lost;
  std::string sqlstate;           // RolledBack: of the first error.
  std::string reason;             // Unless it was committed.
  std::vector<PqResult> results;  // Committed: one for each statement, in order.
};

// What to do next.
struct BatchVerdict {
  std::vector<OperationPtr> send_again;  // In order.
  std::vector<Operation::Orphan> orphans;
  enum class Health : uint8_t {
    NoVerdict,
    Good,
    Timeout,  // Of one operation, which was sent on its own.
    Outage,
  };
  Health health = Health::NoVerdict;
  std::string tenant;  // Timeout: whose operation it was.
};

// Passes each operation its result, and runs callbacks. If one statement may be the reason for the
// failure of a batch, each operation is sent again on its own.
[[nodiscard]] BatchVerdict conclude(Batch batch, BatchEnd end);

}  // namespace idempotency::postgres
