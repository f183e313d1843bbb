#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "source/cli/arguments.h"

namespace idempotency {

// What the program tells its caller. Scripts rely on the numbers.
enum class ExitCode : int {
  Done = 0,
  Refused = 1,  // The answer is no: not a key, not the same request.
  Usage = 2,    // The command line, or a file that it names, cannot be used.
};

struct Console {
  std::ostream& out;
  std::ostream& err;
};

// A subcommand. An error of `run` goes to stderr; the exit code is then Usage for InvalidArgument,
// else Refused.
struct Command {
  std::string_view words;        // What selects it: "key parse".
  std::string_view summary;      // One line, for the list of commands.
  std::string_view description;  // Paragraphs, for its own help.
  std::span<const Option> options;
  std::span<const Operand> operands;
  absl::StatusOr<ExitCode> (*run)(const Arguments& arguments, Console& console);
};

// Finds the command that the words (without the program's name) select, and runs it or shows help.
// The command with the most words wins: "fingerprint diff" before "fingerprint".
ExitCode runCommandLine(std::span<const Command> commands, std::span<const std::string_view> words,
                        Console& console);

}  // namespace idempotency
