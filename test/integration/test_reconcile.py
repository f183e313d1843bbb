"""The reconciler asks the upstream what became of a request with an unknown outcome, and settles its record.

Real Envoys, on both stores. The upstream plays the service's endpoint: a question's path is scripted.
"""

import json

import pytest
from harness.config import FilterFile
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS
from harness.site import Site, code_of, new_key
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
def test_a_question_that_a_reload_cuts_off_is_asked_again(make_site, kind, folder):
    changed, files = [], []

    def change(config) -> None:
        changed.append(config.copy().filter(policy={"flavor": "STRIPE"}))
        files.append(FilterFile(folder, config))

    site = make_site(kind, change=change, timeout="8s")
    key = new_key()
    gate = f"question about {key}"
    site.upstream.script(
        {"status": 200, "body": "cut off", "hold": gate},
        {"status": 200, "body": "it ran"},
        path=question(key),
    )
    lose(site, key, **LOST)
    site.upstream.wait_until_held(gate)
    files[0].write_filter(changed[0])
    site.upstream.wait_for_log("gone", path=question(key))
    site.wait_for_state(key, "completed", deadline=40)
    assert site.send("/pay/", key).body == b"it ran"
    assert len(site.executions(key)) == 1


def deliver(site: Site, key: str, attempt: str) -> None:
    """A copy of the request that was on its way all the while reaches the upstream."""
    with Http1Connection(site.upstream.port) as connection:
        headers = {"idempotency-key": key, "idempotency-attempt": attempt}
        connection.start("POST", "/pay/", headers, b"{}")
        assert connection.read_response().status == 200
