"""Detached runs against attached ones, and the memory that they take."""

from . import servers
from .filter_group import BODY, HELD, Bench, unique_scenario
from .results import Results
from .rounds import Figures, Measured, Ratio, Scenario, interleave, per_round

ENVOY = "detached"
# Runs before the memory is looked at first, and in all.
FEW_RUNS = 20_000
MANY_RUNS = 100_000


def start_envoy(bench: Bench) -> None:
    """An Envoy like `postgres`, but that its runs are detached."""
    bench.envoys[ENVOY] = servers.start_envoy(bench.workspace, _config(bench))


def run(bench: Bench, rounds: int, results: Results) -> None:
    start_envoy(bench)
    found = interleave(_scenarios(bench), rounds, "detached runs")
    results.add("detached", found)
    results.ratios += _ratios(found)
    held = interleave(_held_scenarios(bench), rounds, "held runs")
    results.add("held_runs", held)
    results.ratios.append(_held_ratio(held))
    # Once: it is long, and nothing else is compared with it.
    memory = interleave([Scenario("run_memory", "", lambda: _memory(bench))], 1, "memory of many runs")
    results.add("run_memory", memory)
    results.ratios.append(_memory_ratio(memory))


def _config(bench: Bench, **fields) -> servers.EnvoyConfig:
    return servers.detached_config(bench.workspace, bench.upstream, bench.store, **fields)


def _scenarios(bench: Bench) -> list[Scenario]:
    return [
        unique_scenario(bench),
        Scenario("detached", "the same, detached", lambda: bench.unique(ENVOY)),
        Scenario("lone_unique", "new keys, one connection", lambda: bench.unique(connections=1)),
        Scenario("lone_detached", "the same, detached", lambda: bench.unique(ENVOY, connections=1)),
    ]


def _ratios(found: dict[str, Measured]) -> list[Ratio]:
    def against(name: str, left: str, right: str, what: str, bar: tuple[str, float], figure: str) -> Ratio:
        ours, theirs = found[left], found[right]
        detail = f"{left} {ours.median(figure):.0f}, {right} {theirs.median(figure):.0f}"
        return Ratio(name, what, bar, per_round(ours, theirs, figure), detail)

    return [
        against(
            "detached_vs_attached",
            "detached",
            "unique",
            "new keys: requests/s of detached runs against attached ones",
            (">=", 0.6),
            "rate",
        ),
        against(
            "envoy_cpu_detached_vs_attached",
            "detached",
            "unique",
            "Envoy's CPU for a detached run of a new key against an attached one",
            ("<=", 2.0),
            "envoy_cpu_ms",
        ),
        against(
            "lone_detached_vs_attached",
            "lone_detached",
            "lone_unique",
            "one connection: p50 of a detached run of a new key against an attached one",
            ("<=", 1.5),
            "p50_us",
        ),
    ]


def _held_scenarios(bench: Bench) -> list[Scenario]:
    configs = {
        "held_unique": lambda: servers.keyed_config(bench.upstream, bench.store),
        "held_detached": lambda: _config(bench),
    }
    return [
        Scenario(name, "", lambda config=config: {"held_bytes": bench.held_bytes(config())})
        for name, config in configs.items()
    ]


def _held_ratio(found: dict[str, Measured]) -> Ratio:
    attached, ours = found["held_unique"], found["held_detached"]
    pairs = zip(ours.rounds["held_bytes"], attached.rounds["held_bytes"], strict=True)
    return Ratio(
        "held_run_bytes_overhead",
        f"bytes for each of {HELD} detached runs whose clients wait, beyond attached ones",
        ("<=", 40_960),
        [one - other for one, other in pairs],
        f"attached {attached.median('held_bytes'):.0f}, detached {ours.median('held_bytes'):.0f} bytes;"
        f" body {BODY}",
    )


def _memory(bench: Bench) -> Figures:
    """After few and after many runs. Without the replay cache, which grows until it is full."""
    envoy = servers.start_envoy(bench.workspace, _config(bench, replay_cache={"max_bytes": 0}))
    few = bench.load(envoy, seconds=3600, count=FEW_RUNS)["envoy_rss_mib"]
    many = bench.load(envoy, seconds=3600, count=MANY_RUNS - FEW_RUNS)["envoy_rss_mib"]
    envoy.stop()
    return {"few_rss_mib": few, "many_rss_mib": many}


def _memory_ratio(found: dict[str, Measured]) -> Ratio:
    runs = found["run_memory"]
    few, many = runs.median("few_rss_mib"), runs.median("many_rss_mib")
    return Ratio(
        "detached_memory_growth",
        f"Envoy's memory after {MANY_RUNS} detached runs against that after {FEW_RUNS}",
        ("<=", 1.1),
        [many / few],
        f"{many:.1f} against {few:.1f} MiB",
    )
