#include "source/store/sqlite/operation_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace idempotency::sqlite {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// One transaction's worth. Enough to make the wait for the disk cheap for each; more would only
// make the first of them wait.
constexpr size_t MaxBatch = 1000;
constexpr size_t MaxBatchBytes = size_t{8} << 20;

// How long a batch accepts more operations. It holds the file's lock during this time, and its
// first operation waits.
constexpr milliseconds MaxGather{1};

// How soon the store's own releases are tried again.
constexpr milliseconds OwnPause{100};

// How long outcomes of attempts are still written during shutdown.
constexpr milliseconds StopGrace{1000};

// Background jobs and the store's own operations are few: they do not count as requests.
bool takesPlace(const Operation& operation) {
  switch (operation.kind()) {
    case Operation::Kind::Claim:
    case Operation::Kind::LookUp:
    case Operation::Kind::Write:
      return true;
    case Operation::Kind::Maintenance:
    case Operation::Kind::Own:
      break;
  }
  return false;
}

}  // namespace

OperationQueue::OperationQueue(const protocol::LimitSettings& limits) : limits_(limits) {}

// --- Any thread

const char* OperationQueue::refusal(const Operation& operation, store::MonotonicTime now) const {
  if (stopping_) {
    return "the store is shutting down";
  }
  if (operation.deadline() <= now) {
    return "the deadline had passed before the operation started";
  }
  return nullptr;
}

bool OperationQueue::isFull(const Operation& operation) const {
  if (!takesPlace(operation)) {
    return false;
  }
  const bool may_fill = operation.kind() == Operation::Kind::Write;
  const size_t max_count = may_fill ? size_t{2} * limits_.in_flight : limits_.in_flight;
  const size_t max_bytes = may_fill ? limits_.queue_bytes : limits_.queue_bytes / 2;
  // One that is too large for the bound still goes when it is alone.
  return count_ > max_count || (bytes_ > max_bytes && count_ > 1);
}

void OperationQueue::refuse(std::unique_ptr<Operation> operation, const std::string& reason,
                            Fate fate) {
  operation->fail(fate, reason);
  over_.push_back(std::move(operation));
  store_changed_.notify_one();
}

void OperationQueue::submit(std::unique_ptr<Operation> operation) {
  const store::MonotonicTime now = steady_clock::now();
  const std::lock_guard lock(mutex_);
  admit(std::move(operation), now);
}

void OperationQueue::submitAll(std::vector<std::unique_ptr<Operation>> operations) {
  const store::MonotonicTime now = steady_clock::now();
  const std::lock_guard lock(mutex_);
  for (std::unique_ptr<Operation>& operation : operations) {
    admit(std::move(operation), now);
  }
}

void OperationQueue::admit(std::unique_ptr<Operation> operation, store::MonotonicTime now) {
  if (takesPlace(*operation)) {
    ++count_;
    bytes_ += operation->bytes();
  }
  if (const char* const reason = refusal(*operation, now)) {
    refuse(std::move(operation), reason);
    return;
  }
  if (isFull(*operation)) {
    refuse(std::move(operation), "the queue is full", Fate::QueueFull);
    return;
  }
  if (const protocol::Attempt attempt = operation->attempt(); attempt != 0) {
    claims_.try_emplace(attempt, operation.get());
  }
  if (operation->deadline() < earliest_) {
    earliest_ = operation->deadline();
    store_changed_.notify_one();
  }
  waiting_.push_back(std::move(operation));
  if (waiting_.size() == 1) {
    io_changed_.notify_one();
  }
}

void OperationQueue::abandon(store::ClaimRef claim) {
  const std::lock_guard lock(mutex_);
  const auto found = claims_.find(claim.attempt);
  if (found == claims_.end() || found->second->claim().identity != claim.identity) {
    withdraw(std::move(claim));
    return;
  }
  Operation& operation = *found->second;
  operation.abandoned = true;
  if (operation.cancel()) {
    operation.fail(Fate::NotDone, "abandoned");
  }
}

void OperationQueue::withdraw(store::ClaimRef claim) {
  own_.push_back(std::make_unique<WithdrawOperation>(std::move(claim)));
  io_changed_.notify_one();
}

void OperationQueue::refuseWaiting(const std::function<bool(const Operation&)>& which,
                                   const std::string& reason) {
  std::deque<std::unique_ptr<Operation>> kept;
  for (std::unique_ptr<Operation>& operation : waiting_) {
    if (!which(*operation)) {
      kept.push_back(std::move(operation));
    } else {
      refuse(std::move(operation), reason);
    }
  }
  waiting_ = std::move(kept);
}

store::StoreStatus OperationQueue::status() const {
  const std::lock_guard lock(mutex_);
  store::StoreStatus status;
  status.queued = count_;
  status.queued_bytes = bytes_;
  status.batches = batches_;
  status.batches_failed = batches_failed_;
  status.operations = operations_;
  return status;
}

void OperationQueue::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  stop_end_ = steady_clock::now() + StopGrace;
  // Claims and look-ups lead to more work; the others end some.
  refuseWaiting(
      [](const Operation& operation) {
        return operation.kind() == Operation::Kind::Claim ||
               operation.kind() == Operation::Kind::LookUp;
      },
      "the store is shutting down");
  io_changed_.notify_one();
  store_changed_.notify_one();
}

// --- I/O thread

bool OperationQueue::isReady(store::MonotonicTime now) const {
  return !waiting_.empty() || (!own_.empty() && (stopping_ || own_retry_ <= now));
}

