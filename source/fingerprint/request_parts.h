#pragma once

#include <cstdint>

#include "source/fingerprint/fingerprint_input.h"
#include "source/fingerprint/framing.h"
#include "source/fingerprint/json_rejection.h"

namespace idempotency::fingerprint {

// How the body was included.
struct BodyOutcome {
  BodyForm form;
  JsonRejection rejection = JsonRejection::None;
};

// Converts a request to the parts that are compared by this version of the algorithm, 1 or 2, in
// the order of hashing. The behavior of a version never changes, because records contain its
// results.
BodyOutcome writeRequestParts(const RequestParts& parts, const FingerprintRules& rules,
                              uint8_t version, PartSink& sink);

}  // namespace idempotency::fingerprint
