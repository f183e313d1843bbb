"""Configs change and Envoys end in the middle of requests: no answer is lost, nothing runs twice."""

import collections
import hashlib
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.clients import KeepAlive, Load, Request, Twice
from harness.config import EnvoyConfig, FilterFile, ListenerFile
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS
from harness.ports import free_port
from harness.upstream import behave
from harness.wait import wait_for
from harness.wire import Http1Connection, WireResponse

every_envoy = pytest.mark.parametrize("version", ENVOY_VERSIONS)
LEASE = 3
SWEEP = 1
CRASHES = ("Caught Segmentation", "Caught Aborted", "terminate called", "assert failure")


def _store(records, **more) -> dict:
    return records.store(**{"timeout": f"{LEASE}s", **more})


@pytest.fixture
def base(upstream, records) -> EnvoyConfig:
    config = EnvoyConfig.quickstart().for_test(_store(records)).upstream(upstream.port)
    policy = {"enforcement": "REQUIRED", "lease": f"{LEASE}s", "completion_timeout": f"{LEASE}s"}
    maintenance = {"sweep_interval": f"{SWEEP}s", "reap_interval": f"{SWEEP}s"}
    return config.filter(maintenance=maintenance).route("/any", policy, timeout="60s").listen(free_port())


def _key() -> str:
    return f'"{uuid.uuid4()}"'


def _send(server: Envoy, request: Request) -> WireResponse:
    connection = KeepAlive(server.port)
    answer = connection.send(request)
    connection.close()
    return answer


def _hold(server: Envoy, upstream, keys: list[str], gate: str) -> list[Http1Connection]:
    """Requests that the upstream has begun and not answered."""
    connections = []
    for key in keys:
        connections.append(Http1Connection(server.port))
        connections[-1].start("POST", "/any", {"idempotency-key": key, **behave(hold=gate)}, b"{}")
    upstream.wait_until_held(gate, len(keys))
    return connections


def _nothing_lost(answers: list[WireResponse], upstream, records) -> None:
    """Whole answers alone; one execution of each key; no request that came again ran again."""
    assert [answer for answer in answers if answer.status != 200 or not answer.complete] == []
    executions = collections.Counter(entry["key"] for entry in upstream.executions())
    assert set(executions.values()) == {1}
    ran = {answer.header("x-execution") for answer in answers if not answer.header("idempotent-replayed")}
    replayed = [answer for answer in answers if answer.header("idempotent-replayed")]
    assert len(ran) + len(replayed) == len(answers)
    assert {answer.header("x-execution") for answer in replayed} <= ran
    assert {record.state for record in records.all()} == {"completed"}


def _ended_well(server: Envoy) -> None:
    assert server.stop() == 0
    assert [text for text in CRASHES if text in server.process.output()] == []


def _changes(base: EnvoyConfig, records) -> list[EnvoyConfig]:
    """One after the other: another policy, another store, another cache, and back."""
    return [
        base.copy().filter(policy={"flavor": "STRIPE"}),
        base.copy().filter(store=_store(records, connections=3)),
        base.copy().filter(replay_cache={"max_bytes": "0"}),
        base.copy(),
    ]


# --- Reload


@every_envoy
def test_a_new_listener_under_load_loses_nothing(envoy, base, upstream, records, folder, version):
    plain = base.copy()
    listeners = ListenerFile(folder, base)
    server = envoy(base, version, arguments=("--drain-time-s", "8", "--drain-strategy", "immediate"))
    load = Load(server.port, Twice("/any"), clients=8)
    try:
        for number, changed in enumerate(_changes(plain, records), start=1):
            load.wait_for_more(30)
            held, gate = [_key() for _ in range(3)], f"gate-{number}"
            connections = _hold(server, upstream, held, gate)
            listeners.write(changed.listeners)
            server.wait_for_stat("listener_manager.listener_modified", number)
            load.wait_for_more(30)
            upstream.release(gate)
            answers = [connection.read_response() for connection in connections]
            assert [answer.status for answer in answers] == [200] * 3
            # What the old config stored, the new one replays.
            for key, answer in zip(held, answers, strict=True):
                again = _send(server, Request.keyed("/any", key, behave(hold=gate)))
                assert again.header("idempotent-replayed") == "true"
                assert again.body == answer.body
    finally:
        answers = load.finish()
    _nothing_lost(answers, upstream, records)
    _ended_well(server)


@every_envoy
def test_a_new_filter_config_under_load_loses_nothing(envoy, base, upstream, records, folder, version):
    """By ECDS, where Envoy destroys the old config on a worker."""
    plain = base.copy()
    filters = FilterFile(folder, base)
    server = envoy(base, version)
    load = Load(server.port, Twice("/any"), clients=8)
    kept: list[tuple[str, bytes]] = []
    try:
        for number, changed in enumerate(_changes(plain, records) * 2, start=1):
            load.wait_for_more(30)
            key, gate = _key(), f"gate-{number}"
            (connection,) = _hold(server, upstream, [key], gate)
            filters.write_filter(changed)
            server.wait_for_stat(RELOADED, number + 1)
            load.wait_for_more(30)
            upstream.release(gate)
            answer = connection.read_response()
            assert answer.status == 200
            kept.append((key, answer.body))
    finally:
        answers = load.finish()
    for number, (key, body) in enumerate(kept, start=1):
        again = _send(server, Request.keyed("/any", key, behave(hold=f"gate-{number}")))
        assert (again.header("idempotent-replayed"), again.body) == ("true", body)
    _nothing_lost(answers, upstream, records)
    _ended_well(server)


