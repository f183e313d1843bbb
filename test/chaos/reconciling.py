"""Scenarios of unknown outcomes that are settled: by the reconciler, by operators, and by both at once.

The dangerous ones are those in which what was found out is late, or is about a request that is on its way.
"""

import asyncio
import contextlib
import time

import plan
from clients import Task
from gateway import Gateway
from observer import Boundary, Link
from operators import API, CTL, Operators
from parts import NOTICE, PATIENCE, QUICK, Parts, either

# Longer than the routes wait.
_LONG = {"work": 2.4, "status": 201}


class Reconciling(Parts):
    @property
    def _operators(self) -> Operators:
        return Operators(self.world, self._recorder)

    # --- the reconciler alone

    async def reconciled_result(self) -> bool:
        """The request times out; the reconciler finds its result, and the retry gets it."""
        done = await asyncio.gather(
            *(
                self._reconcile(operation, Boundary.UPSTREAM_SENT, _LONG, cut=False)
                for operation in plan.RECONCILED
            ),
            *(self._reconcile(operation, Boundary.UPSTREAM_ANSWERED, QUICK) for operation in plan.RECONCILED),
        )
        return all(done)

    async def reconciled_not_run(self) -> bool:
        """The request does not arrive; the reconciler hears that it never will, and the retry runs."""
        done = await asyncio.gather(
            *(self._reconcile(operation, Boundary.UPSTREAM_SENT, QUICK) for operation in plan.RECONCILED)
        )
        return all(done)

    async def _reconcile(self, operation: str, boundary: Boundary, wish: dict, *, cut: bool = True) -> bool:
        one, other = self._gateways()
        task = self._keys.new(operation, aim="asked")

        async def strike(link: Link) -> None:
            if cut:
                link.cut()

        async with self._sender() as sender, self._trap(task, one, boundary, strike) as sprung:
            await self._begin(sender, task, one, wish, sprung)
        return await self._check_settled(sprung, task, other, "the reconciler settles it")

    async def reconciled_delayed(self) -> bool:
        """The request is still on its way when the reconciler asks. Where the service has said that it never
        will run, it refuses it; where it has only said that it does not know it, no retry may run."""
        done = await asyncio.gather(
            self._delay("asked", "declared_not_run"), self._delay("doubted", "absent")
        )
        return all(done)

    async def _delay(self, operation: str, heard: str) -> bool:
        one, other = self._gateways()
        task = self._keys.new(operation, aim="delayed")
        arrive = asyncio.Event()

        async def hold(_: Link) -> None:
            await arrive.wait()

        async with self._senders(2) as (sender, later):
            try:
                async with self._trap(task, one, Boundary.UPSTREAM_SENT, hold) as sprung:
                    await self._begin(sender, task, one, QUICK, sprung)
                struck = sprung.is_set() and await self._until_audited(task, heard)
                for gateway in (one, other):
                    await self._begin(later, task, gateway, QUICK)
            finally:
                arrive.set()
        if not struck:
            return False
        return await self._check_settled(sprung, task, other, f"it arrives after the answer {heard}")

    async def reconciled_by_next_leader(self) -> bool:
        """The Envoy that asks is killed while the answer is on its way."""
        one, other = self._gateways()
        task = self._keys.new("asked", aim="leader")
        killed: list[Gateway] = []

        async def cut(link: Link) -> None:
            link.cut()

        async with self._sender() as sender, self._trap(task, one, Boundary.UPSTREAM_ANSWERED, cut) as sprung:
            async with contextlib.AsyncExitStack() as traps:
                for gateway in self.world.gateways:

                    async def kill(link: Link, gateway: Gateway = gateway) -> None:
                        self._recorder.fault("kill_envoy", gateway.name)
                        await asyncio.to_thread(gateway.kill9)
                        killed.append(gateway)
                        link.cut()

                    watches = [gateway.outcome_watch]
                    asking = self._trap_at(watches, task, Boundary.UPSTREAM_ANSWERED, kill)
                    await traps.enter_async_context(asking)
                await self._begin(sender, task, one, QUICK, sprung)
                await self._until(lambda: killed)
            for gateway in killed:
                await asyncio.to_thread(gateway.start)
                self._recorder.fault("kill_envoy", gateway.name, "end")
        if not killed:
            return False
        return await self._check_settled(sprung, task, other, "another Envoy asks again")

    # --- operators

    async def operator_and_reconciler(self) -> bool:
        """An operator settles a record while an answer about it is on its way to the reconciler."""
        done = await asyncio.gather(
            *(
                self._race(boundary, by)
                for boundary in (Boundary.UPSTREAM_SENT, Boundary.UPSTREAM_ANSWERED)
                for by in (API, CTL)
            )
        )
        return all(done)

    async def _race(self, boundary: Boundary, by: str) -> bool:
        one, other = self._gateways()
        task = self._keys.new("asked", aim="raced")
        operators = self._operators
        settling: list[asyncio.Task] = []

        async def cut(link: Link) -> None:
            link.cut()

        async def settle(attempt: str) -> None:
            found = await operators.find_out(task, attempt)
            if found:
                action, response = found
                # Both free a key whose request did not run.
                if action == "resolve_not_run" and self._chance.random() < 0.5:
                    action = "release"
                await operators.change(task, attempt, action, other, by, response)

        async def race(_: Link) -> None:
            if record:
                settling.append(asyncio.create_task(settle(record["attempt"])))
                # A moment before the question ends.
                await asyncio.wait(settling, timeout=0.7 * plan.ASK_TIMEOUT)

        record: dict | None = None
        watches = [gateway.outcome_watch for gateway in self.world.gateways]
        async with self._sender() as sender, self._trap(task, one, boundary, cut) as sprung:
            async with self._trap_at(watches, task, Boundary.UPSTREAM_ANSWERED, race):
                await self._begin(sender, task, one, QUICK, sprung)
                record = await operators.look(task, one)
                await self._until(lambda: settling)
            await asyncio.gather(*settling)
        if not settling:
            return False
        return await self._check_settled(sprung, task, other, "the first one settles it")

    async def operator_settles(self) -> bool:
        """An operator settles what nobody else asks about, once; another one comes too late."""
        done = await asyncio.gather(
            *(
                self._settle(boundary, by)
                for boundary in (Boundary.UPSTREAM_SENT, Boundary.UPSTREAM_ANSWERED)
                for by in (API, CTL)
            )
        )
        return all(done)

    async def _settle(self, boundary: Boundary, by: str) -> bool:
        one, other = self._gateways()
        task = self._keys.new("manual", aim="settled")
        operators = self._operators

        async def cut(link: Link) -> None:
            link.cut()

        async with self._sender() as sender, self._trap(task, one, boundary, cut) as sprung:
            await self._begin(sender, task, one, QUICK, sprung)
            attempt = await self._unknown_attempt(task, one)
            found = await operators.find_out(task, attempt) if attempt else None
            if not found:
                return False
            action, response = found
            for who in (by, API):
                await operators.change(task, attempt, action, other, who, response)
        return await self._check_retry(
            sprung, task, other, "an operator has settled it", final="success", executions=1
        )

    async def operator_stale(self) -> bool:
        """What an operator says is about an attempt that a later one has replaced: it changes nothing."""
        one, other = self._gateways()
        task = self._keys.new("manual", aim="stale")
        operators = self._operators

        async def cut(link: Link) -> None:
            link.cut()

        async with self._sender() as sender:
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, cut) as sprung:
                await self._begin(sender, task, one, QUICK, sprung)
            first = await self._unknown_attempt(task, one)
            found = await operators.find_out(task, first) if first else None
            if not found or await operators.change(task, first, found[0], one, API, found[1]) != "done":
                return False
            # It runs, and takes too long.
            await self._begin(sender, task, other, _LONG)
            second = await self._unknown_attempt(task, one)
            if second in (None, first):
                return False
            for by in (CTL, API):
                for action in ("release", "resolve_not_run"):
                    await operators.change(task, first, action, other, by)
                    await self._begin(sender, task, other, QUICK)
        return await self._check_retry(
            sprung, task, other, "a stale attempt changes nothing", final="unknown", executions=1
        )

    async def operator_and_completion(self) -> bool:
        """An operator says that a request did not run, while it runs: it changes nothing."""
        done = await asyncio.gather(*(self._interfere(by) for by in (API, CTL)))
        return any(done)

    async def _interfere(self, by: str) -> bool:
        one, other = self._gateways()
        task = self._keys.new("manual", aim="running")
        operators = self._operators
        async with self._senders(2) as (sender, later):
            begin = time.monotonic()
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
                wish = {"work": 0.9, "status": 201}
                running = asyncio.create_task(self._begin(sender, task, one, wish, sprung))
                await either(sprung.wait(), running)
            record = await operators.look(task, other)
            struck = False
            for action in ("resolve_not_run", "release"):
                # When the lease is over, what the operator says would count.
                if record and not running.done() and time.monotonic() < begin + plan.LEASE / 2:
                    await operators.change(task, record["attempt"], action, other, by)
                    struck = True
                    await later.send(task, other.number, PATIENCE, QUICK)
            answer = await running
        if not struck or answer is None or answer.status != 201:
            return False
        return await self._check_retry(
            sprung, task, other, "what runs is not settled from outside", final="success", executions=1
        )

    async def operator_and_late_completion(self) -> bool:
        """An operator settles what became unknown while its Envoy stood still, just when that Envoy goes on
        and stores the response."""
        one, other = self._gateways()
        task = self._keys.new("manual", aim="late")
        operators = self._operators
        async with self._sender() as sender:
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
                running = asyncio.create_task(
                    self._begin(sender, task, one, {"work": 0.3, "status": 201}, sprung)
                )
                await either(sprung.wait(), running)
            self._recorder.fault("pause_envoy", one.name)
            await asyncio.to_thread(one.pause)
            try:
                attempt = await self._unknown_attempt(task, other)
                found = await operators.find_out(task, attempt) if attempt else None
            finally:
                going_on = asyncio.create_task(asyncio.to_thread(one.resume))
            if found:
                action, response = found
                for by in (API, CTL):
                    await operators.change(task, attempt, action, other, by, response)
            await going_on
            self._recorder.fault("pause_envoy", one.name, "end")
            await running
        if not found:
            return False
        return await self._check_retry(
            sprung, task, other, "one of them settles it", final="success", executions=1
        )

    # --- what they are made of

    async def _check_settled(self, sprung: asyncio.Event, task: Task, gateway: Gateway, why: str) -> bool:
        """In the end the request has run once, and its client has the response."""
        return await self._check_retry(
            sprung, task, gateway, why, patience=plan.SETTLED_WITHIN, final="success", executions=1
        )

    async def _until(self, condition) -> bool:
        end = time.monotonic() + plan.SETTLED_WITHIN
        while not (met := condition()) and time.monotonic() < end:
            await asyncio.sleep(NOTICE / 4)
        return bool(met)

    async def _until_audited(self, task: Task, word: str) -> bool:
        """Until the audit of the record has an entry whose detail begins with the word."""
        end = time.monotonic() + plan.SETTLED_WITHIN
        while time.monotonic() < end:
            entries = await asyncio.to_thread(self.world.audit, [task.operation], task.key)
            if any(entry["detail"].startswith(word) for entry in entries):
                return True
            await asyncio.sleep(NOTICE)
        return False

    async def _unknown_attempt(self, task: Task, gateway: Gateway) -> str | None:
        """When the outcome is unknown, as an operator sees it."""
        end = time.monotonic() + PATIENCE + plan.LEASE + plan.SWEEP
        while time.monotonic() < end:
            record = await self._operators.look(task, gateway)
            if record and record["state"] == "unknown":
                return record["attempt"]
            await asyncio.sleep(NOTICE / 2)
        return None
