#pragma once

#include "source/config/field_errors.h"
#include "source/protocol/policy.h"

namespace idempotency::v1 {
class Policy;
}

namespace idempotency::config {

// The route's fields over the filter's: a field that the route does not set has the filter's value.
// Messages and lists are replaced as a whole.
v1::Policy overlayPolicy(const v1::Policy& route, v1::Policy filter);

// Reads a policy, with defaults for fields that are not set. Adds what is wrong to `errors`, with
// paths that start with "policy."; the returned value is valid only if it added nothing. Fields
// that contradict each other are reported only if each of them is right by itself.
protocol::Policy readPolicy(const v1::Policy& message, FieldErrors& errors);

}  // namespace idempotency::config