std::vector<Operation*> OperationQueue::take() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const store::MonotonicTime now = steady_clock::now();
    if (now >= stop_end_) {
      refuseWaiting([](const Operation&) { return true; }, "the store has shut down");
      own_.clear();
    }
    if (isReady(now)) {
      gather_end_.reset();
      return handOut();
    }
    // Answers may still bring releases of claims.
    if (stopping_ && waiting_.empty() && own_.empty() && over_.empty() && !answering_) {
      io_ended_ = true;
      store_changed_.notify_one();
      return {};
    }
    const store::Deadline wake = own_.empty() ? stop_end_ : std::min(own_retry_, stop_end_);
    if (wake == store::Deadline::max()) {
      io_changed_.wait(lock);
    } else {
      io_changed_.wait_until(lock, wake);
    }
  }
}

std::vector<Operation*> OperationQueue::takeMore() {
  std::unique_lock lock(mutex_);
  if (!gather_end_.has_value()) {
    gather_end_ = steady_clock::now() + MaxGather;
  }
  gathering_ = true;
  io_changed_.wait_until(lock, *gather_end_,
                         [this] { return !waiting_.empty() || (over_.empty() && !answering_); });
  gathering_ = false;
  return steady_clock::now() < *gather_end_ ? handOut() : std::vector<Operation*>();
}

std::vector<Operation*> OperationQueue::handOut() {
  const size_t first = running_.size();
  // The store's own first: they make room.
  while (!own_.empty() && running_.size() < MaxBatch) {
    running_.push_back(std::move(own_.front()));
    own_.pop_front();
  }
  while (!waiting_.empty() && running_.size() < MaxBatch && running_bytes_ < MaxBatchBytes) {
    running_bytes_ += waiting_.front()->bytes();
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  std::vector<Operation*> operations;
  operations.reserve(running_.size() - first);
  for (size_t i = first; i < running_.size(); ++i) {
    operations.push_back(running_[i].get());
  }
  return operations;
}

void OperationQueue::finish(size_t over, bool succeeded) {
  const std::lock_guard lock(mutex_);
  while (running_.size() > over) {
    waiting_.push_front(std::move(running_.back()));
    running_.pop_back();
  }
  batches_ += running_.empty() ? 0 : 1;
  batches_failed_ += running_.empty() || succeeded ? 0 : 1;
  operations_ += running_.size();
  std::move(running_.begin(), running_.end(), std::back_inserter(over_));
  running_.clear();
  running_bytes_ = 0;
  store_changed_.notify_one();
}

bool OperationQueue::isAwaited(store::Deadline until) const {
  const store::MonotonicTime now = steady_clock::now();
  const std::lock_guard lock(mutex_);
  return now < until && now < stop_end_;
}

// --- The store's thread

void OperationQueue::forget(const Operation& operation) {
  if (!takesPlace(operation)) {
    return;
  }
  --count_;
  bytes_ -= operation.bytes();
  if (const protocol::Attempt attempt = operation.attempt(); attempt != 0) {
    if (const auto found = claims_.find(attempt);
        found != claims_.end() && found->second == &operation) {
      claims_.erase(found);
    }
  }
}

void OperationQueue::collectOverdue(Answers& early) {
  const store::MonotonicTime now = steady_clock::now();
  if (now < earliest_) {
    return;
  }
  refuseWaiting([now](const Operation& operation) { return operation.deadline() <= now; },
                "the deadline had passed before the operation started");
  earliest_ = store::Deadline::max();
  for (const std::unique_ptr<Operation>& operation : running_) {
    if (operation->deadline() > now) {
      earliest_ = std::min(earliest_, operation->deadline());
    } else if (!operation->isAnswered()) {
      const bool not_done = operation->cancel() || operation->isCancelled();
      early.push_back(not_done
                          ? operation->answerWithout(Fate::NotDone, "the deadline has passed")
                          : operation->answerWithout(Fate::InDoubt, "the deadline has passed"));
    }
  }
  for (const std::unique_ptr<Operation>& operation : waiting_) {
    earliest_ = std::min(earliest_, operation->deadline());
  }
}

void OperationQueue::collect(Operations& over, Answers& early) {
  collectOverdue(early);
  for (std::unique_ptr<Operation>& operation : over_) {
    forget(*operation);
    if (operation->leavesOrphan()) {
      withdraw(operation->claim());
    }
    if (operation->mustRepeat() && !stopping_) {
      own_retry_ = steady_clock::now() + OwnPause;
      withdraw(operation->claim());
    }
    over.push_back(std::move(operation));
  }
  over_.clear();
}

void OperationQueue::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Operations over;
    Answers early;
    collect(over, early);
    if (over.empty() && early.empty()) {
      if (io_ended_) {
        return;
      }
      if (earliest_ == store::Deadline::max()) {
        store_changed_.wait(lock);
      } else {
        store_changed_.wait_until(lock, earliest_);
      }
      continue;
    }
    answering_ = true;
    lock.unlock();
    for (const std::function<void()>& answer : early) {
      answer();
    }
    for (const std::unique_ptr<Operation>& operation : over) {
      operation->answer();
    }
    // What callbacks own goes here, on this thread and without the lock.
    early.clear();
    over.clear();
    lock.lock();
    answering_ = false;
    if (stopping_ || gathering_ || !waiting_.empty() || !own_.empty()) {
      io_changed_.notify_one();
    }
  }
}

}  // namespace idempotency::sqlite
