"""All servers of a run: Envoys, the store, the upstream, and what stands between them.

    clients ─▶ toxiproxy ─▶ Envoy ─▶ observer ─▶ toxiproxy ─▶ PostgreSQL (a way to each server)
                              ├────▶ observer ─▶ toxiproxy ─▶ upstream ─▶ observer ─▶ toxiproxy ─▶ PostgreSQL
                              ├────▶ observer ─▶ toxiproxy ─▶ upstream: the reconciler's questions
                              └────▶ a second Envoy ─▶ observer ─▶ upstream

Every Envoy has ways of its own, so each way can be disturbed for one Envoy alone. Two Envoys share a
PostgreSQL; an SQLite file has one.
"""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from database import NAME, SERVICE, Database
from gateway import Gateway
from harness.ports import free_port
from harness.process import Process, Workspace
from harness.site import STATES
from harness.small_disk import SmallDisk
from harness.toxiproxy import Proxy, Toxiproxy
from harness.wait import wait_for
from observer import Observer
from sidecar import Sidecar

_DISK_MEGABYTES = 64
# A program of its own: the file may be on a disk that this process does not see.
_READ_FILE = """
import json, sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=20) as db:
    rows = db.execute(sys.argv[2]).fetchall()
print(json.dumps([[value.decode() if isinstance(value, bytes) else value for value in row] for row in rows]))
"""


SERVICE_PROGRAM = Path(__file__).with_name("service.py")


class Service:
    """The upstream (service.py): it may crash and be started again on the same port and log."""

    def __init__(self, workspace: Workspace, seed: int, conninfo: str | None, program: Path) -> None:
        """`conninfo`: of the database in which its own transactions are."""
        self.port = free_port()
        self.folder = workspace.new_folder("service")
        self.log = self.folder / "executions.jsonl"
        self._workspace = workspace
        self._command = [sys.executable, program, str(self.port), self.log, str(seed)]
        if conninfo:
            self._command.append(conninfo)
        self.start()

    def start(self) -> None:
        """Nothing if it runs."""
        if hasattr(self, "process") and self.running:
            return
        self.process = Process(
            self._workspace,
            "upstream",
            self._command,
            self.folder / "service.log",
        )
        wait_for(self._answers, "the upstream listens", deadline=30)

    @property
    def running(self) -> bool:
        return self.process.exit_code is None

    def _answers(self) -> bool:
        self.process.check_running()
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill9(self) -> None:
        self.process.kill9()


