"""The reconciler asks the upstream what became of a request with an unknown outcome, and settles its record.

Real Envoys, on both stores. The upstream plays the service's endpoint: a question's path is scripted.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.config import FilterFile
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS
from harness.site import Site, code_of, finish, new_key
from harness.wait import wait_for
from harness.wire import Http1Connection

either_store = pytest.mark.parametrize("kind", ["sqlite", "postgres"])

LOST = {"fault": "close_after_read"}  # It ran, and its response was lost.
NEVER_RAN = {"fault": "close_before_read"}  # It did not run, but who knows?
POLICY = {"lease": "5s", "completion_timeout": "1s", "operation": "create-payment"}
JOBS = {"sweep_interval": "1s", "reap_interval": "1s"}


def bare(key: str) -> str:
    return json.loads(key)


def question(key: str) -> str:
    """The path of the question about this key's attempt."""
    return f"/outcome/{bare(key)}?tenant=acme"


@pytest.fixture
def make_site(workspace, request):
    def make(kind: str, change=lambda config: None, version: str | None = None, **entry) -> Site:
        reconcile = {
            "cluster": "upstream",
            "path": "/outcome/{key}?tenant={tenant}",
            "interval": "1s",
            "max_interval": "1s",
            "max_tries": 1000,
            **entry,
        }
        store = None
        if kind == "postgres":
            conninfo = request.getfixturevalue("migrated")
            store = {"postgres": {"conninfo": conninfo, "timeout": "5s"}}

        def configure(config) -> None:
            config.filter(maintenance=JOBS, reconcile=[reconcile])
            change(config)

        options = {"version": version} if version else {}
        return Site(workspace, {"pay": POLICY}, store=store, change=configure, **options)

    return make


def lose(site: Site, key: str, **fault) -> None:
    """A request whose outcome is unknown."""
    assert site.send("/pay/", key, **fault).status in (502, 503)


def asked(site: Site, key: str) -> list[dict]:
    return site.upstream.log("received", path=question(key))


def gauges(envoy: Envoy) -> dict[str, int]:
    """The gauges of the operation."""
    lines = envoy.admin("/stats/prometheus").splitlines()
    found = [line.rsplit(" ", 1) for line in lines if '{operation="create-payment"}' in line]
    return {name.split("{")[0].removeprefix("envoy_idempotency_"): int(value) for name, value in found}


@either_store
def test_a_lost_response_is_found_and_replayed_byte_for_byte(make_site, kind):
    site = make_site(kind, interval="2s", max_interval="2s")
    key = new_key()
    body = "d\u00e9j\u00e0 \n\u0000 vu"
    answer = {"status": 201, "headers": [["content-type", "text/x"], ["location", "/p/1"]], "body": body}
    site.upstream.script(answer, path=question(key))
    lose(site, key, **LOST)
    refused = site.send("/pay/", key)
    assert (refused.status, code_of(refused)) == (409, "idempotency_outcome_unknown")
    assert int(refused.header("retry-after")) in (1, 2)
    site.wait_for_state(key, "completed")
    replay = site.send("/pay/", key)
    assert (replay.status, replay.body) == (201, body.encode())
    assert (replay.header("content-type"), replay.header("location")) == ("text/x", "/p/1")
    assert replay.header("idempotent-replayed") == "true"
    assert len(site.executions(key)) == 1
    assert len(asked(site, key)) == 1
    for name in ("scheduled", "asked", "resolved"):
        assert site.envoy.stat(f"idempotency.reconcile.{name}") == 1
    site.close()


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_every_envoy_asks(make_site, version):
    site = make_site("sqlite", version=version, method="POST", headers=[{"name": "X-Why", "value": "{key}"}])
    key = new_key()
    site.upstream.script({"status": 200, "body": "it ran"}, path=question(key))
    lose(site, key, **LOST)
    site.wait_for_state(key, "completed")
    assert site.send("/pay/", key).body == b"it ran"
    (one,) = asked(site, key)
    assert (one["method"], one["authority"]) == ("POST", "upstream")
    assert ["x-why", bare(key)] in one["headers"]
    site.close()


