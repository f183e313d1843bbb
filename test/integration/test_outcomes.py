"""What becomes of the record: each way in which an upstream call can end, on every Envoy that we support.

What Envoy makes of failures is in source/protocol/outcome.cc, what a second proxy makes of them in
test_second_proxy.py. Clients that leave are in
test_disconnects.py, internal redirects in test_redirects.py, long answers in test_long_answers.py.
"""

import pytest
from harness.config import EnvoyConfig, http_filter
from harness.paths import ENVOY_VERSIONS
from harness.ports import free_port
from harness.process import Workspace
from harness.site import Site, code_of, finish, new_key
from harness.upstream import Upstream

# The first path leads to the upstream by HTTP/1.1, the second by HTTP/2.
UPSTREAMS = {"up http1": "/up/", "up http2": "/h2/"}
DOWNSTREAMS = {"down http1": False, "down http2": True}
LUA = """
function envoy_on_request(handle)
  if handle:headers():get("x-lua") == "request" then
    handle:respond({[":status"] = "418"}, "lua")
  end
end
"""

every_upstream = pytest.mark.parametrize("path", UPSTREAMS.values(), ids=UPSTREAMS)
every_downstream = pytest.mark.parametrize("http2", DOWNSTREAMS.values(), ids=DOWNSTREAMS)


def change(config: EnvoyConfig, port: int) -> None:
    required = {"enforcement": "REQUIRED"}
    # Where no route is found, the filter's own policy counts.
    config.filter(policy={**required, "lease": "60s"}, maintenance={"enabled": False})
    config.routes.remove(next(route for route in config.routes if route["name"] == "everything-else"))
    config.managers[0]["route_config"]["validate_clusters"] = False
    for name in ("h2", "dead", "empty", "nowhere"):
        config.route(f"/{name}/", required, cluster=name)
    config.cluster("full", port, circuit_breakers={"thresholds": [{"max_pending_requests": 0}]})
    config.route("/full/", required, cluster="full")
    config.cluster("mixed", port, free_port())
    retries = {
        "retry_on": "reset,connect-failure",
        "num_retries": 3,
        "retry_back_off": {"base_interval": "0.01s"},
    }
    config.route("/mixed/", required, cluster="mixed", retry_policy=retries)
    config.route("/dead-retry/", required, cluster="dead", retry_policy=retries)
    config.route("/up-retry/", required, retry_policy={**retries, "retry_on": "5xx"})
    config.route("/slow/", required, timeout="0.3s")
    config.route("/optional/", {"enforcement": "OPTIONAL"})
    per_try = {"retry_on": "connect-failure", "num_retries": 1, "per_try_timeout": "0.3s"}
    config.route("/per-try/", required, retry_policy=per_try)
    again = {**per_try, "retry_on": "gateway-error"}
    config.route("/per-try-retry/", required, retry_policy=again)
    hedge = {"hedge_on_per_try_timeout": True}
    config.route("/hedged/", required, retry_policy=again, hedge_policy=hedge)
    config.route("/idle/", required, idle_timeout="1s")
    config.route("/duration/", required, max_stream_duration={"max_stream_duration": "1s"})
    # One operation, so that a request of one waits for that of the other.
    waits = {**required, "operation": "waits", "fingerprint": {"mode": "NONE"}}
    waits["in_flight"] = {"action": "WAIT", "wait": "60s"}
    config.route("/waited-for/", waits)
    config.route("/wait-idle/", waits, idle_timeout="0.3s")
    for name, action in {
        "direct": {"direct_response": {"status": 200, "body": {"inline_string": "direct"}}},
        "moved": {"redirect": {"path_redirect": "/elsewhere"}},
    }.items():
        config.route(f"/{name}/", required)
        del config.routes[0]["route"]
        config.routes[0].update(action)
    config.after_ours(
        http_filter("fault", "HTTPFault", abort={"header_abort": {}, "percentage": {"numerator": 100}})
    )
    denied = {
        "permissions": [{"any": True}],
        "principals": [{"header": {"name": "x-deny", "present_match": True}}],
    }
    rules = {"action": "DENY", "policies": {"deny": denied}}
    config.after_ours(http_filter("rbac", "RBAC", rules=rules))
    config.after_ours(http_filter("lua", "Lua", default_source_code={"inline_string": LUA}))
    early = {**denied, "principals": [{"header": {"name": "x-deny-early", "present_match": True}}]}
    config.before_ours(http_filter("rbac", "RBAC", rules={"action": "DENY", "policies": {"deny": early}}))


