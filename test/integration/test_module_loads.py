"""Every supported Envoy loads the module and serves requests through it."""

import pytest
from harness.clients import Request, post, send_many, send_multiplexed
from harness.config import EnvoyConfig
from harness.paths import ENVOY_VERSIONS
from harness.upstream import behave
from harness.wire import Http1Connection, Http2Connection

every_envoy = pytest.mark.parametrize("version", ENVOY_VERSIONS)


@every_envoy
def test_requests_pass_and_envoy_has_no_complaint_about_the_module(envoy, config, upstream, version):
    server = envoy(config, version)
    assert f"/{version}/" in server.admin("/server_info").replace('"', "/")
    for path in ("/payments", "/other"):
        response = post(server.url + path, key='"0123456789abcdef"', content=b"{}")
        assert response.status_code == 200
        assert response.headers["x-execution"]
    assert [entry["path"] for entry in upstream.executions()] == ["/payments", "/other"]
    assert server.stop() == 0
    assert server.module_complaints() == []


@every_envoy
@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_bodies_and_trailers_pass_unchanged(envoy, config, upstream, version, http2):
    config.upstream(upstream.port, http2=http2)
    server = envoy(config, version)
    kind = Http2Connection if http2 else Http1Connection
    with kind(server.port) as connection:
        script = behave(body_size=300_000, trailers=[["x-sum", "7"]], headers=[["x-a", "1"], ["x-a", "2"]])
        headers = {**script, "idempotency-key": '"0123456789abcdef"'}
        response = connection.request("POST", "/payments", headers, b"x" * 50_000)
    assert response.complete
    assert response.all("x-a") == ["1", "2"]
    (entry,) = upstream.executions()
    assert entry["request_size"] == 50_000
    assert len(response.body) == 300_000
    # Envoy drops HTTP/1.1 trailers unless it is told otherwise.
    assert response.trailers == ([("x-sum", "7")] if http2 else [])


SENDERS = {
    "http1": lambda port, requests: send_many(port, requests, concurrency=32),
    "http2": lambda port, requests: send_many(port, requests, concurrency=32, http2=True),
    "http2 streams": send_multiplexed,
}


@every_envoy
@pytest.mark.parametrize("senders", SENDERS)
def test_many_requests_at_once_are_all_answered(envoy, config, upstream, version, senders):
    server = envoy(config, version)
    requests = [Request.keyed("/payments", f'"{n:032}"') for n in range(200)]
    answers = SENDERS[senders](server.port, requests)
    assert [answer for answer in answers if answer.status != 200 or not answer.complete] == []
    assert len({answer.body for answer in answers}) == 200
    assert len(upstream.executions()) == 200


def test_a_missing_module_is_a_complaint(envoy, config):
    """The check for complaints above would find one."""
    for manager in config.managers:
        manager["http_filters"][0]["typed_config"]["dynamic_module_config"]["name"] = "nowhere"
    with pytest.raises(AssertionError, match=r"ended with 1(.|\n)*libnowhere\.so"):
        envoy(config)


@every_envoy
def test_deprecated_use_of_the_module_is_a_complaint(envoy, config: EnvoyConfig, version):
    """The check for complaints above would find a warning of Envoy's."""
    per_route = config.routes[0]["typed_per_filter_config"]["idempotency"]
    per_route["per_route_config_name"] = per_route.pop("filter_name")
    assert any("deprecated" in line for line in envoy(config, version).module_complaints())
