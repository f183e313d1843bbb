"""How a detached run ends: by the same table as any other, with its client or without. On every Envoy."""

import pytest
from harness import twins
from harness.config import EnvoyConfig
from harness.paths import ENVOY_VERSIONS
from harness.ports import free_port
from harness.process import Workspace
from harness.site import Site, code_of, finish, new_key
from harness.upstream import Upstream

UPSTREAMS = {"up http1": "/up/", "up http2": "/h2/"}
# Where one of each is enough: what the client speaks, the upstream speaks too.
UP = {False: "/up/", True: "/h2/"}
DETACHED = {"enforcement": "REQUIRED", "detached": {}}
BRIEF = {"enforcement": "REQUIRED", "detached": {"timeout": "1s"}}
RETRIES = {
    "retry_on": "reset,connect-failure",
    "num_retries": 3,
    "retry_back_off": {"base_interval": "0.01s"},
}
FOLLOW = {"max_internal_redirects": 2, "redirect_response_codes": [301, 302, 303, 307, 308]}
# Routes that have an attached twin, whose name begins with `attached-`: more of Envoy's RouteAction.
TWINS = {
    "up": {},
    "h2": {"cluster": "h2"},
    "dead": {"cluster": "dead"},
    "empty": {"cluster": "empty"},
    "full": {"cluster": "full"},
    "dead-retry": {"cluster": "dead", "retry_policy": RETRIES},
    "slow": {"timeout": "0.3s"},
    "per-try": {"retry_policy": {"retry_on": "connect-failure", "per_try_timeout": "0.3s"}},
    "from": {"internal_redirect_policy": FOLLOW},
}
OWN_ANSWERS = {
    "direct": {"direct_response": {"status": 200, "body": {"inline_string": "direct"}}},
    "moved": {"redirect": {"path_redirect": "/elsewhere"}},
}

every_upstream = pytest.mark.parametrize("path", UPSTREAMS.values(), ids=UPSTREAMS)
every_downstream = pytest.mark.parametrize("http2", [False, True], ids=["down http1", "down http2"])


def change(config: EnvoyConfig, workspace: Workspace, port: int) -> None:
    config.filter(maintenance={"enabled": False})
    config.cluster("full", port, circuit_breakers={"thresholds": [{"max_pending_requests": 0}]})
    config.cluster("mixed", port, free_port())
    for prefix, policy in {"": DETACHED, "attached-": {"enforcement": "REQUIRED"}}.items():
        for name, route in TWINS.items():
            config.route(f"/{prefix}{name}/", policy, **route)
        for name, action in OWN_ANSWERS.items():
            config.route(f"/{prefix}{name}/", policy)
            del config.routes[0]["route"]
            config.routes[0].update(action)
    config.route("/again/", DETACHED, internal_redirect_policy=FOLLOW)
    config.route("/mixed/", DETACHED, cluster="mixed", retry_policy=RETRIES)
    config.route("/up-retry/", DETACHED, retry_policy={**RETRIES, "retry_on": "5xx"})
    # Long enough for a client to leave meanwhile.
    config.route("/slower/", DETACHED, timeout="1s")
    config.route("/brief/", BRIEF)
    config.route("/brief-h2/", BRIEF, cluster="h2")
    config.route("/strict/", {**DETACHED, "server_errors": "UNKNOWN"})
    config.route("/off/", {"enforcement": "OFF"})
    config.private_listener(workspace.new_folder("runs") / "runs.sock")


@pytest.fixture(scope="module", params=ENVOY_VERSIONS)
def site(request, session_workspace: Workspace):
    upstream = Upstream(session_workspace)
    made = Site(
        session_workspace,
        change=lambda config: change(config, session_workspace, upstream.port),
        upstream=upstream,
        version=request.param,
    )
    yield made
    made.close()


def ended(name: str, **more: int) -> dict[str, int]:
    if "detached__finished_alone" not in more:
        more["detached__handed_over"] = 1
    return {"covered": 1, "claim__created": 1, "detached__runs": 1, f"ended__{name}": 1, **more}


