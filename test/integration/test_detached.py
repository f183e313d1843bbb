"""Detached runs: the client leaves, the run goes on, and the next request with the key gets its response.

On every Envoy that we support, and on both stores. What a client that stays gets is in
test_detached_answers.py, how runs end in test_detached_outcomes.py, what can go wrong in
test_detached_faults.py and test_detached_config.py.
"""

import contextlib
import hashlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.config import EnvoyConfig
from harness.ctl import migrate
from harness.paths import ENVOY_VERSIONS
from harness.process import Workspace
from harness.site import PREFIX, Site, code_of, finish, new_key
from harness.wait import wait_for
from harness.wire import WireResponse

PATHS = {"up http1": "/up/", "up http2": "/h2/"}
CLUSTERS = {"/up/": "upstream", "/h2/": "h2"}
WAIT = {"action": "WAIT", "wait": "60s"}
PAUSED = "cluster.{}.upstream_flow_control_paused_reading_total"
# Of a request whose client left, and whose run ended with a whole response after that.
LEFT = {"cut_short": 1, "detached__finished_alone": 1}

every_path = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
every_downstream = pytest.mark.parametrize("http2", [False, True], ids=["down http1", "down http2"])


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
        config.route("/h2/", {"enforcement": "REQUIRED", "detached": {}}, cluster="h2")
        config.private_listener(session_workspace.new_folder("runs") / "runs.sock")

    routes = {"up": {"detached": {}}, "wait": {"detached": {"timeout": "60s"}, "in_flight": WAIT}}
    made = Site(session_workspace, routes, change=change, **options)
    yield made
    made.close()


def ended(name: str, **more: int) -> dict[str, int]:
    """Counters of one request that was claimed and run, and ended so."""
    if "detached__finished_alone" not in more:
        more["detached__handed_over"] = 1
    return {"covered": 1, "claim__created": 1, "detached__runs": 1, f"ended__{name}": 1, **more}


def is_replay(site: Site, key: str, answer: WireResponse, status: int) -> None:
    """Of the only execution, byte for byte; and the upstream was left in peace."""
    (execution,) = site.executions(key)
    assert (answer.status, answer.header("idempotent-replayed")) == (status, "true")
    assert answer.header("x-execution") == str(execution["execution"])
    assert hashlib.sha256(answer.body).hexdigest() == execution["response_sha256"]
    assert site.upstream.log("gone", key=key) == []
    assert len(site.upstream.log("received", key=key)) == 1


def running(site: Site) -> int:
    return site.envoy.stat(PREFIX + "detached.running")


# --- The client stays


@every_path
@every_downstream
def test_a_client_that_stays_gets_its_answer(site, path, http2):
    key = new_key()
    with site.counts(**ended("completed")):
        first = site.send(path, key, http2=http2, status=201)
    assert (first.status, first.header("idempotent-replayed")) == (201, None)
    assert first.header("idempotency-key-expires")
    assert site.state(key) == "completed"
    second = site.send(path, key, http2=http2)
    assert second.body == first.body
    is_replay(site, key, second, 201)


def test_a_connection_works_after_detached_answers(site):
    with site.connect() as connection:
        for behaviour in ({"status": 204}, {"body_size": 3_000_000}, {"status": 500}, {"body_size": 4}):
            answer = finish(connection, site.begin(connection, "/up/", new_key(), **behaviour))
            assert (answer.status, answer.complete) == (behaviour.get("status", 200), True)


# --- The client leaves


@every_path
def test_while_the_upstream_works(site, leave, path):
    key = new_key()
    with site.counts(**ended("completed", **LEFT)):
        with site.running_alone(path, key, leave, status=201) as let_go:
            assert site.state(key) == "in_progress"
            wait_for(lambda: running(site) == 1, "one run is left")
            let_go()
        site.upstream.wait_for_log("answered", key=key)
        site.wait_for_state(key, "completed")
    is_replay(site, key, site.send(path, key), 201)


