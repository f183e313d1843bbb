#include <array>
#include <exception>
#include <iostream>
#include <string_view>
#include <vector>

#include "source/cli/command.h"
#include "source/cli/fingerprint_command.h"
#include "source/cli/fingerprint_diff_command.h"
#include "source/cli/key_command.h"
#include "source/cli/migrate_command.h"

namespace idempotency {
namespace {

int run(int argc, char** argv) {
  const std::array commands = {KeyParseCommand, FingerprintCommand, FingerprintDiffCommand,
                               MigrateCommand};
  const std::vector<std::string_view> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  Console console = {.out = std::cout, .err = std::cerr};
  const ExitCode code = runCommandLine(commands, words, console);
  // A result that did not reach its reader, on a full disk say, is none.
  if (!std::cout.flush()) {
    std::cerr << "idempotencyctl: cannot write to stdout\n";
    return static_cast<int>(ExitCode::Usage);
  }
  return static_cast<int>(code);
}

}  // namespace
}  // namespace idempotency

int main(int argc, char** argv) {
  try {
    return idempotency::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "idempotencyctl: " << error.what() << '\n';
    return static_cast<int>(idempotency::ExitCode::Usage);
  }
}
