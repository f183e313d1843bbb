"""Scenarios of detached runs: their clients leave, and they run to their end all the same.

The next request with the key gets the response. Only what happens to the Envoy, its upstream or its store may
leave the outcome unknown; the checker's rule for all knows that, too.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable

import plan
from clients import Task
from gateway import DRAIN, Gateway
from observer import Boundary, Link
from parts import NOTICE, PATIENCE, QUICK, UNKNOWN, Parts, either

_LOST = ("idempotency_detached_lost", "idempotency_detached_timeout")
_REFUSED = ("idempotency_detached_unavailable", "idempotency_overloaded")
_WORK = {"work": 4 * NOTICE, "status": 200}


class Leaving(Parts):
    async def detached_left(self) -> bool:
        """The client leaves while the upstream works."""
        done = await asyncio.gather(
            *(
                self._leave_detached(operation, Boundary.UPSTREAM_SENT, wait=False)
                for operation in ("detached", "detached_wait")
            )
        )
        return all(done)

    async def detached_left_at_claim(self) -> bool:
        """The client leaves while its claim is on the way, or the answer to it: nothing has begun."""
        done = await asyncio.gather(
            *(
                self._leave_detached("detached", boundary)
                for boundary in (Boundary.CLAIM_SENT, Boundary.CLAIM_ACKNOWLEDGED)
            )
        )
        return all(done)

    async def detached_left_in_response(self) -> bool:
        """The client leaves while the response is on its way to Envoy."""
        return await self._leave_detached("detached", Boundary.UPSTREAM_ANSWERED)

    async def detached_left_in_completion(self) -> bool:
        """The client leaves while the response is on its way to the store, or is there."""
        done = await asyncio.gather(
            *(
                self._leave_detached("detached", boundary)
                for boundary in (Boundary.COMPLETION_SENT, Boundary.COMPLETION_ACKNOWLEDGED)
            )
        )
        return all(done)

    async def detached_left_in_redirect(self) -> bool:
        """The client leaves while its request is on the way to the second service."""
        first = {"work": 0.01, "status": 307, "location": "/detached_hop/next"}
        plays = {"plays": [first, _WORK]}
        return await self._leave_detached(
            "detached_hop", Boundary.UPSTREAM_SENT, wish=plays, skip=1, executions=2
        )

    async def _leave_detached(
        self,
        operation: str,
        boundary: Boundary,
        *,
        wait: bool = True,
        wish: dict | None = None,
        skip: int = 0,
        executions: int = 1,
    ) -> bool:
        """`wait`: what is on its way is held until Envoy has noticed that the client left."""
        one, other = self._gateways()
        task = self._keys.new(operation, aim="left")
        running: asyncio.Task | None = None

        async def leave(_: Link) -> None:
            running.cancel()
            if wait:
                await asyncio.sleep(NOTICE)

        async with self._sender() as sender, self._trap(task, one, boundary, leave, skip=skip) as sprung:
            running = asyncio.create_task(self._begin(sender, task, one, wish or _WORK, sprung))
            with contextlib.suppress(asyncio.CancelledError):
                await running
            await asyncio.sleep(2 * NOTICE)
        why = "a detached run does not depend on its client"
        return await self._check_retry(
            sprung, task, other, why, final="success", executions=executions, never=(UNKNOWN, *_LOST)
        )

    async def detached_handed_over(self) -> bool:
        """The client stays, and gets the response at first hand."""
        one, other = self._gateways()
        task = self._keys.new("detached", aim="stays")
        async with self._sender() as sender, self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
            answer = await self._begin(sender, task, one, QUICK, sprung)
        handed = answer is not None and answer.header("x-execution") is not None
        what = "clients that stayed, and did not get the response of their detached run"
        if sprung.is_set():
            self._recorder.add("bound", what=what, value=int(not handed), most=0)
        never = (UNKNOWN, "not_stored", *_LOST, *_REFUSED)
        return await self._check_retry(
            sprung, task, other, "its client stays", final="success", executions=1, never=never
        )

    async def detached_apart(self) -> bool:
        """Several run at once on one Envoy, and end in another order: each client gets its own response."""
        gateway, _ = self._gateways()
        tasks = [self._keys.new("detached", aim="apart") for _ in range(6)]
        async with self._senders(len(tasks)) as senders:
            answers = await asyncio.gather(
                *(
                    self._begin(sender, task, gateway, {"work": place * NOTICE / 2, "status": 200})
                    for place, (sender, task) in enumerate(zip(senders, reversed(tasks), strict=True), 1)
                )
            )
        for task in tasks:
            self._expect(task, "each has its own", final="success", executions=1, never=(UNKNOWN, *_LOST))
        return all(answer is not None for answer in answers)

    async def detached_reloaded(self) -> bool:
        """The client leaves, and the config that its request came by is gone before the response comes.
        Nothing but the run needs it then."""
        work = {"work": 2 * DRAIN, "status": 200}
        to_next = {"work": 2 * DRAIN, "status": 307, "location": "/detached_hop/next"}
        ran = await self._reload_during("detached", work, executions=1)
        sent_on = await self._reload_during("detached_hop", {"plays": [to_next, QUICK]}, executions=2)
        return ran and sent_on

    async def _reload_during(self, operation: str, wish: dict, *, executions: int) -> bool:
        one, other = self._gateways()
        task = self._keys.new(operation, aim="reloaded")
        begun = await self._begin_and_leave(task, one, wish)
        self._recorder.fault("reload", one.name)
        await asyncio.to_thread(one.reload)
        self._recorder.fault("reload", one.name, "end")
        why = "a run does not depend on the config that its client came by"
        return await self._check_retry(
            begun, task, other, why, final="success", executions=executions, never=(UNKNOWN, *_LOST)
        )

    async def _begin_and_leave(self, task: Task, gateway: Gateway, wish: dict) -> asyncio.Event:
        """As soon as it is on its way to the upstream."""
        async with self._sender() as sender, self._trap(task, gateway, Boundary.UPSTREAM_SENT, None) as begun:
            running = asyncio.create_task(self._begin(sender, task, gateway, wish, begun))
            await either(begun.wait(), running)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
        return begun

    async def detached_killed(self) -> bool:
        """Envoy is killed while the upstream works: nobody knows, nobody may run it again."""
        return await self._end_envoy("kill_envoy", lambda gateway: gateway.kill9)

    async def detached_terminated(self) -> bool:
        """Envoy is stopped while the upstream works."""
        return await self._end_envoy("term_envoy", lambda gateway: gateway.terminate)

    async def _end_envoy(self, kind: str, end: Callable[[Gateway], Callable[[], object]]) -> bool:
        one, other = self._gateways()
        task = self._keys.new("detached", aim="ended")
        async with self._sender() as sender:
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
                # Longer than Envoy takes to stop.
                wish = {"work": 1.5 * plan.LEASE, "status": 200}
                running = asyncio.create_task(self._begin(sender, task, one, wish, sprung))
                await either(sprung.wait(), running)
            await asyncio.sleep(NOTICE)
            self._recorder.fault(kind, one.name)
            await asyncio.to_thread(end(one))
            await asyncio.to_thread(one.start)
            self._recorder.fault(kind, one.name, "end")
            await running
        why = "Envoy ended during the run"
        return await self._check_retry(sprung, task, other, why, final="unknown", executions=1)

    async def detached_stray(self) -> bool:
        """Somebody else calls the private listener, with a token that he made up: nothing runs."""
        done = [await self._stray(gateway) for gateway in self.world.gateways]
        return all(done)

    async def _stray(self, gateway: Gateway) -> bool:
        # Nobody asks for it in the end.
        task = Task("acme", "detached", f"stray-{secrets.token_hex(8)}", b"{}")
        status = await self._ask_private(gateway, task, secrets.token_hex(16))
        if status:
            self._expect(task, f"an unknown token; the answer is {status}", executions=0)
        return bool(status)

    @staticmethod
    async def _ask_private(gateway: Gateway, task: Task, token: str) -> int:
        """The status; 0 if there is no answer."""
        fields = {
            "host": task.host,
            "content-length": str(len(task.body)),
            "idempotency-key": f'"{task.key}"',
            "idempotency-run": token,
            plan.TENANT: task.tenant,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_unix_connection(str(gateway.runs))
                writer.write(f"POST /{task.operation} HTTP/1.1\r\n{head}\r\n".encode() + task.body)
                start = await reader.readline()
                writer.transport.abort()
        except (OSError, TimeoutError):
            return 0
        return int(start.split(b" ")[1]) if start else 0
