"""The PostgreSQL store behind a network that cuts, resets, delays and slices.

What needs no network stands in test/store/postgres/postgres_store_test.cc: an answer cut at many places,
a server that falls silent, sessions that the server ends.
"""

import os
import subprocess
from dataclasses import dataclass

import pytest
from harness.postgres import Postgres
from harness.store_driver import StoreDriver, new_attempt
from harness.toxiproxy import Proxy
from harness.wait import wait_for


@dataclass
class Rig:
    store: StoreDriver
    way: Proxy
    server: Postgres
    database: str

    def rows(self, key: str) -> list[tuple]:
        sql = "SELECT attempt, state FROM idempotency.record WHERE key = %s"
        return self.server.query(sql, key.encode(), database=self.database)

    def wait_for_rows(self, key: str, rows: list[tuple]) -> None:
        wait_for(lambda: self.rows(key) == rows, lambda: f"{rows}, not {self.rows(key)}", deadline=30)


@pytest.fixture
def rig(toxiproxy, shared_postgres, schema, store_driver):
    way = toxiproxy.proxy(shared_postgres.port)
    name = schema(shared_postgres)
    store = store_driver(shared_postgres.conninfo(name, port=way.port))
    store.wait_until_up()
    yield Rig(store, way, shared_postgres, name)
    store.stop()
    shared_postgres.drop_database(name)


def test_no_way_to_the_server_is_unavailable_and_comes_back(rig):
    rig.way.cut()
    wait_for(lambda: rig.store.stats()["connections_up"] == 0, "the store notices", deadline=30)
    assert rig.store.claim("k", deadline=1).result == "unavailable"
    assert rig.store.look_up("k", deadline=1).result == "unavailable"
    assert rig.rows("k") == []
    rig.way.restore()
    rig.store.claims_again("k")


def test_a_claim_cut_before_it_reached_the_server_is_in_doubt_and_leaves_nothing(rig):
    rig.way.swallow_requests()
    claim = rig.store.sent(lambda: rig.store.start_claim("k", deadline=20))
    assert not claim.done()
    rig.way.cut()
    assert claim.get().result == "in_doubt"
    rig.way.restore()
    attempt = rig.store.claims_again("k")
    assert rig.rows("k") == [(attempt, 1)]


def test_a_claim_cut_after_it_reached_the_server_is_in_doubt_and_withdrawn(rig):
    rig.way.swallow_answers()
    lost = new_attempt()
    claim = rig.store.start_claim("k", lost, deadline=20)
    rig.wait_for_rows("k", [(lost, 1)])
    rig.way.cut()
    assert claim.get().result == "in_doubt"
    rig.way.restore()
    rig.wait_for_rows("k", [])
    attempt = rig.store.claims_again("k")
    assert rig.rows("k") == [(attempt, 1)]


def test_a_completion_cut_before_it_reached_the_server_may_be_repeated(rig):
    attempt = rig.store.must_claim("k")
    rig.way.swallow_requests()
    completion = rig.store.sent(lambda: rig.store.start_complete("k", attempt, deadline=20))
    assert not completion.done()
    rig.way.cut()
    assert completion.get().result == "in_doubt"
    assert rig.rows("k") == [(attempt, 1)]
    rig.way.restore()
    rig.store.completes_again("k", attempt)
    assert rig.rows("k") == [(attempt, 2)]


def test_a_completion_cut_after_it_reached_the_server_stays_and_may_be_repeated(rig):
    attempt = rig.store.must_claim("k")
    rig.way.swallow_answers()
    completion = rig.store.start_complete("k", attempt, "first", deadline=20)
    rig.wait_for_rows("k", [(attempt, 2)])
    rig.way.cut()
    assert completion.get().result == "in_doubt"
    rig.way.restore()
    rig.store.completes_again("k", attempt, "second")
    found = rig.store.look_up("k")
    assert (found.state, found.attempt, found.response) == ("completed", attempt, "first")


def test_an_answer_cut_in_the_middle_is_in_doubt_until_all_of_it_has_come(rig, store_driver):
    store = store_driver(rig.server.conninfo(rig.database, port=rig.way.port), connections=1)
    results = []
    for size in range(1, 400, 20):
        store.wait_until_up(1)
        rig.way.cut_after(size)
        key, attempt = f"cut{size}", new_attempt()
        results.append(store.claim(key, attempt, deadline=20).result)
        rig.way.restore()
        if results[-1] == "claimed":
            assert rig.rows(key) == [(attempt, 1)]
            break
        assert results[-1] == "in_doubt", size
        rig.wait_for_rows(key, [])
    assert len(results) >= 3
    assert results[-1] == "claimed"


