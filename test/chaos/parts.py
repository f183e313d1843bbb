"""What aimed scenarios are made of: clients that ask again, traps, and what is expected in the end."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import plan
from clients import Keys, Sender, Task, code_of, is_final
from gateway import Gateway
from observer import Boundary, Link, Observer, Trap
from recorder import Recorder
from requester import Answer
from world import World

UNKNOWN = "idempotency_outcome_unknown"
# Long enough for a request to come by, on a busy machine.
PATIENCE = 6.0
# Long enough for Envoy to notice that somebody has gone.
NOTICE = 0.2
QUICK = {"work": 0.01, "status": 200}
DATABASE_BOUNDARIES = {
    Boundary.CLAIM_SENT,
    Boundary.CLAIM_ACKNOWLEDGED,
    Boundary.READ_SENT,
    Boundary.COMPLETION_SENT,
    Boundary.COMPLETION_ACKNOWLEDGED,
}
# Between the service and the database of its own transactions.
SERVICE_BOUNDARIES = {Boundary.COMMIT_SENT, Boundary.COMMIT_ACKNOWLEDGED}


class Parts:
    def __init__(self, world: World, recorder: Recorder, keys: Keys, chance: random.Random) -> None:
        self.world, self._recorder, self._keys, self._chance = world, recorder, keys, chance

    def _gateways(self) -> tuple[Gateway, Gateway]:
        """One, and another if there are two; either may be the first."""
        found = list(self.world.gateways)
        self._chance.shuffle(found)
        return found[0], found[-1]

    @contextlib.asynccontextmanager
    async def _trap(
        self,
        task: Task,
        gateway: Gateway,
        boundary: Boundary,
        action: Callable[[Link], Awaitable[None]] | None,
        skip: int = 0,
    ) -> AsyncIterator[asyncio.Event]:
        """Set while the block runs. What you get is set when it springs."""
        if boundary not in DATABASE_BOUNDARIES:
            of_service = boundary in SERVICE_BOUNDARIES
            watches = self.world.service_watches if of_service else [gateway.upstream_watch]
            async with self._trap_at(watches, task, boundary, action, skip) as sprung:
                yield sprung
            return
        # All of an Envoy's requests share its connections to the store: what one holds is away for all.
        what = ("aim:trap", f"{gateway.name}.database")

        async def strike(link: Link) -> None:
            self._recorder.fault(*what)
            if action:
                await action(link)

        async with self._trap_at(gateway.database_watches, task, boundary, strike, skip) as sprung:
            try:
                yield sprung
            finally:
                if sprung.is_set():
                    self._recorder.fault(*what, "end")

    @contextlib.asynccontextmanager
    async def _trap_at(
        self,
        watches: Iterable[Observer],
        task: Task,
        boundary: Boundary,
        action: Callable[[Link], Awaitable[None]] | None,
        skip: int = 0,
    ) -> AsyncIterator[asyncio.Event]:
        """`skip`: so many times it does not spring."""
        sprung = asyncio.Event()

        async def spring(link: Link) -> None:
            if not sprung.is_set():
                sprung.set()
                if action:
                    await action(link)

        traps = [(watch, watch.set(Trap(task.key, boundary, spring, skip))) for watch in watches]
        try:
            yield sprung
        finally:
            for watch, trap in traps:
                watch.clear(trap)

    @contextlib.asynccontextmanager
    async def _sender(self) -> AsyncIterator[Sender]:
        async with self._senders(1) as (sender,):
            yield sender

    @contextlib.asynccontextmanager
    async def _senders(self, count: int) -> AsyncIterator[list[Sender]]:
        senders = [Sender(self.world, self._recorder, f"aim-{number}") for number in range(count)]
        try:
            yield senders
        finally:
            for sender in senders:
                sender.close()

    async def _begin(
        self, sender: Sender, task: Task, gateway: Gateway, wish: dict, sprung: asyncio.Event | None = None
    ) -> Answer | None:
        """The first answer that is more than `nothing ran`: another scenario may disturb the store."""
        end = time.monotonic() + PATIENCE
        while True:
            answer = await sender.send(task, gateway.number, 3 * plan.LEASE + PATIENCE, wish)
            refused = answer is not None and code_of(answer) == "idempotency_store_unavailable"
            if not refused or (sprung and sprung.is_set()) or time.monotonic() > end:
                return answer
            await asyncio.sleep(self._chance.uniform(0.05, 0.2))

    async def _until_final(
        self,
        sender: Sender,
        task: Task,
        gateway: Gateway,
        patience: float = PATIENCE,
        wish: dict = QUICK,
    ) -> Answer | None:
        """As a patient client asks. `wish`: what the service does if the request runs."""
        end = time.monotonic() + patience
        answer = None
        while time.monotonic() < end:
            answer = await sender.send(task, gateway.number, PATIENCE, wish)
            if answer and is_final(answer, task.operation):
                return answer
            await asyncio.sleep(self._chance.uniform(0.05, 0.2))
        return answer

    def _expect(
        self,
        task: Task,
        why: str,
        *,
        final: str | None = None,
        executions: int | None = None,
        works: int | None = None,
        never: tuple = (),
    ) -> None:
        tenant, operation, key = task.identity
        self._recorder.add(
            "expect",
            tenant=tenant,
            operation=operation,
            key=key,
            final=final,
            executions=executions,
            works=works,
            never=list(never),
            why=why,
        )

    async def _check_retry(
        self,
        sprung: asyncio.Event,
        task: Task,
        gateway: Gateway,
        why: str,
        *,
        patience: float = PATIENCE,
        wish: dict = QUICK,
        **expected,
    ) -> bool:
        """A client asks again; what must come of it counts only if the scenario struck."""
        async with self._sender() as sender:
            await self._until_final(sender, task, gateway, patience, wish)
        if sprung.is_set():
            self._expect(task, why, **expected)
        return sprung.is_set()


async def either(*waits: Awaitable) -> None:
    """Until one of them is over. Tasks go on."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    for wait, task in zip(waits, tasks, strict=True):
        if task is not wait:
            task.cancel()
