-- compatible-with: 1
-- Records: one small row for each identity, and the stored responses beside it.

COMMENT ON SCHEMA idempotency IS 'Idempotency keys and stored responses of envoy-idempotency.';

-- Never partition this table by time: the same key could then be claimed once in each partition.
-- Completion is a HOT update, since no index holds a column that it changes. So: no index on state, on
-- lease_until or on anything else that a completion sets, not even in a partial index's condition.
-- Half of each page is left free for it: rows that were claimed in one batch share a page and are completed
-- in one transaction, so none of their old versions can make room before the last.
-- No CHECK either: it is parsed anew for every statement, which costs a tenth of a claim.
-- Columns stand in the order that wastes no padding.
CREATE TABLE idempotency.key (
  attempt bigint NOT NULL,
  lease_until timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  reap_at timestamptz NOT NULL,
  claimed_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  completed_at timestamptz,
  reconcile_after timestamptz,
  reconcile_tries integer NOT NULL DEFAULT 0,
  state smallint NOT NULL,
  on_lease_expired smallint NOT NULL DEFAULT 0,
  status smallint,
  tombstone smallint,
  response_schema smallint,
  reclaimed boolean NOT NULL DEFAULT false,
  dead_letter boolean NOT NULL DEFAULT false,
  tenant bytea NOT NULL,
  operation bytea NOT NULL,
  key bytea NOT NULL,
  fingerprint bytea NOT NULL,
  recovery_point text NOT NULL DEFAULT 'started',
  last_error text,
  PRIMARY KEY (tenant, operation, key)
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

CREATE INDEX key_reap_at ON idempotency.key (reap_at);
CREATE INDEX key_claimed_at ON idempotency.key (claimed_at);

COMMENT ON TABLE idempotency.key IS
  'One row for each identity (tenant, operation, key). Absence of a row means that the key is free.';
COMMENT ON COLUMN idempotency.key.attempt IS
  'Random token of the claim. Every later write names it: a late writer with an old token changes nothing.';
COMMENT ON COLUMN idempotency.key.lease_until IS
  'Until when the claim is believed alive; moved on by heartbeats. Judged by this server''s clock alone. Never indexed.';
COMMENT ON COLUMN idempotency.key.expires_at IS
  'End of the record''s life: not replayed from then on. Fixed once the record is completed, since its response is found by it.';
COMMENT ON COLUMN idempotency.key.reap_at IS
  'When the reaper looks at the row: expires_at as the claim set it; infinity for expired records that are kept. Not moved by completion.';
COMMENT ON COLUMN idempotency.key.claimed_at IS
  'When the present attempt claimed the record. The sweeper walks along it.';
COMMENT ON COLUMN idempotency.key.created_at IS
  'When the record''s present life began.';
COMMENT ON COLUMN idempotency.key.completed_at IS
  'When the result became known; NULL before.';
COMMENT ON COLUMN idempotency.key.reconcile_after IS
  'Unknown outcome: when the upstream is asked next; NULL: nobody asks.';
COMMENT ON COLUMN idempotency.key.reconcile_tries IS
  'Unknown outcome: how often the upstream was asked.';
COMMENT ON COLUMN idempotency.key.state IS
  '1 in_progress, 2 completed, 3 failed_retryable, 4 unknown, 5 expired. Never renumbered.';
COMMENT ON COLUMN idempotency.key.on_lease_expired IS
  'What a lease that ran out means, by the policy of the claim: 0 unknown, 1 retry.';
COMMENT ON COLUMN idempotency.key.status IS
  'Completed: the HTTP status of the response.';
COMMENT ON COLUMN idempotency.key.tombstone IS
  'Completed: 0 there is a response, 1 too large, 2 secret, 3 unstorable, 4 abandoned. Never renumbered.';
COMMENT ON COLUMN idempotency.key.response_schema IS
  'Completed: version of the format of response.body.';
COMMENT ON COLUMN idempotency.key.reclaimed IS
  'The present attempt is not the first of the record''s life: to release it does not delete the row.';
COMMENT ON COLUMN idempotency.key.dead_letter IS
  'Unknown outcome: reconciliation has given up.';
COMMENT ON COLUMN idempotency.key.tenant IS 'Who sent the request; bytes.';
COMMENT ON COLUMN idempotency.key.operation IS 'What was asked for; bytes; empty with scope TENANT.';
COMMENT ON COLUMN idempotency.key.key IS 'The key as the client sent it, parsed; bytes.';
COMMENT ON COLUMN idempotency.key.fingerprint IS
  'Hash of the canonical request; its first byte is the version of the algorithm.';
COMMENT ON COLUMN idempotency.key.recovery_point IS
  'How far the upstream got; starts as "started", moved by the upstream in its own transaction.';
COMMENT ON COLUMN idempotency.key.last_error IS
  'Code of the last failure; never text from the upstream.';

-- Expiry is DROP of a partition: no dead rows, no WAL for each row. Its rows are found by a key row's
-- attempt and expires_at.
CREATE TABLE idempotency.response (
  attempt bigint NOT NULL,
  expires_at timestamptz NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (attempt, expires_at)
) PARTITION BY RANGE (expires_at);

-- Catches what no other partition takes, so that a completion never fails for want of one.
CREATE TABLE idempotency.response_default PARTITION OF idempotency.response DEFAULT;

COMMENT ON TABLE idempotency.response IS
  'Stored responses, in one partition for each day (UTC) of their expiry.';
COMMENT ON COLUMN idempotency.response.attempt IS 'The attempt that completed the record.';
COMMENT ON COLUMN idempotency.response.expires_at IS 'As in the key row; chooses the partition.';
COMMENT ON COLUMN idempotency.response.body IS
  'Status, headers, body and trailers in the format that key.response_schema names; perhaps encrypted.';

CREATE TABLE idempotency.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now(),
  actor text NOT NULL DEFAULT session_user,
  action text NOT NULL,
  tenant bytea,
  operation bytea,
  key bytea,
  attempt bigint,
  count bigint NOT NULL DEFAULT 1,
  detail text
);
CREATE INDEX audit_identity ON idempotency.audit (tenant, operation, key) WHERE key IS NOT NULL;

