-- compatible-with: 6
-- Records whose outcome is unknown, in a table of their own: found and counted without an index on record. Modules before
-- version 6 do not write to it, so they are refused.

-- Reads every record once, to find the unknown ones that are there already: about a second for each gigabyte of the table.
-- It locks nothing that requests need.

-- A record that is unknown has a row with its attempt here. A row may also be stale, because a late completion by the attempt
-- itself does not delete it: completions cost nothing extra. So every reader joins this table with record, and
-- tidy_unsettled() deletes stale rows.
CREATE TABLE idempotency.unsettled (
  attempt bigint NOT NULL,
  since timestamptz NOT NULL,
  next_try timestamptz,
  dead_letter boolean NOT NULL DEFAULT false,
  tenant bytea NOT NULL,
  operation bytea NOT NULL,
  key bytea NOT NULL,
  PRIMARY KEY (tenant, operation, key)
);
CREATE INDEX unsettled_attempt ON idempotency.unsettled (attempt);
CREATE INDEX unsettled_since ON idempotency.unsettled (since);
-- By hashes, because an operation may be almost as long as an index row.
CREATE INDEX unsettled_oldest ON idempotency.unsettled (sha256(operation), since);
CREATE INDEX unsettled_due ON idempotency.unsettled (sha256(operation), coalesce(next_try, since)) WHERE NOT dead_letter;

COMMENT ON TABLE idempotency.unsettled IS
  'The records whose outcome is unknown. May have stale rows: join with record (state 4, same attempt).';
COMMENT ON COLUMN idempotency.unsettled.attempt IS 'As in record; another one there means that this row is stale.';
COMMENT ON COLUMN idempotency.unsettled.since IS 'Since when the outcome is unknown.';
COMMENT ON COLUMN idempotency.unsettled.next_try IS
  'As record.reconcile_after: when the upstream is asked next; NULL: it was never scheduled, or is a dead letter.';
COMMENT ON COLUMN idempotency.unsettled.dead_letter IS 'As in record.';
COMMENT ON COLUMN idempotency.unsettled.tenant IS 'As in record.';
COMMENT ON COLUMN idempotency.unsettled.operation IS 'As in record.';
COMMENT ON COLUMN idempotency.unsettled.key IS 'As in record.';

-- How many rows there are for each operation: the total, plus the changes that are not in it yet. A change is one insert,
-- so requests that end at the same time never wait for each other. tidy_unsettled() moves changes into the totals.
CREATE TABLE idempotency.unsettled_total (
  records bigint NOT NULL,
  dead_letters bigint NOT NULL,
  operation bytea PRIMARY KEY
);
COMMENT ON TABLE idempotency.unsettled_total IS
  'How many rows of unsettled each operation has, without the changes in unsettled_change.';
COMMENT ON COLUMN idempotency.unsettled_total.records IS 'Rows of unsettled, dead letters included.';
COMMENT ON COLUMN idempotency.unsettled_total.dead_letters IS 'Of these, dead letters.';
COMMENT ON COLUMN idempotency.unsettled_total.operation IS 'As in record.';

CREATE TABLE idempotency.unsettled_change (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  records bigint NOT NULL,
  dead_letters bigint NOT NULL,
  operation bytea NOT NULL
);
COMMENT ON TABLE idempotency.unsettled_change IS 'Changes that unsettled_total does not contain yet.';
COMMENT ON COLUMN idempotency.unsettled_change.id IS 'Order of the changes.';
COMMENT ON COLUMN idempotency.unsettled_change.records IS 'How many rows of unsettled were added; negative: deleted.';
COMMENT ON COLUMN idempotency.unsettled_change.dead_letters IS 'How many dead letters were added; negative: fewer.';
COMMENT ON COLUMN idempotency.unsettled_change.operation IS 'As in record.';

