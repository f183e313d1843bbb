"""Listeners change under load, Envoy ends in the middle of requests: none is lost, nothing crashes."""

import pytest
from harness.clients import KeepAlive, Load, Request
from harness.config import EnvoyConfig, ListenerFile
from harness.paths import ENVOY_VERSIONS
from harness.ports import free_port
from harness.upstream import behave
from harness.wait import wait_for
from harness.wire import Http1Connection, Http2Connection

every_envoy = pytest.mark.parametrize("version", ENVOY_VERSIONS)
CRASHES = (
    "Caught Segmentation",
    "Caught Aborted",
    "terminate called",
    "symbol lookup error",
    "assert failure",
)


def _keyed(client_number: int, count: int = 0, **behaviour) -> Request:
    return Request.keyed("/payments", f'"{client_number:016}-{count:016}"', behave(**behaviour))


@every_envoy
@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_a_reload_of_listeners_under_load_loses_no_request(envoy, config, upstream, folder, version, http2):
    config.listen(free_port())
    plain = config.copy()
    listeners = ListenerFile(folder, config)
    # Draining at once makes every answer of an old listener close its connection, so that the clients
    # move over before the drain time ends.
    server = envoy(config, version, arguments=("--drain-time-s", "2", "--drain-strategy", "immediate"))
    load = Load(server.port, lambda client, count: _keyed(client, count, delay_ms=20), http2=http2)
    try:
        for round_number in range(1, 4):
            load.wait_for_more(50)
            operation = {"operation": f"round-{round_number}"}
            changed = plain.copy().filter(policy=operation).route(f"/round-{round_number}", operation)
            listeners.write(changed.listeners)
            server.wait_for_stat("listener_manager.listener_modified", round_number)
            load.wait_for_more(50)
            # The old config must really go, not only the new one come.
            wait_for(lambda: _draining(server) == 0, lambda: f"{_draining(server)} still draining")
    finally:
        answers = load.finish()
    assert [answer for answer in answers if answer.status != 200 or not answer.complete] == []
    assert len(upstream.executions()) == len(answers)
    assert server.stop() == 0
    _no_crash(server)


def _draining(server) -> int:
    return server.stat("listener_manager.total_filter_chains_draining") + server.stat(
        "listener_manager.total_listeners_draining"
    )


@every_envoy
def test_a_refused_listener_leaves_the_old_one_in_service(envoy, config: EnvoyConfig, folder, version):
    config.listen(free_port())
    bad = config.copy().filter(no_such_field=True)
    listeners = ListenerFile(folder, config)
    server = envoy(config, version)
    listeners.write(bad.listeners)
    server.wait_for_stat("listener_manager.lds.update_rejected", 1)
    assert KeepAlive(server.port).send(_keyed(1)).status == 200


@every_envoy
@pytest.mark.parametrize("kind", [Http1Connection, Http2Connection], ids=["http1", "http2"])
def test_sigterm_with_requests_under_way_ends_cleanly(envoy, config, upstream, version, kind):
    server = envoy(config, version)
    count = 8
    connections = [kind(server.port) for _ in range(count)]
    for number, connection in enumerate(connections):
        _start(connection, _keyed(number, hold="gate"))
    upstream.wait_until_held("gate", count)
    assert server.stop() == 0
    _no_crash(server)
    upstream.wait_for_log("gone", count)
    for connection in connections:
        connection.close()


@every_envoy
def test_clients_that_go_away_leave_envoy_in_good_health(envoy, config, upstream, version):
    server = envoy(config, version)
    for number in range(8):
        connection = Http1Connection(server.port)
        _start(connection, _keyed(number, hold="gate"))
        upstream.wait_until_held("gate")
        connection.close()
        upstream.wait_for_log("gone", number + 1)
    assert KeepAlive(server.port).send(_keyed(99)).status == 200
    assert server.stop() == 0
    _no_crash(server)


def _start(connection: Http1Connection | Http2Connection, request: Request) -> None:
    connection.start(request.method, request.path, request.headers, request.body)


def _no_crash(server) -> None:
    assert [text for text in CRASHES if text in server.process.output()] == []
