#pragma once

#include "source/cli/command.h"

namespace idempotency {

// `fingerprint`: what the filter would store to tell one request from another.
extern const Command FingerprintCommand;

}  // namespace idempotency
