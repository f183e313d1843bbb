"""Envoy configurations made from the files that users read: examples/*/envoy*.yaml."""

import copy
from pathlib import Path

import yaml

from .paths import EXAMPLES

_TYPE = "type.googleapis.com/envoy."
_STRUCT = "type.googleapis.com/google.protobuf.Struct"
_FILTER = _TYPE + "extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter"
_PER_ROUTE = _TYPE + "extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute"
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
FILTER_NAME = "idempotency"
# The listener of the operator filter.
OPERATORS = "operators"
_MANAGER = "envoy.filters.network.http_connection_manager"
# What a UNIX socket address has room for.
_LONGEST_PATH = 107


def example_files() -> list[Path]:
    """Every example configuration; the tests load all of them."""
    return sorted(EXAMPLES.glob("*/envoy*.yaml"))


class EnvoyConfig:
    """A parsed configuration and the changes that a test may want. All methods return the config itself."""

    def __init__(self, tree: dict) -> None:
        self.tree = tree

    @classmethod
    def load(cls, path: Path) -> "EnvoyConfig":
        return cls(yaml.safe_load(path.read_text()))

    @classmethod
    def quickstart(cls) -> "EnvoyConfig":
        return cls.load(EXAMPLES / "quickstart" / "envoy.yaml")

    def copy(self) -> "EnvoyConfig":
        return EnvoyConfig(copy.deepcopy(self.tree))

    def text(self) -> str:
        return yaml.safe_dump(self.tree, sort_keys=False, width=1000)

    # --- the way to the test's servers

    def for_test(self, store: dict) -> "EnvoyConfig":
        """Free ports for all that listens, and a store of the test's own.

        Runs are attached: a test of detached ones adds its private listener.
        """
        _socket(self.tree["admin"])["port_value"] = 0
        self.listeners[:] = self.clients_listeners
        for listener in self.listeners:
            _socket(listener)["port_value"] = 0
        for route in self.routes:
            if per_filter := route.get("typed_per_filter_config"):
                per_filter[FILTER_NAME]["filter_config"]["value"]["policy"].pop("detached", None)
        return self.filter(store=store, private_listener=None)

    def upstream(self, *ports: int, http2: bool = False, cluster: str | None = None) -> "EnvoyConfig":
        """Where the cluster (all of them, if not named) sends requests."""
        for entry in self.clusters:
            if cluster not in (None, entry["name"]):
                continue
            entry["type"] = "STATIC"
            entry["load_assignment"] = {
                "cluster_name": entry["name"],
                "endpoints": [{"lb_endpoints": [_endpoint(port) for port in ports]}],
            }
            if http2:
                entry["typed_extension_protocol_options"] = {
                    _HTTP_OPTIONS: {
                        "@type": "type.googleapis.com/" + _HTTP_OPTIONS,
                        "explicit_http_config": {"http2_protocol_options": {}},
                    }
                }
        return self

    def listen(self, port: int) -> "EnvoyConfig":
        _socket(self.listeners[0])["port_value"] = port
        return self

    # --- our filter

    def store(self, store: dict) -> "EnvoyConfig":
        return self.filter(store=store)

    def filter(self, **fields) -> "EnvoyConfig":
        """Sets fields of the filter's own config; None takes a field out."""
        for manager in self.managers:
            value = _our_filter(manager)["filter_config"]["value"]
            for name, field in fields.items():
                if field is None:
                    value.pop(name, None)
                else:
                    value[name] = field
        return self

    def route(
        self,
        prefix: str,
        policy: dict | None = None,
        *,
        cluster: str = "upstream",
        route_config: dict | None = None,
        **route,
    ) -> "EnvoyConfig":
        """A route before all others; `route` holds more fields of Envoy's RouteAction.

        `policy` opts it in. `route_config` gives the whole per-route config instead.
        """
        entry = {
            "name": prefix.strip("/") or "root",
            "match": {"prefix": prefix},
            "route": {"cluster": cluster, **route},
        }
        if policy is not None:
            route_config = {"policy": policy}
        if route_config is not None:
            entry["typed_per_filter_config"] = {FILTER_NAME: per_route(route_config)}
        for manager in self.managers:
            manager["route_config"]["virtual_hosts"][0]["routes"].insert(0, entry)
        return self

    def private_listener(self, path: Path, **fields) -> "EnvoyConfig":
        """The listener on which detached runs are carried out; `fields` are more of the filter's field.

        It has the routes of the first listener, also those that are added later.
        """
        self.filter(private_listener={"path": str(path), **fields})
        self.listeners.append(private_listener(path, self.managers[0]))
        return self

    @property
    def our_value(self) -> dict:
        """The filter's own config, of the first connection manager."""
        return _our_filter(self.managers[0])["filter_config"]["value"]

    def operators_listener(self, store: dict | None = None, **fields) -> "EnvoyConfig":
        """The listener of the operator filter; `fields` are more of the filter's own config."""
        self.listeners.append(operators_listener({**({"store": store} if store else {}), **fields}))
        return self

    def before_ours(self, http_filter: dict) -> "EnvoyConfig":
        """Puts another HTTP filter right before ours."""
        for manager in self.managers:
            filters = manager["http_filters"]
            filters.insert(filters.index(_find_ours(manager)), http_filter)
        return self

    def after_ours(self, http_filter: dict) -> "EnvoyConfig":
        """Puts another HTTP filter right after ours."""
        for manager in self.managers:
            filters = manager["http_filters"]
            filters.insert(filters.index(_find_ours(manager)) + 1, http_filter)
        return self

    def cluster(self, name: str, *ports: int, **fields) -> "EnvoyConfig":
        """One more cluster, like the first; `fields` are Envoy's."""
        self.clusters.append({**copy.deepcopy(self.clusters[0]), "name": name, **fields})
        return self.upstream(*ports, cluster=name)

    # --- the parts of the tree

    @property
    def listeners(self) -> list[dict]:
        return self.tree["static_resources"]["listeners"]

    @property
    def managers(self) -> list[dict]:
        """The HTTP connection managers of the clients' listeners: not those of the other listeners."""
        return _managers_of(self.clients_listeners)

    @property
    def all_managers(self) -> list[dict]:
        return _managers_of(self.listeners)

    @property
    def clients_listeners(self) -> list[dict]:
        return [
            listener
            for listener in self.listeners
            if _is_on_port(listener) and listener.get("name") != OPERATORS
        ]

    @property
    def clusters(self) -> list[dict]:
        return self.tree["static_resources"]["clusters"]

    @property
    def routes(self) -> list[dict]:
        """The routes of the first connection manager."""
        return self.managers[0]["route_config"]["virtual_hosts"][0]["routes"]


