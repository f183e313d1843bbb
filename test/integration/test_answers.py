"""What a request gets: each row of the table of answers, in a real Envoy on SQLite.

Rows that need an Envoy of their own (quotas, leases, expiry, a store that is down) are in
test_answers_store.py, malformed keys in test_keys.py.
"""

import contextlib
import email.utils
import json
import time

import pytest
from harness.config import EnvoyConfig
from harness.process import Workspace
from harness.site import Site, code_of, new_key
from harness.wire import WireResponse

OTHER = b'{"other":1}'
TTL = 3600
STATES = ("in_progress", "completed", "failed_retryable", "unknown")
ROUTES = {
    "plain": {"ttl": f"{TTL}s"},
    "optional": {"enforcement": "OPTIONAL"},
    "stripe": {"flavor": "STRIPE"},
    "conflict": {"mismatch_status": 409},
    "reject": {"in_flight": {"action": "REJECT", "retry_after": "7s"}},
    "accepted": {"in_flight": {"action": "ACCEPTED", "retry_after": "8s"}},
    "wait": {"in_flight": {"action": "WAIT", "wait": "60s"}},
    "short-wait": {"in_flight": {"action": "WAIT", "wait": "0.3s", "retry_after": "9s"}},
    "secret": {"store_response": False},
    "small": {"max_request_bytes": 100, "max_response_bytes": 100},
    "young": {"max_request_age": {"header": "x-sent", "limit": "60s"}},
}


@pytest.fixture(scope="module", params=["cached", "uncached"])
def site(request, session_workspace: Workspace):
    """With a replay cache, and with none: every answer comes from the store."""
    cache = {"max_bytes": 0} if request.param == "uncached" else None

    def change(config: EnvoyConfig) -> None:
        config.filter(replay_cache=cache, maintenance={"enabled": False})
        config.route("/by-h2/", {"enforcement": "REQUIRED"}, cluster="h2")
        config.managers[0]["upgrade_configs"] = [{"upgrade_type": "websocket"}]

    made = Site(session_workspace, ROUTES, change=change)
    made.cached = int(cache is None)
    yield made
    made.close()


def is_problem(response: WireResponse, status: int, code: str, retry_after: int | None = None) -> None:
    assert (response.status, code_of(response)) == (status, code)
    body = json.loads(response.body)
    assert response.header("content-type") == (
        "application/problem+json" if status >= 400 else "application/json"
    )
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert response.header("retry-after") == (None if retry_after is None else str(retry_after))
    assert response.header("idempotent-replayed") is None


def has_expiry(response: WireResponse, after: float = TTL) -> None:
    expires = email.utils.parsedate_to_datetime(response.header("idempotency-key-expires")).timestamp()
    assert abs(expires - time.time() - after) < 60


def bring_to(site: Site, state: str, path: str, key: str):
    """A context in which the record of the key is in that state."""
    if state == "in_progress":
        return site.running(path, key)
    behaviour = {
        "completed": {"status": 201},
        "failed_retryable": {"status": 503},
        "unknown": {"fault": "close_after_read"},
    }[state]
    site.send(path, key, **behaviour)
    assert site.state(key) == state
    return contextlib.nullcontext()


# --- Before the store is asked


def test_no_key_on_a_required_route(site):
    with site.counts(key_missing=1):
        is_problem(site.send("/plain/nokey"), 400, "idempotency_key_missing")
    assert not site.upstream.log("received", path="/plain/nokey")


def test_no_key_on_an_optional_route(site):
    with site.counts():
        response = site.send("/optional/nokey")
    assert response.status == 200
    assert response.header("idempotency-key-expires") is None
    assert len(site.upstream.executions(path="/optional/nokey")) == 1


def test_a_key_on_an_optional_route_is_enforced(site):
    key = new_key()
    with site.counts(covered=2, claim__created=1, ended__completed=1, **replayed(site)):
        first, second = site.send("/optional/", key), site.send("/optional/", key)
    assert second.body == first.body


def replayed(site: Site) -> dict[str, int]:
    return {"claim__replay": 1, "replay__cached": site.cached}


