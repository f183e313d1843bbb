"""Scenarios of the service's own transactions: what ends just before or after a commit, or comes too late.

Whatever happens: one effect, and the client gets what was committed. Nothing is ever unknown.
"""

import asyncio
import contextlib
import time

import plan
from clients import Task, code_of
from gateway import Gateway
from observer import Boundary, Link
from parts import NOTICE, PATIENCE, QUICK, UNKNOWN, Parts, either
from requester import Answer

_NEVER = (UNKNOWN, "idempotency_detached_lost")
_WORK = {"work": 0.01, "status": 201}
# Longer than the lease, so that another attempt comes first.
_PAST_LEASE = plan.LEASE + 1.5
# Attempts that come too late, each at another step. Without an order, complete() alone can stop those that do
# not begin.
_LATE = (
    {"work": _PAST_LEASE, "phases": 1, "outbox": "last"},
    {"work": _PAST_LEASE, "phases": 1, "begins": False, "outbox": ""},
    {"work": _PAST_LEASE, "phases": 2, "begins": False, "outbox": ""},
    {"pause": _PAST_LEASE, "phases": 2, "outbox": "all"},
    {"pause": _PAST_LEASE, "phases": 2, "begins": False, "outbox": ""},
)


class Owning(Parts):
    # --- what is said is not what is committed

    async def own_other_answer(self) -> bool:
        """The service commits, and says something else, or nothing: the client gets what is committed."""
        done = await asyncio.gather(
            *(
                self._say_other(operation, says)
                for operation in ("own", "own_detached")
                for says in (500, 503, 504, 403, 404, 0)
            )
        )
        return any(done)

    async def _say_other(self, operation: str, says: int) -> bool:
        one, other = self._gateways()
        task = self._keys.new(operation, aim="says")
        async with self._sender() as sender, self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
            answer = await self._begin(sender, task, one, {**_WORK, "says": says}, sprung)
        if sprung.is_set():
            self._must_have_result(answer, f"the service said {says}")
        return await self._check_own(sprung.is_set(), task, other, "it is committed")

    def _must_have_result(self, answer: Answer | None, when: str) -> None:
        """Unless the filter says that it could not ask. 503 of its own: it had no store before."""
        told = answer is not None and answer.header("idempotency-stored") is None
        if told and code_of(answer) != "idempotency_store_unavailable":
            what = f"clients that got something else than what was committed, when {when}"
            self._recorder.add("bound", what=what, value=int(answer.status != 201), most=0)

    async def own_lost_answer(self) -> bool:
        """The connection to the upstream breaks when it has committed, and answers."""
        one, other = self._gateways()
        task = self._keys.new("own", aim="lost")
        async with (
            self._sender() as sender,
            self._trap(task, one, Boundary.UPSTREAM_ANSWERED, _cut) as sprung,
        ):
            answer = await self._begin(sender, task, one, _WORK, sprung)
        if sprung.is_set():
            self._must_have_result(answer, "its response was lost")
        return await self._check_own(sprung.is_set(), task, other, "it is committed")

    async def own_timed_out(self) -> bool:
        """The service takes too long, or the request does not arrive: the next one runs at once."""
        done = await asyncio.gather(
            self._lose("own_hasty", None, {**_WORK, "work": 0.9}),
            self._lose("own_hasty", None, {**_WORK, "hold": 0.9}),
            self._lose("own", _cut, _WORK),
            self._lose("own_detached", _cut, _WORK),
        )
        return any(done)

    async def _lose(self, operation: str, action, wish: dict) -> bool:
        one, other = self._gateways()
        task = self._keys.new(operation, aim="late")
        async with self._sender() as sender, self._trap(task, one, Boundary.UPSTREAM_SENT, action) as sprung:
            await self._begin(sender, task, one, {**wish, "phases": 1, "outbox": "last"}, sprung)
        return await self._check_own(sprung.is_set(), task, other, "nothing is unknown")

    # --- the service's connection to its database

    async def own_commit_lost(self) -> bool:
        """The commit does not arrive."""
        return await self._cut_commit(Boundary.COMMIT_SENT)

    async def own_commit_in_doubt(self) -> bool:
        """The commit arrives, and the service does not hear of it."""
        return await self._cut_commit(Boundary.COMMIT_ACKNOWLEDGED)

    async def _cut_commit(self, boundary: Boundary) -> bool:
        one, other = self._gateways()
        task = self._keys.new("own", aim="commit")
        async with self._sender() as sender, self._trap(task, one, boundary, _cut) as sprung:
            answer = await self._begin(sender, task, one, {**_WORK, "outbox": "last"}, sprung)
        if sprung.is_set() and boundary is Boundary.COMMIT_ACKNOWLEDGED:
            self._must_have_result(answer, "the service did not hear of its commit")
        return await self._check_own(sprung.is_set(), task, other, "the next request finds out")

    # --- the service ends

    async def own_killed_before_commit(self) -> bool:
        """The service ends with its transaction open."""
        return await self._crash_service({"crash": "open", "outbox": "all"})

    async def own_killed_after_commit(self) -> bool:
        """The service ends when it has committed, and has not answered."""
        return await self._crash_service({"crash": "committed", "outbox": "last"})

    async def own_killed_between_phases(self) -> bool:
        """The service ends between its phases: the first one is not repeated."""
        return await self._crash_service({"crash": "between", "phases": 2, "outbox": "all"})

    async def _crash_service(self, wish: dict) -> bool:
        one, other = self._gateways()
        task = self._keys.new("own", aim="crash")
        service = self.world.service
        self._recorder.fault("crash_upstream_after", "upstream")
        async with self._sender() as sender:
            until = time.monotonic() + PATIENCE
            answer = await self._begin(sender, task, one, {**_WORK, **wish, "until": until})
            while service.running and time.monotonic() < until:
                await asyncio.sleep(NOTICE / 4)
            struck = not service.running
        if struck and wish["crash"] == "committed":
            self._must_have_result(answer, "the service was killed after its commit")
        await asyncio.to_thread(service.start)
        self._recorder.fault("crash_upstream_after", "upstream", "end")
        return await self._check_own(struck, task, other, f"the service ended: {wish['crash']}", wish=wish)

    # --- attempts that come too late

    async def own_zombies(self) -> bool:
        """Envoy is killed while the service works, leases run out, others run the requests; then the service
        goes on with the first attempts."""
        return await self._be_late("kill_envoy", Gateway.kill9, Gateway.start)

    async def own_overtaken(self) -> bool:
        """The same, but that Envoy only stands still, and hears the answers in the end."""
        return await self._be_late("pause_envoy", Gateway.pause, Gateway.resume)

    async def _be_late(self, kind: str, begin, end) -> bool:
        one, other = self._gateways()
        tasks = [self._keys.new("own", aim="late") for _ in _LATE]
        async with self._senders(2 * len(tasks)) as senders, contextlib.AsyncExitStack() as traps:
            first, later = senders[: len(tasks)], senders[len(tasks) :]
            begun = [
                await traps.enter_async_context(self._trap(task, one, Boundary.UPSTREAM_SENT, None))
                for task in tasks
            ]
            running = [
                asyncio.create_task(self._begin(sender, task, one, {**_WORK, **wish}, trap))
                for sender, task, wish, trap in zip(first, tasks, _LATE, begun, strict=True)
            ]
            for trap, task in zip(begun, running, strict=True):
                await either(trap.wait(), task)
            since = time.monotonic()
            # Those that pause are at it.
            await asyncio.sleep(2 * NOTICE)
            self._recorder.fault(kind, one.name)
            await asyncio.to_thread(begin, one)
            struck = all(trap.is_set() for trap in begun)
            again = [
                self._until_final(sender, task, other) for sender, task in zip(later, tasks, strict=True)
            ]
            await asyncio.gather(*again)
            # Until the first attempts have tried.
            await asyncio.sleep(max(0, since + _PAST_LEASE + 3 * NOTICE - time.monotonic()))
            await asyncio.to_thread(end, one)
            self._recorder.fault(kind, one.name, "end")
            await asyncio.gather(*running)
        done = [await self._check_own(struck, task, other, "a later attempt holds it") for task in tasks]
        return all(done)

    # --- the record is locked

    async def own_lock_outlives_lease(self) -> bool:
        """The service's transaction is open for longer than the lease: nobody can take its record."""
        one, other = self._gateways()
        task = self._keys.new("own", aim="locked")
        async with self._senders(2) as (sender, impatient):
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
                running = asyncio.create_task(self._begin(sender, task, one, _HOLD, sprung))
                await either(sprung.wait(), running)
            while not running.done():
                await impatient.send(task, other.number, PATIENCE, _WORK)
                await asyncio.sleep(NOTICE)
            answer = await running
        if sprung.is_set() and answer is not None:
            what = "attempts whose lease could not be renewed, and that did not get their result"
            self._recorder.add("bound", what=what, value=int(answer.header("x-execution") is None), most=0)
        return await self._check_own(sprung.is_set(), task, other, "its transaction is open", works=1)

    async def own_killed_while_locked(self) -> bool:
        """Envoy is killed while the service's transaction is open: nobody can take its record before the
        commit, and then it is completed."""
        one, other = self._gateways()
        task = self._keys.new("own", aim="locked")
        async with self._senders(2) as (sender, impatient):
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
                running = asyncio.create_task(self._begin(sender, task, one, _HOLD, sprung))
                await either(sprung.wait(), running)
            await asyncio.sleep(2 * NOTICE)
            self._recorder.fault("kill_envoy", one.name)
            await asyncio.to_thread(one.kill9)
            end = time.monotonic() + _HOLD["hold"]
            while time.monotonic() < end:
                await impatient.send(task, other.number, PATIENCE, _WORK)
                await asyncio.sleep(NOTICE)
            await asyncio.to_thread(one.start)
            self._recorder.fault("kill_envoy", one.name, "end")
            await running
        return await self._check_own(sprung.is_set(), task, other, "its transaction is open", works=1)

    async def own_sent_twice(self) -> bool:
        """Envoy sends one attempt again while its first try is in its transaction: one of them commits."""
        one, other = self._gateways()
        task = self._keys.new("own_again", aim="twice")
        async with self._sender() as sender, self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
            await self._begin(sender, task, one, {**_WORK, "phases": 1, "hold": 0.8}, sprung)
            # Until the second try has tried.
            await asyncio.sleep(0.8 + 2 * NOTICE)
        return await self._check_own(sprung.is_set(), task, other, "one of two tries commits")

    async def own_denied_between_phases(self) -> bool:
        """The service answers that the caller may not have this, when a phase is committed: that phase is not
        repeated."""
        done = await asyncio.gather(*(self._deny(status) for status in plan.RELEASED))
        return all(done)

    async def _deny(self, status: int) -> bool:
        one, other = self._gateways()
        task = self._keys.new("own", aim="denied")
        async with self._sender() as sender, self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
            # Without an order in the first phase, which would keep the record by itself.
            wish = {**_WORK, "phases": 2, "outbox": "last", "denied": status}
            answer = await self._begin(sender, task, one, wish, sprung)
            struck = answer is not None and answer.status == status
            # With both phases, whatever the next one would choose.
            await self._begin(sender, task, other, {**_WORK, "phases": 2, "outbox": "last"})
        return await self._check_own(struck, task, other, "its first phase is committed")

    # --- what they are made of

    async def _check_own(
        self,
        struck: bool,
        task: Task,
        gateway: Gateway,
        why: str,
        works: int | None = None,
        wish: dict | None = None,
    ) -> bool:
        """In the end there is one effect, and its response. `works`: so many requests came to the service.
        `wish`: of the first attempt; a re-run has the same phases and orders."""
        shape = {name: value for name, value in (wish or {}).items() if name in ("phases", "outbox")}
        sprung = asyncio.Event()
        if struck:
            sprung.set()
        return await self._check_retry(
            sprung,
            task,
            gateway,
            why,
            patience=PATIENCE + plan.LEASE + plan.SWEEP,
            wish={**QUICK, **shape},
            final="success",
            executions=1,
            works=works,
            never=_NEVER,
        )


# Without an order, which would lock the record as well.
_HOLD = {"work": 0.01, "status": 201, "phases": 1, "outbox": "", "hold": 2.2 * plan.LEASE}


async def _cut(link: Link) -> None:
    link.cut()
