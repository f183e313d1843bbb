"""Scenarios at the edges of the promise: is "it did not run" known or only said? What is the same request?

Other proxies answer in the service's place, Envoy sends a request again or follows a redirect, a transaction
holds a row, an operator changes the database, one client takes what is meant for all. Whatever comes of it:
what may have run does not run again because a client asks again.
"""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Iterable

import plan
from clients import Sender, Task
from observer import Boundary, Link, Observer
from parts import NOTICE, PATIENCE, QUICK, UNKNOWN, Parts, either

_REFUSALS = (
    "idempotency_store_unavailable",
    "idempotency_overloaded",
    "idempotency_quota_exceeded",
)
_SLOW = {"work": 0.8, "status": 200}
_BODY, _HALF = 64 * 1024, 32 * 1024


class Edges(Parts):
    # --- what is the same request

    async def hosts(self) -> bool:
        """One key and one body for two hosts: two requests. A reused key's rules judge the second one."""
        one, other = self._gateways()
        task = self._keys.new("mark", aim="hosts")
        theirs = dataclasses.replace(task, host=plan.OTHER_HOST)
        async with self._sender() as sender:
            answer = await self._begin(sender, task, one, QUICK)
            if answer is None or answer.status != 200:
                return False  # Another scenario has kept it from its claim: the second one may have the key.
            for mine, gateway in ((task, other), (theirs, one), (theirs, other)):
                await self._begin(sender, mine, gateway, QUICK)
        self._expect(task, "what another host is asked for is another request", final="success", executions=1)
        return True

    # --- what the service says

    async def declared(self) -> bool:
        """The service says itself what came of a request: that counts, whatever its status is."""
        done = await asyncio.gather(
            self._declare(500, "completed", final=None, executions=1),
            self._declare(503, "unknown", final="unknown", executions=1),
            self._declare(200, "retryable", final="success", executions=2),
            self._declare(404, "not-run", final="success", executions=2),
        )
        return all(done)

    async def _declare(self, status: int, outcome: str, final: str | None, executions: int) -> bool:
        wish = {"work": 0.01, "status": status, "declares": outcome}
        why = f"the service answers {status} and says {outcome}"
        return await self._at_service("mark", wish, final=final, executions=executions, why=why)

    async def gateway_statuses(self) -> bool:
        """Statuses by which a gateway says that it does not know what became of the request."""
        done = await asyncio.gather(
            *(
                self._at_service(
                    "mark",
                    {"work": 0.01, "status": status},
                    final="unknown",
                    executions=1,
                    why=f"{status} leaves open whether it ran",
                )
                for status in (408, 502, 504)
            )
        )
        return all(done)

    async def _at_service(self, operation: str, wish: dict, **expected) -> bool:
        one, other = self._gateways()
        task = self._keys.new(operation, aim="said")
        async with self._sender() as sender, self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
            await self._begin(sender, task, one, wish, sprung)
        return await self._check_retry(sprung, task, other, **expected)

    # --- a second Envoy in between

    async def sidecar_timeout(self) -> bool:
        """It waits shorter than the service works, and answers 504."""
        wish = {**_SLOW, "sidecar": "hasty"}
        return await self._both_ways(wish, Boundary.UPSTREAM_SENT, cut=False)

    async def sidecar_cut(self) -> bool:
        """It loses the connection after the service has run, and answers 503."""
        return await self._both_ways(QUICK, Boundary.UPSTREAM_ANSWERED, cut=True)

    async def _both_ways(self, wish: dict, boundary: Boundary, *, cut: bool) -> bool:
        watches = [self.world.sidecar.watch]
        done = await asyncio.gather(
            *(
                self._in_between(operation, wish, watches, boundary, cut=cut, executions=1)
                for operation in ("mesh", "told")
            )
        )
        return all(done)

    async def _in_between(
        self,
        operation: str,
        wish: dict,
        watches: Iterable[Observer],
        boundary: Boundary,
        *,
        cut: bool,
        executions: int,
    ) -> bool:
        """The service has run it, and the one in between does not know."""
        one, other = self._gateways()
        task = self._keys.new(operation, aim="between")

        async def strike(link: Link) -> None:
            if cut:
                link.cut()

        async with self._sender() as sender, self._trap_at(watches, task, boundary, strike) as sprung:
            await self._begin(sender, task, one, wish, sprung)
        why = "a proxy answered in the place of a service that has run"
        return await self._check_retry(sprung, task, other, why, final="unknown", executions=executions)

    async def sidecar_refused(self) -> bool:
        """It gets no connection, and says so: nothing ran."""
        return await self._never_sent("refused")

    async def sidecar_overflow(self) -> bool:
        """Its circuit breaker is open."""
        return await self._never_sent("overflow")

    async def sidecar_empty(self) -> bool:
        """It knows no host. It would say the same after a try that has run, so this is no proof."""
        return await self._never_sent("empty", proved=False)

    async def _never_sent(self, how: str, *, proved: bool = True) -> bool:
        done = await asyncio.gather(
            *(self._not_sent(how, operation, proved=proved) for operation in ("mesh", "told"))
        )
        return all(done)

    async def _not_sent(self, how: str, operation: str, *, proved: bool) -> bool:
        one, other = self._gateways()
        task = self._keys.new(operation, aim="unsent")
        async with self._sender() as sender:
            answer = await self._begin(sender, task, one, {**QUICK, "sidecar": how})
            await self._until_final(sender, task, other)
        struck = answer is not None and answer.status == 503
        if struck and proved:
            self._expect(task, f"nothing was sent: {how}", final="success", executions=1)
        return struck

    async def sidecar_retries(self) -> bool:
        """It sends the request twice, and both tries time out."""
        wish = {**_SLOW, "sidecar": "pushy"}
        watches = [self.world.sidecar.watch]
        return await self._in_between("pushy", wish, watches, Boundary.UPSTREAM_SENT, cut=False, executions=2)

    async def sidecar_retried_refused(self) -> bool:
        """It loses the connection after the service has run, tries again, is refused, and tells that."""
        return all([await self._retried_refused(operation) for operation in ("pushy", "told_pushy")])

    async def _retried_refused(self, operation: str) -> bool:
        one, other = self._gateways()
        task = self._keys.new(operation, aim="stubborn")
        watch = self.world.sidecar.stubborn_watch

        async def strike(link: Link) -> None:
            watch.refuse()
            link.cut()

        try:
            async with (
                self._sender() as sender,
                self._trap_at([watch], task, Boundary.UPSTREAM_ANSWERED, strike) as sprung,
            ):
                await self._begin(sender, task, one, {**QUICK, "sidecar": "stubborn"}, sprung)
        finally:
            await watch.start()
        why = "its first try has run, whatever the proxy says of the last one"
        return await self._check_retry(sprung, task, other, why, final="unknown", executions=1)

    # --- redirects and retries of the Envoy itself

    async def redirect_followed(self) -> bool:
        """Both services have run, and the second one's answer is the result."""
        return await self._redirect(QUICK, final="success", executions=2)

    async def redirect_refused(self) -> bool:
        """The first service has run; the second one cannot be reached."""
        return await self._redirect(QUICK, to="/hop/refused", final="unknown", executions=1)

    async def redirect_denied(self) -> bool:
        """The first service has run; the second one denies the request."""
        return await self._redirect({**QUICK, "status": 401}, final="unknown", executions=2)

    async def redirect_failed(self) -> bool:
        """The first service has run; the second one says that it may be tried again."""
        return await self._redirect({**QUICK, "status": 503}, final="unknown", executions=2)

    async def redirect_cut(self) -> bool:
        """The first service has run; the second one's answer is lost."""
        return await self._redirect(QUICK, cut=True, final="unknown", executions=2)

    async def _redirect(
        self, last: dict, *, to: str = "/hop/next", cut: bool = False, final: str, executions: int
    ) -> bool:
        one, other = self._gateways()
        task = self._keys.new("hop", aim="hop")
        first = {"work": 0.01, "status": 307, "location": to}

        async def strike(link: Link) -> None:
            if cut:
                link.cut()

        boundary = Boundary.UPSTREAM_ANSWERED
        trap = self._trap_at([one.upstream_watch], task, boundary, strike, skip=1 if cut else 0)
        async with self._sender() as sender, trap as sprung:
            await self._begin(sender, task, one, {"plays": [first, last]}, sprung)
        why = "the service that sent it on has run"
        return await self._check_retry(sprung, task, other, why, final=final, executions=executions)

    async def envoy_retries(self) -> bool:
        """The first try runs into its time-out; the answer to the second one tells nothing of it."""
        done = await asyncio.gather(
            *(
                self._at_service(
                    "again",
                    {"plays": [_SLOW, {"work": 0.01, "status": status}]},
                    final="unknown",
                    executions=2,
                    why=f"the first try has run, the second one got {status}",
                )
                for status in (503, 401)
            )
        )
        return all(done)

    # --- time

    async def unknown_past_life(self) -> bool:
        """The outcome is unknown, and stays so after the record's life and after the reaper's work."""
        one, other = self._gateways()
        task = self._keys.new("fleeting", aim="fleeting")
        async with self._sender() as sender:
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
                await self._begin(sender, task, one, {"work": 1.0, "status": 200}, sprung)
            end = time.monotonic() + plan.BRIEF + 2 * plan.SWEEP + 2 * NOTICE
            while time.monotonic() < end:
                await sender.send(task, other.number, PATIENCE, QUICK)
                await asyncio.sleep(0.4)
        why = "time does not tell whether it ran"
        return await self._check_retry(sprung, task, other, why, final="unknown", executions=1)

    # --- what one may take from the others

    async def slow_bodies(self) -> bool:
        """More requests than an Envoy may hold begin to send their bodies, and do not end."""
        gateway, _ = self._gateways()
        count = plan.IN_FLIGHT + 48
        tasks = [self._keys_of_nobody(number) for number in range(count)]
        begun = await asyncio.gather(*(self._begin_body(gateway.port, task) for task in tasks))
        try:
            await asyncio.sleep(1.0)
            held = sum(not reader.done() for _, reader in begun)
        finally:
            for writer, reader in begun:
                reader.cancel()
                writer.transport.abort()
        self._recorder.add(
            "bound", what=f"{gateway.name} holds unfinished requests", value=held, most=plan.IN_FLIGHT
        )
        return True

    @staticmethod
    def _keys_of_nobody(number: int) -> Task:
        """Never whole, so never claimed: nobody asks for it in the end."""
        tenant = ("acme", "bolt", "core", "dune", "echo")[number % 5]
        return Task(tenant, "mark", f"slow-body-{number:08}", b"x" * _HALF)

    @staticmethod
    async def _begin_body(port: int, task: Task) -> tuple[asyncio.StreamWriter, asyncio.Task]:
        """Sends half of a body. What you get ends when an answer comes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        fields = {
            "host": task.host,
            "content-type": "application/octet-stream",
            "content-length": str(_BODY),
            "idempotency-key": f'"{task.key}"',
            plan.TENANT: task.tenant,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"POST /{task.operation} HTTP/1.1\r\n{head}\r\n".encode() + task.body)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return writer, asyncio.create_task(reader.read(1))

    async def crowd(self) -> bool:
        """One tenant has more requests wait for one key than an Envoy may hold; another tenant is served."""
        gateway, _ = self._gateways()
        crowded = self._keys.new("queue", "acme", aim="crowd")
        strangers = [self._keys.new("mark", "bolt", aim="stranger") for _ in range(6)]
        async with self._senders(plan.IN_FLIGHT + 18) as (first, stranger, *others):
            async with self._trap(crowded, gateway, Boundary.UPSTREAM_SENT, None) as running:
                holder = asyncio.create_task(
                    self._begin(first, crowded, gateway, {"work": 1.8, "status": 200}, running)
                )
                await either(running.wait(), holder)

            async def press(sender: Sender) -> None:
                """Takes every place that becomes free."""
                while not holder.done():
                    await sender.send(crowded, gateway.number, PATIENCE, QUICK)
                    await asyncio.sleep(NOTICE / 2)

            waiters = [asyncio.create_task(press(sender)) for sender in others]
            await asyncio.sleep(3 * NOTICE)
            struck = running.is_set() and not holder.done()
            for task in strangers:
                await stranger.send(task, gateway.number, PATIENCE, QUICK)
                await asyncio.sleep(NOTICE / 4)
            await asyncio.gather(holder, *waiters)
        if struck:
            why = "what one tenant holds is not taken from another"
            for task in strangers:
                self._expect(task, why, final="success", executions=1, never=_REFUSALS)
        return struck

    # --- the database

    async def locked_row(self) -> bool:
        """Another transaction holds one row for longer than a lease: other requests keep theirs."""
        gateway, other = self._gateways()
        held, waiting, retried = (
            self._keys.new(operation, aim="locked") for operation in ("mark", "mark", "retry")
        )
        tasks = [held, waiting, retried]
        wish = {"work": 2.2 * plan.LEASE, "status": 200}
        async with self._senders(2 * len(tasks)) as senders, contextlib.AsyncExitStack() as traps:
            begun = [
                await traps.enter_async_context(self._trap(task, gateway, Boundary.UPSTREAM_SENT, None))
                for task in tasks
            ]
            running = [
                asyncio.create_task(self._begin(sender, task, gateway, wish, trap))
                for sender, task, trap in zip(senders, tasks, begun, strict=False)
            ]
            for trap, task in zip(begun, running, strict=True):
                await either(trap.wait(), task)
            with contextlib.ExitStack() as lock:
                database = self.world.database
                await asyncio.to_thread(lock.enter_context, database.locked(*held.identity))
                while not all(task.done() for task in running[1:]):
                    await asyncio.sleep(2 * NOTICE)
                    for sender, task in zip(senders[len(tasks) + 1 :], tasks[1:], strict=True):
                        await sender.send(task, other.number, PATIENCE, QUICK)
            await asyncio.gather(*running)
        struck = all(trap.is_set() for trap in begun)
        if struck:
            self._expect(held, "it ran", executions=1)
            for task in (waiting, retried):
                why = "a row that is locked is not in the way of others"
                self._expect(task, why, final="success", executions=1, never=(UNKNOWN,))
        return struck

    async def relaxed_commit(self) -> bool:
        """An operator turns synchronous_commit off while sessions are open; later the server crashes just
        when a request has its claim. What was granted must be on disk."""
        one, other = self._gateways()
        task = self._keys.new("mark", aim="relaxed")
        database = self.world.database
        await asyncio.to_thread(database.relax)
        self._recorder.fault("relax_database", "database")
        try:
            # Open sessions hear of it at their next statement.
            async with self._sender() as sender:
                for gateway in self.world.gateways:
                    await self._begin(sender, self._keys.new("mark", aim="relaxed"), gateway, QUICK)

            async def crash(_: Link) -> None:
                await asyncio.to_thread(database.crash)

            async with (
                self._sender() as sender,
                self._trap(task, one, Boundary.UPSTREAM_SENT, crash) as sprung,
            ):
                await self._begin(sender, task, one, QUICK, sprung)
        finally:
            await asyncio.to_thread(database.tighten)
            self._recorder.fault("relax_database", "database", "end")
        return await self._check_retry(sprung, task, other, "it ran", executions=1)

    async def fsync_off(self) -> bool:
        """An operator turns fsync off while sessions are open: what is granted then may be lost."""
        gateway, _ = self._gateways()
        server = self.world.database.primary
        granted = 0
        self._recorder.fault("fsync_off", "database")
        try:
            await asyncio.to_thread(server.set, "fsync", "off")
            # Sessions look at it twice a second, before they claim.
            await asyncio.sleep(1.0)
            async with self._sender() as sender:
                for _ in range(4):
                    task = self._keys.new("mark", aim="fsync")
                    answer = await sender.send(task, gateway.number, PATIENCE, QUICK)
                    granted += answer is not None and answer.header("x-execution") is not None
        finally:
            await asyncio.to_thread(server.set, "fsync", None)
            self._recorder.fault("fsync_off", "database", "end")
        self._recorder.add("bound", what="requests that ran without fsync", value=granted, most=0)
        return True
