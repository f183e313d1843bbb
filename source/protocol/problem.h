#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "source/key/key.h"

namespace idempotency::protocol {

// Every answer that the filter gives in place of the upstream's, apart from replays.
enum class Problem : uint8_t {
  StoreUnavailable,     // 503. First, so that a zeroed value refuses the request.
  KeyMissing,           // 400
  KeyInvalid,           // 400
  TenantMissing,        // 403
  KeyReused,            // By policy: 422, 400 or 409.
  InProgress,           // 409
  Accepted,             // 202: the same situation, with ACCEPTED in the policy.
  OutcomeUnknown,       // 409
  ResponseUnavailable,  // 409
  KeyExpired,           // 410
  UnknownExpired,       // 410: the outcome is unknown, and unknown_retention has passed.
  QuotaExceeded,        // 429
  RequestTooLarge,      // 413
  RequestTooOld,        // 400
  RecordUnreadable,     // 503: this version of the filter cannot read the record.
  ConfigInvalid,        // 500: the route's policy conflicts with the filter's.
  UpgradeRefused,       // 400: an upgraded connection cannot be replayed.
  Overloaded,           // 503: this process has reached its limits.
  ExpectationFailed,    // 417: the client waits for a 100 that the filter cannot send.
  DetachedUnavailable,  // 503: a detached run could not be started.
  DetachedTimeout,      // 504: a detached run exceeded its time.
  DetachedLost,         // 502: a detached run ended without a complete response.
  Asynchronous,         // 202: the request runs, and the client gets its response later.
  RunNotFound,          // 404, of the status resource: there is no record.
  RunNotCompleted,      // 409, of the status resource: the request may be sent again.
};

// A problem, and what an answer says in addition.
struct Answer {
  Problem problem = Problem::StoreUnavailable;
  std::optional<std::chrono::seconds> retry_after = {};
  std::optional<key::KeyRefusal> key_problem = {};  // KeyInvalid: why.
  std::optional<int> original_status = {};  // ResponseUnavailable: status of the first response.
  bool operator==(const Answer&) const = default;
};

// The fixed part of the answer to a problem.
struct ProblemText {
  Problem problem;
  std::string_view code;  // For clients and counters; never changes: "idempotency_key_missing".
  int status;             // HTTP; for KeyReused, the policy overrides it.
  std::string_view title;
  std::string_view detail;
  std::string_view stripe_type;
  std::string_view stripe_code = {};  // Stripe's own code, if it has one; else `code`.
  int grpc_status;
};

const ProblemText& problemText(Problem problem);
std::string_view problemCode(Problem problem);

// All of them, in the enum's order.
std::span<const ProblemText> problemTexts();

}  // namespace idempotency::protocol
