"""Asynchronous requests: 202 first, and the response later, at a URL or by the same request again."""

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest
from harness.config import EnvoyConfig
from harness.ctl import migrate
from harness.envoy import validate
from harness.paths import ENVOY_VERSIONS
from harness.process import Workspace
from harness.site import TENANT, Site, code_of, finish, new_key
from harness.wait import wait_for
from harness.wire import WireResponse

RUNS = "/idempotency/runs/"
ASYNC = {"prefer": "respond-async"}
ROUTES = {
    "async": {"detached": {"respond_async": "ON_REQUEST", "max_wait": "2s"}},
    "always": {"detached": {"respond_async": "ALWAYS"}},
    "never": {"detached": {}},
    "attached": {},
}

every_downstream = pytest.mark.parametrize("http2", [False, True], ids=["down http1", "down http2"])


def with_runs(config: EnvoyConfig, workspace: Workspace, secret: str = "a secret of some length") -> None:
    folder = workspace.new_folder("runs")
    (folder / "secret").write_text(secret + "\n")
    config.filter(
        status_resource={"prefix": RUNS, "secret_file": str(folder / "secret")},
        maintenance={"enabled": False},
    )
    config.private_listener(folder / "runs.sock")


@pytest.fixture(scope="module", params=[*ENVOY_VERSIONS, "postgres"])
def site(request, session_workspace: Workspace):
    options = {"version": request.param}
    if request.param == "postgres":
        server = request.getfixturevalue("shared_postgres")
        conninfo = server.conninfo(server.create_database())
        migrate(conninfo)
        options = {"store": {"postgres": {"conninfo": conninfo, "timeout": "20s"}}}

    def change(config: EnvoyConfig) -> None:
        config.route("/h2/", {"enforcement": "REQUIRED", **ROUTES["always"]}, cluster="h2")
        config.route("/dead/", {"enforcement": "REQUIRED", **ROUTES["async"]}, cluster="dead")
        with_runs(config, session_workspace)

    made = Site(session_workspace, ROUTES, change=change, **options)
    yield made
    made.close()


def ask(site: Site, location: str, tenant: str | None = "acme", **options) -> WireResponse:
    """For the status of a run."""
    with site.connect(options.pop("http2", False)) as connection:
        headers = {} if tenant is None else {TENANT: tenant}
        return connection.request("GET", location, {**headers, **options.pop("headers", {})}, **options)


def is_accepted(response: WireResponse, location: str | None = None) -> str:
    """The URL of the status resource."""
    assert (response.status, code_of(response)) == (202, "idempotency_in_progress")
    assert response.header("content-type") == "application/json"
    assert int(response.header("retry-after")) >= 1
    assert response.header("idempotency-key-expires") or location
    assert response.header("location").startswith(RUNS)
    assert location in (None, response.header("location"))
    return response.header("location")


@contextlib.contextmanager
def accepted(
    site: Site, path: str, key: str, headers: dict | None = None, http2: bool = False, **answer
) -> Iterator[tuple[str, Callable]]:
    """A run that the upstream holds, and whose client has its 202: the URL, and what lets it go on."""
    gate = f"gate of {key}"
    response = site.send(path, key, http2=http2, headers=headers or {}, hold=gate, **answer)
    location = is_accepted(response)
    site.upstream.wait_until_held(gate)
    yield location, lambda: site.upstream.release(gate)
    site.upstream.release(gate)
    site.wait_until_idle()


# --- The way of one request


@every_downstream
def test_first_202_then_the_response(site, http2):
    key = new_key()
    with accepted(site, "/async/", key, ASYNC, http2, status=201, body_size=5000) as (location, let_go):
        assert site.state(key) == "in_progress"
        is_accepted(ask(site, location, http2=http2), location)
        let_go()
        site.wait_for_state(key, "completed")
    answers = [ask(site, location, http2=http2), site.send("/async/", key, http2=http2, headers=ASYNC)]
    (execution,) = site.executions(key)
    for answer in answers:
        assert (answer.status, len(answer.body)) == (201, 5000)
        assert answer.header("x-execution") == str(execution["execution"])
        assert answer.header("idempotent-replayed") == "true"
    assert answers[0].body == answers[1].body


def test_the_answer_says_which_preference_it_follows(site):
    key = new_key()
    first = site.send("/async/", key, headers=ASYNC, hold=key)
    is_accepted(first)
    assert first.header("preference-applied") == "respond-async"
    site.upstream.wait_until_held(key)
    site.upstream.release(key)
    site.wait_for_state(key, "completed")


