"""Nothing is left behind: not after a stop, not after a failure, not after kill -9 of the test process."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from harness.guard import started_at
from harness.ports import free_port
from harness.process import Process, Workspace
from harness.wait import Late, wait_for

HERE = Path(__file__).resolve().parent

# Starts one of everything, tells what it started, and waits to be killed.
OWNER = """
import sys, time
from harness.config import EnvoyConfig
from harness.envoy import Envoy
from harness.postgres import Postgres
from harness.process import Workspace
from harness.toxiproxy import Toxiproxy
from harness.upstream import Upstream

workspace = Workspace()
upstream = Upstream(workspace)
Toxiproxy(workspace)
Postgres(workspace)
tree = {"admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
        "static_resources": {}}
Envoy(workspace, EnvoyConfig(tree), load_module=False)
pids = [process.pid for process in workspace.processes]
print(workspace.folder, workspace.guard.pid, *pids, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def own_workspace():
    workspace = Workspace()
    yield workspace
    workspace.close()


def _sleeper(workspace: Workspace, script: str = "sleep 1000", **options) -> Process:
    log = workspace.new_folder("sleeper") / "log"
    return Process(workspace, "sleeper", ["bash", "-c", script], log, **options)


def test_closing_a_workspace_ends_its_processes_and_removes_its_folder(own_workspace):
    process = _sleeper(own_workspace)
    guard = own_workspace.guard.pid
    own_workspace.close()
    assert process.exit_code == -signal.SIGTERM
    assert not own_workspace.folder.exists()
    assert started_at(guard) is None


def test_children_of_a_server_end_with_it(own_workspace):
    process = _sleeper(own_workspace, "sleep 1000 & echo $!; wait")
    child = int(wait_for(process.output, "the child's number"))
    process.kill9()
    wait_for(lambda: started_at(child) is None, "the child ends too")


def test_a_server_that_ignores_the_stop_signal_is_killed(own_workspace, monkeypatch):
    monkeypatch.setattr("harness.process._STOP_DEADLINE", 0.3)
    process = _sleeper(own_workspace, "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    wait_for(process.output, "the trap is set")
    assert process.stop() == -signal.SIGKILL


def test_a_paused_server_can_be_stopped(own_workspace):
    process = _sleeper(own_workspace)
    process.pause()
    assert process.stop() == -signal.SIGTERM


def test_a_server_that_ends_by_itself_is_reported_with_its_output(own_workspace):
    process = _sleeper(own_workspace, "echo all is lost; exit 3")
    process.wait()
    with pytest.raises(AssertionError, match=r"sleeper ended with 3:\nall is lost"):
        process.check_running()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_test_process(number):
    owner = subprocess.Popen([sys.executable, "-c", OWNER], cwd=HERE, stdout=subprocess.PIPE, text=True)
    folder, guard, *pids = owner.stdout.readline().split()
    try:
        assert len(pids) == 4
        assert Path(folder).exists()
        assert all(started_at(int(pid)) for pid in pids)
        port = _listening_port(int(pids[2]))
    finally:
        owner.send_signal(number)
        owner.wait()
        owner.stdout.close()
    wait_for(lambda: started_at(int(guard)) is None, "the guard has done its work", deadline=20)
    assert [pid for pid in pids if started_at(int(pid))] == []
    assert not Path(folder).exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert _shared_memory_of(pids) == []


def test_a_failed_test_shows_the_logs_of_its_servers_and_leaves_nothing(folder):
    test = folder / "test_that_fails.py"
    test.write_text(
        "def test_it(upstream):\n"
        "    print('pid', upstream.process.pid)\n"
        "    upstream.process.log.write_text('last words')\n"
        "    assert False\n"
    )
    (folder / "conftest.py").write_text((HERE / "conftest.py").read_text())
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", str(test)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert result.returncode == 1
    assert "log of upstream" in result.stdout
    assert "last words" in result.stdout
    pid = int(result.stdout.partition("pid ")[2].split()[0])
    assert started_at(pid) is None


def test_waiting_ends_with_a_message_that_says_for_what():
    with pytest.raises(Late, match=r"not within 0.05 s: the moon is blue"):
        wait_for(lambda: False, "the moon is blue", deadline=0.05)
    assert wait_for(lambda: 7, "never") == 7


def test_ports_are_free_and_differ():
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as probe:
            # As servers do: an earlier server's closed connections do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))


def test_another_process_gets_other_ports():
    """Also while nobody listens on them: a server may be down."""
    ports = {free_port() for _ in range(20)}
    program = "from harness.ports import free_port; print(*(free_port() for _ in range(900)))"
    asked = subprocess.run(
        [sys.executable, "-c", program], cwd=HERE, capture_output=True, text=True, check=True
    )
    theirs = {int(port) for port in asked.stdout.split()}
    assert len(theirs) > 500
    assert ports.isdisjoint(theirs)


def _listening_port(pid: int) -> int:
    """The -c port=… of a PostgreSQL server."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    (port,) = [word.removeprefix("port=") for word in words if word.startswith("port=")]
    return int(port)


def _shared_memory_of(pids: list[str]) -> list[str]:
    """System V segments that one of these processes made."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [line for line in lines if line.split()[4] in pids]
