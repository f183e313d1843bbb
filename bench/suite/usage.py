"""What processes use, as /proc tells it."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int, children: bool = False) -> float:
    """User and system time of all threads; with `children` also of the processes that it started."""
    total = _ticks(pid)
    if children:
        total += sum(_ticks(child) for child in _children(pid))
    return total / _TICKS


def resident_bytes(pid: int) -> int:
    """Memory that is the process's own: without files that it maps."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no memory")


def _stat(pid: int) -> list[str]:
    # The name in brackets may hold anything.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _ticks(pid: int) -> int:
    try:
        fields = _stat(pid)
    except OSError:
        return 0
    # utime and stime, and those of children that have ended.
    return sum(int(field) for field in fields[11:15])


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int(_stat(int(entry.name))[1]) == pid:
                    found.append(int(entry.name))
            except OSError:
                pass
    return found
