"""Runs of bench/http_load and of pgbench."""

import json
import re
import statistics
import subprocess
from pathlib import Path

from harness.paths import built

from .servers import Database


class LoadError(RuntimeError):
    """A run that says nothing about speed."""


def http_command(port: int, **options) -> list[str | Path]:
    words: list[str | Path] = [built("bench/http_load"), "--port", str(port)]
    for name, value in options.items():
        words += [f"--{name}", str(value)]
    return words


def http_load(port: int, **options) -> dict[str, float]:
    """requests, rate, p50_us, p99_us, max_us. The options are those of bench/http_plan.h."""
    command = http_command(port, **options)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LoadError(f"{' '.join(map(str, command[1:]))}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def pgbench(
    database: Database, name: str, script: str, clients: int, seconds: float, rate: int | None = None
) -> dict[str, float]:
    """rate, p50_us, p99_us of transactions: as many as it can, or so many in a second."""
    folder = database.folder / "pgbench"
    folder.mkdir(exist_ok=True)
    file = folder / "script.sql"
    file.write_text(script)
    for old in folder.glob("log*"):
        old.unlink()
    command = [
        *(
            database.programs / "pgbench",
            "-n",
            "-M",
            "prepared",
            "-c",
            str(clients),
            "-j",
            str(min(clients, 2)),
        ),
        *(("-R", str(rate)) if rate else ()),
        *("-T", str(max(1, round(seconds))), "-f", file, "-l", f"--log-prefix={folder / 'log'}"),
        *("-h", database.folder, "-p", str(database.port), "-U", "postgres", name),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    rate = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    failed = re.search(r"^number of failed transactions: (\d+)", done.stdout, re.MULTILINE)
    if done.returncode or not rate or (failed and int(failed[1])):
        raise LoadError(f"pgbench: {done.stdout}{done.stderr}")
    times = [int(line.split()[2]) for log in folder.glob("log*") for line in log.read_text().splitlines()]
    return {
        "requests": len(times),
        "rate": float(rate[1]),
        "p50_us": statistics.median(times),
        "p99_us": sorted(times)[int(len(times) * 0.99)],
    }
