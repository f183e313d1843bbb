"""Faults aimed at one moment in the life of one request.

Each scenario has an identity of its own, so it knows what must come of it, and writes that down (`expect`)
where it is more than the rules that hold for all. Gentle scenarios disturb one connection or one client, and
nearly all of them run at once; the others harm a process and run one after the other.
"""

import asyncio
import contextlib
import dataclasses
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable

import plan
from clients import Keys
from edges import Edges
from leaving import Leaving
from observer import Boundary, Link
from owning import Owning
from parts import DATABASE_BOUNDARIES, NOTICE, PATIENCE, QUICK, SERVICE_BOUNDARIES, UNKNOWN, either
from reconciling import Reconciling
from recorder import Recorder
from world import World

# A request may be refused before it comes to the boundary.
_TRIES = 3


@dataclasses.dataclass(frozen=True)
class Scenario:
    play: Callable[["Aims"], Awaitable[bool]]  # Whether it struck.
    gentle: bool = True
    alone: bool = False  # What the other gentle ones do to the store's connections would change its end.
    stores: tuple[str, ...] = ("postgres", "sqlite")
    needs: str | None = None  # A kind of fault that must be wanted.
    # Expects a life to end in time. After SQLite's clock was set, lives end later, as documented.
    steady_clock: bool = False


