#include "source/cli/manual_command.h"

#include <array>

#include "source/cli/manual.h"

namespace idempotency::cli {
namespace {

constexpr std::array<Option, 1> Options = {{
    {"markdown", "", "the help of all commands, as in docs/idempotencyctl.md"},
}};

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  console.out << (arguments.has("markdown") ? markdownReference(console.commands)
                                            : manualPage(console.commands));
  return ExitCode::Done;
}

}  // namespace

const Command ManualCommand = {
    .words = "man",
    .summary = "print the manual page",
    .description =
        "Prints the manual page of this program for man(1).\n\n"
        "  idempotencyctl man | man -l -\n"
        "  idempotencyctl man >/usr/local/share/man/man1/idempotencyctl.1",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency::cli
