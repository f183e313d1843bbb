"""What a run found, and how it is shown."""

from .programs import ProgramRatio
from .rounds import Measured, Ratio

# Figure, title of its column.
COLUMNS = {
    "rate": "req/s",
    "p50_us": "p50 us",
    "p99_us": "p99 us",
    "envoy_cpu_ms": "Envoy ms/1000",
    "postgres_cpu_ms": "PG ms/1000",
    "envoy_rss_mib": "RSS MiB",
}


class Results:
    def __init__(self) -> None:
        self.ratios: list[Ratio | ProgramRatio] = []
        self.groups: dict[str, dict[str, Measured]] = {}

    def add(self, group: str, found: dict[str, Measured]) -> None:
        self.groups[group] = found

    def json(self) -> dict:
        return {
            "ratios": [ratio.json() for ratio in self.ratios],
            "groups": {
                group: [measured.json() for measured in found.values()]
                for group, found in self.groups.items()
            },
        }


def show(results: Results) -> None:
    for group, found in results.groups.items():
        _show_group(group, list(found.values()))
    for ratio in results.ratios:
        line = ratio.json()
        mark = "ok  " if line["met"] else "MISS"
        print(f"{mark} {line['name']} = {line['value']} (bar {line['bar']}): {line['detail']}")


def _show_group(group: str, rows: list[Measured]) -> None:
    known = [name for name in COLUMNS if any(row.has(name) for row in rows)]
    others = sorted({name for row in rows for name in row.rounds} - {*COLUMNS, "requests", "max_us"})
    figures = [*known, *others]
    titles = "".join(f"{COLUMNS.get(name, name):>15}" for name in figures)
    print(f"{group:32}{titles}   spread of {COLUMNS.get(figures[0], figures[0])}")
    for row in rows:
        cells = "".join(f"{row.median(name):15.2f}" if row.has(name) else f"{'-':>15}" for name in figures)
        values = row.rounds.get(figures[0], [0])
        print(f"{row.name:32}{cells}   {min(values):.0f} to {max(values):.0f}")
    print()
