"""What a team would use instead of the filter: middleware inside the service. bench/peers installs it.

A peer is the service itself, so its requests take one hop less than those through Envoy.
"""

import contextlib
import dataclasses
import socket
import subprocess

from harness.ports import free_port
from harness.process import Process, Workspace
from harness.wait import wait_for

from . import ROOT, load
from .filter_group import BODY, CONNECTIONS, Bench
from .rounds import Figures, Measured, Ratio, Scenario, per_round
from .servers import CORES
from .usage import cpu_seconds

_FOLDER = ROOT / ".cache" / "peers"
# Keys that are sent twice, to see that the peer does its work.
CHECKED = 8
POSTGRES_PEER = "idemkit_postgres"
_MOST_TRIES = 3
# Said beside each figure.
LACKS = {
    POSTGRES_PEER: "durable, and it compares requests: as the filter does",
    "idemkit_redis": "not durable: a crash of Redis forgets its last writes",
    "fiber_redis": "not durable; compares no requests; locks keys in one process only",
}


@dataclasses.dataclass
class Peer:
    bench: Bench
    process: Process
    port: int

    def unique(self, **options) -> Figures:
        self.bench.database.checkpoint()
        return self.load(**options)

    def load(self, **options) -> Figures:
        options = {"connections": CONNECTIONS, "body": BODY, "path": f"/payments/{BODY}", **options}
        before = cpu_seconds(self.process.pid, children=True)
        options.setdefault("prefix", self.bench.prefix())
        figures = self._load(**{"seconds": self.bench.seconds, **options})
        used = cpu_seconds(self.process.pid, children=True) - before
        figures["peer_cpu_ms"] = used * 1e6 / figures["requests"]
        return figures

    def _load(self, **options) -> Figures:
        """A peer that is too busy for its own store answers 503 now and then: that run counts for nothing."""
        for _ in range(_MOST_TRIES - 1):
            with contextlib.suppress(load.LoadError):
                return load.http_load(self.port, **options)
            options["prefix"] = self.bench.prefix()
        return load.http_load(self.port, **options)


def start_idemkit_postgres(bench: Bench) -> Peer:
    bench.database.query("CREATE DATABASE idemkit")
    host = str(bench.database.folder)
    store = f"postgresql://postgres@/idemkit?host={host}&port={bench.database.port}"
    subprocess.run([_FOLDER / "venv" / "bin" / "idemkit", "init-pg", store], check=True, capture_output=True)
    return _start_idemkit(bench, store)


def start_redis_peers(bench: Bench) -> dict[str, Peer]:
    redis = _start_redis(bench.workspace)
    return {
        "idemkit_redis": _start_idemkit(bench, f"redis://127.0.0.1:{redis}"),
        "fiber_redis": _start_fiber(bench, redis),
    }


def _start_idemkit(bench: Bench, store: str) -> Peer:
    port = free_port()
    program = [_FOLDER / "venv" / "bin" / "uvicorn", "--app-dir", ROOT / "bench", "peer_idemkit:app"]
    options = ["--port", str(port), "--workers", str(CORES), "--loop", "uvloop", "--http", "httptools"]
    quiet = ["--log-level", "warning", "--no-access-log"]
    peer = _start(bench, port, "idemkit", [*program, *options, *quiet], {"STORE": store})
    _check(peer, "idempotency-replayed")
    return peer


def _start_fiber(bench: Bench, redis: int) -> Peer:
    port = free_port()
    peer = _start(bench, port, "fiber", [_FOLDER / "peer_fiber", str(port), str(redis)], {})
    # It does not tell a replay from an answer.
    stored = _redis_size(redis)
    _check(peer, "")
    if _redis_size(redis) - stored != CHECKED:
        raise load.LoadError("fiber does not store its answers in Redis")
    return peer


def _redis_size(port: int) -> int:
    return int(
        subprocess.run(["redis-cli", "-p", str(port), "dbsize"], capture_output=True, check=True).stdout
    )


def _start(bench: Bench, port: int, name: str, command: list, env: dict[str, str]) -> Peer:
    log = bench.workspace.new_folder(name) / "log"
    process = Process(bench.workspace, name, command, log, env=env)
    peer = Peer(bench, process, port)
    _wait_for_port(process, port)
    return peer


def _check(peer: Peer, replayed: str) -> None:
    """Requests are stored, and a second one with a key is a replay; else something else is measured."""
    keys = {"pool": CHECKED, "prefix": peer.bench.prefix(), "connections": 4, "count": CHECKED, "seconds": 30}
    peer.load(**keys)
    peer.load(**keys, header=replayed)


def _start_redis(workspace: Workspace) -> int:
    port = free_port()
    folder = workspace.new_folder("redis")
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    process = Process(workspace, "redis", [*command, "--save", "", "--appendonly", "no"], folder / "log")
    _wait_for_port(process, port)
    return port


def _wait_for_port(process: Process, port: int) -> None:
    def open_now() -> bool:
        process.check_running()
        with contextlib.closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_for(open_now, lambda: f"{process.name} listens:\n{process.tail()}", deadline=30)


def scenarios(peers: dict[str, Peer]) -> list[Scenario]:
    return [Scenario(name, f"new keys; {LACKS[name]}", peer.unique) for name, peer in peers.items()]


def best_postgres_ratio(found: dict[str, Measured]) -> Ratio:
    ours, peer = found["unique"], found[POSTGRES_PEER]
    p99 = (ours.median("p99_us"), peer.median("p99_us"))
    return Ratio(
        "unique_vs_best_pg_peer",
        "new keys: requests/s against the best peer on PostgreSQL; the 99th percentile is lower, too",
        (">=", 5),
        per_round(ours, peer),
        f"unique {ours.median('rate'):.0f}, {POSTGRES_PEER} {peer.median('rate'):.0f} (requests/s);"
        f" p99 {p99[0]:.0f} against {p99[1]:.0f} microseconds",
        besides=p99[0] < p99[1],
    )
