"""The client leaves: in each phase of its request, by HTTP/1.1 and HTTP/2, on every Envoy that we support.

What ran is never run again, what did not run is free again, and nobody has to wait for a lease to find out.
"""

import socket

import pytest
from harness.config import EnvoyConfig
from harness.ctl import migrate
from harness.paths import ENVOY_VERSIONS
from harness.process import Workspace
from harness.site import Site, code_of, new_key
from harness.wait import wait_for

SIZE = 900_000


@pytest.fixture(scope="module", params=[*ENVOY_VERSIONS, "postgres"])
def site(request, session_workspace: Workspace):
    """Each Envoy on SQLite, and the newest on PostgreSQL."""
    options = {"version": request.param}
    if request.param == "postgres":
        server = request.getfixturevalue("shared_postgres")
        # It goes with its server.
        conninfo = server.conninfo(server.create_database())
        migrate(conninfo)
        options = {"store": {"postgres": {"conninfo": conninfo, "timeout": "20s"}}}

    def change(config: EnvoyConfig) -> None:
        config.filter(maintenance={"enabled": False})
        config.route("/h2/", {"enforcement": "REQUIRED"}, cluster="h2")

    made = Site(session_workspace, {"up": {}}, change=change, **options)
    yield made
    made.close()


def ended(name: str, **more: int) -> dict[str, int]:
    return {"covered": 1, "claim__created": 1, f"ended__{name}": 1, **more}


def test_while_the_request_comes(site, leave):
    key = new_key()
    with site.counts(covered=1, cut_short=1), site.connect(leave.http2) as connection:
        fields = {"idempotency-key": key, "x-tenant-id": "acme", "content-length": "100"}
        with site.until_counted("covered"):
            more = {"end": False} if leave.http2 else {}
            stream = connection.start("POST", "/up/", fields, **more)
        leave(connection, stream)
    assert site.record(key) is None
    assert site.executions(key) == []


def test_while_the_request_is_held_for_its_claim(site, leave):
    """The claim that comes for nobody is taken back at once."""
    key = new_key()
    with site.counts(covered=1, cut_short=1):
        with site.connect(leave.http2) as connection, site.store_held():
            with site.until_counted("covered"):
                stream = site.begin(connection, "/up/", key)
            with site.until_counted("cut_short"):
                leave(connection, stream)
        site.wait_for_state(key, None)
    assert site.executions(key) == []
    assert site.send("/up/", key).status == 200
    assert len(site.executions(key)) == 1


@pytest.mark.parametrize("path", ["/up/", "/h2/"], ids=["up http1", "up http2"])
def test_while_the_upstream_works(site, leave, path):
    """Envoy resets the upstream's request: nobody knows what became of it."""
    key = new_key()
    with site.counts(**ended("unknown", cut_short=1)):
        with site.connect(leave.http2) as connection:
            stream = site.begin(connection, path, key, hold=key)
            site.upstream.wait_until_held(key)
            leave(connection, stream)
            site.upstream.wait_for_log("gone", key=key)
        site.wait_for_state(key, "unknown")
    ran_once_and_is_unknown(site, path, key)


@pytest.mark.parametrize("path", ["/up/", "/h2/"], ids=["up http1", "up http2"])
def test_while_the_response_is_held_in_part(site, leave, path):
    key = new_key()
    with site.counts(**ended("unknown", cut_short=1)):
        with site.connect(leave.http2) as connection:
            stream = site.begin(connection, path, key, fault="hang_mid_body", body_size=10_000)
            site.upstream.wait_for_log("cut", key=key)
            leave(connection, stream)
            site.upstream.wait_for_log("gone", key=key)
        site.wait_for_state(key, "unknown")
    ran_once_and_is_unknown(site, path, key)


def test_while_the_whole_response_is_being_stored(site, leave):
    """It is stored all the same: the retry gets it."""
    key = new_key()
    with site.counts(**ended("completed")):
        with site.connect(leave.http2) as connection:
            stream = site.begin(connection, "/up/", key, hold=key, status=201)
            site.upstream.wait_until_held(key)
            with site.store_held():
                site.upstream.release(key)
                wait_for(lambda: active(site) == 0, "the whole response is with Envoy")
                leave(connection, stream)
                site.wait_until_idle()
        site.wait_for_state(key, "completed")
    retry = site.send("/up/", key)
    assert (retry.status, retry.header("idempotent-replayed")) == (201, "true")
    assert len(site.executions(key)) == 1


def active(site: Site) -> int:
    """Requests that wait for the upstream."""
    return site.envoy.stat("cluster.upstream.upstream_rq_active")


def test_in_the_middle_of_a_long_answer(site, leave):
    """Too long to be stored, it streams: what the client did not wait for, nobody knows."""
    key = new_key()
    with site.counts(**ended("unknown", cut_short=1)):
        with site.connect(leave.http2) as connection:
            stream = site.begin(connection, "/up/", key, fault="hang_mid_body", body_size=3_000_000)
            site.upstream.wait_for_log("cut", key=key)
            leave(connection, stream)
            site.upstream.wait_for_log("gone", key=key)
        site.wait_for_state(key, "unknown")
    ran_once_and_is_unknown(site, "/up/", key)


def test_during_a_replay(site, leave):
    """The client reads nothing of it and goes: nothing changes."""
    key = new_key()
    first = site.send("/up/", key, body_size=SIZE)
    assert len(first.body) == SIZE
    before = site.record(key)
    with site.connect(leave.http2) as connection:
        with site.until_counted("claim.replay"):
            stream = site.begin(connection, "/up/", key)
        leave(connection, stream)
    site.wait_until_idle()
    assert site.record(key) == before
    again = site.send("/up/", key)
    assert (again.body, again.header("idempotent-replayed")) == (first.body, "true")
    assert len(site.executions(key)) == 1


def test_half_closed_connection_counts_as_gone(site):
    """HTTP/1.1, after the request: Envoy sends no answer any more, so nobody knows."""
    key = new_key()
    with site.connect() as connection:
        site.begin(connection, "/up/", key, hold=key)
        site.upstream.wait_until_held(key)
        connection.socket.shutdown(socket.SHUT_WR)
        site.upstream.wait_for_log("gone", key=key)
        assert connection.at_eof()
    site.wait_for_state(key, "unknown")
    ran_once_and_is_unknown(site, "/up/", key)


def ran_once_and_is_unknown(site: Site, path: str, key: str) -> None:
    retry = site.send(path, key)
    assert (retry.status, code_of(retry)) == (409, "idempotency_outcome_unknown")
    assert len(site.executions(key)) == 1
