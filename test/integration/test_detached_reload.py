"""Configs change in the midst of detached runs: every run that has begun ends, is stored and is replayed.

By LDS, RDS, CDS and ECDS, with clients that wait and clients that have left. The private listener is in the
bootstrap, as docs/detached.md says, so no update drains it.
"""

import collections
import contextlib
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.clients import Load, Twice
from harness.config import ClusterFile, EnvoyConfig, FilterFile, ListenerFile, RouteFile
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS
from harness.ports import free_port
from harness.site import PREFIX, TENANT, Site, finish, new_key
from harness.wait import wait_for
from harness.wire import WireResponse

every_envoy = pytest.mark.parametrize("version", ENVOY_VERSIONS)
# As Site sends them.
HEADERS = {TENANT: "acme", "content-type": "application/json"}


# --- Updates. Each knows how to put a part of the config into a file, and how to change it.


class Listener:
    """Of the clients: with another policy, another store, another cache, and as it was."""

    def __init__(self, folder, config: EnvoyConfig) -> None:
        self.plain = config.copy()
        self.file = ListenerFile(folder, config)

    def changes(self) -> list[EnvoyConfig]:
        store = self.plain.managers[0]["http_filters"][0]["typed_config"]["filter_config"]["value"]["store"]
        return [
            self.plain.copy().filter(policy={"flavor": "STRIPE"}),
            self.plain.copy().filter(store={"sqlite": {**store["sqlite"], "timeout": "19s"}}),
            self.plain.copy().filter(replay_cache={"max_bytes": "0"}),
            self.plain.copy(),
        ]

    def write(self, changed: EnvoyConfig) -> None:
        self.file.write(changed.clients_listeners)

    @staticmethod
    def seen(envoy: Envoy) -> int:
        return envoy.stat("listener_manager.listener_modified")


class Filter(Listener):
    """The filter's config alone, with the same changes."""

    def __init__(self, folder, config: EnvoyConfig) -> None:
        self.plain = config.copy()
        self.file = FilterFile(folder, config)

    def write(self, changed: EnvoyConfig) -> None:
        self.file.write_filter(changed)

    @staticmethod
    def seen(envoy: Envoy) -> int:
        return envoy.stat("extension_config_discovery.http_filter.idempotency.config_reload") - 1


class Routes:
    """With another timeout, another policy, one more route, and as they were."""

    def __init__(self, folder, config: EnvoyConfig) -> None:
        self.plain = config.copy()
        self.file = RouteFile(folder, config)

    def changes(self) -> list[EnvoyConfig]:
        timeout = self.plain.copy()
        timeout.routes[0]["route"]["timeout"] = "40s"
        policy = {"enforcement": "REQUIRED", "detached": {"timeout": "50s"}}
        return [
            timeout,
            self.plain.copy().route("/up/", policy, timeout="60s"),
            self.plain.copy().route("/more/", {}),
            self.plain.copy(),
        ]

    def write(self, changed: EnvoyConfig) -> None:
        self.file.write([changed.managers[0]["route_config"]])

    @staticmethod
    def seen(envoy: Envoy) -> int:
        return max(envoy.stats("rds.*config_reload$").values()) - 1


class Clusters:
    """All of them: other timeouts, other limits, and as they were."""

    def __init__(self, folder, config: EnvoyConfig) -> None:
        self.plain = config.copy()
        self.file = ClusterFile(folder, config)

    def changes(self) -> list[EnvoyConfig]:
        timeouts = [self.plain.copy(), self.plain.copy()]
        for config, timeout in zip(timeouts, ("3s", "4s"), strict=True):
            for cluster in config.clusters:
                cluster["connect_timeout"] = timeout
        limits = self.plain.copy()
        limits.clusters[0]["circuit_breakers"] = {"thresholds": [{"max_requests": 5000}]}
        return [*timeouts, limits, self.plain.copy()]

    def write(self, changed: EnvoyConfig) -> None:
        self.file.write(changed.clusters)

    @staticmethod
    def seen(envoy: Envoy) -> int:
        return envoy.stat("cluster_manager.cds.update_success") - 1


UPDATES = [Listener, Filter, Routes, Clusters]


# --- Runs


@pytest.fixture
def make_site(workspace):
    def make(kind: type, version: str, *arguments: str) -> tuple[Site, Listener | Routes | Clusters]:
        updates = []

        def change(config: EnvoyConfig) -> None:
            config.filter(maintenance={"enabled": False})
            config.listen(free_port()).private_listener(workspace.new_folder("runs") / "runs.sock")
            config.routes[0]["route"]["timeout"] = "60s"
            updates.append(kind(workspace.new_folder("updates"), config))

        site = Site(workspace, {"up": {"detached": {}}}, change=change, version=version, arguments=arguments)
        return site, updates[0]

    return make


