"""Many requests with one key at once, over two Envoys that share a database: one of them runs."""

import collections
import random
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.clients import KeepAlive, Request
from harness.config import EnvoyConfig
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS
from harness.upstream import behave
from harness.wait import wait_for
from harness.wire import Http2Connection, WireResponse

every_envoy = pytest.mark.parametrize("version", ENVOY_VERSIONS)


@pytest.fixture
def two_envoys(envoy, upstream, records):
    """Two Envoys in front of one upstream, on one PostgreSQL."""

    def start(version: str = ENVOY_VERSIONS[-1], policy: dict | None = None, **filter_fields) -> list[Envoy]:
        config = EnvoyConfig.quickstart().for_test(records.store()).upstream(upstream.port)
        # A waiter's request is held longer than the quickstart's route waits.
        config.route("/shared", {"enforcement": "REQUIRED", **(policy or {})}, timeout="60s")
        return [envoy(config.filter(**filter_fields), version) for _ in range(2)]

    return start


def _key() -> str:
    return f'"{uuid.uuid4()}"'


def _at_once(envoys: list[Envoy], request: Request, count: int) -> list[WireResponse]:
    """As many connections, half to each Envoy, which all send when the last is open."""
    ports = [server.port for server in envoys]
    together = threading.Barrier(count)

    def send(number: int) -> WireResponse:
        connection = KeepAlive(ports[number % len(ports)])
        connection.open()
        together.wait(60)
        answer = connection.send(request)
        connection.close()
        return answer

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(send, range(count)))


