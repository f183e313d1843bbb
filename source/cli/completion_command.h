#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `completion SHELL`.
extern const Command CompletionCommand;

}  // namespace idempotency::cli
