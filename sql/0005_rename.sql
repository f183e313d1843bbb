-- compatible-with: 5
-- The names that the embedded store has, too: one word for each thing. Older modules use the old names, so they are refused.

ALTER TABLE idempotency.key RENAME TO record;
ALTER INDEX idempotency.key_pkey RENAME TO record_pkey;
ALTER INDEX idempotency.key_reap_at RENAME TO record_reap_at;
ALTER INDEX idempotency.key_claimed_at RENAME TO record_claimed_at;

ALTER TABLE idempotency.audit RENAME COLUMN count TO records;

COMMENT ON SCHEMA idempotency IS 'Records and stored responses of envoy-idempotency.';
COMMENT ON COLUMN idempotency.response.expires_at IS 'As in the record; chooses the partition.';
COMMENT ON COLUMN idempotency.response.body IS
  'Status, headers, body and trailers in the format that record.response_schema names; perhaps encrypted.';
COMMENT ON COLUMN idempotency.sweep_position.swept_to IS 'The sweeper has looked at claims up to this record.claimed_at.';
COMMENT ON COLUMN idempotency.sweep_watch.tenant IS 'As in record.';
COMMENT ON COLUMN idempotency.sweep_watch.operation IS 'As in record.';
COMMENT ON COLUMN idempotency.sweep_watch.key IS 'As in record.';
COMMENT ON COLUMN idempotency.tenant_use.tenant IS 'As in record.';

-- The functions below are those of version 4 with the new names. PostgreSQL keeps the text of a function, names included.

-- Moves records whose lease has expired to unknown, or under the policy RETRY to failed_retryable. At most p_limit records.
-- Looks at p_scan claims at most; `more` says that there is work left.
-- Skips a record that another transaction has locked, because that transaction may block the heartbeat that keeps the
-- record alive. The record stays in progress, so it goes to sweep_watch, and the next sweep looks at it.
CREATE OR REPLACE FUNCTION idempotency.sweep(
  p_limit bigint, p_reconcile_after interval, p_scan bigint,
  OUT to_unknown bigint, OUT to_retry bigint, OUT more boolean
) LANGUAGE plpgsql
-- Sessions of the module turn all of these round, for the sake of single rows.
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = on
SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_hashjoin = on SET enable_mergejoin = on AS $$
DECLARE
  place idempotency.sweep_position%ROWTYPE;
  scan_end timestamptz;
  -- A claim's time is its transaction's start, and it becomes visible at the end: stay that far behind.
  settled timestamptz := now() - interval '1 minute';
BEGIN
  SELECT * INTO STRICT place FROM idempotency.sweep_position FOR UPDATE;
  -- Once a day from the very beginning, in case a claim took longer than that after all.
  IF place.started_at < now() - interval '1 day' THEN
    place.swept_to := '-infinity';
    place.started_at := now();
  END IF;
  SELECT max(c.claimed_at) INTO scan_end FROM
    (SELECT r.claimed_at FROM idempotency.record r WHERE r.claimed_at > place.swept_to
     ORDER BY r.claimed_at LIMIT p_scan) c;

  WITH late AS MATERIALIZED (
    SELECT r.tenant, r.operation, r.key FROM idempotency.sweep_watch w
      JOIN idempotency.record r ON r.tenant = w.tenant AND r.operation = w.operation AND r.key = w.key
      WHERE r.state = 1 AND r.lease_until <= now()
    UNION
    SELECT r.tenant, r.operation, r.key FROM idempotency.record r
      WHERE r.claimed_at > place.swept_to AND r.claimed_at <= scan_end
        AND r.state = 1 AND r.lease_until <= now()
  ), chosen AS MATERIALIZED (
    -- The bound counts what can be had, so that locked records in front keep nobody behind them waiting.
    SELECT r.tenant, r.operation, r.key FROM late l
      JOIN idempotency.record r ON r.tenant = l.tenant AND r.operation = l.operation AND r.key = l.key
      WHERE r.state = 1 AND r.lease_until <= now()
      ORDER BY 1, 2, 3 LIMIT p_limit
      FOR NO KEY UPDATE OF r SKIP LOCKED
  ), moved AS (
    UPDATE idempotency.record r SET
      state = CASE r.on_lease_expired WHEN 1 THEN 3 ELSE 4 END,
      last_error = 'lease_expired',
      reconcile_after = CASE r.on_lease_expired WHEN 1 THEN NULL ELSE now() + p_reconcile_after END
    FROM chosen c
    WHERE r.tenant = c.tenant AND r.operation = c.operation AND r.key = c.key
      AND r.state = 1 AND r.lease_until <= now()
    RETURNING r.tenant, r.operation, r.key, r.attempt, r.state
  ), audited AS (
    INSERT INTO idempotency.audit (action, tenant, operation, key, attempt)
    SELECT CASE m.state WHEN 3 THEN 'lease_to_retry' ELSE 'lease_to_unknown' END,
           m.tenant, m.operation, m.key, m.attempt FROM moved m
  )
  SELECT (SELECT count(*) FROM moved WHERE state = 4), (SELECT count(*) FROM moved WHERE state = 3),
         (SELECT count(*) FROM late) > p_limit AND (SELECT count(*) FROM chosen) = p_limit
  INTO to_unknown, to_retry, more;

  DELETE FROM idempotency.sweep_watch w WHERE NOT EXISTS (
    SELECT FROM idempotency.record r
    WHERE r.tenant = w.tenant AND r.operation = w.operation AND r.key = w.key AND r.state = 1);
  -- With late ones left over, the next call begins here again.
  IF NOT more AND scan_end IS NOT NULL THEN
    more := scan_end < settled AND EXISTS (SELECT FROM idempotency.record r WHERE r.claimed_at > scan_end);
    scan_end := greatest(least(scan_end, settled), place.swept_to);
    INSERT INTO idempotency.sweep_watch (tenant, operation, key)
    SELECT r.tenant, r.operation, r.key FROM idempotency.record r
    WHERE r.claimed_at > place.swept_to AND r.claimed_at <= scan_end AND r.state = 1
    ON CONFLICT DO NOTHING;
    UPDATE idempotency.sweep_position SET swept_to = scan_end, started_at = place.started_at;
  END IF;
