"""idempotencyctl at a terminal: the question before a change, and watch."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import termios
from collections.abc import Callable, Iterator

import pytest
from harness import ctl
from harness.ctl import PROGRAM, Terminal
from harness.operator import PAY, REASON, done, make_unknown, pay_site, store_of
from harness.site import Site
from harness.wait import wait_for

LEAVES_THE_SCREEN = "\x1b[?1049l"


@pytest.fixture(scope="module")
def site(module_workspace) -> Site:
    return pay_site(module_workspace, None)


@pytest.fixture
def at_terminal() -> Iterator[Callable[..., Terminal]]:
    with contextlib.ExitStack() as stack:

        def make(*words: str, **options) -> Terminal:
            terminal = Terminal(*words, **options)
            stack.callback(terminal.close)
            return terminal

        yield make


def test_without_an_attempt_it_shows_the_record_and_asks(site, at_terminal):
    key, attempt = make_unknown(site)
    found = json.loads(done(site, "records", "show", "--attempt", attempt, "--json"))
    words = ("records", "resolve", "--not-run", "--key-hash", found["key_hash"], *REASON, *store_of(site))
    for answer, code, state in (("no", 1, "unknown"), ("yes", 0, "failed_retryable")):
        terminal = at_terminal(*words)
        terminal.wait_for(f"attempt:        {attempt}")
        terminal.wait_for("The next request with this key runs.")
        terminal.wait_for("Type yes to continue: ")
        assert site.state(key) == "unknown"
        terminal.type(f"{answer}\r")
        assert terminal.finish() == code
        assert site.state(key) == state


def test_an_attempt_that_ends_while_it_asks_is_stale(site, at_terminal):
    key, attempt = make_unknown(site)
    terminal = at_terminal("records", "release", "--attempt", attempt, *REASON, *store_of(site))
    terminal.wait_for("Type yes to continue: ")
    done(site, "records", "resolve", "--not-run", "--attempt", attempt, "--yes", *REASON)
    assert site.send(PAY, key).status == 200
    terminal.type("yes\r")
    assert terminal.finish() == 1
    assert "another request has claimed the record since" in terminal.shown
    assert site.state(key) == "completed"


def test_without_a_terminal_it_does_not_wait_for_an_answer(site):
    key, attempt = make_unknown(site)
    words = ["records", "release", "--attempt", attempt, *REASON, *store_of(site)]
    result = subprocess.run(
        [PROGRAM, *words], input="yes\n", capture_output=True, text=True, timeout=60, start_new_session=True
    )
    assert result.returncode == 2
    assert "use --yes" in result.stderr
    assert site.state(key) == "unknown"


@pytest.mark.parametrize(
    "end", ["q", "\x03", signal.SIGTERM, signal.SIGHUP], ids=["q", "Ctrl-C", "TERM", "HUP"]
)
def test_watch_gives_the_terminal_back(site, at_terminal, end):
    terminal = at_terminal("watch", *store_of(site))
    terminal.wait_for("idempotencyctl watch")
    wait_for(lambda: termios.tcgetattr(terminal.device) != terminal.modes, "keys come at once")
    if isinstance(end, str):
        terminal.type(end)
        assert terminal.finish() == 0
    else:
        os.kill(terminal.process.pid, end)
        assert terminal.finish() == -end
    assert LEAVES_THE_SCREEN in terminal.shown
    assert termios.tcgetattr(terminal.device) == terminal.modes


def test_watch_shows_what_becomes_unknown(site, at_terminal):
    terminal = at_terminal("watch", "--interval", "1", *store_of(site))
    terminal.wait_for("idempotencyctl watch")
    _, attempt = make_unknown(site)
    terminal.wait_for(attempt)
    terminal.type("q")
    assert terminal.finish() == 0


def test_watch_draws_at_once_after_a_key_or_a_resize(site, at_terminal):
    terminal = at_terminal("watch", "--interval", "3600", *store_of(site), rows=30)
    terminal.wait_for("leader:")
    _, attempt = make_unknown(site)
    terminal.type(" ")
    terminal.wait_for(attempt)
    terminal.resize(30, 3)
    wait_for(lambda: terminal.last_frame().count("\n") == 2, terminal.last_frame)
    terminal.type("q")
    assert terminal.finish() == 0


def test_watch_outlives_an_outage_of_its_store(site, folder, at_terminal):
    file = folder / "copy.db"
    with (
        contextlib.closing(sqlite3.connect(site.store["sqlite"]["path"])) as source,
        contextlib.closing(sqlite3.connect(file)) as target,
    ):
        source.backup(target)
    terminal = at_terminal("watch", "--interval", "1", "--timeout", "1", "--sqlite", str(file))
    terminal.wait_for("leader:")
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as breaker:
        breaker.execute("ALTER TABLE record RENAME TO gone")
        terminal.wait_for("no answer from the store:")
        breaker.execute("ALTER TABLE gone RENAME TO record")
    wait_for(
        lambda: "leader:" in terminal.last_frame() and "no answer" not in terminal.last_frame(),
        terminal.last_frame,
        30,
    )
    terminal.type("q")
    assert terminal.finish() == 0


def test_watch_needs_a_terminal_or_once(site):
    result = ctl.run("watch", *store_of(site))
    assert result.returncode == 2
    assert "use --once" in result.stderr
