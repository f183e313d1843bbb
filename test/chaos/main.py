"""The chaos run: see test/chaos/run."""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent / "integration"))
# All talk stays on this machine, whatever proxy the environment names.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "*"

import aims  # noqa: E402
import faults  # noqa: E402
import plan  # noqa: E402
from checker import check  # noqa: E402
from clients import Client, Keys  # noqa: E402
from harness import ctl  # noqa: E402
from harness.paths import module  # noqa: E402
from history import LAST_PHASE  # noqa: E402
from recorder import Recorder  # noqa: E402
from settle import Settling  # noqa: E402
from world import SERVICE_PROGRAM, World  # noqa: E402

MOST_SHOWN = 10
_MANY_CLIENTS, _FEW_CLIENTS = 48, 6
# Seconds of random faults, then so many aimed ones that harm processes, and all that do not.
_STORM, _AIMS_BETWEEN = 25.0, 8
_LAST_STORM = 5.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="test/chaos/run")
    parser.add_argument("--seconds", type=float, default=120, help="how long faults strike (120)")
    parser.add_argument("--seed", type=int, help="repeats the choices of a run; a fresh one by default")
    parser.add_argument("--faults", default="all", help="names with commas between, none, or all")
    parser.add_argument("--aimed", action="store_true", help="aimed scenarios alone, few clients beside")
    parser.add_argument("--only", help="these aimed scenarios, names with commas between; implies --aimed")
    parser.add_argument("--list", action="store_true", help="names all faults and scenarios")
    parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--module", type=Path, help="the libidempotency.so to load (the built one)")
    parser.add_argument("--ctl", type=Path, help="the idempotencyctl to use (the built one)")
    parser.add_argument("--service", type=Path, default=SERVICE_PROGRAM, help="the upstream (service.py)")
    parser.add_argument("--clients", type=int, help="how many clients send at once")
    parser.add_argument("--history", type=Path, help="where the history is written")
    parser.add_argument("--json", type=Path, help="where the figures are written")
    options = parser.parse_args()
    options.aimed = options.aimed or options.only is not None
    ctl.PROGRAM = options.ctl or ctl.PROGRAM
    return options


class Run:
    def __init__(self, options: argparse.Namespace, seed: int, history: Path) -> None:
        self._options = options
        self._seed = seed
        self._recorder = Recorder(history)
        self._recorder.add(
            "settings",
            **plan.settings(),
            seed=seed,
            store=options.store,
            wall_minus_monotonic=time.time_ns() - time.monotonic_ns(),
        )
        self._world: World | None = None
        self.broken: Counter[str] = Counter()  # Faults that could not be carried out.
        self._kinds = faults.choose(options.faults, options.store, plan.chance(seed, "kinds"))
        self._scenarios = aims.choose(options.only, options.store, self._kinds)

    async def run(self) -> tuple[list[dict], Settling]:
        """The whole history, and how it went after the faults."""
        options = self._options
        built = options.module or module()
        needed = {*self._kinds, *(aims.SCENARIOS[name].needs for name in self._scenarios)}
        self._world = await asyncio.to_thread(
            lambda: World(
                seed=self._seed,
                store=options.store,
                module=built,
                pair="failover" in needed,
                small_disk="full_disk" in needed,
                clock="clock_jump" in needed,
                service=options.service,
            )
        )
        world = self._world
        try:
            await world.start()
            keys = Keys(self._seed, self._operations())
            settling = Settling(world, self._recorder, keys, plan.chance(self._seed, "settling"))
            await self._strike(keys, settling)
            await settling.run()
            return self._recorder.close(world.service.log), settling
        finally:
            await world.stop()

    async def _strike(self, keys: Keys, settling: Settling) -> None:
        """Clients send all the time; faults strike until the time is over; then all is healed."""
        world, stop, options = self._world, asyncio.Event(), self._options
        count = options.clients or (_FEW_CLIENTS if options.aimed else _MANY_CLIENTS)
        clients = [Client(number, self._seed, world, self._recorder, keys) for number in range(count)]
        running = [asyncio.create_task(client.run(stop)) for client in clients]
        aiming = self.aiming = aims.Aims(world, self._recorder, keys, plan.chance(self._seed, "aims"))
        await aiming.warm_up()
        end = time.monotonic() + options.seconds
        try:
            if options.aimed:
                await aiming.play_until(end, self._scenarios, all_once=options.only is not None)
            else:
                await self._storms_and_aims(keys, aiming, end)
        finally:
            stop.set()
        await asyncio.to_thread(world.heal)
        settling.watch()
        await asyncio.gather(*running)

    async def _storms_and_aims(self, keys: Keys, aiming: aims.Aims, end: float) -> None:
        """By turns: aimed scenarios know what must come of them only when nobody else strikes. A storm comes
        last, so that there is something to settle after the faults."""
        chance = plan.chance(self._seed, "faults")
        storms = faults.Faults(self._world, self._recorder, keys, chance, self._kinds)
        self.broken = storms.broken
        end -= _LAST_STORM
        while (left := end - time.monotonic()) > 0:
            await self._storm(storms, min(_STORM, 0.6 * left))
            await asyncio.to_thread(self._world.heal)
            await aiming.play_some(end, self._scenarios, _AIMS_BETWEEN)
        await self._storm(storms, _LAST_STORM)

    @staticmethod
    async def _storm(storms: faults.Faults, seconds: float) -> None:
        stop = asyncio.Event()
        storm = asyncio.create_task(storms.run(stop))
        await asyncio.sleep(seconds)
        stop.set()
        await storm

    def _operations(self) -> list[str]:
        """SQLite goes by the clock that is set: leases and lives that end early are as documented."""
        wanted = [route.operation for route in plan.routes(self._options.store) if not route.aimed]
        if self._options.store == "sqlite" and "clock_jump" in self._kinds:
            return [name for name in wanted if name not in ("retry", "brief", "fleeting")]
        return wanted

    @property
    def fault_kinds(self) -> dict[str, int]:
        return dict(sorted(self._recorder.fault_kinds.items()))