COMMENT ON TABLE idempotency.audit IS
  'What background jobs and operators did. Outlives the records; rows are only ever added.';
COMMENT ON COLUMN idempotency.audit.id IS 'Order of the entries.';
COMMENT ON COLUMN idempotency.audit.at IS 'When, by this server''s clock.';
COMMENT ON COLUMN idempotency.audit.actor IS 'The database role, or the operator that the tool names.';
COMMENT ON COLUMN idempotency.audit.action IS 'What was done: lease_to_unknown, lease_to_retry, give_up, expire, delete, …';
COMMENT ON COLUMN idempotency.audit.tenant IS 'Tenant of the record; NULL for an entry about many.';
COMMENT ON COLUMN idempotency.audit.operation IS 'Operation of the record; NULL for an entry about many.';
COMMENT ON COLUMN idempotency.audit.key IS 'Key of the record; NULL for an entry about many.';
COMMENT ON COLUMN idempotency.audit.attempt IS 'The attempt that held the record; NULL for an entry about many.';
COMMENT ON COLUMN idempotency.audit.count IS 'How many records the entry is about.';
COMMENT ON COLUMN idempotency.audit.detail IS 'A remark; never a secret.';

CREATE TABLE idempotency.leader (
  name text PRIMARY KEY,
  owner text NOT NULL,
  lease_until timestamptz NOT NULL
);
COMMENT ON TABLE idempotency.leader IS
  'Which process runs the background jobs. One row for each kind of job.';
COMMENT ON COLUMN idempotency.leader.name IS 'The kind of job.';
COMMENT ON COLUMN idempotency.leader.owner IS 'The process that leads.';
COMMENT ON COLUMN idempotency.leader.lease_until IS 'Until when it leads unless it renews, by this server''s clock.';
