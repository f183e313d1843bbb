"""examples/payments with servers of the test's own, to stop and kill: its programs, PostgreSQL and Envoy."""

import json
import subprocess
import threading
import time
from pathlib import Path

import httpx

from .config import EnvoyConfig
from .ctl import migrate
from .envoy import Envoy
from .paths import CACHE, EXAMPLES
from .ports import free_port
from .postgres import Postgres
from .process import Process, Workspace
from .wait import wait_for

_FOLDER = EXAMPLES / "payments"
PYTHON = CACHE / "venv" / "bin" / "python"
_ROLES = """
CREATE ROLE envoy LOGIN IN ROLE idempotency_filter;
CREATE ROLE payments_service LOGIN IN ROLE idempotency_upstream;
CREATE ROLE payments_worker LOGIN IN ROLE idempotency_worker;
CREATE ROLE payments_ledger LOGIN;
"""


class Payments:
    """Everything runs after construction. `kill` and `start` take a server's name."""

    SERVERS = ("service", "envoy", "worker", "provider", "postgres")

    def __init__(self, workspace: Workspace, programs: Path = _FOLDER) -> None:
        """`programs`: where service.py and the others are."""
        self._workspace = workspace
        self._programs = programs
        self._folder = workspace.new_folder("payments")
        self._points = self._folder / "points"
        self._points.mkdir()
        self._ports = {name: free_port() for name in ("service", "provider", "envoy")}
        self._processes: dict[str, Process] = {}
        self.postgres = Postgres(workspace)
        self.database = self.postgres.create_database()
        migrate(self.postgres.conninfo(self.database))
        self.query(_ROLES)
        self.query((_FOLDER / "schema.sql").read_text())
        for name in ("provider", "service", "worker", "envoy"):
            self.start(name)

    # --- servers

    def start(self, name: str) -> None:
        if name == "postgres":
            self.postgres.start()
        elif name == "envoy":
            self.envoy = Envoy(self._workspace, self._config())
        elif name.endswith("worker"):
            self._run("worker", "payments_worker", self._provider, name=name)
            wait_for(lambda: "worker: started" in self._processes[name].output(), f"the {name} starts")
        elif name == "provider":
            self._run("provider", "nobody", self._folder / "provider.db", self._ports["provider"])
            self._wait_for_port("provider")
        else:
            self._run("service", "payments_service", self._ports["service"])
            self._wait_for_port("service")

    def kill(self, name: str) -> None:
        if name == "postgres":
            self.postgres.kill9()
        elif name == "envoy":
            self.envoy.kill9()
        else:
            self._processes[name].kill9()

    def restart(self, name: str) -> None:
        """Killed, and started again."""
        self.kill(name)
        self.start(name)

    def output(self, name: str) -> str:
        return self._processes[name].output()

    # --- points at which the programs stop

    def stop_at(self, point: str) -> None:
        """The program that comes there next stops."""
        (self._points / point).touch()

    def has_reached(self, point: str) -> bool:
        return (self._points / f"{point}.reached").exists()

    def wait_until(self, point: str) -> None:
        wait_for(
            lambda: self.has_reached(point), lambda: f"a program is at {point}:\n{self.logs()}", deadline=20
        )

    def go_on(self, point: str) -> None:
        (self._points / f"{point}.reached").unlink()

    # --- what the parties know

    def query(self, sql: str, *parameters) -> list[tuple]:
        return self.postgres.query(sql, *parameters, database=self.database)

    def counts(self, key: str) -> dict[str, int]:
        """Orders, receipts and charges of a key, wherever they are."""
        orders = [id for (id,) in self.query("SELECT id FROM payments.orders WHERE key = %s", key.encode())]
        ((receipts,),) = self.query(
            "SELECT count(*) FROM payments.receipts WHERE order_id = ANY (%s)", orders
        )
        charges = [charge for charge in self.charges() if charge["order"] in orders]
        return {"orders": len(orders), "receipts": receipts, "charges": len(charges)}

    def charges(self) -> list[dict]:
        return httpx.get(f"{self._provider}/charges").json()["charges"]

    def states(self) -> dict[int, int]:
        """How many records are in each state."""
        return dict(self.query("SELECT state::int, count(*)::int FROM idempotency.record GROUP BY state"))

    def ledger(self, grace: float = 0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PYTHON, self._programs / "ledger.py", self._provider, str(grace)],
            env=self._env("payments_ledger"),
            capture_output=True,
            text=True,
            timeout=30,
        )

    def logs(self) -> str:
        return "\n".join(f"--- {name}:\n{process.tail(15)}" for name, process in self._processes.items())

    # --- requests

    def send(self, key: str, body: dict, timeout: float = 30) -> httpx.Response:
        return httpx.post(
            f"http://127.0.0.1:{self._ports['envoy']}/payments",
            headers={"host": "test", "idempotency-key": f'"{key}"'},
            json=body,
            timeout=timeout,
        )

    def send_directly(self, body: dict, **headers: str) -> httpx.Response:
        """Past Envoy."""
        url = f"http://127.0.0.1:{self._ports['service']}/payments"
        return httpx.post(url, headers=headers, json=body, timeout=30)

    # ---

    @property
    def _provider(self) -> str:
        return f"http://127.0.0.1:{self._ports['provider']}"

    def _config(self) -> EnvoyConfig:
        conninfo = self.postgres.conninfo(self.database, user="envoy")
        config = EnvoyConfig.load(_FOLDER / "envoy.yaml").for_test({"postgres": {"conninfo": conninfo}})
        return config.upstream(self._ports["service"]).listen(self._ports["envoy"])

    def _env(self, role: str) -> dict[str, str]:
        return {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.postgres.port),
            "PGUSER": role,
            "PGDATABASE": self.database,
            "PAUSE_FOLDER": str(self._points),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _run(self, program: str, role: str, *arguments, name: str = "") -> None:
        name = name or program
        command = [PYTHON, self._programs / f"{program}.py", *arguments]
        log = self._folder / f"{name}.log"
        log.unlink(missing_ok=True)
        self._processes[name] = Process(self._workspace, name, command, log, env=self._env(role))

    def _wait_for_port(self, name: str) -> None:
        process = self._processes[name]
        wait_for(
            lambda: process.check_running() or str(self._ports[name]) in process.output(),
            lambda: f"{name} listens:\n{process.tail()}",
        )


class Client(threading.Thread):
    """Sends a request with one key until it gets a result, as a careful client does."""

    def __init__(self, payments: Payments, key: str, body: dict, deadline: float = 45) -> None:
        super().__init__(daemon=True)
        self._payments = payments
        self._deadline = deadline
        self.key = key
        self.body = body
        # Status and code of each answer; 0 if there was none.
        self.answers: list[tuple[int, str | None]] = []
        self._result: httpx.Response | None = None
        self.start()

    def run(self) -> None:
        end = time.monotonic() + self._deadline
        while time.monotonic() < end:
            try:
                response = self._payments.send(self.key, self.body)
            except httpx.TransportError:
                self.answers.append((0, None))
            else:
                self.answers.append((response.status_code, _code(response)))
                if response.status_code in (201, 402):
                    self._result = response
                    return
            time.sleep(0.1)

    def result(self) -> httpx.Response:
        self.join(self._deadline + 30)
        assert self._result is not None, f"no result: {self.answers}\n{self._payments.logs()}"
        return self._result


def _code(response: httpx.Response) -> str | None:
    try:
        value = json.loads(response.content)
        return value.get("code") if isinstance(value, dict) else None
    except ValueError:
        return None
