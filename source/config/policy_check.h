#pragma once

#include "source/config/field_errors.h"
#include "source/protocol/policy.h"

namespace idempotency::config {

// Adds the fields that contradict each other to `errors`. Each of them is right by itself.
void checkAgreement(const protocol::Policy& policy, FieldErrors& errors);

}  // namespace idempotency::config
