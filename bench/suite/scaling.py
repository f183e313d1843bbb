"""How speed and cost change with sizes, protocols, connections, workers, duplicates and the reaper's work."""

from harness.envoy import Envoy
from harness.wait import wait_for

from . import servers, stored_keys
from .filter_group import CONNECTIONS, POOL, Bench
from .rounds import Figures, Measured, Ratio, Scenario, per_round

IN_FLIGHT = (1, 16, 64, 256)
SHARES = (0, 25, 50, 75, 90, 99)
STORED = (1_000, 1_000_000, 10_000_000)
# Streams of an HTTP/2 connection; with so many fewer connections as many requests are under way.
STREAMS = 8
REAPED = "idempotency.reaped"


def _protocols(in_flight: int) -> dict[str, dict]:
    streams = min(STREAMS, in_flight)
    return {
        "http1": {"connections": in_flight},
        "http2": {"connections": in_flight // streams, "streams": streams, "http2": 1},
    }


def matrix(bench: Bench) -> list[Scenario]:
    """Every kind of request by every protocol, body size and number of requests under way."""
    kinds = {
        "bare": bench.bare,
        "off": bench.off,
        "direct": bench.direct,
        "replay_cached": lambda **options: bench.replay("postgres", **options),
        "replay_uncached": lambda **options: bench.replay("uncached", **options),
        "unique": bench.unique,
        "in_flight": bench.in_flight,
        "sqlite": lambda **options: bench.unique("sqlite", **options),
    }
    found = []
    for in_flight in IN_FLIGHT:
        for protocol, options in _protocols(in_flight).items():
            for body in servers.BODIES:
                found += [
                    Scenario(
                        f"{kind}/{protocol}/{body}/{in_flight}",
                        f"{kind}, {protocol}, bodies of {body} bytes, {in_flight} requests at a time",
                        lambda run=run, options=options, body=body: run(body=body, **options),
                    )
                    for kind, run in kinds.items()
                ]
    return found


def workers(bench: Bench) -> list[Scenario]:
    """Envoy with one worker and with as many as the machine has cores."""
    found = []
    for count in sorted({1, servers.CORES}):
        bare = servers.start_envoy(bench.workspace, servers.bare_config(bench.upstream), count)
        keyed = servers.start_envoy(bench.workspace, servers.keyed_config(bench.upstream, bench.store), count)
        found += [
            Scenario(f"bare/{count}", f"{count} workers", lambda envoy=bare: bench.load(envoy)),
            Scenario(f"unique/{count}", f"{count} workers", lambda envoy=keyed: bench.load(envoy)),
        ]
    return found


def duplicates(bench: Bench) -> list[Scenario]:
    """A growing share of requests repeats a key that is completed."""

    def run(share: int) -> Figures:
        envoy, keys = bench.envoys["postgres"], {"prefix": bench.prefix(), "pool": POOL}
        bench.load(envoy, seconds=60, count=POOL, **keys)
        bench.database.checkpoint()
        if not share:
            return bench.load(envoy)
        return bench.load(envoy, duplicates=share / 100, **keys)

    return [
        Scenario(f"duplicates/{share}", f"{share} % of requests are replays", lambda share=share: run(share))
        for share in SHARES
    ]


def stored(bench: Bench, counts: list[int]) -> list[Scenario]:
    """Whole requests on the databases that stored_keys.measure has filled."""
    found = []
    for count in counts:
        store = bench.database.store(f"keys_{count}")
        envoy = servers.start_envoy(bench.workspace, servers.keyed_config(bench.upstream, store))

        def run(envoy: Envoy = envoy) -> Figures:
            bench.database.checkpoint()
            return bench.load(envoy)

        found.append(Scenario(f"stored/{count}", f"new keys with {count} stored ones", run))
    return found


class Reaper:
    """One database full of expired records; an Envoy that deletes them, and one that does not."""

    def __init__(self, bench: Bench, expired: int) -> None:
        self._bench = bench
        name = bench.database.create("reaped")
        stored_keys.fill(bench, name, expired, life="1 h")
        self._store = bench.database.store(name)

    def run(self, enabled: bool) -> Figures:
        maintenance = {"enabled": enabled, "reap_interval": "1s"}
        config = servers.keyed_config(self._bench.upstream, self._store, maintenance=maintenance)
        envoy = servers.start_envoy(self._bench.workspace, config)
        self._bench.load(envoy, seconds=0.5)
        if enabled:
            wait_for(lambda: envoy.stat(REAPED), "the reaper begins", deadline=90)
        self._bench.database.checkpoint()
        before = envoy.stat(REAPED)
        figures = self._bench.load(envoy)
        figures["reaped"] = envoy.stat(REAPED) - before
        envoy.stop()
        if enabled and not figures["reaped"]:
            raise AssertionError("nothing was left to reap: take more expired records")
        return figures

    def scenarios(self) -> list[Scenario]:
        return [
            Scenario("reaper/off", "new keys, nobody deletes expired records", lambda: self.run(False)),
            Scenario("reaper/on", "new keys while expired records are deleted", lambda: self.run(True)),
        ]


def reaper_ratio(found: dict[str, Measured]) -> Ratio:
    off, on = found["reaper/off"], found["reaper/on"]
    return Ratio(
        "reaper_p99",
        f"99th percentile of new keys at {CONNECTIONS} connections while the reaper works, against without",
        ("<=", 1.3),
        per_round(on, off, "p99_us"),
        f"{on.median('p99_us'):.0f} against {off.median('p99_us'):.0f} microseconds,"
        f" {on.median('reaped'):.0f} records deleted meanwhile",
    )
