#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `idempotencyctl migrate`.
extern const Command MigrateCommand;

}  // namespace idempotency::cli
