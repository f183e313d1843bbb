"""An unknown outcome is settled by its own result or by an operator, and never by time.

On both stores: the record's life ends within seconds, the sweeper and the reaper run all the while.
"""

import contextlib
import json
import sqlite3
import time

import psycopg
import pytest
from harness.site import Site, code_of, new_key, patience
from harness.wait import wait_for
from harness.wire import WireResponse

# The shortest that the config allows.
SHORT = {"lease": "2s", "ttl": "2s", "completion_timeout": "1s"}
# Past the life, and then several runs of both jobs.
LONG_PAST_ITS_LIFE = 6.0

either_store = pytest.mark.parametrize("kind", ["sqlite", "postgres"])
either_reaper = pytest.mark.parametrize("soft", [False, True], ids=["deletes", "keeps"])


@pytest.fixture
def make_site(workspace, request):
    def make(kind: str, routes: dict[str, dict], soft: bool = False, **store_options) -> Site:
        maintenance = {"sweep_interval": "1s", "reap_interval": "1s", "soft_expire": soft}
        store = None
        if kind == "postgres":
            conninfo = request.getfixturevalue("migrated")
            store = {"postgres": {"conninfo": conninfo, "timeout": patience(routes), **store_options}}
        return Site(
            workspace, routes, store=store, change=lambda config: config.filter(maintenance=maintenance)
        )

    return make


def sql(site: Site, statement: str, key: str) -> None:
    """On the record of the key; the table is `record` or `idempotency.record`."""
    bare = json.loads(key).encode()
    if "sqlite" in site.store:
        with contextlib.closing(sqlite3.connect(site.store["sqlite"]["path"], timeout=20)) as db, db:
            db.execute(f"UPDATE record SET {statement} WHERE key = ?", [bare])
    else:
        with psycopg.connect(site.store["postgres"]["conninfo"]) as db:
            db.execute(f"UPDATE idempotency.record SET {statement} WHERE key = %s", [bare])


def watch(site: Site, path: str, key: str, seconds: float) -> set[tuple[int, str]]:
    """What retries get all the while."""
    answers = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        response = site.send(path, key)
        answers.add((response.status, code_of(response)))
        tells_no_lie(response)
        time.sleep(0.1)
    return answers


def tells_no_lie(response: WireResponse) -> None:
    assert response.header("retry-after") is None, "nobody is finding out"
    assert response.header("idempotency-key-expires") is None, "no time ends it"
    detail = json.loads(response.body)["detail"]
    assert "may have been processed" in detail
    assert "This request was not forwarded" in detail
    assert "again later" not in detail


def done_within(site: Site, count: int) -> None:
    """The reaper has gone on with its work: this many other records are gone by it."""
    site.envoy.wait_for_stat("idempotency.reaped", count, deadline=20)


# --- Time


@either_store
@either_reaper
def test_time_never_frees_an_unknown_key(make_site, kind, soft):
    routes = {"run": SHORT, "gone": {**SHORT, "on_expired": "GONE"}}
    site = make_site(kind, routes, soft)
    for name in routes:
        path, key, other = f"/{name}/", new_key(), new_key()
        before = site.envoy.stat("idempotency.reaped")
        assert site.send(path, other).status == 200
        assert site.send(path, key, fault="close_after_read").status in (502, 503)
        assert site.state(key) == "unknown"
        attempt = site.record(key)["attempt"]
        assert watch(site, path, key, LONG_PAST_ITS_LIFE) == {(409, "idempotency_outcome_unknown")}
        # A record of the same age that was completed is gone by now, so the reaper was there.
        done_within(site, before + 1)
        assert site.state(other) == ("expired" if soft else None)
        assert (site.state(key), site.record(key)["attempt"]) == ("unknown", attempt)
        assert len(site.executions(key)) == 1


@either_store
@pytest.mark.parametrize("expired", ["RUN", "GONE"])
def test_time_never_frees_the_key_of_an_envoy_that_died(make_site, kind, expired):
    site = make_site(kind, {"pay": {**SHORT, "on_expired": expired}})
    key = new_key()
    with site.running("/pay/", key):
        site.envoy.kill9()
    time.sleep(3)  # Its life ends while nobody looks on.
    site.start()
    site.wait_for_state(key, "unknown", deadline=30)
    assert watch(site, "/pay/", key, LONG_PAST_ITS_LIFE) == {(409, "idempotency_outcome_unknown")}
    assert site.state(key) == "unknown"
    assert len(site.executions(key)) == 1


