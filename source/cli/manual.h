#pragma once

#include <span>
#include <string>

#include "source/cli/command.h"

namespace idempotency::cli {

// The manual page idempotencyctl(1), for man(1): troff with the macros of man(7).
std::string manualPage(std::span<const Command> commands);

// The same as sections of a Markdown page: the help of each command.
std::string markdownReference(std::span<const Command> commands);

}  // namespace idempotency::cli
