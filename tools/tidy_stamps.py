"""Prints `FILE STAMP` for each C++ file that is named: equal stamps mean that clang-tidy reads the same text.

The stamp covers BASE, the file, and every header of this repository that it includes, directly or not.
Headers of the system change only with their packages, those that Bazel makes with the protos: BASE stands
for them.
"""

import hashlib
import re
import sys
from functools import cache
from pathlib import Path

INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@cache
def content(path: Path) -> bytes:
    return path.read_bytes()


@cache
def includes(path: Path) -> frozenset[Path]:
    """The headers of this repository that this file names. One that Bazel makes is no file here."""
    named = (Path(name.decode()) for name in INCLUDE.findall(content(path)))
    return frozenset(header for header in named if header.is_file())


def reachable(path: Path) -> set[Path]:
    found, open_ends = {path}, [path]
    while open_ends:
        new = includes(open_ends.pop()) - found
        found |= new
        open_ends += new
    return found


def main() -> None:
    base, *files = sys.argv[1:]
    for name in files:
        digest = hashlib.sha256(f"{base}\0{name}\0".encode())
        for path in sorted(reachable(Path(name))):
            digest.update(f"{path}\0{len(content(path))}\0".encode())
            digest.update(content(path))
        print(name, digest.hexdigest()[:32])


if __name__ == "__main__":
    main()