-- With the owner's rights: the numbers are nobody else's to write.
CREATE FUNCTION idempotency.count_unsettled() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO idempotency.unsettled_change (operation, records, dead_letters)
    SELECT operation, count(*), count(*) FILTER (WHERE dead_letter) FROM added GROUP BY operation;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO idempotency.unsettled_change (operation, records, dead_letters)
    SELECT operation, -count(*), -count(*) FILTER (WHERE dead_letter) FROM removed GROUP BY operation;
  ELSE
    INSERT INTO idempotency.unsettled_change (operation, records, dead_letters)
    SELECT operation, 0, sum(dead_letters) FROM (
      SELECT operation, dead_letter::integer FROM added UNION ALL SELECT operation, -dead_letter::integer FROM removed
    ) AS change (operation, dead_letters)
    GROUP BY operation HAVING sum(dead_letters) <> 0;
  END IF;
  RETURN NULL;
END $$;
COMMENT ON FUNCTION idempotency.count_unsettled() IS 'Trigger: writes changes of unsettled to unsettled_change.';

CREATE TRIGGER count_insert AFTER INSERT ON idempotency.unsettled
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION idempotency.count_unsettled();
CREATE TRIGGER count_update AFTER UPDATE ON idempotency.unsettled
  REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION idempotency.count_unsettled();
CREATE TRIGGER count_delete AFTER DELETE ON idempotency.unsettled
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION idempotency.count_unsettled();

-- When the existing ones became unknown is not on record: by the end of their leases at the latest.
INSERT INTO idempotency.unsettled (tenant, operation, key, attempt, since, next_try, dead_letter)
SELECT tenant, operation, key, attempt, least(lease_until, now()),
       CASE WHEN NOT dead_letter THEN reconcile_after END, dead_letter
FROM idempotency.record WHERE state = 4;

CREATE TABLE idempotency.tidy_position (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  tenant bytea NOT NULL DEFAULT '',
  operation bytea NOT NULL DEFAULT '',
  key bytea NOT NULL DEFAULT ''
);
INSERT INTO idempotency.tidy_position DEFAULT VALUES;
COMMENT ON TABLE idempotency.tidy_position IS 'How far tidy_unsettled() has come; one row, which is also its lock.';
COMMENT ON COLUMN idempotency.tidy_position.single IS 'Always true: there is one row.';
COMMENT ON COLUMN idempotency.tidy_position.tenant IS 'The last row of unsettled that was looked at; empty: start again.';
COMMENT ON COLUMN idempotency.tidy_position.operation IS 'As tenant.';
COMMENT ON COLUMN idempotency.tidy_position.key IS 'As tenant.';