def test_the_tenant_cannot_be_determined(site):
    key = new_key()
    with site.counts(tenant_missing=1):
        is_problem(site.send("/plain/", key, tenant=""), 403, "idempotency_tenant_missing")
    assert site.record(key) is None
    assert site.executions(key) == []


@pytest.mark.parametrize("age", [-3600, 3600, None], ids=["old", "of the future", "without a time"])
def test_the_request_is_too_old(site, age):
    key = new_key()
    headers = {} if age is None else {"x-sent": str(int(time.time()) + age)}
    with site.counts(request_too_old=1):
        is_problem(site.send("/young/", key, headers=headers), 400, "idempotency_request_too_old")
    assert site.executions(key) == []


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_the_request_is_young_enough(site, form):
    now = time.time()
    text = str(int(now)) if form == "seconds" else email.utils.formatdate(now, usegmt=True)
    assert site.send("/young/", new_key(), headers={"x-sent": text}).status == 200


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_the_body_is_announced_as_too_large(site, http2):
    key = new_key()
    with site.counts(request_too_large=1):
        response = site.send(
            "/small/", key, body=b"x" * 101, http2=http2, headers={"content-length": "101"} if http2 else {}
        )
    is_problem(response, 413, "idempotency_request_too_large")
    assert site.record(key) is None
    assert site.executions(key) == []


def test_the_body_turns_out_too_large(site):
    """HTTP/2 without a content-length: seen only when it has come."""
    key = new_key()
    with site.counts(covered=1, request_too_large=1, cut_short=0):
        response = site.send("/small/", key, body=b"x" * 101, http2=True)
    is_problem(response, 413, "idempotency_request_too_large")
    assert site.record(key) is None
    assert site.executions(key) == []


def test_the_largest_body_passes(site):
    key = new_key()
    assert site.send("/small/", key, body=b"x" * 100).status == 200
    assert site.executions(key)[0]["request_size"] == 100


def test_an_upgrade_is_refused(site):
    key = new_key()
    headers = {"connection": "upgrade", "upgrade": "websocket"}
    with site.counts(upgrade_refused=1):
        is_problem(site.send("/plain/", key, headers=headers), 400, "idempotency_upgrade_refused")
    assert site.executions(key) == []


# --- What the store knows


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_new(site, http2):
    key = new_key()
    with site.counts(covered=1, claim__created=1, ended__completed=1):
        response = site.send("/plain/", key, http2=http2)
    assert response.status == 200
    assert response.header("idempotent-replayed") is None
    assert response.header("idempotency-stored") is None
    has_expiry(response)
    (execution,) = site.executions(key)
    record = site.record(key)
    assert (record["state"], record["status"], record["tombstone"]) == ("completed", 200, None)
    assert execution["attempt"] == str(record["attempt"])
    assert execution["recovery_point"] is None


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_completed_same_fingerprint(site, http2):
    key = new_key()
    first = site.send("/plain/", key, status=201, headers={"x-any": "1"})
    with site.counts(covered=1, **replayed(site)):
        second = site.send("/plain/", key, http2=http2, status=418)
    assert (second.status, second.body) == (201, first.body)
    assert second.header("idempotent-replayed") == "true"
    assert second.header("idempotency-key-expires") == first.header("idempotency-key-expires")
    assert len(site.executions(key)) == 1


def test_completed_same_fingerprint_in_other_bytes(site):
    """Members in another order, white space, a number written otherwise: the same request."""
    key = new_key()
    first = site.send("/plain/", key, body=b'{"a": 10, "b": "x"}')
    second = site.send("/plain/", key, body=b'{ "b":"\\u0078","a":1e1 }')
    assert second.body == first.body
    assert second.header("idempotent-replayed") == "true"


