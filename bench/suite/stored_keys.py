"""Speed with many records in the store."""

import subprocess

from harness.paths import built

from .filter_group import Bench
from .load import LoadError
from .rounds import Figures, Measured, Ratio, Scenario, interleave, per_round

FEW = 1000
IN_FLIGHT = 16
# Whole pages in the log for each record of it, at most, when an index counts as warm.
WHOLE_PAGES = 0.02
MOST_WARM_UPS = 30

# Completed records without their responses (tombstones), of the last half day: a claim reads no response.
_FILL = """
INSERT INTO idempotency.record (tenant, operation, key, attempt, state, status, tombstone, response_schema,
 fingerprint, lease_until, expires_at, reap_at, claimed_at, created_at, completed_at)
SELECT 'tenant', 'create-payment', convert_to(substr(md5(n::text), 1, 16) || '-stored', 'UTF8'),
 n, 2, 201, 1, 1, convert_to(repeat('f', 33), 'UTF8'),
 at + interval '30 s', at + life, at + life, at, at, at
FROM generate_series(%(first)s::int8, %(last)s::int8) n,
 LATERAL (SELECT now() - interval '12 h' + n * interval '1 ms' AS at, %(life)s::interval AS life) t
"""


def fill(bench: Bench, database: str, count: int, life: str = "24 h") -> None:
    """Bulk-loads so many completed records: indexes come last, which is many times faster."""
    with bench.database.connect(database) as connection:
        indexes = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes"
            " WHERE schemaname = 'idempotency' AND tablename = 'record' AND indexname <> 'record_pkey'"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX idempotency.{name}")
        connection.execute("ALTER TABLE idempotency.record DROP CONSTRAINT record_pkey")
        connection.execute(_FILL, {"first": 1, "last": count, "life": life})
        connection.execute("SET maintenance_work_mem = '1GB'")
        connection.execute("ALTER TABLE idempotency.record ADD PRIMARY KEY (tenant, operation, key)")
        for _, definition in indexes:
            connection.execute(definition)
        connection.execute("VACUUM ANALYZE idempotency.record")


def claim_p50(bench: Bench, database: str) -> Figures:
    command = [
        built("bench/postgres_load"),
        bench.database.address(database),
        "claim_p50",
        str(bench.seconds),
    ]
    done = subprocess.run([*command, str(IN_FLIGHT), bench.prefix()], capture_output=True, text=True)
    if done.returncode:
        raise LoadError(f"postgres_load: {done.stderr}")
    return {"claim_p50_us": float(done.stdout)}


def claim_p50_after_checkpoint(bench: Bench, database: str) -> Figures:
    bench.database.checkpoint()
    return claim_p50(bench, database)


def warm_up(bench: Bench, database: str) -> None:
    """Claims until the index's pages are in the write-ahead log.

    PostgreSQL writes a page there as a whole when it is first changed after a checkpoint. Between two
    checkpoints that are minutes apart this is soon over, so it is no part of a claim's usual time.
    """
    for _ in range(MOST_WARM_UPS):
        records, pages = _logged(bench)
        claim_p50(bench, database)
        more_records, more_pages = _logged(bench)
        # A claim writes four records or more.
        if more_pages - pages < (more_records - records) * WHOLE_PAGES:
            return
    raise LoadError(f"{database}: PostgreSQL still logs whole pages")


def _logged(bench: Bench) -> tuple[int, int]:
    (row,) = bench.database.query("SELECT wal_records, wal_fpi FROM pg_stat_wal")
    return row


def measure(bench: Bench, counts: list[int], rounds: int) -> dict[str, Measured]:
    """Scenarios `claims_N` and `claims_N_after_checkpoint` for each number of stored keys."""
    names = {count: bench.database.create(f"keys_{count}") for count in counts}
    for count, name in names.items():
        fill(bench, name, count)
    bench.database.checkpoint()
    for name in names.values():
        warm_up(bench, name)
    found = {}
    for suffix, what, run in (
        ("", "", claim_p50),
        ("_after_checkpoint", ", right after a checkpoint", claim_p50_after_checkpoint),
    ):
        scenarios = [
            Scenario(
                f"claims_{count}{suffix}",
                f"{IN_FLIGHT} claims at a time with {count} stored keys{what}",
                lambda name=name, run=run: run(bench, name),
            )
            for count, name in names.items()
        ]
        found |= interleave(scenarios, rounds, "stored keys")
    return found


def ratio(found: dict[str, Measured], many: int) -> Ratio:
    few, more = found[f"claims_{FEW}"], found[f"claims_{many}"]
    return Ratio(
        "claim_p50_10m_vs_1k",
        f"median time of a claim with {many} stored keys against {FEW}, {IN_FLIGHT} at a time",
        ("<=", 1.25),
        per_round(more, few, "claim_p50_us"),
        f"{more.median('claim_p50_us'):.0f} against {few.median('claim_p50_us'):.0f} microseconds",
    )
