"""Envoy with the filter, before the fast service of the benchmarks."""

import socket

from harness.config import EnvoyConfig
from harness.process import Workspace
from harness.site import Site
from suite.servers import Upstream

# Far less than the requests would fill.
CACHE_BYTES = 2 << 20
# What Envoy keeps for one connection or for one stream; its sockets keep little more.
_BUFFER = 64 << 10
_SMALL_SEND_BUFFER = {"level": socket.SOL_SOCKET, "name": socket.SO_SNDBUF, "int_value": _BUFFER}
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
# A machine that stands still for half a minute must not make the store late.
_PATIENT = {"lease": "300s", "completion_timeout": "60s"}
_ROUTES = {
    "pay": {},
    "hold": {},
    "hold/wait": {"in_flight": {"action": "WAIT", "wait": "60s"}},
    "long": {"max_response_bytes": 64 << 10},
    "small": {"max_request_bytes": 1000},
    "dead": {},
}


def start(workspace: Workspace, store: dict) -> Site:
    """`store`: the filter's, but for its timeout."""
    for settings in store.values():
        settings["timeout"] = "30s"
    routes = {name: {**_PATIENT, **policy} for name, policy in _ROUTES.items()}
    return Site(workspace, routes, store=store, change=_change, upstream=Upstream(workspace))


def _change(config: EnvoyConfig) -> None:
    config.filter(tenant={"sources": [{"fixed": "acme"}]}, replay_cache={"max_bytes": CACHE_BYTES})
    for listener in config.listeners:
        listener["per_connection_buffer_limit_bytes"] = _BUFFER
        listener["socket_options"] = [_SMALL_SEND_BUFFER]
    for manager in config.managers:
        del manager["access_log"]
        manager["http2_protocol_options"] = {"initial_stream_window_size": _BUFFER}
    for route in config.routes:
        route["route"]["timeout"] = "0s"
        if route["name"] == "dead":
            route["route"]["cluster"] = "dead"
    for cluster in config.tree["static_resources"]["clusters"]:
        cluster["per_connection_buffer_limit_bytes"] = _BUFFER
        _close_when_idle(cluster)
    # What is freed goes back to the system at once: what stays is held.
    config.tree["memory_allocator_manager"] = {
        "bytes_to_release": 1 << 30,
        "memory_release_interval": "0.1s",
    }


def _close_when_idle(cluster: dict) -> None:
    """Connections to the upstream are Envoy's, and their number is chance."""
    options = cluster.setdefault("typed_extension_protocol_options", {}).setdefault(
        _HTTP_OPTIONS,
        {
            "@type": "type.googleapis.com/" + _HTTP_OPTIONS,
            "explicit_http_config": {"http_protocol_options": {}},
        },
    )
    options["common_http_protocol_options"] = {"idle_timeout": "1s"}
