"""What must hold of the model, and what must not: see test/spin/run."""

import argparse
import dataclasses
import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from verifier import MODEL, CannotRun, Search, Trail, verifier

MEMORY = ("-DMEMLIM=2000",)
DEEP_MEMORY = ("-DMEMLIM=16000", "-DCOLLAPSE")
# The fairness of nine processes needs more room than spin sets apart.
FAIR = "-DNFAIR=3"
LONGEST_TOLD = 24


@dataclasses.dataclass(frozen=True)
class Promise:
    """To be kept in every order of events. Without `claim`: once, kept and real."""

    name: str
    retry: bool
    tokens: int
    claim: str = ""
    mutant: str = "NoMutant"
    deep: bool = False


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    promise: str  # The one that it must break.
    retry: bool = False


PROMISES = (
    Promise("once, kept, real; policy UNKNOWN", retry=False, tokens=3),
    Promise("once, kept, real; policy RETRY", retry=True, tokens=3),
    Promise("settled; policy UNKNOWN", retry=False, tokens=3, claim="settled"),
    Promise("settled; policy RETRY", retry=True, tokens=2, claim="settled"),
    # As the product is today: nobody settles what is unknown.
    Promise("ended, no reconciler; policy UNKNOWN", False, 2, claim="ended", mutant="NoReconciler"),
    Promise("ended, no reconciler; policy RETRY", True, 2, claim="ended", mutant="NoReconciler"),
    Promise("settled, 3 tokens; policy RETRY", retry=True, tokens=3, claim="settled", deep=True),
    Promise("once, kept, real, 4 tokens; policy UNKNOWN", retry=False, tokens=4, deep=True),
)

MUTANTS = (
    Mutant("UnknownRetried", "once"),
    Mutant("FencingIgnored", "once"),
    Mutant("ResultNotFenced", "kept", retry=True),
    Mutant("LateWriteWins", "kept"),
    Mutant("DoubtTakenAsClaimed", "once"),
    Mutant("ClaimNotDurable", "once"),
    Mutant("TimeoutReleases", "once"),
    Mutant("DeadLeaseRetried", "once"),
    Mutant("ReclaimWithoutCompare", "once"),
    Mutant("LeaseNotComparedAgain", "once", retry=True),
    Mutant("AnswerBeforeStore", "kept"),
    Mutant("HastyReconciler", "once"),
    Mutant("ResolveWithoutCompare", "once"),
    Mutant("ProxyAnswerTrusted", "once"),
    Mutant("LastAnswerTrusted", "once"),
    Mutant("RedirectForgotten", "once"),
    Mutant("UnknownFreedByTime", "once"),
    Mutant("GuessingReconciler", "real"),
    Mutant("NoSweeper", "settled"),
    Mutant("NoReconciler", "settled"),
)
FOR_EVER = ("settled", "ended")

# Steps without which the rest would prove little, by a part of their words.
WEIGHTY_STEPS = (
    "replay of the result",
    "409 in progress",
    "a lease has run out: 409 outcome unknown",
    "409 outcome unknown",
    "is in doubt: 503",
    "came too late: 503",
    "is told, as not stored",
    "is told, as fenced off",
    "is fenced off, nothing changes",
    "hands the record back",
    "a late claim makes a record",
    "a late re-claim takes the record",
    "a heartbeat renews the lease",
    "runs the request again",
    "in the upstream's place",
    "the first try may have run",
    "the first upstream has run it",
    "settles its unknown outcome",
    "sweeper: the outcome",
    "sweeper: attempt %d is dead",
    "reconciler: attempt %d is completed",
    "reconciler: attempt %d is absent",
    "reconciler: it gives up",
    "operator: attempt %d is to be asked",
    "reconciler: attempt %d has failed",
    "reconciler: the record is not what",
    "operator: attempt %d is completed",
    "operator: attempt %d has failed",
    "crashes while it asks the store",
    "crashes between claim and call",
    "crashes during the call",
    "crashes while it stores",
    "crashes while it writes in the background",
    "reconciler: it crashes",
)


@dataclasses.dataclass
class Verdict:
    name: str
    passed: bool
    text: str
    search: Search | None = None
    trail: Trail | None = None

    def lines(self) -> list[str]:
        head = f"{'ok' if self.passed else 'FAILED':<7} {self.name:<44} {self.text}"
        return [head, *tell(self.trail)] if self.trail else [head]

    def figures(self) -> dict[str, object]:
        figures: dict[str, object] = {"name": self.name, "passed": self.passed, "text": self.text}
        if self.search:
            figures |= dataclasses.asdict(self.search)
            del figures["met"]
        if self.trail:
            figures["trail"] = dataclasses.asdict(self.trail)
        return figures


def fold(steps: list[str]) -> list[str]:
    """Without what only repeats the steps right before it."""
    kept: list[str] = []
    for step in steps:
        kept.append(step)
        for size in (1, 2, 3, 4):
            if kept[-size:] == kept[-2 * size : -size]:
                del kept[-size:]
    return kept


def tell(trail: Trail) -> list[str]:
    steps = fold(trail.steps)
    if len(steps) > LONGEST_TOLD:
        steps = [f"({len(steps) - LONGEST_TOLD} steps before)", *steps[-LONGEST_TOLD:]]
    again = ["and so on for ever:", *trail.again] if trail.again else []
    return [f"          {line}" for line in [*steps, *again]]


# --- The steps of the model


def steps_of(model: str) -> set[str]:
    """Every step that the model names, in its words."""
    return set(re.findall(r'\bdid\("(.*?)\\n"', model))


