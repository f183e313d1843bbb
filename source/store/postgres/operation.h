#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "source/store/postgres/parameters.h"
#include "source/store/postgres/pq.h"
#include "source/store/postgres/queue_bound.h"
#include "source/store/postgres/rows.h"
#include "source/store/postgres/statements.h"
#include "source/store/store.h"

namespace idempotency::postgres {

// When a statement stands within its batch. Lock order: all batches of all processes first insert,
// in the order of identities, and then change existing rows, in the order of identities. Then no
// two of them wait for each other in a circle.
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
  Keys,       // Answer: as ReadKeyMany.
  Responses,  // Answer: body, attempt.
};

// One call of a user: a small state machine that says what to send, reads the answer, and in the
// end runs its callback, once. Lives on the store's thread. Destroyed only when finished.
class Operation {
public:
  Operation(Deadline deadline, QueueBound::Ticket ticket)
      : deadline_(deadline), ticket_(std::move(ticket)) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  Deadline deadline() const { return deadline_; }

  // --- What is to be sent now.
  virtual Lane lane() const = 0;
  // Orders the operations of a lane; null: last.
  virtual const Identity* identity() const { return nullptr; }
  // About how much is sent.
  virtual size_t bytes() const { return 0; }
  virtual size_t statementCount() const { return 1; }
  // Which statement, and its values. They may show what this operation holds.
  virtual StatementId bind(size_t index, Parameters& parameters) const = 0;
  // What it may share a statement with now, and its part of it.
  virtual Group group() const { return Group::None; }
  virtual void bindMember(Arrays&) const {}
  // How its row of the answer is known; unused for Keys.
  virtual Attempt memberAttempt() const { return 0; }
  // Worth sending while the store stops: how an attempt ended. What wants to begin is refused then.
  virtual bool isLastWord() const { return false; }
  // A claim under a quota: two at once would not see each other.
  virtual const std::string* countedTenant() const { return nullptr; }

  // --- What became of it.
  enum class Next : uint8_t { Finished, SendAgain };
  // What its statements returned, now durable. Also for one that is finished already.
  [[nodiscard]] virtual Next onResults(std::span<const Rows> results) = 0;
  // Sent, and whether it took effect cannot be known.
  [[nodiscard]] virtual Next onLost(const std::string& reason) = 0;
  // Surely without effect, and will not be sent again.
  virtual void onRefused(const std::string& reason) = 0;
  // The deadline came. Sent: it may still take effect, and its results may still come.
  virtual void onDeadline(bool sent) = 0;

  // The callback has run.
  virtual bool finished() const = 0;

  // A claim that is stored, or may be, and that nobody will use.
  struct Leftover {
    ClaimRef claim;
    bool certain = false;  // It is stored.
    std::chrono::milliseconds lease{0};
  };
  virtual std::optional<Leftover> leftover() const { return std::nullopt; }
  // Nobody waits for this claim any more. False: it is another operation.
  virtual bool abandon(const ClaimRef&) { return false; }

  // --- Kept for whoever sends it.
  bool alone = false;  // It was in a batch that failed: now without company.
  uint8_t tries = 0;   // How often it failed alone.

private:
  const Deadline deadline_;
  QueueBound::Ticket ticket_;
};

// Runs a callback that has not run yet; whoever wrote it must not throw, and harms only itself.
template <typename Result>
void callBack(std::function<void(Result)>& done, Result result) {
  if (done == nullptr) {
    return;
  }
  // Moved out first: it runs once, and what it holds goes with it.
  const auto callback = std::exchange(done, nullptr);
  try {
    callback(std::move(result));
  } catch (...) {
  }
}

using OperationPtr = std::unique_ptr<Operation>;

inline constexpr char DeadlineReason[] = "the deadline passed";

}  // namespace idempotency::postgres
