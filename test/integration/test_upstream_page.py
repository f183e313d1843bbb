"""The programs of docs/upstream.md run behind a real Envoy, and do what the page says."""

import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import httpx
import pytest
from harness.ctl import migrate
from harness.paths import CACHE, ROOT
from harness.ports import free_port
from harness.postgres import Postgres
from harness.process import Process, Workspace
from harness.site import Site, code_of, new_key
from harness.wait import wait_for
from harness.wire import Http1Connection

PAGE = (ROOT / "docs" / "upstream.md").read_text()
DECLARING = ("python", "go", "javascript")
SETTLING = ("python", "go", "java", "typescript", "ruby")
# What each needs beside its source: a command or a driver that tools/setup installs.
NEEDS = {
    "python": CACHE / "venv" / "bin" / "python",
    "go": Path("/usr/share/gocode/src/github.com/lib/pq"),
    "java": Path("/usr/share/java/postgresql.jar"),
    "typescript": CACHE / "services" / "node_modules",
    "ruby": Path("/usr/bin/ruby"),
}
# A compiler may have to build its library first.
pytestmark = pytest.mark.timeout(600)


def program(language: str, settles: bool) -> str:
    """The one that declares outcomes, or the one that settles its requests itself."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    (block,) = [block for block in blocks if ("idempotency.complete" in block) == settles]
    return block


def command(language: str, folder: Path, source: str) -> list[str | Path]:
    """How a reader would run it."""
    if language == "python":
        (folder / "service.py").write_text(source)
        return [NEEDS["python"], folder / "service.py"]
    if language == "java":
        (folder / "Orders.java").write_text(source)
        return ["java", "-cp", NEEDS["java"], folder / "Orders.java"]
    if language == "ruby":
        (folder / "service.rb").write_text(source)
        return [NEEDS["ruby"], folder / "service.rb"]
    if language in ("javascript", "typescript"):
        path = folder / f"service.{'js' if language == 'javascript' else 'ts'}"
        path.write_text(source)
        if language == "typescript":
            (folder / "node_modules").symlink_to(NEEDS["typescript"])
        return [CACHE / "venv" / "bin" / "node", path]
    (folder / "service.go").write_text(source)
    # Go's own cache has the standard library: it was built there for toxiproxy. The driver is Debian's.
    env = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}
    subprocess.run(["go", "build", "-o", "service", "service.go"], cwd=folder, env=env, check=True)
    return [folder / "service"]


def listens(port: int) -> bool:
    try:
        Http1Connection(port).close()
    except OSError:
        return False
    return True


def start(workspace: Workspace, language: str, settles: bool, **env: str) -> tuple[Process, int]:
    """The program of the page; its port."""
    folder, port = workspace.new_folder("service"), free_port()
    words = command(language, folder, program(language, settles))
    process = Process(workspace, "service", words, folder / "log", env={"PORT": str(port), **env})
    wait_for(lambda: process.check_running() or listens(port), process.tail, deadline=60)
    return process, port


# --- Idempotency-Outcome


@pytest.fixture(scope="module", params=DECLARING)
def site(request, module_workspace: Workspace):
    process, port = start(module_workspace, request.param, settles=False)
    made = Site(
        module_workspace, {"pay": {}}, change=lambda config: config.upstream(port, cluster="upstream")
    )
    yield made
    made.close()
    process.stop()


def pay(site: Site, key: str, card: str):
    return site.send("/pay/", key, body=json.dumps({"id": "7", "card": card}).encode())


@pytest.mark.parametrize(
    ("card", "status", "state"),
    [
        ("fine", 201, "completed"),
        ("busy", 503, None),
        ("no answer", 503, "unknown"),
        ("no receipt", 500, "completed"),
    ],
)
def test_what_the_program_declares_is_what_happens(site, card, status, state):
    key = new_key()
    with site.counts(
        covered=1, claim__created=1, outcome__declared=1, **{f"ended__{state or 'released'}": 1}
    ):
        first = pay(site, key, card)
    assert first.status == status
    assert first.header("idempotency-outcome") is None
    assert json.loads(first.body) == {"order": "7", "card": card}
    assert site.state(key) == state
    again = pay(site, key, card)
    if state == "completed":
        assert (again.status, again.body) == (status, first.body)
        assert again.header("idempotent-replayed") == "true"
        assert again.header("idempotency-outcome") is None
    elif state == "unknown":
        assert code_of(again) == "idempotency_outcome_unknown"
    else:
        assert (again.status, again.header("idempotent-replayed")) == (status, None)


# --- Own transaction


class Orders:
    """A program of the page, with a database that has the filter's schema and the program's table."""

    def __init__(self, workspace: Workspace, language: str, server: Postgres) -> None:
        self.server = server
        self.name = server.create_database()
        migrate(server.conninfo(self.name))
        self.query(
            "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL)"
        )
        # As the page says: the functions, its own table, and nothing else.
        self.query(
            "DO $$ BEGIN CREATE ROLE orders_service LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        )
        self.query(
            "GRANT idempotency_upstream TO orders_service; GRANT SELECT, INSERT ON orders TO orders_service"
        )
        self.process, self.port = start(
            workspace,
            language,
            settles=True,
            PGHOST="127.0.0.1",
            PGPORT=str(server.port),
            PGUSER="orders_service",
            PGDATABASE=self.name,
            DATABASE_URL=f"postgres://orders_service@127.0.0.1:{server.port}/{self.name}?sslmode=disable",
            JDBC_URL=f"jdbc:postgresql://127.0.0.1:{server.port}/{self.name}?user=orders_service",
        )

    def query(self, sql: str, *parameters) -> list[tuple]:
        return self.server.query(sql, *parameters, database=self.name)

    def claim(self, key: str, attempt: int) -> None:
        """As Envoy claims a key, on a route with own_transaction."""
        self.query(
            """
            INSERT INTO idempotency.record (attempt, lease_until, expires_at, reap_at, claimed_at, created_at,
              state, tenant, operation, key, fingerprint, own_transaction)
            SELECT %s, now() + interval '1 hour', day, day, now(), now(), 1, '', '', %s, '', true
            FROM (SELECT now() + interval '1 day' AS day) d
            """,
            attempt,
            key.encode(),
        )

    def post(self, attempt: int, item: str) -> httpx.Response:
        """Straight to the program."""
        url, headers = f"http://127.0.0.1:{self.port}/orders", {"idempotency-attempt": str(attempt)}
        return httpx.post(url, headers=headers, json={"item": item}, timeout=30)

    def count(self, item: str) -> int:
        ((count,),) = self.query("SELECT count(*) FROM orders WHERE item = %s", item)
        return count

    def record(self, key: str) -> tuple:
        """State, attempt and status."""
        (row,) = self.query(
            "SELECT state, attempt, status FROM idempotency.record WHERE key = %s", key.encode()
        )
        return row


@pytest.fixture(scope="module")
def orders_server(module_workspace: Workspace) -> Postgres:
    return Postgres(module_workspace)


@pytest.fixture(scope="module", params=SETTLING)
def orders(request, module_workspace: Workspace, orders_server: Postgres):
    if request.param == "java" and not shutil.which("java"):
        pytest.skip("no java: tools/setup installs it")
    if not NEEDS[request.param].exists():
        pytest.skip(f"no {NEEDS[request.param]}: tools/setup installs it")
    made = Orders(module_workspace, request.param, orders_server)
    yield made
    made.process.stop()


# The largest one: a double would round it.
ATTEMPT = 2**63 - 1


def is_without_consequence(response: httpx.Response) -> bool:
    """What the page has a run say that does not count."""
    headers = (response.headers.get("idempotency-outcome"), response.headers.get("retry-after"))
    return (response.status_code, *headers) == (503, "unknown", "1")


def test_the_order_and_the_response_are_committed_together(orders):
    key = new_key()
    orders.claim(key, ATTEMPT)
    first = orders.post(ATTEMPT, key)
    assert (first.status_code, first.headers["content-type"]) == (201, "application/json")
    assert list(first.json()) == ["order"]
    assert orders.record(key) == (2, ATTEMPT, 201)
    ((stored,),) = orders.query("SELECT body FROM idempotency.response WHERE attempt = %s", ATTEMPT)
    assert first.content in stored
    # The same attempt, delivered once more.
    assert is_without_consequence(orders.post(ATTEMPT, key))
    assert orders.count(key) == 1


def test_without_its_response_there_is_no_order(orders):
    """They are in one transaction."""
    key = new_key()
    orders.claim(key, ATTEMPT - 5)
    orders.query("ALTER FUNCTION idempotency.complete RENAME TO missing")
    try:
        answer = orders.post(ATTEMPT - 5, key)
    finally:
        orders.query("ALTER FUNCTION idempotency.missing RENAME TO complete")
    assert (answer.status_code, answer.headers.get("idempotency-outcome")) == (503, None)
    assert (orders.count(key), orders.record(key)) == (0, (1, ATTEMPT - 5, None))
    # Nothing stands in the way of another try.
    assert orders.post(ATTEMPT - 5, key).status_code == 201


def test_an_attempt_that_lost_its_record_has_no_effect(orders):
    key = new_key()
    orders.claim(key, ATTEMPT - 1)
    orders.query("UPDATE idempotency.record SET attempt = %s WHERE attempt = %s", ATTEMPT - 2, ATTEMPT - 1)
    assert is_without_consequence(orders.post(ATTEMPT - 1, key))
    assert (orders.count(key), orders.record(key)) == (0, (1, ATTEMPT - 2, None))


def test_an_attempt_that_is_losing_its_record_has_no_effect(orders):
    key = new_key()
    orders.claim(key, ATTEMPT - 3)
    answers = []
    with orders.server.connect(orders.name) as other, other.transaction():
        other.execute("UPDATE idempotency.record SET attempt = 4 WHERE attempt = %s", [ATTEMPT - 3])
        request = threading.Thread(target=lambda: answers.append(orders.post(ATTEMPT - 3, key)))
        request.start()
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE usename = 'orders_service' AND wait_event_type = 'Lock'"
        )
        wait_for(lambda: orders.query(waiting), "the program waits for the record")
    request.join()
    assert is_without_consequence(answers[0])
    assert (orders.count(key), orders.record(key)) == (0, (1, 4, None))


def test_behind_envoy_the_client_gets_what_was_committed(orders, module_workspace):
    policy = {"own_transaction": True, "on_lease_expired": "RETRY"}
    site = Site(
        module_workspace,
        {"orders": policy},
        store={"postgres": {"conninfo": orders.server.conninfo(orders.name), "timeout": "5s"}},
        change=lambda config: config.upstream(orders.port, cluster="upstream"),
    )
    key = new_key()
    with site.counts(covered=1, claim__created=1, ended__by_upstream=1):
        first = site.send("/orders/", key, body=json.dumps({"item": key}).encode())
    assert (first.status, first.header("content-type")) == (201, "application/json")
    assert (first.header("idempotent-replayed"), first.header("idempotency-stored")) == (None, None)
    with site.counts(covered=1, claim__replay=1, replay__cached=1):
        again = site.send("/orders/", key, body=json.dumps({"item": key}).encode())
    assert (again.status, again.body) == (201, first.body)
    assert again.header("idempotent-replayed") == "true"
    assert orders.count(key) == 1
    site.close()
