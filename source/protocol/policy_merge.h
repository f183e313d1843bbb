#pragma once

#include "source/protocol/field_errors.h"
#include "source/protocol/policy.h"
#include "source/protocol/policy_fields.h"

namespace idempotency {

// Each field from the route if it has it, else from the filter, else the default. Fields that
// contradict each other go to `errors`.
Policy mergePolicy(const PolicyFields& route, const PolicyFields& filter, FieldErrors& errors);

}  // namespace idempotency
