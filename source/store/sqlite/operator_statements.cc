#include "source/store/sqlite/operator_statements.h"

namespace idempotency::sqlite {

// Unknown records have unknown_since: so say the partial indexes, and so must who uses them.
std::string_view text(OperatorSql sql) {
  switch (sql) {
    case OperatorSql::ResolveNotRun:
      // Its ttl starts again, as with CompleteLate.
      return "UPDATE record SET state = 3, last_error = ?3, "
             "expires_at = ?4 + expires_at - coalesce(claimed_at, created_at), expired_at = NULL, "
             "unknown_since = NULL, reconcile_after = NULL, reconcile_tries = 0, dead_letter = 0 "
             "WHERE id = ?1 AND attempt = ?2 AND state IN (1, 4)";
    case OperatorSql::AskAgain:
      return "UPDATE record SET reconcile_after = ?3, "
             "reconcile_tries = iif(?4, 0, reconcile_tries), dead_letter = iif(?4, 0, dead_letter) "
             "WHERE id = ?1 AND attempt = ?2 AND state = 4";
    case OperatorSql::GiveUp:
      return "UPDATE record SET dead_letter = 1 WHERE id = ?1 AND attempt = ?2 AND state = 4";
    case OperatorSql::AuditChange:
      return "INSERT INTO audit (at, action, actor, tenant, operation, key, attempt, detail) "
             "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    case OperatorSql::NextDueOperation:
      return "SELECT operation FROM record INDEXED BY record_due "
             "WHERE unknown_since IS NOT NULL AND dead_letter = 0 AND operation >= ?1 ORDER BY "
             "operation LIMIT 1";
    case OperatorSql::FindDue:
      return "SELECT coalesce(reconcile_after, 0), id, tenant, key, attempt, reconcile_tries, "
             "coalesce(claimed_at, created_at) FROM record INDEXED BY record_due "
             "WHERE unknown_since IS NOT NULL AND dead_letter = 0 AND operation = ?1 "
             "AND coalesce(reconcile_after, 0) <= ?2 ORDER BY coalesce(reconcile_after, 0) "
             "LIMIT ?3";
    case OperatorSql::CountTry:
      return "UPDATE record SET reconcile_after = ?3, reconcile_tries = reconcile_tries + 1 "
             "WHERE id = ?1 AND attempt = ?2 AND state = 4";
    case OperatorSql::TenantsRecords:
      return "SELECT id, state, attempt, reclaimed, expired_at, dead_letter, operation, "
             "lease_until FROM record WHERE tenant = ?1 ORDER BY operation, key";
    case OperatorSql::TenantsAudit:
      return "SELECT id, operation, key FROM audit INDEXED BY audit_record WHERE tenant = ?1 "
             "AND key IS NOT NULL LIMIT ?2";
    case OperatorSql::Pseudonymise:
      return "UPDATE audit SET tenant = ?2, key = ?3, detail = '' WHERE id = ?1";
    case OperatorSql::AuditPurge:
      return "INSERT INTO audit (at, action, actor, tenant, records, detail) "
             "VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    case OperatorSql::NextUnknownOperation:
      return "SELECT operation FROM record INDEXED BY record_unknown "
             "WHERE unknown_since IS NOT NULL AND operation >= ?1 ORDER BY operation LIMIT 1";
    case OperatorSql::OldestUnknown:
      return "SELECT tenant, unknown_since, dead_letter FROM record INDEXED BY record_unknown "
             "WHERE unknown_since IS NOT NULL AND operation = ?1 ORDER BY unknown_since LIMIT ?2";
    case OperatorSql::UnsettledUse:
      return "SELECT records, dead_letters FROM unsettled_use WHERE operation = ?1";
    case OperatorSql::NewestStates:
      return "SELECT state, count(*) FROM (SELECT state FROM record ORDER BY id DESC LIMIT ?1) "
             "GROUP BY state";
    case OperatorSql::Leader:
      return "SELECT owner FROM leader WHERE name = 'maintenance' AND lease_until > ?1";
  }
  return {};
}

std::array<std::string_view, OperatorSqlCount> operatorStatementTexts() {
  std::array<std::string_view, OperatorSqlCount> texts;
  for (size_t i = 0; i < OperatorSqlCount; ++i) {
    texts[i] = text(static_cast<OperatorSql>(i));
  }
  return texts;
}

}  // namespace idempotency::sqlite
