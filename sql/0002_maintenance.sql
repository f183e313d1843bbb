-- compatible-with: 1
-- Background jobs: partitions of responses, sweeper, reaper. Off the request path.

-- Makes the partitions of today and the next p_days days (UTC); returns how many are new. SECURITY DEFINER:
-- the roles that run it own no table. Gives up at once when traffic holds a lock: the next run goes on.
CREATE FUNCTION idempotency.make_response_partitions(p_days integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '200ms' AS $$
DECLARE
  made integer := 0;
  day timestamptz;
  child text;
BEGIN
  FOR i IN 0 .. least(greatest(p_days, 0), 60) LOOP
    day := date_trunc('day', now()) + i * interval '1 day';
    child := 'response_' || to_char(day, 'YYYYMMDD');
    CONTINUE WHEN to_regclass('idempotency.' || child) IS NOT NULL;
    BEGIN
      -- These stay where they are: the reaper deletes them when they are past.
      CONTINUE WHEN EXISTS (SELECT FROM idempotency.response_default r
                            WHERE r.expires_at >= day AND r.expires_at < day + interval '1 day');
      -- Made apart and then attached, which lets readers and writers of the other partitions go on.
      EXECUTE format('CREATE TABLE idempotency.%I (LIKE idempotency.response INCLUDING ALL)', child);
      EXECUTE format('ALTER TABLE idempotency.response ATTACH PARTITION idempotency.%I FOR VALUES FROM (%L) TO (%L)',
                     child, day, day + interval '1 day');
      made := made + 1;
    EXCEPTION
      WHEN lock_not_available OR duplicate_table OR unique_violation THEN
        RETURN made;  -- Traffic is in the way, or somebody else is at it.
    END;
  END LOOP;
  RETURN made;
END $$;
COMMENT ON FUNCTION idempotency.make_response_partitions(integer) IS
  'Makes the daily partitions of responses ahead of time; returns how many are new.';

-- Drops the partitions whose responses are all past their life; returns how many.
CREATE FUNCTION idempotency.drop_response_partitions() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '200ms' AS $$
DECLARE
  dropped integer := 0;
  child text;
BEGIN
  FOR child IN
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'idempotency.response'::regclass AND c.relname ~ '^response_[0-9]{8}$'
      AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= now()
    ORDER BY c.relname
  LOOP
    BEGIN
      EXECUTE format('DROP TABLE idempotency.%I', child);
      dropped := dropped + 1;
    EXCEPTION
      WHEN lock_not_available OR undefined_table THEN
        RETURN dropped;
    END;
  END LOOP;
  RETURN dropped;
END $$;
COMMENT ON FUNCTION idempotency.drop_response_partitions() IS
  'Drops the partitions of responses that are wholly past; returns how many.';

-- How far the sweeper has come. An in-progress row with claimed_at <= swept_to is in sweep_watch, so a sweep
-- costs what is new, not what is there; and no index on the state is needed.
CREATE TABLE idempotency.sweep_position (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  swept_to timestamptz NOT NULL DEFAULT '-infinity',
  started_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO idempotency.sweep_position DEFAULT VALUES;
COMMENT ON TABLE idempotency.sweep_position IS 'How far the sweeper has come; one row.';
COMMENT ON COLUMN idempotency.sweep_position.single IS 'Always true: there is one row.';
COMMENT ON COLUMN idempotency.sweep_position.swept_to IS 'Claims up to this key.claimed_at were looked at.';
COMMENT ON COLUMN idempotency.sweep_position.started_at IS 'When the sweeper last began from the very first row.';

CREATE TABLE idempotency.sweep_watch (
  tenant bytea NOT NULL,
  operation bytea NOT NULL,
  key bytea NOT NULL,
  PRIMARY KEY (tenant, operation, key)
);
COMMENT ON TABLE idempotency.sweep_watch IS
  'Records that were in progress, with a live lease, when the sweeper passed them: long requests.';
COMMENT ON COLUMN idempotency.sweep_watch.tenant IS 'As in key.';
COMMENT ON COLUMN idempotency.sweep_watch.operation IS 'As in key.';
COMMENT ON COLUMN idempotency.sweep_watch.key IS 'As in key.';

-- Leases that ran out: to unknown, or under the policy RETRY to failed_retryable. At most p_limit records.
-- Looks at p_scan claims at most; `more` says that there is work left.
CREATE FUNCTION idempotency.sweep(
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
    ORDER BY 1, 2, 3 LIMIT p_limit + 1
  ), chosen AS (
    SELECT * FROM late ORDER BY 1, 2, 3 LIMIT p_limit
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
         (SELECT count(*) FROM late) > p_limit
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
COMMENT ON FUNCTION idempotency.sweep(bigint, interval, bigint) IS
  'Moves records whose lease ran out to unknown, or to failed_retryable where their policy says so.';

-- Records past their life. Completed and failed ones go, or with p_soft stay as expired. Unknown ones are
-- given up: completed with 408 and no response; a later call takes those. At most p_limit records.
CREATE FUNCTION idempotency.reap(
  p_limit bigint, p_soft boolean,
  OUT to_failed bigint, OUT expired bigint, OUT deleted bigint, OUT more boolean
) LANGUAGE plpgsql
-- By indexes alone: a call costs what it takes away, however much waits behind that.
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  seen bigint;
BEGIN
  WITH due AS MATERIALIZED (
    SELECT k.tenant, k.operation, k.key, k.state, k.attempt, k.expires_at FROM idempotency.key k
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
  ), given_up AS (
    UPDATE idempotency.key k SET
      state = 2, status = 408, tombstone = 4, completed_at = now(), last_error = 'abandoned',
      reconcile_after = NULL
    FROM chosen c
    WHERE c.state = 4 AND k.tenant = c.tenant AND k.operation = c.operation AND k.key = c.key
    RETURNING k.tenant, k.operation, k.key, k.attempt
  ), kept AS (
    UPDATE idempotency.key k SET state = 5, reap_at = 'infinity'
    FROM chosen c
    WHERE p_soft AND c.state <> 4 AND k.tenant = c.tenant AND k.operation = c.operation AND k.key = c.key
    RETURNING 1
  ), gone AS (
    DELETE FROM idempotency.key k USING chosen c
    WHERE NOT p_soft AND c.state <> 4 AND k.tenant = c.tenant AND k.operation = c.operation AND k.key = c.key
    RETURNING 1
  ), audited AS (
    INSERT INTO idempotency.audit (action, tenant, operation, key, attempt)
    SELECT 'give_up', g.tenant, g.operation, g.key, g.attempt FROM given_up g
  )
  SELECT (SELECT count(*) FROM given_up), (SELECT count(*) FROM kept), (SELECT count(*) FROM gone),
         (SELECT count(*) FROM due)
  INTO to_failed, expired, deleted, seen;

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
  'Deletes or soft-expires records past their life; gives up those whose outcome is still unknown.';

-- The longest life is 30 days; a completion may begin it anew.
SELECT idempotency.make_response_partitions(35);
