"""New keys that the upstream completes in its own transaction, against new keys that the filter completes.

Both upstreams insert the same row of a table of their own. One completes the record in that transaction; the
other one answers, and the filter completes the record.
"""

from . import servers
from .filter_group import BODY, Bench
from .results import Results
from .rounds import Figures, Measured, Ratio, Scenario, interleave, per_round

OWN, FILTER = "own", "paid"  # Envoys, and the upstream's paths.
COUNT = 3000


def run(bench: Bench, rounds: int, results: Results) -> None:
    upstream = _start_upstream(bench)
    for name, policy in ((OWN, {"own_transaction": True, "on_lease_expired": "RETRY"}), (FILTER, {})):
        config = servers.keyed_config(upstream, bench.store, policy)
        bench.envoys[name] = servers.start_envoy(bench.workspace, config)
    found = interleave(_scenarios(bench), rounds, "own transactions")
    results.add("own", found)
    results.ratios += _ratios(found)
    written = interleave(_written_scenarios(bench), rounds, "what own transactions write")
    results.add("own_writes", written)
    results.ratios += _written_ratios(written)


def _start_upstream(bench: Bench) -> servers.Upstream:
    """Another one, whose database is that of the filter's records."""
    database = bench.database
    database.query("CREATE EXTENSION pg_walinspect")
    database.query(
        "CREATE TABLE payment (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        " attempt bigint NOT NULL, amount integer NOT NULL, created_at timestamptz NOT NULL DEFAULT now())",
        database="filter",
    )
    database.query("CREATE ROLE shop LOGIN IN ROLE idempotency_upstream", database="filter")
    database.query("GRANT INSERT ON payment TO shop", database="filter")
    return servers.Upstream(bench.workspace, database.address("filter", "shop"))


def _scenarios(bench: Bench) -> list[Scenario]:
    made = []
    for prefix, what, options in (("", "", {}), ("lone_", ", one connection", {"connections": 1})):
        for name, who in ((FILTER, "the filter"), (OWN, "the upstream")):
            made.append(
                Scenario(
                    f"{prefix}{name}",
                    f"new keys completed by {who}{what}",
                    lambda name=name, options=options: _unique(bench, name, **options),
                )
            )
    return made


def _unique(bench: Bench, name: str, **options) -> Figures:
    bench.database.checkpoint()
    return bench.load(bench.envoys[name], path=f"/{name}/{BODY}", **options)


def _written_scenarios(bench: Bench) -> list[Scenario]:
    return [
        Scenario(name, f"{COUNT} new keys", lambda name=name: _writes(bench, name)) for name in (FILTER, OWN)
    ]


def _writes(bench: Bench, name: str) -> Figures:
    """For each request: bytes of the write-ahead log; completions that the filter wrote, and found."""
    database, envoy = bench.database, bench.envoys[name]
    ended = {"by_filter": "idempotency.ended.completed", "by_upstream": "idempotency.ended.by_upstream"}
    counted = {figure: envoy.stat(stat) for figure, stat in ended.items()}
    ((begin,),) = database.query("SELECT pg_current_wal_insert_lsn()")
    bench.load(envoy, path=f"/{name}/{BODY}", seconds=3600, count=COUNT)
    # Without pages that are written whole: how many depends on the last checkpoint, and on chance.
    sql = "SELECT sum(record_size)::float8 FROM pg_get_wal_stats(%s, pg_current_wal_flush_lsn())"
    ((written,),) = database.query(sql, begin)
    figures = {figure: (envoy.stat(stat) - counted[figure]) / COUNT for figure, stat in ended.items()}
    return {"wal_bytes": written / COUNT, **figures}


def _ratios(found: dict[str, Measured]) -> list[Ratio]:
    return [
        _against(
            found,
            "own_vs_filter",
            "new keys: requests/s if the upstream completes them against the filter",
            (">=", 0.4),
            "rate",
        ),
        _against(
            found,
            "lone_own_vs_filter",
            "one connection: p50 if the upstream completes the request against the filter",
            ("<=", 1.0),
            "p50_us",
            "lone_",
        ),
    ]


def _written_ratios(found: dict[str, Measured]) -> list[Ratio]:
    ours = found[OWN]
    return [
        _against(
            found,
            "own_wal_vs_filter",
            "bytes of the write-ahead log for a new key if the upstream completes it against the filter",
            ("<=", 1.2),
            "wal_bytes",
        ),
        Ratio(
            "own_completions_by_filter",
            "completions that the filter writes for each request that the upstream has completed",
            ("<=", 0),
            ours.rounds["by_filter"],
            f"of all requests, {ours.median('by_upstream'):.3f} were found completed",
            besides=ours.median("by_upstream") == 1,
        ),
    ]


def _against(
    found: dict[str, Measured], name: str, what: str, bar: tuple[str, float], figure: str, prefix: str = ""
) -> Ratio:
    ours, theirs = found[prefix + OWN], found[prefix + FILTER]
    detail = f"by the upstream {ours.median(figure):.0f}, by the filter {theirs.median(figure):.0f}"
    return Ratio(name, what, bar, per_round(ours, theirs, figure), detail)
