"""Makes a verifier of protocol.pml with spin and the C compiler, runs it, and reads what it says."""

import dataclasses
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODEL = Path(__file__).resolve().with_name("protocol.pml")
LONGEST = 3600.0

# What ended a search early. pan goes on after the first of them, but has not seen everything.
_TRUNCATED = (
    "max search depth too small",
    "Search not completed",
    "MEMLIM",
    "out of memory",
    "hash table full",
)
# The model's own words, not those of spin.
_TOLD = re.compile(r"^\s*((?:Envoy|store|wire|upstream|sweeper|reconciler|operator|Faults|Broken)\b.*)$")
_CYCLE = "START OF CYCLE"


class CannotRun(Exception):
    """Nothing is known of the model."""


@dataclasses.dataclass
class Search:
    """What a verifier found."""

    complete: bool  # Every state was seen.
    errors: int
    states: int
    transitions: int
    depth: int
    megabytes: float
    seconds: float
    met: set[str]  # Steps, in the model's words.

    @property
    def holds(self) -> bool:
        return self.complete and self.errors == 0


@dataclasses.dataclass
class Trail:
    """How a promise is broken."""

    steps: list[str]
    again: list[str]  # What then goes on for ever; empty if a step broke the promise.
    broken: str  # In the model's words; empty if no step did.


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise CannotRun(f"the verifier does not say {pattern!r}:\n{text[-2000:]}")
    return float(found[1])


def read_search(text: str, seconds: float) -> Search:
    # With bitstate hashing or a hash of each state, different states could be taken for one.
    full = "Full statespace search" in text or "Using Breadth-First Search" in text
    return Search(
        complete=full and not any(word in text for word in _TRUNCATED),
        errors=int(_number(r"errors: (\d+)", text)),
        states=int(_number(r"^\s*(\S+) states, stored", text)),
        transitions=int(_number(r"^\s*(\S+) transitions", text)),
        depth=int(_number(r"depth reached (\d+)", text)),
        megabytes=_number(r"^\s*(\S+)\s+total actual memory usage", text),
        seconds=seconds,
        met=set(re.findall(r"^did: (.*)$", text, re.MULTILINE)),
    )


def read_trail(text: str) -> Trail:
    before, _, after = text.partition(_CYCLE)
    steps, broken = [], ""
    for line in before.splitlines():
        told = _TOLD.match(line)
        if told is None:
            continue
        if told[1].startswith("Broken, "):
            broken = told[1].removeprefix("Broken, ")
            break
        steps.append(told[1])
    again = [told[1] for told in map(_TOLD.match, after.splitlines()) if told]
    return Trail(steps, list(dict.fromkeys(again)), broken)


class Verifier:
    """One variant of the model, compiled. Lives as long as its folder."""

    def __init__(self, folder: Path, defines: dict[str, object], options: list[str]) -> None:
        self._folder = folder
        self._spin = ["spin", *(f"-D{name}={value}" for name, value in defines.items())]
        (folder / MODEL.name).write_bytes(MODEL.read_bytes())
        self._must([*self._spin, "-a", MODEL.name])
        self._must(["gcc", "-w", *options, "-o", "pan", "pan.c"])

    def run(self, *options: str) -> Search:
        begin = time.monotonic()
        done = self._start(["./pan", *options])
        return read_search(done.stdout + done.stderr, time.monotonic() - begin)

    def trail(self) -> Trail:
        """Of the error that the last run found."""
        return read_trail(self._start([*self._spin, "-T", "-t", MODEL.name]).stdout)

    def _must(self, command: list[str]) -> None:
        done = self._start(command)
        # spin's exit code alone is not to be relied on.
        if done.returncode or "Error:" in done.stdout + done.stderr:
            said = (done.stdout + done.stderr)[-2000:]
            raise CannotRun(f"{' '.join(command)} failed with exit code {done.returncode}:\n{said}")

    def _start(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command, cwd=self._folder, capture_output=True, text=True, timeout=LONGEST, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotRun(f"{command[0]}: {error}") from error


@contextmanager
def verifier(defines: dict[str, object], *options: str) -> Iterator[Verifier]:
    with tempfile.TemporaryDirectory(prefix="spin-") as folder:
        yield Verifier(Path(folder), defines, list(options))
