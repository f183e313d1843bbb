#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// What an operator does to one record: `records resolve`, `ask-again`, `release` and `bust`.
extern const Command ResolveCommand;
extern const Command AskAgainCommand;
extern const Command ReleaseCommand;
extern const Command BustCommand;

}  // namespace idempotency::cli
