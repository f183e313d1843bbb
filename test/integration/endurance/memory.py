"""What Envoy holds when nothing is under way."""

import dataclasses
import json
import re
from pathlib import Path

from harness.site import PREFIX, Site
from harness.wait import wait_for

_ACTIVE = (
    PREFIX + "in_flight",
    PREFIX + "settling",
    PREFIX + "waiting",
    "http.ingress.downstream_cx_active",
    "cluster.upstream.upstream_cx_active",
    "cluster.dead.upstream_cx_active",
)


@dataclasses.dataclass(frozen=True)
class Memory:
    resident: int  # Bytes of the process, as the system counts them.
    allocated: int  # Bytes that were allocated and not freed, as Envoy's allocator counts them.

    def __str__(self) -> str:
        return f"{self.resident / 1e6:.1f} MB resident, {self.allocated / 1e6:.2f} MB allocated"


def measure(site: Site) -> Memory:
    wait_for(lambda: not _active(site), lambda: f"all is quiet, but {_active(site)}", deadline=60)
    readings = [_read(site)]

    def steady() -> bool:
        readings.append(_read(site))
        return readings[-1].resident <= readings[-2].resident

    wait_for(steady, "memory is steady", deadline=60, interval=0.5)
    return readings[-1]


def _active(site: Site) -> dict[str, int]:
    stats = site.envoy.stats(f"^({'|'.join(map(re.escape, _ACTIVE))})$")
    return {name: value for name, value in stats.items() if value}


def _read(site: Site) -> Memory:
    status = Path(f"/proc/{site.envoy.process.pid}/status").read_text()
    kilobytes = int(re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)[1])
    return Memory(kilobytes * 1024, int(json.loads(site.envoy.admin("/memory"))["allocated"]))
