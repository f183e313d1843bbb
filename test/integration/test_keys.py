"""What a request gets for its key and tenant alone, in a real Envoy."""

import pytest
from harness.clients import post
from harness.paths import ENVOY_VERSIONS
from harness.wait import wait_for
from harness.wire import Http1Connection

KEY = '"0123456789abcdef"'


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_a_missing_key_is_refused_with_a_problem(envoy, config, upstream, version):
    server = envoy(config, version)
    response = post(server.url + "/payments")
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json() == {
        "type": "about:blank",
        "title": "Idempotency-Key is missing",
        "status": 400,
        "detail": "This operation requires an Idempotency-Key header. "
        "Use a new key for each new request, and the same key for retries.",
        "code": "idempotency_key_missing",
    }
    assert upstream.executions() == []
    assert server.stat("idempotency.key_missing") == 1
    assert server.stat("idempotency.covered") == 0


BAD_KEYS = {
    "token": "0123456789abcdef",
    "integer": "1234567890123456",
    "byte sequence": ":MDEyMzQ1Njc4OWFiY2RlZg==:",
    "boolean": "?1",
    "list": f"{KEY}, {KEY}",
    "open quote": '"0123456789abcdef',
    "bad escape": '"0123456789abcde\\f"',
    "not ascii": '"0123456789abcdé"',
    "bad parameter": f"{KEY};A=1",
    "too short": '"0123456789abcde"',
    "too long": f'"{"k" * 256}"',
    "empty": '""',
}


@pytest.fixture
def server(envoy, config):
    return envoy(config)


@pytest.mark.parametrize("case", BAD_KEYS)
def test_a_bad_key_is_refused_and_not_repeated(server, upstream, case):
    with Http1Connection(server.port) as connection:
        response = connection.request("POST", "/payments", {"idempotency-key": BAD_KEYS[case]}, b"{}")
    assert response.status == 400
    assert b"idempotency_key_invalid" in response.body
    assert b"0123456789" not in response.body
    assert upstream.executions() == []
    assert server.stat("idempotency.key_invalid") == 1
    assert "0123456789" not in server.process.output()


def test_two_header_lines_are_refused(server, upstream):
    with Http1Connection(server.port) as connection:
        lines = [("idempotency-key", KEY), ("Idempotency-Key", KEY)]
        response = connection.request("POST", "/payments", lines, b"{}")
    assert response.status == 400
    assert upstream.executions() == []


@pytest.mark.parametrize("key", [KEY, f"{KEY};a=1;b", f'"{"k" * 255}"', '"with \\"quotes\\" and \\\\"'])
def test_a_good_key_reaches_the_upstream_as_sent(server, upstream, key):
    assert post(server.url + "/payments", key=key).status_code == 200
    (received,) = upstream.log("received")
    assert ["idempotency-key", key] in received["headers"]
    assert server.stat("idempotency.covered") == 1


def test_routes_have_their_own_rules(envoy, config, upstream):
    config.route("/optional", {"enforcement": "OPTIONAL", "key_syntax": "RAW"})
    config.route("/either", {"enforcement": "REQUIRED", "key_syntax": "EITHER", "min_key_length": 1})
    config.route("/put", {"enforcement": "REQUIRED", "methods": ["PUT"]})
    server = envoy(config)
    assert post(server.url + "/optional").status_code == 200
    assert post(server.url + "/optional", key="0123456789abcdef").status_code == 200
    assert post(server.url + "/optional", key="short").status_code == 400
    assert post(server.url + "/either", key="k").status_code == 200
    # The same key in the other syntax.
    assert post(server.url + "/either", key='"k"').headers["idempotent-replayed"] == "true"
    assert post(server.url + "/put").status_code == 200
    assert len(upstream.executions()) == 4


def test_unprotected_posts_are_counted_by_route(server, upstream):
    for _ in range(3):
        assert post(server.url + "/other").status_code == 200
    assert server.stat("idempotency.unprotected.route.everything-else") == 3
    assert 'envoy_idempotency_unprotected{route="everything-else"} 3' in server.admin("/stats/prometheus")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("x-tenant-id", "acme")], 200),
        ([], 403),
        ([("x-tenant-id", "")], 403),
        ([("x-tenant-id", "acme"), ("x-tenant-id", "other")], 403),
    ],
)
def test_the_tenant_comes_from_one_trusted_header(envoy, config, upstream, headers, status):
    server = envoy(config.filter(tenant={"sources": [{"header": "x-tenant-id"}]}))
    with Http1Connection(server.port) as connection:
        response = connection.request("POST", "/payments", [("idempotency-key", KEY), *headers], b"{}")
    assert response.status == status
    assert len(upstream.executions()) == (status == 200)
    assert server.stat("idempotency.tenant_missing") == (status == 403)


def test_a_contradiction_between_route_and_filter_refuses(envoy, config, upstream):
    config.filter(policy={"max_key_length": 20}).route(
        "/narrow", {"enforcement": "REQUIRED", "min_key_length": 30}
    )
    server = envoy(config)
    response = post(server.url + "/narrow", key=KEY)
    assert response.status_code == 500
    assert response.json()["code"] == "idempotency_config_invalid"
    assert upstream.executions() == []
    assert server.stat("idempotency.config_invalid") == 1
    assert "min_key_length" in server.process.output()


def test_the_access_log_shows_the_outcome(server):
    post(server.url + "/payments")
    for _ in range(2):
        post(server.url + "/payments", key=KEY)
    for outcome in ("400 outcome=idempotency_key_missing", "200 outcome=stored", "200 outcome=replayed"):
        wait_for(
            lambda line=f"POST /payments {outcome}": line in server.process.output(),
            lambda line=outcome: f"{line!r} in:\n{server.process.tail()}",
            deadline=20,
        )


def test_grpc_requests_get_a_grpc_status(server, upstream):
    response = post(server.url + "/payments", http2=True, headers={"content-type": "application/grpc"})
    assert response.headers["grpc-status"] == "3"
    assert "idempotency_key_missing" in response.headers["grpc-message"]
    assert upstream.executions() == []