def test_a_retry_of_a_run_in_progress_gets_the_same_url(site):
    key = new_key()
    with accepted(site, "/async/", key, ASYNC) as (location, _):
        with site.until_counted("respond_async"), site.until_counted("claim.in_progress"):
            is_accepted(site.send("/async/", key, headers=ASYNC), location)
        # A client that does not ask for it gets what the policy says.
        assert code_of(site.send("/async/", key)) == "idempotency_in_progress"
        assert site.send("/async/", key, headers=ASYNC, body=b"[1]").status == 422
    assert len(site.executions(key)) == 1


def test_every_request_of_a_route_may_be_asynchronous(site):
    key = new_key()
    with accepted(site, "/always/", key, status=201) as (location, let_go):
        let_go()
        site.wait_for_state(key, "completed")
    assert ask(site, location).status == 201
    assert len(site.executions(key)) == 1


@pytest.mark.parametrize("path", ["/never/", "/attached/"])
def test_where_the_policy_does_not_allow_it_the_preference_is_for_the_upstream(site, path):
    key = new_key()
    answer = site.send(path, key, headers={"prefer": "respond-async, wait=0"}, status=201)
    assert (answer.status, answer.header("preference-applied")) == (201, None)
    (received,) = site.upstream.log("received", key=key)
    assert dict(received["headers"])["prefer"] == "respond-async, wait=0"


def test_other_preferences_are_for_the_upstream(site):
    key = new_key()
    with accepted(site, "/async/", key, {"prefer": 'return=minimal; a="b, c", Respond-Async'}):
        (received,) = site.upstream.log("received", key=key)
        assert dict(received["headers"])["prefer"] == 'return=minimal; a="b, c"'
    key = new_key()
    with accepted(site, "/async/", key, ASYNC):
        (received,) = site.upstream.log("received", key=key)
        assert "prefer" not in dict(received["headers"])


def test_a_grpc_client_waits(site):
    grpc = {"content-type": "application/grpc", "te": "trailers"}
    answer = {"headers_sent": [["content-type", "application/grpc"]], "trailers": [["grpc-status", "0"]]}
    response = site.send("/h2/", new_key(), http2=True, headers=grpc, body=b"\0\0\0\0\0", **answer)
    assert (response.status, response.trailers) == (200, [("grpc-status", "0")])


# --- Waiting


@every_downstream
@pytest.mark.parametrize("path", ["/async/", "/always/"])
def test_a_response_within_the_wait_is_sent_at_once(site, path, http2):
    key = new_key()
    headers = {"prefer": "respond-async, wait=30"}
    handed_over = {"detached__runs": 1, "detached__handed_over": 1}
    with site.counts(covered=1, claim__created=1, ended__completed=1, **handed_over):
        response = site.send(path, key, http2=http2, headers=headers, status=201)
    assert (response.status, response.header("idempotent-replayed")) == (201, None)
    assert response.header("location") is None


def test_202_comes_when_the_wait_is_over(site):
    key = new_key()
    headers = {"prefer": "wait=1, respond-async"}
    with accepted(site, "/async/", key, headers, status=201) as (location, let_go):
        let_go()
        site.wait_for_state(key, "completed")
    assert ask(site, location).status == 201


def test_the_wait_has_a_limit(site):
    """The policy's, of two seconds, and the answer does not claim another."""
    key = new_key()
    response = site.send("/async/", key, headers={"prefer": "respond-async, wait=3600"}, hold=key)
    is_accepted(response)
    assert response.header("preference-applied") == "respond-async"
    site.upstream.release(key)
    site.wait_for_state(key, "completed")


def test_a_retry_waits_for_the_run(site):
    key = new_key()
    with accepted(site, "/async/", key, ASYNC, status=201) as (_, let_go), site.connect() as connection:
        with site.until_counted("waited"):
            site.begin(connection, "/async/", key, headers={"prefer": "respond-async, wait=2"})
        let_go()
        response = finish(connection, None)
        assert (response.status, response.header("idempotent-replayed")) == (201, "true")


def test_a_client_that_leaves_while_it_waits_loses_nothing(site, leave):
    key = new_key()
    headers = {"prefer": "respond-async, wait=2"}
    with site.running_alone("/async/", key, leave, headers=headers, status=201) as let_go:
        let_go()
        site.wait_for_state(key, "completed")
    assert site.send("/async/", key).status == 201
    assert len(site.executions(key)) == 1


# --- How a run ends


