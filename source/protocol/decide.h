#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "source/key/key.h"
#include "source/protocol/policy.h"
#include "source/protocol/problem.h"
#include "source/protocol/record.h"
#include "source/protocol/request_age.h"

namespace idempotency::protocol {

// The decisions of the filter, in two steps: from the request alone, and from what the store found;
// and what the status resource of a run says. All are pure functions. Nothing here reads a clock:
// the store's clock decides whether a lease is alive or a record has expired, and the result is
// passed in as a fact.

// --- Facts
// ------------------------------------------------------------------------------------------------

struct RequestFacts {
  std::string_view method = {};
  std::optional<key::KeyRefusal> key_problem = {};  // None: the key is good.
  bool tenant_known = false;
  RequestAge age = RequestAge::Fresh;  // Also Fresh if the policy does not check the age.
  bool body_too_large = false;         // Over the policy's max_request_bytes.
  bool upgrade = false;                // Asks for a protocol upgrade.
  bool awaits_continue = false;        // The client sends the body only after a 100 (Continue).
};

// Whether the request is the same one that the record was created for.
enum class FingerprintMatch : uint8_t {
  Unverifiable,  // This build cannot compute the version of the record's fingerprint.
  Different,
  Same,
};

// A record as the store found it, evaluated by the store's clock.
struct RecordFacts {
  RecordState state = RecordState::Unknown;
  FingerprintMatch match = FingerprintMatch::Unverifiable;
  Attempt attempt = 0;
  bool lease_alive = false;                               // InProgress only.
  LeaseExpired on_lease_expired = LeaseExpired::Unknown;  // Of the policy it was claimed under.
  bool past_life = false;  // It has expired. Relevant for Completed and FailedRetryable.
  std::chrono::milliseconds claim_age{0};  // Since its attempt claimed it, by the store's clock.
  bool has_response = false;               // Completed: there is a complete, readable response.
  int status = 0;                          // Completed: the status of the response, stored or not.
  // Unknown: time until the next reconciliation call. None if there is no reconciliation.
  std::optional<std::chrono::seconds> reconcile_after = {};
};

// The result of asking the store for a claim.
struct StoreFailed {
  // Down, slow, breaker open, wrong schema, in doubt: there is no certain claim.
  std::optional<std::chrono::seconds> retry_after = {};
};
// This process has reached a limit: requests, bytes, or queued store operations. The store may be
// healthy, so the policy for store failures does not apply.
struct NoRoom {};
struct QuotaReached {
  std::chrono::seconds retry_after{1};
};
struct ClaimGranted {
};  // The claim is durable and ours: the only fact that permits calling the upstream.
struct RecordFound {
  RecordFacts record = {};
};
using StoreResult = std::variant<StoreFailed, NoRoom, QuotaReached, ClaimGranted, RecordFound>;

// The result of asking for the status of a run.
struct RecordAbsent {};
using StatusResult = std::variant<StoreFailed, NoRoom, QuotaReached, RecordAbsent, RecordFound>;

// Further facts for the decision after the store responded.
struct ClaimFacts {
  // How long the request has been held for another one so far.
  std::chrono::milliseconds waited{0};
  // An asynchronous request: how long it is held at most, in place of the policy's `in_flight`.
  std::optional<std::chrono::milliseconds> async_wait = {};
};

// --- Decisions
// --------------------------------------------------------------------------------------------

enum class PassReason : uint8_t {
  Uncovered,      // The route does not enforce keys, or the method is not covered.
  NoKey,          // Keys are optional and the request has none.
  StoreFailOpen,  // The store failed and the policy is FAIL_OPEN: unprotected, and counted.
};

struct Pass {
  PassReason reason = PassReason::Uncovered;
  bool operator==(const Pass&) const = default;
};
// Ask the store to claim the identity, then decide again with the result.
struct Claim {
  bool operator==(const Claim&) const = default;
};
// Ask the store to claim again, by compare-and-set on what was found, then decide again.
struct Reclaim {
  RecordState from_state = RecordState::FailedRetryable;
  Attempt from_attempt = 0;
  bool operator==(const Reclaim&) const = default;
};
// Call the upstream.
struct Run {
  bool operator==(const Run&) const = default;
};
// Send the stored response.
struct Replay {
  bool operator==(const Replay&) const = default;
};
// Hold the request until the record changes, up to this time; then look it up and decide again.
struct Wait {
  std::chrono::milliseconds at_most{0};
  bool operator==(const Wait&) const = default;
};

// Before the store is called.
using RequestDecision = std::variant<Answer, Pass, Claim>;
// After it responded. The first alternative refuses, so that a zeroed value refuses, too.
using Decision = std::variant<Answer, Pass, Reclaim, Run, Replay, Wait>;
// For the status of a run. Nothing runs because of it.
using StatusDecision = std::variant<Answer, Replay>;

[[nodiscard]] RequestDecision decideRequest(const Policy& policy, const RequestFacts& facts);

[[nodiscard]] Decision decide(const Policy& policy, const ClaimFacts& facts,
                              const StoreResult& result);

[[nodiscard]] StatusDecision decideStatus(const Policy& policy, const StatusResult& result);

}  // namespace idempotency::protocol
