"""The PostgreSQL store while its server is killed, restarted, full, or out of connections.

A long lock, a dropped table and a wrong schema stand in test/store/postgres/postgres_store_test.cc.
"""

import os
import signal
from dataclasses import dataclass

import psycopg
import pytest
from harness.ctl import migrate
from harness.lives import Lives
from harness.postgres import Postgres, unprivileged_user
from harness.small_disk import SmallDisk
from harness.store_driver import StoreDriver, new_attempt
from harness.wait import wait_for


@dataclass
class Rig:
    store: StoreDriver
    server: Postgres
    database: str

    def rows(self, key: str) -> list[tuple]:
        sql = "SELECT attempt, state FROM idempotency.record WHERE key = %s"
        return self.server.query(sql, key.encode(), database=self.database)

    def wait_for_rows(self, key: str, rows: list[tuple]) -> None:
        wait_for(lambda: self.rows(key) == rows, lambda: f"{rows}, not {self.rows(key)}", deadline=30)

    def lock(self) -> psycopg.Connection:
        """Nobody can read or write a record while this connection lasts."""
        stranger = psycopg.connect(self.server.conninfo(self.database))
        stranger.execute("LOCK TABLE idempotency.record IN ACCESS EXCLUSIVE MODE")
        return stranger

    def wait_for_the_lock(self) -> None:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
        wait_for(lambda: self.server.query(sql, self.database) != [(0,)], "somebody waits", deadline=30)


@pytest.fixture
def rig(postgres_server, schema, store_driver) -> Rig:
    server = postgres_server()
    name = schema(server)
    store = store_driver(server.conninfo(name), timeout_ms=20000)
    store.wait_until_up()
    return Rig(store, server, name)


# --- kill -9 at each step of a life


def test_kill_9_before_the_claim(rig):
    rig.server.kill9()
    assert rig.store.claim("k", deadline=1).result == "unavailable"
    rig.server.start()
    attempt = rig.store.claims_again("k")
    assert rig.rows("k") == [(attempt, 1)]


def test_kill_9_while_the_server_works_on_the_claim(rig):
    stranger = rig.lock()
    claim = rig.store.start_claim("k", deadline=20)
    rig.wait_for_the_lock()
    rig.server.kill9()
    assert claim.get().result == "in_doubt"
    rig.server.start()
    stranger.close()
    attempt = rig.store.claims_again("k")
    assert rig.rows("k") == [(attempt, 1)]


def test_kill_9_after_the_claim_was_committed_and_before_its_answer(rig, toxiproxy, store_driver):
    way = toxiproxy.proxy(rig.server.port)
    store = store_driver(rig.server.conninfo(rig.database, port=way.port))
    store.wait_until_up()
    way.swallow_answers()
    lost = new_attempt()
    claim = store.start_claim("k", lost, deadline=20)
    rig.wait_for_rows("k", [(lost, 1)])
    rig.server.kill9()
    way.cut()
    assert claim.get().result == "in_doubt"
    rig.server.start()
    assert rig.rows("k") == [(lost, 1)], "else this shows nothing"
    way.restore()
    rig.wait_for_rows("k", [])
    store.claims_again("k")


def test_kill_9_between_claim_and_completion(rig):
    attempt = rig.store.must_claim("k")
    rig.server.kill9()
    assert rig.store.complete("k", attempt, deadline=1).result in ("unavailable", "in_doubt")
    rig.server.start()
    assert rig.rows("k") == [(attempt, 1)]
    rig.store.completes_again("k", attempt)
    found = rig.store.claim("k")
    assert (found.result, found.state, found.attempt) == ("exists", "completed", attempt)


def test_kill_9_while_the_server_works_on_the_completion(rig):
    attempt = rig.store.must_claim("k")
    stranger = rig.lock()
    completion = rig.store.start_complete("k", attempt, deadline=20)
    rig.wait_for_the_lock()
    rig.server.kill9()
    assert completion.get().result == "in_doubt"
    rig.server.start()
    stranger.close()
    assert rig.rows("k") == [(attempt, 1)]
    rig.store.completes_again("k", attempt)


def test_kill_9_after_the_completion_was_committed_and_before_its_answer(rig, toxiproxy, store_driver):
    way = toxiproxy.proxy(rig.server.port)
    store = store_driver(rig.server.conninfo(rig.database, port=way.port))
    attempt = store.must_claim("k")
    way.swallow_answers()
    completion = store.start_complete("k", attempt, "first", deadline=20)
    rig.wait_for_rows("k", [(attempt, 2)])
    rig.server.kill9()
    way.cut()
    assert completion.get().result == "in_doubt"
    rig.server.start()
    way.restore()
    store.completes_again("k", attempt, "second")
    assert store.look_up("k").response == "first"


def test_kill_9_after_the_completion(rig):
    attempt = rig.store.must_claim("k")
    assert rig.store.complete("k", attempt).result == "done"
    rig.server.kill9()
    rig.server.start()
    rig.store.wait_until_up(1)
    found = rig.store.look_up("k")
    assert (found.state, found.attempt, found.response) == ("completed", attempt, "response")


# --- Under load


def kill9(rig, way):
    rig.server.kill9()
    rig.server.start()


def restart(rig, way):
    assert rig.server.shut_down() == 0
    rig.server.start()


def kill_a_backend(rig, way):
    """The whole server starts anew then."""
    (pid,) = rig.server.query(
        "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid() LIMIT 1",
        rig.database,
    )[0]
    os.kill(pid, signal.SIGKILL)


def end_sessions(rig, way):
    rig.server.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", rig.database
    )


def cut(rig, way):
    way.cut()
    way.restore()


