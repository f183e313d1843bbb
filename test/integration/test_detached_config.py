"""Configs with detached runs: what is accepted, and what is refused by a message that names the field."""

import pytest
from harness.clients import post
from harness.config import per_route
from harness.envoy import validate
from harness.paths import ENVOY_VERSIONS
from harness.site import PREFIX, new_key

DETACHED = {"detached": {}}
LONGEST = "/" + "p" * 106
BAD_FILTER = {
    "no path": ({"private_listener": {}}, "private_listener.path"),
    "path too long": ({"private_listener": {"path": LONGEST + "p"}}, "private_listener.path"),
    "path not absolute": ({"private_listener": {"path": "runs.sock"}}, "private_listener.path"),
    "no time to accept": (
        {"private_listener": {"path": LONGEST, "accept_timeout": "0s"}},
        "private_listener.accept_timeout",
    ),
    "no runs": ({"private_listener": {"path": LONGEST, "max_runs": 0}}, "private_listener.max_runs"),
    "no such field": ({"private_listener": {"path": LONGEST, "port": 1}}, "port"),
    "no time to run": ({"policy": {"detached": {"timeout": "0s"}}}, "policy.detached.timeout"),
    "too much time": ({"policy": {"detached": {"timeout": "3601s"}}}, "policy.detached.timeout"),
    "no listener": ({"policy": DETACHED}, "private_listener"),
}


def refused(result, name: str) -> None:
    assert result.returncode == 1, result.stdout
    complaints = [line for line in result.stdout.splitlines() if "idempotency" in line and name in line]
    assert complaints, f"no message names {name}:\n{result.stdout}"


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_a_config_with_runs_is_accepted(folder, config, version):
    config.route("/up", DETACHED).route("/brief", {"detached": {"timeout": "0.001s"}})
    config.private_listener(folder / "runs.sock", accept_timeout="0.25s", max_runs=100)
    result = validate(config, folder, version)
    assert result.returncode == 0, result.stdout


def test_the_longest_path_is_accepted(folder, config):
    result = validate(config.filter(private_listener={"path": LONGEST}, policy=DETACHED), folder)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("case", BAD_FILTER)
def test_a_bad_filter_config_is_refused_by_the_name_of_the_field(folder, config, case):
    fields, name = BAD_FILTER[case]
    refused(validate(config.filter(**fields), folder), name)


def test_a_bad_route_config_is_refused_by_the_name_of_the_field(folder, config):
    result = validate(config.route("/bad", {"detached": {"timeout": "0s"}}), folder)
    refused(result, "policy.detached.timeout")


def test_the_run_filter_takes_no_fields(folder, config):
    config.private_listener(folder / "runs.sock")
    (chain,) = config.listeners[-1]["filter_chains"]
    run = chain["filters"][0]["typed_config"]["http_filters"][0]["typed_config"]
    run["filter_config"] = per_route({"stroe": {}})["filter_config"]
    refused(validate(config, folder), "stroe")


def test_a_route_without_a_listener_for_its_runs_is_refused(envoy, config, upstream):
    config.route("/lone", {"enforcement": "REQUIRED", **DETACHED})
    server = envoy(config)
    answer = post(server.url + "/lone", key=new_key())
    assert (answer.status_code, answer.json()["code"]) == (500, "idempotency_config_invalid")
    assert upstream.log() == []
    assert server.stat(PREFIX + "config_invalid") == 1
    assert "private_listener" in server.process.output()
