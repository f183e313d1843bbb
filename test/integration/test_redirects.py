"""Internal redirects: Envoy ends the stream and sends the same request through a new filter, which goes on
with the claim of the old one. On every Envoy that we support.
"""

import pytest
from harness.config import EnvoyConfig, http_filter
from harness.paths import ENVOY_VERSIONS
from harness.process import Workspace
from harness.site import Site, code_of, new_key

BODY = b'{"amount": 100}'
TARGETS = {"another operation": "/target/", "an unprotected route": "/off/"}
every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
every_downstream = pytest.mark.parametrize("http2", [False, True], ids=["down http1", "down http2"])


@pytest.fixture(scope="module", params=ENVOY_VERSIONS)
def site(request, session_workspace: Workspace):
    def change(config: EnvoyConfig) -> None:
        config.filter(maintenance={"enabled": False})
        config.route("/off/", {"enforcement": "OFF"})
        follow = {"max_internal_redirects": 2, "redirect_response_codes": [301, 302, 303, 307, 308]}
        for name in ("dead", "empty"):
            config.route(f"/{name}/", {"enforcement": "REQUIRED"}, cluster=name)
        for name in ("/from/", "/again/"):
            config.route(name, {"enforcement": "REQUIRED"}, internal_redirect_policy=follow)
        denied = {
            "permissions": [{"url_path": {"path": {"prefix": "/denied/"}}}],
            "principals": [{"any": True}],
        }
        rules = {"action": "DENY", "policies": {"deny": denied}}
        config.before_ours(http_filter("rbac", "RBAC", rules=rules))

    made = Site(session_workspace, {"target": {}, "denied": {}}, change=change, version=request.param)
    yield made
    made.close()


def redirect(site: Site, key: str, target: str, status: int = 302, path: str = "/from/") -> None:
    """The next request with this key to this path is sent elsewhere."""
    location = ["location", f"http://test{target}"]
    site.upstream.script({"status": status, "headers": [location]}, key=key, path=path)


def ended(name: str, redirects: int = 1) -> dict[str, int]:
    return {"covered": 1, "claim__created": 1, "redirected": redirects, f"ended__{name}": 1}


def paths(site: Site, key: str) -> list[tuple[str, str]]:
    return [(entry["method"], entry["path"]) for entry in site.executions(key)]


@every_target
@every_downstream
@pytest.mark.parametrize("status", [302, 307, 308])
def test_the_claim_moves_on(site, target, http2, status):
    key = new_key()
    redirect(site, key, target, status)
    with site.counts(**ended("completed")):
        first = site.send("/from/", key, http2=http2, body=BODY)
    assert first.status == 200
    assert first.header("idempotency-key-expires")
    assert paths(site, key) == [("POST", "/from/"), ("POST", target)]
    one, two = site.executions(key)
    assert one["attempt"] == two["attempt"]
    assert two["request_size"] == len(BODY)
    # One record: of the request as the client sent it.
    assert site.state(key) == "completed"
    retry = site.send("/from/", key, http2=http2, body=BODY)
    assert (retry.body, retry.header("idempotent-replayed")) == (first.body, "true")
    assert code_of(site.send("/from/", key, body=b"[]")) == "idempotency_key_reused"
    assert len(site.executions(key)) == 2


@every_target
def test_see_other_continues_as_get(site, target):
    """303: another method, no body, and still the same claim."""
    key = new_key()
    redirect(site, key, target, 303)
    with site.counts(**ended("completed")):
        first = site.send("/from/", key, body=BODY)
    assert first.status == 200
    assert paths(site, key) == [("POST", "/from/"), ("GET", target)]
    assert site.send("/from/", key, body=BODY).body == first.body
    assert len(site.executions(key)) == 2


