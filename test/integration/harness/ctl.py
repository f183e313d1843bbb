"""idempotencyctl, the operator's program, as test/run builds it."""

import os
import subprocess

from .paths import CACHE

# Without a look whether it is there: modules that name it load before it is built, too.
PROGRAM = CACHE / "bazel-opt" / "bin" / "source" / "cli" / "idempotencyctl"
_DEADLINE = 60


def start(*words: str, env: dict[str, str] | None = None) -> subprocess.Popen:
    """For those that are to run beside others. The caller waits for it."""
    return subprocess.Popen(
        [PROGRAM, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(env),
    )


def run(*words: str, text: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """`text` is its stdin."""
    return subprocess.run(
        [PROGRAM, *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
        env=_environment(env),
    )


def migrate(conninfo: str) -> None:
    """Puts the schema into a database, as an operator does."""
    done = run("migrate", "--conninfo", conninfo)
    assert done.returncode == 0, done.stderr


def _environment(more: dict[str, str] | None) -> dict[str, str]:
    """Without what libpq would read: a test says all of it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**own, **(more or {})}
