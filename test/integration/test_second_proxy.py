"""A second proxy between Envoy and the service: whatever it answers in the service's place, a retry runs
nothing twice.

The expectations come from the promise: the service runs a request at most once, unless it said itself, in
its only answer, that it may run again. What the second proxy makes of each failure is measured here too, on
every Envoy.
"""

import contextlib
from collections.abc import Iterator

import pytest
from harness.config import EnvoyConfig, http_filter
from harness.paths import ENVOY_VERSIONS
from harness.process import Workspace
from harness.second_proxy import ROUTES, SecondProxy
from harness.site import Site, code_of, new_key
from harness.upstream import Upstream

RESET = "upstream connect error or disconnect/reset before headers. "
PROXY_STATUS = {"proxy_status_config": {"literal_proxy_name": "sidecar"}}
# How the second proxy presents itself: as it comes; with RFC 9209; with that and without details.
MANAGERS = {
    "plain": {},
    "proxy-status": PROXY_STATUS,
    "terse proxy-status": {"proxy_status_config": {"literal_proxy_name": "sidecar", "remove_details": True}},
}


def follow(config: EnvoyConfig, port: int) -> None:
    """All requests go to the second proxy."""
    config.upstream(port, cluster="upstream")
    config.upstream(port, http2=True, cluster="h2")
    config.filter(maintenance={"enabled": False})
    config.route("/h2/", {"enforcement": "REQUIRED"}, cluster="h2", prefix_rewrite="/")


class Chain:
    def __init__(self, workspace: Workspace, version: str, manager: dict, http2: bool) -> None:
        self.upstream = Upstream(workspace)
        self.second = SecondProxy(
            workspace, self.upstream.port, http2=http2, manager=manager, version=version
        )
        policies = {prefix.strip("/"): {} for prefix in ROUTES}
        self.site = Site(
            workspace,
            policies,
            change=lambda config: follow(config, self.second.port),
            upstream=self.upstream,
            version=version,
        )


@pytest.fixture(
    scope="module", params=[(version, name) for version in ENVOY_VERSIONS for name in MANAGERS], ids=str
)
def chain(request, module_workspace: Workspace):
    version, name = request.param
    made = Chain(module_workspace, version, MANAGERS[name], http2=name == "proxy-status")
    yield made
    made.second.stop()
    made.site.close()


# path, what the upstream does, status and text that the second proxy then answers with.
IN_DOUBT = {
    "time-out": ("/timeout/", {"delay_ms": 1500}, 504, "upstream request timeout"),
    "idle time-out": ("/idle/", {"delay_ms": 1500}, 504, "stream timeout"),
    "closed before reading": (
        "/plain/",
        {"fault": "close_before_read"},
        503,
        RESET + "reset reason: connection term",
    ),
    "closed after reading": (
        "/plain/",
        {"fault": "close_after_read"},
        503,
        RESET + "reset reason: connection term",
    ),
    "reset after reading": ("/plain/", {"fault": "reset_after_read"}, 503, RESET + "reset reason: "),
    "per-try time-outs": ("/per-try/", {"delay_ms": 1500}, 504, "upstream request timeout"),
    "retried, closed": (
        "/retries/",
        {"fault": "close_after_read"},
        503,
        RESET + "retried and the latest reset",
    ),
    "retried, refused": (
        "/retry-refused/",
        {"fault": "close_after_read"},
        503,
        RESET + "retried and the latest reset",
    ),
}


def deliveries(chain: Chain, key: str) -> int:
    """How often the front let the request go on: retries of the second proxy carry the same attempt."""
    return len({entry["attempt"] for entry in chain.upstream.log("received", key=key)})


def is_unknown(chain: Chain, path: str, key: str) -> None:
    site, before = chain.site, len(chain.upstream.log("received", key=key))
    assert site.state(key) == "unknown"
    for _ in range(2):
        retry = site.send(path, key)
        assert (retry.status, code_of(retry)) == (409, "idempotency_outcome_unknown")
    assert len(chain.upstream.log("received", key=key)) == before


@pytest.mark.parametrize("case", IN_DOUBT)
def test_what_the_second_proxy_does_not_know_runs_once(chain, case):
    path, behaviour, status, text = IN_DOUBT[case]
    key = new_key()
    chain.upstream.script(behaviour, key=key, repeat=True)
    first = chain.site.send(path, key)
    assert (first.status, first.body.decode()[: len(text)]) == (status, text)
    is_unknown(chain, path, key)
    assert deliveries(chain, key) == 1


def test_retry_that_finds_no_host_ran_before(chain):
    """The text is that of a service without any host, and yet the request was sent."""
    key = new_key()
    chain.upstream.script({"fault": "close_after_read"}, key=key, repeat=True)
    first = chain.site.send("/retry-no-host/", key)
    assert first.status == 503
    assert chain.upstream.executions(key=key)
    is_unknown(chain, "/retry-no-host/", key)