@either_store
def test_time_never_frees_a_key_whose_request_still_runs(make_site, kind):
    """It runs far longer than its record was to live."""
    site = make_site(kind, {"pay": SHORT})
    key = new_key()
    with site.running("/pay/", key, status=201) as let_go:
        end = time.monotonic() + LONG_PAST_ITS_LIFE
        while time.monotonic() < end:
            assert code_of(site.send("/pay/", key)) == "idempotency_in_progress"
            time.sleep(0.2)
        assert let_go().status == 201
    assert len(site.executions(key)) == 1


@either_store
@either_reaper
def test_after_its_retention_an_unknown_key_is_gone_and_does_not_run(make_site, kind, soft):
    site = make_site(kind, {"pay": {**SHORT, "unknown_retention": "3s"}}, soft)
    key = new_key()
    began = time.monotonic()
    assert site.send("/pay/", key, fault="close_after_read").status in (502, 503)
    answers = []

    def is_gone() -> bool:
        answers.append(site.send("/pay/", key))
        tells_no_lie(answers[-1])
        return answers[-1].status == 410

    wait_for(is_gone, lambda: f"410, but {answers[-1]}")
    assert time.monotonic() - began >= 2.5
    assert code_of(answers[-1]) == "idempotency_key_expired"
    assert {(answer.status, code_of(answer)) for answer in answers[:-1]} == {
        (409, "idempotency_outcome_unknown")
    }
    assert watch(site, "/pay/", key, LONG_PAST_ITS_LIFE) == {(410, "idempotency_key_expired")}
    assert site.state(key) == "unknown"
    assert len(site.executions(key)) == 1
    # Another request with the key is still told that it is another.
    assert code_of(site.send("/pay/", key, body=b'{"n": 2}')) == "idempotency_key_reused"


# --- A result that comes late


@either_store
@pytest.mark.parametrize("past_life", [False, True], ids=["within its life", "past its life"])
def test_a_result_that_comes_after_the_sweep_is_kept_and_replayed(make_site, kind, past_life):
    """The claim was taken for dead, since nobody had renewed it; its request still runs."""
    life = {"ttl": "4s" if past_life else "3600s"}
    site = make_site(kind, {"pay": {"lease": "2s", "completion_timeout": "1s", **life}})
    key = new_key()
    with site.running("/pay/", key, status=201) as let_go:
        # What a sweeper does that sees no heartbeat.
        sql(site, "state = 4, last_error = 'lease_expired'", key)
        assert code_of(site.send("/pay/", key)) == "idempotency_outcome_unknown"
        if past_life:
            assert watch(site, "/pay/", key, LONG_PAST_ITS_LIFE) == {(409, "idempotency_outcome_unknown")}
        answer = let_go()
    assert (answer.status, answer.header("idempotency-stored")) == (201, None)
    for _ in range(2):
        replay = site.send("/pay/", key)
        assert (replay.status, replay.body) == (201, answer.body)
        assert replay.header("idempotent-replayed") == "true"
    record = site.record(key)
    assert (record["state"], record["status"]) == ("completed", 201)
    assert not record["last_error"]
    assert len(site.executions(key)) == 1
    assert site.envoy.stat("idempotency.fenced") == 0
    if past_life:
        # Its life, begun anew, ends like any other.
        site.wait_for_state(key, None, deadline=30)


@either_store
def test_a_result_is_kept_that_cannot_be_stored_for_longer_than_a_lease(make_site, kind):
    """The store is away when the answer comes, and another Envoy's sweeper is the first to reach it again."""
    site = make_site(kind, {"pay": {"lease": "1s", "completion_timeout": "1s"}}, timeout="1s")
    key = new_key()
    bare = json.loads(key).encode()
    with site.running("/pay/", key, status=201) as let_go:
        if kind == "sqlite":
            db = sqlite3.connect(site.store["sqlite"]["path"], timeout=20, isolation_level=None)
            db.execute("BEGIN IMMEDIATE")
            db.execute("UPDATE record SET state = 4 WHERE key = ?", [bare])
        else:
            db = psycopg.connect(site.store["postgres"]["conninfo"])
            db.execute("LOCK TABLE idempotency.record IN ACCESS EXCLUSIVE MODE")
            db.execute("UPDATE idempotency.record SET state = 4 WHERE key = %s", [bare])
        with contextlib.closing(db):
            answer = let_go()
            assert (answer.status, answer.header("idempotency-stored")) == (201, "false")
            time.sleep(4)  # Several leases.
            db.execute("COMMIT")
    site.wait_for_state(key, "completed", deadline=30)
    replay = site.send("/pay/", key)
    assert (replay.status, replay.body) == (201, answer.body)
    assert replay.header("idempotent-replayed") == "true"
    assert len(site.executions(key)) == 1
