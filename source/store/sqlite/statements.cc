#include "source/store/sqlite/statements.h"

namespace idempotency::sqlite {
namespace {

// The numbers in the texts are those of RecordState and Tombstone, so that partial indexes apply.
constexpr std::string_view text(Sql sql) {
  switch (sql) {
    case Sql::Begin:
      return "BEGIN";
    case Sql::BeginWrite:
      return "BEGIN IMMEDIATE";
    case Sql::Commit:
      return "COMMIT";
    case Sql::Savepoint:
      return "SAVEPOINT operation";
    case Sql::Release:
      return "RELEASE operation";
    case Sql::Now:
      // SQLite counts Julian days in whole milliseconds inside; a double still tells them apart.
      return "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)";
    case Sql::ReadClock:
      return "SELECT at FROM clock";
    case Sql::KeepClock:
      return "INSERT INTO clock (one, at) VALUES (1, ?1) "
             "ON CONFLICT (one) DO UPDATE SET at = excluded.at";
    case Sql::InsertRecord:
      return "INSERT INTO record (tenant, operation, key, fingerprint, state, attempt, "
             "recovery_point, lease_until, on_lease_expired, created_at, claimed_at, expires_at) "
             "VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8, ?9, ?9, ?10) "
             "ON CONFLICT (tenant, operation, key) DO NOTHING";
    case Sql::FindRecord:
      return "SELECT record.id, state, record.attempt, reclaimed, fingerprint, recovery_point, "
             "lease_until, created_at, expires_at, completed_at, reconcile_after, dead_letter, "
             "last_error, status, tombstone, response_schema, body, "
             "coalesce(claimed_at, created_at), expired_at, on_lease_expired "
             "FROM record LEFT JOIN response "
             "ON response.id = record.id AND response.attempt = record.attempt "
             "WHERE tenant = ?1 AND operation = ?2 AND key = ?3";
    case Sql::FindClaim:
      return "SELECT id, state, attempt, reclaimed, expired_at, dead_letter FROM record "
             "WHERE tenant = ?1 AND operation = ?2 AND key = ?3";
    case Sql::Reclaim:
      return "UPDATE record SET fingerprint = ?2, state = 1, attempt = ?3, reclaimed = ?4, "
             "recovery_point = ?5, lease_until = ?6, on_lease_expired = ?7, created_at = ?8, "
             "claimed_at = ?10, expires_at = ?9, completed_at = NULL, expired_at = NULL, "
             "unknown_since = NULL, reconcile_after = NULL, reconcile_tries = 0, dead_letter = 0, "
             "last_error = '', status = 0, tombstone = 0, response_schema = 0 WHERE id = ?1";
    case Sql::Complete:
      // Sets no column of record_expiry, so that SQLite leaves that index alone.
      return "UPDATE record SET state = 2, status = ?3, tombstone = ?4, response_schema = ?5, "
             "completed_at = ?6 WHERE id = ?1 AND attempt = ?2 AND state = 1 "
             "AND +expires_at > ?6 AND +tenant = ?7 AND +operation = ?8 AND +key = ?9";
    case Sql::CompleteLate:
      // Its ttl starts again, as long as at the claim.
      return "UPDATE record SET state = 2, status = ?3, tombstone = ?4, response_schema = ?5, "
             "completed_at = ?6, expires_at = ?6 + expires_at - coalesce(claimed_at, created_at), "
             "expired_at = NULL, unknown_since = NULL, reconcile_after = NULL, reconcile_tries = "
             "0, "
             "dead_letter = 0, last_error = '' "
             "WHERE id = ?1 AND attempt = ?2 AND state IN (1, 4)";
    case Sql::Renew:
      return "UPDATE record SET expires_at = ?3 WHERE id = ?1 AND attempt = ?2";
    case Sql::Fail:
      return "UPDATE record SET state = 3, last_error = ?3 "
             "WHERE id = ?1 AND attempt = ?2 AND state = 1";
    case Sql::MarkUnknown:
      return "UPDATE record SET state = 4, last_error = ?3, reconcile_after = ?4, unknown_since = "
             "?5 "
             "WHERE id = ?1 AND attempt = ?2 AND state = 1";
    case Sql::Extend:
      return "UPDATE record SET lease_until = ?3 WHERE id = ?1 AND attempt = ?2 AND state = 1";
    case Sql::DeleteRecord:
      return "DELETE FROM record WHERE id = ?1 AND attempt = ?2";
    case Sql::InsertResponse:
      return "INSERT INTO response (id, attempt, body) VALUES (?1, ?2, ?3) "
             "ON CONFLICT (id) DO UPDATE SET attempt = excluded.attempt, body = excluded.body";
    case Sql::DeleteResponse:
      return "DELETE FROM response WHERE id = ?1";
    case Sql::TenantUse:
      return "SELECT records FROM tenant_use WHERE tenant = ?1";
    case Sql::CountPastLife:
      // Those of one tenant among all that wait for the reaper, no more than asked for.
      return "SELECT count(*) FROM (SELECT 1 FROM record INDEXED BY record_expiry "
             "WHERE expired_at IS NULL AND expires_at <= ?2 AND tenant = ?1 LIMIT ?3)";
    case Sql::AddTenantUse:
      return "INSERT INTO tenant_use (tenant, records) VALUES (?1, ?2) "
             "ON CONFLICT (tenant) DO UPDATE SET records = records + excluded.records";
    case Sql::ForgetTenant:
      return "DELETE FROM tenant_use WHERE tenant = ?1 AND records <= 0";
    case Sql::AddUnsettledUse:
      return "INSERT INTO unsettled_use (operation, records, dead_letters) VALUES (?1, ?2, ?3) "
             "ON CONFLICT (operation) DO UPDATE SET records = records + excluded.records, "
             "dead_letters = dead_letters + excluded.dead_letters";
    case Sql::Lead:
      return "INSERT INTO leader (name, owner, lease_until) VALUES ('maintenance', ?1, ?2) "
             "ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, "
             "lease_until = excluded.lease_until "
             "WHERE owner = excluded.owner OR lease_until <= ?3";
    case Sql::FindDeadLeases:
      return "SELECT id, tenant, operation, key, attempt, on_lease_expired FROM record "
             "INDEXED BY record_lease WHERE state = 1 AND lease_until <= ?1 ORDER BY lease_until "
             "LIMIT ?2";
    case Sql::FindPastLife:
      return "SELECT id, tenant, operation, key, attempt, state FROM record "
             "INDEXED BY record_expiry WHERE expired_at IS NULL AND expires_at <= ?1 AND state <> "
             "1 "
             "ORDER BY expires_at LIMIT ?2";
    case Sql::SetAside:
      // Out of record_expiry; otherwise as it is.
      return "UPDATE record SET expired_at = ?3 WHERE id = ?1 AND attempt = ?2 AND state = 4";
    case Sql::Expire:
      return "UPDATE record SET state = 5, expired_at = ?3 WHERE id = ?1 AND attempt = ?2";
    case Sql::Audit:
      return "INSERT INTO audit (at, action, tenant, operation, key, attempt, records) "
             "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
  }
  return {};
}

}  // namespace

std::array<std::string_view, SqlCount> statementTexts() {
  std::array<std::string_view, SqlCount> texts;
  for (size_t i = 0; i < SqlCount; ++i) {
    texts[i] = text(static_cast<Sql>(i));
  }
  return texts;
}

}  // namespace idempotency::sqlite
