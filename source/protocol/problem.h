#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "source/key/key.h"

namespace idempotency {

// Every answer that the filter gives instead of the upstream's, apart from replays.
enum class Problem : uint8_t {
  StoreUnavailable,     // 503. First, so that a zeroed value refuses and promises nothing.
  KeyMissing,           // 400
  KeyInvalid,           // 400
  TenantMissing,        // 403
  KeyReused,            // By policy: 422, 400 or 409.
  InProgress,           // 409
  Accepted,             // 202: the same situation where the policy says ACCEPTED.
  OutcomeUnknown,       // 409
  ResponseUnavailable,  // 409
  KeyExpired,           // 410
  QuotaExceeded,        // 429
  RequestTooLarge,      // 413
  RequestTooOld,        // 400
  RecordUnreadable,     // 503: a record that this version of the filter cannot judge.
  ConfigInvalid,        // 500: the route's policy contradicts the filter's.
  UpgradeRefused,       // 400: an answer that never ends as one cannot be replayed.
};

// What an answer says beyond its problem.
struct Answer {
  Problem problem = Problem::StoreUnavailable;
  std::optional<std::chrono::seconds> retry_after = {};
  std::optional<KeyProblem> key_problem = {};  // KeyInvalid: what is wrong.
  std::optional<int> original_status = {};  // ResponseUnavailable: the status of the first answer.
  bool operator==(const Answer&) const = default;
};

// All that is fixed about a problem.
struct ProblemText {
  Problem problem;
  std::string_view code;  // For clients and counters; never changes: "idempotency_key_missing".
  int status;             // HTTP; KeyReused takes the policy's instead.
  std::string_view title;
  std::string_view detail;
  std::string_view stripe_type;
  std::string_view stripe_code = {};  // Where that API has its own word; else `code`.
  int grpc_status;
};

const ProblemText& problemText(Problem problem);
std::string_view problemCode(Problem problem);

// All of them, in the enum's order.
std::span<const ProblemText> problemTexts();

}  // namespace idempotency