def _multiplexed_at_once(envoys: list[Envoy], request: Request, count: int) -> list[WireResponse]:
    """One HTTP/2 connection to each Envoy, with its share of the streams."""
    ports = [server.port for server in envoys]
    together = threading.Barrier(len(ports))

    def send(port: int) -> list[WireResponse]:
        with Http2Connection(port) as connection:
            together.wait(60)
            streams = [
                connection.start(request.method, request.path, request.headers, request.body)
                for _ in range(count // len(ports))
            ]
            return [connection.finish(stream) for stream in streams]

    with ThreadPoolExecutor(len(ports)) as pool:
        return [answer for answers in pool.map(send, ports) for answer in answers]


SENDERS = {"http1": _at_once, "http2": _multiplexed_at_once}


def _sort(answers: list[WireResponse]) -> dict[str, list[WireResponse]]:
    """By what they are: run, replayed or refused. Anything else is a failure."""
    kinds = collections.defaultdict(list)
    for answer in answers:
        assert answer.complete, answer
        if answer.status == 409:
            assert b"idempotency_in_progress" in answer.body
            assert answer.header("retry-after") == "1"
            kinds["refused"].append(answer)
        else:
            assert answer.status == 200, answer
            kinds["replayed" if answer.header("idempotent-replayed") else "run"].append(answer)
    return kinds


@every_envoy
@pytest.mark.parametrize("protocol", SENDERS)
def test_one_of_100_simultaneous_requests_runs(two_envoys, upstream, records, version, protocol):
    envoys, key = two_envoys(version), _key()
    request = Request.keyed("/shared", key, behave(delay_ms=20))
    kinds = _sort(SENDERS[protocol](envoys, request, 100))
    assert len(upstream.executions()) == 1
    assert len(upstream.log("received")) == 1
    (run,) = kinds["run"]
    assert {replay.body for replay in kinds["replayed"]} <= {run.body}
    assert records.one(key).state == "completed"
    # And from now on everybody gets it, from both.
    kinds = _sort(SENDERS[protocol](envoys, request, 10))
    assert [replay.body for replay in kinds["replayed"]] == [run.body] * 10
    assert len(upstream.executions()) == 1
    assert sum(server.stat("idempotency.claim.created") for server in envoys) == 1


def test_while_it_runs_all_others_are_refused(two_envoys, upstream):
    envoys, key = two_envoys(), _key()
    request = Request.keyed("/shared", key, behave(hold="gate"))
    with ThreadPoolExecutor(1) as pool:
        winner = pool.submit(KeepAlive(envoys[0].port).send, request)
        upstream.wait_until_held("gate")
        kinds = _sort(_at_once(envoys, request, 99))
        assert {kind: len(answers) for kind, answers in kinds.items()} == {"refused": 99}
        upstream.release("gate")
        assert winner.result().status == 200
    assert len(upstream.executions()) == 1
    assert sum(server.stat("idempotency.in_progress") for server in envoys) == 99


def test_waiters_of_both_envoys_get_the_answer(two_envoys, upstream):
    envoys, key = two_envoys(policy={"in_flight": {"action": "WAIT", "wait": "60s"}}), _key()
    request = Request.keyed("/shared", key, behave(hold="gate"))
    with ThreadPoolExecutor(1) as pool:
        everybody = pool.submit(_at_once, envoys, request, 40)
        wait_for(lambda: sum(server.stat("idempotency.waited") for server in envoys) == 39, "39 wait", 30)
        for server in envoys:
            server.wait_for_stat("idempotency.waiting", 1)
        upstream.release("gate")
        kinds = _sort(everybody.result())
    (run,) = kinds["run"]
    assert [replay.body for replay in kinds["replayed"]] == [run.body] * 39
    assert len(upstream.executions()) == 1
    for server in envoys:
        wait_for(lambda server=server: server.stat("idempotency.waiting") == 0, "nobody waits")
        assert server.stat("idempotency.in_flight") == 0


@pytest.mark.parametrize("action", ["REJECT", "WAIT"])
def test_many_keys_with_duplicates_under_load(two_envoys, upstream, records, action):
    in_flight = {"action": action, **({"wait": "30s"} if action == "WAIT" else {})}
    envoys = two_envoys(policy={"in_flight": in_flight})
    ports = [server.port for server in envoys]
    seed = random.randrange(1 << 32)
    print("seed", seed)
    keys = [_key() for _ in range(60)]
    queue = [key for key in keys for _ in range(8)]
    random.Random(seed).shuffle(queue)
    local = threading.local()

    def send(item: tuple[int, str]) -> tuple[str, WireResponse]:
        if not hasattr(local, "connections"):
            local.connections = [KeepAlive(port) for port in ports]
        number, key = item
        request = Request.keyed("/shared", key, behave(delay_ms=number % 20))
        return key, local.connections[number % len(ports)].send(request)

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(send, enumerate(queue)))
    by_key = collections.defaultdict(list)
    for key, answer in answers:
        by_key[key].append(answer)
    executions = collections.Counter(entry["key"] for entry in upstream.executions())
    assert executions == dict.fromkeys(keys, 1)
    for key in keys:
        kinds = _sort(by_key[key])
        (run,) = kinds["run"]
        assert {replay.body for replay in kinds["replayed"]} <= {run.body}
        assert action == "REJECT" or not kinds["refused"]
    assert [record.state for record in records.all()] == ["completed"] * len(keys)


def test_failures_are_tried_again_by_one_at_a_time(two_envoys, upstream):
    """Each 503 lets exactly one of those who come next run."""
    envoys, key = two_envoys(), _key()
    upstream.script({"status": 503}, {"status": 429}, {"status": 500}, {"status": 200}, key=key)
    statuses: list[int] = []
    while 200 not in statuses:
        answers = _at_once(envoys, Request.keyed("/shared", key), 20)
        statuses += [answer.status for answer in answers]
        assert {answer.status for answer in answers} <= {200, 409, 429, 500, 503}
    assert [entry["status"] for entry in upstream.executions()] == [503, 429, 500, 200]
    assert len({entry["attempt"] for entry in upstream.executions()}) == 4
    assert [statuses.count(status) for status in (503, 429, 500)] == [1, 1, 1]


def test_another_request_under_the_key_is_refused_in_the_middle_of_the_crowd(two_envoys, upstream):
    envoys, key = two_envoys(), _key()
    with ThreadPoolExecutor(1) as pool:
        winner = pool.submit(
            KeepAlive(envoys[0].port).send, Request.keyed("/shared", key, behave(hold="gate"))
        )
        upstream.wait_until_held("gate")
        answers = _at_once(envoys, Request.keyed("/shared", key, body=b'{"other":1}'), 20)
        assert [answer.status for answer in answers] == [422] * 20
        upstream.release("gate")
        assert winner.result().status == 200
    assert len(upstream.executions()) == 1
