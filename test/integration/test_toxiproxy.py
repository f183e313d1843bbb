"""Disturbances between a client and a server happen, and can be taken away again."""

import time

import psycopg
import pytest
from harness.upstream import behave
from harness.wire import Http1Connection


@pytest.fixture
def way(toxiproxy, upstream):
    """A way to the upstream that can be disturbed."""
    return toxiproxy.proxy(upstream.port)


def get(way, headers=(), timeout: float = 10):
    with Http1Connection(way.port, timeout) as connection:
        return connection.request("GET", "/", headers)


def test_requests_pass_undisturbed(way):
    assert get(way).status == 200


def test_a_cut_ends_old_connections_and_refuses_new_ones(way):
    with Http1Connection(way.port) as connection:
        assert connection.request("GET", "/").status == 200
        way.cut()
        assert connection.at_eof()
    with pytest.raises(ConnectionRefusedError):
        get(way)
    way.restore()
    assert get(way).status == 200


def test_a_way_that_is_out_of_order_is_replaced(way, toxiproxy):
    way.cut()
    for proxy in toxiproxy.call("GET", "/proxies").values():
        if proxy["listen"].endswith(f":{way.port}"):
            toxiproxy.call("DELETE", f"/proxies/{proxy['name']}")
    way.restore()
    assert get(way).status == 200
    way.cut()
    with pytest.raises(ConnectionRefusedError):
        get(way)


def test_answers_are_delayed(way):
    way.delay(300)
    start = time.monotonic()
    assert get(way).status == 200
    assert time.monotonic() - start >= 0.3


def test_a_black_hole_lets_nothing_through(way, upstream):
    way.black_hole()
    with pytest.raises(TimeoutError):
        get(way, timeout=0.3)
    assert not upstream.log()
    way.restore()
    assert get(way).status == 200


def test_swallowed_answers_leave_the_effect(way, upstream):
    way.swallow_answers()
    with pytest.raises(TimeoutError):
        get(way, timeout=0.3)
    assert len(upstream.executions()) == 1


def test_connections_are_reset(way):
    way.reset_connections()
    with pytest.raises((ConnectionResetError, EOFError)):
        get(way)


def test_a_connection_is_cut_after_so_many_bytes(way):
    way.cut_after(500)
    assert not get(way, behave(body_size=1000)).complete


def test_postgresql_through_a_way_that_is_cut(toxiproxy, shared_postgres):
    way = toxiproxy.proxy(shared_postgres.port)
    connection = psycopg.connect(shared_postgres.conninfo(port=way.port), autocommit=True)
    assert connection.execute("SELECT 1").fetchone() == (1,)
    way.cut()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    connection.close()
