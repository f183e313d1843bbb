"""A real Envoy with the module in it."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from .config import EnvoyConfig
from .paths import DEFAULT_ENVOY, envoy_binary, module
from .process import Process, Workspace
from .wait import wait_for

# What Envoy logs about modules at warning or above, and all that a module logs there:
# [time][thread][level][component] …
_COMPLAINT = re.compile(r"\[[^]]*\]\[\d+\]\[(warning|error|critical)\].*dynamic_module")


class Envoy:
    def __init__(
        self,
        workspace: Workspace,
        config: EnvoyConfig,
        version: str = DEFAULT_ENVOY,
        *,
        concurrency: int = 2,
        arguments: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        load_module: bool = True,
        inside: tuple[str, ...] = (),
        epoch: tuple[int, int] | None = None,
    ) -> None:
        """`inside`: words before the command, of a small disk that it is to see. `epoch`: base id and restart
        epoch of a hot restart."""
        self.version = version
        self.folder = workspace.new_folder("envoy")
        config_path = self.folder / "envoy.yaml"
        config_path.write_text(config.text())
        admin_path = self.folder / "admin"
        self.process = Process(
            workspace,
            f"envoy {version}",
            [
                *(*inside, envoy_binary(version), "-c", config_path),
                *("--admin-address-path", admin_path),
                *("--concurrency", str(concurrency)),
                # Shared memory of hot restart would tie parallel test processes together.
                *_hot_restart(epoch),
                # At start it lists every extension that it knows.
                *("--component-log-level", "main:warning"),
                *arguments,
            ],
            self.folder / "envoy.log",
            env={**(_module_env() if load_module else {}), **(env or {})},
        )
        try:
            self._wait_until_live(admin_path)
        except BaseException:
            # One that comes late would share the ports of the next.
            self.process.stop()
            raise

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.ports()[0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ports(self) -> list[int]:
        listeners = json.loads(self.admin("/listeners?format=json"))["listener_statuses"]
        addresses = [entry["local_address"] for entry in listeners]
        # A private listener has none.
        return [at["socket_address"]["port_value"] for at in addresses if "socket_address" in at]

    def port_of(self, name: str) -> int:
        """The port of the listener with this name."""
        listeners = json.loads(self.admin("/listeners?format=json"))["listener_statuses"]
        (port,) = [
            entry["local_address"]["socket_address"]["port_value"]
            for entry in listeners
            if entry["name"] == name
        ]
        return port

    def admin(self, path: str, method: str = "GET") -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin_port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode()

    def stats(self, pattern: str = "") -> dict[str, int]:
        """Counters and gauges by name. `pattern` is a regular expression."""
        path = "/stats?format=json&type=Counters" + (f"&filter={pattern}" if pattern else "")
        values = json.loads(self.admin(path))["stats"]
        values += json.loads(self.admin(path.replace("Counters", "Gauges")))["stats"]
        return {entry["name"]: entry["value"] for entry in values if "name" in entry}

    def stat(self, name: str) -> int:
        """0 when Envoy does not know it: a counter appears at its first use."""
        return self.stats(f"^{re.escape(name)}$").get(name, 0)

    def wait_for_stat(self, name: str, least: int, deadline: float = 10.0) -> int:
        return wait_for(
            lambda: max(self.stat(name) - least + 1, 0),
            lambda: f"{name} is at least {least}, but {self.stat(name)}",
            deadline,
        )

    def module_complaints(self) -> list[str]:
        """Warnings and errors that Envoy logged about modules or that the module logged."""
        return [line for line in self.process.output().splitlines() if _COMPLAINT.match(line)]

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self.process.stop()

    def kill9(self) -> None:
        self.process.kill9()

    def _wait_until_live(self, admin_path: Path) -> None:
        wait_for(
            lambda: self._running() and admin_path.exists() and admin_path.read_text(),
            lambda: f"admin port:\n{self.process.tail()}",
            deadline=30,
        )
        self.admin_port = int(admin_path.read_text().rpartition(":")[2])
        wait_for(self._live, lambda: f"envoy is live:\n{self.process.tail()}", deadline=30)

    def _running(self) -> bool:
        self.process.check_running()
        return True

    def _live(self) -> bool:
        self.process.check_running()
        try:
            return self.admin("/ready").strip() == "LIVE"
        except (urllib.error.URLError, ConnectionError):
            return False


def validate(
    config: EnvoyConfig, folder: Path, version: str = DEFAULT_ENVOY
) -> subprocess.CompletedProcess[str]:
    """`envoy --mode validate`; exit code 0 means accepted, stdout holds the log."""
    path = folder / "validate.yaml"
    path.write_text(config.text())
    return subprocess.run(
        [envoy_binary(version), "--mode", "validate", "-c", path, "--disable-hot-restart"],
        env=_module_env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )


def _hot_restart(epoch: tuple[int, int] | None) -> tuple[str, ...]:
    if epoch is None:
        return ("--disable-hot-restart",)
    return ("--base-id", str(epoch[0]), "--restart-epoch", str(epoch[1]))


def _module_env() -> dict[str, str]:
    return {"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": str(module().parent)}
