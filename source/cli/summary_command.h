#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `summary`.
extern const Command SummaryCommand;

}  // namespace idempotency::cli
