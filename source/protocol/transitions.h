#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "source/protocol/record.h"

namespace idempotency {

// What can happen to a record. All but Claim, Expire, Delete and Bust name the attempt that they
// are about: a store changes nothing when the record has another (the writer is fenced off).
enum class RecordEvent : uint8_t {
  Claim,    // A request claims an identity that is absent.
  Reclaim,  // A request claims again, by compare-and-set on state and attempt; a new attempt
            // begins.
  ReclaimDeadLease,  // The same, where the policy says RETRY for a lease that ran out.
  Complete,          // The attempt's result is known and stored.
  Fail,              // The attempt ended without a result; policy lets the next request run.
  Release,           // The attempt surely did not run: a first claim goes.
  HandBack,          // The same for a re-claim: the record stays, since an earlier attempt had it.
  LoseOutcome,       // The attempt's outcome is not known.
  RunOutOfLease,     // The sweeper found no heartbeat.
  AllowRetry,        // The same, where the policy says RETRY: the next request may claim.
  ResolveCompleted,  // Reconciliation, operator or the upstream's own transaction: it ran, with
                     // this result.
  ResolveFailed,     // … it did not run.
  GiveUp,  // Past its life, without a live lease and not settled: ends as a failed result (408).
  Expire,  // Past its life, kept for audit.
  Delete,  // Past its life, removed.
  Bust,    // An operator removes the record, whatever its state.
};

// Where a record can be; none means that there is no record.
using RecordPlace = std::optional<RecordState>;

struct Transition {
  RecordPlace from;
  RecordEvent event;
  RecordPlace to;
};

// Every legal transition, the only place where they stand. What is not in it must not happen.
std::span<const Transition> legalTransitions();

// Null if the event must not happen there.
[[nodiscard]] const Transition* findTransition(RecordPlace from, RecordEvent event);

// Lower-case words for logs, metrics and the command line: "in_progress".
std::string_view name(RecordState state);
std::string_view name(RecordEvent event);

}  // namespace idempotency
