"""Fixtures. Servers start on free loopback ports and are gone when the test is over.

upstream, toxiproxy        a fresh one for the test
database                   conninfo of an empty database on a shared PostgreSQL
migrated                   the same with our schema in it
module_migrated            the same for all tests of one file
records                    a database of the test's own with the filter's schema, on a shared PostgreSQL
postgres_server(major)     a PostgreSQL of the test's own, to kill and restart
envoy(config, version)     an Envoy with the module, as often as needed
store_driver(conninfo)     a PostgreSQL store in a process of its own
schema(server)             a new database with the store's schema; its name
config                     the quickstart's configuration, on free ports, towards `upstream`
leave(connection, stream)  a client goes away: one test for each way
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.config import EnvoyConfig
from harness.ctl import migrate
from harness.envoy import Envoy
from harness.postgres import Postgres
from harness.process import Workspace
from harness.records import Records
from harness.store_driver import StoreDriver
from harness.toxiproxy import Toxiproxy
from harness.upstream import Upstream
from harness.wire import Http1Connection, Http2Connection

# The tests talk to this machine alone, whatever proxy the environment names.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "*"

# nohup and a shell without job control make their children ignore signals, and theirs inherit that. A handler
# ends with exec: the servers of the tests have the defaults, and Ctrl-C ends an example.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, lambda _number, _frame: None)

_workspaces: list[Workspace] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The names of failed tests, one on each line, go to the file that the variable names."""
    if path := os.environ.get("WRITE_FAILED"):
        reports = [report for kind in ("failed", "error") for report in terminalreporter.getreports(kind)]
        names = dict.fromkeys(report.nodeid for report in reports)
        Path(path).write_text("".join(f"{name}\n" for name in names))


@pytest.fixture(scope="session")
def session_workspace() -> Iterator[Workspace]:
    """Holds what many tests share."""
    yield from _workspace()


@pytest.fixture(scope="module")
def module_workspace() -> Iterator[Workspace]:
    """Holds what the tests of one file share."""
    yield from _workspace()


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """A folder and the processes of this test alone."""
    yield from _workspace()


def _workspace() -> Iterator[Workspace]:
    made = Workspace()
    _workspaces.append(made)
    try:
        yield made
    finally:
        _workspaces.remove(made)
        made.close()


@pytest.fixture
def folder(workspace: Workspace) -> Path:
    return workspace.new_folder("test")


@pytest.fixture
def upstream(workspace: Workspace) -> Upstream:
    return Upstream(workspace)


@pytest.fixture
def toxiproxy(workspace: Workspace) -> Toxiproxy:
    return Toxiproxy(workspace)


@pytest.fixture
def postgres_server(workspace: Workspace) -> Callable[..., Postgres]:
    return lambda *arguments, **options: Postgres(workspace, *arguments, **options)


@pytest.fixture(scope="session")
def shared_postgres(session_workspace: Workspace) -> Postgres:
    """Debian's PostgreSQL. Tests that stop or kill it use postgres_server instead."""
    return Postgres(session_workspace)


@pytest.fixture
def database(shared_postgres: Postgres) -> Iterator[str]:
    name = shared_postgres.create_database()
    yield shared_postgres.conninfo(name)
    shared_postgres.drop_database(name)


@pytest.fixture
def schema() -> Callable[[Postgres], str]:
    """A new database with the store's schema in it; its name."""

    def make(server: Postgres) -> str:
        name = server.create_database()
        migrate(server.conninfo(name))
        return name

    return make


@pytest.fixture
def store_driver(workspace: Workspace) -> Iterator[Callable[..., StoreDriver]]:
    """PostgreSQL stores in processes of their own; each must end cleanly."""
    made: list[StoreDriver] = []

    def make(conninfo: str, **settings) -> StoreDriver:
        made.append(StoreDriver(workspace, conninfo, **settings))
        return made[-1]

    yield make
    assert [driver.stop() for driver in made] == [0] * len(made)


@pytest.fixture
def migrated(database: str) -> str:
    """conninfo of a database with our schema in it."""
    migrate(database)
    return database


@pytest.fixture(scope="module")
def module_migrated(shared_postgres: Postgres) -> Iterator[str]:
    """conninfo of a database with our schema in it, for all tests of one file."""
    name = shared_postgres.create_database()
    migrate(shared_postgres.conninfo(name))
    yield shared_postgres.conninfo(name)
    shared_postgres.drop_database(name)


@pytest.fixture
def records(shared_postgres: Postgres) -> Iterator[Records]:
    name = shared_postgres.create_database()
    yield Records(shared_postgres, name)
    shared_postgres.drop_database(name)


@pytest.fixture
def config(upstream: Upstream, folder: Path) -> EnvoyConfig:
    store = {"sqlite": {"path": str(folder / "idempotency.db")}}
    return EnvoyConfig.quickstart().for_test(store).upstream(upstream.port)


@pytest.fixture(params=["http1", "http2 reset", "http2 connection lost"])
def leave(request) -> Callable[[Http1Connection | Http2Connection, int | None], None]:
    """How the client goes away; `leave.http2` says what it speaks."""

    def leave(connection: Http1Connection | Http2Connection, stream: int | None) -> None:
        if request.param == "http2 reset":
            connection.reset(stream)
        else:
            connection.close()

    leave.http2 = request.param != "http1"
    return leave


@pytest.fixture
def envoy(workspace: Workspace) -> Callable[..., Envoy]:
    return lambda *arguments, **options: Envoy(workspace, *arguments, **options)


def pytest_addoption(parser) -> None:
    parser.addoption("--update-symbols", action="store_true", help="write the lists in symbols/ anew")


@pytest.fixture
def update_symbols(request) -> bool:
    return request.config.getoption("--update-symbols")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the last lines of every server's log."""
    report = yield
    if report.failed:
        for workspace in _workspaces:
            for process in workspace.processes:
                report.sections.append((f"log of {process.name}", process.tail()))
    return report


def pytest_configure(config) -> None:
    for tool in ("nm", "readelf"):
        if not shutil.which(tool):
            raise pytest.UsageError(f"{tool} is missing: run tools/setup")
