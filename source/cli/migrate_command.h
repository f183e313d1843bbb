#pragma once

#include "source/cli/command.h"

namespace idempotency {

// `idempotencyctl migrate`.
extern const Command MigrateCommand;

}  // namespace idempotency
