"""A service settles its requests in its own PostgreSQL transactions: what it commits there is the truth."""

import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from harness.config import EnvoyConfig
from harness.envoy import validate
from harness.paths import ENVOY_VERSIONS
from harness.process import Workspace
from harness.records import Records
from harness.site import Site, code_of, new_key
from harness.wait import wait_for
from harness.wire import Http1Connection, WireResponse

# What the service commits: complete() in the transaction of its effect.
JSON = {
    "status": 201,
    "headers": {"content-type": "application/json", "x-a": ["1", "2"]},
    "body": '{"id": 7}',
}
STORED = {
    "json": JSON,
    "error": {"status": 422, "headers": {"x-why": "no money"}, "body": "declined"},
    "no body": {"status": 204, "headers": {"x-a": "1"}},
    "empty body": {"status": 200, "headers": {"x-a": "1"}},
    "large": {"status": 200, "headers": {}, "body": "0123456789abcdef", "times": 200_000},
    "trailers": {"status": 200, "headers": {"x-a": "1"}, "body": "sum", "trailers": {"x-sum": "42"}},
    "only trailers": {"status": 200, "headers": {"x-a": "1"}, "trailers": {"x-sum": "42"}},
    "grpc": {
        "status": 200,
        "headers": {"content-type": "application/grpc"},
        "body": "message",
        "trailers": {"grpc-status": "0"},
    },
}


def text(body: str) -> str:
    """As the upstream is told a body: `body` is the request's."""
    return body.encode().hex()


# What arrives over HTTP after that commit.
SENT = {
    "same status": {"status": 201, "body_hex": text("something else"), "headers_sent": [["x-b", "1"]]},
    "server error": {"status": 500, "body_hex": text("broken after the commit")},
    "no such thing": {"status": 404, "body_hex": text("")},
    "no body": {"status": 204},
    "chunks": {"body_size": 100_000, "framing": "chunked"},
    "trailers": {"body_hex": text("x"), "trailers": [["x-other", "1"], ["x-sum", "0"]], "framing": "chunked"},
    "unauthorized": {"status": 401, "body_hex": text("released otherwise")},
    "closed": {"fault": "close_after_read"},
    "reset": {"fault": "reset_after_read"},
    "timeout": {"delay_ms": 3000},
}
OWN = {"own_transaction": True}
PLAIN = {"enforcement": "REQUIRED", **OWN}
RETRY = {**PLAIN, "on_lease_expired": "RETRY"}
# What differs between a first answer and a replay of it.
_DIFFERENT = {"date", "server", "x-envoy-upstream-service-time", "idempotent-replayed", "transfer-encoding"}


def change(config: EnvoyConfig, workspace: Workspace) -> None:
    config.filter(maintenance={"sweep_interval": "1s", "reap_interval": "1s"})
    for prefix, more in {"": {}, "d-": {"detached": {}}}.items():
        for name, route in {"up": {}, "h2": {"cluster": "h2"}}.items():
            config.route(f"/{prefix}{name}/", {**PLAIN, **more}, timeout="1s", **route)
            config.route(f"/{prefix}{name}-retry/", {**RETRY, **more}, timeout="1s", **route)
    config.route("/patient/", PLAIN, timeout="60s")
    config.route("/small/", {**PLAIN, "max_response_bytes": 10}, timeout="60s")
    config.route("/brief/", {**PLAIN, "completion_timeout": "0.2s"}, timeout="60s")
    config.route("/other/", {"enforcement": "REQUIRED"})
    wait = {"action": "WAIT", "wait": "20s"}
    config.route("/wait/", {**PLAIN, "in_flight": wait}, timeout="60s")
    config.route("/lease-retry/", {**RETRY, "lease": "3s", "completion_timeout": "2s"}, timeout="60s")
    config.private_listener(workspace.new_folder("runs") / "runs.sock")


def make_site(workspace: Workspace, records: Records, **options) -> Site:
    with psycopg.connect(records.conninfo()) as db:
        db.execute("CREATE TABLE payment (key text, attempt bigint, step text)")
    store = records.store(timeout="3s")
    return Site(workspace, store=store, change=lambda config: change(config, workspace), **options)


