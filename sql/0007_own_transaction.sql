-- compatible-with: 6
-- Services that settle their requests in their own transactions. Modules of version 6 work with this schema: what they
-- claim has own_transaction = false, so the functions below refuse it.

-- Builds an index, which reads every record once while requests wait: about two seconds for each gigabyte of the table.
-- So both the column and the index may be there already, made without blocking anybody: docs/postgres.md says how.

ALTER TABLE idempotency.record ADD COLUMN IF NOT EXISTS own_transaction boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN idempotency.record.own_transaction IS
  'By the policy of the claim: the service settles the request in its own transaction. Never changed by a completion.';
COMMENT ON COLUMN idempotency.record.reclaimed IS
  'To release the present attempt does not delete the row: it is not the first of the record''s life, or has ordered an effect.';
-- Holds neither a column that a completion or a checkpoint changes, nor any record of a route without own_transaction. Not
-- unique: attempts are random, and a claim must not fail on an index that its ON CONFLICT does not name.
CREATE INDEX IF NOT EXISTS record_own_attempt ON idempotency.record (attempt) WHERE own_transaction;
DO $$
BEGIN
  IF NOT (SELECT indisvalid FROM pg_index WHERE indexrelid = 'idempotency.record_own_attempt'::regclass) THEN
    RAISE EXCEPTION 'the index idempotency.record_own_attempt is not valid: drop it, and run the migration again';
  END IF;
END $$;

-- As in version 6, with one column more.
CREATE OR REPLACE VIEW idempotency.records AS
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
       encode(r.fingerprint, 'hex') AS fingerprint,
       r.own_transaction
FROM idempotency.record r
LEFT JOIN idempotency.unsettled u
  ON u.tenant = r.tenant AND u.operation = r.operation AND u.key = r.key AND u.attempt = r.attempt AND r.state = 4;

-- Effects outside the database that a service's transaction has ordered. The row becomes visible with that transaction, or
-- never. Rows outlive their records, so this is no foreign key.
CREATE TABLE idempotency.outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  attempt bigint NOT NULL,
  life timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  due_at timestamptz NOT NULL,
  done_at timestamptz,
  dead_at timestamptz,
  kept_until timestamptz,
  tries integer NOT NULL DEFAULT 0,
  tenant bytea NOT NULL,
  operation bytea NOT NULL,
  key bytea NOT NULL,
  topic text NOT NULL,
  name text NOT NULL,
  effect bytea NOT NULL,
  payload jsonb NOT NULL,
  reference text,
  last_error text
) WITH (fillfactor = 80);
-- One row for each effect of a record's life. A hash, because the identity alone may be almost as long as an index row.
CREATE UNIQUE INDEX outbox_effect ON idempotency.outbox (effect);
CREATE INDEX outbox_due ON idempotency.outbox (topic, due_at) WHERE done_at IS NULL AND dead_at IS NULL;
CREATE INDEX outbox_done ON idempotency.outbox (coalesce(kept_until, done_at)) WHERE done_at IS NOT NULL;
CREATE INDEX outbox_tenant ON idempotency.outbox (sha256(tenant));

COMMENT ON TABLE idempotency.outbox IS
  'Effects outside the database that services have ordered in their own transactions, for workers to carry out.';
COMMENT ON COLUMN idempotency.outbox.id IS 'Number of the row.';
COMMENT ON COLUMN idempotency.outbox.attempt IS 'The attempt that ordered the effect.';
COMMENT ON COLUMN idempotency.outbox.life IS 'record.created_at: when the life of the record began.';
COMMENT ON COLUMN idempotency.outbox.created_at IS 'When the effect was ordered.';
COMMENT ON COLUMN idempotency.outbox.due_at IS 'When a worker takes the row; workers move it on before each try.';
COMMENT ON COLUMN idempotency.outbox.done_at IS 'When the effect was known to have happened; NULL before.';
COMMENT ON COLUMN idempotency.outbox.dead_at IS 'When workers gave up; an operator looks at it. NULL: they have not.';
COMMENT ON COLUMN idempotency.outbox.kept_until IS
  'Done, but the record''s life went on when the reaper looked: the time that counts instead of done_at.';