def retry_tells(site: Site, path: str, key: str, state: str | None, status: int) -> None:
    """What the next request gets, and whether it runs."""
    site.wait_for_state(key, state)
    runs = len(site.executions(key))
    retry = site.send(path, key, status=299)
    if state == "completed":
        assert (retry.status, retry.header("idempotent-replayed")) == (status, "true")
    elif state == "unknown":
        assert (retry.status, code_of(retry)) == (409, "idempotency_outcome_unknown")
    else:
        assert retry.status == 299
        runs += 1
    assert len(site.executions(key)) == runs


def same_answers(site: Site, name: str, http2: bool = False, **behaviour) -> str:
    """On the detached route and its twin; the key on the former."""
    keys = [new_key(), new_key()]
    detached, attached = [
        twins.answer(site.send(path, key, http2=http2, **behaviour))
        for path, key in zip((f"/{name}/", f"/attached-{name}/"), keys, strict=True)
    ]
    assert detached == attached
    return keys[0]


# --- A whole response


def says(status: int, outcome: str | None = None) -> dict:
    headers = [["idempotency-outcome", outcome]] if outcome else []
    return {"status": status, "headers_sent": headers}


# What the upstream does, what becomes of the record, and what is counted besides.
ENDS = {
    "created": (says(201), "completed", {}),
    "refused by the service": (says(422), "completed", {}),
    "failed": (says(500), "failed_retryable", {}),
    "unavailable": (says(503), "failed_retryable", {}),
    "too many": (says(429), "failed_retryable", {}),
    "not allowed": (says(401), None, {}),
    "bad gateway": (says(502), "unknown", {}),
    "gateway timeout": (says(504), "unknown", {}),
    "declared completed": (says(500, "completed"), "completed", {"outcome__declared": 1}),
    "declared retryable": (says(200, "retryable"), "failed_retryable", {"outcome__declared": 1}),
    "declared not-run": (says(500, "not-run"), None, {"outcome__declared": 1}),
    "declared unknown": (says(200, "unknown"), "unknown", {"outcome__declared": 1}),
    "declared without a meaning": (says(200, "done"), "unknown", {"outcome__invalid": 1}),
}
every_end = pytest.mark.parametrize("case", ENDS)


@every_end
@every_downstream
def test_an_answer_decides(site, case, http2):
    behaviour, state, more = ENDS[case]
    key, path = new_key(), UP[http2]
    with site.counts(**ended(state or "released", **more)):
        answer = site.send(path, key, http2=http2, **behaviour)
    assert (answer.status, answer.header("idempotency-outcome")) == (behaviour["status"], None)
    retry_tells(site, path, key, state, behaviour["status"])


@every_end
def test_an_answer_decides_when_the_client_has_left(site, leave, case):
    behaviour, state, more = ENDS[case]
    key, path = new_key(), UP[leave.http2]
    with site.counts(**ended(state or "released", cut_short=1, detached__finished_alone=1, **more)):
        with site.running_alone(path, key, leave, **behaviour) as let_go:
            let_go()
        site.wait_for_state(key, state)
    assert site.upstream.log("gone", key=key) == []
    retry_tells(site, path, key, state, behaviour["status"])


def test_strict_route_runs_no_retry_after_a_server_error(site, leave):
    key = new_key()
    with site.running_alone("/strict/", key, leave, status=500) as let_go:
        let_go()
    retry_tells(site, "/strict/", key, "unknown", 500)


def test_outcome_may_be_declared_in_trailers(site, leave):
    key = new_key()
    trailers = [["idempotency-outcome", "completed"]]
    with site.running_alone("/h2/", key, leave, status=503, trailers=trailers) as let_go:
        let_go()
    retry_tells(site, "/h2/", key, "completed", 503)


# --- Never sent

NEVER_SENT = {"dead": 503, "empty": 503, "full": 503, "direct": 200, "moved": 301}


