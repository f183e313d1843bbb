#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "source/protocol/ending.h"
#include "source/protocol/policy.h"
#include "source/protocol/record.h"
#include "source/store/record.h"

namespace idempotency::store {

// A time of this process's steady clock.
using MonotonicTime = std::chrono::steady_clock::time_point;
// The time at which an operation must have been answered.
using Deadline = MonotonicTime;

// --- Claim

// Claims an existing record again, by compare-and-set: state and attempt must still be the same,
// and by the store's clock:
//   FailedRetryable, Expired: always;
//   InProgress: its lease has expired, and both its claim and this one say RETRY: a claim under
//   UNKNOWN was promised that no other request runs; Completed: it has expired; Unknown: never.
// A record that no longer exists is claimed as new. One that has expired (Expired; Completed or
// FailedRetryable after its expiry) starts again: created now, recovery point "started". Any other
// record keeps both.
struct ReclaimFrom {
  protocol::RecordState state = protocol::RecordState::FailedRetryable;
  protocol::Attempt attempt = 0;
};

struct ClaimRequest {
  protocol::Identity identity;
  std::string fingerprint;
  protocol::Attempt attempt = 0;  // From newAttempt(): unique for each try.
  std::chrono::milliseconds lease{30'000};
  std::chrono::milliseconds ttl{86'400'000};
  // Stored in the record, for the sweeper and for requests that find it.
  protocol::LeaseExpired on_lease_expired = protocol::LeaseExpired::Unknown;
  // The upstream settles the record in its own transactions. Stored, for the functions that it calls
  // there; only PostgreSQL has them.
  bool own_transaction = false;
  std::optional<ReclaimFrom> from;  // None: claims only what is absent.
  // Limit for the tenant's unexpired records. Only a claim that would add one can be over quota; an
  // existing record is reported first.
  std::optional<uint64_t> tenant_live_keys;
};

// No result, and certainly nothing was stored or changed. `reason` is a short text for the log.
struct Unavailable {
  std::string reason;
  // The store was not called, because its queue in this process is full.
  bool queue_full = false;
};
// The statement may have taken effect. The store settles it itself (see Store).
struct InDoubt {
  std::string reason;
};
struct OverQuota {
  std::chrono::milliseconds retry_after{1000};
};
// The claim is durable and ours: the only result that permits calling the upstream.
struct Claimed {
  protocol::Attempt attempt = 0;
  StoreTime expires_at{};
  std::string
      recovery_point;  // "started" on a first run; on a re-claim, what an earlier attempt reached.
};
// There is a record already; nothing was changed. A re-claim of a record that another transaction
// has locked may get the record as it was before that transaction.
struct Exists {
  Record record;
};
// The first alternative refuses, so that a zeroed value refuses, too.
using ClaimResult = std::variant<Unavailable, InDoubt, OverQuota, Claimed, Exists>;

// --- Writes after the claim. Each names the attempt.

struct ClaimRef {
  protocol::Identity identity;
  protocol::Attempt attempt = 0;
  bool own_transaction = false;  // As in its request. Only settle() asks for it.
};

// The result of a write.
enum class WriteOutcome : uint8_t {
  Unavailable,  // Certainly not written.
  InDoubt,      // Perhaps written. Writes are safe to repeat: they name the attempt.
  // Certainly not written: another transaction has locked the record, which still belongs to this
  // attempt. Worth another try, even after the lease has expired.
  Locked,
  // The record no longer belongs to this attempt, or is not in progress: nothing was changed. A
  // completion is also accepted for an unknown record.
  Fenced,
  // Durable. Also if this attempt has already brought the record to this state (by an earlier try,
  // or by the upstream's own transaction): its content then stays unchanged.
  Done,
};
struct WriteResult {
  WriteOutcome outcome = WriteOutcome::Unavailable;
  std::string reason;
  // Done before this call, which changed nothing. Its content may be that of somebody else who has
  // settled the record: an operator, the reconciler, a webhook.
  bool repeated = false;
  // Only of a claim with own_transaction, and Done: its record as it was before this call, completed
  // in a transaction of the upstream, perhaps also by somebody else, or by an earlier try.
  std::optional<Record> completed = {};
};

// --- Look-up

struct Absent {};
using LookUpResult = std::variant<Unavailable, Absent, Record>;
using LookUpManyCallback = std::function<void(size_t place, LookUpResult)>;

// One result per claim, in the order of the request: Done = extended.
using ExtendResult = std::vector<WriteResult>;

// The state of a store, for statistics.
struct StoreStatus {
  uint64_t queued = 0;  // Operations that wait or are in progress.
  uint64_t queued_bytes = 0;
  bool refuses = false;     // It refuses operations immediately, because of an outage.
  uint64_t batches = 0;     // That have ended since its start, failed ones included.
  uint64_t operations = 0;  // In them.
  uint64_t batches_failed = 0;

