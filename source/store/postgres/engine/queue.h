#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "source/store/postgres/engine/batch.h"
#include "source/store/postgres/operations/operation.h"

namespace idempotency::postgres {

struct BatchLimits {
  size_t operations = 128;
  // A share smaller than this is not worth its own commit.
  size_t least_share = 32;
  size_t bytes = 1 << 20;  // A larger operation is sent on its own.
};

// Operations that wait to be sent, oldest first. Not thread-safe.
class Queue {
public:
  explicit Queue(BatchLimits limits) : limits_(limits) {}

  void push(OperationPtr operation);
  // For operations that were sent before: they have waited long enough.
  void pushFront(OperationPtr operation);

  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }

  // The next batch, in order; empty if nothing can be sent now. Idle connections share the waiting
  // operations, unless the shares get too small.
  [[nodiscard]] Batch take(size_t idle_connections);

  // Never later than the first deadline of those that wait.
  store::Deadline nextDeadline() const { return next_deadline_; }
  // Takes out those whose deadline has come.
  [[nodiscard]] std::vector<OperationPtr> takeExpired(store::MonotonicTime now);

  // Takes out the first one that satisfies the predicate.
  [[nodiscard]] OperationPtr takeIf(const std::function<bool(Operation&)>& condition);
  [[nodiscard]] std::vector<OperationPtr> takeAll();

private:
  const BatchLimits limits_;
  std::deque<OperationPtr> waiting_;
  // A lower bound: cheap to update for new operations, and computed again when it has passed.
  store::Deadline next_deadline_ = store::Deadline::max();
};

}  // namespace idempotency::postgres