@every_path
@pytest.mark.parametrize("size", [1, 10_000, 900_000], ids=["after its headers", "small", "large"])
def test_in_the_middle_of_the_response(site, leave, path, size):
    key = new_key()
    with site.counts(**ended("completed", **LEFT)):
        with site.running_alone(path, key, leave, at="hold_mid_body", body_size=size) as let_go:
            let_go()
        site.wait_for_state(key, "completed")
    answer = site.send(path, key, http2=leave.http2)
    assert len(answer.body) == size
    is_replay(site, key, answer, 200)


def test_at_once_after_the_request(site, leave):
    """Whether a run had begun or not: a retry gets the one answer, and nothing is left in doubt."""
    keys = [new_key() for _ in range(8)]
    covered = site.envoy.stat(PREFIX + "covered")
    for key in keys:
        with site.connect(leave.http2) as connection:
            leave(connection, site.begin(connection, "/up/", key))
    site.envoy.wait_for_stat(PREFIX + "covered", covered + len(keys))
    for key in keys:
        # Until then it may still run, or its claim is being taken back.
        answer = wait_for(
            lambda key=key: (got := site.send("/up/", key)).status == 200 and got,
            lambda key=key: f"the answer of {site.record(key)}",
        )
        (execution,) = site.executions(key)
        assert answer.header("x-execution") == str(execution["execution"])
        assert (site.state(key), site.upstream.log("gone", key=key)) == ("completed", [])


def test_while_the_request_is_held_for_its_claim(site, leave):
    """The claim that comes for nobody is taken back: nothing has begun."""
    key = new_key()
    with site.counts(covered=1, cut_short=1):
        with site.connect(leave.http2) as connection, site.store_held():
            with site.until_counted("covered"):
                stream = site.begin(connection, "/up/", key)
            with site.until_counted("cut_short"):
                leave(connection, stream)
        site.wait_for_state(key, None)
    assert site.upstream.log(key=key) == []
    assert site.send("/up/", key).status == 200


def test_while_the_whole_response_is_being_stored(site, leave):
    key = new_key()
    with site.connect(leave.http2) as connection:
        stream = site.begin(connection, "/up/", key, hold=key, status=201)
        site.upstream.wait_until_held(key)
        with site.store_held():
            site.upstream.release(key)
            active = "cluster.upstream.upstream_rq_active"
            wait_for(lambda: site.envoy.stat(active) == 0, "the whole response is with Envoy")
            leave(connection, stream)
            site.wait_for_clients(0)
    site.wait_for_state(key, "completed")
    is_replay(site, key, site.send("/up/", key), 201)


def test_by_half_closing_its_connection(site):
    """HTTP/1.1, after the request: Envoy takes it for gone."""
    key = new_key()
    with site.connect() as connection:
        site.begin(connection, "/up/", key, hold=key, status=201)
        site.upstream.wait_until_held(key)
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.at_eof()
        site.upstream.release(key)
        site.wait_for_state(key, "completed")
    is_replay(site, key, site.send("/up/", key), 201)


def test_the_trailers_are_kept_too(site, leave):
    """As gRPC has them."""
    key = new_key()
    grpc = {"content-type": "application/grpc", "te": "trailers"}
    answer = {
        "headers_sent": [["content-type", "application/grpc"]],
        "body_hex": "0000000002abcd",
        "trailers": [["grpc-status", "0"], ["x-sum", "1"]],
    }
    with site.running_alone("/h2/", key, leave, headers=grpc, body=b"\0\0\0\0\0", **answer) as let_go:
        let_go()
        site.wait_for_state(key, "completed")
    retry = site.send("/h2/", key, http2=True, headers=grpc, body=b"\0\0\0\0\0")
    assert sorted(retry.trailers) == [("grpc-status", "0"), ("x-sum", "1")]
    is_replay(site, key, retry, 200)


