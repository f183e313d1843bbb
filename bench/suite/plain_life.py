"""A key's life in plain SQL for pgbench.

The statements are those of source/store/postgres/schema/statements.cc for a single record. Keys are as long
as those of the store's load, and as random.
"""

CLIENTS = 32

_NEW = "\\set attempt random(1, 9223372036854775807)\n"
_KEY = "convert_to('plain-' || lpad(:attempt::int8::text, 27, '0'), 'UTF8')"
CLAIM = f"""{_NEW}
INSERT INTO idempotency.record (tenant, operation, key, attempt, state, on_lease_expired, fingerprint,
 lease_until, expires_at, reap_at, claimed_at, created_at)
 VALUES ('tenant'::bytea, 'create-payment'::bytea, {_KEY},
 :attempt::int8, 1, 0::int2, '{"f" * 33}'::bytea, now() + 30000 * interval '1 ms',
 now() + 86400000 * interval '1 ms', now() + 86400000 * interval '1 ms', now(), now())
 ON CONFLICT (tenant, operation, key) DO NOTHING RETURNING expires_at;
"""


def life(body: int) -> str:
    """A claim and its completion with a response of so many bytes."""
    return f"""{CLAIM}
WITH done AS (UPDATE idempotency.record SET state = 2, status = 201::int2, tombstone = 0,
 response_schema = 1::int2, completed_at = now()
 WHERE tenant = 'tenant'::bytea AND operation = 'create-payment'::bytea AND key = {_KEY}
 AND attempt = :attempt::int8 AND state = 1 RETURNING attempt, expires_at)
 INSERT INTO idempotency.response (attempt, expires_at, body)
 SELECT attempt, expires_at, '{"r" * body}'::bytea FROM done;
"""
