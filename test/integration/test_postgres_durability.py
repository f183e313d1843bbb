"""What a reload of the server's configuration can do to the durability of claims, under traffic."""

import pytest
from harness.clients import KeepAlive, Request
from harness.config import EnvoyConfig
from harness.records import Records
from harness.site import new_key
from harness.wait import wait_for


@pytest.fixture
def site(postgres_server, envoy, upstream):
    server = postgres_server()
    records = Records(server, server.create_database())
    config = EnvoyConfig.quickstart().for_test(records.store(timeout="1s")).upstream(upstream.port)
    config.route("/pay", {"enforcement": "REQUIRED", "completion_timeout": "1s"})
    return server, envoy(config)


def status_of_a_new_key(front) -> int:
    return KeepAlive(front.port).send(Request.keyed("/pay", new_key())).status


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_lose_claims_counts_as_down_until_it_is_safe_again(site, setting):
    server, front = site
    assert status_of_a_new_key(front) == 200
    server.set(setting, "off")
    # Each connection looks for itself, once a second.
    wait_for(
        lambda: all(status_of_a_new_key(front) == 503 for _ in range(20)),
        "the server counts as down on every connection",
        deadline=15,
    )
    for _ in range(20):
        assert status_of_a_new_key(front) == 503
    assert front.stat("idempotency.store_unavailable") >= 20
    wait_for(lambda: f"{setting} is off on this server" in front.process.output(), "the log says why")
    server.set(setting, "on")
    wait_for(lambda: status_of_a_new_key(front) == 200, "it works again, without a restart", deadline=30)


def test_claims_stay_durable_when_the_server_stops_waiting_for_commits(site):
    server, front = site
    assert status_of_a_new_key(front) == 200
    server.set("synchronous_commit", "off")
    for _ in range(50):
        assert status_of_a_new_key(front) == 200
        # What was acknowledged is on the disk: all of the log is, as nobody else writes any.
        assert server.query("SELECT pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn() < 200") == [
            (True,)
        ]
    assert front.stat("idempotency.store_unavailable") == 0