COMMENT ON COLUMN idempotency.outbox.tries IS 'How often workers have tried.';
COMMENT ON COLUMN idempotency.outbox.tenant IS 'As in record.';
COMMENT ON COLUMN idempotency.outbox.operation IS 'As in record.';
COMMENT ON COLUMN idempotency.outbox.key IS 'As in record.';
COMMENT ON COLUMN idempotency.outbox.topic IS 'Which workers take it.';
COMMENT ON COLUMN idempotency.outbox.name IS 'Distinguishes the effects that one request has in one topic; the topic itself if there is only one.';
COMMENT ON COLUMN idempotency.outbox.effect IS 'Hash of identity, life, topic and name: a re-run orders no effect twice.';
COMMENT ON COLUMN idempotency.outbox.payload IS 'What the worker needs to know, by the service.';
COMMENT ON COLUMN idempotency.outbox.reference IS 'What the provider calls the effect.';
COMMENT ON COLUMN idempotency.outbox.last_error IS 'Code of the last failure.';

-- --- Functions for services. All take an attempt token, which is a capability: 63 random bits that only the module and the
-- service have. They run in the caller's transaction, with any settings that it may have: so with the owner's rights, a fixed
-- search_path, and a plan by the index.

-- Locks the record that the attempt holds, until the end of the caller's transaction, and returns it. Raises an error if the
-- attempt holds none.
--
-- Why a fenced attempt cannot commit: whatever takes the record away from it (a re-claim, the sweeper, the reconciler, an
-- operator) updates or deletes the row, for which it needs this lock. If it came first, this statement waits, sees the new
-- version of the row (READ COMMITTED), and finds another attempt or another state, or no row. In REPEATABLE READ and
-- SERIALIZABLE it fails with 40001 instead. If this function came first, it waits, or passes on: the module's own
-- statements skip locked rows.
CREATE FUNCTION idempotency.own_record(p_attempt bigint) RETURNS idempotency.record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off AS $$
DECLARE
  held idempotency.record%ROWTYPE;
BEGIN
  IF p_attempt IS NULL THEN
    RAISE EXCEPTION 'the attempt is NULL' USING ERRCODE = 'ID004',
      HINT = 'Pass the number in the request header Idempotency-Attempt.';
  END IF;
  -- No condition on the state: the newest version of the row must be returned, whatever its state is.
  SELECT * INTO held FROM idempotency.record r WHERE r.attempt = p_attempt AND r.own_transaction FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    -- A route without own_transaction is a mistake in the configuration, which shows on fresh claims. No index finds their
    -- attempts, so this looks at the latest only.
    IF EXISTS (SELECT FROM (SELECT r.attempt, r.own_transaction FROM idempotency.record r
                             ORDER BY r.claimed_at DESC LIMIT 1000) latest
               WHERE latest.attempt = p_attempt AND NOT latest.own_transaction) THEN
      RAISE EXCEPTION 'attempt % belongs to a route without own_transaction', p_attempt USING ERRCODE = 'ID003',
        DETAIL = 'The record exists, but its route does not let the service settle it.',
        HINT = 'Set own_transaction: true in the policy of the route.';
    END IF;
    RAISE EXCEPTION 'attempt % does not hold a record', p_attempt USING ERRCODE = 'ID001',
      DETAIL = 'Another attempt has taken the record over, or it was released or deleted; or the route''s policy does not say own_transaction: true.',
      HINT = 'Roll back. Nothing that this attempt has not committed yet may take effect.';
  ELSIF held.state = 2 THEN
    RAISE EXCEPTION 'the request of attempt % has already been completed', p_attempt USING ERRCODE = 'ID002',
      DETAIL = format('It was completed with status %s at %s.', held.status, held.completed_at),
      HINT = 'Roll back: this result is final. If an earlier transaction of this attempt lost its connection at COMMIT, it may be the one that completed it.';
  ELSIF held.state NOT IN (1, 4) THEN
    -- 4, unknown: a late completion by the same attempt is the truth.
    RAISE EXCEPTION 'attempt % does not hold a record', p_attempt USING ERRCODE = 'ID001',
      DETAIL = 'The attempt was given up: a retry of the request may run.',
      HINT = 'Roll back. Nothing that this attempt has not committed yet may take effect.';
  END IF;
  -- The client gets the response as soon as the commit is visible, so the commit must be durable. Until the end of the
  -- transaction; the other values do not wait for the disk, or not for that of a standby.
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  RETURN held;
END $$;
COMMENT ON FUNCTION idempotency.own_record(bigint) IS
  'Locks and returns the record that an attempt holds; an error if it holds none. Not for services.';