@either_store
def test_the_parts_of_the_response_are_found_by_pointers(make_site, kind):
    pointers = {"status_pointer": "/status", "headers_pointer": "/headers", "body_pointer": "/body"}
    site = make_site(kind, response=pointers)
    key = new_key()
    parts = {"status": 402, "headers": {"content-type": "text/x"}, "body": "declined"}
    outcome = [["idempotency-outcome", "completed"]]
    site.upstream.script(
        {"status": 200, "headers": outcome, "body": "{}"},  # The parts are missing: asked again.
        {"status": 200, "headers": outcome, "body": json.dumps(parts)},
        path=question(key),
    )
    lose(site, key, **LOST)
    site.wait_for_state(key, "completed")
    replay = site.send("/pay/", key)
    assert (replay.status, replay.header("content-type"), replay.body) == (402, "text/x", b"declined")
    assert replay.header("idempotency-outcome") is None
    assert len(asked(site, key)) == 2
    site.close(may_complain=True)


@either_store
def test_after_not_run_the_retry_runs_once(make_site, kind):
    site = make_site(kind)
    key = new_key()
    site.upstream.script({"status": 200, "headers": [["idempotency-outcome", "not-run"]]}, path=question(key))
    lose(site, key, **NEVER_RAN)
    site.wait_for_state(key, "failed_retryable")
    first = site.send("/pay/", key)
    assert (first.status, first.header("idempotent-replayed")) == (200, None)
    replay = site.send("/pay/", key)
    assert (replay.body, replay.header("idempotent-replayed")) == (first.body, "true")
    assert len(site.executions(key)) == 1
    site.close()


@either_store
def test_a_request_that_arrives_after_absent_does_not_run_twice(make_site, kind):
    site = make_site(kind)
    key = new_key()
    site.upstream.script({"status": 404}, path=question(key), repeat=True)
    lose(site, key, **NEVER_RAN)
    wait_for(lambda: len(asked(site, key)) >= 3, "three questions")
    assert site.state(key) == "unknown"
    assert code_of(site.send("/pay/", key)) == "idempotency_outcome_unknown"
    # Now it arrives, at last.
    attempt = str(site.record(key)["attempt"])
    deliver(site, key, attempt)
    site.upstream.clear_scripts()
    site.upstream.script({"status": 200, "body": "it ran"}, path=question(key))
    site.wait_for_state(key, "completed")
    assert site.send("/pay/", key).body == b"it ran"
    assert len(site.executions(key)) == 1
    site.close()


@either_store
def test_an_absence_is_final_once_the_claim_is_old_enough(make_site, kind):
    site = make_site(kind, absent_final_after="3s")
    key = new_key()
    site.upstream.script({"status": 404}, path=question(key), repeat=True)
    lose(site, key, **NEVER_RAN)
    site.wait_for_state(key, "failed_retryable")
    assert len(asked(site, key)) >= 2, "the first one came too early to be final"
    assert site.send("/pay/", key).status == 200
    assert len(site.executions(key)) == 1
    site.close()


@either_store
def test_a_record_that_is_asked_about_in_vain_is_a_dead_letter(make_site, kind):
    site = make_site(kind, max_tries=2)
    key = new_key()
    site.upstream.script({"status": 503}, path=question(key), repeat=True)
    lose(site, key, **LOST)
    assert site.send("/pay/", key).header("retry-after") is not None
    site.envoy.wait_for_stat("idempotency.reconcile.dead_letters", 1)
    refused = site.send("/pay/", key)
    assert (refused.status, refused.header("retry-after")) == (409, None)
    assert site.state(key) == "unknown"
    assert len(asked(site, key)) == 2
    (line,) = [line for line in site.envoy.process.output().splitlines() if "dead letter" in line]
    attempt = str(site.record(key)["attempt"])
    for part in ('tenant "acme"', 'operation "create-payment"', "2 tries", attempt, "(status 503)"):
        assert part in line
    assert bare(key) not in site.envoy.process.output()
    wait_for(lambda: gauges(site.envoy).get("dead_letters") == 1, lambda: f"gauges: {gauges(site.envoy)}")
    assert gauges(site.envoy)["unknown_records"] == 1
    site.close(may_complain=True)


@either_store
def test_a_cluster_that_is_missing_ends_in_a_dead_letter(make_site, kind):
    site = make_site(kind, cluster="nowhere", max_tries=2)
    key = new_key()
    lose(site, key, **LOST)
    site.envoy.wait_for_stat("idempotency.reconcile.dead_letters", 1)
    assert "Envoy has no such cluster" in site.envoy.process.output()
    assert site.envoy.stat("idempotency.reconcile.failed") == 2
    site.close(may_complain=True)