-- Deletes stale rows of unsettled, and adds changes to the totals. Looks at p_limit rows at most, and continues there at the
-- next call. Returns how many rows it deleted. Waits for no one: what another transaction has locked can wait.
CREATE FUNCTION idempotency.tidy_unsettled(p_limit bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = on
SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_hashjoin = on SET enable_mergejoin = on AS $$
DECLARE
  place idempotency.tidy_position%ROWTYPE;
  seen bigint;
  deleted bigint;
BEGIN
  SELECT * INTO place FROM idempotency.tidy_position FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;

  -- One statement, so one snapshot: a record and its row here become visible together.
  WITH looked AS MATERIALIZED (
    SELECT u.tenant, u.operation, u.key, u.attempt FROM idempotency.unsettled u
    WHERE (u.tenant, u.operation, u.key) > (place.tenant, place.operation, place.key)
    ORDER BY u.tenant, u.operation, u.key LIMIT p_limit
  ), stale AS MATERIALIZED (
    SELECT u.tenant, u.operation, u.key, u.attempt FROM looked l
      JOIN idempotency.unsettled u
        ON u.tenant = l.tenant AND u.operation = l.operation AND u.key = l.key AND u.attempt = l.attempt
    WHERE NOT EXISTS (
      SELECT FROM idempotency.record r
      WHERE r.tenant = l.tenant AND r.operation = l.operation AND r.key = l.key AND r.attempt = l.attempt AND r.state = 4)
    FOR UPDATE OF u SKIP LOCKED
  ), gone AS (
    DELETE FROM idempotency.unsettled u USING stale s
    WHERE u.tenant = s.tenant AND u.operation = s.operation AND u.key = s.key AND u.attempt = s.attempt
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM looked), (SELECT count(*) FROM gone), f.tenant, f.operation, f.key
  INTO seen, deleted, place.tenant, place.operation, place.key
  FROM (SELECT) AS one LEFT JOIN (SELECT * FROM looked l ORDER BY l.tenant DESC, l.operation DESC, l.key DESC LIMIT 1) f ON true;
  IF seen < p_limit THEN  -- That was the end.
    place.tenant := '';
    place.operation := '';
    place.key := '';
  END IF;
  UPDATE idempotency.tidy_position p SET tenant = place.tenant, operation = place.operation, key = place.key
  WHERE (p.tenant, p.operation, p.key) <> (place.tenant, place.operation, place.key);

  WITH moved AS (
    DELETE FROM idempotency.unsettled_change c
    WHERE c.id IN (SELECT f.id FROM idempotency.unsettled_change f ORDER BY f.id LIMIT p_limit)
    RETURNING c.operation, c.records, c.dead_letters
  )
  INSERT INTO idempotency.unsettled_total AS t (operation, records, dead_letters)
  SELECT m.operation, sum(m.records), sum(m.dead_letters) FROM moved m GROUP BY m.operation
  ON CONFLICT (operation) DO UPDATE SET
    records = t.records + excluded.records, dead_letters = t.dead_letters + excluded.dead_letters;
  DELETE FROM idempotency.unsettled_total t WHERE t.records = 0 AND t.dead_letters = 0;
  RETURN deleted;
END $$;
COMMENT ON FUNCTION idempotency.tidy_unsettled(bigint) IS
  'Deletes stale rows of unsettled and adds up its changes; returns how many rows it deleted.';

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
    RETURNING r.tenant, r.operation, r.key, r.attempt, r.state, r.reconcile_after
  ), noted AS (
    INSERT INTO idempotency.unsettled AS u (tenant, operation, key, attempt, since, next_try)
    SELECT m.tenant, m.operation, m.key, m.attempt, now(), m.reconcile_after FROM moved m WHERE m.state = 4
    ON CONFLICT (tenant, operation, key) DO UPDATE SET
      attempt = excluded.attempt, since = excluded.since, next_try = excluded.next_try, dead_letter = false
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
    WITH passed AS MATERIALIZED (
      SELECT r.tenant, r.operation, r.key, r.attempt, r.state, r.lease_until, r.reconcile_after, r.dead_letter
      FROM idempotency.record r
      WHERE r.claimed_at > place.swept_to AND r.claimed_at <= scan_end AND r.state IN (1, 4)
    ), missing AS (
      -- What modules before version 6 have marked unknown. Once a day this looks at every record.
      INSERT INTO idempotency.unsettled (tenant, operation, key, attempt, since, next_try, dead_letter)
      SELECT p.tenant, p.operation, p.key, p.attempt, least(p.lease_until, now()), p.reconcile_after, p.dead_letter
      FROM passed p WHERE p.state = 4
      ON CONFLICT DO NOTHING
    )
    INSERT INTO idempotency.sweep_watch (tenant, operation, key)
    SELECT p.tenant, p.operation, p.key FROM passed p WHERE p.state = 1
    ON CONFLICT DO NOTHING;
    UPDATE idempotency.sweep_position SET swept_to = scan_end, started_at = place.started_at;
  END IF;
END $$;

-- What the access log shows for a key: the first 16 digits of HMAC-SHA256 over it (source/protocol/key_hash.h).
CREATE FUNCTION idempotency.key_hash(p_tenant bytea, p_operation bytea, p_key bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  secret bytea := convert_to(length(p_tenant) || ':', 'UTF8') || p_tenant || p_operation;
  inner_pad bytea;
  outer_pad bytea;
BEGIN
  IF length(secret) > 64 THEN
    secret := sha256(secret);
  END IF;
  secret := secret || decode(repeat('00', 64 - length(secret)), 'hex');
  inner_pad := secret;
  outer_pad := secret;
  FOR i IN 0 .. 63 LOOP
    inner_pad := set_byte(inner_pad, i, get_byte(secret, i) # 54);
    outer_pad := set_byte(outer_pad, i, get_byte(secret, i) # 92);
  END LOOP;
  RETURN left(encode(sha256(outer_pad || sha256(inner_pad || p_key)), 'hex'), 16);
END $$;
COMMENT ON FUNCTION idempotency.key_hash(bytea, bytea, bytea) IS 'The hash of a key that access logs show.';

-- Backslashes are doubled in both cases, so decode(readable(x), 'escape') is x again.
CREATE FUNCTION idempotency.readable(p_bytes bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN replace(convert_from(p_bytes, 'UTF8'), '\', '\\');
EXCEPTION
  WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN encode(p_bytes, 'escape');
END $$;
COMMENT ON FUNCTION idempotency.readable(bytea) IS
  'Bytes as text; octal escapes like \303 if they are not UTF-8. A backslash is doubled.';

CREATE VIEW idempotency.records AS
SELECT idempotency.readable(r.tenant) AS tenant,
       idempotency.readable(r.operation) AS operation,
       idempotency.readable(r.key) AS key,
       idempotency.key_hash(r.tenant, r.operation, r.key) AS key_hash,
       CASE r.state WHEN 1 THEN 'in_progress' WHEN 2 THEN 'completed' WHEN 3 THEN 'failed_retryable'
                    WHEN 4 THEN 'unknown' WHEN 5 THEN 'expired' ELSE r.state::text END AS state,
       r.attempt,
       r.last_error,
       u.since AS unknown_since,
       CASE WHEN r.state = 4 AND NOT r.dead_letter THEN r.reconcile_after END AS next_try,
       r.reconcile_tries AS tries,
       r.dead_letter,
       CASE WHEN r.state = 1 THEN r.lease_until > now() END AS lease_alive,
       CASE WHEN r.state = 1 THEN r.lease_until END AS lease_until,
       CASE r.on_lease_expired WHEN 0 THEN 'unknown' WHEN 1 THEN 'retry' ELSE r.on_lease_expired::text END
         AS on_lease_expired,
       r.recovery_point,
       r.status,
       CASE r.tombstone WHEN 0 THEN 'none' WHEN 1 THEN 'too_large' WHEN 2 THEN 'secret' WHEN 3 THEN 'unstorable'
                        ELSE r.tombstone::text END AS tombstone,
       r.created_at,
       r.claimed_at,
       r.completed_at,
       r.expires_at,
       encode(r.fingerprint, 'hex') AS fingerprint
FROM idempotency.record r
LEFT JOIN idempotency.unsettled u
  ON u.tenant = r.tenant AND u.operation = r.operation AND u.key = r.key AND u.attempt = r.attempt AND r.state = 4;
COMMENT ON VIEW idempotency.records IS
  'Records with names instead of numbers and bytes. Fast with unknown_since IS NOT NULL: the records whose outcome is unknown. A condition on tenant, operation or key reads the whole table.';

-- Deletes at most p_limit records of a tenant with their responses, unless their requests are running, and replaces the
-- tenant and its keys in at most p_limit audit entries by hashes. A record that another transaction has locked counts as
-- running. With the owner's rights, because no role may change the audit by itself. Running records are counted by a dry
-- run and by the call that leaves nothing else.
CREATE FUNCTION idempotency.purge_tenant(
  p_tenant bytea, p_actor text, p_reason text, p_dry_run boolean, p_limit bigint,
  OUT records bigint, OUT unsettled bigint, OUT running bigint, OUT audit_entries bigint, OUT more boolean
) LANGUAGE plpgsql SECURITY DEFINER
-- By indexes, and responses one by one, each in its partition.
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  pseudonym bytea := convert_to('sha256:' || left(encode(sha256(p_tenant), 'hex'), 16), 'UTF8');
BEGIN
  running := 0;
  IF p_dry_run THEN
    SELECT count(*), count(*) FILTER (WHERE s.state = 4) INTO records, unsettled FROM (
      SELECT r.state FROM idempotency.record r
      WHERE r.tenant = p_tenant AND NOT (r.state = 1 AND r.lease_until > now()) LIMIT p_limit + 1) s;
    SELECT count(*) INTO audit_entries FROM (
      SELECT FROM idempotency.audit a WHERE a.tenant = p_tenant AND a.key IS NOT NULL LIMIT p_limit + 1) s;
    more := records > p_limit OR audit_entries > p_limit;
    records := least(records, p_limit);
    unsettled := least(unsettled, p_limit);
    audit_entries := least(audit_entries, p_limit);
    SELECT count(*) INTO running FROM idempotency.record r
    WHERE r.tenant = p_tenant AND r.state = 1 AND r.lease_until > now();
    RETURN;
  END IF;

  WITH chosen AS MATERIALIZED (
    SELECT r.tenant, r.operation, r.key, r.attempt, r.state, r.expires_at FROM idempotency.record r
    WHERE r.tenant = p_tenant AND NOT (r.state = 1 AND r.lease_until > now())
    ORDER BY r.tenant, r.operation, r.key LIMIT p_limit
    FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM idempotency.record r USING chosen c
    WHERE r.tenant = c.tenant AND r.operation = c.operation AND r.key = c.key
    RETURNING 1
  ), responses AS (
    DELETE FROM idempotency.response p USING chosen c
    WHERE p.attempt = c.attempt AND p.expires_at = c.expires_at
  )
  SELECT (SELECT count(*) FROM gone), (SELECT count(*) FILTER (WHERE c.state = 4) FROM chosen c)
  INTO records, unsettled;
  -- Stale rows, too. By their attempts: a request that becomes unknown meanwhile takes its stale row over.
  WITH stale AS MATERIALIZED (
    SELECT u.operation, u.key, u.attempt FROM idempotency.unsettled u WHERE u.tenant = p_tenant AND NOT EXISTS (
      SELECT FROM idempotency.record r WHERE r.tenant = u.tenant AND r.operation = u.operation AND r.key = u.key
        AND r.attempt = u.attempt AND r.state = 4)
  )
  DELETE FROM idempotency.unsettled u USING stale s
  WHERE u.tenant = p_tenant AND u.operation = s.operation AND u.key = s.key AND u.attempt = s.attempt;
  WITH named AS MATERIALIZED (
    SELECT a.id FROM idempotency.audit a WHERE a.tenant = p_tenant AND a.key IS NOT NULL LIMIT p_limit
    FOR UPDATE
  ), renamed AS (
    UPDATE idempotency.audit a SET tenant = pseudonym, detail = NULL,
      key = convert_to(idempotency.key_hash(a.tenant, a.operation, a.key), 'UTF8')
    FROM named n WHERE a.id = n.id
    RETURNING 1
  )
  SELECT count(*) FROM renamed INTO audit_entries;
  more := records = p_limit OR audit_entries = p_limit;
  IF NOT more THEN
    SELECT count(*) INTO running FROM idempotency.record r WHERE r.tenant = p_tenant;
    -- The next request of the tenant makes it again.
    DELETE FROM idempotency.tenant_use u WHERE u.tenant = p_tenant AND running = 0;
  END IF;
  INSERT INTO idempotency.audit (actor, action, tenant, records, detail)
  VALUES (p_actor, 'purge', pseudonym, records, p_reason);
END $$;
COMMENT ON FUNCTION idempotency.purge_tenant(bytea, text, text, boolean, bigint) IS
  'Deletes the records of a tenant, and its name and keys in the audit; all but those whose requests are running.';
