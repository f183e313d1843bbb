"""New keys that the upstream completes in its own transaction, against new keys that the filter completes.

Both upstreams insert the same row of a table of their own. One completes the record in that transaction; the
other one answers, and the filter completes the record.
"""

from . import servers
from .filter_group import BODY, Bench
from .results import Results
from .rounds import Figures, Measured, Ratio, Scenario, interleave, per_round

OWN, FILTER = "own", "paid"  # Envoys, and the upstream's paths.


def run(bench: Bench, rounds: int, results: Results) -> None:
    upstream = _start_upstream(bench)
    for name, policy in ((OWN, {"own_transaction": True, "on_lease_expired": "RETRY"}), (FILTER, {})):
        config = servers.keyed_config(upstream, bench.store, policy)
        bench.envoys[name] = servers.start_envoy(bench.workspace, config)
    found = interleave(_scenarios(bench), rounds, "own transactions")
    results.add("own", found)
    results.ratios += _ratios(found)


def _start_upstream(bench: Bench) -> servers.Upstream:
    """Another one, whose database is that of the filter's records."""
    database = bench.database
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
    """With what is written for each request."""
    bench.database.checkpoint()
    before, counted = _written(bench), _ended(bench, name)
    figures = bench.load(bench.envoys[name], path=f"/{name}/{BODY}", **options)
    requests = figures["requests"]
    for key, value in _ended(bench, name).items():
        figures[key] = (value - counted[key]) / requests
    after = _written(bench)
    return {**figures, **{key: (after[key] - before[key]) / requests for key in after}}


def _ended(bench: Bench, name: str) -> dict[str, float]:
    """Completions that the filter has written, and those that it has found."""
    envoy = bench.envoys[name]
    return {
        "by_filter": envoy.stat("idempotency.ended.completed"),
        "by_upstream": envoy.stat("idempotency.ended.by_upstream"),
    }


def _written(bench: Bench) -> dict[str, float]:
    database = bench.database
    (wal,) = database.query("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0]
    return {"wal_bytes": float(wal)}


def _ratios(found: dict[str, Measured]) -> list[Ratio]:
    def against(name: str, what: str, bar: tuple[str, float], figure: str, prefix: str = "") -> Ratio:
        ours, theirs = found[prefix + OWN], found[prefix + FILTER]
        detail = f"by the upstream {ours.median(figure):.0f}, by the filter {theirs.median(figure):.0f}"
        return Ratio(name, what, bar, per_round(ours, theirs, figure), detail)

    ours = found[OWN]
    return [
        against(
            "own_vs_filter",
            "new keys: requests/s if the upstream completes them against the filter",
            (">=", 0.75),
            "rate",
        ),
        against(
            "lone_own_vs_filter",
            "one connection: p50 if the upstream completes the request against the filter",
            ("<=", 1.0),
            "p50_us",
            "lone_",
        ),
        against(
            "own_wal_vs_filter",
            "bytes of the write-ahead log for a new key if the upstream completes it against the filter",
            ("<=", 1.0),
            "wal_bytes",
        ),
        Ratio(
            "own_completions_by_filter",
            "completions that the filter writes for each request that the upstream has completed",
            ("<=", 0),
            ours.rounds["by_filter"],
            f"found completed: {ours.median('by_upstream'):.3f} of all",
        ),
    ]
