-- compatible-with: 1
-- One locked record holds up nobody else; a tenant's quota costs the same however many records the tenant has.

-- Leases that ran out: to unknown, or under the policy RETRY to failed_retryable. At most p_limit records.
-- Looks at p_scan claims at most; `more` says that there is work left.
-- A record that another transaction has locked is left alone, since what it holds up may be the very heartbeat
-- that keeps the record alive. It stays in progress, so it goes to sweep_watch, and the next sweep looks at it.
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
    (SELECT k.claimed_at FROM idempotency.key k WHERE k.claimed_at > place.swept_to
     ORDER BY k.claimed_at LIMIT p_scan) c;

  WITH late AS MATERIALIZED (
    SELECT k.tenant, k.operation, k.key FROM idempotency.sweep_watch w
      JOIN idempotency.key k ON k.tenant = w.tenant AND k.operation = w.operation AND k.key = w.key
      WHERE k.state = 1 AND k.lease_until <= now()
    UNION
    SELECT k.tenant, k.operation, k.key FROM idempotency.key k
      WHERE k.claimed_at > place.swept_to AND k.claimed_at <= scan_end
        AND k.state = 1 AND k.lease_until <= now()
  ), chosen AS MATERIALIZED (
    -- The bound counts what can be had, so that locked records in front keep nobody behind them waiting.
    SELECT k.tenant, k.operation, k.key FROM late l
      JOIN idempotency.key k ON k.tenant = l.tenant AND k.operation = l.operation AND k.key = l.key
      WHERE k.state = 1 AND k.lease_until <= now()
      ORDER BY 1, 2, 3 LIMIT p_limit
      FOR NO KEY UPDATE OF k SKIP LOCKED
  ), moved AS (
    UPDATE idempotency.key k SET
      state = CASE k.on_lease_expired WHEN 1 THEN 3 ELSE 4 END,
      last_error = 'lease_expired',
      reconcile_after = CASE k.on_lease_expired WHEN 1 THEN NULL ELSE now() + p_reconcile_after END
    FROM chosen c
    WHERE k.tenant = c.tenant AND k.operation = c.operation AND k.key = c.key
      AND k.state = 1 AND k.lease_until <= now()
    RETURNING k.tenant, k.operation, k.key, k.attempt, k.state
  ), audited AS (
    INSERT INTO idempotency.audit (action, tenant, operation, key, attempt)
    SELECT CASE m.state WHEN 3 THEN 'lease_to_retry' ELSE 'lease_to_unknown' END,
           m.tenant, m.operation, m.key, m.attempt FROM moved m
  )
  SELECT (SELECT count(*) FROM moved WHERE state = 4), (SELECT count(*) FROM moved WHERE state = 3),
         (SELECT count(*) FROM late) > p_limit AND (SELECT count(*) FROM chosen) = p_limit
  INTO to_unknown, to_retry, more;

  DELETE FROM idempotency.sweep_watch w WHERE NOT EXISTS (
    SELECT FROM idempotency.key k
    WHERE k.tenant = w.tenant AND k.operation = w.operation AND k.key = w.key AND k.state = 1);
  -- With late ones left over, the next call begins here again.
  IF NOT more AND scan_end IS NOT NULL THEN
    more := scan_end < settled AND EXISTS (SELECT FROM idempotency.key k WHERE k.claimed_at > scan_end);
    scan_end := greatest(least(scan_end, settled), place.swept_to);
    INSERT INTO idempotency.sweep_watch (tenant, operation, key)
    SELECT k.tenant, k.operation, k.key FROM idempotency.key k
    WHERE k.claimed_at > place.swept_to AND k.claimed_at <= scan_end AND k.state = 1
    ON CONFLICT DO NOTHING;
    UPDATE idempotency.sweep_position SET swept_to = scan_end, started_at = place.started_at;
  END IF;
END $$;

-- How many records a tenant has, for tenants that a quota was asked for. Processes add to it what they claim and
-- release, a moment later; recount_tenants() puts right what they cannot know of: a process that died, a module or an
-- operator that counts nothing, the reaper. Many claims share one update, and no claim waits for this row.
CREATE TABLE idempotency.tenant_use (
  records bigint NOT NULL,
  asked_at timestamptz NOT NULL DEFAULT now(),
  counted_at timestamptz NOT NULL DEFAULT '-infinity',
  counting_took interval NOT NULL DEFAULT '0',
  tenant bytea PRIMARY KEY
) WITH (fillfactor = 50);
COMMENT ON TABLE idempotency.tenant_use IS
  'Tenants that limits.tenant_live_keys was asked for, and how many records they have; about, until the next count.';
COMMENT ON COLUMN idempotency.tenant_use.records IS 'Records that are not expired, those past their life included.';
COMMENT ON COLUMN idempotency.tenant_use.asked_at IS 'When a process last claimed, released or was refused something.';
COMMENT ON COLUMN idempotency.tenant_use.counted_at IS 'When the records were last counted.';
COMMENT ON COLUMN idempotency.tenant_use.counting_took IS 'How long that took: a large tenant is counted less often.';
COMMENT ON COLUMN idempotency.tenant_use.tenant IS 'As in key.';

-- Counts the records of a tenant, but looks at p_limit of them at most: `complete` says that these were all.
-- `live` are those within their life.
CREATE FUNCTION idempotency.count_tenant(
  p_tenant bytea, p_limit bigint, OUT records bigint, OUT live bigint, OUT complete boolean
) LANGUAGE plpgsql STABLE
-- One after the other along the primary key. A bitmap would hold all of them before the first is looked at.
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_indexscan = on SET enable_bitmapscan = off AS $$
BEGIN
  SELECT count(*) FILTER (WHERE k.state <> 5),
         count(*) FILTER (WHERE k.state <> 5 AND k.expires_at > now()), count(*) < p_limit
  INTO records, live, complete
  FROM (SELECT state, expires_at FROM idempotency.key WHERE tenant = p_tenant LIMIT p_limit) k;
END $$;
COMMENT ON FUNCTION idempotency.count_tenant(bytea, bigint) IS
  'How many records a tenant has, as far as p_limit of them tell.';

-- Counts anew the tenants that were asked for since their last count, those first that waited longest. At most
-- p_limit of them, and none for more than a fiftieth of the time. Returns how many.
CREATE FUNCTION idempotency.recount_tenants(p_limit bigint) RETURNS bigint
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
      records = (SELECT count(*) FROM idempotency.key k WHERE k.tenant = next_tenant AND k.state <> 5),
      counted_at = now()
    WHERE u.tenant = next_tenant;
    UPDATE idempotency.tenant_use u SET counting_took = clock_timestamp() - began WHERE u.tenant = next_tenant;
    counted := counted + 1;
  END LOOP;
  RETURN counted;
END $$;
COMMENT ON FUNCTION idempotency.recount_tenants(bigint) IS
  'Puts right what tenant_use says of tenants that were asked for lately; returns how many.';
