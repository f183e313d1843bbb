#include "source/cli/completion_command.h"

#include <array>
#include <fmt/format.h>
#include <optional>
#include <string_view>

#include <absl/status/status.h>

#include "source/cli/completion.h"
#include "source/cli/printable.h"

namespace idempotency::cli {
namespace {

constexpr std::array<Operand, 1> Operands = {{
    {"bash|zsh|fish", "the shell"},
}};

std::optional<Shell> shellNamed(std::string_view name) {
  if (name == "bash") {
    return Shell::Bash;
  }
  if (name == "zsh") {
    return Shell::Zsh;
  }
  if (name == "fish") {
    return Shell::Fish;
  }
  return std::nullopt;
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  const std::string_view name = arguments.operands().front();
  const auto shell = shellNamed(name);
  if (!shell.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("unknown shell {}; must be bash, zsh or fish", printable(name)));
  }
  console.out << completionScript(*shell, console.commands);
  return ExitCode::Done;
}

}  // namespace

const Command CompletionCommand = {
    .words = "completion",
    .summary = "print a script that completes commands and options in your shell",
    .description =
        "Prints a script for bash, zsh or fish.\n\n"
        "  bash  source <(idempotencyctl completion bash)\n"
        "  zsh   source <(idempotencyctl completion zsh)\n"
        "  fish  idempotencyctl completion fish | source",
    .options = {},
    .operands = Operands,
    .run = run,
};

}  // namespace idempotency::cli
