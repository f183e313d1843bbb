#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `key parse`: what the filter reads from an Idempotency-Key header.
extern const Command KeyParseCommand;

}  // namespace idempotency::cli
