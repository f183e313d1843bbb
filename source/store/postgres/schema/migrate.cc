#include "source/store/postgres/schema/migrate.h"

#include <array>
#include <fmt/format.h>
#include <vector>

#include "source/store/postgres/schema/migrations.h"
#include "source/store/postgres/wire/connect.h"
#include "source/store/postgres/wire/pq.h"
#include "sql/migrations.h"
#include "sql/privileges.h"

namespace idempotency::postgres {
namespace {

using Say = std::function<void(std::string_view)>;

constexpr int OldestServer = 130000;
constexpr std::string_view LockNotAvailable = "55P03";
// Any fixed number: advisory locks share one space of numbers in a database.
constexpr std::string_view TakeTurn = "SELECT pg_advisory_xact_lock(7593461025893847)";

constexpr const char* MakeVersionTable = R"sql(
-- IF NOT EXISTS would ask for the right to make schemas also where an administrator has made this one.
DO $$BEGIN
  IF to_regnamespace('idempotency') IS NULL THEN
    CREATE SCHEMA idempotency;
  END IF;
END$$;
CREATE TABLE idempotency.schema_version (
  version integer PRIMARY KEY,
  name text NOT NULL,
  checksum bytea NOT NULL,
  compatible_with integer NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now(),
  applied_by text NOT NULL DEFAULT session_user
);
COMMENT ON TABLE idempotency.schema_version IS 'The migrations that were run, one row for each.';
COMMENT ON COLUMN idempotency.schema_version.version IS 'Number of the migration.';
COMMENT ON COLUMN idempotency.schema_version.name IS 'Its file.';
COMMENT ON COLUMN idempotency.schema_version.checksum IS 'SHA-256 of its text.';
COMMENT ON COLUMN idempotency.schema_version.compatible_with IS
  'The oldest module that works with this schema, by the schema version that it was built for.';
COMMENT ON COLUMN idempotency.schema_version.applied_at IS 'When it was run.';
COMMENT ON COLUMN idempotency.schema_version.applied_by IS 'The role that ran it.';
)sql";

class Session {
public:
  static absl::StatusOr<Session> open(const MigrateOptions& options, const Say& say) {
    auto connected =
        connectNow({.conninfo = options.conninfo,
                    .password = options.password,
                    .defaults = {{"fallback_application_name", "idempotencyctl migrate"}}});
    if (absl::IsInvalidArgument(connected.status())) {
      return absl::InvalidArgumentError("--conninfo is not a valid connection string");
    }
    if (!connected.ok()) {
      return connected.status();
    }
    PqConnection connection = *std::move(connected);
    if (const int version = PQserverVersion(connection.get()); version < OldestServer) {
      return absl::FailedPreconditionError(fmt::format(
          "the server is PostgreSQL {}; version 13 or later is required", version / 10000));
    }
    PQsetNoticeReceiver(connection.get(), &onNotice, const_cast<Say*>(&say));
    return Session(std::move(connection));
  }

  // One or more statements.
  absl::StatusOr<PqResult> run(const std::string& sql) {
    return checked(PqResult(PQexec(connection_.get(), sql.c_str())));
  }

  absl::StatusOr<PqResult> run(const char* sql, const std::vector<std::string>& parameters) {
    std::vector<const char*> values;
    for (const std::string& parameter : parameters) {
      values.push_back(parameter.c_str());
    }
    return checked(PqResult(PQexecParams(connection_.get(), sql, static_cast<int>(values.size()),
                                         nullptr, values.data(), nullptr, nullptr, 0)));
  }

private:
  explicit Session(PqConnection connection) : connection_(std::move(connection)) {}

  static void onNotice(void* say, const PGresult* notice) {
    const char* const severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity != nullptr && std::string_view(severity) == "WARNING") {
      (*static_cast<const Say*>(say))(
          fmt::format("warning: {}", PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY)));
    }
  }

  absl::StatusOr<PqResult> checked(PqResult result) {
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
      return result;
    }
    const std::string text = describeError(result.get());
    return sqlState(result.get()) == LockNotAvailable ? absl::DeadlineExceededError(text)
                                                      : absl::InternalError(text);
  }

  PqConnection connection_;
};

// A migration that the database has recorded.
struct Applied {
  std::string name;
  bool unchanged = false;  // Its text is the one that this program carries.
};

std::string_view privilegesSql() {
  return postgresPrivileges().front().text;
}

class Migrator {
public:
  Migrator(Session session, const MigrateOptions& options, std::vector<Migration> migrations,
           const Say& say)
      : session_(std::move(session)),
        options_(options),
        migrations_(std::move(migrations)),
        say_(say) {}

