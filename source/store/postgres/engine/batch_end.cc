#include "source/store/postgres/engine/batch_end.h"

#include <utility>

namespace idempotency::postgres {
namespace {

using Next = Operation::Next;

// A deadlock's victim may be one again.
constexpr uint8_t MostTries = 3;

void keep(OperationPtr operation, Next next, BatchVerdict& verdict) {
  if (const auto orphan = operation->orphan(); orphan.has_value()) {
    verdict.orphans.push_back(*orphan);
  }
  if (next == Next::SendAgain) {
    verdict.send_again.push_back(std::move(operation));
  }
}

void onCommitted(Batch& batch, const BatchEnd& end, BatchVerdict& verdict) {
  verdict.health = BatchVerdict::Health::Good;
  forEachAnswer(batch, end.results, [&](size_t place, std::span<const Rows> rows) {
    OperationPtr operation = std::move(batch.operations[place]);
    const Next next = operation->onResults(rows);
    operation->alone = false;
    keep(std::move(operation), next, verdict);
  });
}

void onLost(Batch& batch, const BatchEnd& end, BatchVerdict& verdict) {
  verdict.health = BatchVerdict::Health::Outage;
  for (OperationPtr& operation : batch.operations) {
    const Next next = operation->onLost(end.reason);
    keep(std::move(operation), next, verdict);
  }
}

// Whether an operation of a batch that was rolled back deserves another try.
bool maySendAgain(Operation& operation, const BatchEnd& end, bool was_alone) {
  const ErrorScope scope = scopeOf(end.sqlstate);
  if (operation.finished() || scope == ErrorScope::Server) {
    return false;
  }
  if (!was_alone) {
    return true;
  }
  if (isLockTimeout(end.sqlstate) && operation.identity() != nullptr) {
    return true;  // Until its deadline.
  }
  return scope == ErrorScope::Transient && ++operation.tries < MostTries;
}

// For a batch that was rolled back. If it had several operations, a timeout shows nothing yet: they
// are sent again on their own. An operation without an identity is a background job, not a request.
void judgeHealth(const Batch& batch, const BatchEnd& end, BatchVerdict& verdict) {
  switch (evidenceOf(end.sqlstate)) {
    case Evidence::None:
      return;
    case Evidence::Outage:
      verdict.health = BatchVerdict::Health::Outage;
      return;
    case Evidence::Timeout:
      if (batch.operations.size() == 1 && batch.operations[0]->identity() != nullptr) {
        verdict.health = BatchVerdict::Health::Timeout;
        verdict.tenant = batch.operations[0]->identity()->tenant;
      }
      return;
  }
}

void onRolledBack(Batch& batch, const BatchEnd& end, BatchVerdict& verdict) {
  judgeHealth(batch, end, verdict);
  const bool was_alone = batch.operations.size() == 1;
  for (OperationPtr& operation : batch.operations) {
    if (maySendAgain(*operation, end, was_alone)) {
      operation->alone = true;
      verdict.send_again.push_back(std::move(operation));
    } else {
      operation->onRefused(end.reason);
    }
  }
}

}  // namespace

BatchVerdict conclude(Batch batch, BatchEnd end) {
  BatchVerdict verdict;
  switch (end.kind) {
    case BatchEnd::Kind::Committed:
      onCommitted(batch, end, verdict);
      break;
    case BatchEnd::Kind::RolledBack:
      onRolledBack(batch, end, verdict);
      break;
    case BatchEnd::Kind::Lost:
      onLost(batch, end, verdict);
      break;
  }
  return verdict;
}

}  // namespace idempotency::postgres
