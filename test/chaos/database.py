"""PostgreSQL of a run: one server, or a pair of which either may lead, or one on a small disk.

Methods block until the server has done what they say.
"""

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator

import psycopg
from harness.ctl import migrate
from harness.postgres import Postgres, unprivileged_user
from harness.process import Workspace
from harness.small_disk import SmallDisk
from harness.toxiproxy import Proxy
from harness.wait import wait_for

NAME = "chaos"
# The service's own role, and its table: a row for each effect. At the commit, the server adds to a row when
# the life of its record began, which attempt held it then, and in which state. It does not ask the functions
# whose work is judged by that.
SERVICE = "chaos_service"
_SERVICE_SCHEMA = f"""
CREATE SCHEMA chaos;
CREATE TABLE chaos.effect (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint, tenant text, operation text, key text,
  number bigint, attempt bigint, phase text, status integer, ordered boolean, facts jsonb,
  life text, holder bigint, state integer
);
CREATE FUNCTION chaos.add_holder() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE chaos.effect e SET life = r.created_at::text, holder = r.attempt, state = r.state
  FROM idempotency.record r
  WHERE e.id = NEW.id AND r.tenant = convert_to(NEW.tenant, 'UTF8')
    AND r.operation = convert_to(NEW.operation, 'UTF8') AND r.key = convert_to(NEW.key, 'UTF8');
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER add_holder AFTER INSERT ON chaos.effect DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION chaos.add_holder();
CREATE ROLE {SERVICE} LOGIN IN ROLE idempotency_upstream;
GRANT USAGE ON SCHEMA chaos TO {SERVICE};
GRANT INSERT ON chaos.effect TO {SERVICE};
"""
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
        first.query(_SERVICE_SCHEMA, database=NAME)
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

    def conninfo(self, ports: list[int], **more: str) -> str:
        """By way of these ports, one for each seat."""
        hosts = ",".join(["127.0.0.1"] * len(ports))
        more = {"host": hosts, "sslmode": "disable", "gssencmode": "disable", "connect_timeout": "2", **more}
        conninfo = self.primary.conninfo(NAME, **more)
        return conninfo.replace(f"port={self.primary.port}", f"port={','.join(map(str, ports))}")

    def query(self, sql: str, *parameters) -> list[tuple]:
        return self.primary.query(sql, *parameters, database=NAME)

    @contextlib.contextmanager
    def locked(self, tenant: str, operation: str, key: str) -> Iterator[None]:
        """Another transaction holds the row, as one does that completes a record among other work."""
        where = "tenant = %s AND operation = %s AND key = %s"
        with self.primary.connect(NAME) as connection, connection.transaction():
            sql = f"SELECT 1 FROM idempotency.record WHERE {where} FOR UPDATE"
            connection.execute(sql, [text.encode() for text in (tenant, operation, key)])
            yield

    # --- faults

    def relax(self) -> None:
        """An operator makes commits faster: they are acknowledged before they are on disk. What is not yet
        there stays in the server's memory from now on, since its WAL writer is stopped."""
        self.primary.set("synchronous_commit", "off")
        os.kill(self._wal_writer(), signal.SIGSTOP)

    def crash(self) -> None:
        """One process is lost, so the server takes its shared memory for broken: all sessions end, and what
        was not written is gone. It recovers by itself."""
        os.kill(self._wal_writer(), signal.SIGKILL)

    def tighten(self) -> None:
        """After relax(), and perhaps crash()."""
        wait_for(self._is_tightened, "the server has recovered", deadline=90)

    def _is_tightened(self) -> bool:
        try:
            os.kill(self._wal_writer(), signal.SIGCONT)
            self.primary.set("synchronous_commit", None)
        except (psycopg.OperationalError, ProcessLookupError):
            # It may end sessions that it accepted before it noticed the crash.
            return False
        return True

    def _wal_writer(self) -> int:
        """A server that has just recovered accepts sessions a moment before it has one."""
        sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
        return wait_for(lambda: self.primary.query(sql), "the server has a WAL writer", deadline=30)[0][0]

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
            deadline=90,
        )
