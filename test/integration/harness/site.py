"""One Envoy with the module, its upstream and its store, for many tests in a row.

A test takes keys and paths of its own, and compares what the counters moved by. Four views of each request:
the client's answer, the upstream's log, the record, the counters.
"""

import contextlib
import itertools
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator

import psycopg

from .config import EnvoyConfig
from .envoy import Envoy
from .ports import free_port
from .process import Workspace
from .upstream import Upstream, behave
from .wait import wait_for
from .wire import Http1Connection, Http2Connection, WireResponse

TENANT = "x-tenant-id"
PREFIX = "idempotency."
STATES = {1: "in_progress", 2: "completed", 3: "failed_retryable", 4: "unknown", 5: "expired"}
TOMBSTONES = {0: None, 1: "too_large", 2: "secret", 3: "unstorable"}
# What moves at any time, or by how the store groups its work: it tells nothing of a single request.
_BACKGROUND = re.compile(
    r"heartbeat\.|maintenance\.|lease\.|reaped|tenant\.|unprotected|store\.(batches|operations|connect)"
)

_keys = itertools.count(1)


def new_key() -> str:
    """A key that no other test has, as the header has it."""
    return f'"key-of-a-test-{os.getpid()}-{next(_keys)}"'


def code_of(response: WireResponse) -> str:
    """The code in a problem of either flavor."""
    body = json.loads(response.body)
    return body["error"]["code"] if "error" in body else body["code"]


def patience(routes: dict[str, dict]) -> str:
    """The longest store timeout that the leases of these policies allow: a busy machine is no failure."""
    leases = [policy["lease"] for policy in routes.values() if "lease" in policy]
    return min(leases, key=lambda text: float(text.removesuffix("s")), default="20s")


