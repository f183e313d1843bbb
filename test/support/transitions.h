#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "source/protocol/record.h"

namespace idempotency {

// What can happen to a record. All events but Claim, Expire, Delete and Bust name an attempt: if
// the record has another one, a store changes nothing (the writer is fenced off).
enum class RecordEvent : uint8_t {
  Claim,    // A request claims an identity that is absent.
  Reclaim,  // A request claims again, by compare-and-set on state and attempt; a new attempt
            // begins.
  ReclaimDeadLease,  // The same with an expired lease and on_lease_expired RETRY.
  Complete,          // The attempt's result is known and stored, perhaps late, after RunOutOfLease.
  Fail,              // The attempt ended without a result; the policy lets the next request run.
  Release,           // The attempt certainly did not run: a first claim is removed.
  HandBack,       // The same for a re-claim: the record stays, because an earlier attempt had it.
  LoseOutcome,    // The attempt's outcome is not known.
  RunOutOfLease,  // The sweeper found no heartbeat.
  AllowRetry,     // The same with on_lease_expired RETRY: the next request may claim.
  ResolveCompleted,  // Reconciliation, operator or the upstream's own transaction: it ran, with
                     // this result.
  ResolveFailed,     // … it did not run.
  Expire,            // Settled and expired, kept for audit.
  Delete,            // Settled and expired, removed.
  Bust,              // An operator removes the record, whatever its state.
};

// The state of a record; none means that there is no record.
using RecordPlace = std::optional<protocol::RecordState>;

struct Transition {
  RecordPlace from;
  RecordEvent event;
  RecordPlace to;
};

// All legal transitions, defined only here. Others must not happen.
std::span<const Transition> legalTransitions();

// Null if the event must not happen there.
[[nodiscard]] const Transition* findTransition(RecordPlace from, RecordEvent event);

// Lower-case words for what a test prints: "in_progress".
std::string_view name(protocol::RecordState state);
std::string_view name(RecordEvent event);

}  // namespace idempotency
