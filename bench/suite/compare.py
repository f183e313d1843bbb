"""This module against that of another checkout, in one interleaved run."""

import subprocess
from pathlib import Path

from . import servers
from .filter_group import Bench
from .rounds import Measured, Ratio, Scenario, per_round

# What two equal modules differ by on a noisy machine.
NOISE = 0.95
BASELINE = "baseline"
KINDS = {
    "unique": ("new keys", "rate", (">=", NOISE)),
    "replay": ("cached replays", "rate", (">=", NOISE)),
    "lone": ("new keys on one connection", "p50_us", ("<=", 1 / NOISE)),
}


def start_baseline(bench: Bench, checkout: Path) -> None:
    """An Envoy with the other module, on a database with that module's schema."""
    built = checkout / ".cache" / "bazel-opt" / "bin" / "source"
    database = bench.database
    database.query(f"CREATE DATABASE {BASELINE}")
    migrate = [built / "cli" / "idempotencyctl", "migrate", "--conninfo", database.conninfo(BASELINE)]
    subprocess.run(migrate, check=True, capture_output=True)
    config = servers.keyed_config(bench.upstream, database.store(BASELINE))
    env = {"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": str(built)}
    bench.envoys[BASELINE] = servers.start_envoy(bench.workspace, config, env=env)


def _run(bench: Bench, kind: str, envoy: str) -> dict[str, float]:
    if kind == "replay":
        return bench.replay(envoy)
    return bench.unique(envoy, **({"connections": 1} if kind == "lone" else {}))


def scenarios(bench: Bench) -> list[Scenario]:
    sides = {"": "postgres", "_baseline": BASELINE}
    return [
        Scenario(kind + suffix, what, lambda kind=kind, envoy=envoy: _run(bench, kind, envoy))
        for kind, (what, _, _) in KINDS.items()
        for suffix, envoy in sides.items()
    ]


def ratios(found: dict[str, Measured]) -> list[Ratio]:
    def ratio(kind: str, what: str, figure: str, bar: tuple[str, float]) -> Ratio:
        ours, theirs = found[kind], found[kind + "_baseline"]
        detail = f"this {ours.median(figure):.0f}, baseline {theirs.median(figure):.0f}"
        return Ratio(
            f"{kind}_vs_baseline",
            f"{what}: {figure} against the baseline",
            bar,
            per_round(ours, theirs, figure),
            detail,
        )

    return [ratio(kind, *words) for kind, words in KINDS.items()]