class Aims(Edges, Leaving, Reconciling, Owning):
    def __init__(self, world: World, recorder: Recorder, keys: Keys, chance: random.Random) -> None:
        super().__init__(world, recorder, keys, chance)
        self.struck: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()  # The moment did not come: it shows nothing.
        self.broken: Counter[str] = Counter()  # It could not be carried out: it shows nothing either.

    async def warm_up(self) -> None:
        """Until every Envoy has its store."""
        for gateway in self.world.gateways:
            async with self._sender() as sender:
                await self._begin(sender, self._keys.new("mark", aim="warm"), gateway, QUICK)

    async def play_until(self, end: float, names: list[str], *, all_once: bool) -> None:
        """Again and again until then; `all_once`: each at least once."""
        first = True
        while first or time.monotonic() < end:
            await self._play_gentle(names)
            for name in self._by_urgency(names):
                if time.monotonic() < end or (first and all_once):
                    await self._play_harmful(name)
            first = False

    async def play_some(self, end: float, names: list[str], harmful: int) -> None:
        """All gentle ones, and so many of the others as there is time for."""
        await self._play_gentle(names)
        rest = [name for name in names if not SCENARIOS[name].gentle]
        for name in self._chance.sample(rest, min(harmful, len(rest))):
            if time.monotonic() < end:
                await self._play_harmful(name)

    def _by_urgency(self, names: list[str]) -> list[str]:
        """A short run gets to the first of them: what tells most comes first, the rest in any order."""
        harmful = [name for name in names if not SCENARIOS[name].gentle]
        urgent = [name for name in harmful if "@" not in name or name.startswith("kill_envoy")]
        rest = [name for name in harmful if name not in urgent]
        self._chance.shuffle(rest)
        return urgent + rest

    async def _play_gentle(self, names: list[str]) -> None:
        gentle = [name for name in names if SCENARIOS[name].gentle]
        await asyncio.gather(*(self._play(name) for name in gentle if not SCENARIOS[name].alone))
        for name in gentle:
            if SCENARIOS[name].alone:
                await self._play(name)

    async def _play_harmful(self, name: str) -> None:
        await self._play(name)
        await asyncio.to_thread(self.world.heal)

    async def _play(self, name: str) -> None:
        """Again if it could not be carried out, as when a server takes too long to start on a busy machine;
        what happened to requests is judged all the same."""
        for attempt in range(1, _TRIES + 1):
            self._recorder.fault(f"aim:{name}", "")
            struck = False
            try:
                struck = await SCENARIOS[name].play(self)
            except Exception:
                self.broken[name] += 1
                if attempt == _TRIES:
                    raise
                traceback.print_exc(file=sys.stderr)
                await asyncio.to_thread(self.world.heal)
                continue
            finally:
                self._recorder.fault(f"aim:{name}", "", "end", struck=struck)
            (self.struck if struck else self.missed)[name] += 1
            return

    # --- the claim

    async def withheld_sync(self) -> bool:
        """The claim is carried out but its commit never comes: the connection breaks before the Sync."""
        one, other = self._gateways()
        task = self._keys.new("mark", aim="sync")

        async def withhold(link: Link) -> None:
            link.withhold_sync = asyncio.Event()
            asyncio.get_running_loop().call_later(2 * NOTICE, link.cut)

        async with self._sender() as sender, self._trap(task, one, Boundary.CLAIM_SENT, withhold) as sprung:
            await self._begin(sender, task, one, QUICK, sprung)
        return await self._check_retry(
            sprung, task, other, "the first claim was never committed", final="success", executions=1
        )

    async def lost_claim(self) -> bool:
        """The claim is committed, and nobody hears of it: the store takes it back."""
        return await self._claim_in_doubt("lost", lambda link: link.cut())

    async def late_claim(self) -> bool:
        """The answer to the claim comes after the store's deadline."""

        async def hold(_: Link) -> None:
            await asyncio.sleep(plan.STORE_TIMEOUT + NOTICE)

        return await self._claim_in_doubt("late", hold)

    async def _claim_in_doubt(self, aim: str, action: Callable) -> bool:
        one, other = self._gateways()
        task = self._keys.new("mark", aim=aim)

        async def act(link: Link) -> None:
            if asyncio.iscoroutinefunction(action):
                await action(link)
            else:
                action(link)

        async with (
            self._sender() as sender,
            self._trap(task, one, Boundary.CLAIM_ACKNOWLEDGED, act) as sprung,
        ):
            await self._begin(sender, task, one, QUICK, sprung)
        why = "a claim in doubt never ran, and is taken back"
        return await self._check_retry(sprung, task, other, why, final="success", executions=1)

    async def abandoned_claim(self) -> bool:
        """The client leaves while its claim is on the way."""
        return await self._abandon(Boundary.CLAIM_SENT)

    async def abandoned_answer(self) -> bool:
        """The client leaves while the answer to its claim is on the way."""
        return await self._abandon(Boundary.CLAIM_ACKNOWLEDGED)

    async def _abandon(self, boundary: Boundary) -> bool:
        one, other = self._gateways()
        task = self._keys.new("mark", aim="left")
        running: asyncio.Task | None = None
        async with self._sender() as sender:

            async def leave(_: Link) -> None:
                running.cancel()
                await asyncio.sleep(NOTICE)

            async with self._trap(task, one, boundary, leave) as sprung:
                running = asyncio.create_task(self._begin(sender, task, one, QUICK, sprung))
                with contextlib.suppress(asyncio.CancelledError):
                    await running
                await asyncio.sleep(2 * NOTICE)
        why = "nothing was sent, the claim is taken back"
        return await self._check_retry(
            sprung, task, other, why, final="success", executions=1, never=(UNKNOWN,)
        )

    async def empty_look_up(self) -> bool:
        """A claim meets a record that is gone when it is read: released in between."""
        one, other = self._gateways()
        task = self._keys.new("mark", aim="gone")
        async with self._senders(3) as (first, second, third):
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, None) as running:
                refused = asyncio.create_task(
                    self._begin(first, task, one, {"work": 4 * NOTICE, "status": 403}, running)
                )
                await either(running.wait(), refused)
            if not running.is_set():
                return False  # Another scenario has kept it from its claim.

            async def wait_for_release(_: Link) -> None:
                await refused

            async with self._trap(task, other, Boundary.READ_SENT, wait_for_release) as sprung:
                long_one = asyncio.create_task(
                    self._begin(second, task, other, {"work": 4 * NOTICE, "status": 200}, sprung)
                )
                await refused
                await asyncio.sleep(2 * NOTICE)
                await third.send(task, one.number, PATIENCE, QUICK)
                await long_one
        return await self._check_retry(
            sprung, task, one, "refused once, then run once", final="success", executions=2
        )

    # --- the upstream

    async def slow_upstream(self) -> bool:
        """Longer than the lease, which is renewed: others are told that it runs, and it is kept."""
        return all(await asyncio.gather(self._slow("mark"), self._slow("retry")))

    async def _slow(self, operation: str) -> bool:
        one, other = self._gateways()
        task = self._keys.new(operation, aim="slow")
        async with self._senders(2) as (sender, impatient):
            wish = {"work": 2.2 * plan.LEASE, "status": 200}
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, None) as began:
                running = asyncio.create_task(self._begin(sender, task, one, wish, began))
                await either(began.wait(), running)
            while not running.done():
                await asyncio.sleep(2 * NOTICE)
                await impatient.send(task, other.number, PATIENCE, QUICK)
        if began.is_set():
            why = "the lease of a running request is renewed"
            self._expect(task, why, final="success", executions=1, never=(UNKNOWN,))
        return began.is_set()

    async def timed_out(self) -> bool:
        """Sent, and no answer in time: nobody knows, nobody may run it again."""
        one, other = self._gateways()
        task = self._keys.new("hasty", aim="late")
        async with self._sender() as sender, self._trap(task, one, Boundary.UPSTREAM_SENT, None) as sprung:
            await self._begin(sender, task, one, {"work": 1.0, "status": 200}, sprung)
        return await self._check_retry(
            sprung, task, other, "sent, then a time-out", final="unknown", executions=1
        )

    async def cut_request(self) -> bool:
        """The connection breaks when the request is on its way to the upstream."""
        return await self._cut_upstream(Boundary.UPSTREAM_SENT, 0)

    async def cut_answer(self) -> bool:
        """The connection breaks when the answer is on its way back."""
        return await self._cut_upstream(Boundary.UPSTREAM_ANSWERED, 1)

    async def _cut_upstream(self, boundary: Boundary, executions: int) -> bool:
        one, other = self._gateways()
        task = self._keys.new("mark", aim="cut")

        async def cut(link: Link) -> None:
            link.cut()

        async with self._sender() as sender, self._trap(task, one, boundary, cut) as sprung:
            await self._begin(sender, task, one, QUICK, sprung)
        return await self._check_retry(
            sprung, task, other, "sent, then a broken connection", final="unknown", executions=executions
        )

    # --- the completion

    async def lost_completion(self) -> bool:
        """The completion does not arrive, and is sent again."""
        return await self._cut_completion(Boundary.COMPLETION_SENT)

    async def lost_completion_answer(self) -> bool:
        """The completion is committed, and nobody hears of it."""
        return await self._cut_completion(Boundary.COMPLETION_ACKNOWLEDGED)

    async def _cut_completion(self, boundary: Boundary) -> bool:
        one, other = self._gateways()
        task = self._keys.new("mark", aim="store")

        async def cut(link: Link) -> None:
            link.cut()

        async with self._sender() as sender, self._trap(task, one, boundary, cut) as sprung:
            await self._begin(sender, task, one, QUICK, sprung)
        return await self._check_retry(
            sprung, task, other, "the answer is stored in the end", final="success", executions=1
        )

    # --- identities

    async def key_reused(self) -> bool:
        """Another body, while the first one runs and when it is done; the rules for all judge it."""
        one, other = self._gateways()
        task = self._keys.new("mark", aim="key_reused")
        wrong = dataclasses.replace(task, body=task.body.replace(b'"amount"', b'"price"'))
        async with self._senders(2) as (sender, careless):
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, None) as running:
                wish = {"work": 0.3, "status": 200}
                first = asyncio.create_task(self._begin(sender, task, one, wish, running))
                await either(running.wait(), first)
            if not running.is_set():
                return False
            await self._begin(careless, wrong, other, QUICK)
            await first
            for gateway in (one, other):
                await self._begin(careless, wrong, gateway, QUICK)
        self._expect(task, "only the first body runs", final="success", executions=1)
        return True

    async def tenants(self) -> bool:
        """One key, one body, two tenants: two results."""
        one, other = self._gateways()
        task = self._keys.new("mark", "acme", aim="tenants")
        theirs = dataclasses.replace(task, tenant="bolt")
        self._keys.note(theirs)
        async with self._sender() as sender:
            for mine in (task, theirs):
                for gateway in (one, other):
                    await self._begin(sender, mine, gateway, QUICK)
        for mine in (task, theirs):
            self._expect(mine, "tenants share nothing", final="success", executions=1)
        return True

    # --- the end of a record

    async def bust(self) -> bool:
        """An operator deletes a record that both Envoys have in their caches."""
        task = self._keys.new("mark", aim="bust")
        async with self._sender() as sender:
            for gateway in self.world.gateways * 2:
                answer = await self._begin(sender, task, gateway, QUICK)
                if answer is None or answer.status != 200:
                    return False  # Another scenario has kept it from its claim: there is nothing to delete.
            tenant, operation, key = task.identity
            self._recorder.add("bust", tenant=tenant, operation=operation, key=key)
            await asyncio.to_thread(self.world.bust, *task.identity)
            await asyncio.sleep(plan.CACHE_AGE + 0.7)
            for gateway in self.world.gateways:
                await self._begin(sender, task, gateway, QUICK)
        self._expect(task, "it ran, was forgotten, ran again", final="success", executions=2)
        return True

    async def expiry(self) -> bool:
        """A record past its life is not replayed, also not from a cache that saw it a moment before."""
        task = self._keys.new("brief", aim="brief")
        async with self._sender() as sender:
            await self._begin(sender, task, self.world.gateways[0], QUICK)
            end = time.monotonic() + plan.BRIEF + 0.7
            while time.monotonic() < end:
                for gateway in self.world.gateways:
                    await self._begin(sender, task, gateway, QUICK)
                await asyncio.sleep(0.3)
            for gateway in self.world.gateways:
                await self._begin(sender, task, gateway, QUICK)
        return True

    # --- processes

    async def fenced(self) -> bool:
        """An Envoy stands still for longer than a lease; another runs the request again; then it goes on."""
        one, other = self._gateways()
        tasks = [self._keys.new(operation, aim="fenced") for operation in ("retry", "retry", "mark")]
        async with self._senders(2 * len(tasks)) as senders:
            first, later = senders[: len(tasks)], senders[len(tasks) :]
            running = [
                asyncio.create_task(
                    sender.send(task, one.number, 4 * plan.LEASE, {"work": 0.3, "status": 200})
                )
                for sender, task in zip(first, tasks, strict=True)
            ]
            await asyncio.sleep(0.15)
            self._recorder.fault("pause_envoy", one.name)
            await asyncio.to_thread(one.pause)
            await asyncio.sleep(plan.LEASE + 0.2)
            again = [
                self._until_final(sender, task, other) for sender, task in zip(later, tasks, strict=True)
            ]
            await asyncio.gather(*again)
            await asyncio.to_thread(one.resume)
            self._recorder.fault("pause_envoy", one.name, "end")
            await asyncio.gather(*running)
            await asyncio.sleep(NOTICE)
            for gateway in (one, other):
                for sender, task in zip(later, tasks, strict=True):
                    await self._begin(sender, task, gateway, QUICK)
        return True

    async def overtaken(self) -> bool:
        """An Envoy stands still past its lease and wakes with its answer while another runs the request."""
        one, other = self._gateways()
        task = self._keys.new("retry", aim="overtaken")
        async with self._senders(2) as (first, second):
            async with self._trap(task, one, Boundary.UPSTREAM_SENT, None) as running:
                late = asyncio.create_task(
                    self._begin(first, task, one, {"work": 0.3, "status": 200}, running)
                )
                await either(running.wait(), late)
            self._recorder.fault("pause_envoy", one.name)
            await asyncio.to_thread(one.pause)
            await asyncio.sleep(plan.LEASE + NOTICE)
            async with self._trap(task, other, Boundary.UPSTREAM_SENT, None) as again:
                later = asyncio.create_task(self._begin(second, task, other, {"work": 1.0, "status": 200}))
                await either(again.wait(), later)
            await asyncio.to_thread(one.resume)
            self._recorder.fault("pause_envoy", one.name, "end")
            await asyncio.gather(late, later)
            for gateway in (one, other):
                await self._begin(second, task, gateway, QUICK)
        struck = running.is_set() and again.is_set()
        if struck:
            self._expect(task, "the later run is the one that counts", final="success", executions=2)
        return struck

    async def clock_ahead(self) -> bool:
        """The other Envoy's clock is an hour ahead: leases go by the database's all the same."""
        return await self._clock(3600)

    async def clock_behind(self) -> bool:
        return await self._clock(-3600)

    async def _clock(self, seconds: int) -> bool:
        one, other = self._gateways()
        self._recorder.fault("clock_jump", other.name, seconds=seconds)
        await asyncio.to_thread(other.set_clock, seconds)
        tasks = [self._keys.new(operation, aim="clock") for operation in ("retry", "mark")]
        async with self._senders(2 * len(tasks)) as senders:
            running = [
                asyncio.create_task(self._begin(sender, task, one, {"work": 0.8, "status": 200}))
                for sender, task in zip(senders, tasks, strict=False)
            ]
            await asyncio.sleep(NOTICE)
            while not all(task.done() for task in running):
                for sender, task in zip(senders[len(tasks) :], tasks, strict=True):
                    await sender.send(task, other.number, PATIENCE, QUICK)
                await asyncio.sleep(NOTICE)
        await asyncio.to_thread(other.set_clock, 0)
        self._recorder.fault("clock_jump", other.name, "end")
        for task in tasks:
            self._expect(
                task, "an Envoy's clock judges nothing", final="success", executions=1, never=(UNKNOWN,)
            )
        return True

    async def strike(self, kind: str, boundary: Boundary | None) -> bool:
        """A process ends just when a request is at the boundary; None: when its client has the answer."""
        for _ in range(_TRIES):
            if await self._strike(kind, boundary):
                return True
        return False

    async def _strike(self, kind: str, boundary: Boundary | None) -> bool:
        one, other = self._gateways()
        begin, end, target = {
            "kill_envoy": (one.kill9, one.start, one.name),
            "term_envoy": (one.terminate, one.start, one.name),
            "kill_upstream": (self.world.service.kill9, self.world.service.start, "upstream"),
            **self._database_strikes(),
        }[kind]
        operations = ["mark", "mark", "retry", "wait", "detached", *(["own"] if self.world.database else [])]
        if boundary in SERVICE_BOUNDARIES:
            operations = ["own", "own_detached"]
        elif boundary in _COMPLETION:
            operations.remove("own")  # Its completion is the service's.
        operation = self._chance.choice(operations)
        task = self._keys.new(operation, aim="strike")
        done = asyncio.Event()

        async def hit(link: Link | None) -> None:
            # What would follow from the message is given time to happen, if it may happen without it.
            if link:
                await asyncio.sleep(NOTICE)
            self._recorder.fault(kind, target, boundary=boundary.value if boundary else "client_answered")
            await asyncio.to_thread(begin)
            done.set()
            if link and kind.endswith("envoy"):
                link.cut()

        async with self._senders(2) as (sender, later):
            if boundary:
                async with self._trap(task, one, boundary, hit) as sprung:
                    await self._begin(sender, task, one, QUICK, sprung)
                if not sprung.is_set():
                    return False
                await done.wait()
            else:
                await self._begin(sender, task, one, QUICK)
                await hit(None)
            mending = asyncio.create_task(asyncio.to_thread(end))
            while not mending.done():
                await later.send(task, other.number, PATIENCE, QUICK)
                await asyncio.sleep(0.1)
            await mending
            self._recorder.fault(kind, target, "end")
        return True

    def _database_strikes(self) -> dict[str, tuple]:
        server = self.world.database
        if not server:
            return {}
        return {
            "kill_database": (server.kill9, server.start, "database"),
            "stop_database": (server.stop_at_once, server.start, "database"),
            "restart_database": (server.shut_down, server.start, "database"),
            "failover": (server.fail_over, lambda: None, "database"),
        }


