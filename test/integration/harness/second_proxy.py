"""A second, stock Envoy between the front Envoy and the upstream, as a sidecar or an inner gateway is.

Its path prefix says what it does with a request: see ROUTES.
"""

from .config import EnvoyConfig
from .envoy import Envoy
from .ports import free_port
from .process import Workspace

_TYPE = "type.googleapis.com/envoy."
_MANAGER = "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = {
    "name": "envoy.filters.http.router",
    "typed_config": {"@type": _TYPE + "extensions.filters.http.router.v3.Router"},
}


def _retries(retry_on: str, **fields) -> dict:
    return {"num_retries": 1, "retry_back_off": {"base_interval": "0.1s"}, "retry_on": retry_on, **fields}


_OTHER_PRIORITY = {
    "name": "envoy.retry_priorities.previous_priorities",
    "typed_config": {
        "@type": _TYPE + "extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig",
        "update_frequency": 1,
    },
}

# Prefix → fields of Envoy's RouteAction.
ROUTES = {
    "/plain/": {"cluster": "upstream"},
    "/timeout/": {"cluster": "upstream", "timeout": "0.3s"},
    "/idle/": {"cluster": "upstream", "idle_timeout": "0.3s"},
    "/refused/": {"cluster": "dead"},
    "/no-host/": {"cluster": "empty"},
    "/overflow/": {"cluster": "full"},
    "/per-try/": {"cluster": "upstream", "retry_policy": _retries("gateway-error", per_try_timeout="0.3s")},
    "/retries/": {"cluster": "upstream", "retry_policy": _retries("5xx")},
    # The upstream gets the request, and the retry is sent to a host that refuses it,
    "/retry-refused/": {"cluster": "pair", "retry_policy": _retries("reset", retry_priority=_OTHER_PRIORITY)},
    # or to another proxy,
    "/retry-elsewhere/": {"cluster": "pair", "retry_policy": _retries("5xx", retry_priority=_OTHER_PRIORITY)},
    # or finds no host: the only one was ejected after its failure.
    "/retry-no-host/": {"cluster": "ejecting", "retry_policy": _retries("reset")},
}


def _address(port: int) -> dict:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _cluster(name: str, *ports: int, **fields) -> dict:
    """One priority for each port, so that a retry can be sent to another."""
    endpoints = [
        {"priority": priority, "lb_endpoints": [{"endpoint": {"address": _address(port)}}]}
        for priority, port in enumerate(ports)
    ]
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": endpoints},
        **fields,
    }


class SecondProxy(Envoy):
    def __init__(
        self,
        workspace: Workspace,
        upstream: int,
        *,
        http2: bool = False,
        manager: dict | None = None,
        count_attempts: bool = False,
        routes: dict[str, dict] | None = None,
        other: int | None = None,
        filters: list[dict] | None = None,
        **options,
    ) -> None:
        """`http2`: how it speaks to the upstream. `manager`: more fields of its HTTP connection manager.
        `count_attempts`: its responses tell how often it sent the request. `routes`: in place of ROUTES.
        `other`: the second host of the cluster `pair`; one that refuses by default. `filters`: before the
        router."""
        protocol = {}
        if http2:
            kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
            protocol["typed_extension_protocol_options"] = {
                kind: {
                    "@type": "type.googleapis.com/" + kind,
                    "explicit_http_config": {"http2_protocol_options": {}},
                }
            }
        routes = [
            {"match": {"prefix": prefix}, "route": {"prefix_rewrite": prefix, **action}}
            for prefix, action in (routes or ROUTES).items()
        ]
        tree = {
            "admin": {"address": _address(0)},
            "static_resources": {
                "listeners": [
                    {
                        "name": "second",
                        "address": _address(0),
                        "filter_chains": [
                            {
                                "filters": [
                                    {
                                        "name": "envoy.filters.network.http_connection_manager",
                                        "typed_config": {
                                            "@type": _TYPE + _MANAGER,
                                            "stat_prefix": "second",
                                            "codec_type": "AUTO",
                                            "http_filters": [*(filters or []), _ROUTER],
                                            "route_config": {
                                                "virtual_hosts": [
                                                    {
                                                        "name": "all",
                                                        "domains": ["*"],
                                                        "routes": routes,
                                                        "include_attempt_count_in_response": count_attempts,
                                                    }
                                                ]
                                            },
                                            **(manager or {}),
                                        },
                                    }
                                ]
                            }
                        ],
                    }
                ],
                "clusters": [
                    _cluster("upstream", upstream, **protocol),
                    _cluster("dead", free_port()),
                    _cluster("empty"),
                    _cluster(
                        "full",
                        upstream,
                        circuit_breakers={"thresholds": [{"max_pending_requests": 0}]},
                        **protocol,
                    ),
                    _cluster("pair", upstream, other or free_port(), **protocol),
                    _cluster(
                        "ejecting",
                        upstream,
                        outlier_detection={"consecutive_5xx": 1, "max_ejection_percent": 100},
                        common_lb_config={"healthy_panic_threshold": {"value": 0}},
                        **protocol,
                    ),
                ],
            },
        }
        super().__init__(workspace, EnvoyConfig(tree), load_module=False, concurrency=1, **options)