@pytest.mark.parametrize("name", NEVER_SENT)
@every_downstream
def test_never_sent_releases(site, name, http2):
    key, path = new_key(), f"/{name}/"
    with site.counts(**ended("released")):
        assert site.send(path, key, http2=http2).status == NEVER_SENT[name]
    assert site.record(key) is None
    assert site.upstream.log(key=key) == []
    # And again: not "in progress", not "unknown".
    assert site.send(path, key, http2=http2).status == NEVER_SENT[name]


@pytest.mark.parametrize("name", NEVER_SENT)
@every_downstream
def test_the_client_gets_what_envoy_says(site, name, http2):
    same_answers(site, name, http2)


def test_refused_stream_is_unknown(site):
    key = new_key()
    with site.counts(**ended("unknown")):
        assert site.send("/h2/", key, fault="refuse_stream").status == 503
    assert site.state(key) == "unknown"


# --- Sent, and then nobody knows

CUTS = {
    "closed before the request was read": {"fault": "close_before_read"},
    "closed after the request was read": {"fault": "close_after_read"},
    "reset after the request was read": {"fault": "reset_after_read"},
}
# Runs that end before their response is complete.
TRUNCATED = {
    "truncated body": {"fault": "close_mid_body", "body_size": 1000},
    "truncated chunked body": {"fault": "close_mid_body", "body_size": 100_000, "framing": "chunked"},
    "reset within the body": {"fault": "reset_mid_body", "body_size": 1000},
}
# Those before which a client can leave.
LATE_CUTS = {name: cut for name, cut in {**CUTS, **TRUNCATED}.items() if cut["fault"] != "close_before_read"}


@every_upstream
@pytest.mark.parametrize("cut", CUTS)
def test_cut_off_is_unknown(site, path, cut):
    both = {"covered": 2, "claim__created": 2, "ended__unknown": 2}
    with site.counts(detached__runs=1, detached__handed_over=1, **both):
        key = same_answers(site, path.strip("/"), **CUTS[cut])
    retry_tells(site, path, key, "unknown", 503)


@every_upstream
@every_downstream
@pytest.mark.parametrize("cut", TRUNCATED)
def test_truncated_is_unknown(site, path, http2, cut):
    key = new_key()
    with site.until_counted("detached.lost"):
        answer = site.send(path, key, http2=http2, **TRUNCATED[cut])
    # Never a part of the answer.
    assert answer.status in (502, 503)
    assert answer.complete
    retry_tells(site, path, key, "unknown", 503)


@pytest.mark.parametrize("cut", LATE_CUTS)
def test_cut_off_is_unknown_when_the_client_has_left(site, leave, cut):
    key, path = new_key(), UP[leave.http2]
    with site.running_alone(path, key, leave, **LATE_CUTS[cut]) as let_go:
        let_go()
    site.upstream.wait_for_log("cut", key=key)
    retry_tells(site, path, key, "unknown", 503)


@every_upstream
def test_a_long_response_that_breaks_off_is_unknown(site, path):
    key = new_key()
    with site.until_counted("detached.lost"):
        answer = site.send(path, key, fault="close_mid_body", body_size=3_000_000)
    assert (answer.status, answer.complete) == (200, False)
    retry_tells(site, path, key, "unknown", 503)


def test_a_long_response_that_breaks_off_is_unknown_when_the_client_has_left(site, leave):
    key, path = new_key(), UP[leave.http2]
    broken = {"fault": "close_mid_body", "body_size": 3_000_000}
    with (
        site.until_counted("detached.lost"),
        site.running_alone(path, key, leave, at="hold_mid_body", **broken) as let_go,
    ):
        let_go()
    retry_tells(site, path, key, "unknown", 503)


# --- Timeouts


@every_downstream
@pytest.mark.parametrize("name", ["slow", "per-try"])
def test_the_routes_timeout_is_unknown(site, name, http2):
    key = same_answers(site, name, http2, hold="for ever")
    assert len(site.executions(key)) == 1
    retry_tells(site, f"/{name}/", key, "unknown", 504)


