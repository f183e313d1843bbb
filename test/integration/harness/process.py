"""Servers as child processes: started in a group of their own, logged to a file, stopped by process id."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from . import guard as guard_module

_STOP_DEADLINE = 15.0


class Workspace:
    """A temporary folder, the guard over it, and every process started in it."""

    def __init__(self) -> None:
        self.guard = guard_module.Guard()
        self.folder = Path(tempfile.mkdtemp(prefix="envoy-idempotency-"))
        self.guard.watch_folder(str(self.folder))
        # An unprivileged PostgreSQL must get to its data in here.
        self.folder.chmod(0o755)
        self.processes: list[Process] = []
        self._names: dict[str, int] = {}
        self._closed = False

    def new_folder(self, name: str) -> Path:
        number = self._names[name] = self._names.get(name, 0) + 1
        path = self.folder / f"{name}-{number}"
        path.mkdir()
        return path

    def close(self) -> None:
        """Ends all processes and removes the folder. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        for process in reversed(self.processes):
            process.stop()
        if not os.environ.get("KEEP_TEST_FILES"):
            shutil.rmtree(self.folder, ignore_errors=True)
        self.guard.forget_folder(str(self.folder))
        self.guard.close()


class Process:
    """A running server. Its output goes to `log`."""

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        command: list[str | Path],
        log: Path,
        *,
        env: dict[str, str] | None = None,
        stop_signal: int = signal.SIGTERM,
        user: tuple[int, int] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._workspace = workspace
        self._stop_signal = stop_signal
        # The log may hold what an earlier process of the same server said.
        with open(log, "ab") as output:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
                cwd=cwd,
                **({"user": user[0], "group": user[1], "extra_groups": []} if user else {}),
            )
        workspace.guard.watch_process(self.pid, stop_signal)
        workspace.processes.append(self)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal, as in subprocess."""
        return self._child.poll()

    def check_running(self) -> None:
        if self.exit_code is not None:
            raise AssertionError(f"{self.name} ended with {self.exit_code}:\n{self.tail()}")

    def send_signal(self, number: int) -> None:
        self._child.send_signal(number)

    def wait(self, deadline: float = _STOP_DEADLINE) -> int:
        """Waits for an end that something else brings about."""
        try:
            code = self._child.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {deadline:g} s") from None
        self._gone()
        return code

    def stop(self) -> int:
        """Asks it to end, insists if it does not, and returns the exit code. Harmless when it has ended."""
        if self.exit_code is None:
            self.send_signal(self._stop_signal)
            self.resume()  # A paused one would never see the first signal.
            try:
                self._child.wait(_STOP_DEADLINE)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._gone()
        return self._child.returncode

    def kill9(self) -> None:
        """Ends it as a crash would: no clean-up of its own."""
        self._child.kill()
        self._child.wait()
        self._gone()

    def pause(self) -> None:
        """Stops it from running at all, as a machine that hangs; `resume` goes on."""
        self.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.send_signal(signal.SIGCONT)

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.output().splitlines()[-lines:])

    def _gone(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._workspace.guard.forget_process(self.pid)
