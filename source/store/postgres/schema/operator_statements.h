#pragma once

namespace idempotency::postgres {

// What operators and the reconciler send. Not prepared: each is planned for its values.

// As RecordColumn has them.
#define RECORD_COLUMNS                                                                       \
  "r.state, r.attempt, r.fingerprint, r.recovery_point, r.lease_until, r.expires_at,"        \
  " r.created_at, r.completed_at, r.reconcile_after, r.dead_letter, r.last_error, r.status," \
  " r.tombstone, r.response_schema, r.on_lease_expired, r.claimed_at, now()"
#define SAME_IDENTITY(a, b) \
  a ".tenant = " b ".tenant AND " a ".operation = " b ".operation AND " a ".key = " b ".key"
#define THIS_IDENTITY(row) \
  row ".tenant = $1::bytea AND " row ".operation = $2::bytea AND " row ".key = $3::bytea"
#define THIS_ATTEMPT(row) THIS_IDENTITY(row) " AND " row ".attempt = $4::int8"
// Every reader of unsettled needs this: a row may be stale.
#define STILL_UNKNOWN(u, r) \
  SAME_IDENTITY(r, u) " AND " r ".attempt = " u ".attempt AND " r ".state = 4"

// Tenant, operation and key follow the columns.
inline constexpr char SelectRecords[] =
    "SELECT " RECORD_COLUMNS ", r.tenant, r.operation, r.key FROM idempotency.record r WHERE true";
// The same of the records whose outcome is unknown.
inline constexpr char SelectUnsettled[] =
    "SELECT " RECORD_COLUMNS
    ", r.tenant, r.operation, r.key FROM idempotency.unsettled u JOIN idempotency.record r"
    " ON " STILL_UNKNOWN("u", "r") " WHERE true";
// The identities alone, of either.
inline constexpr char SelectIdentities[] =
    "SELECT r.tenant, r.operation, r.key FROM idempotency.record r WHERE true";
inline constexpr char SelectUnsettledIdentities[] =
    "SELECT r.tenant, r.operation, r.key FROM idempotency.unsettled u JOIN idempotency.record r"
    " ON " STILL_UNKNOWN("u", "r") " WHERE true";

inline constexpr char FindRecord[] =
    "SELECT " RECORD_COLUMNS " FROM idempotency.record r WHERE " THIS_IDENTITY("r");
inline constexpr char FindResponse[] =
    "SELECT body FROM idempotency.response WHERE attempt = $1::int8"
    " AND expires_at = $2::timestamptz";

// --- A change, in one transaction with its audit entry

inline constexpr char BeginChange[] = "BEGIN ISOLATION LEVEL READ COMMITTED";
inline constexpr char LockRecord[] =
    "SELECT " RECORD_COLUMNS " FROM idempotency.record r WHERE " THIS_IDENTITY("r") " FOR UPDATE";
// Tells later whether the transaction was committed, even if the connection is lost.
inline constexpr char TransactionNumber[] = "SELECT pg_current_xact_id()::text";
inline constexpr char TransactionStatus[] = "SELECT pg_xact_status($1::text::xid8)";

// The record's life starts again: clients that were told "unknown" must find what is decided now.
#define NEW_LIFE "now() + extract(epoch FROM r.expires_at - r.claimed_at) * interval '1 second'"
#define SETTLED " reconcile_after = NULL, dead_letter = false"

inline constexpr char ResolveCompleted[] =
    "UPDATE idempotency.record r SET state = 2, status = $5::int2, tombstone = $6::int2,"
    " response_schema = $7::int2, completed_at = now(), last_error = NULL,"
    " expires_at = coalesce(now() + $8::int8 * interval '1 ms', " NEW_LIFE
    "), reap_at = coalesce(now() + $8::int8 * interval '1 ms', " NEW_LIFE ")," SETTLED
    " WHERE " THIS_ATTEMPT("r");
// After the record: its row has the response's expiry.
inline constexpr char InsertResponse[] =
    "INSERT INTO idempotency.response (attempt, expires_at, body)"
    " SELECT r.attempt, r.expires_at, $5::bytea FROM idempotency.record r WHERE " THIS_ATTEMPT("r");
inline constexpr char ResolveNotRun[] =
    "UPDATE idempotency.record r SET state = 3, last_error = $5::text, expires_at = " NEW_LIFE
    ", reap_at = " NEW_LIFE "," SETTLED " WHERE " THIS_ATTEMPT("r");
inline constexpr char DeleteRecord[] = "DELETE FROM idempotency.record r WHERE " THIS_ATTEMPT("r");
inline constexpr char DeleteResponse[] =
    "DELETE FROM idempotency.response WHERE attempt = $1::int8 AND expires_at = $2::timestamptz";
// $6: whether the record starts all over.
inline constexpr char AskAgain[] =
    "UPDATE idempotency.record r SET reconcile_after = now() + $5::int8 * interval '1 ms',"
    " reconcile_tries = CASE WHEN $6::bool THEN 0 ELSE r.reconcile_tries END,"
    " dead_letter = r.dead_letter AND NOT $6::bool WHERE " THIS_ATTEMPT("r");
inline constexpr char GiveUp[] =
    "UPDATE idempotency.record r SET reconcile_after = NULL, dead_letter = true"
    " WHERE " THIS_ATTEMPT("r");

// After the record, which it copies.
inline constexpr char CopyToUnsettled[] =
    "INSERT INTO idempotency.unsettled AS u (tenant, operation, key, attempt, since, next_try,"
    " dead_letter)"
    " SELECT r.tenant, r.operation, r.key, r.attempt, now(),"
    " CASE WHEN NOT r.dead_letter THEN r.reconcile_after END, r.dead_letter"
    " FROM idempotency.record r WHERE " THIS_ATTEMPT("r")
    " ON CONFLICT (tenant, operation, key) DO UPDATE SET attempt = excluded.attempt,"
    " since = CASE WHEN u.attempt = excluded.attempt THEN u.since ELSE excluded.since END,"
    " next_try = excluded.next_try, dead_letter = excluded.dead_letter";
inline constexpr char DeleteUnsettled[] =
    "DELETE FROM idempotency.unsettled u WHERE " THIS_IDENTITY("u");

inline constexpr char InsertAudit[] =
    "INSERT INTO idempotency.audit (tenant, operation, key, attempt, actor, action, detail)"
    " VALUES ($1::bytea, $2::bytea, $3::bytea, $4::int8, $5::text, $6::text, $7::text)";
inline constexpr char CommitChange[] = "COMMIT";

// --- The reconciler

// $1, $2: these operations, or all but these. $3: hold. $4: limit. Locks a record before its row in
// unsettled, as every other writer does. For each operation, the first ones by the index, and some
// more in case other transactions have locked them; then the longest due of all operations. A
// caller that races with this one finds the new next_try when it locks the row, and passes on.
inline constexpr char TakeDue[] =
    "WITH RECURSIVE present AS ("
    "  (SELECT sha256(u.operation) AS hash FROM idempotency.unsettled u WHERE NOT u.dead_letter"
    "   ORDER BY 1 LIMIT 1)"
    "  UNION ALL"
    "  SELECT (SELECT sha256(u.operation) FROM idempotency.unsettled u"
    "    WHERE NOT u.dead_letter AND sha256(u.operation) > p.hash ORDER BY 1 LIMIT 1)"
    "  FROM present p WHERE p.hash IS NOT NULL"
    "), named AS (SELECT DISTINCT sha256(n.name) AS hash FROM unnest($1::bytea[]) AS n (name)"
    "), wanted AS ("
    "  SELECT hash FROM named WHERE NOT $2::bool"
    "  UNION ALL SELECT hash FROM present WHERE $2::bool AND hash IS NOT NULL"
    "    AND NOT EXISTS (SELECT FROM named n WHERE n.hash = present.hash)"
    "), candidate AS MATERIALIZED ("
    "  SELECT c.* FROM wanted w CROSS JOIN LATERAL ("
    "    SELECT u.tenant, u.operation, u.key, u.attempt, coalesce(u.next_try, u.since) AS due"
    "    FROM idempotency.unsettled u JOIN idempotency.record r ON " STILL_UNKNOWN("u", "r")
    "    WHERE sha256(u.operation) = w.hash AND NOT u.dead_letter"
    "      AND coalesce(u.next_try, u.since) <= now()"
    "    ORDER BY coalesce(u.next_try, u.since) LIMIT $4::int8 * 2 + 100) c"
    "), taken AS MATERIALIZED ("
    "  SELECT r.tenant, r.operation, r.key, r.attempt, c.due FROM candidate c"
    "    JOIN idempotency.record r ON " STILL_UNKNOWN("c", "r")
    "    JOIN idempotency.unsettled u ON " SAME_IDENTITY("u", "c") " AND u.attempt = c.attempt"
    "  WHERE NOT u.dead_letter AND coalesce(u.next_try, u.since) <= now()"
    "  ORDER BY c.due LIMIT $4::int8"
    "  FOR NO KEY UPDATE OF r, u SKIP LOCKED"
    "), counted AS ("
    "  UPDATE idempotency.record r SET reconcile_tries = r.reconcile_tries + 1,"
    "    reconcile_after = now() + $3::int8 * interval '1 ms'"
    "  FROM taken t WHERE " STILL_UNKNOWN("t", "r")
    "  RETURNING r.tenant, r.operation, r.key, r.attempt, r.reconcile_tries, r.claimed_at"
    "), held AS ("
    "  UPDATE idempotency.unsettled u SET next_try = now() + $3::int8 * interval '1 ms'"
    "  FROM taken t WHERE " SAME_IDENTITY("u", "t") " AND u.attempt = t.attempt"
    ")"
    " SELECT c.tenant, c.operation, c.key, c.attempt, c.reconcile_tries::int8,"
    " floor(extract(epoch FROM now() - c.claimed_at) * 1000)::int8"
    " FROM counted c JOIN taken t ON " SAME_IDENTITY("t", "c") " ORDER BY t.due";

// --- What there is

inline constexpr char SelectAudit[] =
    "SELECT id, at, actor, action, tenant, operation, key, attempt, records, detail"
    " FROM idempotency.audit WHERE true";

inline constexpr char PurgeTenant[] =
    "SELECT records, unsettled, running, audit_entries, more"
    " FROM idempotency.purge_tenant($1::bytea, $2::text, $3::text, $4::bool, $5::int8)";

inline constexpr char TidyUnsettled[] = "SELECT idempotency.tidy_unsettled($1::int8)";
inline constexpr char CountUnsettled[] =
    "SELECT c.operation, c.records::int8, c.dead_letters::int8,"
    " floor(extract(epoch FROM now() - o.since) * 1000)::int8"
    " FROM (SELECT operation, sum(records) AS records, sum(dead_letters) AS dead_letters FROM ("
    "     SELECT operation, records, dead_letters FROM idempotency.unsettled_total UNION ALL"
    "     SELECT operation, records, dead_letters FROM idempotency.unsettled_change) change"
    "   GROUP BY operation HAVING sum(records) > 0"
    "   ORDER BY sum(records) DESC, operation LIMIT $1::int8) c"
    " LEFT JOIN LATERAL (SELECT u.since FROM idempotency.unsettled u"
    "   JOIN idempotency.record r ON " STILL_UNKNOWN("u", "r")
    "   WHERE sha256(u.operation) = sha256(c.operation) ORDER BY u.since LIMIT 1) o ON true"
    " ORDER BY c.records DESC, c.operation";
// $1: how many records it looks at, the oldest first. The last column: at how many it did.
inline constexpr char CountTenants[] =
    "WITH oldest AS MATERIALIZED (SELECT u.tenant, u.since FROM idempotency.unsettled u"
    "   JOIN idempotency.record r ON " STILL_UNKNOWN("u", "r")
    "   ORDER BY u.since LIMIT $1::int8)"
    " SELECT tenant, count(*), floor(extract(epoch FROM now() - min(since)) * 1000)::int8,"
    " (SELECT count(*) FROM oldest)"
    " FROM oldest GROUP BY tenant ORDER BY min(since), tenant LIMIT $2::int8";
inline constexpr char CountStates[] =
    "SELECT state, count(*) FROM (SELECT state FROM idempotency.record LIMIT $1::int8) seen"
    " GROUP BY state";
inline constexpr char SelectLeader[] =
    "SELECT owner FROM idempotency.leader WHERE name = 'maintenance' AND lease_until > now()";
inline constexpr char SelectVersion[] =
    "SELECT max(version)::int8, now() FROM idempotency.schema_version";

#undef SETTLED
#undef NEW_LIFE
#undef STILL_UNKNOWN
#undef THIS_ATTEMPT
#undef THIS_IDENTITY
#undef SAME_IDENTITY
#undef RECORD_COLUMNS

}  // namespace idempotency::postgres
