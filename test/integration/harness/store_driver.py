"""A PostgresStore in a process of its own, and what a test asks of it."""

import json
import random
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from .paths import built
from .process import Workspace
from .wait import wait_for

# Beyond an operation's deadline: two busy cores must not make a test fail.
_PATIENCE = 30.0


@dataclass(frozen=True)
class Answer:
    result: str
    reason: str = ""
    attempt: int = 0
    state: str = ""
    response: str = ""
    elapsed_ms: int = 0


def new_attempt() -> int:
    return random.randrange(1, 2**63)


class StoreDriver:
    """The process ends with its standard input, and so with this one. Many threads may ask at once."""

    def __init__(
        self, workspace: Workspace, conninfo: str, *, wrap: tuple[str, ...] = (), **settings: str | int | bool
    ) -> None:
        """`wrap`: words before the command. `settings`: as store_driver.cc reads them."""
        settings = {"conninfo": conninfo, **settings}
        self._log: Path = workspace.new_folder("store-driver") / "log"
        with open(self._log, "ab") as log:
            self._child = subprocess.Popen(
                [*wrap, str(built("test/store/postgres/store_driver")), json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._lock = threading.Lock()
        self._waiting: dict[int, Future] = {}
        self._next = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, op: str, key: str = "", *, deadline: float = 5.0, **more: str | int) -> "Pending":
        with self._lock:
            self._next += 1
            number = self._next
            future = self._waiting[number] = Future()
            command = {"id": number, "op": op, "key": key, "deadline_ms": int(deadline * 1000), **more}
            try:
                self._child.stdin.write(json.dumps(command) + "\n")
                self._child.stdin.flush()
            except BrokenPipeError:
                future.set_exception(AssertionError(f"the driver ended: {self._log.read_text()}"))
        return Pending(future, deadline, f"{op} {key}")

    def claim(self, key: str, attempt: int | None = None, **more: float) -> Answer:
        return self.start_claim(key, attempt, **more).get()

    def start_claim(self, key: str, attempt: int | None = None, **more: float) -> "Pending":
        return self.send("claim", key, attempt=attempt or new_attempt(), **more)

    def must_claim(self, key: str) -> int:
        """Its attempt."""
        answer = self.claim(key)
        assert answer.result == "claimed", answer
        return answer.attempt

    def complete(self, key: str, attempt: int, response: str = "response", **more: float) -> Answer:
        return self.start_complete(key, attempt, response, **more).get()

    def start_complete(self, key: str, attempt: int, response: str = "response", **more: float) -> "Pending":
        return self.send("complete", key, attempt=attempt, response=response, **more)

    def look_up(self, key: str, **more: float) -> Answer:
        return self.send("look_up", key, **more).get()

    def stats(self) -> dict:
        return self.send("stats")._raw()

    def wait_until_up(self, connections: int = 4) -> None:
        wait_for(
            lambda: self.stats()["connections_up"] >= connections,
            lambda: f"connections stand: {self.stats()}",
            deadline=30,
        )

    def sent(self, start: Callable[[], "Pending"]) -> "Pending":
        """Starts an operation and waits until the store has handed it to a connection."""
        before = self.stats()["batches"]
        pending = start()
        wait_for(lambda: self.stats()["batches"] > before, lambda: f"it is sent: {self.stats()}", deadline=30)
        return pending

    def claims_again(self, key: str) -> int:
        """Waits until a claim succeeds, without a restart of the store; its attempt."""
        answers = []

        def tried() -> Answer | None:
            answers.append(self.claim(key, deadline=2))
            return answers[-1] if answers[-1].result == "claimed" else None

        return wait_for(tried, lambda: f"{key} is claimed: {answers[-1]} {self.stats()}", deadline=45).attempt

    def completes_again(self, key: str, attempt: int, response: str = "response") -> None:
        """Repeats a completion until it is durable."""
        answers = []

        def tried() -> bool:
            answers.append(self.complete(key, attempt, response, deadline=2))
            assert answers[-1].result != "fenced"
            return answers[-1].result == "done"

        wait_for(tried, lambda: f"{key} is completed: {answers[-1]} {self.stats()}", deadline=45)

    def stop(self) -> int:
        if not self._child.stdin.closed:
            self._child.stdin.close()
        try:
            code = self._child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            raise AssertionError("the driver does not end") from None
        self._reader.join()
        self._child.stdout.close()
        return code

    def _read(self) -> None:
        for line in self._child.stdout:
            answer = json.loads(line)
            with self._lock:
                future = self._waiting.pop(answer.pop("id"))
            future.set_result(answer)
        with self._lock:
            for future in self._waiting.values():
                future.set_exception(AssertionError(f"the driver ended: {self._log.read_text()}"))


class Pending:
    """An operation under way."""

    def __init__(self, future: Future, deadline: float, what: str) -> None:
        self._future = future
        self._deadline = deadline
        self._what = what

    def done(self) -> bool:
        return self._future.done()

    def get(self) -> Answer:
        return Answer(**self._raw())

    def _raw(self) -> dict:
        try:
            return self._future.result(self._deadline + _PATIENCE)
        except TimeoutError:
            raise AssertionError(f"no answer, long after the deadline: {self._what}") from None
