#include "source/cli/migrate_command.h"

#include <array>
#include <string>

#include "source/cli/password_file.h"
#include "source/store/postgres/schema/migrate.h"

namespace idempotency::cli {
namespace {

constexpr size_t MostMigrations = 9999;
constexpr size_t LongestLockTimeout = 3'600'000;

constexpr std::array<Option, 5> Options = {{
    {"conninfo", "CONNINFO", "connection string (default: libpq's PG* variables)"},
    {"password-file", "FILE", "file that contains the password; - for stdin"},
    {"to", "N", "stop at this schema version (default: the newest)"},
    {"dry-run", "", "print the SQL that would be run, without running it"},
    {"lock-timeout", "MS",
     "how long each migration waits for a locked table, in milliseconds (default: 5000)"},
}};

absl::StatusOr<postgres::MigrateOptions> readOptions(const Arguments& arguments) {
  postgres::MigrateOptions options;
  options.conninfo = arguments.value("conninfo").value_or("");
  if (const auto file = arguments.value("password-file"); file.has_value()) {
    auto password = readPasswordFile(*file);
    if (!password.ok()) {
      return password.status();
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
        "Applies missing migrations, each in its own transaction, and then grants privileges. Safe "
        "to\n"
        "repeat; concurrent runs wait for each other. Run it as the schema owner, before starting\n"
        "modules that need the new version.",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency::cli
