"""Answers too long to be held stream on to the client, whole, and are never replayed nor run again.

Above all: never Envoy's own 500 for a response that succeeded, however the parts of it arrive.
"""

import json

import httpx
import pytest
from harness.clients import post
from harness.config import EnvoyConfig
from harness.paths import ENVOY_VERSIONS
from harness.process import Workspace
from harness.site import Site, code_of, new_key

# Of the listener, and so of Envoy's own buffers. Far below what some routes hold.
BUFFER = 32 * 1024
# The smallest: a body comes in many parts, and only while somebody takes them.
WINDOWS = {"initial_stream_window_size": 65535, "initial_connection_window_size": 65535}
PATHS = {"up http1": "/up/", "up http2": "/h2/"}
ROUTES = {
    "up": {"max_response_bytes": 1000},
    "large": {"max_response_bytes": 8_000_000, "max_request_bytes": 8_000_000},
    "none": {"max_response_bytes": 0},
    "default": {},
}

every_path = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
every_downstream = pytest.mark.parametrize("http2", [False, True], ids=["down http1", "down http2"])
every_framing = pytest.mark.parametrize("framing", ["length", "chunked"])


@pytest.fixture(scope="module", params=ENVOY_VERSIONS)
def site(request, session_workspace: Workspace):
    def change(config: EnvoyConfig) -> None:
        config.filter(maintenance={"enabled": False})
        config.listeners[0]["per_connection_buffer_limit_bytes"] = BUFFER
        for cluster in config.tree["static_resources"]["clusters"]:
            cluster["per_connection_buffer_limit_bytes"] = BUFFER
        config.managers[0]["http2_protocol_options"] = WINDOWS
        (h2,) = [c for c in config.tree["static_resources"]["clusters"] if c["name"] == "h2"]
        (options,) = h2["typed_extension_protocol_options"].values()
        options["explicit_http_config"]["http2_protocol_options"] = WINDOWS
        config.route("/h2/", {"enforcement": "REQUIRED", **ROUTES["up"]}, cluster="h2")
        config.route("/large-h2/", {"enforcement": "REQUIRED", **ROUTES["large"]}, cluster="h2")

    made = Site(session_workspace, ROUTES, change=change, version=request.param)
    yield made
    made.close()


def tombstone() -> dict[str, int]:
    return {"covered": 1, "claim__created": 1, "ended__tombstone": 1}


@every_path
@every_downstream
@every_framing
@pytest.mark.parametrize("size", [1001, BUFFER, 3_000_000])
def test_a_response_over_the_limit_streams_on(site, path, http2, framing, size):
    key = new_key()
    with site.counts(**tombstone()):
        first = site.send(path, key, http2=http2, status=201, body_size=size, framing=framing)
        assert (first.status, first.complete, len(first.body)) == (201, True, size)
        assert first.header("idempotency-key-expires")
        assert first.header("idempotency-stored") is None
    record = site.record(key)
    assert (record["state"], record["status"], record["tombstone"]) == ("completed", 201, "too_large")
    retry = site.send(path, key)
    assert (retry.status, code_of(retry)) == (409, "idempotency_response_unavailable")
    assert json.loads(retry.body)["original_status"] == 201
    assert len(site.executions(key)) == 1


@every_downstream
@every_framing
@pytest.mark.parametrize("size", [1024 * 1024 + 1, 5_000_000])
def test_a_response_over_the_default_limit_streams_on(site, http2, framing, size):
    """Envoy may hold as much as the filter does, and not a byte more: the next piece must not be too much."""
    key = new_key()
    with site.counts(**tombstone()):
        first = site.send("/default/", key, http2=http2, body_size=size, framing=framing)
    assert (first.status, first.complete, len(first.body)) == (200, True, size)


@every_path
@every_framing
def test_the_longest_response_is_stored(site, path, framing):
    key = new_key()
    first = site.send(path, key, body_size=1000, framing=framing)
    second = site.send(path, key)
    assert (second.body, second.header("idempotent-replayed")) == (first.body, "true")
    assert len(first.body) == 1000


@every_path
def test_a_long_response_that_failed_lets_the_next_request_run(site, path):
    key = new_key()
    assert len(site.send(path, key, status=503, body_size=5000).body) == 5000
    site.wait_for_state(key, "failed_retryable")
    assert site.send(path, key).status == 200


