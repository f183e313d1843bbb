"""Requests that nobody thought of, made by schemathesis from docs/operator-api.yaml, to a real Envoy.

The answers are those of the description, none is a failure, and what the description forbids is refused.
"""

import re
import subprocess
from pathlib import Path

import yaml
from harness.config import OPERATORS
from harness.operators import ACTOR, Operator
from harness.paths import CACHE, ROOT
from harness.site import Site, new_key
from test_operator import leave_unknown, make_site  # noqa: F401

DESCRIPTION = ROOT / "docs" / "operator-api.yaml"
# So many of each endpoint, besides those at the edges of each schema. The seed makes every run the same.
EXAMPLES, SEED = 25, 1
# Left out: Envoy itself answers methods that it does not know.
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
]


def described() -> dict:
    """Without the cursor: each text fits its description, but only one that a page has named is accepted."""
    tree = yaml.safe_load(DESCRIPTION.read_text())
    for path in tree["paths"].values():
        for method in path.values():
            if isinstance(method, dict) and "parameters" in method:
                method["parameters"] = [
                    one for one in method["parameters"] if "Cursor" not in one.get("$ref", "")
                ]
    return tree


def run(
    folder: Path, site: Site, *options: str, tree: dict | None = None
) -> subprocess.CompletedProcess[str]:
    file = folder / "operator-api.yaml"
    file.write_text(yaml.safe_dump(tree or described()))
    command = [CACHE / "venv" / "bin" / "st", "run", file]
    command += ["--url", f"http://127.0.0.1:{site.envoy.port_of(OPERATORS)}/idempotency"]
    command += ["--header", f"{ACTOR}: alice", "--checks", ",".join(CHECKS)]
    command += ["--seed", str(SEED), "--max-examples", str(EXAMPLES), "--no-shrink", "--continue-on-failure"]
    command += ["--request-timeout", "20", "--warnings", "off", "--no-color", *options]
    # It keeps what it finds in the folder where it runs.
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110)


def test_answers_to_any_request_are_those_of_the_description(make_site, folder):  # noqa: F811
    site = make_site()
    unknown = [leave_unknown(site) for _ in range(4)]
    completed = [new_key() for _ in range(4)]
    assert [site.send("/pay/", key).status for key in completed] == [200] * 4
    result = run(folder, site, "--phases", "examples,coverage,fuzzing")
    assert result.returncode == 0, result.stdout
    # It learns the ids of records and their attempts from the answers, so changes were tried on real records.
    assert int(re.search(r"(\d+) generated", result.stdout)[1]) > 500, result.stdout
    counted = site.envoy.stats(r"^idempotency\.operator\.changes")
    tried = {name.split(".")[4] for name in counted}
    assert tried >= {"resolve_completed", "resolve_not_run", "ask_again", "release", "bust", "purge"}
    assert [name for name in counted if name.endswith(".outcome.done")], counted
    assert Operator(site.envoy).get("/healthz") == {"store": "ok"}
    assert site.envoy.module_complaints() == []
    assert len([key for key in unknown + completed if site.state(key)]) < 8


def test_a_read_only_filter_refuses_all_of_them(make_site, folder):  # noqa: F811
    site = make_site(read_only=True)
    keys = [leave_unknown(site) for _ in range(2)]
    before = [site.record(key) for key in keys]
    result = run(folder, site, "--include-tag", "change", "--phases", "fuzzing")
    assert result.returncode == 0, result.stdout
    assert [site.record(key) for key in keys] == before
    assert site.envoy.stats(r"^idempotency\.operator\.changes") == {}


def test_an_answer_that_is_not_described_is_found(make_site, folder):  # noqa: F811
    """What the tests above rely on."""
    tree = described()
    tree["components"]["schemas"]["Health"]["properties"]["store"] = {"const": "well"}
    result = run(folder, make_site(), "--include-operation-id", "health", tree=tree)
    assert result.returncode == 1
    assert "Response violates schema" in result.stdout
