"""Writes the history of a run. history.py says what the events are, and reads them."""

import json
import threading
import time
from collections import Counter
from pathlib import Path


class Recorder:
    """Appends events to a file. Any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self.fault_kinds: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115

    def add(self, event: str, /, **fields) -> None:
        line = json.dumps({"at": time.monotonic_ns(), "type": event, **fields}, ensure_ascii=False)
        with self._lock:
            self._file.write(line + "\n")
            self.counts[event] += 1

    def fault(self, kind: str, target: str, phase: str = "begin", **details) -> None:
        self.add("fault", kind=kind, target=target, phase=phase, **details)
        if phase == "begin":
            self.fault_kinds[kind] += 1

    def close(self, upstream_log: Path) -> list[dict]:
        """Puts the upstream's events in their places by time, and returns all."""
        self._file.close()
        events = _read(self.path) + _read(upstream_log)
        events.sort(key=lambda event: (event["type"] != "settings", event["at"]))
        with open(self.path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
        return events


def _read(path: Path) -> list[dict]:
    if not path.exists():
        return []
    with open(path, encoding="utf-8") as file:
        # A process that was killed may have left half a line.
        return [json.loads(line) for line in file if line.endswith("\n")]