@pytest.fixture(scope="module", params=ENVOY_VERSIONS)
def every_site(request, module_workspace: Workspace, shared_postgres):
    made = make_site(
        module_workspace, Records(shared_postgres, shared_postgres.create_database()), version=request.param
    )
    yield made
    made.close()


@pytest.fixture
def site(workspace: Workspace, records: Records):
    made = make_site(workspace, records)
    yield made
    made.close(may_complain=True)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''").replace("%", "%%") + "'"


def complete(stored: dict = JSON) -> str:
    headers, trailers = (quoted(json.dumps(stored.get(name, {}))) for name in ("headers", "trailers"))
    # A statement is sent in a header of the request, so it must be short.
    body = f"convert_to(repeat({quoted(stored.get('body', ''))}, {stored.get('times', 1)}), 'UTF8')"
    return f"SELECT idempotency.complete(%(attempt)s, {stored['status']}, {headers}, {body}, {trailers})"


BEGIN = "SELECT idempotency.begin_work(%(attempt)s)"
EFFECT = "INSERT INTO payment VALUES (%(key)s, %(attempt)s, 'charged')"


def database(site: Site) -> str:
    return site.store["postgres"]["conninfo"]


def service(site: Site, *transactions: list[str], **behaviour) -> dict:
    """Options of a request whose service runs these transactions, by default one that completes with JSON."""
    return {
        "transactions": transactions or ([BEGIN, EFFECT, complete()],),
        "database": database(site),
        **behaviour,
    }


def effects(site: Site, key: str) -> int:
    with psycopg.connect(database(site)) as db:
        return db.execute("SELECT count(*) FROM payment WHERE key = %s", (key,)).fetchone()[0]


def seen(response: WireResponse) -> tuple:
    headers = [pair for pair in response.headers if pair[0] not in _DIFFERENT]
    return response.status, sorted(headers), response.body, response.trailers, response.complete


def is_stored(response: WireResponse, stored: dict, trailers: bool) -> None:
    assert response.complete
    assert response.status == stored["status"]
    assert response.body == stored.get("body", "").encode() * stored.get("times", 1)
    for name, value in stored["headers"].items():
        assert response.all(name) == (value if isinstance(value, list) else [value])
    assert response.trailers == (list(stored.get("trailers", {}).items()) if trailers else [])


def pairs(path: str) -> Iterator[tuple[str, str]]:
    """All for one path; for the others each at least once, and all whose trailers may get in the way."""
    for (number, stored), (other, sent) in itertools.product(enumerate(STORED), enumerate(SENT)):
        if sent == "timeout":
            if stored in ("json", "grpc"):
                yield stored, sent
        elif path == "/up/" or sent == "trailers" or number == other % len(STORED):
            yield stored, sent


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("path", ["/up/", "/h2/", "/d-up/", "/d-h2/"])
def test_the_client_gets_what_the_service_has_committed(every_site, path, http2):
    site = every_site
    for stored_as, sent_as in pairs(path):
        stored, sent = STORED[stored_as], SENT[sent_as]
        if "h2" in path and "framing" in sent:
            sent = {name: value for name, value in sent.items() if name != "framing"}
        key = new_key()
        what = f"{stored_as} stored, {sent_as} sent"
        first = site.send(path, key, http2=http2, **service(site, [BEGIN, EFFECT, complete(stored)]), **sent)
        retry = site.send(path, key, http2=http2)
        try:
            is_stored(first, stored, http2)
            assert first.header("idempotent-replayed") is None
            assert first.header("idempotency-stored") is None
            assert first.header("idempotency-key-expires")
            assert retry.header("idempotent-replayed") == "true"
            assert seen(first) == seen(retry)
            assert len(site.executions(key)) == effects(site, key) == 1
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}\nfirst {first}\nretry {retry}") from None


