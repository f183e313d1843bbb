-- Operators and the reconciler find unknown records by indexes that hold nothing else. Their
-- conditions are on columns that a completion does not set, so that SQLite leaves them alone then.

-- Unknown: since when. Null in every other state.
ALTER TABLE record ADD COLUMN unknown_since INTEGER;
UPDATE record SET unknown_since = coalesce(claimed_at, created_at) WHERE state = 4;
-- How often the reconciler has asked the upstream.
ALTER TABLE record ADD COLUMN reconcile_tries INTEGER NOT NULL DEFAULT 0;

-- reconcile_after is null until the first try is scheduled: such a record is due at once.
DROP INDEX record_reconcile;
CREATE INDEX record_due ON record (operation, coalesce(reconcile_after, 0))
  WHERE unknown_since IS NOT NULL AND dead_letter = 0;
CREATE INDEX record_unknown ON record (operation, unknown_since) WHERE unknown_since IS NOT NULL;
CREATE INDEX record_unknown_attempt ON record (attempt) WHERE unknown_since IS NOT NULL;

-- How many unknown records each operation has, dead letters included. Kept by the store with each
-- change, as tenant_use.
CREATE TABLE unsettled_use (
  operation BLOB PRIMARY KEY,
  records INTEGER NOT NULL,
  dead_letters INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO unsettled_use
SELECT operation, count(*), sum(dead_letter) FROM record WHERE state = 4 GROUP BY operation;

-- An older build that still has the file open, or a person with a shell, sets state and
-- reconcile_after only. For a store of this version, these do nothing.
CREATE TRIGGER record_becomes_unknown AFTER UPDATE OF reconcile_after ON record
WHEN new.state = 4 AND new.unknown_since IS NULL BEGIN
  UPDATE record SET unknown_since = coalesce(claimed_at, created_at) WHERE id = new.id;
  INSERT INTO unsettled_use VALUES (new.operation, 1, new.dead_letter)
  ON CONFLICT (operation) DO UPDATE SET records = records + 1,
    dead_letters = dead_letters + excluded.dead_letters;
END;
CREATE TRIGGER record_is_settled AFTER UPDATE OF reconcile_after ON record
WHEN new.state <> 4 AND new.unknown_since IS NOT NULL BEGIN
  UPDATE record SET unknown_since = NULL, dead_letter = 0 WHERE id = new.id;
  UPDATE unsettled_use SET records = records - 1, dead_letters = dead_letters - old.dead_letter
  WHERE operation = new.operation;
END;

-- What was done to a record, or to a tenant's.
CREATE INDEX audit_record ON audit (tenant, operation, key) WHERE tenant IS NOT NULL;

-- The records for people: names instead of numbers, text instead of bytes, times in UTC. Not for
-- programs: text that is not UTF-8 is shown as it is.
CREATE VIEW records AS SELECT
  CAST(tenant AS TEXT) AS tenant,
  CAST(operation AS TEXT) AS operation,
  CAST(key AS TEXT) AS key,
  CASE state WHEN 1 THEN 'in_progress' WHEN 2 THEN 'completed' WHEN 3 THEN 'failed_retryable'
    WHEN 4 THEN 'unknown' WHEN 5 THEN 'expired' END AS state,
  attempt,
  last_error,
  strftime('%Y-%m-%dT%H:%M:%fZ', unknown_since / 1000.0, 'unixepoch') AS unknown_since,
  iif(state = 4 AND dead_letter = 0,
    strftime('%Y-%m-%dT%H:%M:%fZ', reconcile_after / 1000.0, 'unixepoch'), NULL) AS next_try,
  reconcile_tries AS tries,
  dead_letter,
  iif(state = 1, strftime('%Y-%m-%dT%H:%M:%fZ', lease_until / 1000.0, 'unixepoch'), NULL)
    AS lease_until,
  CASE on_lease_expired WHEN 0 THEN 'unknown' WHEN 1 THEN 'retry' END AS on_lease_expired,
  recovery_point,
  status,
  CASE tombstone WHEN 0 THEN 'none' WHEN 1 THEN 'too_large' WHEN 2 THEN 'secret'
    WHEN 3 THEN 'unstorable' END AS tombstone,
  strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(claimed_at, created_at) / 1000.0, 'unixepoch')
    AS claimed_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', completed_at / 1000.0, 'unixepoch') AS completed_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', expires_at / 1000.0, 'unixepoch') AS expires_at,
  lower(hex(fingerprint)) AS fingerprint
FROM record;
