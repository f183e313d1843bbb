"""Requests of each kind at once, each with the answer that it must get."""

import contextlib
import subprocess
from collections.abc import Iterator

from harness.site import PREFIX, Site
from harness.wait import wait_for
from suite.load import http_command

# Seconds. A load whose test has failed ends with Envoy.
_LONGEST = 400
_REPLAYED = "idempotent-replayed"
_HTTP2 = {"http2": 1, "connections": 4, "streams": 4}
# Few, so that all stay in the replay cache; and so many that none does until its turn comes again.
_CACHED = {"path": "/pay/200", "prefix": "cached", "pool": 300}
_UNCACHED = {"path": "/pay/2000", "prefix": "uncached", "pool": 5000}
_HELD = 16
_WAITERS = 50


def kinds(number: int) -> dict[str, tuple[float, dict]]:
    """Name → share of all, options of the load. `number` tells the keys of one scene from another's."""
    plain = {"path": "/pay/200", "prefix": f"plain-{number}"}
    return {
        "new": (0.20, plain),
        "new, HTTP/2": (0.10, {**plain, "prefix": f"http2-{number}", **_HTTP2}),
        "new, large": (
            0.02,
            {"path": "/pay/65000", "body": 65000, "prefix": f"large-{number}", "connections": 4},
        ),
        "replayed from memory": (0.20, {**_CACHED, "header": _REPLAYED}),
        "replayed from the store": (0.10, {**_UNCACHED, "header": _REPLAYED}),
        "key of another request": (0.10, {**_CACHED, "body": 2000, "status": 422}),
        "still runs": (0.05, {**_held(number), "status": 409}),
        # HTTP/1.1 connections end with such answers, since the request's body is still to come.
        "malformed key": (0.08, {**plain, "prefix": 'a"b', "status": 400, **_HTTP2}),
        "no key": (0.05, {**plain, "keyed": 0, "status": 400, **_HTTP2}),
        "too large": (
            0.01,
            {"path": "/small/", "body": 2000, "prefix": f"b-{number}", "status": 413, **_HTTP2},
        ),
        "answer too long to store": (0.01, {"path": "/long/200000", "prefix": f"long-{number}"}),
        "no upstream": (0.03, {**plain, "path": "/dead/", "status": 503}),
        "not covered": (0.05, {**plain, "path": "/other/200"}),
    }


def _held(number: int) -> dict:
    return {"path": "/hold/", "prefix": f"held-{number}", "pool": _HELD}


def seed(site: Site) -> None:
    """The first requests with the keys that are replayed later."""
    for options in (_CACHED, _UNCACHED):
        _finish("seed", _start(site, options["pool"], options))


def send(site: Site, total: int, number: int) -> None:
    """At least `total` requests, all kinds at once."""
    _wait_for_one(site, number)
    with _held_back(site, number):
        loads = {
            name: _start(site, round(share * total), options)
            for name, (share, options) in kinds(number).items()
        }
        for name, load in loads.items():
            _finish(name, load)


def _wait_for_one(site: Site, number: int) -> None:
    """One request runs; all others with its key wait, and get its answer."""
    same = {"path": "/hold/wait/", "prefix": f"wait-{number}", "pool": 1, "connections": _WAITERS}
    before = site.envoy.stat(PREFIX + "waited")
    load = _start(site, _WAITERS, same)
    site.envoy.wait_for_stat(PREFIX + "waited", before + _WAITERS - 1, deadline=50)
    site.upstream.release()
    _finish("waiting", load)


@contextlib.contextmanager
def _held_back(site: Site, number: int) -> Iterator[None]:
    """Some requests run all the time."""
    load = _start(site, _HELD, _held(number))
    wait_for(lambda: site.upstream.held() == _HELD, "requests that are held", deadline=60)
    yield
    site.upstream.release()
    _finish("held", load)


def _start(site: Site, count: int, options: dict) -> subprocess.Popen:
    command = http_command(site.port, **{"connections": 16, "seconds": _LONGEST, "count": count, **options})
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _finish(name: str, load: subprocess.Popen) -> None:
    said, _ = load.communicate()
    assert load.returncode == 0, f"{name}: {said}"