@either_store
def test_an_envoy_that_dies_while_it_asks_is_followed_by_another(make_site, kind, workspace):
    site = make_site(kind)
    key = new_key()
    gate = f"question about {key}"
    site.upstream.script({"status": 200, "body": "it ran", "hold": gate}, path=question(key), repeat=True)
    lose(site, key, **LOST)
    site.upstream.wait_until_held(gate)
    second = Envoy(workspace, site.config)
    site.envoy.kill9()
    site.upstream.clear_scripts()
    site.upstream.script({"status": 200, "body": "it ran"}, path=question(key), repeat=True)
    site.wait_for_state(key, "completed", deadline=40)
    assert second.stat("idempotency.reconcile.resolved") == 1
    assert len(site.executions(key)) == 1


@either_store
def test_a_late_response_does_not_replace_the_one_that_was_found(make_site, kind, workspace):
    """A process that was paused for longer than its lease: retries get the same response from every Envoy."""
    site = make_site(kind)
    key = new_key()
    site.upstream.script({"status": 201, "body": "found"}, path=question(key), repeat=True)
    second = Envoy(workspace, site.config)
    with site.running("/pay/", key, body_size=10) as let_go:
        site.envoy.process.pause()
        try:
            site.wait_for_state(key, "completed", deadline=40)
        finally:
            site.envoy.process.resume()
        late = let_go()
    assert (late.status, len(late.body)) == (200, 10)
    assert late.header("idempotency-stored") == "false"
    assert site.envoy.stat("idempotency.fenced") == 1
    for port in (site.port, second.port):
        with Http1Connection(port) as connection:
            replay = finish(connection, site.begin(connection, "/pay/", key))
        assert (replay.status, replay.body) == (201, b"found")
    assert len(site.executions(key)) == 1
    assert (site.envoy.stop(), second.stop()) == (0, 0)


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
@pytest.mark.parametrize("replaced_store", [False, True], ids=["same_store", "other_store"])
def test_a_new_config_takes_over_an_open_question(make_site, folder, version, replaced_store):
    """... although a request still holds the old one: nothing of it may be open when that request ends."""
    changed, files = [], []

    def change(config) -> None:
        # Another timeout is another store: the new config shares nothing with the old one.
        other = {"store": {"sqlite": {"path": str(folder / "other.db")}}} if replaced_store else {}
        changed.append(config.copy().filter(policy={"flavor": "STRIPE"}, **other))
        files.append(FilterFile(folder, config))

    site = make_site("sqlite", change=change, timeout="60s", version=version)
    key, held = new_key(), new_key()
    question_gate, request_gate = f"question about {key}", f"request {held}"
    site.upstream.script(
        {"status": 200, "body": "cut off", "hold": question_gate},
        {"status": 200, "body": "it ran"},
        path=question(key),
    )
    lose(site, key, **LOST)
    site.upstream.wait_until_held(question_gate)
    with ThreadPoolExecutor() as pool:
        running = pool.submit(site.send, "/pay/", held, hold=request_gate)
        site.upstream.wait_until_held(request_gate)
        files[0].write_filter(changed[0])
        site.upstream.wait_for_log("gone", path=question(key))
        wait_for(lambda: len(asked(site, key)) == 2, "the question through the new config")
        site.wait_for_state(key, "completed")
        site.upstream.release(request_gate)
        assert running.result().status == 200
    assert site.state(key) == site.state(held) == "completed"
    assert len(site.executions(key)) == len(site.executions(held)) == 1
    site.close()


@either_store
def test_an_answer_that_is_too_large_is_none(make_site, kind):
    site = make_site(kind, max_response_bytes=10)
    key = new_key()
    site.upstream.script(
        {"status": 200, "body": "x" * (2 << 20)}, {"status": 200, "body": "it ran"}, path=question(key)
    )
    lose(site, key, **LOST)
    site.wait_for_state(key, "completed")
    assert site.send("/pay/", key).body == b"it ran"
    assert "the answer has more than 1048636 bytes" in site.envoy.process.output()
    assert site.envoy.stat("idempotency.reconcile.failed") == 1
    site.close(may_complain=True)


def deliver(site: Site, key: str, attempt: str) -> None:
    """A copy of the request that was on its way all the while reaches the upstream."""
    with Http1Connection(site.upstream.port) as connection:
        headers = {"idempotency-key": key, "idempotency-attempt": attempt}
        connection.start("POST", "/pay/", headers, b"{}")
        assert connection.read_response().status == 200
