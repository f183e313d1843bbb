#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"

#include "source/store/postgres/batch.h"
#include "source/store/postgres/operation.h"

namespace idempotency::postgres {

struct BatchLimits {
  size_t operations = 128;
  // A share smaller than this is not worth a commit of its own.
  size_t least_share = 32;
  size_t bytes = 1 << 20;  // A larger operation goes all the same, by itself.
};

// Operations that wait to be sent, oldest first. Not thread-safe.
class Queue {
public:
  explicit Queue(BatchLimits limits) : limits_(limits) {}

  void push(OperationPtr operation);
  // For what was under way already: it has waited long enough.
  void pushFront(OperationPtr operation);

  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }

  // The next batch, arranged; empty when nothing may go now. What waits
  // is shared by the connections that are idle, unless the shares get too small. A tenant of
  // `busy_tenants` has a counted claim under way: its next ones wait.
  [[nodiscard]] Batch take(size_t idle_connections,
                           const absl::flat_hash_set<std::string>& busy_tenants);

  // Never later than the first deadline of those that wait.
  Deadline nextDeadline() const { return next_deadline_; }
  // Takes out those whose deadline has come.
  [[nodiscard]] std::vector<OperationPtr> takeExpired(Deadline now);

  // Takes out the first for which it holds.
  [[nodiscard]] OperationPtr takeIf(const std::function<bool(Operation&)>& condition);
  [[nodiscard]] std::vector<OperationPtr> takeAll();

private:
  const BatchLimits limits_;
  std::deque<OperationPtr> waiting_;
  // A lower bound: kept cheaply when operations come, found anew when it has passed.
  Deadline next_deadline_ = Deadline::max();
};

}  // namespace idempotency::postgres
