#pragma once

#include "source/fingerprint/fingerprint_input.h"
#include "source/fingerprint/framing.h"
#include "source/fingerprint/json_rejection.h"

namespace idempotency {

// How the body was taken.
struct BodyOutcome {
  BodyForm form;
  JsonRejection rejection = JsonRejection::None;
};

// Turns a request into the parts that count by version 1 of the algorithm, in the order of hashing.
BodyOutcome writeRequestParts(const RequestParts& parts, const FingerprintRules& rules,
                              PartSink& sink);

}  // namespace idempotency