MISMATCH = {
    "plain": (422, lambda body: body["code"]),
    "stripe": (400, lambda body: body["error"]["code"]),
    "conflict": (409, lambda body: body["code"]),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("route", MISMATCH)
def test_any_state_other_fingerprint(site, state, route):
    key, path = new_key(), f"/{route}/"
    with bring_to(site, state, path, key):
        before = site.record(key)
        looks = site.cached if state == "completed" else 0
        with site.counts(covered=1, claim__key_reused=1, key_reused=1, replay__cached=looks):
            response = site.send(path, key, body=OTHER)
        status, code = MISMATCH[route]
        assert (response.status, code(json.loads(response.body))) == (status, "idempotency_key_reused")
        assert response.header("retry-after") is None
        assert bool(response.header("idempotency-key-expires")) == (state != "unknown")
        assert site.record(key) == before
    assert len(site.executions(key)) == 1


def test_any_state_other_path_or_method_is_another_fingerprint(site):
    key = new_key()
    site.send("/plain/1", key)
    assert code_of(site.send("/plain/2", key)) == "idempotency_key_reused"
    assert code_of(site.send("/plain/1", key, method="PATCH")) == "idempotency_key_reused"
    assert len(site.executions(key)) == 1


@pytest.mark.parametrize(
    ("route", "status", "retry_after", "counter"),
    [("reject", 409, 7, "in_progress"), ("accepted", 202, 8, "accepted")],
)
def test_in_progress(site, route, status, retry_after, counter):
    key, path = new_key(), f"/{route}/"
    with site.running(path, key) as let_go:
        with site.counts(covered=1, claim__in_progress=1, **{counter: 1}):
            response = site.send(path, key)
        is_problem(response, status, "idempotency_in_progress", retry_after)
        has_expiry(response, 86400)
        first = let_go()
    assert first.status == 200
    assert site.send(path, key).body == first.body
    assert len(site.executions(key)) == 1


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_in_progress_wait_replays_on_time(site, http2):
    key = new_key()
    with (
        site.counts(
            covered=2,
            claim__created=1,
            claim__in_progress=1,
            waited=1,
            ended__completed=1,
            **replayed(site),
        ),
        site.running("/wait/", key) as let_go,
        site.connect(http2) as connection,
    ):
        with site.until_counted("waited"):
            stream = site.begin(connection, "/wait/", key)
        first = let_go()
        second = connection.read_response() if stream is None else connection.finish(stream)
    assert (second.status, second.body) == (200, first.body)
    assert second.header("idempotent-replayed") == "true"
    assert len(site.executions(key)) == 1


def test_in_progress_wait_ends_with_a_conflict(site):
    key = new_key()
    with site.running("/short-wait/", key) as let_go:
        with site.counts(covered=1, waited=1, claim__in_progress=2, in_progress=1):
            begin = time.monotonic()
            response = site.send("/short-wait/", key)
        assert time.monotonic() - begin >= 0.3
        is_problem(response, 409, "idempotency_in_progress", 9)
        assert let_go().status == 200
    assert len(site.executions(key)) == 1


def test_in_progress_wait_runs_what_failed(site):
    """The one waited for fails in a way that lets the next run: the waiter is the next."""
    key = new_key()
    with site.running("/wait/", key, status=503) as let_go, site.connect() as connection:
        with site.until_counted("waited"):
            site.begin(connection, "/wait/", key)
        assert let_go().status == 503
        assert connection.read_response().status == 200
    assert len(site.executions(key)) == 2
    assert site.state(key) == "completed"


def test_in_progress_wait_client_may_leave(site):
    key = new_key()
    with site.running("/wait/", key) as let_go:
        counts = site.counts(covered=1, claim__in_progress=1, waited=1, cut_short=1)
        with counts, site.connect() as connection, site.until_counted("waited"):
            site.begin(connection, "/wait/", key)
        assert let_go().status == 200
    assert len(site.executions(key)) == 1
    assert site.state(key) == "completed"


def test_failed_retryable_runs_again(site):
    key = new_key()
    first = site.send("/plain/", key, status=503)
    assert site.state(key) == "failed_retryable"
    with site.counts(covered=1, claim__failed_retry=1, ended__completed=1):
        second = site.send("/plain/", key, status=201)
    assert (first.status, second.status) == (503, 201)
    assert second.header("idempotent-replayed") is None
    attempts = [execution["attempt"] for execution in site.executions(key)]
    assert len(set(attempts)) == 2
    assert site.send("/plain/", key).status == 201


def test_unknown(site):
    key = new_key()
    site.send("/plain/", key, fault="close_after_read")
    with site.counts(covered=1, claim__unknown=1, outcome_unknown=1):
        response = site.send("/plain/", key)
    is_problem(response, 409, "idempotency_outcome_unknown")
    assert response.header("idempotency-key-expires") is None
    assert len(site.executions(key)) == 1


def test_completed_but_not_stored_because_too_large(site):
    key = new_key()
    first = site.send("/small/", key, status=201, body_size=101)
    assert (first.status, len(first.body)) == (201, 101)
    not_stored(site, "/small/", key, "too_large")


def test_completed_but_not_stored_because_secret(site):
    key = new_key()
    assert site.send("/secret/", key, status=201).status == 201
    not_stored(site, "/secret/", key, "secret")


def not_stored(site: Site, path: str, key: str, why: str) -> None:
    site.wait_for_state(key, "completed")
    record = site.record(key)
    assert (record["status"], record["tombstone"]) == (201, why)
    with site.counts(covered=1, response_unavailable=1):
        response = site.send(path, key)
    is_problem(response, 409, "idempotency_response_unavailable")
    assert json.loads(response.body)["original_status"] == 201
    assert "201" in json.loads(response.body)["detail"]
    assert len(site.executions(key)) == 1


# --- gRPC

GRPC = {"content-type": "application/grpc"}


def test_grpc_answers_carry_the_fitting_status(site):
    def answer(path: str, key: str | None = None, **options) -> tuple[int, str, str]:
        response = site.send(path, key, http2=True, headers=GRPC, **options)
        message = response.header("grpc-message") or ""
        return response.status, response.header("grpc-status"), message.partition(":")[0]

    def keyed(state: str, path: str = "/plain/", **options) -> tuple[int, str, str]:
        key = new_key()
        with bring_to_grpc(site, state, path, key):
            return answer(path, key, **options)

    assert answer("/plain/") == (200, "3", "idempotency_key_missing")
    assert answer("/plain/", '"short"') == (200, "3", "idempotency_key_invalid")
    assert answer("/plain/", new_key(), tenant="") == (200, "7", "idempotency_tenant_missing")
    assert answer("/small/", new_key(), body=b"x" * 101) == (200, "8", "idempotency_request_too_large")
    assert answer("/young/", new_key()) == (200, "3", "idempotency_request_too_old")
    assert keyed("completed", body=OTHER) == (200, "6", "idempotency_key_reused")
    assert keyed("in_progress") == (200, "10", "idempotency_in_progress")
    assert keyed("unknown") == (200, "9", "idempotency_outcome_unknown")
    assert keyed("completed", "/secret/") == (200, "6", "idempotency_response_unavailable")


def bring_to_grpc(site: Site, state: str, path: str, key: str):
    if state == "in_progress":
        return site.running(path, key, http2=True, headers=GRPC)
    behaviour = {"fault": "close_after_read"} if state == "unknown" else {}
    site.send(path, key, http2=True, headers=GRPC, **behaviour)
    assert site.state(key) == state
    return contextlib.nullcontext()


@pytest.mark.parametrize(
    ("grpc_status", "state"),
    [("0", "completed"), ("6", "completed"), ("14", "failed_retryable"), ("16", None)],
    ids=["OK", "ALREADY_EXISTS", "UNAVAILABLE", "UNAUTHENTICATED"],
)
def test_grpc_outcomes_are_judged_by_their_status(site, grpc_status, state):
    """The HTTP status is 200 in each of them; the trailers tell."""
    key = new_key()
    steps = {"headers": [["content-type", "application/grpc"]], "trailers": [["grpc-status", grpc_status]]}
    site.upstream.script(steps, key=key)
    response = site.send("/by-h2/", key, http2=True, headers={**GRPC, "te": "trailers"})
    assert response.trailers == [("grpc-status", grpc_status)]
    assert site.state(key) == state
