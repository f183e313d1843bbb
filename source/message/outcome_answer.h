#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <absl/status/statusor.h>

#include "source/protocol/ending.h"
#include "source/protocol/reconcile.h"
#include "source/protocol/record.h"
#include "source/protocol/settings.h"

namespace idempotency::message {

// What came back when the upstream was asked about an attempt.
struct OutcomeAnswer {
  // Why no answer came, in words for an operator. Empty: one came.
  std::string failure;
  int status = 0;
  protocol::FieldList headers;  // Without pseudo-headers.
  std::string body;
};

// What the rules look at.
[[nodiscard]] protocol::SeenAnswer observe(const protocol::ReconcileSettings& settings,
                                           const OutcomeAnswer& answer,
                                           std::chrono::milliseconds claim_age);

// The result of the attempt, to be stored: the parts of the answer that settings.response names.
// Headers are left out as from every response (see fieldsToStore). An error says what is missing or
// of no use, and shows nothing of the answer.
[[nodiscard]] absl::StatusOr<protocol::Completed> resultOf(
    const protocol::ReconcileSettings& settings, const OutcomeAnswer& answer);

// The answer for the audit and the log: a rule's name, the status, or why there is none. Contains
// no text of the upstream's.
[[nodiscard]] std::string describe(const protocol::AnswerRule& rule, const OutcomeAnswer& answer);

}  // namespace idempotency::message
