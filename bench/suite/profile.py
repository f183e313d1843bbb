"""The command line of bench/profile: where Envoy spends its time in one scenario."""

import argparse
import re
import subprocess
import sys
import threading

from harness.process import Workspace

from . import detached, filter_group

# Envoy's own functions have no names in its stripped program, but for those that modules call.
REPORTS = {
    "by thread": ["--no-children", "--sort", "comm"],
    "by library": ["--no-children", "--sort", "comm,dso"],
    "by function, with what it calls": ["--children", "--sort", "symbol"],
    "by function": ["--no-children", "--sort", "symbol"],
}
SCENARIOS = {
    "bare": ("bare", lambda bench, **options: bench.bare(**options)),
    "off": ("off", lambda bench, **options: bench.off(**options)),
    "direct": ("direct", lambda bench, **options: bench.direct(**options)),
    "unique": ("postgres", lambda bench, **options: bench.unique(**options)),
    "detached": (detached.ENVOY, lambda bench, **options: bench.unique(detached.ENVOY, **options)),
    "replay_cached": ("postgres", lambda bench, **options: bench.replay("postgres", **options)),
    "replay_uncached": ("uncached", lambda bench, **options: bench.replay("uncached", **options)),
    "sqlite": ("sqlite", lambda bench, **options: bench.unique("sqlite", **options)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/profile", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--connections", type=int, default=filter_group.CONNECTIONS)
    parser.add_argument("--output", default="/tmp/perf.data", help="for `perf report -i`")
    arguments = parser.parse_args()
    workspace = Workspace()
    try:
        bench = filter_group.Bench(workspace, arguments.seconds + 3)
        detached.start_envoy(bench)
        envoy, run = SCENARIOS[arguments.scenario]
        command = ["perf", "record", "-q", "--call-graph", "dwarf,16384", "-F", "499", "-o", arguments.output]
        command += ["-p", str(bench.envoys[envoy].process.pid), "--", "sleep", str(arguments.seconds)]
        # The load has begun by then, and goes on until it is over.
        recorder = threading.Timer(2, subprocess.run, [command])
        recorder.start()
        figures = run(bench, connections=arguments.connections)
        recorder.join()
    finally:
        workspace.close()
    print(figures, file=sys.stderr)
    for title, words in REPORTS.items():
        print(f"\n--- {title}", *_report(arguments.output, words), sep="\n")
    return 0


def _report(data: str, words: list[str]) -> list[str]:
    command = ["perf", "report", "-i", data, "--stdio", "-g", "none", *words]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip() and line[0] != "#"]
    return [line for line in lines if not re.search(r"0x[0-9a-f]{8}", line)][:70]


if __name__ == "__main__":
    sys.exit(main())