def judge_steps(model: str, met: set[str]) -> list[Verdict]:
    named = steps_of(model)
    missed = sorted(named - met)
    gone = [words for words in WEIGHTY_STEPS if not any(words in step for step in named)]
    count = f"{len(named & met)} of {len(named)}"
    asked = f"{len(WEIGHTY_STEPS)} asked for"
    return [
        Verdict("every step is met", bool(named) and not missed, count + rest(missed)),
        Verdict("the steps that matter are in the model", not gone, asked + rest(gone)),
    ]


def rest(missing: Iterable[str]) -> str:
    return "".join(f"\n          missing: {step}" for step in missing)


# --- Promises and mutants


def word(value: bool) -> str:
    return "true" if value else "false"


def judge_promise(promise: Promise, search: Search, trail: Trail | None = None) -> Verdict:
    text = (
        f"{search.states:,} states, {search.transitions:,} transitions, depth {search.depth:,}, "
        f"{search.megabytes:.0f} MB, {search.seconds:.1f} s"
    )
    if search.errors:
        text = f"broken, {trail.broken if trail and trail.broken else 'it gets no further'}: {text}"
    elif not search.complete:
        text = "not everything was seen: " + text
    return Verdict(promise.name, search.holds, text, search, trail)


def check_promise(promise: Promise) -> Verdict:
    defines = {
        "RETRY": word(promise.retry),
        "TOKENS": promise.tokens,
        "MUTANT": promise.mutant,
    }
    # What -O2 saves in the search it costs in the compiler.
    build = ["-O2" if promise.deep else "-O1", *(DEEP_MEMORY if promise.deep else MEMORY)]
    depth = "-m20000000" if promise.deep else "-m1000000"
    if promise.claim:
        with verifier({**defines, "CALM_COMES": 1}, FAIR, *build) as pan:
            search = pan.run("-a", "-f", "-N", promise.claim, depth, "-n")
            return judge_promise(promise, search, pan.trail() if search.errors else None)
    with verifier({**defines, "COVERAGE": 1}, "-DSAFETY", *build) as pan:
        search = pan.run(depth, "-n")
    if not search.errors:
        return judge_promise(promise, search)
    # The same without the steps' counting, breadth first: a short way to the broken promise.
    with verifier(defines, "-DSAFETY", "-DBFS", *build) as pan:
        pan.run()
        return judge_promise(promise, search, pan.trail())


def judge_mutant(mutant: Mutant, search: Search, trail: Trail | None) -> Verdict:
    name = f"mutant {mutant.name} is refuted"
    if trail is None:
        return Verdict(name, False, f"it survives {search.states:,} states", search)
    if mutant.promise in FOR_EVER:
        found = bool(trail.again)
        text = f"{mutant.promise}: it goes on for ever"
    else:
        found = trail.broken.startswith(f"{mutant.promise}: ")
        text = trail.broken
    if not found:
        text = f"not by the promise that it is made for, {mutant.promise}, but: {trail.broken or 'a cycle'}"
    return Verdict(name, found, f"{text} ({search.states:,} states)", search, trail)


def check_mutant(mutant: Mutant) -> Verdict:
    defines = {"RETRY": word(mutant.retry), "MUTANT": mutant.name}
    if mutant.promise not in FOR_EVER:
        with verifier(defines, "-O0", "-DSAFETY", "-DBFS", *MEMORY) as pan:
            search = pan.run()
            return judge_mutant(mutant, search, pan.trail() if search.errors else None)
    with verifier({**defines, "TOKENS": 2, "CALM_COMES": 1}, "-O0", FAIR, *MEMORY) as pan:
        # Depth first finds long ways; a low ceiling makes them short.
        for depth in (80, 100, 150, 250, 1000, 100_000):
            search = pan.run("-a", "-f", "-N", mutant.promise, f"-m{depth}")
            if search.errors:
                return judge_mutant(mutant, search, pan.trail())
    return judge_mutant(mutant, search, None)


# --- All of it


def verdicts(deep: bool, only: str) -> Iterable[Verdict]:
    met: set[str] = set()
    for promise in PROMISES:
        if promise.deep <= deep and only in promise.name:
            verdict = check_promise(promise)
            met |= verdict.search.met if verdict.search else set()
            yield verdict
    if not only:
        yield from judge_steps(MODEL.read_text(), met)
    for mutant in MUTANTS:
        if only in mutant.name:
            yield check_mutant(mutant)


def report(found: Iterable[Verdict], show: Callable[[str], None]) -> list[Verdict]:
    kept = []
    for verdict in found:
        kept.append(verdict)
        for line in verdict.lines():
            show(line)
    return kept


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="test/spin/run", description=__doc__)
    parser.add_argument("--json", type=Path, help="where the figures go, too")
    parser.add_argument("--deep", action="store_true", help="wider bounds besides: minutes, and up to 16 GB")
    parser.add_argument("--only", default="", help="promises and mutants whose names hold this word")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    try:
        kept = report(verdicts(options.deep, options.only), lambda line: print(line, flush=True))
    except CannotRun as error:
        print(f"test/spin/run: {error}", file=sys.stderr)
        return 2
    passed = sum(verdict.passed for verdict in kept)
    failed = len(kept) - passed
    if options.json:
        figures = {
            "passed": passed,
            "failed": failed,
            "seconds": round(time.monotonic() - begin, 1),
            "checks": [verdict.figures() for verdict in kept],
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
