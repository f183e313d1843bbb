"""A client that stays notices nothing of a detached run, nor does the upstream.

Each test makes the same exchange on a detached route and on an attached one, and compares.
"""

import dataclasses

import httpx
import pytest
from harness import twins
from harness.certificates import Authority
from harness.clients import post
from harness.config import EnvoyConfig
from harness.paths import ENVOY_VERSIONS
from harness.process import Workspace
from harness.site import TENANT, Site, finish, new_key
from harness.wait import wait_for

# The first path of each is detached.
TWINS = {"up http1": ("/up/", "/attached/"), "up http2": ("/h2/", "/attached-h2/")}
REWRITTEN = ("/rewritten/", "/attached-rewritten/")
REQUIRED = {"enforcement": "REQUIRED", "methods": ["POST", "PATCH", "PUT", "DELETE", "LINK"]}
DETACHED = {**REQUIRED, "detached": {}}

every_pair = pytest.mark.parametrize("pair", TWINS.values(), ids=TWINS)
every_downstream = pytest.mark.parametrize("http2", [False, True], ids=["down http1", "down http2"])


def change(config: EnvoyConfig, workspace: Workspace) -> None:
    config.filter(maintenance={"enabled": False})
    pairs = [*TWINS.values(), REWRITTEN]
    for policy, (up, h2, rewritten) in zip((DETACHED, REQUIRED), zip(*pairs, strict=True), strict=True):
        config.route(up, policy)
        config.route(h2, policy, cluster="h2")
        config.route(rewritten, policy, prefix_rewrite="/inner/", host_rewrite_literal="inner.example")
        config.routes[0].update(
            request_headers_to_add=[{"header": {"key": "x-added", "value": "by the route"}}],
            request_headers_to_remove=["x-removed"],
            response_headers_to_add=[{"header": {"key": "x-marked", "value": "by the route"}}],
            response_headers_to_remove=["x-inner"],
        )
    config.private_listener(workspace.new_folder("runs") / "runs.sock")


@pytest.fixture(scope="module", params=[*ENVOY_VERSIONS, "edge"])
def site(request, session_workspace: Workspace):
    """Each Envoy; and the newest as it stands at the edge, where it tells of the client's address."""

    def both(config: EnvoyConfig) -> None:
        change(config, session_workspace)
        if request.param == "edge":
            config.managers[0].update(
                use_remote_address=True, via="edge", forward_client_cert_details="ALWAYS_FORWARD_ONLY"
            )

    options = {} if request.param == "edge" else {"version": request.param}
    made = Site(session_workspace, change=both, **options)
    yield made
    made.close()


# --- What the client gets


def text(value: str) -> dict:
    return {"body_hex": value.encode().hex()}


ANSWERS = {
    "small": text("done"),
    "empty": text(""),
    "no content": {"status": 204},
    "not modified": {"status": 304},
    "not found": {"status": 404, **text("no such thing")},
    "failed": {"status": 500, **text("broken")},
    "bad gateway": {"status": 502, **text("broken")},
    "bytes of every kind": {"body_hex": bytes(range(256)).hex()},
    "chunked": {"body_size": 40_000, "framing": "chunked"},
    "chunked and empty": {**text(""), "framing": "chunked"},
    "ended by the connection": {**text("whole"), "framing": "close"},
    "large": {"body_size": 900_000},
    "too long to be stored": {"body_size": 5_000_000},
    "too long to be stored, and chunked": {"body_size": 5_000_000, "framing": "chunked"},
    "trailers": {**text("sum"), "trailers": [["x-sum", "1"], ["x-sum", "2"], ["x-other", ""]]},
    "trailers after nothing": {**text(""), "trailers": [["x-sum", "1"]]},
    "events": {**text("data: 1\n\n"), "headers_sent": [["content-type", "text/event-stream"]]},
    "headers": {
        **text("done"),
        "headers_sent": [
            ["set-cookie", "a=1; Path=/"],
            ["set-cookie", "b=2"],
            ["date", "Thu, 01 Jan 1970 00:00:00 GMT"],
            ["server", "the service"],
            ["link", "</a>; rel=a, </b>; rel=b"],
            ["link", "</c>; rel=c"],
            ["x-empty", ""],
            ["x-long", "x" * 20_000],
            ["x_under_score", "1"],
            ["retry-after", "7"],
            ["x-envoy-upstream-healthchecked-cluster", "a"],
        ],
    },
    "what a service must not say": {
        **text("done"),
        "headers_sent": [
            ["idempotent-replayed", "true"],
            ["idempotency-stored", "false"],
            ["idempotency-run", "0123456789abcdef0123456789abcdef"],
        ],
    },
}


@every_downstream
@pytest.mark.parametrize("case", ANSWERS)
def test_a_client_gets_the_same_answer(site, http2, case):
    behaviour = ANSWERS[case]
    given = [tuple(pair) for pair in behaviour.get("headers_sent", [])]
    for pair in TWINS.values():
        keys = [new_key(), new_key()]
        for _ in ("the first", "a retry"):
            detached, attached = [
                twins.answer(site.send(path, key, http2=http2, **behaviour), given)
                for path, key in zip(pair, keys, strict=True)
            ]
            assert detached == attached
            end_alike(site, keys)


