"""What can go wrong with detached runs: no listener, strangers on its socket, Envoy's end."""

import contextlib
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.config import EnvoyConfig, ListenerFile
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS
from harness.ports import free_port
from harness.process import Workspace
from harness.relay import Relay
from harness.site import PREFIX, TENANT, Site, code_of, finish, new_key, patience
from harness.wire import Http1Connection

DETACHED = {"detached": {}}
OVERLOADED = (503, "idempotency_overloaded")
UNAVAILABLE = (503, "idempotency_detached_unavailable")
# A claim that is taken back, since no run began.
NOT_STARTED = {
    "covered": 1,
    "claim__created": 1,
    "ended__released": 1,
    "detached__not_started": 1,
    "detached_unavailable": 1,
}
TOO_MANY = {**NOT_STARTED, "detached_unavailable": 0, "overloaded": 1}

every_downstream = pytest.mark.parametrize("http2", [False, True], ids=["down http1", "down http2"])
either_store = pytest.mark.parametrize("kind", ["sqlite", "postgres"])


def runs(site: Site) -> Path:
    """The socket of the private listener."""
    return Path(site.config.listeners[-1]["address"]["pipe"]["path"])


def answer_of(response) -> tuple[int, str]:
    return response.status, code_of(response)


@pytest.fixture(scope="module", params=ENVOY_VERSIONS)
def site(request, session_workspace: Workspace):
    def change(config: EnvoyConfig) -> None:
        config.filter(maintenance={"enabled": False})
        config.private_listener(session_workspace.new_folder("runs") / "runs.sock")

    made = Site(session_workspace, {"up": DETACHED, "attached": {}}, change=change, version=request.param)
    yield made
    made.close(may_complain=True)


# --- Strangers on the private socket

TOKEN = "idempotency-run"
STRANGERS = {
    "no token": [],
    "an empty token": [(TOKEN, "")],
    "a short token": [(TOKEN, "1")],
    "a random token": [(TOKEN, secrets.token_hex(16))],
    "a longer random token": [(TOKEN, secrets.token_hex(32))],
    "a very long token": [(TOKEN, "a" * 20_000)],
    "a strange token": [(TOKEN, "../ %00 ~")],
    "two tokens": [(TOKEN, secrets.token_hex(16)), (TOKEN, secrets.token_hex(16))],
    "a name with underscores": [("idempotency_run", secrets.token_hex(16))],
}


@pytest.mark.parametrize("case", STRANGERS)
def test_a_stranger_runs_nothing(site, case):
    """On a detached route, on an attached one, and where no policy is."""
    for path in ("/up/", "/attached/", "/other"):
        key = new_key()
        with site.counts(detached__strays=1), Http1Connection(runs(site)) as connection:
            fields = [("idempotency-key", key), (TENANT, "acme"), *STRANGERS[case]]
            answer = connection.request("POST", path, fields, b"{}")
        assert answer.status in (403, 404)
        assert site.upstream.log(key=key) == []
        assert site.record(key) is None