@pytest.fixture(scope="module", params=ENVOY_VERSIONS)
def site(request, session_workspace: Workspace):
    routes = {
        "up": {},
        "all": {"server_errors": "KEEP", "retryable_statuses": [], "released_statuses": []},
        "strict": {"server_errors": "UNKNOWN"},
    }
    upstream = Upstream(session_workspace)
    made = Site(
        session_workspace,
        routes,
        change=lambda config: change(config, upstream.port),
        upstream=upstream,
        version=request.param,
    )
    yield made
    made.close()


def ended(name: str) -> dict[str, int]:
    """Counters of one request that was claimed and ended so."""
    return {"covered": 1, "claim__created": 1, f"ended__{name}": 1}


# --- A whole response


@every_upstream
@pytest.mark.parametrize("status", [200, 201, 204, 302, 400, 404, 409, 410, 422])
def test_complete_response_is_stored(site, path, status):
    key = new_key()
    with site.counts(**ended("completed")):
        first = site.send(path, key, status=status)
    assert (first.status, site.state(key)) == (status, "completed")
    second = site.send(path, key)
    assert (second.status, second.body) == (status, first.body)
    assert len(site.executions(key)) == 1


@every_upstream
@pytest.mark.parametrize("status", [425, 429, 500, 503])
def test_retryable_status_lets_the_next_request_run(site, path, status):
    key = new_key()
    with site.counts(**ended("failed_retryable")):
        first = site.send(path, key, status=status)
    assert first.status == status
    assert first.header("idempotency-key-expires")
    record = site.record(key)
    assert (record["state"], record["last_error"]) == ("failed_retryable", f"status_{status}")
    assert site.send(path, key, status=201).status == 201
    assert len(site.executions(key)) == 2


@every_upstream
@pytest.mark.parametrize("status", [408, 501, 502, 504, 599])
def test_server_error_that_may_be_a_gateways_is_unknown(site, path, status):
    key = new_key()
    with site.counts(**ended("unknown")):
        assert site.send(path, key, status=status).status == status
    assert site.record(key)["last_error"] == f"status_{status}"
    is_unknown(site, path, key)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
def test_strict_route_runs_no_retry_after_a_server_error(site, status):
    key = new_key()
    with site.counts(**ended("unknown")):
        assert site.send("/strict/", key, status=status).status == status
    is_unknown(site, "/strict/", key)


@pytest.mark.parametrize("status", [401, 403, 407, 408, 425, 429, 500, 502, 503, 504])
def test_every_answer_may_be_kept(site, status):
    key = new_key()
    first = site.send("/all/", key, status=status)
    assert site.send("/all/", key, status=200).body == first.body
    assert (site.state(key), len(site.executions(key))) == ("completed", 1)


@every_upstream
@pytest.mark.parametrize("status", [401, 403, 407])
def test_authorisation_answer_releases(site, path, status):
    key = new_key()
    with site.counts(**ended("released")):
        first = site.send(path, key, status=status)
    assert first.status == status
    assert first.header("idempotency-key-expires") is None
    assert site.record(key) is None
    # Also for another body: there is no record.
    assert site.send(path, key, body=b"[1]", status=201).status == 201


@pytest.mark.parametrize("status", [401, 403, 425, 429, 500, 503])
def test_last_answer_of_several_attempts_frees_nothing(site, status):
    """The earlier try may have run."""
    key = new_key()
    site.upstream.script({"status": 500}, {"status": status}, key=key, repeat=True)
    with site.counts(**ended("unknown"), outcome__sent_before=1):
        assert site.send("/up-retry/", key).status == status
    is_unknown(site, "/up-retry/", key)


def test_per_try_timeout_and_then_an_error_frees_nothing(site):
    """The first try ran and was too slow; the second is told to come again."""
    key = new_key()
    site.upstream.script({"delay_ms": 1500}, {"status": 503}, key=key)
    with site.counts(**ended("unknown"), outcome__sent_before=1):
        assert site.send("/per-try-retry/", key).status == 503
    is_unknown(site, "/per-try-retry/", key)