def end_alike(site: Site, keys: list[str]) -> None:
    """What streams may be with the client before it is recorded."""
    wait_for(lambda: "in_progress" not in {site.state(key) for key in keys}, "both are settled")
    assert site.state(keys[0]) == site.state(keys[1])
    assert len(site.executions(keys[0])) == len(site.executions(keys[1]))


GRPC = {
    "a message": {"body_hex": "0000000002abcd", "trailers": [["grpc-status", "0"], ["grpc-message", ""]]},
    "an error": {**text(""), "trailers": [["grpc-status", "5"], ["grpc-message", "no such"]]},
    "trailers alone": {**text(""), "headers_sent": [["grpc-status", "5"], ["grpc-message", "no such"]]},
    "unavailable": {**text(""), "trailers": [["grpc-status", "14"]]},
}


@pytest.mark.parametrize("case", GRPC)
def test_a_grpc_client_gets_the_same_answer(site, case):
    pair, behaviour = TWINS["up http2"], GRPC[case]
    sent = [["content-type", "application/grpc"], *behaviour.get("headers_sent", [])]
    headers = {"content-type": "application/grpc", "te": "trailers"}
    more = {**behaviour, "headers_sent": sent, "headers": headers, "body": b"\0\0\0\0\2hi"}
    keys = [new_key(), new_key()]
    for _ in ("the first", "a retry"):
        answers = [
            twins.answer(site.send(path, key, http2=True, **more))
            for path, key in zip(pair, keys, strict=True)
        ]
        assert answers[0] == answers[1]
        end_alike(site, keys)


@every_downstream
def test_interim_responses_are_the_same(site, http2):
    hints = {"early_hints": True, **text("done")}
    detached, attached = [
        twins.answer(site.send(path, new_key(), http2=http2, **hints)) for path in TWINS["up http1"]
    ]
    assert detached == attached


# --- What the upstream gets


@dataclasses.dataclass
class Sent:
    headers: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    body: bytes = b"{}"
    method: str = "POST"
    rest: str = ""  # Of the path, after the prefix.
    host: str = "test"
    trailers: list[tuple[str, str]] = dataclasses.field(default_factory=list)


