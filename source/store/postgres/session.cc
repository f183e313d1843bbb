#include "source/store/postgres/session.h"

#include <fmt/format.h>
#include <string_view>

#include "source/store/postgres/migrations.h"
#include "source/store/postgres/statements.h"

namespace idempotency::postgres {
namespace {

// One row. Settings end with the session. Those of the planner: our statements must find their rows
// by the primary key always, also with a plan that was made when the table was tiny. Bitmap scans
// are the one kind that never reads a whole table or index: they begin with a condition.
constexpr const char* PinSettings =
    "SELECT current_setting('synchronous_commit'), pg_is_in_recovery(),"
    " current_setting('transaction_read_only'),"
    // A commit that waits for a standby notices neither a time limit nor that we have gone: with a
    // standby that is away, each new session would leave one more process behind, until the server
    // had none for anybody.
    " EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE pid = $3::int4"
    "   AND wait_event = 'SyncRep'),"
    " set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('statement_timeout', $1, false),"
    " set_config('lock_timeout', $1, false),"
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
enum SettingColumn { SynchronousCommit, InRecovery, ReadOnly, PredecessorWaits };

constexpr const char* ReadVersion =
    "SELECT max(version)::int4, max(compatible_with)::int4 FROM idempotency.schema_version";

constexpr size_t Checks = 2;

std::string_view text(const PqResult& result, int column) {
  return PQgetvalue(result.get(), 0, column);
}

absl::Status checkSettings(const PqResult& result, const SessionRules& rules) {
  if (text(result, InRecovery) == "t" || text(result, ReadOnly) == "on") {
    return absl::FailedPreconditionError("the server is read-only (a standby?)");
  }
  if (text(result, SynchronousCommit) == "off" && !rules.allow_asynchronous_commit) {
    return absl::FailedPreconditionError(
        "synchronous_commit is off for this role: a crash would lose acknowledged claims. Turn it "
        "on, or set allow_asynchronous_commit");
  }
  if (text(result, PredecessorWaits) == "t") {
    return absl::UnavailableError("no standby confirms commits: an earlier one still waits for it");
  }
  return absl::OkStatus();
}

absl::Status checkVersion(const PqResult& result) {
  const int version = std::atoi(PQgetvalue(result.get(), 0, 0));
  const int compatible_with = std::atoi(PQgetvalue(result.get(), 0, 1));
  if (version < SchemaVersion) {
    return absl::FailedPreconditionError(
        fmt::format("the schema has version {}, {} is needed: run idempotencyctl migrate", version,
                    SchemaVersion));
  }
  if (compatible_with > SchemaVersion) {
    return absl::FailedPreconditionError(
        fmt::format("the schema has version {}, which needs a newer module than this one ({})",
                    version, SchemaVersion));
  }
  return absl::OkStatus();
}

absl::Status explainVersionError(const PqResult& result) {
  const std::string_view code = sqlState(result.get());
  if (code == "42P01" || code == "3F000") {
    return absl::FailedPreconditionError(
        "the schema `idempotency` is missing: run idempotencyctl migrate");
  }
  if (code == "42501") {
    return absl::FailedPreconditionError(
        "this role may not use the schema `idempotency`: grant it the role idempotency_filter");
  }
  return absl::FailedPreconditionError(describeError(result.get()));
}

absl::Status explainPrepareError(const PqResult& result) {
  if (sqlState(result.get()) == "42P05") {
    return absl::FailedPreconditionError(
        "somebody else has prepared our statements in this session: a pooler hands sessions on "
        "without cleaning them, or shares them between transactions; set its pool mode to session "
        "(PgBouncer: also server_reset_query to DISCARD ALL)");
  }
  return absl::FailedPreconditionError(
      fmt::format("the schema is not as expected: {}", describeError(result.get())));
}

}  // namespace

bool sendSessionSetup(PGconn* connection, const SessionRules& rules, int predecessor) {
  const std::string limit = std::to_string(rules.timeout.count());
  const std::string process = std::to_string(predecessor);
  const char* const values[] = {limit.c_str(), limit.c_str(), process.c_str()};
  if (PQsendQueryParams(connection, PinSettings, 3, nullptr, values, nullptr, nullptr, 0) != 1 ||
      PQsendQueryParams(connection, ReadVersion, 0, nullptr, nullptr, nullptr, nullptr, 0) != 1) {
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

size_t sessionSetupResults() {
  return Checks + StatementCount;
}

absl::Status checkSession(std::span<const PqResult> results, const SessionRules& rules) {
  if (results.size() != sessionSetupResults()) {
    return absl::InternalError("the server's answer is too short");
  }
  if (PQresultStatus(results[0].get()) != PGRES_TUPLES_OK) {
    return absl::FailedPreconditionError(describeError(results[0].get()));
  }
  if (absl::Status status = checkSettings(results[0], rules); !status.ok()) {
    return status;
  }
  if (PQresultStatus(results[1].get()) != PGRES_TUPLES_OK) {
    return explainVersionError(results[1]);
  }
  if (absl::Status status = checkVersion(results[1]); !status.ok()) {
    return status;
  }
  for (const PqResult& result : results.subspan(Checks)) {
    if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) {
      return explainPrepareError(result);
    }
  }
  return absl::OkStatus();
}

}  // namespace idempotency::postgres
