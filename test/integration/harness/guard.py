"""Ends processes and removes folders when their owner is gone, even by kill -9.

A test process starts one guard and tells it through a pipe what it has made. The pipe closes when the test
process ends, whatever the reason; the guard then clears away what is still on its list, and ends.

Run as a program this file is the guard; imported, it is the owner's side.
"""

import os
import shutil
import signal
import subprocess
import sys
import time

_GRACE = 5.0


class Guard:
    """The owner's side. One per test process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__], stdin=subprocess.PIPE, start_new_session=True
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch_process(self, pid: int, stop_signal: int) -> None:
        self._tell("process", f"{pid} {stop_signal}")

    def forget_process(self, pid: int) -> None:
        self._tell("ended", str(pid))

    def watch_folder(self, path: str) -> None:
        self._tell("folder", path)

    def forget_folder(self, path: str) -> None:
        self._tell("removed", path)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, verb: str, rest: str) -> None:
        self._process.stdin.write(f"{verb} {rest}\n".encode())
        self._process.stdin.flush()


def started_at(pid: int) -> str | None:
    """Tells a process from a later one with the same number; None when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields[19]


def _signal(pid: int, number: int) -> None:
    # The whole group first: a server that forked takes its children along.
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def _clear(processes: dict[int, tuple[int, str]], folders: set[str]) -> None:
    def alive() -> list[int]:
        return [pid for pid, (_, start) in processes.items() if started_at(pid) == start]

    for pid in alive():
        _signal(pid, processes[pid][0])
        _signal(pid, signal.SIGCONT)
    end = time.monotonic() + _GRACE
    while alive() and time.monotonic() < end:
        time.sleep(0.02)
    for pid in alive():
        _signal(pid, signal.SIGKILL)
    while alive():
        time.sleep(0.02)
    for folder in folders:
        # A server that ends late may still write there.
        for _ in range(50):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
            time.sleep(0.02)


def main() -> None:
    # Signals meant for the test process must not stop its guard.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    processes: dict[int, tuple[int, str]] = {}
    folders: set[str] = set()
    for line in sys.stdin:
        verb, _, rest = line.rstrip("\n").partition(" ")
        if verb == "process":
            pid, stop_signal = map(int, rest.split())
            start = started_at(pid)
            if start:
                processes[pid] = (stop_signal, start)
        elif verb == "ended":
            processes.pop(int(rest), None)
        elif verb == "folder":
            folders.add(rest)
        elif verb == "removed":
            folders.discard(rest)
    _clear(processes, folders)


if __name__ == "__main__":
    main()