RELOADED = "extension_config_discovery.http_filter.idempotency.config_reload"


def test_a_request_that_outlives_its_listener_is_unknown_and_never_runs_again(
    envoy, base, upstream, records, folder
):
    plain = base.copy()
    listeners = ListenerFile(folder, base)
    server = envoy(base, arguments=("--drain-time-s", "1", "--drain-strategy", "immediate"))
    key = _key()
    (connection,) = _hold(server, upstream, [key], "gate")
    listeners.write(plain.filter(policy={"flavor": "STRIPE"}).listeners)
    assert connection.at_eof()
    wait_for(lambda: records.one(key).state == "unknown", lambda: f"unknown: {records.all()}")
    answer = _send(server, Request.keyed("/any", key, behave(hold="gate")))
    assert answer.status == 409
    assert b"idempotency_outcome_unknown" in answer.body
    assert len(upstream.executions()) == 1
    _ended_well(server)


# --- The end


@every_envoy
def test_sigterm_under_load_loses_no_answer_and_leaves_no_claim(envoy, base, upstream, records, version):
    server = envoy(base, version)
    sent = Twice("/any", delay_ms=30)
    load = Load(server.port, sent, clients=16)
    load.wait_for_more(100)
    held = [_key() for _ in range(4)]
    connections = _hold(server, upstream, held, "gate")
    _ended_well(server)
    load.stop()
    # At once, not after the lease: everything that was claimed is settled or taken back.
    assert [record for record in records.all() if record.state == "in_progress"] == []
    assert [records.one(key).state for key in held] == ["unknown"] * len(held)
    answers = load.finish()
    cut = [answer for answer in answers if not answer.complete]
    whole = [answer for answer in answers if answer.complete]
    refused = [answer for answer in whole if answer.status != 200]
    # Whoever was cut off and came again at once, before the end, met his own claim.
    assert {answer.status for answer in refused} <= {409}
    assert len(refused) <= len(cut)
    for connection in connections:
        connection.close()
    _retries_run_nothing_twice(envoy(base, version), upstream, records)
    # Every answer that a client got stays what it was.
    got = {answer.body for answer in whole if answer.status == 200}
    stored = {entry["response_sha256"] for entry in upstream.executions()}
    assert {_digest(body) for body in got} <= stored


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _retries_run_nothing_twice(server: Envoy, upstream, records) -> None:
    """Sends every key that the upstream saw once more."""
    before = upstream.executions()
    for entry in before:
        behaviour = dict(upstream.log("received", execution=entry["execution"])[0]["headers"])["x-upstream"]
        answer = _send(server, Request.keyed("/any", entry["key"], {"x-upstream": behaviour}))
        state = records.one(entry["key"]).state
        if state == "completed":
            assert answer.header("idempotent-replayed") == "true"
            assert _digest(answer.body) == entry["response_sha256"]
        else:
            assert (answer.status, state) == (409, "unknown")
    assert upstream.executions() == before


def test_a_graceful_drain_lets_requests_end(envoy, base, upstream, records):
    server = envoy(base, arguments=("--drain-time-s", "20"))
    held = [_key() for _ in range(4)]
    connections = _hold(server, upstream, held, "gate")
    server.admin("/drain_listeners?graceful", "POST")
    upstream.release("gate")
    answers = [connection.read_response() for connection in connections]
    assert [answer.status for answer in answers] == [200] * 4
    _ended_well(server)
    assert [records.one(key).state for key in held] == ["completed"] * 4
    server = envoy(base)
    for key, answer in zip(held, answers, strict=True):
        assert _send(server, Request.keyed("/any", key, behave(hold="gate"))).body == answer.body
    assert len(upstream.executions()) == 4


def test_sigterm_while_the_store_is_silent_ends_all_the_same(envoy, base, upstream, records, toxiproxy):
    proxy = toxiproxy.proxy(records.server.port)
    server = envoy(base.filter(store=_store(records, port=proxy.port, timeout="1s")))
    key = _key()
    connections = _hold(server, upstream, [key], "gate")
    proxy.black_hole()
    _ended_well(server)
    connections[0].close()
    # The claim could not be settled: the next Envoy's sweeper finds it.
    proxy.restore()
    other = envoy(base.filter(store=_store(records)))
    other.wait_for_stat("idempotency.lease.to_unknown", 1, deadline=LEASE + SWEEP + 30)
    assert records.one(key).state == "unknown"
    assert len(upstream.executions()) == 1


@every_envoy
def test_after_a_crash_another_envoy_finds_the_claims(envoy, base, upstream, records, version):
    one = envoy(base, version)
    other = envoy(base.copy().listen(free_port()), version)
    held = [_key() for _ in range(5)]
    connections = _hold(one, upstream, held, "gate")
    requests = [Request.keyed("/any", key, behave(hold="gate")) for key in held]
    one.kill9()
    for connection in connections:
        connection.close()
    with ThreadPoolExecutor(len(held)) as pool:

        def until_unknown(request: Request) -> None:
            while b"idempotency_outcome_unknown" not in (answer := _send(other, request)).body:
                assert answer.status == 409
                assert b"idempotency_in_progress" in answer.body
                time.sleep(0.2)

        list(pool.map(until_unknown, requests))
    wait_for(
        lambda: [record.state for record in records.all()] == ["unknown"] * len(held),
        lambda: f"the sweeper marks them: {records.all()}",
        deadline=LEASE + SWEEP + 30,
    )
    assert other.stat("idempotency.lease.to_unknown") == len(held)
    assert [_send(other, request).status for request in requests] == [409] * len(held)
    assert len(upstream.executions()) == len(held)
