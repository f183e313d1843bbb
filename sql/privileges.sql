-- Roles and their privileges. Runs at the end of every migration, so that a role that is created later gets its
-- privileges. If the migrating role may create roles, this creates them. If not, an administrator creates them and runs
-- the migration again. They cannot log in: grant them to a login role, or allow them to log in with ALTER ROLE.

DO $$
DECLARE
  wanted text;
  setting text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['idempotency_filter', 'idempotency_upstream', 'idempotency_worker',
                               'idempotency_operator'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
      EXCEPTION
        WHEN insufficient_privilege THEN
          RAISE WARNING 'role % is missing and % may not create it: create it and run the migration again', wanted, current_user;
        WHEN duplicate_object OR unique_violation THEN
          NULL;  -- Another database of this server was migrated at the same time.
      END;
    END IF;
  END LOOP;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'idempotency_filter') THEN
    -- The module sets these in each session. They are needed for poolers that share sessions.
    FOREACH setting IN ARRAY ARRAY['default_transaction_isolation = ''read committed''', 'plan_cache_mode = force_generic_plan',
                                   'enable_seqscan = off', 'enable_indexscan = off',
                                   'enable_indexonlyscan = off', 'enable_hashjoin = off',
                                   'enable_mergejoin = off', 'jit = off'] LOOP
      BEGIN
        EXECUTE format('ALTER ROLE idempotency_filter SET %s', setting);
      EXCEPTION
        WHEN insufficient_privilege THEN NULL;
        WHEN internal_error THEN NULL;  -- "tuple concurrently updated": as above.
      END;
    END LOOP;
  END IF;
END $$;

-- Revoke everything first, so that privileges that a role no longer needs, or that were granted by hand, are gone. This
-- is one transaction, so no session sees the state in between.
DO $$
DECLARE
  holder text;
BEGIN
  FOR holder IN
    SELECT 'PUBLIC' UNION ALL
    SELECT quote_ident(rolname) FROM pg_roles
    WHERE rolname IN ('idempotency_filter', 'idempotency_upstream', 'idempotency_worker', 'idempotency_operator')
  LOOP
    EXECUTE format('REVOKE ALL ON SCHEMA idempotency FROM %s', holder);
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA idempotency FROM %s', holder);
    EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA idempotency FROM %s', holder);
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA idempotency FROM %s', holder);
  END LOOP;
END $$;

DO $$
DECLARE
  line text;
  role text;
