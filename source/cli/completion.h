#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "source/cli/command.h"

namespace idempotency::cli {

enum class Shell : uint8_t { Bash, Zsh, Fish };

// A script that completes the program's commands, options and listed values in a shell.
std::string completionScript(Shell shell, std::span<const Command> commands);

}  // namespace idempotency::cli
