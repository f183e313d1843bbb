"""The scriptable upstream does what it is told, and its log tells what it did."""

import hashlib
import json
import socket
import time

import pytest
from harness.upstream import Upstream, behave
from harness.wire import Http1Connection, Http2Connection, WireResponse

PROTOCOLS = {"http1": Http1Connection, "http2": Http2Connection}


@pytest.fixture(params=PROTOCOLS)
def connect(request, upstream: Upstream):
    return lambda: PROTOCOLS[request.param](upstream.port)


def post(connect, headers=(), body: bytes = b"hello") -> WireResponse:
    with connect() as connection:
        return connection.request("POST", "/pay?x=1", dict(headers), body)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_default_answer_shows_the_execution_and_the_log_has_it(connect, upstream):
    headers = {"idempotency-key": '"k-1"', "idempotency-attempt": "77"}
    response = post(connect, headers)
    assert response.status == 200
    answer = json.loads(response.body)
    assert answer["key"] == '"k-1"'
    assert response.header("x-execution") == "1"
    (entry,) = upstream.executions(key='"k-1"')
    assert entry["attempt"] == "77"
    assert (entry["method"], entry["path"]) == ("POST", "/pay?x=1")
    assert entry["request_sha256"] == sha256(b"hello")
    assert entry["response_sha256"] == sha256(response.body)
    upstream.wait_for_log("answered", execution=entry["execution"])
    (received,) = upstream.log("received")
    assert ["idempotency-attempt", "77"] in received["headers"]


def test_two_executions_of_the_same_request_answer_differently(connect, upstream):
    first, second = post(connect), post(connect)
    assert first.body != second.body
    assert len(upstream.executions()) == 2


def test_status_headers_and_body_are_as_scripted(connect):
    script = behave(status=418, headers=[["x-a", "1"], ["x-a", "2"]], body="tea")
    response = post(connect, script)
    assert response.status == 418
    assert response.all("x-a") == ["1", "2"]
    assert response.body == b"tea"


@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
def test_a_body_has_the_scripted_size(connect, upstream, size):
    response = post(connect, behave(body_size=size))
    assert response.complete
    assert len(response.body) == size
    assert upstream.executions()[0]["response_sha256"] == sha256(response.body)


def test_trailers_arrive(connect):
    response = post(connect, behave(body="x", trailers=[["x-sum", "42"]]))
    assert response.trailers == [("x-sum", "42")]


def test_request_trailers_are_logged(upstream):
    with Http2Connection(upstream.port) as connection:
        connection.request("POST", "/", body=b"x", trailers=[("x-t", "1")])
    with Http1Connection(upstream.port) as connection:
        connection.send(
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx-t: 2\r\n\r\n"
        )
        connection.read_response()
    logged = [entry["request_trailers"] for entry in upstream.executions()]
    assert logged == [[["x-t", "1"]], [["x-t", "2"]]]
    assert {entry["request_sha256"] for entry in upstream.executions()} == {sha256(b"x")}


@pytest.mark.parametrize(
    ("framing", "header"),
    [("length", "content-length"), ("chunked", "transfer-encoding"), ("close", "connection")],
)
def test_http1_framing_is_as_scripted(upstream, framing, header):
    with Http1Connection(upstream.port) as connection:
        response = connection.request("POST", "/", behave(framing=framing, body="abc"))
        assert response.body == b"abc"
        assert response.header(header)
        if framing == "close":
            assert connection.at_eof()
            assert response.header("content-length") is None


def test_no_body_for_204_and_head(connect):
    assert post(connect, behave(status=204)).body == b""
    with connect() as connection:
        response = connection.request("HEAD", "/")
        assert response.body == b""
        assert int(response.header("content-length")) > 0