def test_hedged_request_frees_nothing(site):
    """Envoy sends a second copy while the first still runs, and takes whichever answers."""
    key = new_key()
    site.upstream.script({"delay_ms": 800, "status": 503}, {"delay_ms": 100, "status": 503}, key=key)
    assert site.send("/hedged/", key).status == 503
    is_unknown(site, "/hedged/", key)


def test_success_after_a_retry_is_stored(site):
    key = new_key()
    site.upstream.script({"status": 500}, {"status": 201}, key=key)
    with site.counts(**ended("completed")):
        assert site.send("/up-retry/", key).status == 201
    assert site.send("/up-retry/", key).status == 201
    assert len(site.executions(key)) == 2  # Both by Envoy's own retry, in one claim.
    assert len({execution["attempt"] for execution in site.executions(key)}) == 1


def test_connection_that_ends_the_body_ends_a_whole_response(site):
    key = new_key()
    site.upstream.script({"framing": "close", "body": "whole"}, key=key)
    assert site.send("/up/", key).body == b"whole"
    assert site.state(key) == "completed"


def test_trailers_of_the_request_reach_the_upstream(site):
    key = new_key()
    fields = {"idempotency-key": key, "x-tenant-id": "acme"}
    for _ in range(2):
        with site.connect(http2=True) as connection:
            assert connection.request("POST", "/h2/", fields, b"{}", trailers=[("x-sum", "1")]).status == 200
    (execution,) = site.executions(key)
    assert execution["request_trailers"] == [["x-sum", "1"]]


@pytest.mark.parametrize("hint", ["early hints", "100-continue"])
def test_interim_responses_do_not_count(site, hint):
    key = new_key()
    if hint == "early hints":
        first = site.send("/up/", key, early_hints=True)
    else:
        first = site.send("/up/", key, headers={"expect": "100-continue"})
        assert first.interim == [100]
    assert first.status == 200
    assert site.send("/up/", key).body == first.body
    assert len(site.executions(key)) == 1


# --- What the upstream declares

DECLARED = {"completed": "completed", "retryable": "failed_retryable", "not-run": None, "unknown": "unknown"}


def declaring(value: str) -> list[list[str]]:
    return [["idempotency-outcome", value]]


@every_upstream
@pytest.mark.parametrize("status", [200, 401, 422, 500, 502])
@pytest.mark.parametrize("value", DECLARED)
def test_declared_outcome_beats_the_status(site, path, status, value):
    key, state = new_key(), DECLARED[value]
    with site.counts(**ended(state or "released"), outcome__declared=1):
        first = site.send(path, key, status=status, headers_sent=declaring(value))
    assert (first.status, first.header("idempotency-outcome")) == (status, None)
    assert site.state(key) == state
    retry = site.send(path, key)
    if state == "completed":
        assert (retry.status, retry.body, retry.header("idempotency-outcome")) == (status, first.body, None)
    elif state == "unknown":
        assert code_of(retry) == "idempotency_outcome_unknown"
    else:
        assert (retry.status, len(site.executions(key))) == (200, 2)


def test_outcome_may_be_declared_in_trailers(site):
    key = new_key()
    first = site.send("/h2/", key, http2=True, status=503, trailers=declaring("completed"))
    assert (first.status, first.trailers) == (503, [])
    assert site.send("/h2/", key, http2=True).status == 503
    assert len(site.executions(key)) == 1


def test_declaration_in_trailers_that_envoy_drops_leaves_the_outcome_unknown(site):
    """HTTP/1.1 trailers are dropped unless Envoy is told otherwise; the header that announces them is not."""
    key = new_key()
    with site.counts(**ended("unknown"), outcome__invalid=1):
        first = site.send(
            "/up/",
            key,
            status=503,
            headers_sent=[["trailer", "idempotency-outcome"]],
            trailers=declaring("unknown"),
        )
    assert first.status == 503
    is_unknown(site, "/up/", key)


def test_declaration_never_reaches_a_client_without_a_key(site):
    answer = site.send("/optional/", headers_sent=declaring("completed"))
    assert (answer.status, answer.header("idempotency-outcome")) == (200, None)