CREATE FUNCTION idempotency.begin_work(
  p_attempt bigint, OUT tenant bytea, OUT operation bytea, OUT key bytea, OUT recovery_point text
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  held idempotency.record%ROWTYPE := idempotency.own_record(p_attempt);
BEGIN
  tenant := held.tenant;
  operation := held.operation;
  key := held.key;
  recovery_point := held.recovery_point;
END $$;
COMMENT ON FUNCTION idempotency.begin_work(bigint) IS
  'Locks the record that the attempt holds until the end of the transaction; returns its identity and its recovery point.';

-- A HOT update: no index holds the recovery point.
CREATE FUNCTION idempotency.checkpoint(p_attempt bigint, p_recovery_point text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off AS $$
DECLARE
  held idempotency.record%ROWTYPE;
BEGIN
  -- It becomes the value of a request header.
  IF p_recovery_point IS NULL OR p_recovery_point !~ '^[!-~]([ -~]*[!-~])?$' OR length(p_recovery_point) > 200 THEN
    RAISE EXCEPTION 'the recovery point is not valid' USING ERRCODE = 'ID004',
      DETAIL = 'It must have 1 to 200 printable ASCII characters, without a space at either end.';
  ELSIF p_recovery_point = 'started' THEN
    RAISE EXCEPTION 'the recovery point "started" is reserved' USING ERRCODE = 'ID004',
      DETAIL = 'It means that no recovery point has been reached.';
  END IF;
  held := idempotency.own_record(p_attempt);
  -- A proxy may deliver one attempt twice, and both deliveries hold the record: the phase must not be committed twice.
  IF held.recovery_point = p_recovery_point THEN
    RAISE EXCEPTION 'the recovery point "%" has already been reached', p_recovery_point USING ERRCODE = 'ID005',
      DETAIL = 'Another transaction has committed it, or this one has set it before.',
      HINT = 'Roll back, and begin again: begin_work returns the recovery point to continue from.';
  END IF;
  UPDATE idempotency.record r SET recovery_point = p_recovery_point
  WHERE r.tenant = held.tenant AND r.operation = held.operation AND r.key = held.key AND r.attempt = p_attempt;
END $$;
COMMENT ON FUNCTION idempotency.checkpoint(bigint, text) IS
  'Moves the recovery point of the record that the attempt holds; a re-run continues there.';

-- How protobuf writes a number, up to 4 bytes. Not STRICT: a strict function of this kind is called, others are inlined.
CREATE FUNCTION idempotency.varint(p_number integer) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN p_number < 128 THEN set_byte('\x00'::bytea, 0, p_number)
    WHEN p_number < 16384 THEN set_byte(set_byte('\x0000'::bytea, 0, p_number & 127 | 128), 1, p_number >> 7)
    WHEN p_number < 2097152 THEN set_byte(set_byte(set_byte('\x000000'::bytea, 0, p_number & 127 | 128),
                                                   1, p_number >> 7 & 127 | 128), 2, p_number >> 14)
    ELSE set_byte(set_byte(set_byte(set_byte('\x00000000'::bytea, 0, p_number & 127 | 128),
                                    1, p_number >> 7 & 127 | 128), 2, p_number >> 14 & 127 | 128), 3, p_number >> 21)
  END
$$;
COMMENT ON FUNCTION idempotency.varint(integer) IS 'A number below 2^28 as protobuf writes it.';

-- Headers or trailers as v1.StoredResponse has them: repeated v1.Field, with the tag of the repeated field. Omits what the
-- module never stores, as fieldsToStore does (source/message/headers.cc). Only complete() calls it, which has the path.
CREATE FUNCTION idempotency.stored_fields(p_fields jsonb, p_tag bytea, p_what text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  fields bytea := '';
  field bytea;
  names text[] := '{}';
  texts text[] := '{}';
  connection_names text[];
  lower_name text;
  octets bytea;
  size bigint := 0;
BEGIN
  IF p_fields IS NULL OR jsonb_typeof(p_fields) <> 'object' THEN
    RAISE EXCEPTION 'the % are not a JSON object', p_what USING ERRCODE = 'ID004',
      DETAIL = 'They must be an object of names, each with a string or an array of strings.';
  ELSIF p_fields = '{}' THEN
    RETURN fields;
  END IF;
  -- In the order of jsonb, and arrays in their own order. Only ASCII letters have two cases in a name.
  SELECT coalesce(array_agg(lower(f.name COLLATE "C") ORDER BY f.place, v.place), '{}'),
         coalesce(array_agg(CASE jsonb_typeof(v.value) WHEN 'string' THEN btrim(v.value #>> '{}', E' \t') END
                            ORDER BY f.place, v.place), '{}')
  INTO names, texts
  FROM jsonb_each(p_fields) WITH ORDINALITY AS f (name, value, place)
  CROSS JOIN LATERAL jsonb_array_elements(
    CASE jsonb_typeof(f.value) WHEN 'array' THEN f.value ELSE jsonb_build_array(f.value) END
  ) WITH ORDINALITY AS v (value, place);
  IF array_position(texts, NULL) IS NOT NULL THEN
    RAISE EXCEPTION 'a value of the % is not a string', p_what USING ERRCODE = 'ID004',
      DETAIL = format('The value of %L must be a string or an array of strings.', names[array_position(texts, NULL)]);
  ELSIF cardinality(names) > 1000 THEN
    RAISE EXCEPTION 'there are too many %', p_what USING ERRCODE = 'ID004', DETAIL = 'At most 1000 are stored.';
  END IF;
  SELECT coalesce(array_agg(lower(btrim(e.name, E' \t') COLLATE "C")), '{}') INTO connection_names
  FROM unnest(names, texts) AS n (name, value) CROSS JOIN LATERAL unnest(string_to_array(n.value, ',')) AS e (name)
  WHERE n.name = 'connection';

  FOR i IN 1 .. cardinality(names) LOOP
    lower_name := names[i];
    -- As isNeverStored has them: pseudo-headers, Envoy's own, the module's own, and a list.
    CONTINUE WHEN lower_name LIKE ':%' OR lower_name LIKE 'x-envoy-%' OR lower_name = ANY (connection_names)
      OR lower_name IN (
        'idempotency-key', 'idempotency-attempt', 'idempotency-recovery-point', 'idempotent-replayed',
        'idempotency-key-expires', 'idempotency-stored', 'idempotency-enforced', 'idempotency-outcome', 'idempotency-run',
        'authentication-info', 'authorization', 'connection', 'content-length', 'dpop-nonce', 'http2-settings', 'keep-alive',
        'proxy-authenticate', 'proxy-authentication-info', 'proxy-authorization', 'proxy-connection', 'server', 'set-cookie',
        'set-cookie2', 'te', 'transfer-encoding', 'upgrade', 'www-authenticate');
    IF lower_name !~ '^[-!#$%&''*+.^_`|~0-9a-z]+$' THEN
      RAISE EXCEPTION 'a name of the % is not valid', p_what USING ERRCODE = 'ID004',
        DETAIL = format('%L is not a token (RFC 9110).', lower_name);
    ELSIF texts[i] ~ '[\x01-\x08\x0a-\x1f\x7f]' THEN
      RAISE EXCEPTION 'a value of the % is not valid', p_what USING ERRCODE = 'ID004',
        DETAIL = format('The value of %L contains a control character, such as a line break.', lower_name);
    END IF;
    octets := convert_to(texts[i], 'UTF8');
    size := size + length(lower_name) + length(octets);
    IF size > 61440 THEN
      RAISE EXCEPTION 'the % are too large', p_what USING ERRCODE = 'ID004',
        DETAIL = 'Their names and values may have 60 KiB together.';
    END IF;
    -- 0A: name, 12: value, which is left out if it is empty.
    field := '\x0a'::bytea || idempotency.varint(length(lower_name)) || convert_to(lower_name, 'UTF8');
    IF length(octets) > 0 THEN
      field := field || '\x12'::bytea || idempotency.varint(length(octets)) || octets;
    END IF;
    fields := fields || p_tag || idempotency.varint(length(field)) || field;
  END LOOP;
  RETURN fields;
END $$;
COMMENT ON FUNCTION idempotency.stored_fields(jsonb, bytea, text) IS
  'Headers or trailers in the format of response.body. Not for services.';

-- What the statement idempotency_complete does (source/store/postgres/schema/statements.cc), and the bytes that
-- serializeResponse writes (source/message/stored_response.cc): change them together; a test compares the two.
-- A second call is an error even if it says the same: it may stand in a transaction that is repeated as a whole, and that must
-- not commit its other writes twice.
CREATE FUNCTION idempotency.complete(
  p_attempt bigint, p_status integer, p_headers jsonb DEFAULT '{}', p_body bytea DEFAULT '', p_trailers jsonb DEFAULT '{}'
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off AS $$
DECLARE
  held idempotency.record%ROWTYPE;
  stored bytea;
  -- Not now(): the caller's transaction may have begun long before the claim.
  moment timestamptz := clock_timestamp();
  is_late boolean;
BEGIN
  IF p_status IS NULL OR p_status NOT BETWEEN 200 AND 599 THEN
    RAISE EXCEPTION 'the status is not valid' USING ERRCODE = 'ID004', DETAIL = 'It must be a number from 200 to 599.';
  ELSIF p_body IS NULL OR length(p_body) > 67108864 THEN
    RAISE EXCEPTION 'the body is not valid' USING ERRCODE = 'ID004', DETAIL = 'It must not be NULL, and have 64 MiB at most.';
  ELSIF p_status IN (204, 205, 304) AND length(p_body) > 0 THEN
    RAISE EXCEPTION 'the body is not valid' USING ERRCODE = 'ID004',
      DETAIL = format('A response with status %s has no body.', p_status);
  END IF;
  -- 08 01: the schema, 10: status, 1A: headers, 22: body, which is left out if it is empty, 2A: trailers.
  stored := '\x080110'::bytea || idempotency.varint(p_status)
    || idempotency.stored_fields(p_headers, '\x1a', 'headers')
    || CASE WHEN length(p_body) > 0 THEN '\x22'::bytea || idempotency.varint(length(p_body)) || p_body ELSE '' END
    || idempotency.stored_fields(p_trailers, '\x2a', 'trailers');

  held := idempotency.own_record(p_attempt);
  is_late := held.state = 4 OR held.expires_at <= moment;
  IF is_late THEN
    held.expires_at := moment + extract(epoch FROM held.expires_at - held.claimed_at) * interval '1 second';
    held.reap_at := held.expires_at;
  END IF;
  -- In time, expires_at and reap_at get the values that they have: a HOT update.
  UPDATE idempotency.record r SET
    state = 2, status = p_status, tombstone = 0, response_schema = 1, completed_at = moment,
    expires_at = held.expires_at, reap_at = held.reap_at,
    last_error = NULL, reconcile_after = NULL, dead_letter = false
  WHERE r.tenant = held.tenant AND r.operation = held.operation AND r.key = held.key AND r.attempt = p_attempt;
  INSERT INTO idempotency.response (attempt, expires_at, body) VALUES (p_attempt, held.expires_at, stored);
  IF held.state = 4 THEN
    DELETE FROM idempotency.unsettled u
    WHERE u.tenant = held.tenant AND u.operation = held.operation AND u.key = held.key AND u.attempt = p_attempt;
  END IF;
END $$;
COMMENT ON FUNCTION idempotency.complete(bigint, integer, jsonb, bytea, jsonb) IS
  'Completes the record that the attempt holds, with the response that clients get.';

CREATE FUNCTION idempotency.enqueue(
  p_attempt bigint, p_topic text, p_payload jsonb, p_name text DEFAULT NULL, OUT id bigint
) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off AS $$
DECLARE
  held idempotency.record%ROWTYPE;
  v_name text := coalesce(p_name, p_topic);
  v_effect bytea;
BEGIN
  IF p_topic IS NULL OR length(p_topic) NOT BETWEEN 1 AND 200 OR length(v_name) NOT BETWEEN 1 AND 200 THEN
    RAISE EXCEPTION 'the topic or the name is not valid' USING ERRCODE = 'ID004',
      DETAIL = 'Each must have 1 to 200 characters; the name may be NULL.';
  ELSIF p_payload IS NULL OR length(p_payload::text) > 1048576 THEN
    RAISE EXCEPTION 'the payload is not valid' USING ERRCODE = 'ID004',
      DETAIL = 'It must not be NULL, and have 1 MiB at most as text. A JSON null is a payload.';
  END IF;
  held := idempotency.own_record(p_attempt);
  -- Each part has a fixed length, so no two lists of parts are the same bytes.
  v_effect := sha256(sha256(held.tenant) || sha256(held.operation) || sha256(held.key) || timestamptz_send(held.created_at)
    || sha256(convert_to(p_topic, 'UTF8')) || sha256(convert_to(v_name, 'UTF8')));
  INSERT INTO idempotency.outbox AS o
    (attempt, life, created_at, due_at, tenant, operation, key, topic, name, effect, payload)
  VALUES (p_attempt, held.created_at, clock_timestamp(), clock_timestamp(), held.tenant, held.operation, held.key, p_topic,
          v_name, v_effect, p_payload)
  ON CONFLICT (effect) DO NOTHING
  RETURNING o.id INTO id;
  -- A release must give the record back instead of deleting it: the next claim would begin a new life, and order the effect
  -- again. A HOT update.
  IF NOT held.reclaimed THEN
    UPDATE idempotency.record r SET reclaimed = true
    WHERE r.tenant = held.tenant AND r.operation = held.operation AND r.key = held.key AND r.attempt = p_attempt;
  END IF;
  -- The lock on the record keeps others from ordering the same: what is there was committed, or is this transaction's.
  IF id IS NULL THEN
    SELECT o.id INTO STRICT id FROM idempotency.outbox o WHERE o.effect = v_effect;
  END IF;
END $$;
COMMENT ON FUNCTION idempotency.enqueue(bigint, text, jsonb, text) IS
  'Orders an effect outside the database, once in the life of the record that the attempt holds; returns the row of outbox.';

-- Deletes effects that were carried out at least 7 days ago, p_limit at most; returns how many. An effect whose record's life
-- goes on is kept for 7 days more than that, because a re-run may order it again. Those that workers gave up stay.
CREATE FUNCTION idempotency.tidy_outbox(p_limit bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  deleted bigint;
BEGIN
  WITH old AS MATERIALIZED (
    SELECT o.id, o.tenant, o.operation, o.key, o.life FROM idempotency.outbox o
    WHERE o.done_at IS NOT NULL AND coalesce(o.kept_until, o.done_at) < now() - interval '7 days'
    ORDER BY coalesce(o.kept_until, o.done_at) LIMIT p_limit
    FOR UPDATE SKIP LOCKED
  ), judged AS MATERIALIZED (
    SELECT o.id, r.expires_at FROM old o LEFT JOIN idempotency.record r
      ON r.tenant = o.tenant AND r.operation = o.operation AND r.key = o.key AND r.created_at = o.life
  ), kept AS (
    UPDATE idempotency.outbox o SET kept_until = greatest(j.expires_at, now())
    FROM judged j WHERE o.id = j.id AND j.expires_at IS NOT NULL
  ), gone AS (
    DELETE FROM idempotency.outbox o USING judged j WHERE o.id = j.id AND j.expires_at IS NULL
    RETURNING 1
  )
  SELECT count(*) FROM gone INTO deleted;
  RETURN deleted;
END $$;
COMMENT ON FUNCTION idempotency.tidy_outbox(bigint) IS
  'Deletes effects that were carried out more than 7 days ago and whose records are gone; returns how many.';

-- As in version 5, but what refers to a record cannot stop this: a service's table may have a foreign key to record, with ON
-- DELETE SET NULL. If its row is locked, or it forbids the deletion, the record is skipped, and due again a minute later. No
-- wait is longer than lock_timeout, so that this never is the longer side of a deadlock with a request.
CREATE OR REPLACE FUNCTION idempotency.reap(
  p_limit bigint, p_soft boolean,
  OUT expired bigint, OUT deleted bigint, OUT more boolean
) LANGUAGE plpgsql
-- By indexes alone: a call costs what it takes away, however much waits behind that.
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '50ms' AS $$
DECLARE
  most_skipped CONSTANT integer := 10;
  seen bigint;
  tenants bytea[];
  operations bytea[];
  keys bytea[];
  one_by_one boolean := false;
  skipped integer := 0;
  left_over boolean := false;
BEGIN
  LOOP
    -- All of it in one subtransaction: a row that the transaction locks and its subtransaction deletes costs a multixact.
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
      )
      SELECT (SELECT count(*) FROM kept), (SELECT count(*) FROM due), array_agg(c.tenant), array_agg(c.operation), array_agg(c.key)
      INTO expired, seen, tenants, operations, keys
      FROM chosen c WHERE NOT p_soft AND c.state <> 4;

      deleted := 0;
      IF NOT one_by_one THEN
        DELETE FROM idempotency.record r
        USING unnest(tenants, operations, keys) AS c (tenant, operation, key)
        WHERE r.tenant = c.tenant AND r.operation = c.operation AND r.key = c.key;
        GET DIAGNOSTICS deleted = ROW_COUNT;
        EXIT;
      END IF;
      FOR i IN 1 .. coalesce(cardinality(tenants), 0) LOOP
        BEGIN
          DELETE FROM idempotency.record r WHERE r.tenant = tenants[i] AND r.operation = operations[i] AND r.key = keys[i];
          deleted := deleted + 1;
        EXCEPTION
          WHEN lock_not_available OR deadlock_detected OR integrity_constraint_violation OR raise_exception THEN
            UPDATE idempotency.record r SET reap_at = now() + interval '1 minute'
            WHERE r.tenant = tenants[i] AND r.operation = operations[i] AND r.key = keys[i];
            skipped := skipped + 1;
        END;
        -- The rest is locked meanwhile: it has its turn in the next call.
        IF skipped = most_skipped THEN
          left_over := i < cardinality(tenants);
          EXIT;
        END IF;
      END LOOP;
      EXIT;
    EXCEPTION
      WHEN lock_not_available OR deadlock_detected OR integrity_constraint_violation OR raise_exception THEN
        IF one_by_one THEN
          RAISE;
        END IF;
        one_by_one := true;
    END;
  END LOOP;

  IF expired > 0 THEN
    INSERT INTO idempotency.audit (action, records) VALUES ('expire', expired);
  END IF;
  IF deleted > 0 THEN
    INSERT INTO idempotency.audit (action, records) VALUES ('delete', deleted);
  END IF;
  -- Responses that found no partition of their own.
  DELETE FROM idempotency.response_default p WHERE (p.attempt, p.expires_at) IN (
    SELECT d.attempt, d.expires_at FROM idempotency.response_default d WHERE d.expires_at <= now() LIMIT p_limit);
  more := seen > p_limit OR left_over OR idempotency.tidy_outbox(p_limit) = p_limit;
END $$;

-- Deletes at most p_limit records of a tenant with their responses, unless their requests are running, and replaces the
-- tenant and its keys in at most p_limit audit entries by hashes. A record that another transaction has locked counts as
-- running. So do effects in the outbox that are not carried out, or whose records are left. With the owner's rights, because no role may change the audit by itself. Running records are counted by a dry
-- run and by the call that leaves nothing else.
CREATE OR REPLACE FUNCTION idempotency.purge_tenant(
  p_tenant bytea, p_actor text, p_reason text, p_dry_run boolean, p_limit bigint,
  OUT records bigint, OUT unsettled bigint, OUT running bigint, OUT audit_entries bigint, OUT more boolean
) LANGUAGE plpgsql SECURITY DEFINER
-- By indexes, and responses one by one, each in its partition.
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  effects bigint;
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
  WITH settled AS MATERIALIZED (
    SELECT o.id FROM idempotency.outbox o
    WHERE sha256(o.tenant) = sha256(p_tenant) AND (o.done_at IS NOT NULL OR o.dead_at IS NOT NULL) AND NOT EXISTS (
      SELECT FROM idempotency.record r WHERE r.tenant = o.tenant AND r.operation = o.operation AND r.key = o.key
        AND r.created_at = o.life)
    LIMIT p_limit
    FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM idempotency.outbox o USING settled s WHERE o.id = s.id RETURNING 1
  )
  SELECT count(*) FROM gone INTO effects;
  more := records = p_limit OR audit_entries = p_limit OR effects = p_limit;
  IF NOT more THEN
    SELECT count(*) INTO running FROM idempotency.record r WHERE r.tenant = p_tenant;
    -- The next request of the tenant makes it again.
    DELETE FROM idempotency.tenant_use u WHERE u.tenant = p_tenant AND running = 0;
  END IF;
  INSERT INTO idempotency.audit (actor, action, tenant, records, detail)
  VALUES (p_actor, 'purge', pseudonym, records, p_reason);
END $$;
COMMENT ON FUNCTION idempotency.purge_tenant(bytea, text, text, boolean, bigint) IS
  'Deletes the records of a tenant with their settled effects, and its name and keys in the audit; all but those whose requests are running.';