def test_a_run_that_could_not_start_is_not_accepted(workspace):
    def change(config: EnvoyConfig) -> None:
        with_runs(config, workspace)
        config.filter(private_listener={"path": str(workspace.new_folder("none") / "runs.sock")})

    site = Site(workspace, ROUTES, change=change)
    for headers in (ASYNC, {"prefer": "respond-async, wait=2"}):
        key = new_key()
        response = site.send("/async/", key, headers=headers)
        assert (response.status, code_of(response)) == (503, "idempotency_detached_unavailable")
        assert site.record(key) is None
    site.close(may_complain=True)


def end_of(site: Site, state: str | None, **answer) -> tuple[str, str]:
    """The key and the URL of a run that has ended so."""
    key = new_key()
    with accepted(site, "/async/", key, ASYNC, **answer) as (location, let_go):
        let_go()
        site.wait_for_state(key, state)
    return key, location


def test_a_retryable_failure_asks_for_the_request_again(site):
    key, location = end_of(site, "failed_retryable", status=503)
    response = ask(site, location)
    assert (response.status, code_of(response)) == (409, "idempotency_run_not_completed")
    assert site.send("/async/", key, status=201).status == 201
    assert ask(site, location).status == 201
    assert len(site.executions(key)) == 2


def test_a_refusal_leaves_no_record(site):
    _, location = end_of(site, None, status=403)
    response = ask(site, location)
    assert (response.status, code_of(response)) == (404, "idempotency_run_not_found")


def test_an_unknown_outcome_is_reported(site):
    key, location = end_of(site, "unknown", fault="reset_after_read")
    response = ask(site, location)
    assert (response.status, code_of(response)) == (409, "idempotency_outcome_unknown")
    assert len(site.executions(key)) == 1


def test_a_response_that_is_not_stored_is_reported(site):
    _, location = end_of(site, "completed", status=201, body_size=3_000_000)
    response = ask(site, location)
    assert (response.status, code_of(response)) == (409, "idempotency_response_unavailable")
    assert json.loads(response.body)["original_status"] == 201


# --- The status resource


@pytest.fixture(scope="module")
def done(site) -> tuple[str, str]:
    """A completed run: key and URL."""
    return end_of(
        site, "completed", status=201, headers_sent=[["cache-control", "max-age=60"], ["etag", "1"]]
    )


def test_no_cache_keeps_what_it_answers(site, done):
    _, location = done
    for answer in (ask(site, location), ask(site, location + "00"), ask(site, location, None)):
        assert answer.all("cache-control") == ["no-store"]
    assert ask(site, location).header("etag") == "1"


def test_the_url_does_not_show_the_key(site, done):
    key, location = done
    bare = json.loads(key)
    assert bare not in location
    assert bare.encode().hex() not in location
    assert "async" not in location.removeprefix(RUNS)


def test_another_tenant_finds_nothing(site, done):
    response = ask(site, done[1], tenant="bolt")
    assert (response.status, code_of(response)) == (404, "idempotency_run_not_found")


def test_without_a_tenant_it_is_refused(site, done):
    response = ask(site, done[1], tenant=None)
    assert (response.status, code_of(response)) == (403, "idempotency_tenant_missing")