def test_the_routes_timeout_holds_for_a_client_that_left(site, leave):
    key = new_key()
    with site.running_alone("/slower/", key, leave):
        site.upstream.wait_for_log("gone", key=key)
        retry_tells(site, "/slower/", key, "unknown", 504)


@pytest.mark.parametrize("path", ["/brief/", "/brief-h2/"], ids=UPSTREAMS)
@every_downstream
@pytest.mark.parametrize(
    "behaviour",
    [{"hold": "for ever"}, {"fault": "hang_mid_body", "body_size": 1000}],
    ids=["before the response", "within it"],
)
def test_the_runs_own_timeout_is_unknown(site, path, http2, behaviour):
    key = new_key()
    with site.until_counted("detached.lost"), site.until_counted("detached_timeout"):
        answer = site.send(path, key, http2=http2, **behaviour)
    assert (answer.status, code_of(answer)) == (504, "idempotency_detached_timeout")
    assert answer.header("idempotency-key-expires") is None
    # Nobody goes on with it.
    site.upstream.wait_for_log("gone", key=key)
    assert len(site.executions(key)) == 1
    retry_tells(site, path, key, "unknown", 504)


@pytest.mark.parametrize("at", ["hold", "hold_mid_body"], ids=["before the response", "within it"])
def test_the_runs_own_timeout_ends_a_run_without_its_client(site, leave, at):
    key, path = new_key(), "/brief-h2/" if leave.http2 else "/brief/"
    with (
        site.until_counted("detached.lost"),
        site.running_alone(path, key, leave, at=at, body_size=10_000),
    ):
        site.upstream.wait_for_log("gone", key=key)
        retry_tells(site, path, key, "unknown", 504)


def test_a_long_response_ends_with_the_runs_time(site):
    key = new_key()
    with site.until_counted("detached.lost"):
        answer = site.send("/brief/", key, fault="hang_mid_body", body_size=3_000_000)
    assert (answer.status, answer.complete) == (200, False)
    retry_tells(site, "/brief/", key, "unknown", 504)


def test_a_run_within_its_time_is_a_result(site):
    key = new_key()
    with site.counts(**ended("completed")):
        assert site.send("/brief/", key, delay_ms=100, status=201).status == 201
    retry_tells(site, "/brief/", key, "completed", 201)


# --- Retries by Envoy


@pytest.mark.parametrize("round_number", range(4))
def test_a_retry_after_a_refused_connection_runs_once(site, round_number):
    """One of two hosts refuses."""
    key = new_key()
    with site.counts(**ended("completed")):
        assert site.send("/mixed/", key, status=201).status == 201
    assert len(site.executions(key)) == 1
    retry_tells(site, "/mixed/", key, "completed", 201)


def test_refused_again_and_again_is_unknown(site):
    """After retries the details tell of the last try alone."""
    key = same_answers(site, "dead-retry")
    retry_tells(site, "/dead-retry/", key, "unknown", 503)


def test_success_after_a_retry_is_stored(site, leave):
    key = new_key()
    site.upstream.script({"status": 500}, {"hold": key, "status": 201}, key=key)
    with site.counts(**ended("completed", cut_short=1, detached__finished_alone=1)):
        with site.connect(leave.http2) as connection:
            stream = site.begin(connection, "/up-retry/", key)
            site.upstream.wait_until_held(key)
            leave(connection, stream)
            site.wait_for_clients(0)
        site.upstream.release(key)
        site.wait_for_state(key, "completed")
    assert len({execution["attempt"] for execution in site.executions(key)}) == 1
    retry_tells(site, "/up-retry/", key, "completed", 201)


@pytest.mark.parametrize("status", [401, 429, 503])
def test_last_answer_of_several_attempts_frees_nothing(site, status):
    """The earlier try may have run."""
    key = new_key()
    site.upstream.script({"status": 500}, {"status": status}, key=key, repeat=True)
    with site.counts(**ended("unknown", outcome__sent_before=1)):
        assert site.send("/up-retry/", key).status == status
    assert code_of(site.send("/up-retry/", key)) == "idempotency_outcome_unknown"


