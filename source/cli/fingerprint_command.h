#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `fingerprint`: what the filter stores to distinguish requests.
extern const Command FingerprintCommand;

}  // namespace idempotency::cli
