#include "source/store/postgres/engine/queue.h"

#include <algorithm>
#include <utility>

namespace idempotency::postgres {

void Queue::push(OperationPtr operation) {
  next_deadline_ = std::min(next_deadline_, operation->deadline());
  waiting_.push_back(std::move(operation));
}

void Queue::pushFront(OperationPtr operation) {
  next_deadline_ = std::min(next_deadline_, operation->deadline());
  waiting_.push_front(std::move(operation));
}

Batch Queue::take(size_t idle_connections) {
  const size_t share = (waiting_.size() + idle_connections - 1) / idle_connections;
  const size_t most = std::min(std::max(share, limits_.least_share), limits_.operations);
  Batch batch;
  size_t bytes = 0;
  size_t kept = 0;  // Those before `position` that stay.
  size_t position = 0;
  for (; position < waiting_.size() && batch.operations.size() < most; ++position) {
    OperationPtr& operation = waiting_[position];
    const bool solo = operation->alone || operation->lane() == Lane::Solo;
    const bool fits = bytes + operation->bytes() <= limits_.bytes && !solo;
    if (!batch.empty() && !fits) {
      std::swap(waiting_[kept++], operation);
      continue;
    }
    bytes += operation->bytes();
    batch.operations.push_back(std::move(operation));
    if (solo || bytes > limits_.bytes) {
      ++position;
      break;
    }
  }
  // [kept, position) is what was taken.
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(kept),
                 waiting_.begin() + static_cast<ptrdiff_t>(position));
  arrange(batch);
  return batch;
}

std::vector<OperationPtr> Queue::takeExpired(store::MonotonicTime now) {
  std::vector<OperationPtr> expired;
  if (now < next_deadline_) {
    return expired;
  }
  next_deadline_ = store::Deadline::max();
  for (OperationPtr& operation : waiting_) {
    if (operation->deadline() <= now) {
      expired.push_back(std::move(operation));
    } else {
      next_deadline_ = std::min(next_deadline_, operation->deadline());
    }
  }
  std::erase(waiting_, nullptr);
  return expired;
}

OperationPtr Queue::takeIf(const std::function<bool(Operation&)>& condition) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const OperationPtr& entry) { return condition(*entry); });
  if (found == waiting_.end()) {
    return nullptr;
  }
  OperationPtr operation = std::move(*found);
  waiting_.erase(found);
  return operation;
}

std::vector<OperationPtr> Queue::takeAll() {
  std::vector<OperationPtr> all(std::make_move_iterator(waiting_.begin()),
                                std::make_move_iterator(waiting_.end()));
  waiting_.clear();
  next_deadline_ = store::Deadline::max();
  return all;
}

}  // namespace idempotency::postgres