def test_an_answer_is_delayed_but_its_effect_is_not(connect, upstream):
    start = time.monotonic()
    with connect() as connection:
        stream = _start(connection, behave(delay_ms=400))
        upstream.wait_for_log("executed")
        assert time.monotonic() - start < 0.4
        assert _finish(connection, stream).status == 200
    assert time.monotonic() - start >= 0.4


def test_a_held_request_is_answered_when_released(connect, upstream):
    with connect() as connection:
        stream = _start(connection, behave(hold="gate"))
        upstream.wait_until_held("gate")
        assert not upstream.log("answered")
        upstream.release("gate")
        assert _finish(connection, stream).status == 200
    assert upstream.held("gate") == 0


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize("trailers", [[], [["x-sum", "42"]]], ids=["plain", "trailers"])
def test_an_answer_held_in_its_middle_continues_when_released(connect, upstream, size, trailers):
    with connect() as connection:
        stream = _start(connection, behave(hold_mid_body="gate", body_size=size, trailers=trailers))
        upstream.wait_until_held("gate")
        assert connection.socket.recv(10, socket.MSG_PEEK)
        assert upstream.log("answered") == []
        upstream.release("gate")
        response = _finish(connection, stream)
    assert (response.complete, len(response.body)) == (True, size)
    assert response.trailers == [tuple(trailer) for trailer in trailers]
    upstream.wait_for_log("answered")


def test_a_client_that_leaves_in_the_middle_of_an_answer_is_logged(connect, upstream):
    with connect() as connection:
        _start(connection, behave(hold_mid_body="gate", body_size=10_000))
        upstream.wait_until_held("gate")
    upstream.wait_for_log("gone")
    assert upstream.log("answered") == []


def test_the_authority_is_logged(connect, upstream):
    with connect() as connection:
        connection.request("POST", "/", host="shop.example")
        kind = type(connection)
    (received,) = upstream.log("received")
    assert received["authority"] == "shop.example"
    assert received["scheme"] == ("http" if kind is Http2Connection else None)


def test_the_log_shows_when_the_client_of_a_held_request_disconnects(connect, upstream):
    with connect() as connection:
        _start(connection, behave(hold="gate"))
        upstream.wait_until_held("gate")
    upstream.wait_for_log("gone")
    assert upstream.held("gate") == 0
    assert len(upstream.executions()) == 1


def test_close_before_read_has_no_effect(connect, upstream):
    response = _cut(connect, "close_before_read")
    assert (response.status, response.complete) == (0, False)
    assert upstream.log("cut")[0]["fault"] == "close_before_read"
    assert not upstream.executions()


@pytest.mark.parametrize("fault", ["close_after_read", "reset_after_read"])
def test_a_cut_after_reading_leaves_the_effect(connect, upstream, fault):
    response = _cut(connect, fault)
    assert (response.status, response.complete) == (0, False)
    assert len(upstream.executions()) == 1
    assert not upstream.log("answered")


@pytest.mark.parametrize("fault", ["close_mid_body", "reset_mid_body"])
def test_a_cut_within_the_body_sends_headers_and_part_of_it(connect, upstream, fault):
    response = _cut(connect, fault, body_size=1000)
    assert response.status == 200
    assert not response.complete
    assert len(response.body) < 1000
    if fault == "close_mid_body":
        assert len(response.body) == 500
    assert len(upstream.executions()) == 1


def test_reset_is_a_tcp_reset_and_close_is_not(upstream):
    outcomes = {}
    for fault in ("close_after_read", "reset_after_read"):
        with socket.create_connection(("127.0.0.1", upstream.port), timeout=10) as raw:
            header = behave(fault=fault)["x-upstream"]
            raw.sendall(f"POST / HTTP/1.1\r\nhost: a\r\nx-upstream: {header}\r\n\r\n".encode())
            try:
                outcomes[fault] = raw.recv(100)
            except ConnectionResetError:
                outcomes[fault] = "reset"
    assert outcomes == {"close_after_read": b"", "reset_after_read": "reset"}


