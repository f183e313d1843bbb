"""One Envoy of a run, the ways to it and from it, and its life: it may end, and begin again on its ports."""

import contextlib
import copy
import signal
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import plan
from database import Database
from harness.config import EnvoyConfig, ListenerFile
from harness.envoy import Envoy
from harness.operators import ACTOR
from harness.paths import built
from harness.ports import free_port
from harness.process import Workspace
from harness.small_disk import SmallDisk
from harness.toxiproxy import Proxy, Toxiproxy
from observer import Observer

DRAIN = 2  # Seconds until an old listener is gone.
_DRAIN = ("--drain-time-s", str(DRAIN), "--drain-strategy", "immediate")


class Gateway:
    """Methods that wait for Envoy block. Faults of one Envoy come one at a time: take `harm()`."""

    def __init__(
        self,
        number: int,
        workspace: Workspace,
        toxiproxy: Toxiproxy,
        module_folder: Path,
        ports: dict[str, int],
        *,
        database: Database | None,
        file: Path | None,
        disk: SmallDisk | None,
        clock: bool,
    ) -> None:
        self.number = number
        self.name = f"envoy{number}"
        self.port = free_port()
        self.front: Proxy = toxiproxy.proxy(self.port)
        self.to_upstream: Proxy = toxiproxy.proxy(ports["upstream"])
        self._ports = ports  # By cluster.
        self.upstream_watch = Observer(lambda: self.to_upstream.port, postgres=False)
        # The reconciler's questions have a way of their own.
        self.to_outcome: Proxy = toxiproxy.proxy(ports["upstream"])
        self.outcome_watch = Observer(lambda: self.to_outcome.port, postgres=False)
        self.operators = free_port()  # The operators' API.
        self.to_database: list[Proxy] = []
        self.database_watches: list[Observer] = []
        for seat, port in enumerate(database.ports if database else []):
            way = toxiproxy.proxy(port)
            database.add_way(seat, way)
            self.to_database.append(way)
            self.database_watches.append(Observer(lambda way=way: way.port, postgres=True))
        self.envoy: Envoy | None = None
        self._workspace, self._module_folder = workspace, module_folder
        self._database, self._file, self._disk = database, file, disk
        self._folder = workspace.new_folder(self.name)
        self.runs = self._folder / "runs.sock"  # The socket of the private listener.
        self._clock_file = self._folder / "clock" if clock else None
        self.set_clock(0)
        self._harm = threading.Lock()
        self._reloads = 0

    @property
    def running(self) -> bool:
        return self.envoy is not None and self.envoy.process.exit_code is None

    @property
    def watches(self) -> list[Observer]:
        return [self.upstream_watch, self.outcome_watch, *self.database_watches]

    @property
    def ways(self) -> list[Proxy]:
        return [self.front, self.to_upstream, self.to_outcome, *self.to_database]

    @contextlib.contextmanager
    def harm(self) -> Iterator[bool]:
        """False if somebody else is at it."""
        taken = self._harm.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._harm.release()

    def start(self) -> None:
        """Nothing if it runs."""
        if self.running:
            return
        self._plain = self._config()
        base = self._plain.copy()
        self._listeners = ListenerFile(self._folder, base)
        self.envoy = Envoy(
            self._workspace,
            base,
            concurrency=2,
            arguments=_DRAIN,
            env={"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": str(self._module_folder), **self.clock_env()},
            load_module=False,
            inside=self._disk.inside if self._disk else (),
        )

    def kill9(self) -> None:
        self.envoy.kill9()

    def terminate(self) -> None:
        self.envoy.stop()

    def pause(self) -> None:
        """As a machine that stands still."""
        self.envoy.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self.running:
            self.envoy.process.resume()

    def reload(self) -> None:
        """Another config of the clients' listener by LDS: other store settings, another cache, and back."""
        self._reloads += 1
        changed = self._plain.copy()
        match self._reloads % 3:
            case 1 if self._database:
                changed.filter(store=self._store(connections=3))
            case 1 | 2:
                changed.filter(replay_cache={"max_bytes": 0})
        self._listeners.write(changed.listeners)

    def set_clock(self, seconds: int) -> None:
        """So far from the true time is Envoy's wall clock from now on."""
        if self._clock_file:
            # In place: Envoy has it mapped.
            with open(self._clock_file, "r+b" if self._clock_file.exists() else "wb") as file:
                file.write(struct.pack("=q", seconds))

    def clock_env(self) -> dict[str, str]:
        """Of a program that is to have this Envoy's clock."""
        if not self._clock_file:
            return {}
        return {
            "LD_PRELOAD": str(built("test/chaos/libclock_shift.so")),
            "CLOCK_SHIFT_FILE": str(self._clock_file),
        }

    def _store(self, **more) -> dict:
        timeout = f"{plan.STORE_TIMEOUT}s"
        if not self._database:
            return {"sqlite": {"path": str(self._file), "timeout": timeout}}
        conninfo = self._database.conninfo([watch.port for watch in self.database_watches])
        return {"postgres": {"conninfo": conninfo, "connections": 2, "timeout": timeout, **more}}

    def _config(self) -> EnvoyConfig:
        config = EnvoyConfig.quickstart().for_test(self._store()).upstream(self.upstream_watch.port)
        config.filter(**plan.filter_fields()).listen(self.port)
        for name in ("sidecar", "telling_sidecar", "closed"):
            config.cluster(name, self._ports[name])
        config.cluster("outcome", self.outcome_watch.port)
        for route in plan.routes("postgres" if self._database else "sqlite"):
            action = {"cluster": route.cluster, "timeout": f"{route.timeout}s", **route.action}
            config.route(f"/{route.operation}", route.config(), **action)
        for path, cluster in plan.HOPS.items():
            config.route(path, cluster=cluster)
        for manager in config.managers:
            del manager["access_log"]
            hosts = manager["route_config"]["virtual_hosts"]
            hosts.append({**copy.deepcopy(hosts[0]), "name": "other", "domains": [plan.OTHER_HOST]})
        config.operators_listener(self._store(), actor={"sources": [{"header": ACTOR}]})
        config.listeners[-1]["address"]["socket_address"]["port_value"] = self.operators
        return config.private_listener(self.runs)
