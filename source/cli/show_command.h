#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `records show`.
extern const Command ShowCommand;

}  // namespace idempotency::cli
