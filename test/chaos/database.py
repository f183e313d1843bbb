"""PostgreSQL of a run: one server, or a pair of which either may lead, or one on a small disk.

Methods block until the server has done what they say.
"""

import shutil
import threading

from harness.ctl import migrate
from harness.postgres import Postgres, unprivileged_user
from harness.process import Workspace
from harness.small_disk import SmallDisk
from harness.toxiproxy import Proxy
from harness.wait import wait_for

NAME = "chaos"
_DISK_MEGABYTES = 96


class Database:
    def __init__(self, workspace: Workspace, *, pair: bool, small_disk: bool) -> None:
        self._workspace = workspace
        # Server faults one at a time.
        self.lock = threading.Lock()
        self.disk = SmallDisk(workspace, _DISK_MEGABYTES, unprivileged_user()) if small_disk else None
        first = Postgres(workspace, disk=self.disk)
        where = ""
        if self.disk:
            first.query(f"CREATE TABLESPACE small LOCATION '{self.disk.path}'")
            where = " TABLESPACE small"
        first.query(f"CREATE DATABASE {NAME}{where}")
        migrate(first.conninfo(NAME))
        # Seats have ways that lead to them; a server takes a seat.
        self._seats = [first]
        self._ways: list[list[Proxy]] = [[]]
        self._leader = 0
        if pair:
            # Nothing that was acknowledged may be lost with one server. A copy takes the setting over.
            first.set("synchronous_standby_names", "*")
            self._seats.append(Postgres(workspace, primary=first))
            self._ways.append([])
            self._wait_for_standby()

    @property
    def primary(self) -> Postgres:
        return self._seats[self._leader]

    @property
    def ports(self) -> list[int]:
        return [server.port for server in self._seats]

    def add_way(self, seat: int, way: Proxy) -> None:
        """It will follow whoever takes the seat."""
        self._ways[seat].append(way)

    def conninfo(self, ports: list[int]) -> str:
        """By way of these ports, one for each seat."""
        hosts = ",".join(["127.0.0.1"] * len(ports))
        more = {"host": hosts, "sslmode": "disable", "gssencmode": "disable", "connect_timeout": "2"}
        conninfo = self.primary.conninfo(NAME, **more)
        return conninfo.replace(f"port={self.primary.port}", f"port={','.join(map(str, ports))}")

    def query(self, sql: str, *parameters) -> list[tuple]:
        return self.primary.query(sql, *parameters, database=NAME)

    # --- faults

    def kill9(self) -> None:
        self.primary.kill9()

    def stop_at_once(self) -> None:
        """Immediate shutdown: no session is asked, nothing is written out."""
        self.primary.stop()

    def shut_down(self) -> None:
        self.primary.shut_down()

    def start(self) -> None:
        for server in self._seats:
            if server.process.exit_code is not None:
                server.start()

    def fail_over(self) -> None:
        """The primary is lost for ever; its standby leads, and gets a standby of its own."""
        lost, self._leader = self._leader, 1 - self._leader
        self._seats[lost].kill9()
        self.primary.promote()
        shutil.rmtree(self._seats[lost].data, ignore_errors=True)
        self._seats[lost] = Postgres(self._workspace, primary=self.primary)
        for way in self._ways[lost]:
            way.lead_to(self._seats[lost].port)
        self._wait_for_standby()

    def fill_disk(self) -> None:
        self.disk.fill()

    def empty_disk(self) -> None:
        self.disk.empty()

    def _wait_for_standby(self) -> None:
        wait_for(
            lambda: self.primary.query("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"),
            "the standby follows",
            deadline=30,
        )