BEGIN
  FOREACH line IN ARRAY ARRAY[
    -- The request path and the background jobs. They never delete from the audit.
    'idempotency_filter: USAGE ON SCHEMA idempotency',
    'idempotency_filter: SELECT ON idempotency.schema_version',
    'idempotency_filter: SELECT, INSERT, UPDATE, DELETE ON idempotency.record',
    'idempotency_filter: SELECT, INSERT, UPDATE, DELETE ON idempotency.key',  -- Its name before version 5.
    'idempotency_filter: SELECT, INSERT ON idempotency.response',
    'idempotency_filter: SELECT, DELETE ON idempotency.response_default',
    'idempotency_filter: SELECT, INSERT, UPDATE ON idempotency.leader',
    'idempotency_filter: INSERT ON idempotency.audit',
    'idempotency_filter: SELECT, UPDATE ON idempotency.sweep_position',
    'idempotency_filter: SELECT, INSERT, DELETE ON idempotency.sweep_watch',
    'idempotency_filter: EXECUTE ON FUNCTION idempotency.make_response_partitions(integer)',
    'idempotency_filter: EXECUTE ON FUNCTION idempotency.drop_response_partitions()',
    'idempotency_filter: EXECUTE ON FUNCTION idempotency.sweep(bigint, interval, bigint)',
    'idempotency_filter: EXECUTE ON FUNCTION idempotency.reap(bigint, boolean)',
    'idempotency_filter: SELECT, INSERT, UPDATE ON idempotency.tenant_use',
    'idempotency_filter: EXECUTE ON FUNCTION idempotency.count_tenant(bytea, bigint)',
    'idempotency_filter: EXECUTE ON FUNCTION idempotency.recount_tenants(bigint)',
    -- Records whose outcome is unknown: requests and the sweeper write them, the reconciler settles them.
    'idempotency_filter: SELECT, INSERT, UPDATE, DELETE ON idempotency.unsettled',
    'idempotency_filter: SELECT ON idempotency.unsettled_total',
    'idempotency_filter: SELECT ON idempotency.unsettled_change',
    'idempotency_filter: EXECUTE ON FUNCTION idempotency.tidy_unsettled(bigint)',
    'idempotency_filter: EXECUTE ON FUNCTION idempotency.tidy_outbox(bigint)',
    -- Upstreams reach records through functions only.
    'idempotency_upstream: USAGE ON SCHEMA idempotency',
    'idempotency_upstream: EXECUTE ON FUNCTION idempotency.begin_work(bigint)',
    'idempotency_upstream: EXECUTE ON FUNCTION idempotency.checkpoint(bigint, text)',
    'idempotency_upstream: EXECUTE ON FUNCTION idempotency.complete(bigint, integer, jsonb, bytea, jsonb)',
    'idempotency_upstream: EXECUTE ON FUNCTION idempotency.enqueue(bigint, text, jsonb, text)',
    -- Workers carry out what services have ordered, and write down what became of it.
    'idempotency_worker: USAGE ON SCHEMA idempotency',
    'idempotency_worker: SELECT ON idempotency.outbox',
    'idempotency_worker: UPDATE (due_at, done_at, dead_at, tries, reference, last_error) ON idempotency.outbox',
    -- Operators read everything and settle records.
    'idempotency_operator: USAGE ON SCHEMA idempotency',
    'idempotency_operator: SELECT ON idempotency.schema_version',
    'idempotency_operator: SELECT, UPDATE, DELETE ON idempotency.record',
    'idempotency_operator: SELECT, UPDATE, DELETE ON idempotency.key',
    'idempotency_operator: SELECT, INSERT, DELETE ON idempotency.response',
    'idempotency_operator: SELECT ON idempotency.response_default',
    'idempotency_operator: SELECT, INSERT ON idempotency.audit',
    'idempotency_operator: SELECT ON idempotency.leader',
    'idempotency_operator: SELECT ON idempotency.sweep_position',
    'idempotency_operator: SELECT ON idempotency.sweep_watch',
    'idempotency_operator: SELECT ON idempotency.tenant_use',
    'idempotency_operator: SELECT, INSERT, UPDATE, DELETE ON idempotency.unsettled',
    'idempotency_operator: SELECT ON idempotency.unsettled_total',
    'idempotency_operator: SELECT ON idempotency.unsettled_change',
    'idempotency_operator: SELECT ON idempotency.records',
    'idempotency_operator: SELECT ON idempotency.outbox',
    'idempotency_operator: EXECUTE ON FUNCTION idempotency.readable(bytea)',
    'idempotency_operator: EXECUTE ON FUNCTION idempotency.key_hash(bytea, bytea, bytea)',
    'idempotency_operator: EXECUTE ON FUNCTION idempotency.tidy_unsettled(bigint)',
    'idempotency_operator: EXECUTE ON FUNCTION idempotency.purge_tenant(bytea, text, text, boolean, bigint)'
  ] LOOP
    role := split_part(line, ': ', 1);
    CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
    BEGIN
      EXECUTE format('GRANT %s TO %I', split_part(line, ': ', 2), role);
    EXCEPTION
      -- With `migrate --to`, a later migration may create the object, or an earlier name may be gone. A test compares the
      -- newest schema with this list.
      WHEN undefined_table OR undefined_function THEN NULL;
    END;
  END LOOP;
END $$;
