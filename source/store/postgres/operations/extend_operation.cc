#include "source/store/postgres/operations/extend_operation.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace idempotency::postgres {

ExtendOperation::ExtendOperation(std::vector<store::ClaimRef> claims,
                                 std::chrono::milliseconds lease, store::Deadline deadline,
                                 QueueBound::Ticket ticket,
                                 std::function<void(store::ExtendResult)> done)
    : Operation(deadline, std::move(ticket)),
      claims_(std::move(claims)),
      lease_(lease),
      done_(std::move(done)) {
  sorted_.reserve(claims_.size());
  for (const store::ClaimRef& claim : claims_) {
    sorted_.push_back(&claim);
  }
  std::sort(sorted_.begin(), sorted_.end(), [](const store::ClaimRef* a, const store::ClaimRef* b) {
    return a->identity < b->identity;
  });
}

StatementId ExtendOperation::bind(size_t, Parameters& parameters) const {
  Arrays arrays;
  for (const store::ClaimRef* const claim : sorted_) {
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
  absl::flat_hash_set<protocol::Attempt> extended;
  absl::flat_hash_set<protocol::Attempt> held;
  for (int row = 0; row < rows.count(); ++row) {
    (rows.boolean(row, 1) ? extended : held).insert(rows.int64(row, 0));
  }
  store::ExtendResult result;
  for (const store::ClaimRef& claim : claims_) {
    if (extended.contains(claim.attempt)) {
      result.push_back({store::WriteOutcome::Done, std::string()});
    } else if (held.contains(claim.attempt)) {
      result.push_back({store::WriteOutcome::Locked, LockedReason});
    } else {
      result.push_back({store::WriteOutcome::Fenced, std::string()});
    }
  }
  finish(std::move(result));
  return Next::Finished;
}

Operation::Next ExtendOperation::onLost(const std::string& reason) {
  finishAll(store::WriteOutcome::InDoubt, reason);
  return Next::Finished;
}

void ExtendOperation::onRefused(const std::string& reason) {
  finishAll(store::WriteOutcome::Unavailable, reason);
}

void ExtendOperation::onDeadline(bool sent) {
  finishAll(sent ? store::WriteOutcome::InDoubt : store::WriteOutcome::Unavailable, DeadlineReason);
}

void ExtendOperation::finishAll(store::WriteOutcome outcome, const std::string& reason) {
  finish(store::ExtendResult(claims_.size(), store::WriteResult{outcome, reason}));
}

void ExtendOperation::finish(store::ExtendResult result) {
  callBack(done_, std::move(result));
}

}  // namespace idempotency::postgres
