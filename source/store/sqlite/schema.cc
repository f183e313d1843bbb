#include "source/store/sqlite/schema.h"

#include <string>

#include "fmt/format.h"
#include "sql/sqlite/migrations.h"

namespace idempotency::sqlite {
namespace {

// "idem", in the header of the file. Never change it.
constexpr int ApplicationId = 0x6964656d;

absl::Status failure(const Database& database, std::string_view doing) {
  return absl::UnavailableError(fmt::format("{}: {}", doing, database.message()));
}

// Refuses a file that contains tables of another application.
absl::Status checkOwner(Database& database) {
  const int64_t application = database.askNumber("PRAGMA application_id");
  if (application == ApplicationId) {
    return absl::OkStatus();
  }
  const int64_t tables = database.askNumber("SELECT count(*) FROM sqlite_schema");
  if (application != 0 || tables != 0) {
    return absl::FailedPreconditionError("the file is a database of another application");
  }
  return absl::OkStatus();
}

absl::Status newerSchema(int64_t version, int known) {
  return absl::FailedPreconditionError(
      fmt::format("the schema has version {}, newer than the {} that this build supports; "
                  "use a newer build",
                  version, known));
}

absl::Status apply(Database& database, std::span<const EmbeddedText> migrations) {
  if (absl::Status owner = checkOwner(database); !owner.ok()) {
    return owner;
  }
  const int known = static_cast<int>(migrations.size());
  const int64_t version = database.askNumber("PRAGMA user_version");
  if (database.error() != SQLITE_OK) {
    return failure(database, "cannot read the schema version");
  }
  if (version > known) {
    return newerSchema(version, known);
  }
  for (int64_t number = version + 1; number <= known; ++number) {
    const EmbeddedText& migration = migrations[static_cast<size_t>(number - 1)];
    if (!database.run(std::string(migration.text))) {
      return failure(database, fmt::format("migration {} failed", migration.name));
    }
  }
  if (version < known) {
    database.run(fmt::format("PRAGMA application_id = {}", ApplicationId));
    database.run(fmt::format("PRAGMA user_version = {}", known));
  }
  if (!database.run("COMMIT")) {
    return failure(database, "migration failed");
  }
  return absl::OkStatus();
}

}  // namespace

int knownSchemaVersion() {
  return static_cast<int>(sqliteMigrations().size());
}

absl::Status migrate(Database& database) {
  return migrate(database, sqliteMigrations());
}

absl::Status migrate(Database& database, std::span<const EmbeddedText> migrations) {
  if (!database.run("BEGIN IMMEDIATE")) {
    return failure(database, "cannot lock the file");
  }
  absl::Status status = apply(database, migrations);
  database.rollBack();
  return status;
}

absl::Status checkSchema(Database& database) {
  absl::Status owner = checkOwner(database);
  const int64_t version = database.askNumber("PRAGMA user_version");
  if (database.error() != SQLITE_OK) {
    return failure(database, "cannot read the schema version");
  }
  if (!owner.ok()) {
    return owner;
  }
  const int known = knownSchemaVersion();
  if (version > known) {
    return newerSchema(version, known);
  }
  if (version < known) {
    return absl::FailedPreconditionError(
        fmt::format("the schema has version {}, older than the {} that this build needs; start "
                    "Envoy with the module of this build, which brings the file up to date",
                    version, known));
  }
  return absl::OkStatus();
}

}  // namespace idempotency::sqlite
