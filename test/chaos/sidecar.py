"""A second Envoy, without the filter, between a gateway and the service: the ordinary mesh.

It answers in the service's place when it has to, as any proxy does: then the answer does not tell whether the
service has run the request. A request chooses what it meets here by the header x-sidecar:

    hasty      a time-out that is shorter than the service's work
    refused    a service that nobody listens for
    overflow   a circuit breaker that is open
    empty      a cluster without a host
    pushy      retries after a time-out of each try
    stubborn   retries after a reset; `stubborn_watch` is the way that they take
"""

import copy

from harness.config import EnvoyConfig
from harness.envoy import Envoy
from harness.ports import free_port
from harness.process import Workspace
from observer import Observer

_TYPE = "type.googleapis.com/envoy."
_MANAGER = _TYPE + "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = _TYPE + "extensions.filters.http.router.v3.Router"
HASTE = 0.3  # Seconds.
_PATIENCE = "1.2s"


class Sidecar:
    def __init__(self, workspace: Workspace, service_port: int, closed_port: int) -> None:
        self.port = free_port()
        self.telling_port = free_port()  # Its answers carry Proxy-Status (RFC 9209).
        self.watch = Observer(lambda: service_port, postgres=False)
        self.stubborn_watch = Observer(lambda: service_port, postgres=False)
        self._workspace, self._closed_port = workspace, closed_port
        self._envoy: Envoy | None = None

    @property
    def watches(self) -> list[Observer]:
        return [self.watch, self.stubborn_watch]

    def start(self) -> None:
        """Blocks until it answers; nothing if it runs. The watches must listen."""
        if self._envoy is None or self._envoy.process.exit_code is not None:
            self._envoy = Envoy(self._workspace, self._config(), concurrency=1, load_module=False)

    def _config(self) -> EnvoyConfig:
        full = {"thresholds": [{"max_connections": 0, "max_pending_requests": 0}]}
        return EnvoyConfig(
            {
                "admin": {"address": _address(0)},
                "static_resources": {
                    "listeners": [
                        _listener("plain", self.port, {}),
                        _listener("telling", self.telling_port, {"proxy_status_config": {}}),
                    ],
                    "clusters": [
                        _cluster("service", self.watch.port),
                        _cluster("stubborn", self.stubborn_watch.port),
                        _cluster("closed", self._closed_port),
                        {**_cluster("full", self.watch.port), "circuit_breakers": full},
                        _cluster("empty"),
                    ],
                },
            }
        )


def _routes() -> list[dict]:
    pushed = {"retry_on": "5xx,reset", "num_retries": 1, "per_try_timeout": f"{HASTE}s"}
    resent = {"retry_on": "reset,connect-failure", "num_retries": 1}
    chosen = {
        "hasty": {"cluster": "service", "timeout": f"{HASTE}s"},
        "refused": {"cluster": "closed"},
        "overflow": {"cluster": "full"},
        "empty": {"cluster": "empty"},
        "pushy": {"cluster": "service", "retry_policy": pushed},
        "stubborn": {"cluster": "stubborn", "retry_policy": resent},
    }
    routes = [
        {
            "match": {
                "prefix": "/",
                "headers": [{"name": "x-sidecar", "string_match": {"exact": name}}],
            },
            "route": route,
        }
        for name, route in chosen.items()
    ]
    return [*routes, {"match": {"prefix": "/"}, "route": {"cluster": "service", "timeout": _PATIENCE}}]


def _listener(name: str, port: int, more: dict) -> dict:
    manager = {
        "@type": _MANAGER,
        "stat_prefix": name,
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": _ROUTER}}],
        "route_config": {
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": copy.deepcopy(_routes())}]
        },
        **more,
    }
    network_filter = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    return {"name": name, "address": _address(port), "filter_chains": [{"filters": [network_filter]}]}


def _cluster(name: str, *ports: int) -> dict:
    hosts = [{"endpoint": {"address": _address(port)}} for port in ports]
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}]},
    }


def _address(port: int) -> dict:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
