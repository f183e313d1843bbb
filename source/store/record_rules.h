#pragma once

#include <optional>

#include "source/protocol/ending.h"
#include "source/protocol/record.h"
#include "source/store/record.h"
#include "source/store/store.h"

// The rules of Store that do not depend on how a record is kept. PostgreSQL's statements repeat
// them, because there the row may change between reading and writing; the contract suite compares.
namespace idempotency::store {

// Whether the claim is a re-claim of this very record, and its reason holds (see ReclaimFrom) as of
// the time the record was read.
[[nodiscard]] bool mayReclaim(const ClaimRequest& request, const Record& record);

// Who has a record, and in which state.
struct RecordHead {
  protocol::RecordState state = protocol::RecordState::Unknown;
  protocol::Attempt attempt = 0;
};

// The outcome of settling an attempt whose record is `found` (none: there is no record), if nothing
// is written: Done, because it was done before, or Fenced. None: the ending is to be written.
[[nodiscard]] std::optional<WriteOutcome> outcomeWithoutWrite(
    const protocol::Ending& ending, protocol::Attempt attempt,
    const std::optional<RecordHead>& found);

// Whether settling this claim only reports the record, because the attempt has completed it before
// in a transaction of the upstream. It precedes outcomeWithoutWrite().
[[nodiscard]] bool isCompletedElsewhere(const ClaimRef& claim, const Record& found);

}  // namespace idempotency::store
