#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `records list`.
extern const Command ListCommand;

}  // namespace idempotency::cli
