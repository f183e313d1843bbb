"""The programs of docs/upstream.md run behind a real Envoy, and do what the page says."""

import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import httpx
import pytest
from harness.ctl import migrate
from harness.paths import CACHE, ROOT
from harness.ports import free_port
from harness.postgres import Postgres
from harness.process import Process, Workspace
from harness.site import Site, code_of, new_key
from harness.wait import wait_for
from harness.wire import Http1Connection

PAGE = (ROOT / "docs" / "upstream.md").read_text()
DECLARING = ("python", "go", "javascript")
SETTLING = ("python", "go", "java", "typescript", "ruby")
# What each needs beside its source: a command or a driver that tools/setup installs.
NEEDS = {
    "python": CACHE / "venv" / "bin" / "python",
    "go": Path("/usr/share/gocode/src/github.com/lib/pq"),
    "java": Path("/usr/share/java/postgresql.jar"),
    "typescript": CACHE / "services" / "node_modules",
    "ruby": Path("/usr/bin/ruby"),
}
# A compiler may have to build its library first.
pytestmark = pytest.mark.timeout(600)


def program(language: str, settles: bool) -> str:
    """The one that declares outcomes, or the one that settles its requests itself."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    (block,) = [block for block in blocks if ("idempotency.complete" in block) == settles]
    return block


def command(language: str, folder: Path, source: str) -> list[str | Path]:
    """How a reader would run it."""
    if language == "python":
        (folder / "service.py").write_text(source)
        return [NEEDS["python"], folder / "service.py"]
    if language == "java":
        (folder / "Orders.java").write_text(source)
        return ["java", "-cp", NEEDS["java"], folder / "Orders.java"]
    if language == "ruby":
        (folder / "service.rb").write_text(source)
        return [NEEDS["ruby"], folder / "service.rb"]
    if language in ("javascript", "typescript"):
        path = folder / f"service.{'js' if language == 'javascript' else 'ts'}"
        path.write_text(source)
        if language == "typescript":
            (folder / "node_modules").symlink_to(NEEDS["typescript"])
        return [CACHE / "venv" / "bin" / "node", path]
    (folder / "service.go").write_text(source)
    # Go's own cache has the standard library: it was built there for toxiproxy. Debian's package has the driver.
    env = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}
    subprocess.run(["go", "build", "-o", "service", "service.go"], cwd=folder, env=env, check=True)
    return [folder / "service"]


def listens(port: int) -> bool:
    try:
        Http1Connection(port).close()
    except OSError:
        return False
    return True


def start(workspace: Workspace, language: str, settles: bool, **env: str) -> tuple[Process, int]:
    """The program of the page; its port."""
    folder, port = workspace.new_folder("service"), free_port()
    words = command(language, folder, program(language, settles))
    process = Process(workspace, "service", words, folder / "log", env={"PORT": str(port), **env})
    wait_for(lambda: process.check_running() or listens(port), process.tail, deadline=60)
    return process, port


# --- Idempotency-Outcome


@pytest.fixture(scope="module", params=DECLARING)
def site(request, module_workspace: Workspace):
    process, port = start(module_workspace, request.param, settles=False)
    made = Site(
        module_workspace, {"pay": {}}, change=lambda config: config.upstream(port, cluster="upstream")
    )
    yield made
    made.close()
    process.stop()


def pay(site: Site, key: str, card: str):
    return site.send("/pay/", key, body=json.dumps({"id": "7", "card": card}).encode())


@pytest.mark.parametrize(
    ("card", "status", "state"),
    [
        ("fine", 201, "completed"),
        ("busy", 503, None),
        ("no answer", 503, "unknown"),
        ("no receipt", 500, "completed"),
    ],
)
def test_what_the_program_declares_is_what_happens(site, card, status, state):
    key = new_key()
    with site.counts(
        covered=1, claim__created=1, outcome__declared=1, **{f"ended__{state or 'released'}": 1}
    ):
        first = pay(site, key, card)
    assert first.status == status
    assert first.header("idempotency-outcome") is None
    assert json.loads(first.body) == {"order": "7", "card": card}
    assert site.state(key) == state
    again = pay(site, key, card)
    if state == "completed":
        assert (again.status, again.body) == (status, first.body)
        assert again.header("idempotent-replayed") == "true"
        assert again.header("idempotency-outcome") is None
    elif state == "unknown":
        assert code_of(again) == "idempotency_outcome_unknown"
    else:
        assert (again.status, again.header("idempotent-replayed")) == (status, None)
