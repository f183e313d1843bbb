#include "source/store/postgres/schema/statements.h"

namespace idempotency::postgres {
namespace {

// Times are the database's: now() is the start of the transaction, so a lease that was waited for
// never looks longer than it is. Durations are milliseconds.
#define IDENTITY "tenant = $1 AND operation = $2 AND key = $3"
#define OURS IDENTITY " AND attempt = $4 AND state = 1"
// A completion may come late, when the record is unknown already.
#define OURS_TO_COMPLETE IDENTITY " AND attempt = $4 AND state IN (1, 4)"
// A late completion renews the record for as long as at its claim. In seconds, because days of an
// interval need not have 24 hours. Late means that the record was reported as unknown, or that it
// has expired: clients that retry would find an expired completed record, and run.
#define IS_LATE(row) "(" row "state = 4 OR " row "expires_at <= now())"
#define LATE_END(row) \
  "now() + extract(epoch FROM " row "expires_at - " row "claimed_at) * interval '1 second'"
// What a completion sets beside the result; a ttl below 0, or NULL, stands for none. In a record in
// progress all but expires_at have such values already, so that the update stays a HOT one: reap_at
// is in an index.
#define COMPLETED_LIFE(row, ttl) \
  " expires_at = CASE WHEN " ttl " >= 0 THEN now() + " ttl " * interval '1 ms'"        \
  "   WHEN " IS_LATE(row) " THEN " LATE_END(row) " ELSE " row "expires_at END,"        \
  " reap_at = CASE WHEN NOT " IS_LATE(row) " THEN " row "reap_at"                      \
  "   WHEN " ttl " >= 0 THEN now() + " ttl " * interval '1 ms'"                        \
  "   ELSE " LATE_END(row) " END,"                                                     \
  " last_error = NULL, reconcile_after = NULL, dead_letter = false"
#define COMPLETED_ONE COMPLETED_LIFE("", "$7::int8")
#define COMPLETED_MANY COMPLETED_LIFE("r.", "w.ttl")
// A lock on one record (of an upstream's transaction, or of an operator) delays that record only: a
// batch is one transaction, and waiting for one row would delay every other operation in it. So
// each write first takes the row's lock if it is free, and otherwise changes nothing.
#define IF_FREE(condition, lock)                                                            \
  "WITH free AS MATERIALIZED (SELECT FROM idempotency.record WHERE " condition " FOR " lock \
  " SKIP LOCKED) "
#define AND_FREE " AND EXISTS (SELECT FROM free)"

constexpr std::array<Statement, StatementCount> Statements = {{
    // A record that is there is not even tried for: an insert would wait for a transaction that is
    // changing it. One that comes up meanwhile is the conflict's to find.
    {"idempotency_claim",
     "INSERT INTO idempotency.record (tenant, operation, key, attempt, state, on_lease_expired,"
     " fingerprint, lease_until, expires_at, reap_at, claimed_at, created_at, own_transaction)"
     " SELECT $1::bytea, $2::bytea, $3::bytea, $4::int8, 1, $5::int2, $6::bytea,"
     " now() + $7::int8 * interval '1 ms', now() + $8::int8 * interval '1 ms',"
     " now() + $8::int8 * interval '1 ms', now(), now(), $9::int2 = 1"
     " WHERE NOT EXISTS (SELECT FROM idempotency.record WHERE " IDENTITY ")"
     " ON CONFLICT (tenant, operation, key) DO NOTHING"
     " RETURNING expires_at"},

    // In the order of the arrays, which are sorted. Two of one identity: the first is inserted.
    {"idempotency_claim_many",
     "INSERT INTO idempotency.record (tenant, operation, key, attempt, state, on_lease_expired,"
     " fingerprint, lease_until, expires_at, reap_at, claimed_at, created_at, own_transaction)"
     " SELECT tenant, operation, key, attempt, 1, on_lease_expired, fingerprint,"
     " now() + lease * interval '1 ms', now() + ttl * interval '1 ms',"
     " now() + ttl * interval '1 ms', now(), now(), own_transaction = 1"
     " FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::int8[], $5::int2[], $6::bytea[],"
     " $7::int8[], $8::int8[], $9::int2[])"
     " AS w (tenant, operation, key, attempt, on_lease_expired, fingerprint, lease, ttl,"
     " own_transaction)"
     " WHERE NOT EXISTS (SELECT FROM idempotency.record r WHERE r.tenant = w.tenant"
     "   AND r.operation = w.operation AND r.key = w.key)"
     " ON CONFLICT (tenant, operation, key) DO NOTHING"
     " RETURNING expires_at, attempt"},

    // A record that has expired starts again; any other keeps what an earlier attempt reached.
    {"idempotency_reclaim",
     IF_FREE(
         IDENTITY " AND state = $11::int2 AND attempt = $12::int8",
         "NO KEY UPDATE") "UPDATE idempotency.record SET attempt = $4::int8, state = 1, "
                          "on_lease_expired = $5::int2, own_transaction = $9::int2 = 1,"
                          " fingerprint = $6::bytea, lease_until = now() + $7::int8 * interval '1 "
                          "ms',"
                          " expires_at = now() + $8::int8 * interval '1 ms',"
                          " reap_at = now() + $8::int8 * interval '1 ms', claimed_at = now(),"
                          " created_at = CASE WHEN state <> 1 AND (state = 5 OR expires_at <= "
                          "now())"
                          "   THEN now() ELSE created_at END,"
                          " recovery_point = CASE WHEN state <> 1 AND (state = 5 OR expires_at <= "
                          "now())"
                          "   THEN 'started' ELSE recovery_point END,"
                          " reclaimed = NOT (state <> 1 AND (state = 5 OR expires_at <= now())),"
                          " completed_at = NULL, reconcile_after = NULL, reconcile_tries = 0, "
                          "dead_letter = false,"
                          " status = NULL, tombstone = NULL, response_schema = NULL, last_error = "
                          "NULL"
                          " WHERE " IDENTITY AND_FREE
                          " AND state = $11::int2 AND attempt = $12::int8"
                          // A dead lease: both claims say RETRY.
                          " AND (state IN (3, 5) OR (state = 1 AND lease_until <= now()"
                          "     AND on_lease_expired = 1 AND $5::int2 = 1)"
                          "   OR (state = 2 AND expires_at <= now()))"
                          // Whether there is room for one more live record; any other needs none.
                          " AND ($10::bool OR (state <> 5 AND expires_at > now()))"
                          " RETURNING expires_at, recovery_point"},

    {"idempotency_read_use", "SELECT records FROM idempotency.tenant_use WHERE tenant = $1::bytea"},

    {"idempotency_count_tenant",
     "SELECT records, live, complete FROM idempotency.count_tenant($1::bytea, $2::int8)"},

    // The arrays are sorted by tenant, as the next one's.
    {"idempotency_track_tenants",
     "INSERT INTO idempotency.tenant_use (tenant, records)"
     " SELECT tenant, records FROM unnest($1::bytea[], $2::int8[]) AS w (tenant, records)"
     " ON CONFLICT (tenant) DO NOTHING"},

    {"idempotency_change_use",
     "WITH free AS MATERIALIZED (SELECT w.* FROM unnest($1::bytea[], $2::int8[])"
     "   AS w (tenant, delta) JOIN idempotency.tenant_use u ON u.tenant = w.tenant"
     "   FOR NO KEY UPDATE OF u SKIP LOCKED)"
     " UPDATE idempotency.tenant_use u SET records = greatest(u.records + f.delta, 0),"
     " asked_at = now() FROM free f WHERE u.tenant = f.tenant RETURNING u.tenant, u.records"},

    // One statement, so that both rows are written or neither. Nothing updated: nothing inserted.
    {"idempotency_complete",
     IF_FREE(
         OURS_TO_COMPLETE,
         "NO KEY UPDATE") ", done AS (UPDATE idempotency.record SET state = 2, status = $5::int2, "
                          "tombstone = 0,"
                          " response_schema = $6::int2, completed_at = now()," COMPLETED_ONE
                          " WHERE " OURS_TO_COMPLETE AND_FREE " RETURNING attempt, expires_at)"
                          " INSERT INTO idempotency.response (attempt, expires_at, body)"
                          " SELECT attempt, expires_at, $8::bytea FROM done"},

    {"idempotency_complete_many",
     "WITH free AS MATERIALIZED (SELECT w.* FROM unnest($1::bytea[], $2::bytea[], $3::bytea[],"
     " $4::int8[], $5::int2[], $6::int2[], $7::int8[], $8::bytea[])"
     " AS w (tenant, operation, key, attempt, status, response_schema, ttl, body)"
     " JOIN idempotency.record r ON r.tenant = w.tenant AND r.operation = w.operation"
     " AND r.key = w.key AND r.attempt = w.attempt AND r.state IN (1, 4)"
     " FOR NO KEY UPDATE OF r SKIP LOCKED),"
     " done AS (UPDATE idempotency.record r SET state = 2, status = w.status, tombstone = 0,"
     " response_schema = w.response_schema, completed_at = now()," COMPLETED_MANY " FROM free w"
     " WHERE r.tenant = w.tenant AND r.operation = w.operation AND r.key = w.key"
     " AND r.attempt = w.attempt AND r.state IN (1, 4)"
     " RETURNING r.attempt, r.expires_at, w.body)"
     " INSERT INTO idempotency.response (attempt, expires_at, body)"
     " SELECT attempt, expires_at, body FROM done"
     " RETURNING attempt"},

    {"idempotency_complete_bare",
     IF_FREE(
         OURS_TO_COMPLETE,
         "NO KEY UPDATE") "UPDATE idempotency.record SET state = 2, status = $5::int2, tombstone "
                          "= $8::int2,"
                          " response_schema = $6::int2, completed_at = now()," COMPLETED_ONE
                          " WHERE " OURS_TO_COMPLETE AND_FREE},

    {"idempotency_fail",
     IF_FREE(OURS, "NO KEY UPDATE") "UPDATE idempotency.record SET state = 3, last_error = "
                                    "$5::text WHERE " OURS AND_FREE},

    // What became of it: see Release in the header. Phases that the upstream has committed stay
    // behind their checkpoint, also if the first attempt did that and then declined. If it has
    // ordered an effect, enqueue() has set `reclaimed`.
    {"idempotency_release",
     IF_FREE(OURS,
             "UPDATE") ", gone AS (DELETE FROM idempotency.record WHERE " OURS AND_FREE
                       " AND NOT reclaimed AND recovery_point = 'started' RETURNING 1),"
                       " back AS (UPDATE idempotency.record SET state = 3 WHERE " OURS AND_FREE
                       " AND (reclaimed OR recovery_point <> 'started') RETURNING 1)"
                       " SELECT 1::int2 FROM gone UNION ALL SELECT 2::int2 FROM back"
                       " UNION ALL SELECT 3::int2 FROM idempotency.record WHERE " OURS
                       " AND NOT EXISTS (SELECT FROM free)"},

    // A row of an earlier attempt is stale, and overwritten.
    {"idempotency_mark_unknown",
     IF_FREE(OURS,
             "NO KEY UPDATE") ", done AS (UPDATE idempotency.record SET state = 4, last_error = "
                              "$5::text,"
                              " reconcile_after = now() + $6::int8 * interval '1 ms' WHERE " OURS
                                  AND_FREE
                              " RETURNING tenant, operation, key, attempt, reconcile_after)"
                              " INSERT INTO idempotency.unsettled (tenant, operation, key, "
                              "attempt, since, next_try)"
                              " SELECT tenant, operation, key, attempt, now(), reconcile_after "
                              "FROM done"
                              " ON CONFLICT (tenant, operation, key) DO UPDATE SET attempt = "
                              "excluded.attempt,"
                              " since = excluded.since, next_try = excluded.next_try, dead_letter "
                              "= false"},

    // Those that are extended, and then all that the claims still hold: of these, what is not among
    // the first is locked. The arrays are sorted by identity: locks are taken in the same order
    // everywhere.
    {"idempotency_extend",
     "WITH held AS MATERIALIZED (SELECT r.tenant, r.operation, r.key, r.attempt"
     "   FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::int8[])"
     "   AS w (tenant, operation, key, attempt)"
     "   JOIN idempotency.record r ON r.tenant = w.tenant AND r.operation = w.operation"
     "   AND r.key = w.key AND r.attempt = w.attempt AND r.state = 1),"
     " free AS MATERIALIZED (SELECT r.tenant, r.operation, r.key, r.attempt"
     "   FROM held h JOIN idempotency.record r ON r.tenant = h.tenant AND r.operation = h.operation"
     "   AND r.key = h.key AND r.attempt = h.attempt AND r.state = 1"
     "   FOR NO KEY UPDATE OF r SKIP LOCKED),"
     " extended AS (UPDATE idempotency.record r"
     "   SET lease_until = now() + $5::int8 * interval '1 ms'"
     "   FROM free f"
     "   WHERE r.tenant = f.tenant AND r.operation = f.operation AND r.key = f.key"
     "   AND r.attempt = f.attempt AND r.state = 1"
     "   RETURNING r.attempt)"
     " SELECT attempt, true FROM extended UNION ALL SELECT attempt, false FROM held"},

    {"idempotency_read_record",
     "SELECT state, attempt, fingerprint, recovery_point, lease_until, expires_at, created_at,"
     " completed_at, reconcile_after, dead_letter, last_error, status, tombstone, response_schema,"
     " on_lease_expired, claimed_at, now() FROM idempotency.record WHERE " IDENTITY},

    {"idempotency_read_record_many",
     "SELECT r.state, r.attempt, r.fingerprint, r.recovery_point, r.lease_until, r.expires_at,"
     " r.created_at, r.completed_at, r.reconcile_after, r.dead_letter, r.last_error, r.status,"
     " r.tombstone, r.response_schema, r.on_lease_expired, r.claimed_at, now(), w.ordinal"
     " FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) WITH ORDINALITY"
     " AS w (tenant, operation, key, ordinal)"
     " JOIN idempotency.record r"
     " ON r.tenant = w.tenant AND r.operation = w.operation AND r.key = w.key"},

    // Apart from ReadRecord, and bounded by parameters: a join would open every partition.
    {"idempotency_read_responses",
     "SELECT body, attempt FROM idempotency.response WHERE attempt = ANY ($1::int8[])"
     " AND expires_at BETWEEN $2::timestamptz AND $3::timestamptz"},

    // A lease of 0 gives the leadership up.
    {"idempotency_lead",
     "INSERT INTO idempotency.leader AS l (name, owner, lease_until)"
     " VALUES ('maintenance', $1::text, now() + $2::int8 * interval '1 ms')"
     " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until"
     " WHERE l.owner = excluded.owner OR l.lease_until <= now()"
     " RETURNING lease_until > now()"},

    {"idempotency_allow_time", "SELECT set_config('statement_timeout', $1::text, true)"},

    {"idempotency_sweep",
     "SELECT to_unknown, to_retry, more"
     " FROM idempotency.sweep($1::int8, $2::int8 * interval '1 ms', $3::int8)"},

    {"idempotency_make_partitions", "SELECT idempotency.make_response_partitions($1::int4)"},

    {"idempotency_drop_partitions", "SELECT idempotency.drop_response_partitions()"},

    {"idempotency_reap", "SELECT expired, deleted, more FROM idempotency.reap($1::int8, $2::bool)"},

    {"idempotency_recount_tenants", "SELECT idempotency.recount_tenants($1::int8)"},

    {"idempotency_tidy_unsettled", "SELECT idempotency.tidy_unsettled($1::int8)"},
}};

#undef COMPLETED_MANY
#undef COMPLETED_ONE
#undef COMPLETED_LIFE
#undef LATE_END
#undef IS_LATE
#undef OURS_TO_COMPLETE
#undef AND_FREE
#undef IF_FREE
#undef OURS
#undef IDENTITY

}  // namespace

const Statement& statement(StatementId id) {
  return Statements[static_cast<size_t>(id)];
}

}  // namespace idempotency::postgres
