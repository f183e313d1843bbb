#include <array>
#include <exception>
#include <iostream>
#include <string_view>
#include <vector>

#include "source/cli/audit_command.h"
#include "source/cli/change_command.h"
#include "source/cli/command.h"
#include "source/cli/completion_command.h"
#include "source/cli/fingerprint_command.h"
#include "source/cli/fingerprint_diff_command.h"
#include "source/cli/key_command.h"
#include "source/cli/list_command.h"
#include "source/cli/manual_command.h"
#include "source/cli/migrate_command.h"
#include "source/cli/purge_command.h"
#include "source/cli/show_command.h"
#include "source/cli/summary_command.h"
#include "source/cli/terminal.h"
#include "source/cli/watch_command.h"

namespace idempotency::cli {
namespace {

int run(int argc, char** argv) {
  const std::array commands = {
      SummaryCommand,     WatchCommand,           ListCommand,       ShowCommand,
      ResolveCommand,     AskAgainCommand,        ReleaseCommand,    BustCommand,
      PurgeCommand,       AuditListCommand,       MigrateCommand,    KeyParseCommand,
      FingerprintCommand, FingerprintDiffCommand, CompletionCommand, ManualCommand,
  };
  const std::vector<std::string_view> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  Console console = {.out = std::cout, .err = std::cerr, .ask = askAtTerminal};
  const ExitCode code = runCommandLine(commands, words, console);
  // A result that could not be written, for example to a full disk, is not a result.
  if (!std::cout.flush()) {
    std::cerr << "idempotencyctl: cannot write to stdout\n";
    return static_cast<int>(ExitCode::Usage);
  }
  return static_cast<int>(code);
}

}  // namespace
}  // namespace idempotency::cli

int main(int argc, char** argv) {
  try {
    return idempotency::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "idempotencyctl: " << error.what() << '\n';
    return static_cast<int>(idempotency::cli::ExitCode::Usage);
  }
}
