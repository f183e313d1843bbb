#include "source/store/postgres/statements.h"

namespace idempotency::postgres {
namespace {

// Times are the database's: now() is the start of the transaction, so a lease that was waited for
// never looks longer than it is. Durations are milliseconds.
#define IDENTITY "tenant = $1 AND operation = $2 AND key = $3"
#define OURS IDENTITY " AND attempt = $4 AND state = 1"
#define HAS_ROOM(cap)                                                        \
  "(SELECT count(*) FROM (SELECT FROM idempotency.key q WHERE q.tenant = $1" \
  " AND q.expires_at > now() AND q.state <> 5 LIMIT " cap ") live) < " cap

constexpr std::array<Statement, StatementCount> Statements = {{
    {"idempotency_claim",
     "INSERT INTO idempotency.key (tenant, operation, key, attempt, state, on_lease_expired,"
     " fingerprint, lease_until, expires_at, reap_at, claimed_at, created_at)"
     " VALUES ($1::bytea, $2::bytea, $3::bytea, $4::int8, 1, $5::int2, $6::bytea,"
     " now() + $7::int8 * interval '1 ms', now() + $8::int8 * interval '1 ms',"
     " now() + $8::int8 * interval '1 ms', now(), now())"
     " ON CONFLICT (tenant, operation, key) DO NOTHING"
     " RETURNING expires_at"},

    // In the order of the arrays, which are sorted. Two of one identity: the first is inserted.
    {"idempotency_claim_many",
     "INSERT INTO idempotency.key (tenant, operation, key, attempt, state, on_lease_expired,"
     " fingerprint, lease_until, expires_at, reap_at, claimed_at, created_at)"
     " SELECT tenant, operation, key, attempt, 1, on_lease_expired, fingerprint,"
     " now() + lease * interval '1 ms', now() + ttl * interval '1 ms',"
     " now() + ttl * interval '1 ms', now(), now()"
     " FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::int8[], $5::int2[], $6::bytea[],"
     " $7::int8[], $8::int8[])"
     " AS w (tenant, operation, key, attempt, on_lease_expired, fingerprint, lease, ttl)"
     " ON CONFLICT (tenant, operation, key) DO NOTHING"
     " RETURNING expires_at, attempt"},

    {"idempotency_claim_in_quota",
     "INSERT INTO idempotency.key (tenant, operation, key, attempt, state, on_lease_expired,"
     " fingerprint, lease_until, expires_at, reap_at, claimed_at, created_at)"
     " SELECT $1::bytea, $2::bytea, $3::bytea, $4::int8, 1, $5::int2, $6::bytea,"
     " now() + $7::int8 * interval '1 ms', now() + $8::int8 * interval '1 ms',"
     " now() + $8::int8 * interval '1 ms', now(), now()"
     " WHERE " HAS_ROOM("$9::int8") " ON CONFLICT (tenant, operation, key) DO NOTHING"
                                    " RETURNING expires_at"},

    // A record that is over begins a new life; any other keeps what an earlier attempt reached.
    {"idempotency_reclaim",
     "UPDATE idempotency.key SET attempt = $4::int8, state = 1, on_lease_expired = $5::int2,"
     " fingerprint = $6::bytea, lease_until = now() + $7::int8 * interval '1 ms',"
     " expires_at = now() + $8::int8 * interval '1 ms',"
     " reap_at = now() + $8::int8 * interval '1 ms', claimed_at = now(),"
     " created_at = CASE WHEN state <> 1 AND (state = 5 OR expires_at <= now())"
     "   THEN now() ELSE created_at END,"
     " recovery_point = CASE WHEN state <> 1 AND (state = 5 OR expires_at <= now())"
     "   THEN 'started' ELSE recovery_point END,"
     " reclaimed = NOT (state <> 1 AND (state = 5 OR expires_at <= now())),"
     " completed_at = NULL, reconcile_after = NULL, reconcile_tries = 0, dead_letter = false,"
     " status = NULL, tombstone = NULL, response_schema = NULL, last_error = NULL"
     " WHERE " IDENTITY " AND state = $10::int2 AND attempt = $11::int8"
     " AND (state IN (3, 5) OR (state = 1 AND lease_until <= now())"
     "   OR (state = 2 AND expires_at <= now()))"
     " AND ($9::int8 IS NULL OR (state <> 5 AND expires_at > now()) OR " HAS_ROOM(
         "$9::int8") ")"
                     " RETURNING expires_at, recovery_point"},

    {"idempotency_count_tenant", "SELECT NOT " HAS_ROOM("$2::int8")},

    // One statement, so that both rows are written or neither. Nothing updated: nothing inserted.
    {"idempotency_complete",
     "WITH done AS (UPDATE idempotency.key SET state = 2, status = $5::int2, tombstone = 0,"
     " response_schema = $6::int2, completed_at = now(),"
     " expires_at = CASE WHEN $7::int8 IS NULL THEN expires_at"
     "   ELSE now() + $7::int8 * interval '1 ms' END"
     " WHERE " OURS " RETURNING attempt, expires_at)"
     " INSERT INTO idempotency.response (attempt, expires_at, body)"
     " SELECT attempt, expires_at, $8::bytea FROM done"},

    // A ttl below 0 stands for none.
    {"idempotency_complete_many",
     "WITH done AS (UPDATE idempotency.key k SET state = 2, status = w.status, tombstone = 0,"
     " response_schema = w.response_schema, completed_at = now(),"
     " expires_at = CASE WHEN w.ttl < 0 THEN k.expires_at ELSE now() + w.ttl * interval '1 ms' END"
     " FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::int8[], $5::int2[], $6::int2[],"
     " $7::int8[], $8::bytea[])"
     " AS w (tenant, operation, key, attempt, status, response_schema, ttl, body)"
     " WHERE k.tenant = w.tenant AND k.operation = w.operation AND k.key = w.key"
     " AND k.attempt = w.attempt AND k.state = 1"
     " RETURNING k.attempt, k.expires_at, w.body)"
     " INSERT INTO idempotency.response (attempt, expires_at, body)"
     " SELECT attempt, expires_at, body FROM done"
     " RETURNING attempt"},

    {"idempotency_complete_bare",
     "UPDATE idempotency.key SET state = 2, status = $5::int2, tombstone = $8::int2,"
     " response_schema = $6::int2, completed_at = now(),"
     " expires_at = CASE WHEN $7::int8 IS NULL THEN expires_at"
     "   ELSE now() + $7::int8 * interval '1 ms' END"
     " WHERE " OURS},

    {"idempotency_fail", "UPDATE idempotency.key SET state = 3, last_error = $5::text WHERE " OURS},

    {"idempotency_release",
     "WITH gone AS (DELETE FROM idempotency.key WHERE " OURS " AND NOT reclaimed RETURNING 1),"
     " back AS (UPDATE idempotency.key SET state = 3 WHERE " OURS " AND reclaimed RETURNING 1)"
     " SELECT 1 FROM gone UNION ALL SELECT 1 FROM back"},

    {"idempotency_mark_unknown",
     "UPDATE idempotency.key SET state = 4, last_error = $5::text,"
     " reconcile_after = now() + $6::int8 * interval '1 ms' WHERE " OURS},

    // The arrays are sorted by identity: locks are taken in the same order everywhere.
    {"idempotency_extend",
     "UPDATE idempotency.key k SET lease_until = now() + $5::int8 * interval '1 ms'"
     " FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::int8[])"
     "   AS w (tenant, operation, key, attempt)"
     " WHERE k.tenant = w.tenant AND k.operation = w.operation AND k.key = w.key"
     " AND k.attempt = w.attempt AND k.state = 1"
     " RETURNING k.attempt"},

    {"idempotency_read_key",
     "SELECT state, attempt, fingerprint, recovery_point, lease_until, expires_at, created_at,"
     " completed_at, reconcile_after, dead_letter, last_error, status, tombstone, response_schema,"
     " now() FROM idempotency.key WHERE " IDENTITY},

    {"idempotency_read_key_many",
     "SELECT k.state, k.attempt, k.fingerprint, k.recovery_point, k.lease_until, k.expires_at,"
     " k.created_at, k.completed_at, k.reconcile_after, k.dead_letter, k.last_error, k.status,"
     " k.tombstone, k.response_schema, now(), w.ordinal"
     " FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) WITH ORDINALITY"
     " AS w (tenant, operation, key, ordinal)"
     " JOIN idempotency.key k"
     " ON k.tenant = w.tenant AND k.operation = w.operation AND k.key = w.key"},

    // Apart from ReadKey, and bounded by parameters: a join would open every partition.
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

    {"idempotency_reap",
     "SELECT to_failed, expired, deleted, more FROM idempotency.reap($1::int8, $2::bool)"},
}};

#undef HAS_ROOM
#undef OURS
#undef IDENTITY

}  // namespace

const Statement& statement(StatementId id) {
  return Statements[static_cast<size_t>(id)];
}

}  // namespace idempotency::postgres
