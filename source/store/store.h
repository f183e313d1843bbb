#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "source/protocol/policy.h"
#include "source/protocol/record.h"
#include "source/store/record.h"

namespace idempotency {

// A moment by this process's steady clock, for deadlines of waiting only.
using Deadline = std::chrono::steady_clock::time_point;

// --- Claim

// Re-claims a record that was found, by compare-and-set on what was found: state and attempt must
// still be the same, and the reason must hold by the store's clock:
//   FailedRetryable, Expired: always;
//   InProgress: its lease has run out (whether policy then wants a re-run is the caller's to
//   judge); Completed: its life is over; Unknown: never.
// A record that has gone meanwhile is claimed as new. One that is over (Expired; Completed or
// FailedRetryable past its life) starts a new life: created now, recovery point "started". Any
// other keeps both.
struct ReclaimFrom {
  RecordState state = RecordState::FailedRetryable;
  Attempt attempt = 0;
};

struct ClaimRequest {
  Identity identity;
  std::string fingerprint;
  Attempt attempt = 0;  // From newAttempt(): unique to this try.
  std::chrono::milliseconds lease{30'000};
  std::chrono::milliseconds ttl{86'400'000};
  LeaseExpired on_lease_expired = LeaseExpired::Unknown;  // Kept with the record, for the sweeper.
  std::optional<ReclaimFrom> from;                        // None: claims only what is absent.
  // Cap of the tenant's records that are within their life and not expired. Only a claim that would
  // add to them is over quota; a record that exists is told first.
  std::optional<uint64_t> tenant_live_keys;
};

// No answer, and for sure nothing of ours is stored or changed. `reason` is a short code in words
// for the log.
struct Unavailable {
  std::string reason;
};
// The statement may have taken effect. The store settles it by itself (see Store).
struct InDoubt {
  std::string reason;
};
struct OverQuota {
  std::chrono::milliseconds retry_after{1000};
};
// The claim is durable and ours: the only result that lets the upstream be called.
struct Claimed {
  Attempt attempt = 0;
  StoreTime expires_at{};
  std::string
      recovery_point;  // "started" on a first run; what an earlier attempt reached on a re-claim.
};
// Somebody's record is there; nothing was changed.
struct Exists {
  Record record;
};
// First the alternative that refuses, so that a zeroed value does.
using ClaimResult = std::variant<Unavailable, InDoubt, OverQuota, Claimed, Exists>;

// --- Writes after the claim. Each names the attempt.

struct ClaimRef {
  Identity identity;
  Attempt attempt = 0;
};

struct CompleteRequest {
  ClaimRef claim;
  int32_t status = 0;
  Tombstone tombstone = Tombstone::None;
  int16_t response_schema = 0;
  std::string response;                          // Opaque bytes; empty with a tombstone.
  std::optional<std::chrono::milliseconds> ttl;  // A new life from now on; none: as at the claim.
};

struct FailRequest {
  ClaimRef claim;
  std::string error;  // A code.
};

struct UnknownRequest {
  ClaimRef claim;
  std::string error;                                         // A code.
  std::optional<std::chrono::milliseconds> reconcile_after;  // None: nobody will ask the upstream.
};

// What is known of a write.
enum class WriteOutcome : uint8_t {
  Unavailable,  // Not written, for sure.
  InDoubt,      // Perhaps written. Writes are safe to repeat: they name the attempt.
  Fenced,  // The record is not this attempt's any more, or not in progress: nothing was changed.
  // Durable. Also when the record already is in the state that this write leads to, by this attempt
  // (an earlier try, or the upstream's own transaction): its content then stays as it is. A record
  // that was given up meanwhile is none such.
  Done,
};
struct WriteResult {
  WriteOutcome outcome = WriteOutcome::Unavailable;
  std::string reason;
};

// --- Look-up

struct Absent {};
using LookUpResult = std::variant<Unavailable, Absent, Record>;

// One result per claim, in the order of the request: Done = extended.
using ExtendResult = std::vector<WriteResult>;

// What goes on inside a store, for statistics.
struct StoreStatus {
  uint64_t queued = 0;  // Operations that wait or are under way.
  uint64_t queued_bytes = 0;
  bool refuses = false;     // It refuses at once: the database is in trouble.
  uint64_t batches = 0;     // Sent or committed since its start.
  uint64_t operations = 0;  // In them.
};

// The durable memory of identities. Any thread may call; no call blocks. Every callback runs
// exactly once, on the store's own thread and never on the caller's stack: with the result, at the
// deadline, or when the store stops. A callback must not block, nor destroy the store.
//
// At a deadline the result is Unavailable if the operation had not been sent, InDoubt if it had;
// with a deadline that is already over nothing is sent. A claim that ended InDoubt, and one that
// was abandoned, is released by the store itself as soon as its fate is known, also after a
// reconnect: nobody ran for it.
//
// A lease that ran out fences nobody by itself: the attempt may still write until the sweeper or a
// re-claim has moved the record.
class Store {
public:
  virtual ~Store() = default;

  virtual void claim(ClaimRequest request, Deadline deadline,
                     std::function<void(ClaimResult)> done) = 0;

  // Whoever called claim() will not use it: withdraws the claim as release() does, now or when its
  // fate is known. Its callback still runs; it says Claimed only if it was about to run already,
  // and that claim is withdrawn, too. Only a record in progress is touched, so a call after a later
  // write does no harm.
  virtual void abandon(ClaimRef claim) = 0;

  virtual void complete(CompleteRequest request, Deadline deadline,
                        std::function<void(WriteResult)> done) = 0;
  virtual void fail(FailRequest request, Deadline deadline,
                    std::function<void(WriteResult)> done) = 0;
  // The upstream was surely not called by this attempt: a first claim's record goes. A re-claimed
  // one goes back to FailedRetryable and keeps its recovery point, since an earlier attempt may
  // have got that far. Done also when no record is there.
  virtual void release(ClaimRef claim, Deadline deadline,
                       std::function<void(WriteResult)> done) = 0;
  virtual void markUnknown(UnknownRequest request, Deadline deadline,
                           std::function<void(WriteResult)> done) = 0;
  // Heartbeat: renews the leases of many claims at once, each from the store's now.
  virtual void extend(std::vector<ClaimRef> claims, std::chrono::milliseconds lease,
                      Deadline deadline, std::function<void(ExtendResult)> done) = 0;

  virtual void lookUp(Identity identity, Deadline deadline,
                      std::function<void(LookUpResult)> done) = 0;

  // As it is now, or was a moment ago.
  virtual StoreStatus status() const = 0;
};

// A fresh fencing token: uniform in 1 … 2^63 - 1, from the kernel's random source. Any thread. If
// the kernel gives none it is 0, which every store refuses.
[[nodiscard]] Attempt newAttempt();

}  // namespace idempotency