class World:
    def __init__(
        self,
        *,
        seed: int,
        store: str,
        module: Path,
        pair: bool,
        small_disk: bool,
        clock: bool,
        service: Path = SERVICE_PROGRAM,
    ) -> None:
        """`pair`: PostgreSQL with a standby. `clock`: the Envoys' clocks can be set. `service`: program."""
        self.workspace = Workspace()
        try:
            self._build(seed, store, module, pair, small_disk, clock, service)
        except BaseException:
            self.workspace.close()
            raise

    def _build(
        self, seed: int, store: str, module: Path, pair: bool, small_disk: bool, clock: bool, program: Path
    ) -> None:
        module_folder = self.workspace.new_folder("module")
        # A copy: whoever builds meanwhile does not change the run.
        shutil.copy(module, module_folder / "libidempotency.so")
        toxiproxy = Toxiproxy(self.workspace)
        self.database: Database | None = None
        if store == "postgres":
            self.database = Database(self.workspace, pair=pair, small_disk=small_disk)
        # From the service to its database: one for each seat.
        self.service_ways: list[Proxy] = []
        self.service_watches: list[Observer] = []
        self.service = Service(self.workspace, seed, self._build_service_ways(toxiproxy), program)
        # Nobody listens there, and nobody else can: a stranger would answer in the service's place.
        self._closed = socket.socket()
        self._closed.bind(("127.0.0.1", 0))
        closed_port = self._closed.getsockname()[1]
        self.sidecar = Sidecar(self.workspace, self.service.port, closed_port)
        self.disk: SmallDisk | None = None
        self._file: Path | None = None
        if not self.database:
            self.disk = SmallDisk(self.workspace, _DISK_MEGABYTES, (0, 0)) if small_disk else None
            folder = self.disk.path if self.disk else self.workspace.new_folder("store")
            self._file = folder / "idempotency.db"
        self.gateways = [
            Gateway(
                number,
                self.workspace,
                toxiproxy,
                module_folder,
                {
                    "upstream": self.service.port,
                    "sidecar": self.sidecar.port,
                    "telling_sidecar": self.sidecar.telling_port,
                    "closed": closed_port,
                },
                database=self.database,
                file=self._file,
                disk=self.disk,
                clock=clock,
            )
            for number in range(2 if self.database else 1)
        ]

    def _build_service_ways(self, toxiproxy: Toxiproxy) -> str | None:
        if not self.database:
            return None
        for seat, port in enumerate(self.database.ports):
            way = toxiproxy.proxy(port)
            self.database.add_way(seat, way)
            self.service_ways.append(way)
            self.service_watches.append(Observer(lambda way=way: way.port, postgres=True, port=free_port()))
        return self.database.conninfo([watch.port for watch in self.service_watches], user=SERVICE)

    @property
    def _watches(self) -> list[Observer]:
        watches = [watch for place in (self.sidecar, *self.gateways) for watch in place.watches]
        return [*watches, *self.service_watches]

    async def start(self) -> None:
        for watch in self._watches:
            await watch.start()
        await asyncio.to_thread(self.sidecar.start)
        await asyncio.gather(*(asyncio.to_thread(gateway.start) for gateway in self.gateways))

    async def stop(self) -> None:
        for watch in self._watches:
            await watch.stop()
        await asyncio.to_thread(self.workspace.close)
        self._closed.close()

    def heal(self) -> None:
        """Everything runs, every way is free."""
        self.service.start()
        if self.database:
            self.database.start()
        for way in self.service_ways:
            way.restore()
        for gateway in self.gateways:
            for way in gateway.ways:
                way.restore()
            gateway.resume()
            gateway.start()

    def effects(self) -> list[dict]:
        """What the service has committed in its own transactions, in the order of time."""
        if not self.database:
            return []
        columns = (
            *("at", "tenant", "operation", "key", "number", "attempt", "phase", "status", "ordered", "facts"),
            *("life", "holder", "state"),
        )
        found = self.database.query(f"SELECT {', '.join(columns)} FROM chaos.effect ORDER BY at")
        return [dict(zip(columns, row, strict=True)) for row in found]

    def open_transactions(self) -> int:
        """Of the service."""
        sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s AND state <> 'idle'"
        return self.database.query(sql, SERVICE)[0][0] if self.database else 0

    def orders(self) -> list[dict]:
        """What is in the outbox."""
        if not self.database:
            return []
        columns = ("tenant", "operation", "key", "attempt", "name", "life::text")
        found = self._select("outbox", columns, "true ORDER BY id")
        return [{name.removesuffix("::text"): value for name, value in order.items()} for order in found]

    def rows(self) -> list[dict]:
        """All records of the store."""
        return self._records("true")

    def unknown(self, operations: Iterable[str]) -> list[dict]:
        """The records of these operations whose outcome is unknown."""
        return self._records(f"state = 4 AND {self._of(operations)}")

    def audit(self, operations: Iterable[str], key: str | None = None) -> list[dict]:
        """What operators and the reconciler did to the records of these operations, in the order of time."""
        columns = ("tenant", "operation", "key", "attempt", "actor", "action", "detail")
        where = f"{self._of(operations)} AND action NOT IN ('lease_to_unknown', 'lease_to_retry')"
        where += f" AND key = {self._bytes(key)}" if key else ""
        return self._select("audit", columns, where + " ORDER BY id")

    def _records(self, where: str) -> list[dict]:
        rows = self._select("record", ("tenant", "operation", "key", "attempt", "state"), where)
        return [{**row, "state": STATES[row["state"]]} for row in rows]

    def _of(self, operations: Iterable[str]) -> str:
        return f"operation IN ({', '.join(map(self._bytes, operations))})"

    def _bytes(self, text: str) -> str:
        digits = text.encode().hex()
        return f"'\\x{digits}'::bytea" if self.database else f"x'{digits}'"

    def _select(self, table: str, columns: tuple[str, ...], where: str) -> list[dict]:
        sql = f"SELECT {', '.join(columns)} FROM {{}}{table} WHERE {where}"
        if self.database:
            found = self.database.query(sql.format("idempotency."))
        else:
            program = [*self.inside, sys.executable, "-I", "-c", _READ_FILE, str(self._file), sql.format("")]
            found = json.loads(subprocess.run(program, check=True, capture_output=True).stdout)
        return [
            {
                name: bytes(value).decode() if isinstance(value, bytes | memoryview) else value
                for name, value in zip(columns, row, strict=True)
            }
            for row in found
        ]

    @property
    def inside(self) -> tuple[str, ...]:
        """Words before a program that is to see the store's file."""
        return self.disk.inside if self.disk else ()

    @property
    def store_words(self) -> tuple[str, str]:
        """What leads idempotencyctl to the store."""
        if self.database:
            return "--conninfo", self.database.primary.conninfo(NAME)
        return "--sqlite", str(self._file)

    def bust(self, tenant: str, operation: str, key: str) -> None:
        """An operator forgets a completed record, as docs/operations.md says."""
        self.database.query(
            "DELETE FROM idempotency.record WHERE tenant = %s AND operation = %s AND key = %s AND state = 2",
            *(text.encode() for text in (tenant, operation, key)),
        )