class Site:
    def __init__(
        self,
        workspace: Workspace,
        routes: dict[str, dict] | None = None,
        *,
        store: dict | None = None,
        change: Callable[[EnvoyConfig], None] = lambda config: None,
        upstream: Upstream | None = None,
        **envoy_options,
    ) -> None:
        """`routes`: name → policy, besides enforcement REQUIRED; the path is /name/."""
        self.upstream = upstream or Upstream(workspace)
        path = workspace.new_folder("store") / "idempotency.db"
        self.store = store or {"sqlite": {"path": str(path), "timeout": patience(routes or {})}}
        self._workspace = workspace
        self._envoy_options = envoy_options
        self.config = EnvoyConfig.quickstart().for_test(self.store)
        self._add_clusters()
        self.config.filter(tenant={"sources": [{"header": TENANT}]})
        for name, policy in (routes or {}).items():
            self.config.route(f"/{name}/", {"enforcement": "REQUIRED", **policy})
        change(self.config)
        self.start()

    def _add_clusters(self) -> None:
        """upstream: HTTP/1.1; h2: the same by HTTP/2; dead: nobody listens; empty: no host."""
        self.config.upstream(self.upstream.port)
        self.config.cluster("h2", self.upstream.port).upstream(self.upstream.port, http2=True, cluster="h2")
        self.config.cluster("dead", free_port())
        self.config.cluster("empty")

    def start(self) -> None:
        """Also again, after the end of the last one: with the same store."""
        self.envoy = Envoy(self._workspace, self.config, **self._envoy_options)
        self.port = self.envoy.port
        self._running = 0  # Requests that a test holds in the upstream.

    def close(self, *, may_complain: bool = False) -> None:
        """The end of all: every claim was settled once, no request is left, Envoy goes in peace.

        `may_complain`: what was done to it is worth a warning.
        """
        wait_for(lambda: self._claims_held() == 0, lambda: f"claims settled: {self.counters()}")
        self.wait_until_idle()
        assert self.envoy.stop() == 0
        assert may_complain or self.envoy.module_complaints() == []
        self.upstream.stop()

    def wait_until_idle(self) -> None:
        gauges = [PREFIX + "in_flight", PREFIX + "detached.running"]
        wait_for(lambda: not any(map(self.envoy.stat, gauges)), "no request is under way, and no run")

    def wait_for_clients(self, count: int) -> None:
        """Until Envoy has so many requests of clients; detached runs are no clients."""
        active = "http.ingress.downstream_rq_active"
        wait_for(
            lambda: self.envoy.stat(active) == count,
            lambda: f"{count} clients wait, but {self.envoy.stat(active)}",
        )

    # --- requests

    def connect(self, http2: bool = False) -> Http1Connection | Http2Connection:
        return (Http2Connection if http2 else Http1Connection)(self.port)

    def send(self, path: str, key: str | None = None, **options) -> WireResponse:
        with self.connect(options.pop("http2", False)) as connection:
            return finish(connection, self.begin(connection, path, key, **options))

    def begin(
        self,
        connection: Http1Connection | Http2Connection,
        path: str,
        key: str | None = None,
        *,
        method: str = "POST",
        headers: dict[str, str] | None = None,
        body: bytes = b"{}",
        tenant: str = "acme",
        headers_sent: list[list[str]] | None = None,
        **behaviour,
    ) -> int | None:
        """Sends a request without waiting for its answer; the stream, if the connection has streams.
        `headers_sent` are those of the upstream's response."""
        fields = {"content-type": "application/json", TENANT: tenant}
        if key is not None:
            fields["idempotency-key"] = key
        if headers_sent is not None:
            behaviour["headers"] = headers_sent
        if behaviour:
            fields |= behave(**behaviour)
        return connection.start(method, path, {**fields, **(headers or {})}, body)

    @contextlib.contextmanager
    def running(self, path: str, key: str, http2: bool = False, **options) -> Iterator[Callable]:
        """A request that the upstream holds. Call what you get to let it go on; it returns the answer."""
        gate = f"gate of {key}"
        with self.connect(http2) as connection:
            stream = self.begin(connection, path, key, **{"hold": gate, **options})
            self.upstream.wait_until_held(gate)
            self._running += 1

            def let_go() -> WireResponse:
                if not self.upstream.held(gate):
                    raise AssertionError(f"{key} does not run any more")
                self._running -= 1
                self.upstream.release(gate)
                return finish(connection, stream)

            yield let_go
            if self.upstream.held(gate):
                let_go()

    @contextlib.contextmanager
    def running_alone(
        self, path: str, key: str, leave: Callable, *, at: str = "hold", **options
    ) -> Iterator[Callable[[], None]]:
        """A detached run that the upstream holds, and Envoy knows that its client has left.

        Call what you get to let it go on. `at`: where it is held, "hold" or "hold_mid_body".
        """
        gate = f"gate of {key}"
        held = True
        with self.connect(leave.http2) as connection:
            stream = self.begin(connection, path, key, **{at: gate, **options})
            self.upstream.wait_until_held(gate)
            leave(connection, stream)
            self.wait_for_clients(0)
        self._running += 1

        def let_go() -> None:
            nonlocal held
            if held:
                held = False
                self._running -= 1
                self.upstream.release(gate)

        yield let_go
        let_go()

    def executions(self, key: str) -> list[dict]:
        return self.upstream.executions(key=key)

    # --- the record

    def record(self, key: str) -> dict | None:
        """State, status, tombstone and so on of the only record with this key; None: there is none."""
        columns = ("state", "attempt", "status", "tombstone", "last_error", "expires_at")
        bare = json.loads(key).encode()
        if "sqlite" in self.store:
            with contextlib.closing(sqlite3.connect(self.store["sqlite"]["path"], timeout=20)) as db:
                # The store makes its tables when it is first used.
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'record'").fetchone():
                    return None
                rows = db.execute(f"SELECT {','.join(columns)} FROM record WHERE key = ?", [bare]).fetchall()
        else:
            with psycopg.connect(self.store["postgres"]["conninfo"]) as db:
                sql = f"SELECT {','.join(columns)} FROM idempotency.record WHERE key = %s"
                rows = db.execute(sql, [bare]).fetchall()
        if not rows:
            return None
        (row,) = rows
        found = dict(zip(columns, row, strict=True))
        found["state"] = STATES[found["state"]]
        found["tombstone"] = TOMBSTONES[found["tombstone"] or 0]
        return found

    def state(self, key: str) -> str | None:
        """None: there is no record, so the key is free."""
        record = self.record(key)
        return record and record["state"]

    def states(self) -> dict[str, int]:
        """How many records there are in each state."""
        sql = "SELECT state, count(*) FROM {} GROUP BY state"
        if "sqlite" in self.store:
            with contextlib.closing(sqlite3.connect(self.store["sqlite"]["path"], timeout=20)) as db:
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'record'").fetchone():
                    return {}
                rows = db.execute(sql.format("record")).fetchall()
        else:
            with psycopg.connect(self.store["postgres"]["conninfo"]) as db:
                rows = db.execute(sql.format("idempotency.record")).fetchall()
        return {STATES[state]: count for state, count in rows}

    def wait_for_state(self, key: str, state: str | None, deadline: float = 15.0) -> None:
        wait_for(
            lambda: self.state(key) == state,
            lambda: f"{key} is {state}, but {self.record(key)}",
            deadline,
        )

    @contextlib.contextmanager
    def store_held(self) -> Iterator[Callable[[], None]]:
        """Nobody can write to the store meanwhile, or until what you get is called. Needs a long timeout."""
        if "sqlite" in self.store:
            db = sqlite3.connect(self.store["sqlite"]["path"], timeout=20, isolation_level=None)
            db.execute("BEGIN IMMEDIATE")
        else:
            db = psycopg.connect(self.store["postgres"]["conninfo"])
            db.execute("LOCK TABLE idempotency.record IN ACCESS EXCLUSIVE MODE")
        try:
            yield db.rollback
        finally:
            db.rollback()
            db.close()

    # --- counters

    def counters(self) -> dict[str, int]:
        path = "/stats?format=json&type=Counters&filter=^idempotency\\."
        entries = json.loads(self.envoy.admin(path))["stats"]
        named = {entry["name"].removeprefix(PREFIX): entry["value"] for entry in entries if "name" in entry}
        return {name: value for name, value in named.items() if value and not _BACKGROUND.match(name)}

    @contextlib.contextmanager
    def until_counted(self, name: str) -> Iterator[None]:
        """Over when this counter has moved since the beginning."""
        before = self.envoy.stat(PREFIX + name)
        yield
        self.envoy.wait_for_stat(PREFIX + name, before + 1)

    def _claims_held(self) -> int:
        counters = self.counters()
        made = ("claim.created", "claim.failed_retry", "claim.expired_run")
        ended = [value for name, value in counters.items() if name.startswith("ended.")]
        return sum(counters.get(name, 0) for name in made) - sum(ended)

    @contextlib.contextmanager
    def counts(self, **expected: int) -> Iterator[None]:
        """What is done meanwhile moves these counters by so much, and no other; a dot is written as `__`."""
        wanted = {name.replace("__", "."): by for name, by in expected.items() if by}
        # What earlier requests left to be written must not be taken for this one's.
        wait_for(lambda: self._claims_held() == self._running, lambda: f"claims settled: {self.counters()}")
        before = self.counters()
        yield

        def moved() -> dict[str, int]:
            changes = {name: by - before.get(name, 0) for name, by in self.counters().items()}
            return {name: by for name, by in changes.items() if by}

        wait_for(lambda: moved() == wanted, lambda: f"counters move by {wanted}, but {moved()}")


def finish(connection: Http1Connection | Http2Connection, stream: int | None) -> WireResponse:
    """The answer; status 0 if the connection ends without one."""
    try:
        return connection.read_response() if stream is None else connection.finish(stream)
    except (EOFError, OSError) as error:
        return WireResponse(0, [], b"", [], complete=False, error=repr(error))
