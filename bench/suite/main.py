"""The command line of bench/run: groups of measurements, a table, JSON and a plot."""

import argparse
import datetime
import json
import shlex
import subprocess
import sys
from pathlib import Path

from harness.process import Workspace

from . import (
    ROOT,
    compare,
    detached,
    filter_group,
    own_transaction,
    peers,
    plot,
    programs,
    scaling,
    servers,
    stored_keys,
)
from .filter_group import Bench
from .results import Results, show
from .rounds import interleave

GROUPS = ("all", "filter", "store", "micro", "peers", "scaling")
# Not part of `all`: `filter` has them.
DETACHED = "detached"
OWN = "own"
COMPARE = "compare"  # Not part of `all`: it needs another checkout.


def run_programs(group: str, arguments: argparse.Namespace, results: Results) -> None:
    results.ratios += programs.run(group, arguments.rounds, arguments.seconds)


def run_filter(bench: Bench, arguments: argparse.Namespace, results: Results) -> None:
    """All that the bars need."""
    subprocess.run([ROOT / "bench" / "peers", "idemkit"], check=True)
    peer = {peers.POSTGRES_PEER: peers.start_idemkit_postgres(bench)}
    found = interleave(filter_group.scenarios(bench) + peers.scenarios(peer), arguments.rounds, "filter")
    results.add("filter", found)
    results.ratios += filter_group.ratios(found)
    results.ratios.append(peers.best_postgres_ratio(found))
    results.add("wal", interleave([filter_group.wal_scenario(bench)], arguments.rounds, "write-ahead log"))
    held = interleave(filter_group.held_scenarios(bench), arguments.rounds, "held requests")
    results.add("held", held)
    results.ratios.append(filter_group.held_ratio(held))
    detached.run(bench, arguments.rounds, results)
    own_transaction.run(bench, arguments.rounds, results)
    if arguments.group == "filter":
        _run_stored_keys(bench, [stored_keys.FEW, arguments.keys], arguments, results)


def _run_stored_keys(
    bench: Bench, counts: list[int], arguments: argparse.Namespace, results: Results
) -> None:
    claims = stored_keys.measure(bench, counts, arguments.rounds)
    results.add("claims", claims)
    results.ratios.append(stored_keys.ratio(claims, arguments.keys))


def run_scaling(bench: Bench, arguments: argparse.Namespace, results: Results) -> None:
    counts = sorted({stored_keys.FEW, arguments.keys, *(n for n in scaling.STORED if n < arguments.keys)})
    _run_stored_keys(bench, counts, arguments, results)
    results.add("stored", interleave(scaling.stored(bench, counts), arguments.rounds, "stored keys"))
    results.add("workers", interleave(scaling.workers(bench), arguments.rounds, "workers"))
    results.add("duplicates", interleave(scaling.duplicates(bench), arguments.rounds, "duplicates"))
    reaper = scaling.Reaper(bench, arguments.keys // 5)
    found = interleave(reaper.scenarios(), arguments.rounds, "reaper")
    results.add("reaper", found)
    results.ratios.append(scaling.reaper_ratio(found))
    seconds, bench.seconds = bench.seconds, bench.seconds / 3
    results.add("matrix", interleave(scaling.matrix(bench), arguments.rounds, "sizes and protocols"))
    bench.seconds = seconds


def run_peers(bench: Bench, arguments: argparse.Namespace, results: Results) -> None:
    subprocess.run([ROOT / "bench" / "peers"], check=True)
    known = peers.start_redis_peers(bench)
    if not bench.database.query("SELECT 1 FROM pg_database WHERE datname = 'idemkit'"):
        known = {peers.POSTGRES_PEER: peers.start_idemkit_postgres(bench), **known}
    scenarios = [filter_group.unique_scenario(bench), *peers.scenarios(known)]
    found = interleave(scenarios, arguments.rounds, "peers")
    results.add("peers", found)


def run_compare(bench: Bench, arguments: argparse.Namespace, results: Results) -> None:
    compare.start_baseline(bench, arguments.baseline)
    found = interleave(compare.scenarios(bench), arguments.rounds, COMPARE)
    results.add(COMPARE, found)
    results.ratios += compare.ratios(found)


def run(arguments: argparse.Namespace) -> Results:
    chosen = GROUPS[1:] if arguments.group == "all" else (arguments.group,)
    results = Results()
    for group in ("micro", "store"):
        if group in chosen:
            run_programs(group, arguments, results)
    if not {"filter", "peers", "scaling", DETACHED, OWN, COMPARE} & {*chosen}:
        return results
    workspace = Workspace()
    try:
        bench = Bench(workspace, arguments.seconds)
        if "filter" in chosen:
            run_filter(bench, arguments, results)
        if DETACHED in chosen:
            detached.run(bench, arguments.rounds, results)
        if OWN in chosen:
            own_transaction.run(bench, arguments.rounds, results)
        if "peers" in chosen:
            run_peers(bench, arguments, results)
        if "scaling" in chosen:
            run_scaling(bench, arguments, results)
        if COMPARE in chosen:
            run_compare(bench, arguments, results)
    except Exception:
        for process in workspace.processes:
            print(f"--- log of {process.name}\n{process.tail(5)}", file=sys.stderr)
        raise
    finally:
        workspace.close()
    return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument("group", choices=(*GROUPS, DETACHED, OWN, COMPARE), nargs="?", default="all")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; fewer than 5 say nothing")
    parser.add_argument("--seconds", type=float, default=3, help="of each run")
    parser.add_argument("--keys", type=int, default=10_000_000, help="stored keys of claim_p50_10m_vs_1k")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures; a plot goes beside it")
    parser.add_argument(
        "--baseline", type=Path, metavar="CHECKOUT", help="another checkout, built, for compare"
    )
    arguments = parser.parse_args()
    if (arguments.group == COMPARE) != (arguments.baseline is not None):
        parser.error("compare and --baseline go together")
    head = {
        "command": shlex.join(["bench/run", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        # Before anything of ours loads it.
        "machine": servers.machine(),
        "versions": servers.versions(),
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
    }
    results = run(arguments)
    show(results)
    if arguments.json:
        arguments.json.write_text(json.dumps({**head, **results.json()}, indent=1) + "\n")
        plot.write(results, arguments.json.with_suffix(".svg"))
    return 0 if all(ratio.met for ratio in results.ratios) else 1
