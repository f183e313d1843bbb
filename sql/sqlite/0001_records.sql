-- Records of an embedded store. Times are milliseconds since 1970 by SQLite's clock. Numbers of
-- states, tombstones and policies are those of source/protocol/record.h and policy.h.

CREATE TABLE record (
  -- Rows are appended, so that the records of one moment share pages.
  id INTEGER PRIMARY KEY,

  -- What must be unique.
  tenant BLOB NOT NULL,
  operation BLOB NOT NULL,
  key BLOB NOT NULL,

  -- Of the request that made the claim; its first byte is the algorithm's version.
  fingerprint BLOB NOT NULL,
  -- 1 in progress, 2 completed, 3 failed and retryable, 4 unknown, 5 expired.
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5),
  -- Random; every write after the claim names it.
  attempt INTEGER NOT NULL CHECK (attempt > 0),
  -- 1: an earlier attempt of this life may have run.
  reclaimed INTEGER NOT NULL DEFAULT 0 CHECK (reclaimed IN (0, 1)),
  -- How far an attempt got, in the upstream's words.
  recovery_point TEXT NOT NULL,

  -- In progress: believed alive until then, and what happens afterwards (0 unknown, 1 retry).
  lease_until INTEGER NOT NULL,
  on_lease_expired INTEGER NOT NULL CHECK (on_lease_expired IN (0, 1)),

  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  completed_at INTEGER,
  -- Soft expiry, by the reaper.
  expired_at INTEGER,

  -- Unknown: when the upstream is asked next; null: nobody asks. Set for dead letters too.
  reconcile_after INTEGER,
  dead_letter INTEGER NOT NULL DEFAULT 0 CHECK (dead_letter IN (0, 1)),
  -- A code, never text from the upstream.
  last_error TEXT NOT NULL DEFAULT '',

  -- Completed: status of the response, why there is none to replay (0: there is), and the version
  -- of its encoding.
  status INTEGER NOT NULL DEFAULT 0,
  tombstone INTEGER NOT NULL DEFAULT 0,
  response_schema INTEGER NOT NULL DEFAULT 0,

  UNIQUE (tenant, operation, key)
) STRICT;

-- For the sweeper, and small: it holds only what is in progress.
CREATE INDEX record_lease ON record (lease_until) WHERE state = 1;
-- For the reconciler: only what is unknown.
CREATE INDEX record_reconcile ON record (reconcile_after) WHERE state = 4;
-- For the reaper and for quota, which needs no look at the rows. A completion leaves it alone.
CREATE INDEX record_expiry ON record (expires_at, tenant, expired_at) WHERE expired_at IS NULL;

-- Apart from the records, so that those stay small. A row goes with its record, or before it.
CREATE TABLE response (
  id INTEGER PRIMARY KEY,
  -- As in the record: a response of another attempt is never replayed.
  attempt INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;

-- How many records each tenant has that are not expired. Kept by the store with each change, so that
-- a quota costs no scan.
CREATE TABLE tenant_use (
  tenant BLOB PRIMARY KEY,
  records INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What was done to records by background jobs and operators. Outlives the records.
CREATE TABLE audit (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  -- The words of source/store/audit.h.
  action TEXT NOT NULL,
  -- Who did it; empty: the background jobs.
  actor TEXT NOT NULL DEFAULT '',
  -- The record; null where one row stands for many.
  tenant BLOB,
  operation BLOB,
  key BLOB,
  attempt INTEGER,
  -- How many records this row stands for.
  records INTEGER NOT NULL DEFAULT 1,
  detail TEXT NOT NULL DEFAULT ''
) STRICT;

-- Who runs the background jobs, and until when.
CREATE TABLE leader (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  owner TEXT NOT NULL,
  lease_until INTEGER NOT NULL
) STRICT;
