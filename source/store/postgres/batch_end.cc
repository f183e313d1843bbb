#include "source/store/postgres/batch_end.h"

#include <utility>

namespace idempotency::postgres {
namespace {

using Next = Operation::Next;

// A deadlock's victim may be one again.
constexpr uint8_t MostTries = 3;

void keep(OperationPtr operation, Next next, BatchVerdict& verdict) {
  if (const auto leftover = operation->leftover(); leftover.has_value()) {
    verdict.leftovers.push_back(*leftover);
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
bool maySendAgain(Operation& operation, ErrorScope scope, bool was_alone) {
  if (operation.finished() || scope == ErrorScope::Server) {
    return false;
  }
  if (!was_alone) {
    return true;
  }
  return scope == ErrorScope::Transient && ++operation.tries < MostTries;
}

void onRolledBack(Batch& batch, const BatchEnd& end, BatchVerdict& verdict) {
  if (countsAsOutage(end.sqlstate)) {
    verdict.health = BatchVerdict::Health::Outage;
  }
  const ErrorScope scope = scopeOf(end.sqlstate);
  const bool was_alone = batch.operations.size() == 1;
  for (OperationPtr& operation : batch.operations) {
    if (maySendAgain(*operation, scope, was_alone)) {
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
