#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "source/store/postgres/batch.h"
#include "source/store/postgres/error_scope.h"
#include "source/store/postgres/operation.h"

namespace idempotency::postgres {

// How a batch that was sent came to its end.
struct BatchEnd {
  enum class Kind : uint8_t {
    Lost,        // No Sync came back: nobody knows. First, so that a zeroed value refuses.
    RolledBack,  // A statement failed: for sure nothing of the batch took effect.
    Committed,   // The Sync came back: durable.
  };
  Kind kind = Kind::Lost;
  std::string sqlstate;           // RolledBack: of the first error.
  std::string reason;             // Unless it was committed.
  std::vector<PqResult> results;  // Committed: one for each statement, in order.
};

// What is to be done after it.
struct BatchVerdict {
  std::vector<OperationPtr> send_again;  // In order.
  std::vector<Operation::Leftover> leftovers;
  enum class Health : uint8_t { NoVerdict, Good, Outage } health = Health::NoVerdict;
};

// Tells each operation what became of it: runs callbacks. A batch that failed by what may be one
// statement's fault is taken apart: each goes again, alone.
[[nodiscard]] BatchVerdict conclude(Batch batch, BatchEnd end);

}  // namespace idempotency::postgres
