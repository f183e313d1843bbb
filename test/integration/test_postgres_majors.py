"""The store's C++ suites on the majors that `bazel test` leaves out: it runs them on Debian's PostgreSQL."""

import os
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from harness.paths import DEFAULT_POSTGRES, POSTGRES_MAJORS, built
from harness.postgres import programs

OTHER_MAJORS = [major for major in POSTGRES_MAJORS if major != DEFAULT_POSTGRES]


def run_suite(name: str, programs_folder: str, folder) -> subprocess.CompletedProcess:
    return subprocess.run(
        [built(f"test/store/postgres/{name}"), f"--gtest_output=xml:{folder / name}.xml"],
        env={**os.environ, "POSTGRES_BIN": str(programs_folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        cwd=folder,
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("suite", ["postgres_contract_test", "postgres_store_test"])
@pytest.mark.parametrize("major", OTHER_MAJORS)
def test_the_store_keeps_its_contract_on(session_workspace, folder, major, suite):
    where = programs(session_workspace, major)
    version = subprocess.run([where / "postgres", "--version"], capture_output=True, text=True).stdout
    assert version.startswith(f"postgres (PostgreSQL) {major}.")
    result = run_suite(suite, where, folder)
    assert result.returncode == 0, result.stdout[-20000:]
    suites = ElementTree.parse(folder / f"{suite}.xml").getroot()
    cases = list(suites.iter("testcase"))
    assert len(cases) >= 40
    assert [case.get("name") for case in cases if case.get("result") != "completed"] == []


def test_a_suite_runs_on_the_server_that_it_is_given_and_on_no_other(folder):
    result = run_suite("postgres_contract_test", folder / "no-postgres-here", folder)
    assert result.returncode != 0
    assert "initdb failed" in result.stdout