@pytest.mark.parametrize("value", ["done", '"completed"', "completed, not-run", "?1"])
def test_declaration_without_a_meaning_is_unknown(site, value):
    key = new_key()
    with site.counts(**ended("unknown"), outcome__invalid=1):
        first = site.send("/up/", key, headers_sent=declaring(value))
    assert first.header("idempotency-outcome") is None
    is_unknown(site, "/up/", key)


def test_declaration_survives_a_truncated_body(site):
    key = new_key()
    site.send("/up/", key, fault="close_mid_body", body_size=1000, headers_sent=declaring("not-run"))
    site.wait_for_state(key, None)
    assert site.send("/up/", key).status == 200


def test_client_cannot_forge_headers_by_underscores(site):
    """CGI and WSGI servers take both forms for the same header."""
    key = new_key()
    forged = {
        "idempotency_attempt": "1",
        "idempotency_recovery_point": "done",
        "idempotency-recovery_point": "done",
        "idempotency_key": "other",
        "x_other": "stays",
    }
    assert site.send("/up/", key, headers=forged).status == 200
    (received,) = site.upstream.log("received", key=key)
    names = {name for name, _ in received["headers"]}
    assert names.isdisjoint(forged.keys() - {"x_other"})
    assert "x_other" in names


# --- Never sent

NEVER_SENT = {
    "connection refused": ("/dead/", 503),
    "no healthy host": ("/empty/", 503),
    "circuit breaker overflow": ("/full/", 503),
    "cluster not found": ("/nowhere/", 503),
    "route not found": ("/no-such-route/", 404),
    "direct response": ("/direct/", 200),
    "redirect": ("/moved/", 301),
}


@every_downstream
@pytest.mark.parametrize("case", NEVER_SENT)
def test_never_sent_releases(site, case, http2):
    path, status = NEVER_SENT[case]
    key = new_key()
    with site.counts(**ended("released")):
        response = site.send(path, key, http2=http2)
    assert response.status == status
    assert response.header("idempotency-key-expires") is None
    assert site.record(key) is None
    assert site.executions(key) == []
    # And again: not "in progress", not "unknown".
    assert site.send(path, key).status == status


DENIALS = {
    "fault filter": ({"x-envoy-fault-abort-request": "503"}, 503),
    "rbac": ({"x-deny": "1"}, 403),
}


@pytest.mark.parametrize("case", DENIALS)
def test_denied_by_a_filter_after_ours_releases(site, case):
    headers, status = DENIALS[case]
    key = new_key()
    with site.counts(**ended("released")):
        assert site.send("/up/", key, headers=headers).status == status
    assert site.record(key) is None
    assert site.send("/up/", key).status == 200


def test_local_reply_that_is_not_recognised_is_unknown(site):
    key = new_key()
    with site.counts(**ended("unknown")):
        assert site.send("/up/", key, headers={"x-lua": "request"}).status == 418
    assert site.state(key) == "unknown"
    assert code_of(site.send("/up/", key)) == "idempotency_outcome_unknown"


def test_denied_by_a_filter_before_ours_claims_nothing(site):
    key = new_key()
    with site.counts():
        assert site.send("/up/", key, headers={"x-deny-early": "1"}).status == 403
    assert site.record(key) is None


def test_refused_stream_is_unknown(site):
    """HAProxy refuses a stream also if its server closed the connection after it had read the request."""
    key = new_key()
    with site.counts(**ended("unknown")):
        assert site.send("/h2/", key, fault="refuse_stream").status == 503
    assert site.state(key) == "unknown"
    assert code_of(site.send("/h2/", key)) == "idempotency_outcome_unknown"


def test_goaway_runs_nothing_twice(site):
    """GOAWAY and the end of the connection race: surely not run, or unknown."""
    key = new_key()
    assert site.send("/h2/", key, fault="goaway").status == 503
    assert site.state(key) in (None, "unknown")
    assert site.executions(key) == []


@pytest.mark.parametrize("round_number", range(4))
def test_refused_after_retries_is_released_only_if_nothing_ran(site, round_number):
    """One host refuses, the other runs the request and closes: the end may look like `all refused`."""
    key = new_key()
    assert site.send("/mixed/", key, fault="close_after_read").status == 503
    assert site.executions(key)
    assert site.state(key) == "unknown"