STRANGE = {
    "another digit": lambda token: token[:-1] + ("0" if token[-1] != "0" else "1"),
    "upper case": lambda token: token.upper(),
    "shorter": lambda token: token[:-2],
    "half a byte less": lambda token: token[:-1],
    "longer": lambda token: token + "00",
    "no digits": lambda token: "z" * len(token),
    "empty": lambda token: "0",
    "tag alone": lambda token: token[:32],
    "very long": lambda token: token * 100,
    "a part": lambda token: f"{token}/",
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_strange_url_finds_nothing_and_runs_nothing(site, done, case):
    before = len(site.upstream.log())
    path = RUNS + STRANGE[case](done[1].removeprefix(RUNS))
    response = ask(site, path)
    assert (response.status, code_of(response)) == (404, "idempotency_run_not_found")
    assert len(site.upstream.log()) == before


@every_downstream
def test_a_query_and_a_body_change_nothing(site, done, http2):
    before = len(site.upstream.log())
    answer = ask(site, done[1] + "?a=1", http2=http2, body=b"{}", headers={"idempotency-key": '"x"'})
    assert answer.status == 201
    assert len(site.upstream.log()) == before


def test_other_methods_and_paths_pass(site, done):
    """They are the route's business."""
    for method, path in (("POST", done[1]), ("GET", "/idempotency/"), ("GET", "/idempotency/runs")):
        with site.connect() as connection:
            headers = {TENANT: "acme", "idempotency-key": new_key()}
            assert connection.request(method, path, headers).status == 200
    # Nothing follows the prefix: it names no run.
    assert ask(site, RUNS).status == 200


def test_an_unavailable_store_is_reported(workspace):
    """Nothing is made up, and nothing runs."""

    def change(config: EnvoyConfig) -> None:
        with_runs(config, workspace)
        config.filter(replay_cache={"max_bytes": 0})

    lone = Site(workspace, ROUTES, change=change)
    _, location = end_of(lone, "completed", status=201)
    lone.config.filter(store={"postgres": {"conninfo": "host=127.0.0.1 port=1", "timeout": "1s"}})
    lone.envoy.stop()
    lone.start()
    response = ask(lone, location)
    assert (response.status, code_of(response)) == (503, "idempotency_store_unavailable")
    assert response.header("retry-after")


def test_the_url_outlives_envoy_and_works_on_another_one(workspace, migrated):
    store = {"postgres": {"conninfo": migrated, "timeout": "20s"}}
    sites = [
        Site(workspace, ROUTES, store=store, change=lambda config: with_runs(config, workspace))
        for _ in range(2)
    ]
    key, location = end_of(sites[0], "completed", status=201)
    assert ask(sites[1], location).status == 201
    sites[0].envoy.kill9()
    sites[0].start()
    assert ask(sites[0], location).status == 201
    other = Site(
        workspace,
        ROUTES,
        store=store,
        change=lambda config: with_runs(config, workspace, "another secret, as long"),
    )
    assert ask(other, location).status == 404
    assert len(sites[0].executions(key)) == 1


def test_runs_in_progress_after_a_kill_are_unknown(workspace):
    routes = {"async": {**ROUTES["async"], "lease": "2s", "completion_timeout": "1s"}}
    site = Site(workspace, routes, change=lambda config: with_runs(config, workspace))
    key = new_key()
    location = is_accepted(site.send("/async/", key, headers=ASYNC, hold="gate"))
    site.upstream.wait_until_held("gate")
    site.envoy.kill9()
    site.start()
    response = wait_for(
        lambda: (got := ask(site, location)).status != 202 and got, "the lease is over", deadline=30
    )
    assert (response.status, code_of(response)) == (409, "idempotency_outcome_unknown")
    assert len(site.executions(key)) == 1


# --- Configs

STATUS = {"prefix": RUNS, "secret_file": "/run/secrets/runs"}
BAD = {
    "no resource": ({"policy": {"detached": {"respond_async": "ALWAYS"}}}, "status_resource"),
    "no prefix": ({"status_resource": {**STATUS, "prefix": ""}}, "status_resource.prefix"),
    "no slash at the end": ({"status_resource": {**STATUS, "prefix": "/runs"}}, "status_resource.prefix"),
    "no slash at the start": ({"status_resource": {**STATUS, "prefix": "runs/"}}, "status_resource.prefix"),
    "a query": ({"status_resource": {**STATUS, "prefix": "/runs/?/"}}, "status_resource.prefix"),
    "no secret": ({"status_resource": {"prefix": RUNS}}, "status_resource.secret_file"),
    "no file": ({"status_resource": {**STATUS, "secret_file": "runs"}}, "status_resource.secret_file"),
    "no such mode": ({"policy": {"detached": {"respond_async": "SOMETIMES"}}}, "respond_async"),
    "a principal": (
        {
            "status_resource": STATUS,
            "policy": {
                "detached": {"respond_async": "ALWAYS"},
                "fingerprint": {"principal": {"header": "x-user"}},
            },
        },
        "fingerprint.principal",
    ),
    "too long a wait": ({"policy": {"detached": {"max_wait": "61s"}}}, "policy.detached.max_wait"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_config_is_refused_by_the_name_of_the_field(folder, config, case):
    fields, name = BAD[case]
    config.private_listener(folder / "runs.sock")
    result = validate(config.filter(**fields), folder)
    assert result.returncode != 0
    assert name in result.stdout


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_a_good_config_is_accepted(folder, config, version):
    config.private_listener(folder / "runs.sock").filter(
        status_resource=STATUS, policy={"detached": {"respond_async": "ON_REQUEST", "max_wait": "0s"}}
    )
    result = validate(config, folder, version)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("content", ["", "fifteen bytes..\n", None], ids=["empty", "short", "missing"])
def test_a_secret_that_cannot_be_used_is_refused(workspace, content):
    def change(config: EnvoyConfig) -> None:
        with_runs(config, workspace)
        file = workspace.new_folder("secret") / "secret"
        if content is not None:
            file.write_text(content)
        config.filter(status_resource={"prefix": RUNS, "secret_file": str(file)})

    with pytest.raises(Exception, match=r"status_resource\.secret_file"):
        Site(workspace, ROUTES, change=change)


def test_the_status_resource_is_counted(site, done):
    with site.until_counted("status_requests"):
        ask(site, done[1])