# --- Internal redirects

BODY = b'{"amount": 100}'
TARGETS = {"another detached route": "/up/", "an attached route": "/attached-up/", "no policy": "/off/"}
every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def redirect(site: Site, key: str, target: str, status: int = 302, path: str = "/from/") -> None:
    """The next request with this key to this path is sent elsewhere."""
    location = ["location", f"http://test{target}"]
    site.upstream.script({"status": status, "headers": [location]}, key=key, path=path)


def paths(site: Site, key: str) -> list[tuple[str, str]]:
    return [(entry["method"], entry["path"]) for entry in site.executions(key)]


@every_target
@every_downstream
@pytest.mark.parametrize(("status", "method"), [(302, "POST"), (307, "POST"), (303, "GET")])
def test_a_run_follows_a_redirect(site, target, http2, status, method):
    key = new_key()
    redirect(site, key, target, status)
    with site.counts(**ended("completed", redirected=1)):
        first = site.send("/from/", key, http2=http2, body=BODY)
    assert first.status == 200
    assert paths(site, key) == [("POST", "/from/"), (method, target)]
    one, two = site.executions(key)
    assert one["attempt"] == two["attempt"]
    assert two["request_size"] == (len(BODY) if method == "POST" else 0)
    assert site.state(key) == "completed"
    retry = site.send("/from/", key, http2=http2, body=BODY)
    assert (retry.body, retry.header("idempotent-replayed")) == (first.body, "true")
    assert len(site.executions(key)) == 2


def test_two_redirects_in_a_row_and_one_too_many(site):
    key = new_key()
    redirect(site, key, "/again/")
    redirect(site, key, "/again/", path="/again/")
    redirect(site, key, "/again/", path="/again/")
    with site.counts(**ended("completed", redirected=2)):
        assert site.send("/from/", key).status == 302
    assert site.send("/from/", key).status == 302
    assert len(site.executions(key)) == 3


@every_target
def test_a_client_that_leaves_during_the_second_call(site, leave, target):
    key = new_key()
    redirect(site, key, target)
    site.upstream.script({"hold": key, "status": 201}, key=key, path=target)
    with site.counts(**ended("completed", redirected=1, cut_short=1, detached__finished_alone=1)):
        with site.connect(leave.http2) as connection:
            stream = site.begin(connection, "/from/", key)
            site.upstream.wait_until_held(key)
            leave(connection, stream)
            site.wait_for_clients(0)
        site.upstream.release(key)
        site.wait_for_state(key, "completed")
    assert site.upstream.log("gone", key=key) == []
    retry_tells(site, "/from/", key, "completed", 201)


SECOND_LEGS = {
    "failed": ("/up/", {"status": 503}),
    "not allowed": ("/up/", {"status": 401}),
    "cut off": ("/up/", {"fault": "close_after_read"}),
    "refused": ("/dead/", {}),
}


@pytest.mark.parametrize("case", SECOND_LEGS)
def test_second_leg_that_fails_leaves_the_outcome_unknown(site, case):
    """The first has run the request."""
    target, behaviour = SECOND_LEGS[case]
    key = new_key()
    redirect(site, key, target)
    if behaviour:
        site.upstream.script(behaviour, key=key, path=target)
    with site.until_counted("ended.unknown"):
        site.send("/from/", key)
    retry_tells(site, "/from/", key, "unknown", 503)


def test_the_client_of_a_redirected_run_gets_the_same_answer(site):
    keys = [new_key(), new_key()]
    answers = []
    for path, key in zip(("/from/", "/attached-from/"), keys, strict=True):
        redirect(site, key, "/up/", path=path)
        site.upstream.script({"status": 201, "body": "done"}, key=key, path="/up/")
        with site.connect() as connection:
            answers.append(twins.answer(finish(connection, site.begin(connection, path, key))))
    assert answers[0] == answers[1]
