"""What became of the attempts that the reconciler or an operator may ask about: the endpoint's table in
docs/reconcile.md.

It survives crashes of the service. An attempt that had begun before a crash is finished afterwards, so it has
a result as well.
"""

import enum
import json
import sqlite3
from collections import Counter
from pathlib import Path

import plan

# The last line of the log is looked for in so many bytes at its end.
_TAIL = 1 << 20


class Said(enum.Enum):
    """What the service says of an attempt."""

    ABSENT = "absent"  # It is not here; it may still come.
    REFUSED = "refused"  # It did not run, and never will.
    RUNNING = "running"
    DONE = "done"


class Attempts:
    def __init__(self, log: Path) -> None:
        self._table = sqlite3.connect(log.with_name("attempts.db"), isolation_level=None)
        # What is written outlives this process, and need not outlive the machine.
        self._table.execute("PRAGMA journal_mode = WAL")
        self._table.execute("PRAGMA synchronous = OFF")
        self._table.execute(
            "CREATE TABLE IF NOT EXISTS attempt"
            " (id TEXT PRIMARY KEY, state TEXT, number INTEGER, answer TEXT)"
        )
        self._absences: Counter[str] = Counter()
        self._recover_last(log)

    def is_refused(self, attempt: str) -> bool:
        return self._find(attempt)[0] is Said.REFUSED

    def begin(self, execution: dict) -> None:
        """`execution` is in the log. One that came before by the same attempt stays what it is."""
        answer = {
            "status": execution["status"],
            "headers": dict(execution["headers"]),
            "body": execution["body"],
        }
        row = (execution["attempt"], Said.RUNNING.value, execution["number"], json.dumps(answer))
        self._table.execute("INSERT OR IGNORE INTO attempt VALUES (?, ?, ?, ?)", row)

    def finish(self, attempt: str) -> None:
        self._table.execute("UPDATE attempt SET state = ? WHERE id = ?", (Said.DONE.value, attempt))

    def unfinished(self) -> list[tuple[str, int]]:
        """Attempts and the numbers of their executions: they had begun when the service crashed."""
        rows = self._table.execute("SELECT id, number FROM attempt WHERE state = ?", (Said.RUNNING.value,))
        return rows.fetchall()

    def ask(self, attempt: str, absences: int) -> tuple[Said, dict]:
        """With the answer of one that is done. One that is not here is refused, once that was often said."""
        state, answer = self._find(attempt)
        if state is not Said.ABSENT:
            return state, answer
        self._absences[attempt] += 1
        if self._absences[attempt] <= absences:
            return Said.ABSENT, {}
        self._table.execute("INSERT INTO attempt VALUES (?, ?, NULL, '{}')", (attempt, Said.REFUSED.value))
        return Said.REFUSED, {}

    def _find(self, attempt: str) -> tuple[Said, dict]:
        row = self._table.execute("SELECT state, answer FROM attempt WHERE id = ?", (attempt,)).fetchone()
        return (Said(row[0]), json.loads(row[1])) if row else (Said.ABSENT, {})

    def _recover_last(self, log: Path) -> None:
        """A crash may have come between the line in the log and the row here."""
        if not log.exists():
            return
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            lines = file.read().splitlines()
        if lines and lines[-1].endswith(b"}"):
            event = json.loads(lines[-1])
            if event["type"] == "execution" and event["operation"] in plan.AUDITED:
                self.begin(event)
