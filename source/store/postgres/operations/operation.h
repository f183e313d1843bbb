#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "source/store/postgres/operations/queue_bound.h"
#include "source/store/postgres/operations/rows.h"
#include "source/store/postgres/schema/statements.h"
#include "source/store/postgres/wire/parameters.h"
#include "source/store/postgres/wire/pq.h"
#include "source/store/store.h"

namespace idempotency::postgres {

// The place of a statement in its batch. Lock order: all batches of all processes first insert, in
// the order of identities, and then change existing rows, in the order of identities. So they
// cannot deadlock.
enum class Lane : uint8_t {
  Insert,
  Write,
  Read,
  Solo,  // In a batch of its own.
};

// Operations of one group may share a statement. Its columns, and those of the answer, are the
// group's own.
enum class Group : uint8_t {
  None,
  Claims,     // Answer: expires_at, attempt.
  Completes,  // Answer: attempt.
  Records,    // Answer: as ReadRecordMany.
  Responses,  // Answer: body, attempt.
};

// One call of a user: a small state machine that decides what to send, reads the result, and
// finally runs its callback, once. Used on the store's thread. Destroyed only when finished.
class Operation {
public:
  Operation(store::Deadline deadline, QueueBound::Ticket ticket)
      : deadline_(deadline), ticket_(std::move(ticket)) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  store::Deadline deadline() const { return deadline_; }

  // It is about to wait for its first batch. Under the engine's lock, like all that follows.
  virtual void onAccepted() {}

  // --- What is to be sent now.
  virtual Lane lane() const = 0;
  // Orders the operations of a lane; null: last.
  virtual const protocol::Identity* identity() const { return nullptr; }
  // Approximate size.
  virtual size_t bytes() const { return 0; }
  virtual size_t statementCount() const { return 1; }
  // Which statement, and its values, which may be views of this operation's members.
  virtual StatementId bind(size_t index, Parameters& parameters) const = 0;
  // What it may share a statement with now, and its part of it.
  virtual Group group() const { return Group::None; }
  virtual void bindMember(Arrays&) const {}
  // How its row of the answer is known; unused for Keys.
  virtual protocol::Attempt memberAttempt() const { return 0; }
  // Whether it is sent during shutdown: the outcome of an attempt. New claims are refused then.
  virtual bool isLastWord() const { return false; }

  // --- Its results.
  enum class Next : uint8_t { Finished, SendAgain };
  // What its statements returned, now durable. Also for one that is finished already.
  [[nodiscard]] virtual Next onResults(std::span<const Rows> results) = 0;
  // Sent; whether it took effect is unknown.
  [[nodiscard]] virtual Next onLost(const std::string& reason) = 0;
  // Certainly without effect, and will not be sent again.
  virtual void onRefused(const std::string& reason) = 0;
  // The deadline has passed. If sent, it may still take effect, and its results may still arrive.
  virtual void onDeadline(bool sent) = 0;

  // The callback has run.
  virtual bool finished() const = 0;

  // A claim that is or may be stored, and that no request will use.
  struct Orphan {
    store::ClaimRef claim;
    bool certain = false;  // It is stored.
    std::chrono::milliseconds lease{0};
  };
  virtual std::optional<Orphan> orphan() const { return std::nullopt; }
  // The caller no longer waits for this claim. False if it is another operation.
  virtual bool abandon(const store::ClaimRef&) { return false; }

  // --- Used by the sender.
  bool alone = false;  // It was in a batch that failed: now sent on its own.
  uint8_t tries = 0;   // How often it failed on its own.

private:
  const store::Deadline deadline_;
  QueueBound::Ticket ticket_;
};

// Runs a callback that has not run yet. It must not throw.
template <typename Result>
void callBack(std::function<void(Result)>& done, Result result) {
  if (done == nullptr) {
    return;
  }
  // Moved out first, so that it runs only once and its captures are destroyed.
  const auto callback = std::exchange(done, nullptr);
  try {
    callback(std::move(result));
  } catch (...) {
  }
}

using OperationPtr = std::unique_ptr<Operation>;

inline constexpr char DeadlineReason[] = "the deadline has passed";
inline constexpr char LockedReason[] = "another transaction has locked the record";

}  // namespace idempotency::postgres
