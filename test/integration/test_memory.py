"""Envoy holds no more memory after many requests, and after many clients that left, than before."""

import pytest
from endurance import leaving, memory, requests
from endurance import site as endurance_site
from harness.process import Workspace
from harness.site import PREFIX, Site

REQUESTS = 100_000
LEAVING = 1_000
# By how much a scene may make the process larger, and how many bytes it may leave allocated: five for each
# request, or half a kilobyte for each client that left.
MOST_RESIDENT = 1.05
MOST_ALLOCATED = 5 * REQUESTS
# The allocator keeps more and more of what was freed, up to a bound of its own, and a buffer may double. A
# leak is there every time.
SCENES = 3


@pytest.fixture(params=["postgres", "sqlite"])
def site(request, workspace: Workspace):
    if request.param == "postgres":
        store = {"postgres": {"conninfo": request.getfixturevalue("migrated")}}
    else:
        store = {"sqlite": {"path": str(workspace.new_folder("store") / "idempotency.db")}}
    made = endurance_site.start(workspace, store)
    yield made
    made.close()


def scene(site: Site, number: int) -> memory.Memory:
    before = received(site)
    requests.send(site, REQUESTS, number)
    assert received(site) - before >= REQUESTS
    assert leaving.leave(site) >= LEAVING
    return memory.measure(site)


def received(site: Site) -> int:
    return site.envoy.stat("http.ingress.downstream_rq_total")


def grown(before: memory.Memory, after: memory.Memory) -> bool:
    return (
        after.resident > before.resident * MOST_RESIDENT
        or after.allocated > before.allocated + MOST_ALLOCATED
    )


@pytest.mark.timeout(900)
def test_requests_and_clients_that_leave_cost_no_memory(site, record_property):
    requests.seed(site)
    # All that grows to a bound is full after the first scene: the replay cache, buffers, most of the
    # allocator's own stock.
    readings = [scene(site, 0)]
    assert site.envoy.stat(PREFIX + "cache.bytes") > 0.9 * endurance_site.CACHE_BYTES
    while len(readings) <= SCENES:
        readings.append(scene(site, len(readings)))
        if not grown(*readings[-2:]):
            break
    for number, reading in enumerate(readings):
        print(f"after scene {number}: {reading}")
        record_property(f"after scene {number}", str(reading))
    assert not grown(*readings[-2:])
