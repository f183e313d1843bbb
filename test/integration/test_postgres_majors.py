"""The store's C++ suites on the majors that `bazel test` leaves out: it runs them on Debian's PostgreSQL."""

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.paths import DEFAULT_POSTGRES, POSTGRES_MAJORS, built
from harness.postgres import programs

OTHER_MAJORS = [major for major in POSTGRES_MAJORS if major != DEFAULT_POSTGRES]


# How many processes share the cases of a suite, each with a server of its own. They mostly wait.
SHARDS = {"postgres_contract_test": 1, "postgres_store_test": 3}


def run_suite(name: str, programs_folder, folder, shard: int = 0, shards: int = 1):
    """The process and where it writes its results."""
    results = folder / f"{name}.{shard}.xml"
    done = subprocess.run(
        [built(f"test/store/postgres/{name}"), f"--gtest_output=xml:{results}"],
        env={
            **os.environ,
            "POSTGRES_BIN": str(programs_folder),
            "GTEST_TOTAL_SHARDS": str(shards),
            "GTEST_SHARD_INDEX": str(shard),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        cwd=folder,
    )
    return done, results


@pytest.mark.timeout(300)
@pytest.mark.parametrize("suite", SHARDS)
@pytest.mark.parametrize("major", OTHER_MAJORS)
def test_the_store_keeps_its_contract_on(session_workspace, folder, major, suite):
    where = programs(session_workspace, major)
    version = subprocess.run([where / "postgres", "--version"], capture_output=True, text=True).stdout
    assert version.startswith(f"postgres (PostgreSQL) {major}.")
    shards = SHARDS[suite]
    with ThreadPoolExecutor(shards) as pool:
        runs = list(pool.map(lambda shard: run_suite(suite, where, folder, shard, shards), range(shards)))
    for done, _ in runs:
        assert done.returncode == 0, done.stdout[-20000:]
    cases = [case for _, results in runs for case in ElementTree.parse(results).getroot().iter("testcase")]
    ran = [case.get("name") for case in cases if case.get("result") == "completed"]
    assert len(ran) >= 40
    assert len(ran) == len(cases)


def test_a_suite_runs_on_the_server_that_it_is_given_and_on_no_other(folder):
    result, _ = run_suite("postgres_contract_test", folder / "no-postgres-here", folder)
    assert result.returncode != 0
    assert "initdb failed" in result.stdout
