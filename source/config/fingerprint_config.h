#pragma once

#include "source/config/field_errors.h"
#include "source/protocol/policy.h"

namespace idempotency::v1 {
class Fingerprint;
}

namespace idempotency::config {

// Reads policy.fingerprint into the policy's `fingerprint` and `principal`. Adds what is wrong to
// `errors`.
void readFingerprint(const v1::Fingerprint& message, protocol::Policy& policy, FieldErrors& errors);

}  // namespace idempotency::config
