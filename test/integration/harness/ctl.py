"""idempotencyctl, the operator's program, as test/run builds it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios

from .paths import BUILT
from .wait import wait_for

# Without a look whether it is there: modules that name it load before it is built, too.
PROGRAM = BUILT / "source" / "cli" / "idempotencyctl"
_DEADLINE = 60


def start(*words: str, env: dict[str, str] | None = None) -> subprocess.Popen:
    """For those that are to run beside others. The caller waits for it."""
    return subprocess.Popen(
        [PROGRAM, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(env),
    )


def run(*words: str, text: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """`text` is its stdin."""
    return subprocess.run(
        [PROGRAM, *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
        env=_environment(env),
    )


def migrate(conninfo: str) -> None:
    """Puts the schema into a database, as an operator does."""
    done = run("migrate", "--conninfo", conninfo)
    assert done.returncode == 0, done.stderr


def _environment(more: dict[str, str] | None) -> dict[str, str]:
    """Without what libpq would read: a test says all of it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**own, **(more or {})}


class Terminal:
    """The program at a terminal: what it shows, and what a person types."""

    def __init__(self, *words: str, columns: int = 100, rows: int = 30) -> None:
        self._ours, self.device = pty.openpty()
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(self.device)
        self.shown = ""
        self.process = subprocess.Popen(
            [PROGRAM, *words],
            stdin=self.device,
            stdout=self.device,
            stderr=self.device,
            start_new_session=True,
            # Makes it the terminal of the new session, which is what Ctrl-C and /dev/tty need.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=_environment(None),
        )

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.device, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, text: str) -> None:
        """Until this is shown; what was shown up to it is forgotten."""
        wait_for(
            lambda: self._read() and text in self.shown, lambda: f"{text!r} in {self.shown!r}", _DEADLINE
        )
        self.shown = self.shown.partition(text)[2]

    def last_frame(self) -> str:
        """Of `watch`: what was shown since it last began at the top."""
        self._read()
        return self.shown.rpartition("\x1b[H")[2]

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def finish(self) -> int:
        """Waits until the program ends; its exit code."""
        wait_for(lambda: self._read() and self.process.poll() is not None, lambda: self.shown, _DEADLINE)
        self._read()
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self.device)

    def _read(self) -> bool:
        while select.select([self._ours], [], [], 0)[0]:
            self.shown += os.read(self._ours, 65536).decode(errors="replace")
        return True