def private_listener(path: Path, front: dict) -> dict:
    """The quickstart's private listener, for the connection manager `front`."""
    if len(str(path)) > _LONGEST_PATH:
        raise ValueError(f"too long for a UNIX socket: {path}")
    listener = EnvoyConfig.quickstart().listeners[-1]
    listener["address"]["pipe"]["path"] = str(path)
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    manager["route_config"] = front["route_config"]
    return listener


def operators_listener(value: dict) -> dict:
    """A listener with the operator filter alone."""
    operator_filter = {
        "name": OPERATORS,
        "typed_config": {
            "@type": _FILTER,
            "dynamic_module_config": {
                "name": FILTER_NAME,
                "do_not_close": True,
                "metrics_namespace": FILTER_NAME,
            },
            "filter_name": "idempotency_operator",
            "terminal_filter": True,
            "filter_config": {"@type": _STRUCT, "value": value},
        },
    }
    manager = {
        "@type": _TYPE + "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": OPERATORS,
        "route_config": {"name": OPERATORS, "virtual_hosts": [{"name": OPERATORS, "domains": ["*"]}]},
        "http_filters": [operator_filter],
    }
    return {
        "name": OPERATORS,
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
        "filter_chains": [{"filters": [{"name": _MANAGER, "typed_config": manager}]}],
    }


def per_route(value: dict) -> dict:
    return {
        "@type": _PER_ROUTE,
        "dynamic_module_config": {"name": FILTER_NAME, "do_not_close": True},
        "filter_name": FILTER_NAME,
        "filter_config": {"@type": _STRUCT, "value": value},
    }


def http_filter(name: str, message: str, **fields) -> dict:
    """One of Envoy's own HTTP filters: its name and message below envoy.filters.http and its package."""
    kind = _TYPE + f"extensions.filters.http.{name}.v3.{message}"
    return {"name": f"envoy.filters.http.{name}", "typed_config": {"@type": kind, **fields}}


