"""The examples that need a database, as a new user meets them. The quickstart has tests of its own."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from harness.guard import started_at
from harness.paths import CACHE, DEFAULT_ENVOY, ENVOY_VERSIONS, EXAMPLES, ROOT
from harness.process import Process
from harness.wait import wait_for

WITH_DETACHED_RUNS = ["postgres", "mesh"]
WITH_DATABASE = [*WITH_DETACHED_RUNS, "payments"]


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [EXAMPLES / example / "run", *arguments], capture_output=True, text=True, timeout=170
    )


def test_every_example_is_run_by_a_test():
    found = sorted(path.parent.name for path in EXAMPLES.glob("*/run"))
    assert found == sorted(["quickstart", *WITH_DATABASE])


@pytest.mark.parametrize("example", WITH_DETACHED_RUNS)
@pytest.mark.parametrize("version", [ENVOY_VERSIONS[0], DEFAULT_ENVOY])
def test_the_demonstration_goes_well(example, version):
    result = run(example, "--once", "--envoy", version)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "The demonstration passed." in result.stdout
    assert result.stdout.count("\n  ok ") >= 15
    assert re.search(
        r"POST /payments/slow .* → the client hangs up after a second\n"
        r"  ok      it got no response\n"
        r"> (west: )?POST /payments/slow .* → 201 .*Idempotent-Replayed: true\)\n"
        r"  ok      it is the response of the first call\n"
        r"  ok      the upstream executed it once$",
        result.stdout,
        re.M,
    ), result.stdout


@pytest.mark.timeout(200)
@pytest.mark.parametrize("version", [ENVOY_VERSIONS[0], DEFAULT_ENVOY])
def test_payments_survive_the_kill_of_each_server_in_each_phase(version):
    result = run("payments", "--once", "--envoy", version)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "The demonstration passed." in result.stdout
    killed = re.findall(
        r"^Phase (\d): (the service|Envoy|the worker|the database) is killed", result.stdout, re.M
    )
    assert sorted(killed) == sorted(
        (phase, server)
        for phase in "123"
        for server in ("the service", "Envoy", "the worker", "the database")
    )
    assert result.stdout.count("\n  ok      every retry gets the same response\n") == 12
    assert re.search(
        r"^  ledger: 14 orders \(1 declined, 13 paid\), 13 charges, 13 receipts: no differences$",
        result.stdout,
        re.M,
    ), result.stdout


# What a user might leave out or get wrong, and the checks that must notice it.
BROKEN = {
    "nothing is protected": (
        "envoy.yaml",
        "enforcement: REQUIRED",
        'enforcement: "OFF"',
        ["the service answered"],
    ),
    "the route has no own transactions": (
        "envoy.yaml",
        "own_transaction: true",
        "own_transaction: false",
        ["the service answered"],
    ),
    "no lost run is followed by another": (
        "envoy.yaml",
        "on_lease_expired: RETRY",
        "on_lease_expired: UNKNOWN",
        ["the payment has a result"],
    ),
    "the provider gets no key": (
        "worker.py",
        ', "idempotency-key": row.provider_key',
        "",
        ["one order, one charge, one receipt", "there is no difference"],
    ),
}


@pytest.mark.timeout(200)
@pytest.mark.parametrize("case", BROKEN)
def test_the_demonstration_notices_what_is_missing(folder, case):
    name, before, after, failures = BROKEN[case]
    copy = _clone(folder)
    file = copy / "examples" / "payments" / name
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    result = subprocess.run(
        [copy / "examples" / "payments" / "run", "--once"],
        capture_output=True,
        text=True,
        timeout=170,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
    )
    assert result.returncode == 1, result.stdout + result.stderr
    for check in failures:
        assert f"FAILED  {check}" in result.stdout, result.stdout


def _clone(folder: Path) -> Path:
    """The examples to change, with all installed and built that they need."""
    copy = folder / "clone"
    shutil.copytree(EXAMPLES, copy / "examples")
    (copy / ".cache").symlink_to(CACHE)
    (copy / "tools").mkdir()
    for name in ("lib.sh", "versions.env"):
        shutil.copy(ROOT / "tools" / name, copy / "tools")
    for program in (copy / "tools" / "setup", folder / "bazel"):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return copy


def test_the_mesh_replays_through_the_other_envoy():
    output = run("mesh", "--once").stdout
    assert re.search(
        r"^> east: POST /payments .* → 201 .*\n.*\n> west: POST /payments .*Replayed: true", output, re.M
    )


@pytest.mark.parametrize("example", WITH_DATABASE)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_it_serves_until_ctrl_c_and_leaves_nothing_behind(workspace, example, number):
    folder = workspace.new_folder("example")
    process = Process(
        workspace,
        example,
        ["setsid", "--wait", EXAMPLES / example / "run"],
        folder / "log",
        env={"TMPDIR": str(folder)},
    )
    wait_for(lambda: "Press Ctrl-C to stop" in process.output(), process.tail, deadline=100)
    (script,) = _children(process.pid)
    servers = _children(script)
    assert len(servers) >= 3
    os.kill(script, number)
    if number != signal.SIGKILL:
        assert process.wait() == 0
        assert [path.name for path in folder.iterdir()] == ["log"]
    wait_for(lambda: not any(map(started_at, servers)), "servers end with the script", deadline=20)


@pytest.mark.parametrize("example", WITH_DATABASE)
def test_bad_options_are_refused(example):
    for arguments, message in (
        (["--port", "1"], "unknown option '--port'"),
        (["--envoy"], "--envoy requires a value"),
        (["--envoy", "1.38.0"], f"choose one of: {' '.join(ENVOY_VERSIONS)}"),
    ):
        result = run(example, *arguments)
        assert result.returncode == 2
        assert message in result.stderr


def test_no_key_or_token_is_committed():
    for path in EXAMPLES.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            text = path.read_text()
            assert "PRIVATE KEY-----" not in text, path
            assert not re.search(r"eyJ[A-Za-z0-9_-]{20}", text), path


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
