"""What is in a program or library, by binutils."""

import dataclasses
import re
import subprocess
from functools import cache
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Symbol:
    name: str
    letter: str  # As nm has it: U, w, T …
    version: str  # Empty if it has none.


def undefined(path: Path) -> list[Symbol]:
    """What it asks of others."""
    return _symbols(path, "--undefined-only")


def defined(path: Path) -> list[Symbol]:
    """What others see of it."""
    return _symbols(path, "--defined-only")


def needed(path: Path) -> list[str]:
    """The libraries that must be there when it is loaded."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", _dynamic_section(path))


def glibc_versions(path: Path) -> set[tuple[int, ...]]:
    """Those of the symbols that it takes from the C library."""
    output = _run("objdump", "-T", path)
    return {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", output)}


def is_bound_at_load_and_never_unmapped(path: Path) -> bool:
    section = _dynamic_section(path)
    return bool(
        re.search(r"\(FLAGS\).*\bBIND_NOW\b", section)
        and re.search(r"\(FLAGS_1\).*\bNOW\b.*\bNODELETE\b", section)
    )


@cache
def _symbols(path: Path, which: str) -> list[Symbol]:
    found = []
    for line in _run("nm", "-D", which, path).splitlines():
        *_, letter, name = line.split()
        name, _, version = name.partition("@")
        found.append(Symbol(name, letter, version.lstrip("@")))
    return found


def _dynamic_section(path: Path) -> str:
    return _run("readelf", "-dW", path)


def _run(*words: str | Path) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
