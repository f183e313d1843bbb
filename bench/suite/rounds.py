"""Interleaved rounds: every scenario once in each round, so that a trend of the machine favours nobody."""

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable

Figures = dict[str, float]


@dataclasses.dataclass
class Scenario:
    name: str
    what: str
    run: Callable[[], Figures]


@dataclasses.dataclass
class Measured:
    """The figures of one scenario, one value of each for each round."""

    name: str
    what: str
    rounds: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def add(self, figures: Figures) -> None:
        for name, value in figures.items():
            self.rounds.setdefault(name, []).append(value)

    def median(self, figure: str) -> float:
        return statistics.median(self.rounds[figure])

    def has(self, figure: str) -> bool:
        return figure in self.rounds

    def json(self) -> dict:
        return {
            "name": self.name,
            "what": self.what,
            "figures": {
                name: {
                    "median": rounded(statistics.median(values)),
                    "least": rounded(min(values)),
                    "most": rounded(max(values)),
                    "rounds": [rounded(value) for value in values],
                }
                for name, value in self.rounds.items()
                for values in [value]
            },
        }


@dataclasses.dataclass
class Ratio:
    name: str
    what: str
    bar: tuple[str, float]
    rounds: list[float]
    detail: str = ""
    besides: bool = True  # A second condition of the bar, which `detail` tells.

    @property
    def value(self) -> float:
        return statistics.median(self.rounds)

    @property
    def met(self) -> bool:
        side, limit = self.bar
        return self.besides and (self.value >= limit if side == ">=" else self.value <= limit)

    def json(self) -> dict:
        return {
            "name": self.name,
            "value": rounded(self.value),
            "bar": f"{self.bar[0]} {self.bar[1]:g}",
            "met": self.met,
            "rounds": [rounded(value) for value in self.rounds],
            "what": self.what,
            "detail": self.detail,
        }


def rounded(value: float) -> float:
    return round(value, 3) if abs(value) < 1000 else round(value)


class Progress:
    """One line that is written over where a terminal shows it."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._start = time.monotonic()

    def step(self, text: str) -> None:
        spent = time.monotonic() - self._start
        left = spent / self._done * (self._steps - self._done) if self._done else 0
        self._done += 1
        line = f"[{self._done}/{self._steps}] {text}" + (f", about {left:.0f} s left" if left else "")
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif self._done % 10 == 1:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def interleave(scenarios: list[Scenario], rounds: int, title: str) -> dict[str, Measured]:
    measured = {scenario.name: Measured(scenario.name, scenario.what) for scenario in scenarios}
    progress = Progress(rounds * len(scenarios))
    for number in range(rounds):
        # Who goes first changes.
        order = scenarios if number % 2 == 0 else scenarios[::-1]
        for scenario in order:
            progress.step(f"{title}: round {number + 1} of {rounds}, {scenario.name}")
            measured[scenario.name].add(scenario.run())
    progress.end()
    return measured


def per_round(left: Measured, right: Measured, figure: str = "rate") -> list[float]:
    pairs = zip(left.rounds[figure], right.rounds[figure], strict=True)
    return [one / other for one, other in pairs]
