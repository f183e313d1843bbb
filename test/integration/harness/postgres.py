"""Real PostgreSQL servers, each with its own data folder, port and log."""

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg

from .paths import DEFAULT_POSTGRES, postgres_folder
from .ports import free_port
from .process import Process, Workspace
from .small_disk import SmallDisk
from .wait import wait_for

_SUPERUSER = "postgres"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "log_min_messages": "info",
    "log_line_prefix": "%m [%p] ",
}


class Postgres:
    """One server; it may be stopped, killed and started again on the same data and port."""

    def __init__(
        self,
        workspace: Workspace,
        major: int = DEFAULT_POSTGRES,
        settings: dict[str, str] | None = None,
        *,
        primary: "Postgres | None" = None,
        disk: SmallDisk | None = None,
        initdb: tuple[str, ...] = (),
    ) -> None:
        """`primary`: becomes its standby. `disk`: sees that disk. `initdb`: more of its options."""
        self.major = major
        self.port = free_port()
        self._workspace = workspace
        self._settings = {**_SETTINGS, **(settings or {})}
        self._folder = workspace.new_folder(f"postgres-{major}")
        self._user = unprivileged_user()
        if self._user:
            os.chown(self._folder, *self._user)
        self._bin = programs(workspace, major)
        self._disk = disk
        self._databases = 0
        if primary:
            self._copy(primary)
        else:
            self._initdb(initdb)
        self.start()

    @property
    def data(self) -> Path:
        return self._folder / "data"

    def start(self) -> None:
        settings = {
            **self._settings,
            "port": str(self.port),
            "unix_socket_directories": str(self._folder),
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.process = Process(
            self._workspace,
            f"postgres {self.major}",
            [*self._inside_disk(), self._bin / "postgres", "-D", self.data, *options],
            self._folder / "postgres.log",
            # Immediate shutdown: clears away shared memory, waits for nobody.
            stop_signal=signal.SIGQUIT,
            user=None if self._disk else self._user,
            cwd=self._folder,
        )
        wait_for(self._answers, f"PostgreSQL {self.major} answers", deadline=90)

    def stop(self) -> int:
        return self.process.stop()

    def shut_down(self) -> int:
        """Ends sessions and writes everything out, as an operator's restart does."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(90)

    def kill9(self) -> None:
        self.process.kill9()
        # Backends notice the postmaster's death by themselves; the next start needs them gone.
        wait_for(lambda: not self._backends(), "backends end after the postmaster", deadline=60)

    def conninfo(self, database: str = "postgres", port: int | None = None, **more: str) -> str:
        """`port`: that of a proxy in between, say."""
        values = {
            "host": "127.0.0.1",
            "port": str(port or self.port),
            "user": _SUPERUSER,
            "dbname": database,
            **more,
        }
        return psycopg.conninfo.make_conninfo(**values)

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(self.conninfo(database), autocommit=True, connect_timeout=5)

    def query(self, sql: str, *parameters, database: str = "postgres") -> list[tuple]:
        with self.connect(database) as connection:
            cursor = connection.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def create_database(self) -> str:
        """A new, empty database; returns its name."""
        self._databases += 1
        name = f"test_{os.getpid()}_{self._databases}"
        self.query(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        self.query(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def promote(self) -> None:
        """A standby begins to accept writes."""
        assert self.query("SELECT pg_promote()") == [(True,)]

    def follow(self, primary: "Postgres") -> None:
        """A server that was shut down starts as a standby of one that holds all that it has."""
        with open(self.data / "postgresql.auto.conf", "a", encoding="ascii") as file:
            file.write(f"primary_conninfo = '{primary.conninfo('')}'\n")
        signal_file = self.data / "standby.signal"
        signal_file.touch()
        if self._user:
            os.chown(signal_file, *self._user)
        self.start()

    def set(self, name: str, value: str | None) -> None:
        """Changes a setting of the running server; None: as it was."""
        self.query(f"ALTER SYSTEM SET {name} = '{value}'" if value else f"ALTER SYSTEM RESET {name}")
        self.reload()

    def access(self, *rules: str) -> None:
        """Lines of pg_hba.conf that go before all others."""
        file = self.data / "pg_hba.conf"
        # In place: it stays its owner's.
        file.write_text("\n".join((*rules, file.read_text())))
        self.reload()

    def reload(self) -> None:
        """Reads config files, access rules and certificates again; new sessions then go by them."""
        before = self.process.output().count("received SIGHUP")
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.process.output().count("received SIGHUP") > before, "the server reloads")
        # What it reads after saying so must be in force.
        self.query("SELECT 1")

    def _initdb(self, more: tuple[str, ...]) -> None:
        self._run(
            *("initdb", "-D", self.data, "-U", _SUPERUSER, "-A", "trust"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", *more),
        )

    def _copy(self, primary: "Postgres") -> None:
        self._run(
            *("pg_basebackup", "-D", self.data, "-d", primary.conninfo("")),
            *("--write-recovery-conf", "--wal-method=fetch", "--checkpoint=fast", "--no-sync"),
        )

    def _inside_disk(self) -> list[str]:
        """Words that run a command as the server's user where its disk is seen."""
        if not self._disk:
            return []
        user, group = self._user
        drop = ("setpriv", "--reuid", str(user), "--regid", str(group), "--clear-groups", "--")
        return [*self._disk.inside, *drop]

    def _run(self, program: str, *arguments: str | Path) -> None:
        user = self._user if not self._disk else None
        result = subprocess.run(
            [*self._inside_disk(), self._bin / program, *arguments],
            capture_output=True,
            text=True,
            cwd=self._folder,
            **({"user": user[0], "group": user[1], "extra_groups": []} if user else {}),
        )
        if result.returncode:
            raise AssertionError(f"{program} of {self.major}: {result.stdout}{result.stderr}")

    def _answers(self) -> bool:
        self.process.check_running()
        try:
            return self.query("SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False

    def _backends(self) -> list[int]:
        """Processes that work in this data folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if (entry / "cwd").readlink() == self.data:
                        found.append(int(entry.name))
                except OSError:
                    pass
        return found


def programs(workspace: Workspace, major: int) -> Path:
    """A server's programs where the user that runs them can reach them."""
    return _runnable_folder(workspace, major, unprivileged_user()) / "bin"


def unprivileged_user() -> tuple[int, int] | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise AssertionError("root, but no user `postgres` or `nobody` to run PostgreSQL as")


def _runnable_folder(workspace: Workspace, major: int, user: tuple[int, int] | None) -> Path:
    """The server's files where its user can reach them: a clone below /root is closed to others."""
    folder = postgres_folder(major)
    if user is None or _can_run(folder / "bin" / "postgres", user):
        return folder
    copy = workspace.folder / f"postgres-files-{major}"
    if not copy.exists():
        shutil.copytree(folder, copy, symlinks=True)
    return copy


def _can_run(program: Path, user: tuple[int, int]) -> bool:
    try:
        result = subprocess.run(
            [program, "--version"],
            capture_output=True,
            cwd="/",
            **{"user": user[0], "group": user[1], "extra_groups": []},
        )
    except PermissionError:
        return False
    return result.returncode == 0
