-- compatible-with: 1
-- Time frees no key whose outcome is unknown: only the attempt itself, the upstream or an operator settles it.

-- Records past their life. Completed and failed ones go, or with p_soft stay as expired. Unknown ones stay unknown; they are
-- put out of this function's way. At most p_limit records. to_failed is always 0: modules of version 2 still read it.
CREATE OR REPLACE FUNCTION idempotency.reap(
  p_limit bigint, p_soft boolean,
  OUT to_failed bigint, OUT expired bigint, OUT deleted bigint, OUT more boolean
) LANGUAGE plpgsql
-- By indexes alone: a call costs what it takes away, however much waits behind that.
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  seen bigint;
BEGIN
  to_failed := 0;
  WITH due AS MATERIALIZED (
    SELECT k.tenant, k.operation, k.key, k.state, k.expires_at FROM idempotency.key k
    WHERE k.reap_at <= now() AND k.state IN (2, 3, 4)
    ORDER BY k.reap_at LIMIT p_limit + 1
    FOR UPDATE SKIP LOCKED
  ), first AS MATERIALIZED (
    SELECT * FROM due LIMIT p_limit
  ), longer AS (
    -- Their lives were made longer at completion.
    UPDATE idempotency.key k SET reap_at = k.expires_at
    FROM first f
    WHERE f.expires_at > now() AND k.tenant = f.tenant AND k.operation = f.operation AND k.key = f.key
  ), chosen AS MATERIALIZED (
    SELECT * FROM first WHERE expires_at <= now()
  ), unsettled AS (
    -- Whatever settles them sets reap_at again.
    UPDATE idempotency.key k SET reap_at = 'infinity'
    FROM chosen c
    WHERE c.state = 4 AND k.tenant = c.tenant AND k.operation = c.operation AND k.key = c.key
  ), kept AS (
    UPDATE idempotency.key k SET state = 5, reap_at = 'infinity'
    FROM chosen c
    WHERE p_soft AND c.state <> 4 AND k.tenant = c.tenant AND k.operation = c.operation AND k.key = c.key
    RETURNING 1
  ), gone AS (
    DELETE FROM idempotency.key k USING chosen c
    WHERE NOT p_soft AND c.state <> 4 AND k.tenant = c.tenant AND k.operation = c.operation AND k.key = c.key
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM kept), (SELECT count(*) FROM gone), (SELECT count(*) FROM due)
  INTO expired, deleted, seen;

  IF expired > 0 THEN
    INSERT INTO idempotency.audit (action, count) VALUES ('expire', expired);
  END IF;
  IF deleted > 0 THEN
    INSERT INTO idempotency.audit (action, count) VALUES ('delete', deleted);
  END IF;
  -- Responses that found no partition of their own.
  DELETE FROM idempotency.response_default r WHERE (r.attempt, r.expires_at) IN (
    SELECT d.attempt, d.expires_at FROM idempotency.response_default d WHERE d.expires_at <= now() LIMIT p_limit);
  more := seen > p_limit;
END $$;
COMMENT ON FUNCTION idempotency.reap(bigint, boolean) IS
  'Deletes or soft-expires settled records past their life; never one that is in progress or whose outcome is unknown.';

COMMENT ON COLUMN idempotency.key.expires_at IS
  'End of the life of a settled record: not replayed from then on. Fixed once the record is completed, since its response is found by it. Does not end a record that is in progress or unknown.';
COMMENT ON COLUMN idempotency.key.reap_at IS
  'When the reaper looks at the row: expires_at as the claim set it; infinity for expired records that are kept and for unknown ones past expires_at. Whatever settles a record that is unknown sets it to expires_at; a completion in time does not move it.';
COMMENT ON COLUMN idempotency.key.tombstone IS
  'Completed: 0 there is a response, 1 too large, 2 secret, 3 unstorable. Never renumbered; 4 was used before version 3.';
COMMENT ON COLUMN idempotency.audit.action IS
  'What was done: lease_to_unknown, lease_to_retry, expire, delete, …; before version 3 also give_up, of unknown records at the end of their life.';

-- Version 2 gave unknown records up at the end of their life: completed, with status 408 and tombstone 4; with soft expiry they
-- stayed as expired. What became of these requests was never known, and is not now. Found by the index on reap_at: a
-- table of any size.
UPDATE idempotency.key SET state = 4, status = NULL, tombstone = NULL, completed_at = NULL, reap_at = 'infinity'
WHERE ((reap_at <= now() AND state = 2) OR (reap_at = 'infinity' AND state = 5)) AND tombstone = 4;
