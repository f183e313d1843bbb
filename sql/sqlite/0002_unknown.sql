-- Time frees no key whose outcome is unknown.

-- When the present attempt claimed the record; its life began then. Null: an older build wrote the
-- row, and created_at is the best that is known.
ALTER TABLE record ADD COLUMN claimed_at INTEGER;
UPDATE record SET claimed_at = created_at;

-- From now on expired_at also says that an unknown record is past its life: it stays unknown, and is
-- in neither record_expiry nor tenant_use until it is settled.

-- Version 1 gave unknown records up at the end of their life: completed, with status 408 and
-- tombstone 4; with soft expiry they stayed as expired. What became of these requests was never
-- known, and is not now.
UPDATE record SET state = 4, status = 0, tombstone = 0, completed_at = NULL
WHERE tombstone = 4 AND state IN (2, 5);

-- The latest time that the store has believed in, for the next start. See docs/sqlite.md.
CREATE TABLE clock (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  at INTEGER NOT NULL
) STRICT;