def test_a_reset_in_mid_claim_is_in_doubt_and_withdrawn(rig):
    rig.way.swallow_answers()
    lost = new_attempt()
    claim = rig.store.start_claim("k", lost, deadline=20)
    rig.wait_for_rows("k", [(lost, 1)])
    rig.way.reset_connections()
    rig.way.cut()
    assert claim.get().result == "in_doubt"
    rig.way.restore()
    rig.wait_for_rows("k", [])
    rig.store.claims_again("k")


def test_every_connection_is_reset_until_the_network_is_well_again(rig):
    rig.way.reset_connections()
    for number in range(5):
        assert rig.store.claim(f"k{number}", deadline=1).result in ("unavailable", "in_doubt")
    rig.way.restore()
    for number in range(5):
        attempt = rig.store.claims_again(f"k{number}")
        assert rig.rows(f"k{number}") == [(attempt, 1)]


def test_200_ms_of_latency_are_waited_for(rig):
    rig.way.delay(200)
    claim = rig.store.claim("k", deadline=20)
    assert claim.result == "claimed"
    assert claim.elapsed_ms >= 200
    assert rig.store.complete("k", claim.attempt, deadline=20).result == "done"
    assert rig.store.claim("k", deadline=20).response == "response"
    assert rig.store.stats()["connections_lost"] == 0


def test_a_deadline_shorter_than_the_latency_leaves_no_claim_behind(rig):
    rig.way.delay(400)
    assert rig.store.claim("k", deadline=0.1).result == "in_doubt"
    rig.wait_for_rows("k", [])
    # Its batch went on: nobody else lost a connection by it.
    assert rig.store.stats()["connections_lost"] == 0


def test_a_store_starts_and_works_over_200_ms_of_latency(rig, store_driver):
    rig.way.delay(200)
    store = store_driver(rig.server.conninfo(rig.database, port=rig.way.port))
    attempt = store.claims_again("k")
    assert store.complete("k", attempt, deadline=20).result == "done"


def test_segments_of_one_byte_are_understood_both_ways(rig, store_driver):
    rig.way.slice(1)
    store = store_driver(rig.server.conninfo(rig.database, port=rig.way.port))
    attempt = store.claims_again("k")
    response = "0123456789" * 2000
    assert store.complete("k", attempt, response, deadline=60).result == "done"
    found = store.claim("k", deadline=60)
    assert (found.result, found.attempt, found.response) == ("exists", attempt, response)


def test_a_name_that_cannot_be_looked_up_is_unavailable_and_says_so(rig, store_driver):
    conninfo = rig.server.conninfo(rig.database, host="nowhere.invalid")
    store = store_driver(conninfo)
    assert store.claim("k", deadline=1).result == "unavailable"
    wait_for(
        lambda: "cannot look up host nowhere.invalid" in store.stats()["last_error"],
        lambda: f"the reason: {store.stats()}",
        deadline=60,
    )


def test_one_name_of_two_that_cannot_be_looked_up_does_no_harm(rig, store_driver):
    port = rig.server.port
    conninfo = rig.server.conninfo(rig.database, host="nowhere.invalid,127.0.0.1").replace(
        f"port={port}", f"port={port},{port}"
    )
    store_driver(conninfo).claims_again("k")


def test_a_name_that_can_be_looked_up_later_is_found_without_a_restart(rig, store_driver, folder):
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    mount = f'mount --bind {hosts} /etc/hosts && exec "$@"'
    wrap = ("unshare", "--mount", "sh", "-c", mount, "sh")
    if os.geteuid() != 0:
        wrap = ("unshare", "--user", "--map-root-user", *wrap[1:])
    refused = subprocess.run([*wrap, "true"], capture_output=True, text=True)
    if refused.returncode:
        pytest.skip(f"a private /etc/hosts is refused here: {refused.stderr.strip()}")
    store = store_driver(rig.server.conninfo(rig.database, host="database.invalid"), wrap=wrap)
    assert store.claim("k", deadline=1).result == "unavailable"
    # In place: the mount shows this very file.
    hosts.write_text("127.0.0.1 localhost database.invalid\n")
    attempt = store.claims_again("k")
    assert rig.rows("k") == [(attempt, 1)]
