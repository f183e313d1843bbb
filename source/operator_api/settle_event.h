#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "source/operator_api/api_answer.h"
#include "source/operator_api/requests.h"
#include "source/store/operator_store.h"

namespace idempotency::operator_api {

// Settles the record that a webhook names. Events are delivered more than once: one that says what
// is settled already gets the same answer again, also if the key has been claimed again since.
[[nodiscard]] absl::StatusOr<ApiAnswer> settleEvent(const WebhookEvent& event,
                                                    const std::string& actor,
                                                    store::OperatorStore& store);

}  // namespace idempotency::operator_api