async def interruptible(run: Run) -> tuple[list[dict], Settling]:
    task = asyncio.ensure_future(run.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    return await task


def reconciled(events: list[dict], settling: Settling) -> dict:
    """What the reconciler and operators did. `unsettled`: keys that were unknown after the last fault, and
    for how many seconds at most."""
    audit = [event for event in events if event["type"] == "audit"]
    done = Counter(f"{entry['action']} by {entry['actor']}" for entry in audit)
    return {
        "keys": len({(entry["tenant"], entry["operation"], entry["key"]) for entry in audit}),
        **dict(sorted(done.items())),
        "turned_away": sum(event["type"] == "turned_away" for event in events),
        "unsettled": settling.unsettled,
        "longest_seconds": settling.longest_unsettled,
    }


def own(events: list[dict]) -> dict:
    """What the service did in its own transactions. `zombies`: transactions of attempts that did not hold
    their record any more, or whose request was completed."""
    of = {kind: [event for event in events if event["type"] == kind] for kind in ("work", "effect", "order")}
    rolled_back = Counter(event["why"] for event in events if event["type"] == "rolled_back")
    return {
        "requests": sum(event["type"] == "call" and event["policy"] == "own" for event in events),
        "works": len(of["work"]),
        "again": sum(event["point"] is not None for event in of["work"]),
        "completed": sum(effect["phase"] == LAST_PHASE for effect in of["effect"]),
        "checkpoints": sum(effect["phase"] != LAST_PHASE for effect in of["effect"]),
        "ordered": len(of["order"]),
        "zombies": rolled_back["ID001"] + rolled_back["ID002"],
        "rolled_back": dict(sorted(rolled_back.items())),
    }


def main() -> int:
    options = arguments()
    if options.list:
        print(*("faults:", *faults.KINDS, "", "scenarios:", *aims.SCENARIOS), sep="\n")
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    kept = options.history or Path(tempfile.gettempdir()) / f"chaos-{seed}.jsonl"
    began = time.monotonic()
    try:
        run = Run(options, seed, kept)
        events, settling = asyncio.run(interruptible(run))
    except asyncio.CancelledError:
        print("stopped", file=sys.stderr)
        return 2
    except Exception:
        # Exit code 1 is for violations alone.
        traceback.print_exc()
        return 2
    violations = check(events)
    figures = {
        "requests": sum(event["type"] == "call" for event in events),
        "executions": sum(event["type"] in ("execution", "work") for event in events),
        "faults": {kind: count for kind, count in run.fault_kinds.items() if not kind.startswith("aim:")},
        "aims": dict(sorted(run.aiming.struck.items())),
        "missed": dict(sorted(run.aiming.missed.items())),
        "broken": dict(sorted((run.broken + run.aiming.broken).items())),
        "violations": len(violations),
        "unresolved": settling.unresolved,
        "reconciled": reconciled(events, settling),
        "own": own(events),
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "store": options.store,
    }
    for violation in violations[:MOST_SHOWN]:
        print(violation)
    print(json.dumps(figures))
    if options.json:
        options.json.write_text(json.dumps(figures) + "\n")
    if not options.history and not violations:
        kept.unlink()
    elif violations:
        print(f"history: {kept}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