NOT_SENT = {
    "refused": ("/refused/", RESET + "reset reason: remote connection failure"),
    "overflow": ("/overflow/", RESET + "reset reason: overflow"),
}


@pytest.mark.parametrize("case", NOT_SENT)
def test_what_the_second_proxy_did_not_send_is_released(chain, case):
    path, text = NOT_SENT[case]
    key = new_key()
    with chain.site.counts(covered=1, claim__created=1, ended__released=1, outcome__proxy_made=1):
        first = chain.site.send(path, key)
    assert (first.status, first.body.decode()[: len(text)]) == (503, text)
    assert chain.site.record(key) is None
    assert chain.upstream.log("received", key=key) == []


def test_no_host_is_unknown_because_it_may_be_a_retry(chain):
    key = new_key()
    assert chain.site.send("/no-host/", key).body == b"no healthy upstream"
    is_unknown(chain, "/no-host/", key)


@pytest.mark.parametrize("status", [500, 503, 425, 429])
def test_what_the_service_itself_says_may_run_again(chain, status):
    key = new_key()
    first = chain.site.send("/plain/", key, status=status)
    assert (first.status, chain.site.state(key)) == (status, "failed_retryable")
    assert chain.site.send("/plain/", key, status=201).status == 201
    assert deliveries(chain, key) == 2


@pytest.mark.parametrize("status", [408, 502, 504, 501, 599])
def test_what_gateways_say_is_unknown(chain, status):
    key = new_key()
    assert chain.site.send("/plain/", key, status=status).status == status
    is_unknown(chain, "/plain/", key)


def test_result_of_the_service_is_stored(chain):
    key = new_key()
    first = chain.site.send("/plain/", key, status=402)
    retry = chain.site.send("/plain/", key)
    assert (retry.status, retry.body) == (402, first.body)
    assert deliveries(chain, key) == 1


def test_grpc_error_of_the_second_proxy_is_unknown(chain):
    """A gRPC client sees status 200 and UNAVAILABLE, as from a service that is busy."""
    key = new_key()
    chain.upstream.script({"fault": "close_after_read"}, key=key, repeat=True)
    grpc = {"content-type": "application/grpc", "te": "trailers"}
    first = chain.site.send("/h2/plain/", key, http2=True, headers=grpc)
    assert (first.status, first.header("grpc-status")) == (200, "14")
    assert chain.site.state(key) == "unknown"
    assert chain.site.send("/h2/plain/", key, http2=True, headers=grpc).header("grpc-status") == "9"
    assert deliveries(chain, key) == 1


def test_grpc_refusal_of_the_second_proxy_is_unknown(chain):
    """A service that gets this error from another one passes it on in the same words."""
    key = new_key()
    grpc = {"content-type": "application/grpc", "te": "trailers"}
    assert chain.site.send("/h2/refused/", key, http2=True, headers=grpc).header("grpc-status") == "14"
    assert chain.site.state(key) == "unknown"


@pytest.mark.parametrize("status", [400, 404, 502, 503, 504])
def test_text_that_a_service_passes_on_frees_no_key(chain, status):
    """The service ran; then it called another one through its own proxy, and passes on that proxy's error."""
    key = new_key()
    text = RESET + "reset reason: remote connection failure"
    first = chain.site.send("/plain/", key, status=status, body_hex=text.encode().hex())
    assert first.status == status
    retry = chain.site.send("/plain/", key)
    assert retry.status == (409 if status >= 500 else status)
    assert deliveries(chain, key) == 1


@contextlib.contextmanager
def behind_one(workspace: Workspace, policies: dict[str, dict], **proxy) -> Iterator[Site]:
    """A site whose upstream is behind a second proxy of its own."""
    upstream = Upstream(workspace)
    second = SecondProxy(workspace, upstream.port, **proxy)
    site = Site(workspace, policies, change=lambda config: follow(config, second.port), upstream=upstream)
    yield site
    second.stop()
    site.close()


# --- More than one proxy


@pytest.mark.parametrize("name", MANAGERS)
def test_three_proxies_and_a_service_that_dies(session_workspace, name):
    """front → middle, which retries → sidecar → service. The service runs the request and dies; the retry of
    the proxy in the middle ends at a sidecar that cannot reach its service, and says so."""
    upstream = Upstream(session_workspace)
    options = {"manager": MANAGERS[name]}
    near = SecondProxy(session_workspace, upstream.port, routes={"/": {"cluster": "upstream"}}, **options)
    far = SecondProxy(session_workspace, upstream.port, routes={"/": {"cluster": "dead"}}, **options)
    middle = SecondProxy(session_workspace, near.port, other=far.port, **options)
    site = Site(
        session_workspace,
        {"retry-elsewhere": {"server_errors": "UNKNOWN"} if name == "plain" else {}},
        change=lambda config: follow(config, middle.port),
        upstream=upstream,
    )
    key = new_key()
    upstream.script({"fault": "close_after_read"}, key=key, repeat=True)
    first = site.send("/retry-elsewhere/", key)
    assert first.status == 503
    assert len(upstream.executions(key=key)) == 1
    # Without Proxy-Status nothing shows the retry: routes behind such proxies need server_errors UNKNOWN.
    assert code_of(site.send("/retry-elsewhere/", key)) == "idempotency_outcome_unknown"
    assert len(upstream.executions(key=key)) == 1
    for proxy in (middle, near, far):
        proxy.stop()
    site.close()


