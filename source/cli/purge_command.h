#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `tenants purge`.
extern const Command PurgeCommand;

}  // namespace idempotency::cli
