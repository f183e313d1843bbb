-- The service's own tables, beside the filter's. Run by an administrator, after idempotencyctl migrate.

CREATE SCHEMA payments;

-- No unique constraint here keeps a second order or receipt out. The functions of the schema idempotency do, and
-- ledger.py would find one. A service of your own may well have both.
CREATE TABLE payments.orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  amount integer NOT NULL,
  card text NOT NULL,
  state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'paid', 'declined')),
  charge text,  -- The provider's id.
  created_at timestamptz NOT NULL DEFAULT now(),
  -- The record that the order was made for, until the reaper deletes it.
  tenant bytea,
  operation bytea,
  key bytea,
  FOREIGN KEY (tenant, operation, key) REFERENCES idempotency.record ON DELETE SET NULL
);
-- The reaper's DELETE finds the order by it.
CREATE INDEX orders_record ON payments.orders (tenant, operation, key);

CREATE TABLE payments.receipts (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  order_id bigint NOT NULL REFERENCES payments.orders,
  amount integer NOT NULL,
  charge text NOT NULL
);

-- The service calls the functions of the schema idempotency, and reads none of its tables.
GRANT USAGE ON SCHEMA payments TO payments_service, payments_worker, payments_ledger;
GRANT SELECT, INSERT ON payments.orders, payments.receipts TO payments_service;
-- The worker writes what the provider said.
GRANT SELECT, UPDATE (state, charge) ON payments.orders TO payments_worker;
GRANT SELECT ON payments.orders, payments.receipts TO payments_ledger;
