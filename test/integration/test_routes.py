"""The config of a route reaches the filter: what is refused and what passes depends on it."""

import pytest
from harness.clients import post
from harness.paths import ENVOY_VERSIONS

KEY = '"0123456789abcdef"'
REQUIRED = {"enforcement": "REQUIRED"}


def problem(response) -> tuple[int, str | None]:
    return response.status_code, response.json().get("code")


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_a_key_is_required_on_the_route_that_says_so_and_nowhere_else(envoy, config, upstream, version):
    server = envoy(config, version)
    assert problem(post(f"{server.url}/payments")) == (400, "idempotency_key_missing")
    assert not upstream.log()
    assert post(f"{server.url}/payments", key=KEY).status_code == 200
    assert post(f"{server.url}/other").status_code == 200
    assert [entry["path"] for entry in upstream.executions()] == ["/payments", "/other"]
    assert server.stat("idempotency.key_missing") == 1
    assert "outcome=idempotency_key_missing" in server.process.output()


def test_a_route_without_config_falls_back_to_the_filter(envoy, config, upstream):
    server = envoy(config.filter(policy=REQUIRED))
    assert problem(post(f"{server.url}/other")) == (400, "idempotency_key_missing")
    assert not upstream.log()


def test_a_route_beats_the_filter_field_by_field(envoy, config):
    config.filter(policy={**REQUIRED, "min_key_length": 4})
    server = envoy(config.route("/longer", {"min_key_length": 8}).route("/open", {"enforcement": "OPTIONAL"}))
    assert post(f"{server.url}/open").status_code == 200
    assert post(f"{server.url}/open", key='"1234"').status_code == 200
    assert problem(post(f"{server.url}/longer", key='"1234"')) == (400, "idempotency_key_invalid")
    assert problem(post(f"{server.url}/longer")) == (400, "idempotency_key_missing")


def test_routes_differ_in_the_methods_that_they_cover(envoy, config, upstream):
    server = envoy(config.route("/put", {**REQUIRED, "methods": ["PUT"]}))
    assert post(f"{server.url}/put").status_code == 200
    assert len(upstream.executions()) == 1


def test_a_virtual_hosts_config_covers_its_routes_and_a_route_beats_it(envoy, config):
    per_route = config.routes[0]["typed_per_filter_config"]
    config.route("/open", {"enforcement": "OFF"})
    config.managers[0]["route_config"]["virtual_hosts"][0]["typed_per_filter_config"] = per_route
    server = envoy(config)
    assert problem(post(f"{server.url}/other")) == (400, "idempotency_key_missing")
    assert post(f"{server.url}/open").status_code == 200


def test_a_route_may_switch_the_filter_off_or_configure_it_in_envoys_own_wrapper(envoy, config):
    wrapper = "type.googleapis.com/envoy.config.route.v3.FilterConfig"
    config.filter(policy=REQUIRED).route("/disabled", {}).route("/wrapped", {"min_key_length": 30})
    wrapped, disabled = config.routes[0], config.routes[1]
    assert disabled["name"] == "disabled"
    disabled["typed_per_filter_config"] = {"idempotency": {"@type": wrapper, "disabled": True}}
    inner = wrapped["typed_per_filter_config"]["idempotency"]
    wrapped["typed_per_filter_config"] = {"idempotency": {"@type": wrapper, "config": inner}}
    server = envoy(config)
    assert post(f"{server.url}/disabled").status_code == 200
    assert problem(post(f"{server.url}/wrapped", key=KEY)) == (400, "idempotency_key_invalid")
    assert problem(post(f"{server.url}/other")) == (400, "idempotency_key_missing")
