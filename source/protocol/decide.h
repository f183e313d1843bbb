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

namespace idempotency {

// The decisions of the filter, in two steps: what the request alone tells, and what the store
// found. Both are pure. Nothing here reads a clock: whether a lease is alive or a record past its
// life is for the store's clock to say, and comes as a fact.

// --- Facts
// ------------------------------------------------------------------------------------------------

struct RequestFacts {
  std::string_view method = {};
  std::optional<KeyProblem> key_problem = {};  // None: the key is good.
  bool tenant_known = false;
  RequestAge age = RequestAge::Fresh;  // Fresh also where the policy asks for no age.
  bool body_too_large = false;         // Over the policy's max_request_bytes.
  bool upgrade = false;                // Wants another protocol on its connection.
};

// Whether the request is the one that the record was made for.
enum class FingerprintMatch : uint8_t {
  Unverifiable,  // The record's fingerprint is of a version that this build cannot compute.
  Different,
  Same,
};

// A record as the store found it, judged by the store's clock.
struct RecordFacts {
  RecordState state = RecordState::Unknown;
  FingerprintMatch match = FingerprintMatch::Unverifiable;
  Attempt attempt = 0;
  bool lease_alive = false;  // InProgress only.
  bool past_life = false;  // Its expiry is over. Means something in Completed and FailedRetryable.
  bool has_response = false;  // Completed: a whole, readable response is there.
  int status = 0;             // Completed: the status of the response, stored or not.
  // Unknown: how long until reconciliation asks again. None: nobody is asking.
  std::optional<std::chrono::seconds> reconcile_after = {};
};

// What became of asking the store to claim the identity.
struct StoreFailed {
  // Down, slow, breaker open, schema wrong, queue full, in doubt: nothing was claimed for sure.
  std::optional<std::chrono::seconds> retry_after = {};
};
struct QuotaReached {
  std::chrono::seconds retry_after{1};
};
struct ClaimGranted {
};  // The claim is durable and ours: the only fact that lets the upstream be called.
struct RecordFound {
  RecordFacts record = {};
};
using StoreResult = std::variant<StoreFailed, QuotaReached, ClaimGranted, RecordFound>;

// The rest of what decides after the store answered.
struct ClaimFacts {
  // The attempt that this very request already holds (an internal redirect made it come again). 0:
  // none.
  Attempt own_attempt = 0;
  // How long the request has been held by a WAIT policy so far.
  std::chrono::milliseconds waited{0};
};

// --- Decisions
// --------------------------------------------------------------------------------------------

enum class PassReason : uint8_t {
  Uncovered,      // The route does not enforce keys, or the method is not covered.
  NoKey,          // Keys are optional and the request has none.
  StoreFailOpen,  // The store failed and the policy says FAIL_OPEN: unprotected, loudly counted.
};

struct Pass {
  PassReason reason = PassReason::Uncovered;
  bool operator==(const Pass&) const = default;
};
// Ask the store to claim the identity, then decide again with its answer.
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
// Hold the request until the record changes, at most so long; then look again and decide again.
struct Wait {
  std::chrono::milliseconds at_most{0};
  bool operator==(const Wait&) const = default;
};

// Before the store is asked.
using RequestDecision = std::variant<Answer, Pass, Claim>;
// After it answered. The first alternative refuses, so that a zeroed value does.
using Decision = std::variant<Answer, Pass, Reclaim, Run, Replay, Wait>;

[[nodiscard]] RequestDecision decideRequest(const Policy& policy, const RequestFacts& facts);

[[nodiscard]] Decision decide(const Policy& policy, const ClaimFacts& facts,
                              const StoreResult& result);

}  // namespace idempotency
