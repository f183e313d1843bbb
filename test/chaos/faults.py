"""Faults that strike at random times. Each has a way to begin and a way to end, and both are written down."""

import asyncio
import dataclasses
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable

import plan
from clients import Keys, Sender
from gateway import Gateway
from recorder import Recorder
from world import World

# Seconds. Some outlast a lease.
_SHORT, _LONG = 0.5, 1.5 * plan.LEASE
_HOUR = 3600
_CRASH_PATIENCE = 1.5
# So many faults may fail to begin or to end, as when a server takes too long to start on a busy machine.
_MOST_BROKEN = 3


@dataclasses.dataclass(frozen=True)
class Kind:
    strike: Callable[["Faults", str], Awaitable[None]]
    weight: float = 1.0  # How often, beside the others.
    stores: tuple[str, ...] = ("postgres", "sqlite")


class Faults:
    """One fault after the other, sometimes two at once, each chosen and timed by the seed."""

    def __init__(
        self, world: World, recorder: Recorder, keys: Keys, chance: random.Random, wanted: list[str]
    ) -> None:
        self._world, self._recorder, self._keys, self._chance = world, recorder, keys, chance
        self._wanted = wanted
        self._busy: set[str] = set()
        self.broken: Counter[str] = Counter()

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop; what has begun is ended."""
        if self._wanted:
            await asyncio.gather(*(self._strike_on(stop, pause) for pause in (0.1, 0.2, 0.5, 1.0)))

    async def _strike_on(self, stop: asyncio.Event, pause: float) -> None:
        weights = [KINDS[name].weight for name in self._wanted]
        while not stop.is_set():
            await asyncio.sleep(self._chance.expovariate(1 / pause))
            name = self._chance.choices(self._wanted, weights)[0]
            if not stop.is_set():
                await self._strike(name)

    async def _strike(self, name: str) -> None:
        """A fault that could not be carried out is none; what happened to requests is judged all the same."""
        try:
            await KINDS[name].strike(self, name)
        except Exception:
            self.broken[name] += 1
            if self.broken.total() > _MOST_BROKEN:
                raise
            traceback.print_exc(file=sys.stderr)

    async def _during(
        self,
        name: str,
        target: str,
        begin: Callable[[], object],
        end: Callable[[], object],
        longest: float = _SHORT,
    ) -> None:
        """From `begin` to `end`; nothing if another fault has the target."""
        if target in self._busy:
            return
        self._busy.add(target)
        try:
            self._recorder.fault(name, target)
            await asyncio.to_thread(begin)
            await asyncio.sleep(self._chance.uniform(0, longest))
        finally:
            await asyncio.to_thread(end)
            self._recorder.fault(name, target, "end")
            self._busy.discard(target)

    def _gateway(self) -> Gateway:
        return self._chance.choice(self._world.gateways)

    # --- processes

    async def envoy(self, name: str) -> None:
        gateway = self._gateway()
        begin = {"kill_envoy": gateway.kill9, "term_envoy": gateway.terminate}[name]
        await self._during(name, gateway.name, begin, gateway.start, 1.0)

    async def pause_envoy(self, name: str) -> None:
        gateway = self._gateway()
        await self._during(name, gateway.name, gateway.pause, gateway.resume, _LONG)

    async def reload(self, name: str) -> None:
        gateway = self._gateway()
        await self._during(name, gateway.name, gateway.reload, lambda: None, 0.1)

    async def clock_jump(self, name: str) -> None:
        gateway = self._gateway()
        if self._world.database:
            jump = self._chance.choice((-_HOUR, -10, 10, _HOUR))
            await self._during(
                name,
                gateway.name + ".clock",
                lambda: gateway.set_clock(jump),
                lambda: gateway.set_clock(0),
                _LONG,
            )
        else:
            # The store's clock is the machine's: it goes ahead, and stays there.
            self._ahead = getattr(self, "_ahead", 0) + self._chance.choice((1, 5, 60))
            await self._during(
                name, gateway.name + ".clock", lambda: gateway.set_clock(self._ahead), lambda: None, 0.1
            )

    async def database(self, name: str) -> None:
        server = self._world.database
        begin = {
            "kill_database": server.kill9,
            "stop_database": server.stop_at_once,
            "restart_database": server.shut_down,
        }[name]
        await self._during(name, "database", begin, server.start)

    async def failover(self, name: str) -> None:
        await self._during(name, "database", self._world.database.fail_over, lambda: None, 0.1)

    async def full_disk(self, name: str) -> None:
        holder = self._world.database
        if holder:
            await self._during(name, "database", holder.fill_disk, holder.empty_disk, 2 * _LONG)
        else:
            disk = self._world.disk
            await self._during(name, "disk", disk.fill, disk.empty, _LONG)

    async def kill_upstream(self, name: str) -> None:
        service = self._world.service
        await self._during(name, "upstream", service.kill9, service.start)

    async def crash_upstream(self, name: str) -> None:
        """A request that makes it crash, before it has done anything or after it has done all."""
        if "upstream" in self._busy:
            return
        self._busy.add("upstream")
        self._recorder.fault(name, "upstream")
        sender = Sender(self._world, self._recorder, name)
        until = time.monotonic() + _CRASH_PATIENCE
        wish = {"crash": name.removeprefix("crash_upstream_"), "work": 0.02, "until": until}
        try:
            await sender.send(self._keys.new(), self._gateway().number, _CRASH_PATIENCE, wish)
            # The client may be cut off, and its request still come.
            while self._world.service.running and time.monotonic() < until:
                await asyncio.sleep(0.05)
            await asyncio.sleep(self._chance.uniform(0, _SHORT))
        finally:
            sender.close()
            await asyncio.to_thread(self._world.service.start)
            self._recorder.fault(name, "upstream", "end")
            self._busy.discard("upstream")

    async def slow_upstream(self, name: str) -> None:
        """A request that takes longer than its lease, and others with its key meanwhile."""
        task = self._keys.new()
        sender, other = (Sender(self._world, self._recorder, name) for _ in range(2))
        self._recorder.fault(name, "upstream")
        work = self._chance.uniform(1.1, 2.0) * plan.LEASE
        running = asyncio.create_task(
            sender.send(task, self._gateway().number, 3 * plan.LEASE, {"work": work, "status": 200})
        )
        while not running.done():
            await asyncio.sleep(0.4)
            await other.send(task, self._gateway().number, 1.0)
        self._recorder.fault(name, "upstream", "end")
        sender.close()
        other.close()

    # --- connections: `<what>_<way>`

    async def way(self, name: str) -> None:
        what, _, where = name.rpartition("_")
        gateway = self._gateway()
        ways = {
            "front": [gateway.front],
            "upstream": [gateway.to_upstream],
            "outcome": [gateway.to_outcome],
            "database": gateway.to_database,
            "own": self._world.service_ways,
        }[where]
        target = "upstream.database" if where == "own" else f"{gateway.name}.{where}"
        disturb, longest = _DISTURBANCES[what]

        def begin() -> None:
            for way in ways:
                disturb(way, self._chance)

        def end() -> None:
            for way in ways:
                way.restore()

        await self._during(name, target, begin, end, longest)


_DISTURBANCES = {
    "cut": (lambda way, _: way.cut(), _SHORT),
    "reset": (lambda way, _: way.reset_connections(), _SHORT),
    "delay": (lambda way, chance: way.delay(chance.choice((20, 200, 1500)), 20), _LONG),
    "one_byte": (lambda way, _: way.slice(1), _LONG),
    "deaf": (lambda way, _: way.swallow_answers(), _LONG),
    "mute": (lambda way, _: way.swallow_requests(), _LONG),
    "black_hole": (lambda way, _: way.black_hole(), _LONG),
    "cut_after": (lambda way, chance: way.cut_after(chance.randint(1, 400)), _SHORT),
}

# Of Envoy to its store, and of the service to the database of its own transactions.
_POSTGRES_WAYS = ("database", "own")

KINDS = {
    "kill_envoy": Kind(Faults.envoy, 3),
    "term_envoy": Kind(Faults.envoy, 2),
    "pause_envoy": Kind(Faults.pause_envoy, 2),
    "reload": Kind(Faults.reload, 2),
    "clock_jump": Kind(Faults.clock_jump, 2),
    "kill_database": Kind(Faults.database, 1, ("postgres",)),
    "stop_database": Kind(Faults.database, 1, ("postgres",)),
    "restart_database": Kind(Faults.database, 1, ("postgres",)),
    "failover": Kind(Faults.failover, 1, ("postgres",)),
    "full_disk": Kind(Faults.full_disk, 1),
    "kill_upstream": Kind(Faults.kill_upstream, 1),
    "crash_upstream_before": Kind(Faults.crash_upstream, 1),
    "crash_upstream_after": Kind(Faults.crash_upstream, 1),
    "slow_upstream": Kind(Faults.slow_upstream, 1),
    **{
        f"{what}_{where}": Kind(Faults.way, 0.5, ("postgres",) if where in _POSTGRES_WAYS else Kind.stores)
        for what in _DISTURBANCES
        for where in ("front", "upstream", "outcome", "database", "own")
    },
}


def choose(words: str, store: str, chance: random.Random) -> list[str]:
    """The kinds that `--faults` names. `all` leaves out one of two that need PostgreSQL set up otherwise."""
    possible = [name for name, kind in KINDS.items() if store in kind.stores]
    if words == "none":
        return []
    if words == "all":
        if store == "postgres":
            possible.remove(chance.choice(("failover", "full_disk")))
        return possible
    wanted = words.split(",")
    if unknown := sorted(set(wanted) - set(possible)):
        raise ValueError(f"unknown faults {', '.join(unknown)}; there are {', '.join(possible)}")
    if {"failover", "full_disk"} <= set(wanted) and store == "postgres":
        raise ValueError("failover and full_disk need two runs: a pair of servers, or one on a small disk")
    return wanted
