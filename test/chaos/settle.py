"""After the faults: every identity is asked once more, until a final answer comes; then the store is read.

Meanwhile the reconciler must settle what is unknown, so those keys are watched until none is left.
"""

import asyncio
import random
import time

import plan
from clients import Keys, Sender, Task, code_of, is_final
from recorder import Recorder
from requester import Answer
from world import World

_AT_ONCE = 32
# All identities are asked if they are so few; else all without a final answer, and so many of the others.
_MOST = 6000


class Settling:
    def __init__(self, world: World, recorder: Recorder, keys: Keys, chance: random.Random) -> None:
        self._world, self._recorder, self._keys, self._chance = world, recorder, keys, chance
        self.unresolved = 0
        # Of reconciled operations: keys that were unknown after the last fault, and for how long at most.
        self.unsettled, self.longest_unsettled = 0, 0.0
        self._watching: asyncio.Task | None = None
        self._quiet: float | None = None

    def watch(self) -> None:
        """From now on: no fault strikes any more."""
        self._watching = asyncio.create_task(self._watch_unknown())

    async def run(self) -> None:
        """When no client asks any more."""
        self._recorder.add("quiet")
        self._quiet = time.monotonic()
        waiting = self._choose()
        askers = [self._ask_all(waiting, number) for number in range(_AT_ONCE)]
        await asyncio.gather(self._watching, *askers)
        await self._wait_for_transactions()
        for entry in await asyncio.to_thread(self._world.audit, plan.AUDITED):
            self._recorder.add("audit", **entry)
        for row in await self._last_rows():
            self._recorder.add("row", **row)
        for effect in await asyncio.to_thread(self._world.effects):
            self._recorder.add("effect", **effect)
        for order in await asyncio.to_thread(self._world.orders):
            self._recorder.add("order", **order)

    async def _watch_unknown(self) -> None:
        """Writes down when each key was last seen to be unknown: until none is, or until it is too late."""
        begin = time.monotonic()
        seen: dict[tuple[str, str, str], dict] = {}
        while self._quiet is None or time.monotonic() < self._quiet + plan.SETTLED_WITHIN + plan.ASK_MOST:
            at, passed, quiet = time.monotonic_ns(), time.monotonic() - begin, self._quiet
            rows = await asyncio.to_thread(self._world.unknown, plan.RECONCILED)
            for row in rows:
                identity = {name: row[name] for name in ("tenant", "operation", "key", "attempt")}
                seen[row["tenant"], row["operation"], row["key"]] = {"at": at, **identity}
            if rows:
                self.longest_unsettled = round(passed, 1)
            elif quiet is not None:
                break
            await asyncio.sleep(0.3)
        self.unsettled = len(seen)
        for event in seen.values():
            self._recorder.add("unsettled", **event)

    async def _wait_for_transactions(self) -> None:
        """Until those that the service has begun have ended: what they commit is judged, too."""
        end = time.monotonic() + plan.SLACK
        while await asyncio.to_thread(self._world.open_transactions) and time.monotonic() < end:
            await asyncio.sleep(0.1)

    async def _last_rows(self) -> list[dict]:
        """When no claim is left, or has had the time to end by itself."""
        end = time.monotonic() + plan.LEASE + plan.SWEEP + plan.SLACK
        while True:
            rows = await asyncio.to_thread(self._world.rows)
            left = any(row["state"] == "in_progress" for row in rows)
            if not left or time.monotonic() > end:
                return rows
            await asyncio.sleep(0.1)

    def _choose(self) -> list[tuple[str, str, str]]:
        used = self._keys.used
        settled = [identity for identity in used if identity in self._keys.settled]
        if len(settled) > _MOST:
            settled = self._chance.sample(settled, _MOST)
        return settled + [identity for identity in used if identity not in self._keys.settled]

    async def _ask_all(self, waiting: list[tuple[str, str, str]], number: int) -> None:
        sender = Sender(self._world, self._recorder, f"last-{number}")
        while waiting:
            await self._ask(sender, waiting.pop())
        sender.close()

    async def _ask(self, sender: Sender, identity: tuple[str, str, str]) -> None:
        """With the body of the request that holds the key: another one learns only that it is another."""
        bodies = list(self._keys.used[identity])
        end = time.monotonic() + plan.LEASE + plan.SWEEP + plan.SLACK
        if identity[1] in plan.RECONCILED:
            end = time.monotonic() + plan.SETTLED_WITHIN
        answer, began = None, time.monotonic_ns()
        while time.monotonic() < end:
            task = Task(*identity, bodies[0])
            envoy = self._chance.randrange(len(self._world.gateways))
            began = time.monotonic_ns()
            answer = await sender.ask(task, envoy, plan.SLACK, {"work": 0, "status": 200})
            if answer and code_of(answer) == "idempotency_key_reused" and len(bodies) > 1:
                bodies.pop(0)
            elif answer and is_final(answer, task.operation):
                self._write(task, began, answer)
                return
            else:
                await asyncio.sleep(self._chance.uniform(0.1, 0.3))
        self.unresolved += 1
        self._write(Task(*identity, bodies[0]), began, answer)

    def _write(self, task: Task, began: int, answer: Answer | None) -> None:
        told = {"status": None, "headers": [], "body": ""}
        if answer:
            told = {"status": answer.status, "headers": answer.headers, "body": answer.body}
        tenant, operation, key = task.identity
        self._recorder.add(
            "final", tenant=tenant, operation=operation, key=key, payload=task.payload, began=began, **told
        )
