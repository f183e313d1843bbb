"""The programs of docs/upstream.md run behind a real Envoy, and what they declare is what happens."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from harness.paths import CACHE, ROOT
from harness.ports import free_port
from harness.process import Process, Workspace
from harness.site import Site, code_of, new_key
from harness.wait import wait_for
from harness.wire import Http1Connection

PAGE = (ROOT / "docs" / "upstream.md").read_text()
LANGUAGES = ("python", "go", "javascript")
# A compiler may have to build its library first.
pytestmark = pytest.mark.timeout(600)


def program(language: str) -> str:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    return block


def command(language: str, folder: Path) -> list[str | Path]:
    """How a reader would run it."""
    if language == "python":
        (folder / "payments.py").write_text(program(language))
        return ["/usr/bin/python3", folder / "payments.py"]
    if language == "javascript":
        (folder / "payments.js").write_text(program(language))
        return [CACHE / "venv" / "bin" / "node", folder / "payments.js"]
    (folder / "payments.go").write_text(program(language))
    # Go's own cache has the standard library: it was built there for toxiproxy.
    env = {**os.environ, "GO111MODULE": "off"}
    subprocess.run(["go", "build", "-o", "payments", "payments.go"], cwd=folder, env=env, check=True)
    return [folder / "payments"]


def listens(port: int) -> bool:
    try:
        Http1Connection(port).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module", params=LANGUAGES)
def site(request, module_workspace: Workspace):
    folder, port = module_workspace.new_folder("payments"), free_port()
    words = command(request.param, folder)
    process = Process(module_workspace, "payments", words, folder / "log", env={"PORT": str(port)})
    wait_for(lambda: process.check_running() or listens(port), "the program listens", deadline=20)
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