COMPRESSOR = {
    "name": "envoy.filters.http.compressor",
    "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.compressor.v3.Compressor",
        "response_direction_config": {"common_config": {"min_content_length": 30}},
        "compressor_library": {
            "name": "gzip",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.compression.gzip.compressor.v3.Gzip"
            },
        },
    },
}


def test_compressed_error_of_the_second_proxy_is_unknown(session_workspace):
    with behind_one(session_workspace, {"plain": {}}, filters=[COMPRESSOR]) as site:
        key = new_key()
        site.upstream.script({"fault": "close_after_read"}, key=key)
        first = site.send("/plain/", key, headers={"accept-encoding": "gzip"})
        assert (first.status, first.header("content-encoding")) == (503, "gzip")
        assert code_of(site.send("/plain/", key)) == "idempotency_outcome_unknown"
        assert len(site.executions(key)) == 1


@pytest.mark.parametrize("limit", ["0", "16"])
def test_error_of_the_second_proxy_is_read_where_responses_are_not_kept(session_workspace, limit):
    with behind_one(session_workspace, {"plain": {"max_response_bytes": limit}}) as site:
        key = new_key()
        site.upstream.script({"fault": "close_after_read"}, key=key)
        assert site.send("/plain/", key).status == 503
        assert code_of(site.send("/plain/", key)) == "idempotency_outcome_unknown"
        assert len(site.executions(key)) == 1


def test_retries_that_the_second_proxy_shows_are_believed(session_workspace):
    """Both attempts of the second proxy reach the service, which answers the last with a plain 503."""
    with behind_one(session_workspace, {"per-try": {}, "plain": {}}, count_attempts=True) as site:
        key = new_key()
        site.upstream.script({"delay_ms": 1500}, {"status": 503}, key=key)
        with site.counts(covered=1, claim__created=1, ended__unknown=1, outcome__sent_before=1):
            assert site.send("/per-try/", key).status == 503
        assert len(site.executions(key)) == 2
        assert code_of(site.send("/per-try/", key)) == "idempotency_outcome_unknown"
        # Without a retry the same answer may run again.
        single = new_key()
        assert site.send("/plain/", single, status=503).status == 503
        assert site.state(single) == "failed_retryable"


# What an Envoy can leave out, so that nothing shows that it is one.
DISGUISES = {
    "no details": {"remove_details": True},
    "no flags": {"remove_response_flags": True},
}


@pytest.mark.parametrize("name", DISGUISES)
def test_proxy_status_is_about_the_last_attempt(session_workspace, name):
    """The service has run the request; then the second proxy tries a host that refuses it, and says so."""
    manager = {
        "proxy_status_config": {"literal_proxy_name": "sidecar", **DISGUISES[name]},
        "server_name": "gateway",
        "local_reply_config": {"body_format": {"text_format_source": {"inline_string": "sorry"}}},
    }
    with behind_one(session_workspace, {"retry-refused": {}}, manager=manager) as site:
        key = new_key()
        site.upstream.script({"fault": "close_after_read"}, key=key)
        first = site.send("/retry-refused/", key)
        assert first.header("proxy-status").startswith("sidecar; error=connection_refused")
        assert len(site.executions(key)) == 1
        assert code_of(site.send("/retry-refused/", key)) == "idempotency_outcome_unknown"
        assert len(site.executions(key)) == 1


READS_RESPONSES = http_filter(
    "lua",
    "Lua",
    default_source_code={"inline_string": "function envoy_on_response(handle) handle:body() end"},
)
# How the second proxy presents itself, and its failures.
FAILING = {
    "as it comes": {},
    "its own name": {"server_name": "gateway"},
    "no name": {"server_header_transformation": "PASS_THROUGH"},
    "request id": {"always_set_request_id_in_response": True},
    "via": {"via": "sidecar"},
}


@pytest.mark.parametrize("name", FAILING)
def test_response_that_the_second_proxy_cannot_hold_ran(session_workspace, name):
    """The service has run. The second proxy answers 500, because the response is too long for its filter."""
    options = {"manager": FAILING[name], "filters": [READS_RESPONSES]}
    with behind_one(session_workspace, {"plain": {}}, **options) as site:
        key = new_key()
        first = site.send("/plain/", key, status=201, body_size=3_000_000)
        assert (first.status, first.body) == (500, b"Internal Server Error")
        assert code_of(site.send("/plain/", key)) == "idempotency_outcome_unknown"
        assert len(site.executions(key)) == 1
