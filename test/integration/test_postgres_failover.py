"""The PostgreSQL store and standbys: read-only ones, failover, commits that no standby confirms."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.lives import Lives
from harness.paths import POSTGRES_MAJORS
from harness.postgres import Postgres
from harness.store_driver import new_attempt
from harness.wait import wait_for

SYNC_WAITS = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def pair(postgres_server, schema):
    """A primary whose commits wait for its standby, the standby, and a database."""
    primary = postgres_server(settings={"synchronous_standby_names": "*"})
    standby = postgres_server(primary=primary)
    wait_for(
        lambda: primary.query("SELECT sync_state FROM pg_stat_replication") == [("sync",)],
        lambda: f"the standby follows: {primary.query('SELECT * FROM pg_stat_replication')}",
        deadline=30,
    )
    name = schema(primary)
    return primary, standby, name


def both(first: Postgres, second: Postgres, database: str, **more: str) -> str:
    """Where the database is, or may be."""
    conninfo = first.conninfo(database, host="127.0.0.1,127.0.0.1", **more)
    return conninfo.replace(f"port={first.port}", f"port={first.port},{second.port}")


def test_a_standby_is_refused_until_it_is_promoted(pair, store_driver):
    primary, standby, name = pair
    store = store_driver(standby.conninfo(name))
    assert store.claim("k", deadline=1).result == "unavailable"
    wait_for(lambda: "read-only" in store.stats()["last_error"], lambda: f"{store.stats()}")
    primary.kill9()
    standby.promote()
    attempt = store.claims_again("k")
    assert standby.query("SELECT attempt FROM idempotency.record", database=name) == [(attempt,)]


def test_a_standby_is_refused_whatever_the_conninfo_wants(pair, store_driver):
    _, standby, name = pair
    store = store_driver(standby.conninfo(name, target_session_attrs="any"))
    assert store.claim("k", deadline=1).result == "unavailable"
    wait_for(lambda: "the server is read-only" in store.stats()["last_error"], lambda: f"{store.stats()}")


@pytest.mark.parametrize("target", ["read-write", "primary", "any"])
def test_the_writable_one_of_two_is_found_in_either_order(pair, store_driver, target):
    primary, standby, name = pair
    for number, servers in enumerate([(primary, standby), (standby, primary)]):
        store = store_driver(both(*servers, name, target_session_attrs=target))
        store.wait_until_up()
        store.must_claim(f"k{number}")
    assert primary.query("SELECT count(*) FROM idempotency.record", database=name) == [(2,)]


def test_failover_loses_nothing_acknowledged_and_claims_nothing_twice(pair, store_driver):
    primary, standby, name = pair
    stores = [store_driver(both(primary, standby, name, target_session_attrs="read-write")) for _ in range(2)]
    for store in stores:
        store.wait_until_up()
    lives = Lives(stores)
    lives.wait_for_more()
    primary.kill9()
    standby.promote()
    lives.wait_for_more()
    lives.finish()
    # Whether an operation was under way at that moment is chance.
    assert all(store.stats()["connections_lost"] > 0 for store in stores)
    lives.check(standby, name)


def test_the_old_primary_that_comes_back_is_not_followed(pair, store_driver):
    """It still thinks that it may write, but no standby confirms what it commits: nothing is acknowledged."""
    primary, standby, name = pair
    store = store_driver(both(primary, standby, name))
    store.wait_until_up()
    before = store.must_claim("before")
    primary.kill9()
    standby.promote()
    after = store.claims_again("after")
    store.wait_until_up()
    primary.start()
    # Those that stand stay, and new ones begin where the last ones were made.
    lost = store.stats()["connections_lost"]
    standby.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name)
    wait_for(lambda: store.stats()["connections_lost"] >= lost + 4, "the store notices", deadline=30)
    later = store.claims_again("later")
    there = standby.query("SELECT attempt FROM idempotency.record ORDER BY claimed_at", database=name)
    assert there == [(before,), (after,), (later,)]
    # A store that knows nothing of this finds the old one first, and is not told that it has claimed.
    naive = store_driver(primary.conninfo(name), timeout_ms=500)
    naive.wait_until_up(1)
    assert naive.claim("later", deadline=1).result == "in_doubt"


def test_a_primary_that_became_a_standby_is_left(pair, store_driver):
    """A switch-over: the old primary is restarted as a standby of the new one."""
    primary, standby, name = pair
    store = store_driver(both(primary, standby, name))
    before = store.claims_again("before")
    assert primary.shut_down() == 0
    standby.promote()
    primary.follow(standby)
    attempt = store.claims_again("after")
    there = standby.query("SELECT attempt FROM idempotency.record ORDER BY claimed_at", database=name)
    assert there == [(before,), (attempt,)]


# --- Commits that no standby confirms


@pytest.fixture
def lonely(postgres_server, schema):
    """A server without a standby, and a database."""

    def make(*arguments) -> tuple[Postgres, str]:
        server = postgres_server(*arguments)
        return server, schema(server)

    return make


def want_standby(server: Postgres) -> None:
    """From now on commits wait for a standby that does not exist."""
    server.set("synchronous_standby_names", "nobody")

    def waits() -> bool:
        # The checkpointer tells the others, some time later.
        with server.connect() as connection, ThreadPoolExecutor(1) as pool:
            pid = connection.info.backend_pid
            commit = pool.submit(connection.execute, "SELECT pg_logical_emit_message(true, '', '')")
            wait_for(
                lambda: commit.done() or pid in sync_waits(server), "a commit ends or waits", deadline=30
            )
            if commit.done():
                return False
            server.query("SELECT pg_cancel_backend(%s)", pid)
            return True

    wait_for(waits, "commits wait", deadline=30)


def sync_waits(server: Postgres) -> list[int]:
    return [pid for (pid,) in server.query(SYNC_WAITS)]


def wait_for_sync_wait(server: Postgres) -> int:
    return wait_for(lambda: sync_waits(server), "a commit waits for the standby", deadline=30)[0]


@pytest.mark.parametrize("major", POSTGRES_MAJORS)
def test_a_claim_whose_wait_for_the_standby_is_cancelled_is_in_doubt(lonely, store_driver, major):
    server, name = lonely(major)
    store = store_driver(server.conninfo(name), timeout_ms=20000)
    store.wait_until_up()
    want_standby(server)
    lost = new_attempt()
    claim = store.start_claim("k", lost, deadline=20)
    pid = wait_for_sync_wait(server)
    assert not claim.done()
    # The server now tells success, and a warning: it is committed here and nowhere else.
    assert server.query("SELECT pg_cancel_backend(%s)", pid) == [(True,)]
    answer = claim.get()
    assert (answer.result, "standby" in answer.reason) == ("in_doubt", True), answer
    assert server.query("SELECT attempt FROM idempotency.record", database=name) == [(lost,)]
    # With a standby again it is withdrawn, and the key can be claimed.
    server.set("synchronous_standby_names", None)
    attempt = store.claims_again("k")
    assert server.query("SELECT attempt FROM idempotency.record", database=name) == [(attempt,)]


@pytest.mark.parametrize("set_for", ["DATABASE {name}", "ROLE {role} IN DATABASE {name}", "the server"])
def test_a_cancelled_wait_is_seen_where_warnings_are_turned_off(lonely, store_driver, set_for):
    """The warning is the only trace of it, so no setting may hide it."""
    server, name = lonely()
    if set_for == "the server":
        server.set("client_min_messages", "error")
    else:
        ((role,),) = server.query("SELECT current_user")
        where = set_for.format(name=f'"{name}"', role=f'"{role}"')
        server.query(f"ALTER {where} SET client_min_messages = error")
    wait_for(
        lambda: server.query("SHOW client_min_messages", database=name) == [("error",)],
        "warnings are turned off",
        deadline=30,
    )
    store = store_driver(server.conninfo(name), timeout_ms=20000)
    store.wait_until_up()
    want_standby(server)
    claim = store.start_claim("k", new_attempt(), deadline=20)
    server.query("SELECT pg_cancel_backend(%s)", wait_for_sync_wait(server))
    answer = claim.get()
    assert (answer.result, "standby" in answer.reason) == ("in_doubt", True), answer
    server.set("synchronous_standby_names", None)
    store.claims_again("k")


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_completion_whose_wait_for_the_standby_ends_early_is_in_doubt(lonely, store_driver, end):
    server, name = lonely()
    store = store_driver(server.conninfo(name), timeout_ms=20000)
    attempt = store.must_claim("k")
    want_standby(server)
    completion = store.start_complete("k", attempt, "first", deadline=20)
    pid = wait_for_sync_wait(server)
    server.query(f"SELECT {end}(%s)", pid)
    assert completion.get().result == "in_doubt"
    server.set("synchronous_standby_names", None)
    store.completes_again("k", attempt, "second")
    assert store.look_up("k").response == "first"


def test_a_standby_that_is_away_for_long_does_not_use_up_the_servers_connections(lonely, store_driver):
    server, name = lonely()
    store = store_driver(server.conninfo(name), timeout_ms=200)
    store.wait_until_up()
    want_standby(server)
    most = 0

    def many_tries() -> bool:
        result = store.claim(f"k{new_attempt()}", deadline=0.3).result
        assert result in ("in_doubt", "unavailable")
        nonlocal most
        most = max(most, len(sync_waits(server)))
        return store.stats()["connections_lost"] >= 24

    wait_for(many_tries, lambda: f"it tries again and again: {store.stats()}", deadline=60)
    assert 0 < most <= 4, "one for each connection of the store"
    assert "no standby confirms commits" in store.stats()["last_error"]
    server.set("synchronous_standby_names", None)
    attempt = store.claims_again("after")
    wait_for(
        lambda: server.query("SELECT attempt FROM idempotency.record", database=name) == [(attempt,)],
        "all that was in doubt is withdrawn",
        deadline=60,
    )