def test_refused_again_and_again_is_unknown(site):
    """After retries the details tell of the last try alone."""
    key = new_key()
    with site.counts(**ended("unknown")):
        assert site.send("/dead-retry/", key).status == 503
    assert site.state(key) == "unknown"


# --- Sent, and then nobody knows

# How the upstream ends it, and whether its answer had begun: Envoy's own reply then passes our filter by, and
# the end of the stream settles the claim.
CUTS = {
    "closed before the request was read": ({"fault": "close_before_read"}, 0),
    "closed after the request was read": ({"fault": "close_after_read"}, 0),
    "reset after the request was read": ({"fault": "reset_after_read"}, 0),
    "truncated body": ({"fault": "close_mid_body", "body_size": 1000}, 1),
    "truncated chunked body": ({"fault": "close_mid_body", "body_size": 100_000, "framing": "chunked"}, 1),
    "reset within the body": ({"fault": "reset_mid_body", "body_size": 1000}, 1),
}


@every_upstream
@pytest.mark.parametrize("cut", CUTS)
def test_cut_off_is_unknown(site, path, cut):
    behaviour, begun = CUTS[cut]
    key = new_key()
    with site.counts(**ended("unknown"), cut_short=begun):
        response = site.send(path, key, **behaviour)
    # Never a part of the answer: Envoy says that there is none.
    assert response.status in (502, 503)
    assert response.complete
    is_unknown(site, path, key)


@pytest.mark.parametrize("path", ["/slow/", "/per-try/", "/idle/", "/duration/"])
@every_downstream
def test_timeout_is_unknown(site, path, http2):
    key = new_key()
    with site.counts(**ended("unknown")):
        response = site.send(path, key, http2=http2, hold=f"for ever {key}")
    assert response.status == 504
    # No time ends this record.
    assert response.header("idempotency-key-expires") is None
    assert len(site.executions(key)) == 1
    is_unknown(site, path, key)


@pytest.mark.parametrize("path", ["/slow/", "/idle/", "/duration/"])
def test_timeout_within_the_body_is_unknown(site, path):
    key = new_key()
    with site.counts(**ended("unknown"), cut_short=1):
        response = site.send(path, key, fault="hang_mid_body", body_size=1000)
    assert response.status == 504
    is_unknown(site, path, key)


def is_unknown(site: Site, path: str, key: str) -> None:
    site.wait_for_state(key, "unknown")
    runs = len(site.executions(key))
    retry = site.send(path, key)
    assert (retry.status, code_of(retry)) == (409, "idempotency_outcome_unknown")
    assert len(site.executions(key)) == runs


# --- Envoy's clocks while the filter holds


@every_downstream
@pytest.mark.parametrize("path", ["/idle/", "/duration/"])
def test_timeout_while_the_request_is_held_claims_nothing(site, path, http2):
    key = new_key()
    with site.counts(covered=1):
        with site.store_held():
            assert site.send(path, key, http2=http2).status == 504
        # The claim that was under way is taken back.
        site.wait_for_state(key, None)
    assert site.executions(key) == []
    assert site.send(path, key).status == 200


@every_downstream
def test_timeout_while_the_request_waits_for_another(site, http2):
    key = new_key()
    with site.running("/waited-for/", key) as let_go:
        with site.counts(covered=1, waited=1, claim__in_progress=1):
            assert site.send("/wait-idle/", key, http2=http2).status == 504
        assert let_go().status == 200
    assert len(site.executions(key)) == 1


@every_downstream
@pytest.mark.parametrize("path", ["/idle/", "/duration/"])
def test_timeout_while_the_response_is_held_does_not_stop_its_storing(site, path, http2):
    """The client is told 504 for what was done: its retry gets the answer."""
    key = new_key()
    with site.counts(**ended("completed")):
        with site.connect(http2) as connection:
            site.upstream.script({"hold": key, "status": 201}, key=key)
            stream = site.begin(connection, path, key)
            site.upstream.wait_until_held(key)
            with site.store_held():
                site.upstream.release(key)
                assert finish(connection, stream).status == 504
        site.wait_for_state(key, "completed")
    retry = site.send(path, key)
    assert (retry.status, retry.header("idempotent-replayed")) == (201, "true")
    assert len(site.executions(key)) == 1
