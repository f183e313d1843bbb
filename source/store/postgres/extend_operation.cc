#include "source/store/postgres/extend_operation.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace idempotency::postgres {

ExtendOperation::ExtendOperation(std::vector<ClaimRef> claims, std::chrono::milliseconds lease,
                                 Deadline deadline, QueueBound::Ticket ticket,
                                 std::function<void(ExtendResult)> done)
    : Operation(deadline, std::move(ticket)),
      claims_(std::move(claims)),
      lease_(lease),
      done_(std::move(done)) {
  sorted_.reserve(claims_.size());
  for (const ClaimRef& claim : claims_) {
    sorted_.push_back(&claim);
  }
  std::sort(sorted_.begin(), sorted_.end(),
            [](const ClaimRef* a, const ClaimRef* b) { return a->identity < b->identity; });
}

StatementId ExtendOperation::bind(size_t, Parameters& parameters) const {
  Arrays arrays;
  for (const ClaimRef* const claim : sorted_) {
    arrays.bytes(0, claim->identity.tenant);
    arrays.bytes(1, claim->identity.operation);
    arrays.bytes(2, claim->identity.key);
    arrays.int64(3, claim->attempt);
  }
  arrays.moveAll(parameters);
  parameters.int64(lease_.count());
  return StatementId::Extend;
}

Operation::Next ExtendOperation::onResults(std::span<const Rows> results) {
  const Rows& rows = results.front();
  // Attempts are unique: they alone tell the claims apart.
  absl::flat_hash_set<Attempt> extended;
  for (int row = 0; row < rows.count(); ++row) {
    extended.insert(rows.int64(row, 0));
  }
  ExtendResult result;
  for (const ClaimRef& claim : claims_) {
    result.push_back({extended.contains(claim.attempt) ? WriteOutcome::Done : WriteOutcome::Fenced,
                      std::string()});
  }
  finish(std::move(result));
  return Next::Finished;
}

Operation::Next ExtendOperation::onLost(const std::string& reason) {
  finishAll(WriteOutcome::InDoubt, reason);
  return Next::Finished;
}

void ExtendOperation::onRefused(const std::string& reason) {
  finishAll(WriteOutcome::Unavailable, reason);
}

void ExtendOperation::onDeadline(bool sent) {
  finishAll(sent ? WriteOutcome::InDoubt : WriteOutcome::Unavailable, DeadlineReason);
}

void ExtendOperation::finishAll(WriteOutcome outcome, const std::string& reason) {
  finish(ExtendResult(claims_.size(), WriteResult{outcome, reason}));
}

void ExtendOperation::finish(ExtendResult result) {
  callBack(done_, std::move(result));
}

}  // namespace idempotency::postgres