END $$;

-- Counts the records of a tenant, but looks at p_limit of them at most: `complete` says that these were all.
-- `live` are those that have not expired.
CREATE OR REPLACE FUNCTION idempotency.count_tenant(
  p_tenant bytea, p_limit bigint, OUT records bigint, OUT live bigint, OUT complete boolean
) LANGUAGE plpgsql STABLE
-- One after the other along the primary key. A bitmap would hold all of them before the first is looked at.
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_indexscan = on SET enable_bitmapscan = off AS $$
BEGIN
  SELECT count(*) FILTER (WHERE r.state <> 5),
         count(*) FILTER (WHERE r.state <> 5 AND r.expires_at > now()), count(*) < p_limit
  INTO records, live, complete
  FROM (SELECT state, expires_at FROM idempotency.record WHERE tenant = p_tenant LIMIT p_limit) r;
END $$;

-- Counts the tenants again that were asked for since their last count, starting with the one that has waited longest. At
-- most p_limit of them, and none for more than a fiftieth of the time. Returns how many.
CREATE OR REPLACE FUNCTION idempotency.recount_tenants(p_limit bigint) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = on
SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_bitmapscan = on AS $$
DECLARE
  counted bigint := 0;
  began timestamptz;
  next_tenant bytea;
BEGIN
  WHILE counted < p_limit LOOP
    -- Processes pass over a row that is locked and come back to it.
    SELECT u.tenant INTO next_tenant FROM idempotency.tenant_use u
    WHERE u.asked_at >= u.counted_at
      AND u.counted_at < now() - greatest(interval '20 seconds', 50 * u.counting_took)
    ORDER BY u.counted_at LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED;
    EXIT WHEN NOT FOUND;
    began := clock_timestamp();
    UPDATE idempotency.tenant_use u SET
      records = (SELECT count(*) FROM idempotency.record r WHERE r.tenant = next_tenant AND r.state <> 5),
      counted_at = now()
    WHERE u.tenant = next_tenant;
    UPDATE idempotency.tenant_use u SET counting_took = clock_timestamp() - began WHERE u.tenant = next_tenant;
    counted := counted + 1;
  END LOOP;
  RETURN counted;
END $$;

-- Deletes settled records that have expired, or with p_soft keeps them as expired. Unknown ones stay unknown; reap_at moves
-- them out of this function's way. At most p_limit records.
-- Not replaced but made again, because a result is gone: to_failed, which only modules before version 3 read.
DROP FUNCTION idempotency.reap(bigint, boolean);
CREATE FUNCTION idempotency.reap(
  p_limit bigint, p_soft boolean,
  OUT expired bigint, OUT deleted bigint, OUT more boolean
) LANGUAGE plpgsql
-- By indexes alone: a call costs what it takes away, however much waits behind that.
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  seen bigint;
BEGIN
  WITH due AS MATERIALIZED (
    SELECT r.tenant, r.operation, r.key, r.state, r.expires_at FROM idempotency.record r
    WHERE r.reap_at <= now() AND r.state IN (2, 3, 4)
    ORDER BY r.reap_at LIMIT p_limit + 1
    FOR UPDATE SKIP LOCKED
  ), first AS MATERIALIZED (
    SELECT * FROM due LIMIT p_limit
  ), longer AS (
    -- Their lives were made longer at completion.
    UPDATE idempotency.record r SET reap_at = r.expires_at
    FROM first f
    WHERE f.expires_at > now() AND r.tenant = f.tenant AND r.operation = f.operation AND r.key = f.key
  ), chosen AS MATERIALIZED (
    SELECT * FROM first WHERE expires_at <= now()
  ), unsettled AS (
    -- Whatever settles them sets reap_at again.
    UPDATE idempotency.record r SET reap_at = 'infinity'
    FROM chosen c
    WHERE c.state = 4 AND r.tenant = c.tenant AND r.operation = c.operation AND r.key = c.key
  ), kept AS (
    UPDATE idempotency.record r SET state = 5, reap_at = 'infinity'
    FROM chosen c
    WHERE p_soft AND c.state <> 4 AND r.tenant = c.tenant AND r.operation = c.operation AND r.key = c.key
    RETURNING 1
  ), gone AS (
    DELETE FROM idempotency.record r USING chosen c
    WHERE NOT p_soft AND c.state <> 4 AND r.tenant = c.tenant AND r.operation = c.operation AND r.key = c.key
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM kept), (SELECT count(*) FROM gone), (SELECT count(*) FROM due)
  INTO expired, deleted, seen;

  IF expired > 0 THEN
    INSERT INTO idempotency.audit (action, records) VALUES ('expire', expired);
  END IF;
  IF deleted > 0 THEN
    INSERT INTO idempotency.audit (action, records) VALUES ('delete', deleted);
  END IF;
  -- Responses that found no partition of their own.
  DELETE FROM idempotency.response_default p WHERE (p.attempt, p.expires_at) IN (
    SELECT d.attempt, d.expires_at FROM idempotency.response_default d WHERE d.expires_at <= now() LIMIT p_limit);
  more := seen > p_limit;
END $$;
COMMENT ON FUNCTION idempotency.reap(bigint, boolean) IS
  'Deletes or soft-expires settled records past their life; never one that is in progress or whose outcome is unknown.';