class _ResourceFile:
    """A part of a config in a file of its own that Envoy watches: the way to change it while Envoy runs."""

    TYPE: str

    def __init__(self, path: Path, config: EnvoyConfig) -> None:
        self._path = path
        self._version = 0
        config.tree["node"] = {"id": "test", "cluster": "test"}

    @property
    def source(self) -> dict:
        return {"resource_api_version": "V3", "path_config_source": {"path": str(self._path)}}

    def write(self, resources: list[dict]) -> None:
        self._version += 1
        _publish(
            self._path,
            self._version,
            [{"@type": _TYPE + self.TYPE, **resource} for resource in resources],
        )


class ListenerFile(_ResourceFile):
    """The clients' listeners (LDS). A private listener is not among them: it stays in the bootstrap, where no
    update drains it."""

    TYPE = "config.listener.v3.Listener"

    def __init__(self, folder: Path, config: EnvoyConfig) -> None:
        """Takes the clients' listeners out of `config` and points it to the file."""
        super().__init__(folder / "listeners.yaml", config)
        self.write(config.listeners)
        config.tree["static_resources"]["listeners"] = [
            listener for listener in config.listeners if not _is_on_port(listener)
        ]
        config.tree.setdefault("dynamic_resources", {})["lds_config"] = self.source

    def write(self, resources: list[dict]) -> None:
        super().write([listener for listener in resources if _is_on_port(listener)])


class ClusterFile(_ResourceFile):
    """All clusters (CDS)."""

    TYPE = "config.cluster.v3.Cluster"

    def __init__(self, folder: Path, config: EnvoyConfig) -> None:
        super().__init__(folder / "clusters.yaml", config)
        self.write(config.clusters)
        config.tree["static_resources"]["clusters"] = []
        for manager in config.all_managers:
            # They are not there yet when Envoy reads the routes.
            manager["route_config"]["validate_clusters"] = False
        config.tree.setdefault("dynamic_resources", {})["cds_config"] = self.source


class RouteFile(_ResourceFile):
    """The routes (RDS), the same for all listeners."""

    TYPE = "config.route.v3.RouteConfiguration"

    def __init__(self, folder: Path, config: EnvoyConfig) -> None:
        super().__init__(folder / "routes.yaml", config)
        routes = config.managers[0]["route_config"]
        self.write([routes])
        for manager in config.all_managers:
            del manager["route_config"]
            manager["rds"] = {"route_config_name": routes["name"], "config_source": self.source}


class FilterFile(_ResourceFile):
    """Our filter's config (ECDS): it changes without its listener."""

    TYPE = "config.core.v3.TypedExtensionConfig"

    def __init__(self, folder: Path, config: EnvoyConfig) -> None:
        """Takes the filter's config out of `config` and points it to the file."""
        super().__init__(folder / "filter.yaml", config)
        self.write_filter(config)
        for manager in config.managers:
            ours = _find_ours(manager)
            del ours["typed_config"]
            ours["config_discovery"] = {"config_source": self.source, "type_urls": [_FILTER]}

    def write_filter(self, config: EnvoyConfig) -> None:
        """The filter as it stands in `config`."""
        self.write([{"name": FILTER_NAME, "typed_config": _our_filter(config.managers[0])}])


def _publish(path: Path, version: int, resources: list[dict]) -> None:
    # Envoy reacts to a file that is moved into place, never to one that is half written.
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump({"version_info": str(version), "resources": resources}))
    new.rename(path)


def _is_on_port(listener: dict) -> bool:
    return "socket_address" in listener["address"]


def _managers_of(listeners: list[dict]) -> list[dict]:
    return [
        network_filter["typed_config"]
        for listener in listeners
        for chain in listener["filter_chains"]
        for network_filter in chain["filters"]
        if network_filter["name"] == _MANAGER
    ]


def _socket(holder: dict) -> dict:
    return holder["address"]["socket_address"]


def _endpoint(port: int) -> dict:
    return {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}}


def _find_ours(manager: dict) -> dict:
    for http_filter in manager["http_filters"]:
        if http_filter["typed_config"]["@type"] == _FILTER:
            return http_filter
    raise AssertionError("the idempotency filter is not in this connection manager")


def _our_filter(manager: dict) -> dict:
    return _find_ours(manager)["typed_config"]
