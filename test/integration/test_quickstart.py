"""`examples/quickstart/run` as a new user meets it."""

import os
import re
import shutil
import signal
import socket
import subprocess

import pytest
from harness.clients import post
from harness.guard import started_at
from harness.paths import CACHE, DEFAULT_ENVOY, ENVOY_VERSIONS, EXAMPLES, ROOT
from harness.ports import free_port
from harness.process import Process
from harness.wait import wait_for

RUN = EXAMPLES / "quickstart" / "run"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RUN, *arguments], capture_output=True, text=True, timeout=110)


def ports() -> tuple[str, ...]:
    return "--port", str(free_port()), "--admin-port", str(free_port())


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_the_demonstration_goes_well_with_every_envoy(version):
    result = run("--once", *ports(), "--envoy", version)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "The demonstration passed." in result.stdout
    assert f"Envoy {version} has loaded the module" in result.stdout
    for line in (
        r"POST /payments .* → 201 .*Idempotent-Replayed: true",
        r"20 times POST /payments .* → .*\d \S 201",
        r"POST /transfers .* → the client hangs up after a second\n.*\n"
        r"> POST /transfers .* → 201 .*Idempotent-Replayed: true\)\n"
        r"  ok      it is the response of the first call\n"
        r"  ok      the upstream executed it once$",
        r"POST /refunds .* → 504 ",
        r"POST /refunds .* → 409 idempotency_outcome_unknown",
        r"POST /payments 201 outcome=replayed key_hash=[0-9a-f]{16}$",
    ):
        assert re.search(line, result.stdout, re.M), f"{line}\n{result.stdout}"


def test_the_demonstration_goes_well_twice_on_one_store(folder):
    for _ in range(2):
        result = run("--once", *ports(), "--store", f"sqlite:{folder}/idempotency.db")
        assert result.returncode == 0, result.stdout + result.stderr


# What a user might leave out, and the checks that must notice it.
BROKEN = {
    "nothing is protected": (
        ("enforcement: REQUIRED", 'enforcement: "OFF"'),
        ["the filter refused it", "it is the first response", "the upstream executed it once"],
    ),
    "runs are attached": (
        ("detached: { timeout: 20s }", ""),
        ["it is the response of the first call"],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_the_demonstration_notices_what_is_missing(folder, case):
    """An example whose checks cannot fail would show nothing."""
    change, failures = BROKEN[case]
    copy = folder / "clone"
    shutil.copytree(EXAMPLES, copy / "examples")
    (copy / ".cache").symlink_to(CACHE)
    # All that it would install and build is there.
    (copy / "tools").mkdir()
    for name in ("lib.sh", "versions.env"):
        shutil.copy(ROOT / "tools" / name, copy / "tools")
    for program in (copy / "tools" / "setup", folder / "bazel"):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    config = copy / "examples" / "quickstart" / "envoy.yaml"
    assert change[0] in config.read_text()
    config.write_text(config.read_text().replace(*change))
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    result = subprocess.run(
        [copy / "examples" / "quickstart" / "run", "--once", *ports()],
        capture_output=True,
        text=True,
        timeout=110,
        env=environment,
    )
    assert result.returncode == 1, result.stdout + result.stderr
    for check in failures:
        assert f"FAILED  {check}" in result.stdout


def test_a_folder_too_long_for_a_socket_is_said_so(folder):
    long = folder / ("long" * 30)
    long.mkdir()
    result = subprocess.run(
        [RUN, "--once", *ports()],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "TMPDIR": str(long)},
    )
    assert result.returncode == 1
    assert "too long for a socket; set TMPDIR to a shorter path" in result.stderr
    assert not list(long.iterdir())


def test_the_demonstration_works_with_a_service_of_ones_own(upstream):
    result = run("--once", *ports(), "--upstream", f"127.0.0.1:{upstream.port}")
    assert result.returncode == 0, result.stdout + result.stderr
    # The first call, one of twenty at once, and the route without a policy.
    assert [entry["path"] for entry in upstream.executions()] == ["/payments", "/payments", "/other"]


def test_the_demonstration_fails_when_the_service_is_not_there():
    result = run("--once", *ports(), "--upstream", f"127.0.0.1:{free_port()}")
    assert result.returncode == 1
    assert "FAILED  the upstream answered" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prot", "1"], "unknown option '--prot'"),
        (["--port"], "--port requires a value"),
        (["--port", "http"], "--port must be a port from 1 to 65535, not 'http'"),
        (["--admin-port", "65536"], "--admin-port must be a port from 1 to 65535"),
        (["--port", "9901"], "--port and --admin-port must differ"),
        (["--upstream", "localhost"], "--upstream must be HOST:PORT"),
        (["--store", "mysql"], "--store must be sqlite:PATH or a PostgreSQL conninfo"),
        (["--store", "sqlite:"], "--store must be sqlite:PATH or a PostgreSQL conninfo"),
        (["--envoy", "1.38.0"], f"choose one of: {' '.join(ENVOY_VERSIONS)}"),
    ],
)
def test_bad_options_are_refused(arguments, message):
    result = run(*arguments)
    assert result.returncode == 2
    assert message in result.stderr


def test_help_names_every_option():
    result = run("--help")
    assert result.returncode == 0
    for option in ("--once", "--port", "--admin-port", "--upstream", "--store", "--envoy"):
        assert option in result.stdout


@pytest.mark.parametrize("option", ["--port", "--admin-port"])
def test_a_port_in_use_is_said_so(option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        other = "--admin-port" if option == "--port" else "--port"
        result = run("--once", option, port, other, str(free_port()))
    assert result.returncode == 1
    assert f"port {port} is in use; choose another with {option}" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_serves_until_ctrl_c_and_leaves_nothing_behind(workspace, number):
    port, admin = free_port(), free_port()
    folder = workspace.new_folder("quickstart")
    process = Process(
        workspace,
        "quickstart",
        # A shell without job control has its children ignore SIGINT; a terminal does not.
        ["setsid", "--wait", RUN, "--port", str(port), "--admin-port", str(admin)],
        folder / "log",
        env={"TMPDIR": str(folder)},
    )
    wait_for(lambda: "Press Ctrl-C to stop" in process.output(), process.tail, deadline=100)
    assert f"Envoy {DEFAULT_ENVOY} with libidempotency.so: http://127.0.0.1:{port}" in process.output()
    answer = post(f"http://127.0.0.1:{port}/payments", key='"8e03978e-40d5-43dd-bc93-6894a57f9324"')
    assert answer.status_code == 201
    wait_for(lambda: re.search(r"executed #1 POST /payments key=\"8e0", process.output()), process.tail)
    (script,) = _children(process.pid)
    servers = _children(script)
    assert len(servers) >= 2
    os.kill(script, number)
    if number != signal.SIGKILL:
        assert process.wait() == 0
        # Not a file, but the log of this test and what it is in.
        assert [path.name for path in folder.iterdir()] == ["log"]
    wait_for(lambda: not any(map(started_at, servers)), "servers end with the script")


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
