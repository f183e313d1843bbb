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
        """Free ports for all that listens, and a store of the test's own."""
        _socket(self.tree["admin"])["port_value"] = 0
        for listener in self.listeners:
            _socket(listener)["port_value"] = 0
        return self.store(store)

    def upstream(self, *ports: int, http2: bool = False, cluster: str | None = None) -> "EnvoyConfig":
        """Where the cluster (all of them, if not named) sends requests."""
        for entry in self.tree["static_resources"]["clusters"]:
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
        clusters = self.tree["static_resources"]["clusters"]
        clusters.append({**copy.deepcopy(clusters[0]), "name": name, **fields})
        return self.upstream(*ports, cluster=name)

    # --- the parts of the tree

    @property
    def listeners(self) -> list[dict]:
        return self.tree["static_resources"]["listeners"]

    @property
    def managers(self) -> list[dict]:
        """The HTTP connection managers."""
        return [
            network_filter["typed_config"]
            for listener in self.listeners
            for chain in listener["filter_chains"]
            for network_filter in chain["filters"]
            if network_filter["name"] == "envoy.filters.network.http_connection_manager"
        ]

    @property
    def routes(self) -> list[dict]:
        """The routes of the first connection manager."""
        return self.managers[0]["route_config"]["virtual_hosts"][0]["routes"]


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


class ListenerFile:
    """Listeners in a file of their own that Envoy watches: the way to change them while it runs."""

    def __init__(self, folder: Path, config: EnvoyConfig) -> None:
        """Takes the listeners out of `config` and points it to the file."""
        self._path = folder / "listeners.yaml"
        self._version = 0
        self.write(config.listeners)
        config.tree["static_resources"]["listeners"] = []
        config.tree["node"] = {"id": "test", "cluster": "test"}
        config.tree["dynamic_resources"] = {
            "lds_config": {
                "resource_api_version": "V3",
                "path_config_source": {"path": str(self._path)},
            }
        }

    def write(self, listeners: list[dict]) -> None:
        self._version += 1
        listener_type = _TYPE + "config.listener.v3.Listener"
        _publish(self._path, self._version, [{"@type": listener_type, **listener} for listener in listeners])


class FilterFile:
    """Our filter's config in a file of its own that Envoy watches (ECDS): it changes without its listener."""

    def __init__(self, folder: Path, config: EnvoyConfig) -> None:
        """Takes the filter's config out of `config` and points it to the file."""
        self._path = folder / "filter.yaml"
        self._version = 0
        self.write(config)
        for manager in config.managers:
            ours = _find_ours(manager)
            del ours["typed_config"]
            ours["config_discovery"] = {
                "config_source": {
                    "resource_api_version": "V3",
                    "path_config_source": {"path": str(self._path)},
                },
                "type_urls": [_FILTER],
            }
        config.tree["node"] = {"id": "test", "cluster": "test"}

    def write(self, config: EnvoyConfig) -> None:
        """The filter as it stands in `config`."""
        self._version += 1
        resource = {
            "@type": _TYPE + "config.core.v3.TypedExtensionConfig",
            "name": FILTER_NAME,
            "typed_config": _our_filter(config.managers[0]),
        }
        _publish(self._path, self._version, [resource])


def _publish(path: Path, version: int, resources: list[dict]) -> None:
    # Envoy reacts to a file that is moved into place, never to one that is half written.
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump({"version_info": str(version), "resources": resources}))
    new.rename(path)


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