  absl::Status run() {
    const int target = options_.to.value_or(static_cast<int>(migrations_.size()));
    if (target < 1 || target > static_cast<int>(migrations_.size())) {
      return absl::InvalidArgumentError(
          fmt::format("there is no schema version {}: this program knows versions 1 to {}", target,
                      migrations_.size()));
    }
    if (options_.dry_run) {
      return inTransaction("BEGIN READ ONLY", [&] { return tellPlan(target); });
    }
    for (bool again = true; again;) {
      // Each step reads the version again once it is its turn: another process may have migrated.
      absl::Status status = inTransaction("BEGIN", [&] { return step(target, again); });
      if (!status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

private:
  template <typename Work>
  absl::Status inTransaction(const char* begin, const Work& work) {
    // Explicit: with another default level, the second of two concurrent migrations would fail.
    absl::Status status = command(fmt::format("{} ISOLATION LEVEL READ COMMITTED", begin));
    if (status.ok()) {
      status = work();
    }
    const absl::Status end = command(status.ok() ? "COMMIT" : "ROLLBACK");
    return status.ok() ? end : status;
  }

  absl::Status command(const std::string& sql) { return session_.run(sql).status(); }

  absl::StatusOr<std::vector<Applied>> readApplied() {
    auto exists = session_.run("SELECT to_regclass('idempotency.schema_version') IS NOT NULL");
    if (!exists.ok()) {
      return exists.status();
    }
    std::vector<Applied> applied;
    if (*PQgetvalue(exists->get(), 0, 0) != 't') {
      return applied;
    }
    auto rows = session_.run(
        "SELECT version, name, encode(checksum, 'hex') FROM idempotency.schema_version ORDER BY 1");
    if (!rows.ok()) {
      return rows.status();
    }
    for (int row = 0; row < PQntuples(rows->get()); ++row) {
      if (std::to_string(row + 1) != PQgetvalue(rows->get(), row, 0)) {
        return absl::FailedPreconditionError(
            fmt::format("idempotency.schema_version has a gap before version {}",
                        PQgetvalue(rows->get(), row, 0)));
      }
      auto unchanged = isUnchanged(static_cast<size_t>(row), PQgetvalue(rows->get(), row, 2));
      if (!unchanged.ok()) {
        return unchanged.status();
      }
      applied.push_back({PQgetvalue(rows->get(), row, 1), *unchanged});
    }
    return applied;
  }

  absl::StatusOr<bool> isUnchanged(size_t index, const std::string& checksum) {
    if (index >= migrations_.size()) {
      return true;
    }
    auto ours = session_.run("SELECT encode(sha256(convert_to($1, 'UTF8')), 'hex')",
                             {std::string(migrations_[index].sql)});
    if (!ours.ok()) {
      return ours.status();
    }
    return checksum == PQgetvalue(ours->get(), 0, 0);
  }

  // The version of the database; an error if this program must not change it.
  absl::StatusOr<int> currentVersion() {
    const auto applied = readApplied();
    if (!applied.ok()) {
      return applied.status();
    }
    const int version = static_cast<int>(applied->size());
    for (int i = 0; i < version; ++i) {
      if (!(*applied)[static_cast<size_t>(i)].unchanged) {
        return absl::FailedPreconditionError(
            fmt::format("migration {} was applied with different contents; nothing was changed",
                        (*applied)[static_cast<size_t>(i)].name));
      }
    }
    if (version > static_cast<int>(migrations_.size())) {
      return absl::FailedPreconditionError(fmt::format(
          "the database has schema version {}, but this program knows only {}: use a newer one",
          version, migrations_.size()));
    }
    return version;
  }

  absl::Status tellPlan(int target) {
    const auto version = currentVersion();
    if (!version.ok()) {
      return version.status();
    }
    say_(fmt::format("-- current schema version {}, target version {}", *version,
                     std::max(target, *version)));
    if (*version == 0) {
      say_(MakeVersionTable);
    }
    for (int next = *version; next < target; ++next) {
      const Migration& migration = migrations_[static_cast<size_t>(next)];
      say_(fmt::format("-- {}\n{}", migration.name, migration.sql));
    }
    say_(fmt::format("-- privileges.sql\n{}", privilegesSql()));
    return absl::OkStatus();
  }

  // Runs one migration, or finally the privileges; sets `again` if there is more to do.
  absl::Status step(int target, bool& again) {
    again = false;
    absl::Status status = wait(options_.turn_timeout);
    if (status.ok()) {
      status = command(std::string(TakeTurn));
    }
    if (status.ok()) {
      status = wait(options_.lock_timeout);
    }
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(
          fmt::format("another migration is still running: {}", std::string(status.message())));
    }
    if (!status.ok()) {
      return status;
    }
    const auto version = currentVersion();
    if (!version.ok()) {
      return version.status();
    }
    if (*version >= target) {
      status = command(std::string(privilegesSql()));
      if (status.ok()) {
        say_(fmt::format("schema version {}", *version));
      }
      return explained("privileges.sql", status);
    }
    again = true;
    const Migration& migration = migrations_[static_cast<size_t>(*version)];
    return explained(migration.name, apply(migration));
  }

  absl::Status apply(const Migration& migration) {
    absl::Status status = migration.version == 1 ? command(MakeVersionTable) : absl::OkStatus();
    if (status.ok()) {
      status = command(std::string(migration.sql));
    }
    if (status.ok()) {
      status = session_
                   .run(
                       "INSERT INTO idempotency.schema_version (version, name, checksum, "
                       "compatible_with) VALUES ($1, $2, sha256(convert_to($3, 'UTF8')), $4)",
                       {std::to_string(migration.version), std::string(migration.name),
                        std::string(migration.sql), std::to_string(migration.compatible_with)})
                   .status();
    }
    if (status.ok()) {
      say_(fmt::format("applied {}", migration.name));
    }
    return status;
  }

  absl::Status wait(std::chrono::milliseconds limit) {
    return command(fmt::format("SET LOCAL lock_timeout = {}", limit.count()));
  }

  static absl::Status explained(std::string_view name, const absl::Status& status) {
    return status.ok() ? status
                       : absl::Status(status.code(), fmt::format("{}: {}; rolled back", name,
                                                                 std::string(status.message())));
  }

  Session session_;
  const MigrateOptions& options_;
  const std::vector<Migration> migrations_;
  const Say& say_;
};

}  // namespace

absl::Status migrate(const MigrateOptions& options, const Say& say) {
  auto migrations = readMigrations(postgresMigrations());
  if (!migrations.ok()) {
    return migrations.status();
  }
  auto session = Session::open(options, say);
  if (!session.ok()) {
    return session.status();
  }
  return Migrator(*std::move(session), options, *std::move(migrations), say).run();
}

}  // namespace idempotency::postgres
