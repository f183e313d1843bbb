-- The names that the PostgreSQL store has, too: one word for each thing.

ALTER TABLE response RENAME COLUMN bytes TO body;

-- One row for each kind of job, as in PostgreSQL. The present leader stays.
ALTER TABLE leader RENAME TO leader_before;
CREATE TABLE leader (
  -- The kind of job.
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO leader SELECT 'maintenance', owner, lease_until FROM leader_before;
DROP TABLE leader_before;
