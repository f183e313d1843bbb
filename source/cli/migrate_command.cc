#include "source/cli/migrate_command.h"

#include <array>
#include <string>

#include "source/cli/input_file.h"
#include "source/store/postgres/migrate.h"

namespace idempotency {
namespace {

constexpr size_t MostMigrations = 9999;
constexpr size_t LongestLockTimeout = 3'600'000;
constexpr size_t LongestPassword = 4096;

constexpr std::array<Option, 5> Options = {{
    {"conninfo", "CONNINFO", "the database, as words or URI; else the PG… variables of libpq"},
    {"password-file", "FILE", "a file that holds the password; - for stdin"},
    {"to", "N", "stop at this schema version; the newest by default"},
    {"dry-run", "", "print the SQL that would be run, and change nothing"},
    {"lock-timeout", "MS",
     "how long each migration waits for a table in use, in milliseconds; 5000 by default"},
}};

absl::StatusOr<postgres::MigrateOptions> readOptions(const Arguments& arguments) {
  postgres::MigrateOptions options;
  options.conninfo = arguments.value("conninfo").value_or("");
  if (const auto file = arguments.value("password-file"); file.has_value()) {
    auto password = readInputFile(*file, LongestPassword);
    if (!password.ok()) {
      return password.status();
    }
    while (!password->empty() && (password->back() == '\n' || password->back() == '\r')) {
      password->pop_back();
    }
    options.password = *std::move(password);
  }
  if (arguments.has("to")) {
    const auto to = arguments.number("to", 1, MostMigrations, 1);
    if (!to.ok()) {
      return to.status();
    }
    options.to = static_cast<int>(*to);
  }
  options.dry_run = arguments.has("dry-run");
  const auto lock_timeout = arguments.number("lock-timeout", 1, LongestLockTimeout, 5000);
  if (!lock_timeout.ok()) {
    return lock_timeout.status();
  }
  options.lock_timeout = std::chrono::milliseconds(*lock_timeout);
  return options;
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  const auto options = readOptions(arguments);
  if (!options.ok()) {
    return options.status();
  }
  const absl::Status status = postgres::migrate(
      *options, [&console](std::string_view line) { console.out << line << '\n'; });
  if (!status.ok()) {
    return status;
  }
  return ExitCode::Done;
}

}  // namespace

const Command MigrateCommand = {
    .words = "migrate",
    .summary = "bring the PostgreSQL schema up to date",
    .description =
        "Runs the migrations that the database lacks, forward only, each in a transaction of its "
        "own, and\n"
        "then grants the roles what they need. Harmless when there is nothing to do; two at once "
        "take\n"
        "turns. Run it as the role that is to own the schema `idempotency`, before modules that "
        "need the\n"
        "new version are started.",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency
