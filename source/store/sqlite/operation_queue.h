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
// What gathers while the I/O thread is busy goes out together, and what comes while it carries that
// out goes along; a lone operation goes at once. Space
// is bounded: claims and look-ups may fill half of it, so that claims which are running can still
// end when new ones are refused.
class OperationQueue {
public:
  explicit OperationQueue(const LimitSettings& limits);

  // --- Any thread; none of these blocks for long.
  void submit(std::unique_ptr<Operation> operation);
  void abandon(ClaimRef claim);
  // From now on everything new is refused. What an attempt has to write is still carried out, for a
  // short while.
  void stop();
  StoreStatus status() const;

  // --- I/O thread
  // Waits for operations and begins a batch with them. Empty: stopped, and nothing is left to do.
  std::vector<Operation*> take();
  // More for the same batch. Waits a moment while answers are handed out, since those who get them
  // are about to come back. Empty: the batch is complete.
  std::vector<Operation*> takeMore();
  // The first `over` of the batch are over, started or not. The others go back to the front.
  void finish(size_t over);
  // Whether it makes sense to go on waiting for a lock for somebody who waits until then.
  bool isAwaited(Deadline until) const;

  // --- The store's thread
  // Answers until the I/O thread has ended and all callbacks have run.
  void serve();

private:
  using Operations = std::vector<std::unique_ptr<Operation>>;
  using Answers = std::vector<std::function<void()>>;

  // All with the lock held.
  const char* refusal(const Operation& operation, Deadline now) const;
  void refuse(std::unique_ptr<Operation> operation, const std::string& reason);
  void refuseWaiting(const std::function<bool(const Operation&)>& which, const std::string& reason);
  void settle(ClaimRef claim);
  void forget(const Operation& operation);
  bool isReady(Deadline now) const;
  std::vector<Operation*> handOut();
  void collect(Operations& over, Answers& early);
  void collectOverdue(Answers& early);

  const LimitSettings limits_;
  mutable std::mutex mutex_;
  std::condition_variable io_changed_;
  std::condition_variable store_changed_;

  std::deque<std::unique_ptr<Operation>> waiting_;
  Operations running_;                  // The batch.
  size_t running_bytes_ = 0;            // Of its operations.
  std::optional<Deadline> gather_end_;  // Then it is complete. Set when more is first asked for.
  Operations over_;                     // To be answered.
  std::deque<std::unique_ptr<Operation>> own_;
  Deadline own_retry_{};
  absl::flat_hash_map<Attempt, Operation*> claims_;  // That are waiting or running.
  size_t count_ = 0;                                 // Of waiting and running.
  size_t bytes_ = 0;
  uint64_t batches_ = 0;     // That came to an end.
  uint64_t operations_ = 0;  // In them.
  // No deadline of waiting and running operations is earlier.
  Deadline earliest_ = Deadline::max();
  bool answering_ = false;
  bool gathering_ = false;  // The I/O thread waits for the end of the answers.
  bool stopping_ = false;
  bool io_ended_ = false;
  Deadline stop_end_ = Deadline::max();
};

}  // namespace idempotency::sqlite