  // Only of a store with connections.
  uint64_t connects = 0;
  uint64_t connections_lost = 0;  // Includes those that could not be opened.
  uint64_t orphans = 0;           // Claims that it must release but could not yet.
  std::string last_error;         // Of a connection or a batch; empty: none so far.
};

// Durable storage of identities. Any thread may call it; no call blocks. Every callback runs
// exactly once, on the store's own thread and never on the caller's stack: with the result, at the
// deadline, or when the store shuts down. A callback must not block, nor destroy the store.
//
// At a deadline, the result is Unavailable if the operation had not been sent, and InDoubt if it
// had. If the deadline has already passed, nothing is sent. The store itself releases a claim that
// ended InDoubt or was abandoned as soon as its result is known, even after a reconnect: no request
// ran with it.
//
// An expired lease alone does not fence an attempt: it may still write until the sweeper or a
// re-claim has changed the record.
class Store {
public:
  virtual ~Store() = default;

  virtual void claim(ClaimRequest request, Deadline deadline,
                     std::function<void(ClaimResult)> done) = 0;

  // The caller of claim() will not use it: withdraws the claim as Released does, now or when its
  // result is known. Its callback still runs. It gets Claimed only if it was already about to run;
  // that claim is withdrawn, too. Only a record in progress is changed, so a call after a later
  // write does no harm.
  virtual void abandon(ClaimRef claim) = 0;

  // Writes how the attempt ended.
  //   Completed: also settles this attempt's record if it has become Unknown. Its ttl, as long as
  //   at the claim, then starts again, and also where it has already passed: an expired completed
  //   record would run again, for clients that were told to retry. No other ending changes an
  //   unknown record, because that would free the key.
  //   Released: the record of a first claim is removed. A re-claimed one becomes FailedRetryable
  //   again and keeps its recovery point, because an earlier attempt may have reached it. Also Done
  //   if there is no record.
  //   Failed, Unknown: the record becomes FailedRetryable or Unknown, with the error.
  // With own_transaction it looks first. If this attempt's record is completed, that stays, whatever
  // the ending is: Done, and the result has the record.
  virtual void settle(ClaimRef claim, protocol::Ending ending, Deadline deadline,
                      std::function<void(WriteResult)> done) = 0;
  // Heartbeat: extends the leases of many claims, each from the store's current time.
  virtual void extend(std::vector<ClaimRef> claims, std::chrono::milliseconds lease,
                      Deadline deadline, std::function<void(ExtendResult)> done) = 0;

  virtual void lookUp(protocol::Identity identity, Deadline deadline,
                      std::function<void(LookUpResult)> done) = 0;
  // Many lookups in one call, which is cheaper. `done` runs once for each, with its index in the
  // identities, in any order.
  virtual void lookUpMany(std::vector<protocol::Identity> identities, Deadline deadline,
                          LookUpManyCallback done) = 0;

  // The current or a very recent state.
  virtual StoreStatus status() const = 0;
};

// A new fencing token: uniform in 1 … 2^63 - 1, from the kernel's random source. Any thread. If the
// kernel fails it is 0, which every store refuses.
[[nodiscard]] protocol::Attempt newAttempt();

}  // namespace idempotency::store