class Held:
    """Four runs that the upstream holds: two clients wait, and two have left; HTTP/1.1 and HTTP/2."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.gate = new_key()
        self._stack = contextlib.ExitStack()
        self.waiting: dict[str, Callable[[], WireResponse]] = {}
        self.left: list[str] = []
        for http2 in (False, True):
            key, connection, stream = self._begin(http2)
            self.waiting[key] = lambda connection=connection, stream=stream: finish(connection, stream)
            key, connection, stream = self._begin(http2)
            self.left.append(key)
            with site.until_counted("cut_short"):
                if http2:
                    connection.reset(stream)
                else:
                    connection.close()

    def _begin(self, http2: bool):
        key = new_key()
        connection = self._stack.enter_context(self._site.connect(http2))
        count = self._site.upstream.held(self.gate)
        stream = self._site.begin(connection, "/up/", key, hold=self.gate, status=201)
        self._site.upstream.wait_until_held(self.gate, count + 1)
        return key, connection, stream

    @property
    def keys(self) -> list[str]:
        return [*self.waiting, *self.left]

    def let_go(self) -> None:
        self._site.upstream.release(self.gate)

    def answers(self) -> list[WireResponse]:
        """Of the clients that waited."""
        answers = [read() for read in self.waiting.values()]
        self._stack.close()
        return answers

    def are_replayed(self) -> None:
        for key in self.keys:
            self._site.wait_for_state(key, "completed")
            (execution,) = self._site.executions(key)
            is_replayed(self._site, execution)


def is_replayed(site: Site, execution: dict) -> None:
    """Byte for byte."""
    answer = site.send("/up/", execution["key"])
    if answer.header("idempotent-replayed") != "true":
        raise AssertionError((answer, site.upstream.log(key=execution["key"]), site.counters()))
    assert hashlib.sha256(answer.body).hexdigest() == execution["response_sha256"]


@contextlib.contextmanager
def load(site: Site) -> Iterator[Load]:
    """Clients that wait for their answers, and clients that do not. Afterwards nothing is lost."""
    patient = Load(site.port, Twice("/up/", headers=HEADERS), clients=6)
    hasty = Load(site.port, Twice("/up/", delay_ms=200, headers=HEADERS), clients=6, timeout=0.05)
    try:
        yield patient
    finally:
        answers = patient.finish()
        hasty.finish()
    assert [answer for answer in answers if answer.status != 200 or not answer.complete] == []
    site.wait_until_idle()
    assert site.envoy.stat(PREFIX + "detached.finished_alone") > 10
    nothing_is_lost(site)


def nothing_is_lost(site: Site) -> None:
    executions = site.upstream.executions()
    assert set(collections.Counter(entry["key"] for entry in executions).values()) == {1}
    wait_for(lambda: set(site.states()) == {"completed"}, lambda: f"all completed, but {site.states()}")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda execution: is_replayed(site, execution), executions))
    assert site.upstream.executions() == executions
    for name in ("detached.lost", "detached.not_started", "ended.unknown", "not_stored", "hook_exception"):
        assert (name, site.envoy.stat(PREFIX + name)) == (name, 0)


# --- Tests


@every_envoy
@pytest.mark.parametrize("kind", UPDATES)
def test_an_update_under_load_loses_no_run(make_site, kind, version):
    drain = ("--drain-time-s", "8", "--drain-strategy", "immediate")
    site, updates = make_site(kind, version, *drain)
    with load(site) as patient:
        for number, changed in enumerate(updates.changes(), start=1):
            patient.wait_for_more(30)
            held = Held(site)
            updates.write(changed)
            wait_for(lambda number=number: updates.seen(site.envoy) >= number, f"update {number}")
            patient.wait_for_more(30)
            held.let_go()
            assert [answer.status for answer in held.answers()] == [201, 201]
            held.are_replayed()
    site.close()


@every_envoy
def test_a_run_outlives_its_clients_listener(make_site, version):
    """Its client is cut off when the listener has drained. Attached, its outcome would be unknown."""
    site, updates = make_site(Listener, version, "--drain-time-s", "1", "--drain-strategy", "immediate")
    held = Held(site)
    updates.write(updates.changes()[1])
    assert [answer.complete for answer in held.answers()] == [False, False]
    site.envoy.wait_for_stat(PREFIX + "cut_short", 4)
    for key in held.keys:
        assert site.state(key) == "in_progress"
    held.let_go()
    held.are_replayed()
    nothing_is_lost(site)
    site.close()


@every_envoy
def test_a_run_outlives_the_removal_of_its_clients_listener(make_site, version):
    """Nothing is left of the filter's config but the run."""
    site, updates = make_site(Listener, version, "--drain-time-s", "1", "--drain-strategy", "immediate")
    held = Held(site)
    updates.file.write([])
    assert [answer.complete for answer in held.answers()] == [False, False]
    wait_for(lambda: site.envoy.stat("listener_manager.total_listeners_draining") == 0, "it is gone")
    held.let_go()
    for key in held.keys:
        site.wait_for_state(key, "completed")
    updates.write(updates.plain)
    site.envoy.wait_for_stat("listener_manager.total_listeners_active", 2)
    held.are_replayed()
    nothing_is_lost(site)
    assert site.envoy.stop() == 0


@every_envoy
def test_a_run_outlives_the_removal_of_its_cluster(make_site, version):
    site, updates = make_site(Clusters, version)
    held = Held(site)
    updates.file.write([])
    site.envoy.wait_for_stat("cluster_manager.cluster_removed", 1)
    held.let_go()
    assert [answer.status for answer in held.answers()] == [201, 201]
    held.are_replayed()
    # Nobody can run now, and the key stays free.
    key = new_key()
    assert site.send("/up/", key).status == 503
    site.wait_for_state(key, None)
    updates.write(updates.plain)
    wait_for(lambda: site.send("/up/", key).status == 200, "the cluster is back")
    nothing_is_lost(site)
    site.close()


@every_envoy
def test_a_run_outlives_its_route(make_site, version):
    """A route that runs attached in its place takes over the retries, too."""
    site, updates = make_site(Routes, version)
    held = Held(site)
    updates.write(updates.plain.copy().route("/up/", {"enforcement": "REQUIRED"}))
    wait_for(lambda: updates.seen(site.envoy) == 1, "the update")
    held.let_go()
    assert [answer.status for answer in held.answers()] == [201, 201]
    held.are_replayed()
    nothing_is_lost(site)
    site.close()
