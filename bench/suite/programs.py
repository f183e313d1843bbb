"""Benchmark programs that print one line of JSON for each ratio: bench/ratio.h."""

import json
import subprocess
import sys

from harness.paths import built

from . import ROOT

# Each takes --rounds; the last one --seconds, too.
_GROUPS = {
    "micro": [lambda seconds: [built("bench/fingerprint_benchmark")]],
    "store": [
        lambda seconds: [built("bench/sqlite_benchmark")],
        lambda seconds: [sys.executable, ROOT / "bench" / "postgres_store.py", "--seconds", str(seconds)],
    ],
}


class ProgramRatio:
    """What a program said of one ratio."""

    def __init__(self, line: str) -> None:
        self._said = json.loads(line)

    @property
    def met(self) -> bool:
        return self._said["met"]

    def json(self) -> dict:
        return self._said


def run(group: str, rounds: int, seconds: float) -> list[ProgramRatio]:
    ratios = []
    for command in _GROUPS[group]:
        words = [*command(seconds), "--rounds", str(rounds)]
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                ratios.append(ProgramRatio(line))
                print(f"{group}: {ratios[-1].json()['name']} is measured", file=sys.stderr)
        if process.returncode:
            raise SystemExit(f"bench/run: {words[0]} ended with {process.returncode}")
    return ratios