@every_path
def test_a_long_response_that_is_no_result_releases(site, path):
    key = new_key()
    first = site.send(path, key, status=401, body_size=5000)
    assert (first.status, len(first.body)) == (401, 5000)
    assert first.header("idempotency-key-expires") is None
    site.wait_for_state(key, None)
    assert site.send(path, key).status == 200


@every_path
def test_a_long_response_with_trailers_streams_on(site, path):
    key = new_key()
    first = site.send(path, key, http2=True, body_size=50_000, trailers=[["x-sum", "1"]])
    assert len(first.body) == 50_000
    assert first.trailers == ([("x-sum", "1")] if path == "/h2/" else [])
    site.wait_for_state(key, "completed")
    assert site.record(key)["tombstone"] == "too_large"


def test_with_a_limit_of_none_only_empty_responses_are_stored(site):
    empty, other = new_key(), new_key()
    assert site.send("/none/", empty, status=204).status == 204
    assert site.send("/none/", empty).header("idempotent-replayed") == "true"
    assert site.send("/none/", other, body_size=1).body == b"0"
    site.wait_for_state(other, "completed")
    assert code_of(site.send("/none/", other)) == "idempotency_response_unavailable"


@pytest.mark.parametrize("path", ["/large/", "/large-h2/"], ids=PATHS)
@every_downstream
@every_framing
@pytest.mark.parametrize("size", [BUFFER + 1, 5_000_000])
def test_a_response_over_envoys_own_limit_is_stored_and_replayed(site, path, http2, framing, size):
    """What our limit allows, Envoy's must not forbid."""
    key = new_key()
    first = site.send(path, key, http2=http2, body_size=size, framing=framing)
    assert (first.status, first.complete, len(first.body)) == (200, True, size)
    second = site.send(path, key, http2=http2)
    assert second.header("idempotent-replayed") == "true"
    assert second.body == first.body
    assert len(site.executions(key)) == 1


@every_downstream
@pytest.mark.parametrize("path", ["/large/", "/large-h2/"], ids=PATHS)
def test_a_request_over_envoys_own_limit_is_held(site, path, http2):
    key = new_key()
    headers = {"x-tenant-id": "acme", "content-type": "application/json"}

    def send(letter: str) -> httpx.Response:
        body = json.dumps({"text": letter * 2_000_000}).encode()
        return post(site.envoy.url + path, key, http2=http2, headers=headers, content=body)

    first, second, other = send("x"), send("x"), send("y")
    assert first.status_code == 200
    assert (second.content, second.headers["idempotent-replayed"]) == (first.content, "true")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    (execution,) = site.executions(key)
    assert execution["request_size"] > 2_000_000


@every_path
@every_downstream
def test_server_sent_events_reach_the_client_as_they_come(site, path, http2):
    """Unheld: the first events are there while the upstream has not ended. Never replayed."""
    key = new_key()
    events = "data: 1\n\ndata: 2\n\n"
    headers = [["content-type", "text/event-stream"]]
    site.upstream.script({"headers": headers, "body": events, "framing": "chunked"}, key=key)
    with site.counts(**tombstone()):
        first = site.send(path, key, http2=http2)
        assert (first.status, first.body) == (200, events.encode())
    assert site.record(key)["tombstone"] == "too_large"
    assert code_of(site.send(path, key)) == "idempotency_response_unavailable"
    assert len(site.executions(key)) == 1


@every_path
def test_endless_events_stream(site, path):
    """Half of them is with the client while the upstream hangs."""
    key = new_key()
    headers = [["content-type", "text/event-stream"]]
    site.upstream.script(
        {"headers": headers, "body": "data: 1234\n\n" * 2, "fault": "hang_mid_body"}, key=key
    )
    with site.connect() as connection:
        site.begin(connection, path, key)
        received = b""
        while b"data: 1234" not in received:
            received += connection.socket.recv(65536)
    assert received.startswith(b"HTTP/1.1 200")
    site.wait_for_state(key, "unknown")


@every_path
def test_a_long_response_that_breaks_off_is_unknown(site, path):
    key = new_key()
    first = site.send(path, key, body_size=3_000_000, fault="close_mid_body")
    assert first.status == 200
    assert not first.complete
    site.wait_for_state(key, "unknown")
    assert code_of(site.send(path, key)) == "idempotency_outcome_unknown"
