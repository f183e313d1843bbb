"""The PostgreSQL store against pgbench, which does the same statements in the plain way: one transaction
each, a connection for each client. Both on one server, which this program starts (Debian's, fsync and
synchronous_commit on) in a folder of its own, each in a database of its own. Started by bench/run, which has
built the programs.

It wants a machine and a disk of its own: beside other programs that keep both busy, the ratios of claims and
lives were seen to fall to 2 and below.

    postgres_store.py [--rounds N] [--seconds S] [--folder PATH] [--only NAME]
    postgres_store.py --size     what a record takes on the disk, instead
"""

import argparse
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from suite.plain_life import CLAIM, CLIENTS, life

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILT = ROOT / ".cache" / "bazel-opt" / "bin"
LOAD = BUILT / "bench" / "postgres_load"
CTL = BUILT / "source" / "cli" / "idempotencyctl"
SERVER = pathlib.Path("/usr/lib/postgresql/15/bin")
LOAD_BEFORE = f"{os.getloadavg()[0]:.1f}"
IN_FLIGHT = 64
# The store asks for duplicates among so many (bench/postgres_load.cc), and so does pgbench.
DUPLICATES = 10_000
SETTINGS = {
    "listen_addresses": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
    # A checkpoint in the middle would hit one side and not the other: they are made in between.
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
}

LOOK_UP = f"""\\set number random(0, {DUPLICATES - 1})
SELECT attempt, expires_at, state, fingerprint, recovery_point, lease_until, created_at, completed_at,
 reconcile_after, dead_letter, last_error, status, tombstone, response_schema, now() FROM idempotency.record
 WHERE tenant = 'tenant'::bytea AND operation = 'create-payment'::bytea
 AND key = convert_to('seed-' || lpad(:number::int8::text, 27, '0'), 'UTF8') \\gset
SELECT body, attempt FROM idempotency.response WHERE attempt = :attempt::int8
 AND expires_at = :expires_at::timestamptz;
"""
SCRIPTS = {"lives": life(1024), "claims": CLAIM, "lookups": LOOK_UP}


