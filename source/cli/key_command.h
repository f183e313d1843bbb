#pragma once

#include "source/cli/command.h"

namespace idempotency {

// `key parse`: what the filter would read from an Idempotency-Key header.
extern const Command KeyParseCommand;

}  // namespace idempotency