@pytest.mark.parametrize(("fault", "code"), [("refuse_stream", 7), ("reset_after_read", 2)])
def test_http2_streams_are_reset_with_the_fitting_code(upstream, fault, code):
    with Http2Connection(upstream.port) as connection:
        stream = connection.start("POST", "/", behave(fault=fault))
        connection.finish(stream)
        assert connection.reset_codes == {stream: code}
        # The connection itself is still good.
        assert connection.request("POST", "/").status == 200
    assert len(upstream.executions()) == (1 if fault == "refuse_stream" else 2)


def test_http2_goaway_ends_the_connection_without_effect(upstream):
    with Http2Connection(upstream.port) as connection:
        assert not connection.request("POST", "/", behave(fault="goaway")).complete
    assert not upstream.executions()


def test_http2_faults_are_refused_on_http1(upstream):
    with Http1Connection(upstream.port) as connection:
        response = connection.request("POST", "/", behave(fault="goaway"))
    assert response.status == 500
    assert b"goaway needs HTTP/2" in response.body


def test_100_continue_comes_before_the_body_is_sent(upstream):
    with Http1Connection(upstream.port) as connection:
        connection.send(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert connection.socket.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.send(b"ok")
        assert connection.read_response().status == 200
    assert upstream.executions()[0]["request_sha256"] == sha256(b"ok")


def test_100_continue_can_be_withheld(connect):
    headers = {"expect": "100-continue", **behave(send_continue=False)}
    assert post(connect, headers).interim == []
    assert post(connect, {"expect": "100-continue"}).interim == [100]


def test_early_hints_come_before_the_answer(connect):
    assert post(connect, behave(early_hints=True)).interim == [103]


def test_a_script_by_key_is_used_up_step_by_step(connect, upstream):
    upstream.script({"status": 503}, {"status": 201}, key='"a"')
    key = {"idempotency-key": '"a"'}
    other = post(connect, {"idempotency-key": '"b"'})
    assert [other.status] + [post(connect, key).status for _ in range(3)] == [200, 503, 201, 200]


def test_a_script_by_path_can_repeat_and_be_cleared(connect, upstream):
    upstream.script({"status": 500}, {"status": 404}, path="/pay?x=1", repeat=True)
    assert [post(connect).status for _ in range(4)] == [500, 404, 404, 404]
    upstream.clear_scripts()
    assert post(connect).status == 200


def test_a_script_that_does_not_exist_is_refused(connect, upstream):
    with pytest.raises(ValueError, match="no such behaviour: statsu"):
        upstream.script({"statsu": 200})
    response = post(connect, behave(fault="explode"))
    assert response.status == 500
    assert b"explode" in response.body
    assert upstream.log("bad_script")


def test_connections_are_kept_alive(connect):
    with connect() as connection:
        assert [connection.request("POST", "/", {}, b"x").status for _ in range(3)] == [200] * 3


def test_http2_streams_run_side_by_side(upstream):
    with Http2Connection(upstream.port) as connection:
        held = connection.start("POST", "/", behave(hold="gate"))
        assert connection.request("POST", "/").status == 200
        upstream.release("gate")
        assert connection.finish(held).status == 200


def test_the_log_survives_kill_9(connect, upstream):
    post(connect, {"idempotency-key": "a"})
    upstream.process.kill9()
    assert [entry["key"] for entry in upstream.executions()] == ["a"]


def _start(connection, headers) -> int | None:
    return connection.start("POST", "/", headers, b"x")


def _finish(connection, stream) -> WireResponse:
    return connection.read_response() if stream is None else connection.finish(stream)


def _cut(connect, fault: str, **behaviour) -> WireResponse:
    """A request that the upstream cuts off; status 0 when not even a response began."""
    try:
        return post(connect, behave(fault=fault, **behaviour))
    except (EOFError, ConnectionError):
        return WireResponse(0, [], b"", [], complete=False)