# --- Too long to be stored


def is_tombstone(site: Site, path: str, key: str, status: int = 200) -> None:
    record = site.record(key)
    assert (record["state"], record["status"], record["tombstone"]) == ("completed", status, "too_large")
    retry = site.send(path, key)
    assert (retry.status, code_of(retry)) == (409, "idempotency_response_unavailable")
    assert json.loads(retry.body)["original_status"] == status
    assert len(site.executions(key)) == 1
    assert site.upstream.log("gone", key=key) == []


@every_path
@pytest.mark.parametrize("at", ["hold", "hold_mid_body"], ids=["before the response", "within it"])
def test_a_response_too_long_for_the_store_is_a_result(site, leave, path, at):
    key = new_key()
    with site.counts(**ended("tombstone", **LEFT)):
        answer = {"status": 201, "body_size": 3_000_000}
        with site.running_alone(path, key, leave, at=at, **answer) as let_go:
            let_go()
        site.upstream.wait_for_log("answered", key=key)
        site.wait_for_state(key, "completed")
    is_tombstone(site, path, key, 201)


@every_path
def test_a_client_that_reads_nothing_and_leaves_does_not_stop_the_run(site, leave, path):
    """The response fills every buffer on its way, until the client is gone."""
    key = new_key()
    received = f"cluster.{CLUSTERS[path]}.upstream_cx_rx_bytes_total"
    before = site.envoy.stat(received)
    with site.counts(**ended("tombstone", **LEFT)):
        with site.connect(leave.http2) as connection:
            stream = site.begin(connection, path, key, body_size=40_000_000)
            site.envoy.wait_for_stat(received, before + 1_000_000)
            assert site.upstream.log("answered", key=key) == []
            leave(connection, stream)
        site.upstream.wait_for_log("answered", key=key)
        site.wait_for_state(key, "completed")
    is_tombstone(site, path, key)


def test_a_response_waits_for_a_connection_that_is_full_of_another_one(site):
    """Envoy stops reading it from the upstream, although the connection was full before the request came."""
    keys = [new_key(), new_key()]
    full_before, before = (site.envoy.stat(PAUSED.format(cluster)) for cluster in ("h2", "upstream"))
    with site.counts(**{name: 2 * by for name, by in ended("tombstone", **LEFT).items()}):
        with site.connect(http2=True) as connection:
            connection.open_windows()
            site.begin(connection, "/h2/", keys[0], body_size=40_000_000)
            # Full at one MiB, until it is half empty.
            site.envoy.wait_for_stat(PAUSED.format("h2"), full_before + 1)
            wait_for(
                lambda: site.envoy.stat("http.ingress.downstream_cx_tx_bytes_buffered") > 2**19,
                "the connection is full",
            )
            site.begin(connection, "/up/", keys[1], body_size=40_000_000)
            site.envoy.wait_for_stat(PAUSED.format("upstream"), before + 1)
            assert site.upstream.log("answered", key=keys[1]) == []
        for key in keys:
            site.wait_for_state(key, "completed")
    is_tombstone(site, "/h2/", keys[0])
    is_tombstone(site, "/up/", keys[1])


def test_server_sent_events_are_a_result_when_they_have_ended(site, leave):
    key = new_key()
    events = {
        "headers_sent": [["content-type", "text/event-stream"]],
        "body_hex": b"data: 1\n\ndata: 2\n\n".hex(),
    }
    with site.counts(**ended("tombstone", **LEFT)):
        with site.running_alone("/up/", key, leave, at="hold_mid_body", **events) as let_go:
            let_go()
        site.wait_for_state(key, "completed")
    is_tombstone(site, "/up/", key)


# --- Others with the key, meanwhile


