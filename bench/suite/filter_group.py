"""The filter inside Envoy: what it costs against the same Envoy without it, and against pgbench."""

import contextlib
import itertools
import statistics
import subprocess
import threading
from collections.abc import Iterator

from harness.config import EnvoyConfig
from harness.envoy import Envoy
from harness.process import Workspace
from harness.wait import wait_for

from . import load, servers
from .plain_life import CLIENTS, life
from .rounds import Figures, Measured, Ratio, Scenario, per_round
from .servers import Database, Upstream
from .usage import cpu_seconds, resident_bytes

CONNECTIONS = 64
BODY = 200
REPLAYED = "idempotent-replayed"
# So many keys are replayed in turn, if so many answers fit well into the cache.
POOL = 1000
CACHED_BYTES = 8 << 20
# How often two that are nearly alike take turns within a round.
TURNS = 8
# Held requests and their duplicates: the path counts when two requests with one key are compared.
HOLD = "/hold/200"
HELD = 1000
# In a second, by pgbench beside bare Envoy: about half of what it can do alone.
LIVES_BESIDE = 3000


class Bench:
    """All servers, up at once; only one is asked at a time."""

    def __init__(self, workspace: Workspace, seconds: float) -> None:
        self.workspace = workspace
        self.seconds = seconds
        self.upstream = Upstream(workspace)
        self.database = Database(workspace)
        self._prefixes = itertools.count(1)
        for name in ("filter", "plain"):
            self.database.create(name)
        self.store = self.database.store("filter")
        sqlite = {"sqlite": {"path": str(workspace.new_folder("sqlite") / "idempotency.db")}}
        configs = {
            "bare": servers.bare_config(self.upstream),
            "direct": servers.direct_config(self.upstream),
            "off": servers.off_config(self.upstream, self.store),
            "postgres": servers.keyed_config(self.upstream, self.store),
            "uncached": servers.keyed_config(self.upstream, self.store, replay_cache={"max_bytes": 0}),
            "sqlite": servers.keyed_config(self.upstream, sqlite),
        }
        self.envoys = {name: servers.start_envoy(workspace, config) for name, config in configs.items()}

    def prefix(self) -> str:
        """For keys that no other run has."""
        return f"run{next(self._prefixes):05}"

    def load(self, envoy: Envoy, *, seconds: float | None = None, **options) -> Figures:
        """A run against one Envoy, with what it and PostgreSQL used for a thousand requests."""
        options = {
            "path": f"/payments/{options.get('body', BODY)}",
            "body": BODY,
            "connections": CONNECTIONS,
            "prefix": self.prefix(),
            **options,
        }
        before = self._cpu(envoy)
        figures = load.http_load(envoy.listen_port, seconds=seconds or self.seconds, **options)
        used = [after - start for after, start in zip(self._cpu(envoy), before, strict=True)]
        thousands = figures["requests"] / 1000
        figures["envoy_cpu_ms"] = used[0] * 1000 / thousands
        figures["postgres_cpu_ms"] = used[1] * 1000 / thousands
        figures["envoy_rss_mib"] = resident_bytes(envoy.process.pid) / 2**20
        return figures

    def _cpu(self, envoy: Envoy) -> tuple[float, float]:
        return cpu_seconds(envoy.process.pid), cpu_seconds(self.database.process.pid, children=True)

    # --- scenarios; `options` are those of the load

    def bare(self, **options) -> Figures:
        return self.load(self.envoys["bare"], **options)

    def bare_beside_pgbench(self, **options) -> Figures:
        """Bare, but the cores and their caches are shared with a database as busy as new keys keep it."""
        self.database.checkpoint()
        beside = threading.Thread(
            target=load.pgbench,
            args=(self.database, "plain", life(BODY), CLIENTS, self.seconds, LIVES_BESIDE),
        )
        beside.start()
        try:
            return self.bare(**options)
        finally:
            beside.join()

    def direct(self, body: int = BODY, **options) -> Figures:
        """The same requests as all others."""
        return self.load(self.envoys["direct"], path=f"/direct/{body}", body=body, **options)

    def direct_empty(self, **options) -> Figures:
        """Requests without a body."""
        return self.load(self.envoys["bare"], path=f"/direct/{BODY}", body=0, **options)

    def off(self, **options) -> Figures:
        return self.load(self.envoys["off"], **options)

    def off_beside_bare(self) -> Figures:
        """Both, and a module that does nothing, in turn for a moment each, on Envoys of their own in each
        round: what is to be seen is less than what the machine's speed changes by in a second, and than what
        two equal processes differ by."""
        envoys = {
            "bare": servers.start_envoy(self.workspace, servers.bare_config(self.upstream)),
            "idle": servers.start_idle(self.workspace, self.upstream),
            "off": servers.start_envoy(self.workspace, servers.off_config(self.upstream, self.store)),
        }
        rates = dict.fromkeys(envoys, 0.0)
        for envoy in envoys.values():
            self.load(envoy, seconds=0.5)
        for name in [*envoys, *reversed(envoys)] * (TURNS // 2):
            rates[name] += self.load(envoys[name], seconds=self.seconds / TURNS)["rate"] / TURNS
        for envoy in envoys.values():
            envoy.stop()
        return {"rate": rates["off"], "bare_rate": rates["bare"], "idle_rate": rates["idle"]}

    def unique(self, envoy: str = "postgres", **options) -> Figures:
        self.database.checkpoint()
        return self.load(self.envoys[envoy], **options)

    def replay(self, envoy: str, body: int = BODY, **options) -> Figures:
        request = {"prefix": self.prefix(), "pool": min(POOL, CACHED_BYTES // body), "body": body}
        self.load(self.envoys[envoy], seconds=60, count=request["pool"], **request)
        return self.load(self.envoys[envoy], header=REPLAYED, **request, **options)

    def in_flight(self, body: int = BODY, **options) -> Figures:
        """Duplicates of a request that the upstream still holds: 409 each."""
        envoy = self.envoys["postgres"]
        request = {"prefix": self.prefix(), "pool": 1, "body": body}
        with self.held(envoy, 1, **request):
            return self.load(envoy, path=HOLD, status=409, **request, **options)

    @contextlib.contextmanager
    def held(self, envoy: Envoy, count: int, **options) -> Iterator[None]:
        """So many requests wait in the upstream meanwhile, each on a connection of its own."""
        options = {"path": HOLD, "body": BODY, "prefix": self.prefix(), **options}
        command = load.http_command(envoy.listen_port, connections=count, count=count, seconds=60, **options)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:

            def all_held() -> bool:
                if client.poll() is not None:
                    raise load.LoadError(f"held requests: {client.stdout.read()}")
                return self.upstream.held() == count

            try:
                wait_for(all_held, lambda: f"the upstream holds {count}, not {self.upstream.held()}", 30)
                yield
            finally:
                self.upstream.release()
                client.wait(60)
        if client.returncode:
            raise load.LoadError("held requests did not all get their answer")

    def pgbench(self, clients: int) -> Figures:
        self.database.checkpoint()
        return load.pgbench(self.database, "plain", life(BODY), clients, self.seconds)

    # --- what needs an Envoy of its own

    def held_bytes(self, config: EnvoyConfig) -> float:
        """Memory that a request takes while the upstream has it."""
        envoy = servers.start_envoy(self.workspace, config)
        self.load(envoy, seconds=0.5)
        before = resident_bytes(envoy.process.pid)
        with self.held(envoy, HELD):
            after = resident_bytes(envoy.process.pid)
        envoy.stop()
        return (after - before) / HELD

    def wal(self) -> Figures:
        """What unique keys write: read when Envoy's sessions have ended, which is when all is counted."""
        envoy = servers.start_envoy(self.workspace, servers.keyed_config(self.upstream, self.store))
        self.load(envoy, seconds=0.2)
        envoy.stop()
        envoy = servers.start_envoy(self.workspace, servers.keyed_config(self.upstream, self.store))
        self.database.checkpoint()
        before = self._wal_counters()
        figures = self.load(envoy)
        envoy.stop()
        after = self._wal_counters()
        return {
            "wal_bytes": (after[0] - before[0]) / figures["requests"],
            "wal_fsyncs": (after[1] - before[1]) / figures["requests"],
        }

    def _wal_counters(self) -> tuple[int, int]:
        (row,) = self.database.query("SELECT wal_bytes::int8, wal_sync FROM pg_stat_wal")
        return row


def scenarios(bench: Bench) -> list[Scenario]:
    return [
        Scenario("bare", "Envoy without the filter", bench.bare),
        Scenario("bare_beside_pgbench", f"bare, beside {LIVES_BESIDE} lives/s", bench.bare_beside_pgbench),
        Scenario("off", "the filter, but the route is off", bench.off),
        Scenario("off_beside_bare", "the same on an Envoy of its own, bare in turn", bench.off_beside_bare),
        Scenario("direct", "Envoy reads the request and answers by itself", bench.direct),
        Scenario("direct_empty", "the same without a body in the request", bench.direct_empty),
        Scenario("replay_cached", "replays from the process's cache", lambda: bench.replay("postgres")),
        Scenario("replay_uncached", "replays from PostgreSQL", lambda: bench.replay("uncached")),
        unique_scenario(bench),
        Scenario("in_flight", "duplicates of a running request, 409", bench.in_flight),
        Scenario("sqlite", "new keys on SQLite", lambda: bench.unique("sqlite")),
        Scenario("pgbench", f"claim and completion, {CLIENTS} clients", lambda: bench.pgbench(CLIENTS)),
        Scenario("lone_bare", "bare, one connection", lambda: bench.bare(connections=1)),
        Scenario("lone_unique", "new keys, one connection", lambda: bench.unique(connections=1)),
        Scenario("lone_pgbench", "claim and completion, one client", lambda: bench.pgbench(1)),
    ]


def ratios(found: dict[str, Measured]) -> list[Ratio]:
    def against(name: str, left: str, right: str, what: str, bar: tuple[str, float], figure="rate") -> Ratio:
        return Ratio(
            name, what, bar, per_round(found[left], found[right], figure), _detail(found, figure, left, right)
        )

    off = found["off_beside_bare"].rounds
    lone = ("lone_unique", "lone_bare", "lone_pgbench")
    added = [
        (ours - bare) / life
        for ours, bare, life in zip(*(found[name].rounds["p50_us"] for name in lone), strict=True)
    ]
    return [
        Ratio(
            "off_vs_bare",
            "the route is off: requests/s against bare, in turn on fresh Envoys",
            (">=", 0.98),
            [ours / bare for ours, bare in zip(off["rate"], off["bare_rate"], strict=True)],
            f"off {statistics.median(off['rate']):.0f}, bare {statistics.median(off['bare_rate']):.0f},"
            f" a module that does nothing {statistics.median(off['idle_rate']):.0f} (requests/s)",
        ),
        against("unique_vs_bare", "unique", "bare", "new keys: requests/s against bare", (">=", 0.35)),
        against(
            "unique_vs_pgbench",
            "unique",
            "pgbench",
            "new keys: requests/s against pgbench's lives/s",
            (">=", 0.75),
        ),
        Ratio(
            "lone_added_vs_pgbench",
            "one connection: added p50 against one life of pgbench with one client",
            ("<=", 1.3),
            added,
            _detail(found, "p50_us", *lone),
        ),
        against(
            "replay_cached_vs_direct",
            "replay_cached",
            "direct",
            "cached replays against Envoy's own answer",
            (">=", 0.8),
        ),
        against("replay_cached_vs_bare", "replay_cached", "bare", "cached replays against bare", (">=", 1.5)),
        against(
            "replay_uncached_vs_bare",
            "replay_uncached",
            "bare",
            "replays from PostgreSQL against bare",
            (">=", 1.1),
        ),
        against(
            "envoy_cpu_unique_vs_bare",
            "unique",
            "bare",
            "Envoy's CPU for a new key against bare",
            ("<=", 1.8),
            "envoy_cpu_ms",
        ),
    ]


def _detail(found: dict[str, Measured], figure: str, *names: str) -> str:
    unit = {"rate": "requests/s", "p50_us": "p50 in microseconds", "envoy_cpu_ms": "ms per 1000 requests"}
    parts = [f"{name} {found[name].median(figure):.0f}" for name in names]
    return f"{', '.join(parts)} ({unit[figure]})"


def held_scenarios(bench: Bench) -> list[Scenario]:
    configs = {
        "held_bare": lambda: servers.bare_config(bench.upstream),
        "held_unique": lambda: servers.keyed_config(bench.upstream, bench.store),
    }
    return [
        Scenario(name, "", lambda config=config: {"held_bytes": bench.held_bytes(config())})
        for name, config in configs.items()
    ]


def held_ratio(found: dict[str, Measured]) -> Ratio:
    bare, ours = found["held_bare"], found["held_unique"]
    pairs = zip(ours.rounds["held_bytes"], bare.rounds["held_bytes"], strict=True)
    return Ratio(
        "held_bytes_overhead",
        f"bytes for each of {HELD} held requests beyond bare Envoy's own and its body",
        ("<=", 4096),
        [one - other - BODY for one, other in pairs],
        f"bare {bare.median('held_bytes'):.0f}, with the filter {ours.median('held_bytes'):.0f} bytes;"
        f" body {BODY}",
    )


def wal_scenario(bench: Bench) -> Scenario:
    return Scenario("unique", "bytes and fsyncs of the write-ahead log for a new key", bench.wal)


def unique_scenario(bench: Bench) -> Scenario:
    return Scenario("unique", "new keys on PostgreSQL", bench.unique)