def reset(rig, way):
    way.reset_connections()
    wait_for(lambda: rig.store.stats()["connections_lost"] >= 4, "connections are reset")
    way.restore()


def silence(rig, way):
    before = rig.store.stats()["connections_lost"]
    way.black_hole()
    wait_for(lambda: rig.store.stats()["connections_lost"] >= before + 4, "the store notices", deadline=30)
    way.restore()


@pytest.mark.parametrize("fault", [kill9, restart, kill_a_backend, end_sessions, cut, reset, silence])
def test_nothing_is_claimed_twice_and_nothing_acknowledged_is_lost_over(
    postgres_server, schema, store_driver, toxiproxy, fault
):
    server = postgres_server()
    name = schema(server)
    way = toxiproxy.proxy(server.port)
    stores = [store_driver(server.conninfo(name, port=way.port)) for _ in range(2)]
    for store in stores:
        store.wait_until_up()
    lives = Lives(stores)
    rounds = 3
    for _ in range(rounds):
        lives.wait_for_more()
        try:
            fault(Rig(stores[0], server, name), way)
        except psycopg.OperationalError:
            assert fault in (kill_a_backend, end_sessions)
    lives.wait_for_more()
    lives.finish()
    # Whether an operation was under way at that moment is chance.
    assert all(store.stats()["connections_lost"] > 0 for store in stores), "else this shows nothing"
    lives.check(server, name)


# --- The server is there, but has no room


def test_no_free_connection_is_unavailable_until_there_is_one(postgres_server, schema, store_driver):
    server = postgres_server(settings={"max_connections": "8", "superuser_reserved_connections": "2"})
    name = schema(server)
    server.query("CREATE ROLE gateway LOGIN IN ROLE idempotency_filter")
    server.query("CREATE ROLE crowd LOGIN")
    others = [psycopg.connect(server.conninfo(name, user="crowd")) for _ in range(6)]
    store = store_driver(server.conninfo(name, user="gateway"))
    assert store.claim("k", deadline=1).result == "unavailable"
    wait_for(
        lambda: "too many clients" in (error := store.stats()["last_error"]) or "reserved" in error,
        lambda: f"the reason: {store.stats()}",
    )
    # One of the four that it wants is enough.
    others.pop().close()
    attempt = store.claims_again("k")
    assert server.query("SELECT attempt FROM idempotency.record", database=name) == [(attempt,)]
    for other in others:
        other.close()
    store.wait_until_up(4)


def test_a_full_disk_is_unavailable_and_loses_nothing(workspace, postgres_server, store_driver):
    """Tables on the disk that is full; the log is elsewhere."""
    disk = SmallDisk(workspace, 48, unprivileged_user())
    server = postgres_server(disk=disk)
    server.query(f"CREATE TABLESPACE small LOCATION '{disk.path}'")
    server.query("CREATE DATABASE small TABLESPACE small")
    store = full_disk_store(server, "small", store_driver)
    running = store.must_claim("running")
    disk.fill(leave=400_000)
    acknowledged = claim_until_refused(store, "53100")
    completion = store.complete("running", running, "x" * 1000000)
    assert completion.result == "unavailable"
    assert "53100" in completion.reason or "circuit breaker" in completion.reason
    disk.empty()
    store.completes_again("running", running, "x" * 1000000)
    store.claims_again("after")
    there = dict(server.query("SELECT attempt, state FROM idempotency.record", database="small"))
    assert set(acknowledged) <= set(there)


def test_a_full_disk_of_the_log_loses_nothing(workspace, postgres_server, store_driver):
    """The server gives up when it cannot write its log; commits under way are in doubt."""
    disk = SmallDisk(workspace, 12, unprivileged_user())
    server = postgres_server(
        settings={"min_wal_size": "2MB", "max_wal_size": "2MB", "wal_recycle": "off"},
        disk=disk,
        initdb=("--wal-segsize=1", f"--waldir={disk.path}/log"),
    )
    server.query("CREATE DATABASE small")
    store = full_disk_store(server, "small", store_driver)
    disk.fill()
    acknowledged = claim_until_refused(store, None)
    disk.empty()
    if server.process.exit_code is not None:
        server.start()
    store.claims_again("after")
    assert "PANIC" in server.process.output(), "else this shows nothing"

    def there() -> set[int]:
        rows = server.query("SELECT attempt FROM idempotency.record WHERE key <> 'after'", database="small")
        return {attempt for (attempt,) in rows}

    # Also what was in doubt is withdrawn.
    assert set(acknowledged) <= there()
    wait_for(lambda: set(acknowledged) == there(), "nothing is left of claims in doubt", deadline=60)


def full_disk_store(server: Postgres, database: str, store_driver) -> StoreDriver:
    migrate(server.conninfo(database))
    store = store_driver(server.conninfo(database), timeout_ms=5000)
    store.wait_until_up()
    return store


def claim_until_refused(store: StoreDriver, code: str | None) -> list[int]:
    """The attempts that were acknowledged."""
    acknowledged = []
    for batch in range(200):
        claims = [store.start_claim(f"fill{batch}-{number}") for number in range(100)]
        answers = [claim.get() for claim in claims]
        acknowledged += [answer.attempt for answer in answers if answer.result == "claimed"]
        refused = [answer for answer in answers if answer.result != "claimed"]
        if refused:
            if code:
                assert {answer.result for answer in refused} == {"unavailable"}
                assert any(code in answer.reason for answer in refused), refused[0]
            else:
                assert {answer.result for answer in refused} <= {"unavailable", "in_doubt"}
            assert acknowledged
            return acknowledged
    raise AssertionError("the disk was never full")
