"""Root filesystems like those of Envoy's images, with the portable files put in as users do."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from harness.paths import CACHE, ROOT, built, envoy_binary
from harness.process import Workspace

_ROOTS = CACHE / "portable" / "roots"
# The line of /etc/os-release that tells which system it is.
IMAGES = {
    "debian-11": 'VERSION_ID="11"',
    "debian-12": 'VERSION_ID="12"',
    "debian-13": 'VERSION_ID="13"',
    "distroless-12": 'VERSION_ID="12"',
    "ubuntu-22.04": 'VERSION_ID="22.04"',
}
USER = 65532
MODULE_FOLDER = "/usr/local/lib/envoy"
PROGRAM = "/usr/local/bin/idempotencyctl"


class Image:
    def __init__(self, workspace: Workspace, name: str) -> None:
        self.name = name
        self._workspace = workspace
        self._root = _ROOTS / name
        if not self._root.is_dir():
            # Only Ubuntu's mirror is not that of this machine.
            assert name.startswith("ubuntu"), f"{self._root} is missing: run test/portable/run"
            pytest.skip("no mirror of Ubuntu could be reached")

    def inside(self, *shown: Path) -> tuple[str, ...]:
        """Words before a command that is to run in there. `shown`: what it sees of this machine."""
        files = {
            built("source/libidempotency.so"): f"{MODULE_FOLDER}/libidempotency.so",
            built("source/cli/idempotencyctl"): PROGRAM,
        }
        scratch = self._workspace.new_folder("scratch")
        return (
            *("unshare", "--mount", "--propagation", "private"),
            *(str(ROOT / "test" / "portable" / "enter"), str(self._root)),
            str(scratch),
            *(f"={path}" for path in shown),
            *(f"{path}={place}" for path, place in files.items()),
            "--",
        )

    def mapped(self, process: int) -> set[str]:
        """The libraries in a process, named as in the image."""
        lines = [line.split() for line in Path(f"/proc/{process}/maps").read_text().splitlines()]
        files = {line[5] for line in lines if len(line) > 5 and ".so" in line[5]}
        # Seen from outside, the root is a folder.
        outside = re.compile(re.escape(str(self._workspace.folder)) + r"/scratch-\d+/root")
        return {outside.sub("", file) for file in files}

    def inside_for_envoy(self, version: str) -> tuple[str, ...]:
        """The same for an Envoy of the harness. Its files and those of the test are in the workspace."""
        # Envoy writes into its folder and the store into that of the test.
        os.umask(0o022)
        words = ("sh", "-euc", 'chmod a+rwx "$0"/envoy-* "$0"/test-*; exec "$@"', str(self._workspace.folder))
        return (*words, *self.inside(self._workspace.folder, envoy_binary(version)))

    def run(self, *words: str | Path, shown: tuple[Path, ...] = ()) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*self.inside(*shown), *map(str, words)], capture_output=True, text=True, timeout=60
        )