GARBAGE = {
    "nothing": b"",
    "half a request": b"POST /up/ HTTP/1.1\r\nhost: test\r\nidempotency-ru",
    "zeros": bytes(100_000),
    "a TLS greeting": bytes.fromhex("16030100c8010000c40303"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_does_no_harm(site, case):
    with site.counts(), Http1Connection(runs(site)) as connection, contextlib.suppress(ConnectionError):
        connection.send(GARBAGE[case])
    assert site.send("/up/", new_key()).status == 200


def test_strangers_that_say_nothing_leave_room_for_runs(site):
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(Http1Connection(runs(site)))
        for _ in range(4):
            assert site.send("/up/", new_key()).status == 200


def test_the_socket_is_for_envoy_alone(site):
    assert stat.S_IMODE(os.stat(runs(site)).st_mode) == 0o600


@every_downstream
@pytest.mark.parametrize("path", ["/up/", "/attached/"], ids=["detached", "attached"])
@pytest.mark.parametrize("name", [TOKEN, "idempotency_run"])
def test_a_forged_token_does_not_reach_the_upstream(site, path, http2, name):
    key = new_key()
    more = {"detached__runs": 1, "detached__handed_over": 1} if path == "/up/" else {}
    with site.counts(covered=1, claim__created=1, ended__completed=1, **more):
        assert site.send(path, key, http2=http2, headers={name: secrets.token_hex(16)}).status == 200
    (received,) = site.upstream.log("received", key=key)
    assert {field for field, _ in received["headers"]}.isdisjoint({TOKEN, "idempotency_run"})


def test_a_token_counts_once(workspace):
    """Whoever sees one can do nothing with it, neither while its run goes on nor afterwards."""
    folder = workspace.new_folder("runs")
    seen, real = folder / "seen.sock", folder / "real.sock"
    relay = Relay(seen, real)

    def change(config: EnvoyConfig) -> None:
        config.private_listener(real).filter(private_listener={"path": str(seen)})

    site = Site(workspace, {"up": DETACHED}, change=change)
    key = new_key()

    def send_again() -> None:
        (token,) = set(re.findall(rb"(?i)idempotency-run: *([^\r\n]+)", relay.requests()))
        fields = [("idempotency-key", key), (TENANT, "acme"), (TOKEN, token.decode())]
        with Http1Connection(real) as connection:
            assert connection.request("POST", "/up/", fields, b"{}").status in (403, 404)

    with site.running("/up/", key, status=201) as let_go:
        send_again()
        assert let_go().status == 201
    send_again()
    assert len(site.upstream.log("received", key=key)) == 1
    assert site.send("/up/", key).header("idempotent-replayed") == "true"
    site.close(may_complain=True)
    relay.close()


# --- No private listener


@contextlib.contextmanager
def nothing(path: Path) -> Iterator[None]:
    yield


@contextlib.contextmanager
def left_behind(path: Path) -> Iterator[None]:
    """The file of a socket whose owner is gone."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    yield


@contextlib.contextmanager
def no_socket(path: Path) -> Iterator[None]:
    path.write_text("a plain file")
    yield


@contextlib.contextmanager
def full(path: Path) -> Iterator[None]:
    """Somebody listens and accepts nobody, and the queue is full."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(str(path))
        server.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                client = stack.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(str(path))
        yield


@contextlib.contextmanager
def silent(path: Path) -> Iterator[None]:
    """Somebody listens and takes nothing over."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(64)
        yield


MISSING = {case.__name__.replace("_", " "): case for case in (nothing, left_behind, no_socket, full)}


@pytest.fixture
def make_lone_site(workspace) -> Iterator:
    """A Site whose filter looks for the private listener where there is none of Envoy."""
    sites: list[Site] = []

    def make(path: Path, routes: dict[str, dict], version: str = ENVOY_VERSIONS[-1], **more) -> Site:
        field = {"path": str(path), "accept_timeout": "0.5s"}

        def change(config: EnvoyConfig) -> None:
            if "real" in more:
                config.private_listener(more["real"])
            config.filter(private_listener=field)

        sites.append(Site(workspace, routes, change=change, version=version))
        return sites[-1]

    yield make
    for site in sites:
        site.close(may_complain=True)


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
@pytest.mark.parametrize("case", MISSING)
def test_without_the_listener_nothing_runs(make_lone_site, workspace, case, version):
    path = workspace.new_folder("runs") / "runs.sock"
    with MISSING[case](path):
        site = make_lone_site(path, {"up": DETACHED, "attached": {}}, version)
        for http2 in (False, True):
            key = new_key()
            # And again: the claim was taken back.
            for _ in range(2):
                with site.counts(**(TOO_MANY if case == "full" else NOT_STARTED)):
                    answer = site.send("/up/", key, http2=http2)
                assert answer_of(answer) == (OVERLOADED if case == "full" else UNAVAILABLE)
                assert answer.header("retry-after")
                assert site.record(key) is None
        assert site.upstream.log() == []
        assert site.envoy.stat(PREFIX + "detached.running") == 0
        # The others do not need it.
        assert site.send("/attached/", new_key()).status == 200


def test_a_store_that_may_fail_open_makes_no_difference(make_lone_site, workspace):
    path = workspace.new_folder("runs") / "runs.sock"
    site = make_lone_site(path, {"up": {**DETACHED, "on_store_failure": "FAIL_OPEN"}})
    assert answer_of(site.send("/up/", new_key())) == UNAVAILABLE
    assert site.upstream.log() == []


def test_grpc_clients_get_a_retryable_status(make_lone_site, workspace):
    site = make_lone_site(workspace.new_folder("runs") / "runs.sock", {"up": DETACHED})
    answer = site.send("/up/", new_key(), http2=True, headers={"content-type": "application/grpc"})
    assert (answer.status, answer.header("grpc-status")) == (200, "14")


def test_a_listener_that_never_took_a_run_over_may_have_forwarded_it(make_lone_site, workspace):
    """Nobody knows what is at the other end: it may be a router without our filter."""
    path = workspace.new_folder("runs") / "runs.sock"
    with silent(path):
        site = make_lone_site(path, {"up": DETACHED})
        key = new_key()
        assert answer_of(site.send("/up/", key)) == (502, "idempotency_detached_lost")
        assert answer_of(site.send("/up/", key)) == (409, "idempotency_outcome_unknown")
        assert site.state(key) == "unknown"
        assert site.upstream.log() == []
        complaints = site.envoy.module_complaints()
        assert any("check that it has the HTTP filter idempotency_run" in line for line in complaints)


def test_a_client_that_leaves_while_no_listener_takes_over_leaves_the_key_free(
    make_lone_site, workspace, leave
):
    path = workspace.new_folder("runs") / "runs.sock"
    with full(path):
        site = make_lone_site(path, {"up": DETACHED})
        key = new_key()
        with site.connect(leave.http2) as connection:
            with site.until_counted("claim.created"):
                stream = site.begin(connection, "/up/", key)
            leave(connection, stream)
        site.envoy.wait_for_stat(PREFIX + "ended.released", 1)
        site.wait_for_state(key, None)
        assert site.upstream.log() == []


def test_a_config_that_goes_while_no_listener_takes_over_leaves_the_key_free(workspace, leave):
    """The client has left, and nothing but the run that waits needs the old config."""
    folder = workspace.new_folder("runs")
    path, real, deaf = folder / "runs.sock", folder / "real.sock", folder / "deaf.sock"
    path.symlink_to(real)
    files: list[ListenerFile] = []
    plain: list[EnvoyConfig] = []

    def change(config: EnvoyConfig) -> None:
        config.private_listener(real).filter(private_listener={"path": str(path), "accept_timeout": "60s"})
        plain.append(config.copy())
        files.append(ListenerFile(folder, config))

    site = Site(
        workspace,
        {"up": DETACHED},
        change=change,
        arguments=("--drain-time-s", "1", "--drain-strategy", "immediate"),
    )
    # Now it is known to have the right filter.
    assert site.send("/up/", new_key()).status == 200
    key = new_key()
    with silent(deaf):
        path.unlink()
        path.symlink_to(deaf)
        with site.connect(leave.http2) as connection:
            with site.until_counted("claim.created"):
                stream = site.begin(connection, "/up/", key)
            leave(connection, stream)
        files[0].write(plain[0].filter(replay_cache={"max_bytes": 0}).listeners)
        site.envoy.wait_for_stat("listener_manager.listener_modified", 1)
        site.wait_for_state(key, None)
    path.unlink()
    path.symlink_to(real)
    site.port = site.envoy.port
    assert site.send("/up/", key).status == 200
    assert len(site.executions(key)) == 1


def test_when_the_listener_is_back_a_retry_runs(make_lone_site, workspace):
    folder = workspace.new_folder("runs")
    path, real = folder / "runs.sock", folder / "real.sock"
    site = make_lone_site(path, {"up": DETACHED}, real=real)
    key = new_key()
    assert answer_of(site.send("/up/", key)) == UNAVAILABLE
    path.symlink_to(real)
    assert site.send("/up/", key, status=201).status == 201
    assert site.send("/up/", key).header("idempotent-replayed") == "true"
    assert len(site.executions(key)) == 1


def test_a_listener_without_the_run_filter_runs_nothing_twice(workspace):
    """A mistake in the config: the request goes on to the upstream, and nobody knows of the run."""

    def change(config: EnvoyConfig) -> None:
        config.private_listener(workspace.new_folder("runs") / "runs.sock")
        chain = config.listeners[-1]["filter_chains"][0]
        del chain["filters"][0]["typed_config"]["http_filters"][0]

    site = Site(workspace, {"up": DETACHED}, change=change)
    key = new_key()
    for _ in range(3):
        site.send("/up/", key)
    assert len(site.upstream.log("received", key=key)) <= 1


def test_a_route_that_turns_the_run_filter_off_runs_nothing_twice(workspace):
    """Another mistake, and the listener has taken over runs of other routes."""

    def change(config: EnvoyConfig) -> None:
        off = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": True}
        config.route("/off/", {"enforcement": "REQUIRED", **DETACHED})
        config.routes[0]["typed_per_filter_config"]["idempotency_run"] = off
        config.private_listener(workspace.new_folder("runs") / "runs.sock")

    site = Site(workspace, {"up": DETACHED}, change=change)
    assert site.send("/up/", new_key()).status == 200
    key = new_key()
    assert answer_of(site.send("/off/", key)) == (502, "idempotency_detached_lost")
    for _ in range(2):
        assert answer_of(site.send("/off/", key)) == (409, "idempotency_outcome_unknown")
    assert len(site.upstream.log("received", key=key)) == 1


def test_no_more_runs_than_allowed(workspace, leave):
    """A run counts until it ends, also without its client."""

    def change(config: EnvoyConfig) -> None:
        config.private_listener(workspace.new_folder("runs") / "runs.sock", max_runs=1)

    site = Site(workspace, {"up": DETACHED}, change=change)
    first, second = new_key(), new_key()
    with site.running_alone("/up/", first, leave) as let_go:
        refused = site.send("/up/", second)
        assert refused.status == 503
        assert refused.header("retry-after")
        site.wait_for_state(second, None)
        assert site.upstream.log(key=second) == []
        let_go()
        site.wait_for_state(first, "completed")
    site.wait_until_idle()
    assert site.send("/up/", second).status == 200
    site.close(may_complain=True)


# --- The end of Envoy

SHORT = {**DETACHED, "lease": "2s", "completion_timeout": "1s"}


@pytest.fixture
def make_site(workspace, request):
    """With a short lease, and a sweeper that looks for what has lost it."""

    def make(kind: str = "sqlite", port: int = 0, **options) -> Site:
        routes, store = {"up": SHORT}, None
        if kind == "postgres":
            conninfo = request.getfixturevalue("migrated")
            store = {"postgres": {"conninfo": conninfo, "timeout": patience(routes)}}

        def change(config: EnvoyConfig) -> None:
            config.filter(maintenance={"sweep_interval": "1s", "reap_interval": "1s"})
            config.listen(port).private_listener(workspace.new_folder("runs") / "runs.sock")

        return Site(workspace, routes, store=store, change=change, **options)

    return make


def is_unknown(site: Site, key: str) -> None:
    assert answer_of(site.send("/up/", key)) == (409, "idempotency_outcome_unknown")
    assert len(site.executions(key)) == 1


@either_store
def test_a_run_longer_than_its_lease_keeps_its_claim_without_its_client(make_site, kind, leave):
    site = make_site(kind)
    key = new_key()
    with site.running_alone("/up/", key, leave, status=201) as let_go:
        # One in each third of a lease.
        renewed = site.envoy.stat(PREFIX + "heartbeat.extended")
        site.envoy.wait_for_stat(PREFIX + "heartbeat.extended", renewed + 5, deadline=30)
        assert code_of(site.send("/up/", key)) == "idempotency_in_progress"
        let_go()
        site.wait_for_state(key, "completed")
    assert site.send("/up/", key).status == 201
    assert site.envoy.stat(PREFIX + "lease.to_unknown") == 0
    assert len(site.executions(key)) == 1
    site.close()


@either_store
def test_after_a_kill_the_key_is_unknown_when_its_lease_is_over(make_site, kind, leave):
    site = make_site(kind)
    stays, left = new_key(), new_key()
    with site.running_alone("/up/", left, leave), site.running("/up/", stays):
        site.envoy.kill9()
        site.upstream.wait_for_log("gone", 2)
    # The socket's file is still there.
    assert runs(site).exists()
    site.start()
    for key in (stays, left):
        site.wait_for_state(key, "unknown", deadline=30)
        is_unknown(site, key)
    assert site.send("/up/", new_key()).status == 200


@either_store
@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_sigterm_leaves_no_run_in_progress(make_site, kind, leave, version):
    """At once, not after the lease."""
    site = make_site(kind, version=version)
    stays, left, done = new_key(), new_key(), new_key()
    assert site.send("/up/", done).status == 200
    with site.running_alone("/up/", left, leave), site.running("/up/", stays):
        assert site.envoy.stop() == 0
        assert {key: site.state(key) for key in (stays, left, done)} == {
            stays: "unknown",
            left: "unknown",
            done: "completed",
        }
    site.start()
    for key in (stays, left):
        is_unknown(site, key)
    assert site.send("/up/", done).header("idempotent-replayed") == "true"


def test_sigterm_in_the_midst_of_many_runs_ends_cleanly(make_site):
    site = make_site()
    keys = [new_key() for _ in range(40)]
    with contextlib.ExitStack() as stack:
        for number, key in enumerate(keys):
            connection = stack.enter_context(site.connect())
            site.begin(connection, "/up/", key, **({"hold": "gate"} if number % 2 else {"delay_ms": 50}))
            if number % 4 > 1:
                connection.close()
        site.upstream.wait_until_held("gate", 10)
        assert site.envoy.stop() == 0
    assert set(site.states()) <= {"unknown", "completed"}
    site.start()
    for key in keys:
        site.send("/up/", key)
        assert len(site.executions(key)) <= 1


def test_to_drain_and_wait_loses_no_run(make_site, leave):
    """As docs/detached.md tells operators, with clients that go on sending."""
    site = make_site(arguments=("--drain-time-s", "30"))
    left = new_key()
    with site.running_alone("/up/", left, leave, status=201) as go_on:
        site.envoy.admin("/drain_listeners?graceful", "POST")
        late = [new_key() for _ in range(10)]
        for key in late:
            with site.connect() as connection:
                site.begin(connection, "/up/", key, delay_ms=100)
                site.upstream.wait_for_log("received", key=key)
        assert site.envoy.stat(PREFIX + "detached.running") > 0
        go_on()
        site.wait_until_idle()
        assert site.envoy.stop() == 0
    assert site.states() == {"completed": 11}
    site.start()
    for key in (left, *late):
        assert site.send("/up/", key).header("idempotent-replayed") == "true"
        assert len(site.executions(key)) == 1


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_a_hot_restart_runs_nothing_twice(make_site, workspace, version):
    """The old process finishes its runs, and starts none, since the new one has its socket."""
    base = 1 + free_port()
    drain = ("--drain-time-s", "5", "--parent-shutdown-time-s", "10", "--drain-strategy", "immediate")
    site = make_site(arguments=drain, epoch=(base, 0), version=version, port=free_port())
    old = site.envoy
    assert site.send("/up/", new_key()).status == 200
    stays, left, lost, late, new = (new_key() for _ in range(5))
    with contextlib.ExitStack() as stack:
        held, gone, cut, kept = (stack.enter_context(site.connect()) for _ in range(4))
        assert finish(kept, site.begin(kept, "/up/", new_key())).status == 200
        for count, (connection, key, gate) in enumerate([(held, stays, "a"), (gone, left, "a")], start=1):
            site.begin(connection, "/up/", key, hold=gate, status=201)
            site.upstream.wait_until_held(gate, count)
        site.begin(cut, "/up/", lost, hold="for ever")
        site.upstream.wait_until_held("for ever")
        gone.close()
        site.envoy = Envoy(workspace, site.config, version, arguments=drain, epoch=(base, 1))
        # A connection of the old process.
        assert answer_of(finish(kept, site.begin(kept, "/up/", late))) == UNAVAILABLE
        site.wait_for_state(late, None)
        assert site.upstream.log(key=late) == []
        assert site.send("/up/", new, status=201).status == 201
        site.upstream.release("a")
        assert finish(held, None).status == 201
        for key in (stays, left, new):
            site.wait_for_state(key, "completed")
            answer = site.send("/up/", key)
            assert (answer.status, answer.header("idempotent-replayed")) == (201, "true")
            assert len(site.executions(key)) == 1
        assert old.process.wait(30) == 0
    # It outlived its process.
    site.wait_for_state(lost, "unknown")
    is_unknown(site, lost)
    assert site.send("/up/", late).status == 200
    assert site.envoy.stop() == 0


def test_a_graceful_drain_lets_runs_end(make_site, leave):
    site = make_site(arguments=("--drain-time-s", "20"))
    stays, left = new_key(), new_key()
    with site.running_alone("/up/", left, leave, status=201) as go_on:
        with site.running("/up/", stays, status=201) as let_go:
            site.envoy.admin("/drain_listeners?graceful", "POST")
            assert let_go().status == 201
        go_on()
        site.wait_for_state(left, "completed")
    assert site.envoy.stop() == 0
    site.start()
    for key in (stays, left):
        answer = site.send("/up/", key)
        assert (answer.status, answer.header("idempotent-replayed")) == (201, "true")
        assert len(site.executions(key)) == 1