def test_two_redirects_in_a_row(site):
    key = new_key()
    redirect(site, key, "/again/")
    redirect(site, key, "/off/", path="/again/")
    with site.counts(**ended("completed", redirects=2)):
        first = site.send("/from/", key, body=BODY)
    assert first.status == 200
    assert [path for _, path in paths(site, key)] == ["/from/", "/again/", "/off/"]
    assert site.send("/from/", key, body=BODY).body == first.body


def test_one_redirect_too_many_is_an_answer(site):
    key = new_key()
    redirect(site, key, "/again/")
    redirect(site, key, "/again/", path="/again/")
    redirect(site, key, "/again/", path="/again/")
    with site.counts(**ended("completed", redirects=2)):
        first = site.send("/from/", key)
    assert first.status == 302
    assert site.send("/from/", key).status == 302
    assert len(site.executions(key)) == 3


# The first leg has run the request, whatever becomes of the second: nothing lets a retry run again.
SECOND_LEGS = {
    "failed": ("/target/", {"status": 503}),
    "not allowed": ("/target/", {"status": 401}),
    "too many": ("/target/", {"status": 429}),
    "cut off": ("/target/", {"fault": "close_after_read"}),
    "refused": ("/dead/", {}),
    "no host": ("/empty/", {}),
}


@pytest.mark.parametrize("case", SECOND_LEGS)
@pytest.mark.parametrize("status", [303, 307])
def test_second_leg_that_fails_leaves_the_outcome_unknown(site, case, status):
    target, behaviour = SECOND_LEGS[case]
    key = new_key()
    redirect(site, key, target, status)
    if behaviour:
        site.upstream.script(behaviour, key=key, path=target)
    with site.until_counted("ended.unknown"):
        site.send("/from/", key)
    runs = len(site.executions(key))
    assert site.state(key) == "unknown"
    for _ in range(2):
        assert code_of(site.send("/from/", key)) == "idempotency_outcome_unknown"
    assert len(site.executions(key)) == runs


def test_second_leg_that_is_too_long_is_a_result(site):
    key = new_key()
    redirect(site, key, "/target/")
    site.upstream.script({"body_size": 3_000_000}, key=key, path="/target/")
    site.send("/from/", key)
    site.wait_for_state(key, "completed")
    assert len(site.executions(key)) == 2


@pytest.mark.parametrize(
    ("outcome", "state"), [("not-run", None), ("retryable", "failed_retryable"), ("completed", "completed")]
)
def test_second_leg_may_declare_what_became_of_it(site, outcome, state):
    key = new_key()
    redirect(site, key, "/target/")
    said = {"status": 503, "headers": [["idempotency-outcome", outcome]]}
    site.upstream.script(said, key=key, path="/target/")
    assert site.send("/from/", key).header("idempotency-outcome") is None
    site.wait_for_state(key, state)


def test_client_that_leaves_during_the_second_call(site):
    key = new_key()
    redirect(site, key, "/off/")
    site.upstream.script({"hold": key}, key=key, path="/off/")
    with site.connect() as connection:
        site.begin(connection, "/from/", key)
        site.upstream.wait_until_held(key)
    site.wait_for_state(key, "unknown")


def test_others_meet_the_claim_meanwhile(site):
    key = new_key()
    redirect(site, key, "/off/")
    site.upstream.script({"hold": key}, key=key, path="/off/")
    with site.connect() as connection:
        site.begin(connection, "/from/", key)
        site.upstream.wait_until_held(key)
        assert code_of(site.send("/from/", key)) == "idempotency_in_progress"
        site.upstream.release(key)
        assert connection.read_response().status == 200
    assert len(site.executions(key)) == 2


def test_denied_before_our_filter_sees_it_again(site):
    """Nobody will end the claim: it becomes unknown long before its lease is over."""
    key = new_key()
    redirect(site, key, "/denied/")
    assert site.send("/from/", key).status == 403
    site.wait_for_state(key, "unknown", deadline=20)
    assert site.record(key)["last_error"] == "redirect_lost"
    assert code_of(site.send("/from/", key)) == "idempotency_outcome_unknown"
