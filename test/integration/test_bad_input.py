"""Ten thousand malformed requests against a real Envoy."""

import asyncio
import itertools
import os
import random
import re
from collections import Counter

import pytest
from battery import bodies, fields, framing, http2, keys
from battery.case import Case, Family, ran, replay, request
from battery.client import send_all
from harness.config import EnvoyConfig
from harness.paths import ENVOY_VERSIONS
from harness.process import Workspace
from harness.site import Site

SEED = int(os.environ.get("BATTERY_SEED", "20240607"))
FAMILIES: dict[str, Family] = {
    "named keys": keys.named,
    "keys on many lines": keys.many_lines,
    "random keys": keys.random_values,
    "content-length": framing.content_lengths,
    "transfer-encoding": framing.transfer_encodings,
    "content-length and transfer-encoding": framing.length_and_encoding,
    "disguised transfer-encoding": framing.disguised_encodings,
    "chunks": framing.chunks,
    "line ends": framing.line_ends,
    "cut off": framing.cut_off,
    "request lines": fields.request_lines,
    "hosts": fields.hosts,
    "garbage": fields.garbage,
    "names of fields": fields.names,
    "values of fields": fields.values,
    "connection options": fields.connection_options,
    "tenants": fields.tenants,
    "sizes": fields.sizes,
    "broken JSON": bodies.broken_json,
    "odd types": bodies.odd_types,
    "pseudo-headers": http2.pseudo_headers,
    "names of fields, HTTP/2": http2.field_names,
    "values of fields, HTTP/2": http2.field_values,
    "keys and tenants, HTTP/2": http2.keys_and_tenants,
    "lengths, HTTP/2": http2.lengths,
    "frames": http2.frames,
    "header blocks": http2.header_blocks,
    "bodies, HTTP/2": http2.bodies,
    "junk for frames": http2.prefaces,
}

_good_numbers = itertools.count(1)


def generate(name: str) -> list[Case]:
    place = list(FAMILIES).index(name)
    numbers = itertools.count(100_000 * (place + 1))
    return list(FAMILIES[name](random.Random(f"{SEED} {name}"), numbers))


@pytest.fixture(scope="module")
def site(module_workspace: Workspace):
    made = _site(module_workspace)
    yield made
    made.close()


def _site(workspace: Workspace, **options) -> Site:
    routes = {
        "strict": {},
        "raw": {"key_syntax": "RAW"},
        "either": {"key_syntax": "EITHER"},
        "uuid": {"uuid_only": True},
        "small": {"max_request_bytes": 1000},
        "optional": {"enforcement": "OPTIONAL"},
        "hidden": {},
    }
    return Site(workspace, routes, change=_close_soon, **options)


def _close_soon(config: EnvoyConfig) -> None:
    """Envoy waits before it closes a connection in which it has found an error, a second by default."""
    for manager in config.managers:
        manager["delayed_close_timeout"] = "0.2s"


def test_there_are_ten_thousand():
    """That must be refused, by Envoy or the filter, or that their client does not finish."""
    assert sum(case.runs == 0 for family in FAMILIES for case in generate(family)) >= 10_000


@pytest.mark.parametrize("family", FAMILIES)
def test_each_gets_its_answer_and_none_runs_that_must_not(site, family):
    _run(site, generate(family))


@pytest.mark.parametrize("version", ENVOY_VERSIONS[:-1])
def test_older_envoys_give_the_same_answers(workspace, version):
    """A sample of all: every tenth."""
    site = _site(workspace, version=version)
    _run(site, [case for family in FAMILIES for case in generate(family)[::10]])
    site.close()


def _run(site: Site, cases: list[Case]) -> None:
    print(f"BATTERY_SEED={SEED}")
    records = sum(site.states().values())
    with site.counts(**_moved(cases)):
        wrong = asyncio.run(send_all(site.port, cases))
        assert wrong == []
    site.wait_until_idle()
    claimed = sum(dict(want.counts).get("claim.created", 0) for case in cases for want in case.wants)
    # Nothing is claimed that did not run, and nothing is left unfinished.
    states = site.states()
    assert sum(states.values()) == states.get("completed", 0) == records + claimed
    good = _serve_good_one(site)
    assert _wrong_runs(site.upstream.executions(), [*cases, good]) == []


def _moved(cases: list[Case]) -> dict[str, int]:
    """By how much each counter must move; all others must stay."""
    total = sum((case.counts for case in cases), Counter())
    return {name.replace(".", "__"): count for name, count in total.items()}


def _wrong_runs(executions: list[dict], cases: list[Case]) -> list[str]:
    numbers = [re.fullmatch(r"/\w+/(\d+)", execution["path"]) for execution in executions]
    assert all(numbers), "every execution belongs to a case"
    runs = Counter(int(number[1]) for number in numbers if not number[0].startswith("/end/"))
    return [
        f"{case.name}: ran {runs[case.number]} times instead of {case.runs}"
        for case in cases
        if runs[case.number] != case.runs
    ]


def _serve_good_one(site: Site) -> Case:
    """Envoy still does what it is there for."""
    number = next(_good_numbers)
    good = Case(number, "good", request(number) * 2, (ran(), replay()))
    assert asyncio.run(send_all(site.port, [good])) == []
    return good
