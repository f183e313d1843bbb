#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `watch`.
extern const Command WatchCommand;

}  // namespace idempotency::cli