@pytest.mark.parametrize("path", ["/d-up/", "/d-h2/"])
def test_a_response_that_is_cut_short_is_replaced_for_a_detached_run(every_site, path):
    """An attached client gets Envoy's error: Envoy gives the filter no chance. Its retry is replayed."""
    for fault in ("close_mid_body", "reset_mid_body"):
        key = new_key()
        first = every_site.send(path, key, **service(every_site), fault=fault, body_size=1000)
        is_stored(first, JSON, False)
        assert seen(first) == seen(every_site.send(path, key))
        key = new_key()
        attached = every_site.send(
            path.replace("d-", ""), key, **service(every_site), fault=fault, body_size=1000
        )
        assert attached.status in (502, 503)
        is_stored(every_site.send(path.replace("d-", ""), key), JSON, False)
        assert len(every_site.executions(key)) == 1


def test_a_response_whose_headers_are_gone_stays_and_the_retry_gets_what_is_stored(site):
    key = new_key()
    large = {"body_size": 5_000_000, "headers_sent": [["x-streamed", "yes"]]}
    with site.counts(covered=1, claim__created=1, ended__by_upstream=1):
        first = site.send("/patient/", key, **service(site), **large)
    assert (first.status, len(first.body), first.header("x-streamed")) == (200, 5_000_000, "yes")
    is_stored(site.send("/patient/", key), JSON, False)


def test_it_is_counted_and_named_in_the_access_log(site):
    key = new_key()
    with site.counts(covered=1, claim__created=1, ended__by_upstream=1):
        site.send("/patient/", key, **service(site), status=500)
    # Without a completion of the service, the response over HTTP counts, as ever.
    with site.counts(covered=1, claim__created=1, ended__completed=1):
        site.send("/patient/", new_key(), **service(site, [BEGIN, EFFECT]))


def test_a_result_may_be_larger_than_the_policy_stores_over_http(site):
    key = new_key()
    stored = {"status": 200, "headers": {}, "body": "far more than ten bytes"}
    first = site.send("/small/", key, **service(site, [BEGIN, complete(stored)]), body_hex=text("short"))
    is_stored(first, stored, False)
    is_stored(site.send("/small/", key), stored, False)


def test_another_envoy_replays_what_was_committed_before_the_first_one_was_killed(site, envoy):
    key = new_key()
    with site.connect() as connection:
        site.begin(connection, "/patient/", key, **service(site, hold="for ever"))
        site.upstream.wait_until_held("for ever")
        site.envoy.kill9()
    assert site.state(key) == "completed"
    site.start()
    is_stored(site.send("/patient/", key), JSON, False)
    assert len(site.executions(key)) == effects(site, key) == 1


def test_a_zombie_cannot_commit_after_another_attempt_has_taken_over(site):
    """Its Envoy is killed, its lease runs out, the retry runs; only then does it call the database."""
    key = new_key()
    with site.connect() as connection:
        site.begin(connection, "/lease-retry/", key, hold="zombie")
        site.upstream.wait_until_held("zombie")
        (first,) = site.executions(key)
        site.envoy.kill9()
    site.start()
    retry = wait_for(
        lambda: _unless(site.send("/lease-retry/", key, **service(site)), 409), "the retry runs", 30
    )
    is_stored(retry, JSON, False)
    assert len(site.executions(key)) == 2
    with psycopg.connect(database(site)) as db, pytest.raises(psycopg.Error) as refused:
        db.execute("SELECT idempotency.begin_work(%s)", (int(first["attempt"]),))
    assert refused.value.sqlstate == "ID001"
    assert "does not hold" in str(refused.value)
    assert effects(site, key) == 1


def test_a_rerun_gets_the_recovery_point_that_was_committed(site):
    key = new_key()
    checkpoint = "SELECT idempotency.checkpoint(%(attempt)s, 'charged')"
    first = site.send("/up-retry/", key, **service(site, [BEGIN, EFFECT, checkpoint]), delay_ms=3000)
    assert first.status == 504
    again = site.send("/up-retry/", key, **service(site, [BEGIN, complete()]))
    is_stored(again, JSON, False)
    assert [run["recovery_point"] for run in site.executions(key)] == [None, "charged"]
    assert effects(site, key) == 1


