"""The probe module: uses every part of the binding inside a real Envoy, as each request asks in `x-probe`."""

import copy

from .config import EnvoyConfig
from .paths import CACHE
from .ports import free_port

_FOLDER = CACHE / "bazel-opt" / "bin" / "test" / "integration" / "probe"
PROBE_ENV = {"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": str(_FOLDER)}


def probe_config(config: EnvoyConfig) -> EnvoyConfig:
    """The quickstart's configuration with the probe in our filter's place."""
    if not (_FOLDER / "libprobe.so").exists():
        raise FileNotFoundError("libprobe.so is not built: run test/run integration")
    manager = config.managers[0]
    manager["http_filters"][0]["typed_config"].update(
        dynamic_module_config={"name": "probe", "do_not_close": True, "metrics_namespace": "probe"},
        filter_name="probe",
        filter_config=_text("a config"),
    )
    # Chunked requests and trailers reach the filter only so.
    manager["http_protocol_options"] = {"enable_trailers": True}
    manager["access_log"][0]["typed_config"]["log_format"]["text_format_source"]["inline_string"] = (
        "%DYNAMIC_METADATA(probe)% %CUSTOM_FLAGS% %RESPONSE_CODE_DETAILS%\n"
    )
    route, *others = config.routes
    for other in others:
        other.pop("typed_per_filter_config", None)
    route["typed_per_filter_config"]["idempotency"].update(
        dynamic_module_config={"name": "probe", "do_not_close": True},
        filter_name="probe",
        filter_config=_text("a route"),
    )
    route["metadata"] = {"filter_metadata": {"given": {"text": "by the route"}}}
    clusters = config.tree["static_resources"]["clusters"]
    (cluster,) = clusters
    for name in ("dead", "h2"):
        clusters.append({**copy.deepcopy(cluster), "name": name})
    upstream = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
    config.upstream(free_port(), cluster="dead")
    config.upstream(upstream["socket_address"]["port_value"], http2=True, cluster="h2")
    return config.route("/dead", cluster="dead").route("/h2", cluster="h2")


def _text(value: str) -> dict:
    return {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": value}
