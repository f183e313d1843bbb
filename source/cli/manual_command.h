#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `man`.
extern const Command ManualCommand;

}  // namespace idempotency::cli