@pytest.mark.parametrize("path", ["/up-retry/", "/d-up-retry/", "/h2-retry/"])
def test_with_retry_an_attempt_that_ended_without_a_commit_runs_again(site, path):
    """Its transaction cannot commit any more, so there is one effect."""
    for behaviour in ({"delay_ms": 3000}, {"fault": "close_after_read"}, {"status": 502}):
        key = new_key()
        first = site.send(path, key, **service(site, ["SELECT 1"]), **behaviour)
        assert first.status >= 500
        site.wait_for_state(key, "failed_retryable")
        attempt = int(site.executions(key)[0]["attempt"])
        with psycopg.connect(database(site)) as db, pytest.raises(psycopg.Error) as refused:
            db.execute("SELECT idempotency.begin_work(%s)", (attempt,))
        assert refused.value.sqlstate == "ID001"
        is_stored(site.send(path, key, **service(site)), JSON, False)
        assert effects(site, key) == 1


def test_a_transaction_that_is_open_at_the_timeout_decides_when_it_ends(site):
    """The record is locked meanwhile: nobody gives it away, and the retry waits for the commit."""
    for path, commits in itertools.product(("/up-retry/", "/up/"), (True, False)):
        key, gate = new_key(), f"commit {path} {commits}"
        last = complete() if commits else "SELECT 1 / 0"
        transactions = (
            [["SELECT 1"], [BEGIN, EFFECT, last]]
            if commits
            else [[BEGIN, EFFECT, "SELECT pg_sleep(2.5)", last]]
        )
        options = {"hold_commit": gate} if commits else {}
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(site.send, path, key, **service(site, *transactions), **options)
            if commits:
                site.upstream.wait_until_held(gate)
                time.sleep(2)
                assert site.state(key) == "in_progress"
                assert code_of(site.send(path, key)) == "idempotency_in_progress"
                site.upstream.release(gate)
            answer = first.result()
        if commits:
            # completion_timeout was longer than the transaction, so the 504 of the time-out is replaced.
            is_stored(answer, JSON, False)
            assert effects(site, key) == 1
        else:
            assert answer.status == 504
            site.wait_for_state(key, "failed_retryable" if "retry" in path else "unknown")
            assert effects(site, key) == 0


def test_open_transactions_do_not_keep_the_store_busy(site):
    """As many are open as requests have timed out, just when the database is slow."""
    keys = [new_key() for _ in range(20)]
    with ThreadPoolExecutor(len(keys)) as pool, psycopg.connect(database(site)) as db:
        running = [pool.submit(site.send, "/lease-retry/", key, hold=f"gate {key}") for key in keys]
        for key in keys:
            site.upstream.wait_until_held(f"gate {key}")
            db.execute(BEGIN, {"attempt": int(site.executions(key)[0]["attempt"])})
            site.upstream.release(f"gate {key}")
        wait_for(lambda: site.envoy.stat("idempotency.settling") == len(keys), "all wait for the lock")
        before, since = site.envoy.stat("idempotency.store.operations"), time.monotonic()
        time.sleep(2)
        seconds = time.monotonic() - since
        operations = site.envoy.stat("idempotency.store.operations") - before
        db.rollback()
        assert {request.result().status for request in running} == {200}
    # At most ten tries in a second: a look, a write, and a look at why nothing was written.
    assert 0 < operations / seconds / len(keys) < 40


def test_without_retry_unknown_stays_until_the_service_completes_it(site):
    key = new_key()
    first = site.send("/up/", key, **service(site, ["SELECT 1"]), delay_ms=3000)
    assert first.status == 504
    site.wait_for_state(key, "unknown")
    assert code_of(site.send("/up/", key)) == "idempotency_outcome_unknown"
    attempt = int(site.executions(key)[0]["attempt"])
    with psycopg.connect(database(site)) as db:
        db.execute(f"{BEGIN}", {"attempt": attempt})
        db.execute(complete(), {"attempt": attempt})
    is_stored(site.send("/up/", key), JSON, False)
    assert len(site.executions(key)) == 1


