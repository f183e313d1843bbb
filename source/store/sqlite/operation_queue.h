#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "source/protocol/settings.h"
#include "source/store/sqlite/operation.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

// The operations of a store between its callers, its I/O thread and its own thread.
//
// Operations that arrive while the I/O thread is busy are carried out together, and those that
// arrive during a batch join it; a single operation is carried out immediately. Space is limited:
// claims and lookups may use half of it, so that running claims can still be settled while new ones
// are refused.
class OperationQueue {
public:
  explicit OperationQueue(const protocol::LimitSettings& limits);

  // --- Any thread; none of these blocks for long.
  void submit(std::unique_ptr<Operation> operation);
  // Several that are carried out together, as far as they fit in a batch.
  void submitAll(std::vector<std::unique_ptr<Operation>> operations);
  void abandon(store::ClaimRef claim);
  // From now on new operations are refused. The outcomes of attempts are still written, for a short
  // time.
  void stop();
  store::StoreStatus status() const;

  // --- I/O thread
  // Waits for operations and starts a batch with them. Empty: stopped, and there is nothing left to
  // do.
  std::vector<Operation*> take();
  // More for the same batch. Waits briefly while callbacks run, because they often lead to new
  // operations. Empty: the batch is complete.
  std::vector<Operation*> takeMore();
  // The first `over` operations of the batch have ended. The others return to the front of the
  // queue.
  void finish(size_t over, bool succeeded);
  // Whether to continue waiting for a lock, given that a caller waits until then.
  bool isAwaited(store::Deadline until) const;

  // --- The store's thread
  // Runs callbacks until the I/O thread has ended and all have run.
  void serve();

private:
  using Operations = std::vector<std::unique_ptr<Operation>>;
  using Answers = std::vector<std::function<void()>>;

  // All with the lock held.
  const char* refusal(const Operation& operation, store::MonotonicTime now) const;
  bool isFull(const Operation& operation) const;
  void admit(std::unique_ptr<Operation> operation, store::MonotonicTime now);
  void refuse(std::unique_ptr<Operation> operation, const std::string& reason,
              Fate fate = Fate::NotDone);
  void refuseWaiting(const std::function<bool(const Operation&)>& which, const std::string& reason);
  void withdraw(store::ClaimRef claim);
  void forget(const Operation& operation);
  bool isReady(store::MonotonicTime now) const;
  std::vector<Operation*> handOut();
  void collect(Operations& over, Answers& early);
  void collectOverdue(Answers& early);

  const protocol::LimitSettings limits_;
  mutable std::mutex mutex_;
  std::condition_variable io_changed_;
  std::condition_variable store_changed_;

  std::deque<std::unique_ptr<Operation>> waiting_;
  Operations running_;        // The batch.
  size_t running_bytes_ = 0;  // Of its operations.
  std::optional<store::Deadline>
      gather_end_;   // When the batch is complete. Set at the first call of more().
  Operations over_;  // Whose callbacks must run.
  std::deque<std::unique_ptr<Operation>> own_;
  store::Deadline own_retry_{};
  absl::flat_hash_map<protocol::Attempt, Operation*> claims_;  // That are waiting or running.
  size_t count_ = 0;                                           // Of requests, waiting and running.
  size_t bytes_ = 0;
  uint64_t batches_ = 0;  // That have ended.
  uint64_t batches_failed_ = 0;
  uint64_t operations_ = 0;  // In them.
  // No deadline of waiting and running operations is earlier.
  store::Deadline earliest_ = store::Deadline::max();
  bool answering_ = false;
  bool gathering_ = false;  // The I/O thread waits for the end of the callbacks.
  bool stopping_ = false;
  bool io_ended_ = false;
  store::Deadline stop_end_ = store::Deadline::max();
};

}  // namespace idempotency::sqlite
