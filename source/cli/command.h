#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "source/cli/arguments.h"

namespace idempotency::cli {

// What the program reports to its caller. Scripts rely on the numbers.
enum class ExitCode : int {
  Done = 0,
  Refused = 1,      // The answer is no: not a key, not the same request, no such record.
  Usage = 2,        // The command line, or a file that it names, cannot be used.
  Unreachable = 3,  // The store cannot be reached or used.
};

struct Command;

struct Console {
  std::ostream& out;
  std::ostream& err;
  // Asks the person at the terminal, and returns the line that they type. None: no one is there.
  std::function<std::optional<std::string>(std::string_view question)> ask{};
  // All commands of the program. Set by runCommandLine().
  std::span<const Command> commands{};
};

// A subcommand. An error of `run` goes to stderr; the exit code is then Usage for InvalidArgument,
// Unreachable for Unavailable, else Refused.
struct Command {
  std::string_view words;        // What selects it: "key parse".
  std::string_view summary;      // One line, for the list of commands.
  std::string_view description;  // Paragraphs, for its own help.
  std::span<const Option> options;
  std::span<const Operand> operands;
  absl::StatusOr<ExitCode> (*run)(const Arguments& arguments, Console& console);
};

inline constexpr std::string_view Program = "idempotencyctl";

// What the numbers mean, for the help: the number and the text.
struct ExitCodeText {
  std::string_view number;
  std::string_view text;
};
std::span<const ExitCodeText> exitCodeTexts();

// What `COMMAND --help` prints, without the exit codes.
std::string commandHelp(std::span<const Command> commands, const Command& command);

// Finds the command that the words (without the program's name) select, and runs it or shows help.
// The command with the most words wins: "fingerprint diff" before "fingerprint".
ExitCode runCommandLine(std::span<const Command> commands, std::span<const std::string_view> words,
                        Console& console);

}  // namespace idempotency::cli