_POSTGRES = ("postgres",)
_COMPLETION = (Boundary.COMPLETION_SENT, Boundary.COMPLETION_ACKNOWLEDGED)
_STRIKES = (
    "kill_envoy",
    "term_envoy",
    "kill_database",
    "stop_database",
    "restart_database",
    "failover",
    "kill_upstream",
)


def _strikes() -> dict[str, Scenario]:
    made = {}
    for kind in _STRIKES:
        for boundary in (*Boundary, None):
            if boundary is Boundary.READ_SENT:
                continue
            in_database = boundary in DATABASE_BOUNDARIES | SERVICE_BOUNDARIES
            in_database = in_database or kind.endswith("database") or kind == "failover"
            made[f"{kind}@{boundary.value if boundary else 'client_answered'}"] = Scenario(
                lambda aims, kind=kind, boundary=boundary: aims.strike(kind, boundary),
                gentle=False,
                stores=_POSTGRES if in_database else Scenario.stores,
                needs=kind,
            )
    return made


SCENARIOS = {
    "withheld_sync": Scenario(Aims.withheld_sync, stores=_POSTGRES),
    "lost_claim": Scenario(Aims.lost_claim, stores=_POSTGRES),
    "late_claim": Scenario(Aims.late_claim, stores=_POSTGRES),
    "abandoned_claim": Scenario(Aims.abandoned_claim, stores=_POSTGRES),
    "abandoned_answer": Scenario(Aims.abandoned_answer, stores=_POSTGRES),
    "empty_look_up": Scenario(Aims.empty_look_up, stores=_POSTGRES),
    "slow_upstream": Scenario(Aims.slow_upstream, alone=True),
    "timed_out": Scenario(Aims.timed_out),
    "cut_request": Scenario(Aims.cut_request),
    "cut_answer": Scenario(Aims.cut_answer),
    "lost_completion": Scenario(Aims.lost_completion, stores=_POSTGRES),
    "lost_completion_answer": Scenario(Aims.lost_completion_answer, stores=_POSTGRES),
    "key_reused": Scenario(Aims.key_reused),
    "tenants": Scenario(Aims.tenants),
    "bust": Scenario(Aims.bust, stores=_POSTGRES),
    "expiry": Scenario(Aims.expiry, steady_clock=True),
    "hosts": Scenario(Aims.hosts),
    "declared": Scenario(Aims.declared),
    "sidecar_timeout": Scenario(Aims.sidecar_timeout),
    "sidecar_cut": Scenario(Aims.sidecar_cut),
    "sidecar_refused": Scenario(Aims.sidecar_refused),
    "sidecar_overflow": Scenario(Aims.sidecar_overflow),
    "sidecar_empty": Scenario(Aims.sidecar_empty),
    "sidecar_retries": Scenario(Aims.sidecar_retries),
    "sidecar_retried_refused": Scenario(Aims.sidecar_retried_refused),
    "redirect_followed": Scenario(Aims.redirect_followed),
    "redirect_refused": Scenario(Aims.redirect_refused),
    "redirect_denied": Scenario(Aims.redirect_denied),
    "redirect_failed": Scenario(Aims.redirect_failed),
    "redirect_cut": Scenario(Aims.redirect_cut),
    "envoy_retries": Scenario(Aims.envoy_retries),
    "gateway_statuses": Scenario(Aims.gateway_statuses),
    "unknown_past_life": Scenario(Aims.unknown_past_life),
    "detached_left": Scenario(Aims.detached_left),
    "detached_left_at_claim": Scenario(Aims.detached_left_at_claim, stores=_POSTGRES),
    "detached_left_in_response": Scenario(Aims.detached_left_in_response),
    "detached_left_in_completion": Scenario(Aims.detached_left_in_completion, stores=_POSTGRES),
    "detached_left_in_redirect": Scenario(Aims.detached_left_in_redirect),
    "detached_handed_over": Scenario(Aims.detached_handed_over, alone=True),
    "detached_apart": Scenario(Aims.detached_apart),
    "detached_stray": Scenario(Aims.detached_stray),
    "detached_reloaded": Scenario(Aims.detached_reloaded, gentle=False, needs="reload"),
    "detached_killed": Scenario(Aims.detached_killed, gentle=False, needs="kill_envoy"),
    "detached_terminated": Scenario(Aims.detached_terminated, gentle=False, needs="term_envoy"),
    "reconciled_result": Scenario(Aims.reconciled_result),
    "reconciled_not_run": Scenario(Aims.reconciled_not_run),
    "reconciled_delayed": Scenario(Aims.reconciled_delayed),
    "reconciled_by_next_leader": Scenario(Aims.reconciled_by_next_leader, gentle=False, needs="kill_envoy"),
    "operator_settles": Scenario(Aims.operator_settles),
    "operator_stale": Scenario(Aims.operator_stale),
    "operator_and_reconciler": Scenario(Aims.operator_and_reconciler),
    "operator_and_completion": Scenario(Aims.operator_and_completion),
    "operator_and_late_completion": Scenario(
        Aims.operator_and_late_completion, gentle=False, stores=_POSTGRES, needs="pause_envoy"
    ),
    "own_other_answer": Scenario(Aims.own_other_answer, stores=_POSTGRES),
    "own_lost_answer": Scenario(Aims.own_lost_answer, stores=_POSTGRES),
    "own_timed_out": Scenario(Aims.own_timed_out, stores=_POSTGRES),
    "own_commit_lost": Scenario(Aims.own_commit_lost, stores=_POSTGRES),
    "own_commit_in_doubt": Scenario(Aims.own_commit_in_doubt, stores=_POSTGRES),
    "own_sent_twice": Scenario(Aims.own_sent_twice, stores=_POSTGRES),
    "own_denied_between_phases": Scenario(Aims.own_denied_between_phases, stores=_POSTGRES),
    "own_lock_outlives_lease": Scenario(Aims.own_lock_outlives_lease, alone=True, stores=_POSTGRES),
    "own_killed_while_locked": Scenario(
        Aims.own_killed_while_locked, gentle=False, stores=_POSTGRES, needs="kill_envoy"
    ),
    "own_killed_before_commit": Scenario(Aims.own_killed_before_commit, gentle=False, stores=_POSTGRES),
    "own_killed_after_commit": Scenario(Aims.own_killed_after_commit, gentle=False, stores=_POSTGRES),
    "own_killed_between_phases": Scenario(Aims.own_killed_between_phases, gentle=False, stores=_POSTGRES),
    "own_zombies": Scenario(Aims.own_zombies, gentle=False, stores=_POSTGRES, needs="kill_envoy"),
    "own_overtaken": Scenario(Aims.own_overtaken, gentle=False, stores=_POSTGRES, needs="pause_envoy"),
    "slow_bodies": Scenario(Aims.slow_bodies, gentle=False),
    "crowd": Scenario(Aims.crowd, gentle=False),
    "locked_row": Scenario(Aims.locked_row, gentle=False, stores=_POSTGRES),
    "relaxed_commit": Scenario(Aims.relaxed_commit, gentle=False, stores=_POSTGRES, needs="kill_database"),
    "fsync_off": Scenario(Aims.fsync_off, gentle=False, stores=_POSTGRES),
    "fenced": Scenario(Aims.fenced, gentle=False, stores=_POSTGRES, needs="pause_envoy"),
    "overtaken": Scenario(Aims.overtaken, gentle=False, stores=_POSTGRES, needs="pause_envoy"),
    "clock_ahead": Scenario(Aims.clock_ahead, gentle=False, stores=_POSTGRES, needs="clock_jump"),
    "clock_behind": Scenario(Aims.clock_behind, gentle=False, stores=_POSTGRES, needs="clock_jump"),
    **_strikes(),
}


def choose(words: str | None, store: str, kinds: list[str]) -> list[str]:
    """The scenarios that `--only` names; else all that fit the store and the wanted faults."""
    possible = [name for name, scenario in SCENARIOS.items() if store in scenario.stores]
    if words is None:
        set_clock = store == "sqlite" and "clock_jump" in kinds
        fitting = [name for name in possible if SCENARIOS[name].needs in (None, *kinds)]
        return [name for name in fitting if not (set_clock and SCENARIOS[name].steady_clock)]
    wanted = words.split(",")
    if unknown := sorted(set(wanted) - set(possible)):
        raise ValueError(f"unknown scenarios {', '.join(unknown)}; there are {', '.join(possible)}")
    return wanted
