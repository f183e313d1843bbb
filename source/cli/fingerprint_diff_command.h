#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `fingerprint diff`: whether two requests are the same for the filter, and if not, why.
extern const Command FingerprintDiffCommand;

}  // namespace idempotency::cli
