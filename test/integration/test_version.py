"""The version stands in the file VERSION, and shows wherever somebody asks which module this is."""

import re

from harness import ctl
from harness.paths import ROOT

VERSION = (ROOT / "VERSION").read_text().strip()


def test_the_version_is_one_that_tools_can_compare():
    assert re.fullmatch(r"\d+\.\d+\.\d+(-(dev|rc\d+))?", VERSION)
    assert (ROOT / "VERSION").read_text() == VERSION + "\n"


def test_a_version_that_is_not_under_way_is_in_the_changelog():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert (VERSION if "-dev" not in VERSION else "Unreleased") in headings


def test_idempotencyctl_tells_its_version():
    done = ctl.run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"idempotencyctl {VERSION}\n", "")


def test_envoy_logs_the_version_once_and_shows_it_as_a_statistic(envoy, config):
    config.listeners.append({**config.copy().listeners[0], "name": "second"})
    server = envoy(config)
    lines = [line for line in server.process.output().splitlines() if "idempotency: version" in line]
    assert len(lines) == 1
    assert re.search(rf"\[info\].* idempotency: version {re.escape(VERSION)}$", lines[0])
    assert (
        f'envoy_idempotency_version{{version="{VERSION}"}} 1'
        in server.admin("/stats/prometheus").splitlines()
    )
