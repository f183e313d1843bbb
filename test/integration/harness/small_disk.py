"""A disk of a few megabytes that a test can fill: tmpfs, in a mount namespace that ends with its holder."""

import errno
import os
from pathlib import Path

import pytest

from .process import Process, Workspace
from .wait import wait_for


class SmallDisk:
    """Skips the test where mounting is refused: in an unprivileged container, or without root."""

    def __init__(self, workspace: Workspace, megabytes: int, owner: tuple[int, int] | None) -> None:
        if owner is None:
            pytest.skip("a small disk needs the right to mount: run as root")
        self.path = workspace.new_folder("small-disk")
        mount = (
            f"mount -t tmpfs -o size={megabytes}m,mode=700,uid={owner[0]},gid={owner[1]} tmpfs {self.path}"
        )
        self._holder = Process(
            workspace,
            "small disk",
            ["unshare", "--mount", "sh", "-c", f"{mount} && echo mounted && exec sleep infinity"],
            self.path.parent / f"{self.path.name}.log",
        )
        wait_for(lambda: self._holder.output() or self._holder.exit_code is not None, "the mount is made")
        if "mounted" not in self._holder.output():
            pytest.skip(f"mounting a small disk is refused here: {self._holder.output().strip()}")

    @property
    def inside(self) -> tuple[str, ...]:
        """Words before a command that is to see the disk."""
        return ("nsenter", "--mount", "--target", str(self._holder.pid), "--")

    def fill(self, leave: int = 0) -> None:
        """Until nothing, or `leave` bytes, fits any more."""
        with open(self.seen / "filler", "ab") as filler:
            while (size := self._free_bytes() - leave) > 0:
                try:
                    os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, size)
                except OSError as error:
                    # Others write meanwhile.
                    if error.errno != errno.ENOSPC:
                        raise

    def empty(self) -> None:
        (self.seen / "filler").unlink(missing_ok=True)

    def _free_bytes(self) -> int:
        state = os.statvfs(self.seen)
        return state.f_bavail * state.f_frsize

    @property
    def seen(self) -> Path:
        """The disk as seen from here, outside."""
        return Path(f"/proc/{self._holder.pid}/root{self.path}")
