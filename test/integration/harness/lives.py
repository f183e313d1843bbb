"""Many lives of keys, by several stores at once, while a test breaks something; then the balance.

Each key is wanted by one worker of every store. A worker claims until somebody has the key, and whoever has
it completes until that is durable. However the world was broken meanwhile: each key was acknowledged as
claimed exactly once, and what was acknowledged as completed is there, with its winner's attempt and response.
"""

import threading
import time
from collections import defaultdict

from .postgres import Postgres
from .store_driver import Answer, StoreDriver, new_attempt
from .wait import wait_for

# How long a key may take until somebody has completed it: in doubt, released, reconnected, claimed again.
_LONGEST_LIFE = 60.0


class Lives:
    def __init__(self, stores: list[StoreDriver], workers: int = 8, deadline: float = 2.0) -> None:
        self.claimed: dict[str, list[int]] = defaultdict(list)
        self.completed: dict[str, str] = {}
        self.results: dict[str, int] = defaultdict(int)  # Of claims and completions: how often each came.
        self.errors: list[str] = []
        self._deadline = deadline
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(store, f"{worker}"), daemon=True)
            for worker in range(workers)
            for store in stores
        ]
        # All workers of a name go through the same keys; none stops before the others are through.
        self._last: dict[str, int] = {}
        for thread in self._threads:
            thread.start()

    def wait_for_more(self, completions: int = 30) -> None:
        """Until so many more are completed."""
        target = len(self.completed) + completions
        wait_for(
            lambda: len(self.completed) >= target or self.errors,
            lambda: f"{completions} more completions: {dict(self.results)}",
            deadline=60,
        )

    def finish(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(_LONGEST_LIFE + 30)
            assert not thread.is_alive()
        assert self.errors == []

    def check(self, server: Postgres, database: str) -> None:
        """After finish(): what was told against what is there."""
        assert {key: len(attempts) for key, attempts in self.claimed.items() if len(attempts) != 1} == {}
        rows = server.query(
            "SELECT convert_from(key, 'UTF8'), attempt, state, convert_from(body, 'UTF8')"
            " FROM idempotency.record LEFT JOIN idempotency.response USING (attempt)",
            database=database,
        )
        there = {key: (attempt, state, body) for key, attempt, state, body in rows}
        told = {key: (self.claimed[key][0], 2, response) for key, response in self.completed.items()}
        assert there == told

    def _work(self, store: StoreDriver, name: str) -> None:
        try:
            number = 0
            while self._goes_on(name, number):
                self._live(store, f"{name}-{number}")
                number += 1
        except Exception as error:
            self.errors.append(repr(error))

    def _goes_on(self, name: str, number: int) -> bool:
        with self._lock:
            if not self._ending.is_set():
                self._last[name] = max(self._last.get(name, 0), number)
            return number <= self._last.get(name, -1)

    def _live(self, store: StoreDriver, key: str) -> None:
        end = time.monotonic() + _LONGEST_LIFE
        answer = None
        while time.monotonic() < end:
            answer = self._count(store.claim(key, new_attempt(), deadline=self._deadline))
            if answer.result == "claimed":
                with self._lock:
                    self.claimed[key].append(answer.attempt)
                self._complete(store, key, answer.attempt, end)
                return
            if answer.result == "exists" and answer.state == "completed":
                return
            time.sleep(0.02)
        raise AssertionError(f"{key} was never completed: {answer}")

    def _complete(self, store: StoreDriver, key: str, attempt: int, end: float) -> None:
        response = f"response of {attempt}"
        answer = None
        while time.monotonic() < end:
            answer = self._count(store.complete(key, attempt, response, deadline=self._deadline))
            if answer.result == "done":
                with self._lock:
                    self.completed[key] = response
                return
            if answer.result == "fenced":
                break
            time.sleep(0.02)
        raise AssertionError(f"the completion of {key} by {attempt}: {answer}")

    def _count(self, answer: Answer) -> Answer:
        with self._lock:
            self.results[answer.result] += 1
        return answer