@every_downstream
def test_a_retry_meets_the_run_of_a_client_that_left(site, leave, http2):
    key = new_key()
    with site.running_alone("/up/", key, leave, status=201) as let_go:
        with site.counts(covered=3, claim__in_progress=3, in_progress=3):
            for _ in range(3):
                retry = site.send("/up/", key, http2=http2)
                assert (retry.status, code_of(retry)) == (409, "idempotency_in_progress")
                assert retry.header("retry-after")
        with site.counts(covered=1, claim__key_reused=1, key_reused=1):
            assert site.send("/up/", key, http2=http2, body=b"[1]").status == 422
        let_go()
        site.wait_for_state(key, "completed")
    is_replay(site, key, site.send("/up/", key, http2=http2), 201)


@every_downstream
def test_a_retry_that_waits_gets_the_answer(site, leave, http2):
    key = new_key()
    with site.running_alone("/wait/", key, leave, status=201) as let_go, site.connect(http2) as connection:
        with site.until_counted("waited"):
            stream = site.begin(connection, "/wait/", key)
        let_go()
        is_replay(site, key, finish(connection, stream), 201)


def test_a_retry_that_waits_and_leaves_changes_nothing(site, leave):
    key = new_key()
    with site.running_alone("/wait/", key, leave, status=201) as let_go:
        with site.connect(leave.http2) as connection:
            with site.until_counted("waited"):
                stream = site.begin(connection, "/wait/", key)
            leave(connection, stream)
            site.wait_for_clients(0)
        let_go()
        site.wait_for_state(key, "completed")
    is_replay(site, key, site.send("/wait/", key), 201)


# --- Many


def test_of_60_clients_half_leave_and_all_requests_run_once(site):
    keys = [new_key() for _ in range(60)]
    one, other = keys[:30], keys[30:]
    gate = f"gate of {keys[0]}"
    with contextlib.ExitStack() as stack:
        connections = {key: stack.enter_context(site.connect()) for key in one}
        for key, connection in connections.items():
            site.begin(connection, "/up/", key, hold=gate, status=201)
        shared = stack.enter_context(site.connect(http2=True))
        streams = {key: site.begin(shared, "/h2/", key, hold=gate, status=201) for key in other}
        site.upstream.wait_until_held(gate, len(keys), deadline=30)
        assert running(site) == len(keys)
        for key in one[::2]:
            connections.pop(key).close()
        for key in other[::2]:
            shared.reset(streams.pop(key))
        site.wait_for_clients(30)
        assert running(site) == len(keys)
        site.upstream.release(gate)
        answers = {key: connection.read_response() for key, connection in connections.items()}
        answers |= {key: shared.finish(stream) for key, stream in streams.items()}
    assert [answer.status for answer in answers.values()] == [201] * 30
    for key in keys:
        site.wait_for_state(key, "completed")
    wait_for(lambda: running(site) == 0, "no run is left")
    for key in keys:
        retry = site.send("/up/" if key in one else "/h2/", key)
        is_replay(site, key, retry, 201)
        assert key not in answers or retry.body == answers[key].body


def test_clients_that_come_and_go_at_any_moment_leave_nothing_in_doubt(site):
    """Each leaves a little later than the one before, on both sides of the end of its run."""
    keys = [new_key() for _ in range(40)]

    def come_and_go(number: int) -> None:
        http2 = number % 2 == 1
        with site.connect(http2) as connection:
            stream = site.begin(connection, "/h2/" if http2 else "/up/", keys[number], delay_ms=30)
            connection.socket.settimeout(0.001 + number * 0.002)
            finish(connection, stream)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(come_and_go, range(len(keys))))
    for number, key in enumerate(keys):
        path = "/h2/" if number % 2 else "/up/"
        wait_for(
            lambda path=path, key=key: site.send(path, key).status == 200,
            lambda key=key: f"the answer of {site.record(key)}",
        )
        assert (len(site.executions(key)), site.state(key)) == (1, "completed")
        assert site.upstream.log("gone", key=key) == []
    wait_for(lambda: running(site) == 0, "no run is left")
