#include "source/store/postgres/engine/session.h"

#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "source/store/postgres/schema/migrations.h"
#include "source/store/postgres/schema/statements.h"

namespace idempotency::postgres {
namespace {

// What a commit is worth on this server now. In three steps, in this order: what server and role
// say (NULL takes a setting back to that), what this session then makes of it, and what no session
// can choose. The session's own value outlasts a reload that lowers the server's; a reload that
// raises it is taken over here. The parameter: whether a level below `on` may stay as it is. And
// warnings must reach us, whatever server, database and role say: one of them is all that tells of
// a commit that did not wait for its standby (see Connection::onNotice).
#define PIN_DURABILITY(may_be_lower)                                     \
  "set_config('synchronous_commit', NULL, false),"                       \
  " set_config('synchronous_commit', CASE WHEN " may_be_lower            \
  "   OR current_setting('synchronous_commit') = 'remote_apply'"         \
  "   THEN current_setting('synchronous_commit') ELSE 'on' END, false)," \
  " current_setting('fsync'), current_setting('full_page_writes'),"      \
  " set_config('client_min_messages', 'warning', false)"
enum DurabilityColumn { Found, Pinned, Fsync, FullPageWrites, Warns, DurabilityColumns };

// One row. Settings end with the session. Those of the planner ensure that statements always find
// their rows by the primary key, even with a plan that was made when the table was tiny. Bitmap
// scans are the only kind that never reads a whole table or index, because they begin with a
// condition.
constexpr const char* PinSettings =
    "SELECT " PIN_DURABILITY("$4::bool") ", pg_is_in_recovery(),"
    " current_setting('transaction_read_only'),"
    // A commit that waits for a standby notices neither a time limit nor a disconnected client. If
    // the standby is away, each new session would leave one more server process behind, until the
    // server has none left.
    " EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE pid = $3::int4"
    "   AND wait_event = 'SyncRep'),"
    " set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('statement_timeout', $1, false),"
    // Half of the time, so that strangers who share a transaction with what waits can still be sent
    // again without it.
    " set_config('lock_timeout', $5, false),"
    " set_config('idle_in_transaction_session_timeout', $1, false),"
    " set_config('search_path', 'pg_catalog', false),"
    " set_config('plan_cache_mode', 'force_generic_plan', false),"
    " set_config('jit', 'off', false),"
    " set_config('enable_seqscan', 'off', false),"
    " set_config('enable_indexscan', 'off', false),"
    " set_config('enable_indexonlyscan', 'off', false),"
    " set_config('enable_bitmapscan', 'on', false),"
    " set_config('enable_hashjoin', 'off', false),"
    " set_config('enable_mergejoin', 'off', false),"
    // PostgreSQL 14 and later: a backend that waits notices that we have gone.
    " (SELECT set_config(name, $2, false) FROM pg_settings"
    "   WHERE name = 'client_connection_check_interval')";
enum SettingColumn { InRecovery = DurabilityColumns, ReadOnly, PredecessorWaits };

constexpr const char* CheckDurability = "SELECT " PIN_DURABILITY("$1::bool");
#undef PIN_DURABILITY

constexpr const char* ReadVersion =
    "SELECT max(version)::int4, max(compatible_with)::int4 FROM idempotency.schema_version";

std::string_view text(const PqResult& result, int column) {
  return PQgetvalue(result.get(), 0, column);
}

const char* allowed(const SessionRules& rules) {
  return rules.allow_asynchronous_commit ? "t" : "f";
}

absl::Status judgeSettings(const PqResult& result) {
  if (text(result, InRecovery) == "t" || text(result, ReadOnly) == "on") {
    return absl::FailedPreconditionError("the server is read-only (a standby?)");
  }
  if (absl::Status status = checkDurability(result.get()); !status.ok()) {
    return status;
  }
  if (text(result, PredecessorWaits) == "t") {
    return absl::UnavailableError(
        "no standby confirms commits: an earlier commit is still waiting");
  }
  return absl::OkStatus();
}

absl::Status checkVersion(const PqResult& result) {
  const int version = std::atoi(PQgetvalue(result.get(), 0, 0));
  const int compatible_with = std::atoi(PQgetvalue(result.get(), 0, 1));
  if (version < SchemaVersion) {
    return absl::FailedPreconditionError(fmt::format(
        "the schema has version {}, but version {} is required: run idempotencyctl migrate",
        version, SchemaVersion));
  }
  if (compatible_with > SchemaVersion) {
    return absl::FailedPreconditionError(fmt::format(
        "the schema has version {}, which requires a newer module (this one supports version {})",
        version, SchemaVersion));
  }
  return absl::OkStatus();
}

absl::Status explainVersionError(const PqResult& result, std::string_view role) {
  const std::string_view code = sqlState(result.get());
  if (code == "42P01" || code == "3F000") {
    return absl::FailedPreconditionError(
        "the schema `idempotency` is missing: run idempotencyctl migrate");
  }
  if (code == "42501") {
    return absl::FailedPreconditionError(
        fmt::format("the role has no access to the schema `idempotency`: GRANT {} to it", role));
  }
  return absl::FailedPreconditionError(describeError(result.get()));
}

absl::Status explainPrepareError(const PqResult& result) {
  if (sqlState(result.get()) == "42P05") {
    return absl::FailedPreconditionError(
        "this session already has the module's prepared statements: a connection pooler reuses "
        "sessions without resetting them, or shares them between transactions; set its pool mode "
        "to session (PgBouncer: also set server_reset_query to DISCARD ALL)");
  }
  return absl::FailedPreconditionError(
      fmt::format("the schema is not as expected: {}", describeError(result.get())));
}

}  // namespace

bool sendSettings(PGconn* connection, const SessionRules& rules, int predecessor) {
  const std::string limit = std::to_string(rules.timeout.count());
  const std::string process = std::to_string(predecessor);
  const std::string lock_limit = std::to_string(rules.timeout.count() / 2);
  const char* const values[] = {limit.c_str(), limit.c_str(), process.c_str(), allowed(rules),
                                lock_limit.c_str()};
  return PQsendQueryParams(connection, PinSettings, 5, nullptr, values, nullptr, nullptr, 0) == 1 &&
         PQsendQueryParams(connection, ReadVersion, 0, nullptr, nullptr, nullptr, nullptr, 0) == 1;
}

absl::Status checkSettings(std::span<const PqResult> results, std::string_view role) {
  if (results.size() < SettingsResults) {
    return absl::InternalError("the server's response is incomplete");
  }
  if (PQresultStatus(results[0].get()) != PGRES_TUPLES_OK) {
    return absl::FailedPreconditionError(describeError(results[0].get()));
  }
  if (absl::Status status = judgeSettings(results[0]); !status.ok()) {
    return status;
  }
  if (PQresultStatus(results[1].get()) != PGRES_TUPLES_OK) {
    return explainVersionError(results[1], role);
  }
  return checkVersion(results[1]);
}

bool sendSessionSetup(PGconn* connection, const SessionRules& rules, int predecessor) {
  if (!sendSettings(connection, rules, predecessor)) {
    return false;
  }
  for (size_t i = 0; i < StatementCount; ++i) {
    const Statement& prepared = statement(static_cast<StatementId>(i));
    if (PQsendPrepare(connection, prepared.name, prepared.sql, 0, nullptr) != 1) {
      return false;
    }
  }
  return PQpipelineSync(connection) == 1;
}

bool sendDurabilityCheck(PGconn* connection, const SessionRules& rules) {
  const char* const values[] = {allowed(rules)};
  return PQsendQueryParams(connection, CheckDurability, 1, nullptr, values, nullptr, nullptr, 0) ==
         1;
}

absl::Status checkDurability(const PGresult* result) {
  for (const auto& [column, name] :
       {std::pair(Fsync, "fsync"), {FullPageWrites, "full_page_writes"}}) {
    if (std::string_view(PQgetvalue(result, 0, column)) != "on") {
      return absl::FailedPreconditionError(fmt::format(
          "{} is off on this server: a crash could lose or corrupt acknowledged claims; turn it on",
          name));
    }
  }
  return absl::OkStatus();
}

size_t sessionSetupResults() {
  return SettingsResults + StatementCount;
}

absl::Status checkSession(std::span<const PqResult> results) {
  if (results.size() != sessionSetupResults()) {
    return absl::InternalError("the server's response is incomplete");
  }
  if (absl::Status status = checkSettings(results, "idempotency_filter"); !status.ok()) {
    return status;
  }
  for (const PqResult& result : results.subspan(SettingsResults)) {
    if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) {
      return explainPrepareError(result);
    }
  }
  return absl::OkStatus();
}

}  // namespace idempotency::postgres