def test_with_retry_a_declared_unknown_stays_unknown(site):
    for value in ("unknown", "no such word"):
        key = new_key()
        site.send(
            "/up-retry/", key, **service(site, ["SELECT 1"]), headers_sent=[["idempotency-outcome", value]]
        )
        assert site.state(key) == "unknown"
        assert code_of(site.send("/up-retry/", key)) == "idempotency_outcome_unknown"


def test_requests_that_wait_get_the_services_result_on_every_envoy(site, envoy):
    other = Site.__new__(Site)
    other.__dict__.update(site.__dict__)
    other.envoy = envoy(site.config)
    other.port = other.envoy.port
    key = new_key()
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(
            site.send, "/wait/", key, **service(site, hold="answer"), status=500, body_hex=text("not this")
        )
        site.upstream.wait_until_held("answer")
        waiting = [pool.submit(at.send, "/wait/", key) for at in (site, site, other, other)]
        for request in waiting:
            # They find the commit by polling: it is durable already.
            is_stored(request.result(), JSON, False)
        site.upstream.release("answer")
        is_stored(first.result(), JSON, False)
    assert len(site.executions(key)) == 1


@pytest.mark.parametrize("fault", [None, "close_after_read"])
def test_a_detached_run_whose_client_has_left_ends_with_the_commit(site, fault):
    key = new_key()
    with site.connect() as connection:
        site.begin(connection, "/d-up/", key, **service(site, hold="alone", fault=fault))
        site.upstream.wait_until_held("alone")
    site.wait_for_clients(0)
    with site.until_counted("ended.by_upstream"):
        site.upstream.release("alone")
    is_stored(site.send("/d-up/", key), JSON, False)
    assert len(site.executions(key)) == 1


def test_while_the_store_does_not_answer_the_client_gets_the_true_answer_in_time(site):
    key = new_key()
    with site.running("/brief/", key, **service(site)) as let_go, site.store_held() as release:
        answer = let_go()
        assert (answer.status, answer.header("idempotency-stored")) == (200, "false")
        assert b'"id": 7' not in answer.body
        with site.until_counted("ended.by_upstream"):
            release()
    is_stored(site.send("/brief/", key), JSON, False)


def test_a_route_without_own_transaction_is_refused_by_the_functions(site):
    key = new_key()
    answer = site.send("/other/", key, **service(site))
    assert (answer.status, answer.body) == (500, b"ID003\n")
    (refused,) = site.upstream.log("refused", key=key)
    assert "own_transaction" in refused["error"]


def test_a_result_without_a_response_leaves_the_client_the_true_answer(workspace, records):
    """Such as an operator writes: nothing of it can be sent."""
    site = make_site(workspace, records)
    key = new_key()
    with site.running("/patient/", key) as let_go, psycopg.connect(database(site)) as db:
        attempt = int(site.executions(key)[0]["attempt"])
        db.execute(
            "UPDATE idempotency.record SET state = 2, status = 200, tombstone = 1 WHERE attempt = %s",
            (attempt,),
        )
        db.commit()
        answer = let_go()
    assert (answer.status, answer.header("idempotency-stored")) == (200, "false")
    assert code_of(site.send("/patient/", key)) == "idempotency_response_unavailable"
    assert site.envoy.stat("idempotency.fenced") == 1


def test_sqlite_is_refused_with_the_reason(config, folder, envoy):
    config.filter(policy={"own_transaction": True})
    verdict = validate(config, folder)
    assert verdict.returncode != 0
    assert "policy.own_transaction: requires store.postgres" in verdict.stdout


def test_sqlite_is_refused_for_a_route_that_alone_asks_for_it(config, envoy):
    config.route("/own/", {**PLAIN, "operation": "charge"})
    server = envoy(config)
    with Http1Connection(server.port) as connection:
        answer = connection.request("POST", "/own/", {"idempotency-key": new_key()}, b"{}")
    assert code_of(answer) == "idempotency_config_invalid"
    (line,) = [line for line in server.module_complaints() if "own_transaction" in line]
    assert 'operation "charge": policy.own_transaction: requires store.postgres' in line.replace('\\"', '"')


def _unless(response: WireResponse, status: int) -> WireResponse | None:
    return None if response.status == status else response