REQUESTS = {
    "plain": Sent(),
    "no body": Sent(body=b""),
    "no body, and says so": Sent([("content-length", "0")], body=b""),
    "one byte": Sent(body=b"1"),
    "bytes of every kind": Sent([("content-type", "application/octet-stream")], body=bytes(range(256))),
    "60 kB": Sent(body=b"x" * 60_000),
    "patch": Sent(method="PATCH"),
    "put": Sent(method="PUT"),
    "delete": Sent(method="DELETE", body=b""),
    "query": Sent(rest="things?b=2&a=1&a=%20&empty=&x"),
    "odd path": Sent(rest="a/../b//c%2Fd;e=1?q=/../%2e"),
    "another host": Sent(host="Shop.example:8443"),
    "repeated headers": Sent([("x-many", "1"), ("x-many", "2"), ("accept", "a"), ("accept", "b, c")]),
    "cookies": Sent([("cookie", "a=1"), ("cookie", "b=2; c=3")]),
    "odd headers": Sent([("x-empty", ""), ("x_under_score", "1"), ("x-bytes", "gr\xfc\xdfe"), ("x-~", "!")]),
    "long headers": Sent([("x-long", "x" * 20_000), ("authorization", "Bearer " + "y" * 8000)]),
    "many headers": Sent([(f"x-{number}", str(number)) for number in range(80)]),
    "from another proxy": Sent(
        [
            ("x-forwarded-for", "10.0.0.1, 192.0.2.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "shop.example"),
            ("forwarded", "for=192.0.2.7;proto=https"),
            ("via", "1.1 other"),
        ]
    ),
    "a client certificate": Sent([("x-forwarded-client-cert", "By=a;Hash=b;URI=spiffe://c")]),
    "a public address": Sent([("x-forwarded-for", "192.0.2.7")]),
    "a request id": Sent([("x-request-id", "1f0ba30b-7e29-4d3c-a6fd-a9fb5a4b1f3e")]),
    "a request id of another form": Sent([("x-request-id", "my own")]),
    "traces": Sent(
        [
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ("tracestate", "a=1"),
            ("x-b3-traceid", "463ac35c9f6413ad48485a3953bb6124"),
        ]
    ),
    "words to envoy": Sent(
        [
            ("x-envoy-upstream-rq-timeout-ms", "9000"),
            ("x-envoy-max-retries", "1"),
            ("x-envoy-retry-on", "5xx"),
            ("x-envoy-original-path", "/other"),
            ("x-envoy-internal", "true"),
            ("x-envoy-decorator-operation", "a"),
        ]
    ),
    "range and conditions": Sent([("range", "bytes=0-1"), ("if-match", '"a"'), ("content-encoding", "br")]),
    "user agent": Sent([("user-agent", "test/1"), ("accept-encoding", "gzip"), ("te", "trailers")]),
}


def send(site: Site, path: str, sent: Sent, http2: bool) -> str:
    """The key that it had."""
    key = new_key()
    pairs = [("idempotency-key", key), (TENANT, "acme"), *sent.headers]
    more = {"trailers": sent.trailers} if http2 else {}
    with site.connect(http2) as connection:
        stream = connection.start(sent.method, path + sent.rest, pairs, sent.body, host=sent.host, **more)
        assert finish(connection, stream).status == 200
    return key


def same_requests(site: Site, pair: tuple[str, str], keys: list[str], sent: Sent) -> None:
    detached, attached = [
        twins.request(site.upstream, key, path, sent.headers) for path, key in zip(pair, keys, strict=True)
    ]
    assert detached == attached
    assert "idempotency-run" not in dict(detached["headers"])


@every_downstream
@pytest.mark.parametrize("case", REQUESTS)
def test_the_upstream_gets_the_same_request(site, http2, case):
    sent = REQUESTS[case]
    for pair in TWINS.values():
        same_requests(site, pair, [send(site, path, sent, http2) for path in pair], sent)


def test_a_method_that_http1_does_not_know_is_the_same(site):
    sent, pair = Sent(method="LINK"), TWINS["up http2"]
    same_requests(site, pair, [send(site, path, sent, http2=True) for path in pair], sent)


@every_pair
def test_a_path_that_http1_does_not_know_is_the_same(site, pair):
    sent = Sent(rest="caf\xe9?name=gr\xfc\xdfe&empty=%FC")
    same_requests(site, pair, [send(site, path, sent, True) for path in pair], sent)


@every_pair
def test_a_length_that_http2_announces_is_kept(site, pair):
    sent = Sent([("content-length", "2")])
    same_requests(site, pair, [send(site, path, sent, http2=True) for path in pair], sent)


@every_pair
def test_trailers_of_the_request_are_the_same(site, pair):
    sent = Sent(trailers=[("x-sum", "1"), ("x-sum", "2")])
    same_requests(site, pair, [send(site, path, sent, http2=True) for path in pair], sent)


@every_pair
@pytest.mark.parametrize("body", [b"", b"1", b"x" * 70_000], ids=["empty", "one byte", "70 kB"])
def test_a_chunked_request_is_the_same(site, pair, body):
    keys = []
    for path in pair:
        keys.append(new_key())
        head = f"POST {path} HTTP/1.1\r\nhost: test\r\nidempotency-key: {keys[-1]}\r\n{TENANT}: acme\r\n"
        chunks = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
        with site.connect() as connection:
            connection.send(head.encode() + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
            assert connection.read_response().status == 200
    same_requests(site, pair, keys, Sent())


@every_pair
def test_a_request_that_waits_for_100_is_the_same(site, pair):
    sent = Sent([("expect", "100-continue")])
    same_requests(site, pair, [send(site, path, sent, http2=False) for path in pair], sent)


@every_pair
@every_downstream
def test_a_large_request_is_the_same(site, pair, http2):
    keys = [new_key(), new_key()]
    for path, key in zip(pair, keys, strict=True):
        url, headers = site.envoy.url + path, {TENANT: "acme", "content-type": "text/plain"}
        assert post(url, key, http2=http2, headers=headers, content=b"x" * 900_000).status_code == 200
    same_requests(site, pair, keys, Sent())


@every_downstream
def test_what_the_route_changes_it_changes_once(site, http2):
    sent = Sent([("x-removed", "1"), ("x-added", "by the client")], rest="things?a=1")
    same_requests(site, REWRITTEN, [send(site, path, sent, http2) for path in REWRITTEN], sent)
    behaviour = {**text("done"), "headers_sent": [["x-inner", "1"], ["x-marked", "by the service"]]}
    detached, attached = [
        twins.answer(site.send(path, new_key(), http2=http2, **behaviour)) for path in REWRITTEN
    ]
    assert detached == attached


# --- TLS


def test_a_run_for_a_client_with_tls_is_the_same(workspace):
    authority = Authority(workspace.new_folder("authority"))
    tls = authority.listener_tls(*authority.issue("server", "IP:127.0.0.1"), client_required=False)

    def both(config: EnvoyConfig) -> None:
        change(config, workspace)
        config.managers[0]["use_remote_address"] = True
        config.listeners[0]["filter_chains"][0]["transport_socket"] = tls

    site = Site(workspace, change=both)
    for pair in TWINS.values():
        keys = [new_key(), new_key()]
        with httpx.Client(verify=authority.client_context(None), timeout=30) as client:
            for path, key in zip(pair, keys, strict=True):
                headers = {"idempotency-key": key, TENANT: "acme"}
                url = f"https://127.0.0.1:{site.port}{path}"
                assert client.post(url, headers=headers, content=b"{}").status_code == 200
        same_requests(site, pair, keys, Sent())
        assert ("x-forwarded-proto", "https") in twins.request(site.upstream, keys[0], pair[0])["headers"]
    site.close()
