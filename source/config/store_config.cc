#include "source/config/store_config.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <string>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/config/config_check.h"
#include "source/config/conninfo.h"

namespace idempotency::config {
namespace {

using namespace std::chrono_literals;

constexpr size_t MaxConninfoBytes = 4096;

std::string readConninfo(const std::string& conninfo, FieldErrors& errors) {
  constexpr std::string_view Path = "store.postgres.conninfo";
  if (conninfo.empty()) {
    errors.add(Path, "required; set a libpq connection string");
  } else if (conninfo.size() > MaxConninfoBytes) {
    errors.add(Path, fmt::format("{} bytes", conninfo.size()),
               fmt::format("at most {} bytes", MaxConninfoBytes));
  } else {
    switch (inspectConninfo(conninfo)) {
      case ConninfoContent::Malformed:
        errors.add(Path,
                   "not a valid connection string (not shown); expected keyword=value pairs or a "
                   "postgresql:// URI");
        break;
      case ConninfoContent::Password:
        errors.add(Path,
                   "contains a password, which Envoy's config dump would show; use password_file, "
                   "PGPASSWORD or a libpq password file");
        break;
      case ConninfoContent::Clean:
        break;
    }
  }
  return conninfo;
}

protocol::PostgresSettings readPostgres(const v1::Postgres& message, FieldErrors& errors) {
  protocol::PostgresSettings settings;
  settings.conninfo = readConninfo(message.conninfo(), errors);
  if (message.has_password_file()) {
    settings.password_file =
        checkFile("store.postgres.password_file", message.password_file(), errors);
  }
  if (message.has_connections()) {
    settings.connections = static_cast<uint32_t>(
        checkRange("store.postgres.connections", message.connections(), 1, 64, errors));
  }
  if (message.has_timeout()) {
    settings.timeout =
        checkDuration("store.postgres.timeout", message.timeout(), 10ms, 60s, errors);
  }
  settings.allow_asynchronous_commit = message.allow_asynchronous_commit();
  return settings;
}

protocol::SqliteSettings readSqlite(const v1::Sqlite& message, FieldErrors& errors) {
  protocol::SqliteSettings settings;
  settings.path = checkFile("store.sqlite.path", message.path(), errors);
  if (message.has_timeout()) {
    settings.timeout = checkDuration("store.sqlite.timeout", message.timeout(), 10ms, 60s, errors);
  }
  return settings;
}

}  // namespace

protocol::StoreSettings readStore(const v1::Store& message, FieldErrors& errors) {
  switch (message.kind_case()) {
    case v1::Store::kPostgres:
      return readPostgres(message.postgres(), errors);
    case v1::Store::kSqlite:
      return readSqlite(message.sqlite(), errors);
    case v1::Store::KIND_NOT_SET:
      break;
  }
  errors.add("store", "required; set { postgres: … } or { sqlite: … }");
  return {};
}

}  // namespace idempotency::config