class Server:
    """PostgreSQL refuses to run as root: then it runs as `postgres`."""

    def __init__(self, parent: pathlib.Path) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="postgres-benchmark-", dir=parent))
        self._user = {}
        if os.geteuid() == 0:
            entry = pwd.getpwnam("postgres")
            self._user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        self._run(
            SERVER / "initdb", "-D", self.folder / "data", "-U", "postgres", "-A", "trust", "--locale=C"
        )
        options = {**SETTINGS, "unix_socket_directories": str(self.folder)}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                [SERVER / "postgres", "-D", self.folder / "data", *words],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._user,
            )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _run(self, *command) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **self._user)

    def _wait(self) -> None:
        ready = [SERVER / "pg_isready", "-q", "-h", self.folder]
        for _ in range(600):
            if self._process.poll() is not None:
                break
            if subprocess.run(ready).returncode == 0:
                return
            time.sleep(0.1)
        raise SystemExit(f"PostgreSQL does not start: {(self.folder / 'log').read_text()}")

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
        shutil.rmtree(self.folder)

    def conninfo(self, database: str) -> str:
        return f"host={self.folder} user=postgres dbname={database}"

    def sql(self, database: str, text: str) -> str:
        command = [SERVER / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", text, self.conninfo(database)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Bench:
    def __init__(self, server: Server, seconds: float) -> None:
        self.server = server
        self.seconds = seconds
        self._prefixes = 0
        for name in ("store", "plain"):
            server.sql("postgres", f"CREATE DATABASE {name}")
            subprocess.run(
                [CTL, "migrate", "--conninfo", server.conninfo(name)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            # Lives to look up; and enough rows for plans that fit a table in use.
            self._load(name, "seed", IN_FLIGHT, "seed", seconds=600)
            server.sql(name, "VACUUM ANALYZE")
        for name, text in SCRIPTS.items():
            (server.folder / name).write_text(text)

    def _load(self, database: str, mode: str, in_flight: int, prefix: str, seconds: float) -> float:
        command = [LOAD, self.server.conninfo(database), mode, str(seconds), str(in_flight), prefix]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise SystemExit(f"postgres_load: {result.stderr}")
        return float(result.stdout)

    def store(self, mode: str, in_flight: int = IN_FLIGHT) -> float:
        self._prefixes += 1
        prefix = "seed" if mode == "duplicates" else f"{self._prefixes:05}"
        self.server.sql("postgres", "CHECKPOINT")
        return self._load("store", mode, in_flight, prefix, self.seconds)

    def pgbench(self, script: str, clients: int = CLIENTS) -> float:
        self.server.sql("postgres", "CHECKPOINT")
        command = [
            *(SERVER / "pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", str(min(clients, 2))),
            *("-T", str(max(1, round(self.seconds))), "-f", self.server.folder / script),
            *("-h", self.server.folder, "-U", "postgres", "plain"),
        ]
        result = subprocess.run(command, capture_output=True, text=True)
        tps = re.search(r"^tps = ([0-9.]+)", result.stdout, re.MULTILINE)
        failed = re.search(r"^number of failed transactions: (\d+)", result.stdout, re.MULTILINE)
        if result.returncode or not tps or (failed and int(failed[1])):
            raise SystemExit(f"pgbench: {result.stdout}{result.stderr}")
        return float(tps[1])

    def ratio(
        self,
        name: str,
        what: str,
        bar: tuple[str, float],
        rounds: int,
        ours: Callable[[], float],
        plain: Callable[[], float],
        unit: str,
    ) -> None:
        pairs = []
        for number in range(rounds):
            # Who goes first changes, so that a trend of the machine favours nobody.
            if number % 2:
                right = plain()
                pairs.append((ours(), right))
            else:
                left = ours()
                pairs.append((left, plain()))
        ratios = [left / right for left, right in pairs]
        value = statistics.median(ratios)
        side, limit = bar
        line = {
            "name": name,
            "value": round(value, 3),
            "bar": f"{side} {limit}",
            "met": value >= limit if side == ">=" else value <= limit,
            "rounds": [round(ratio, 3) for ratio in ratios],
            "what": what,
            # Under a strange load the many processes of pgbench get more of the machine than our few.
            "detail": f"{unit}: {spread([left for left, _ in pairs])}"
            f" against {spread([right for _, right in pairs])}; the machine's load before: {LOAD_BEFORE}",
        }
        print(json.dumps(line), flush=True)


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def measure(bench: Bench, rounds: int, only: str | None) -> None:
    ratios = [
        (
            "lives_vs_pgbench",
            "claim + completion (1 KiB), 64 in flight, against pgbench, two transactions, 32 clients",
            (">=", 3.5),
            lambda: bench.store("lives"),
            lambda: bench.pgbench("lives"),
            "lives/s",
        ),
        (
            "claims_vs_pgbench",
            "claims, 64 in flight, against pgbench, 32 clients",
            (">=", 4.0),
            lambda: bench.store("claims"),
            lambda: bench.pgbench("claims"),
            "claims/s",
        ),
        (
            "lone_life_vs_pgbench",
            "time of one life, one at a time, against pgbench with one client",
            ("<=", 1.15),
            lambda: bench.store("lone", 1),
            lambda: 1e6 / bench.pgbench("lives", 1),
            "microseconds",
        ),
        (
            "lookups_vs_pgbench",
            "duplicates of completed keys (1 KiB), 64 in flight, against pgbench reading key and response,"
            " 32 clients",
            (">=", 2.0),
            lambda: bench.store("duplicates"),
            lambda: bench.pgbench("lookups"),
            "look-ups/s",
        ),
    ]
    for name, what, bar, ours, plain, unit in ratios:
        if only in (None, name):
            bench.ratio(name, what, bar, rounds, ours, plain, unit)


def size(bench: Bench) -> None:
    """Of a completed life with a key of 32 bytes and a response of 1 KiB."""
    query = """SELECT pg_relation_size('idempotency.record') / n, pg_indexes_size('idempotency.record') / n,
      (r / n)::int8, pg_current_wal_lsn() - '0/0' FROM (SELECT count(*) AS n FROM idempotency.record) c,
      (SELECT sum(pg_total_relation_size(relid)) AS r FROM pg_partition_tree('idempotency.response')) t"""
    position = "SELECT pg_current_wal_lsn() - '0/0', count(*) FROM idempotency.record"
    before = bench.server.sql("store", position)
    wal, lives = map(int, before.split("|"))
    bench.store("lives")
    table, indexes, responses, after = map(int, bench.server.sql("store", query).split("|"))
    count = int(bench.server.sql("store", "SELECT count(*) FROM idempotency.record"))
    print(f"{count} completed lives; bytes for each:")
    print(f"record table {table}, its indexes {indexes}, responses {responses}")
    print(f"write-ahead log {(after - wal) // (count - lives)}, right after a checkpoint: when it is largest")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp"), help="on a real disk")
    parser.add_argument("--only", metavar="NAME", help="one ratio")
    parser.add_argument("--size", action="store_true", help="what a record takes on the disk")
    arguments = parser.parse_args()
    # The server must not outlive this program.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = Server(arguments.folder)
    try:
        bench = Bench(server, arguments.seconds)
        if arguments.size:
            size(bench)
        else:
            measure(bench, arguments.rounds, arguments.only)
    finally:
        server.close()


if __name__ == "__main__":
    main()
