"""The rooms of source/ and what each may include: the table in CONTRIBUTING.md is the rule."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness.paths import ROOT

CPP = {".h", ".cc"}
# Messages of the protos, which are declared in advance; and what the binding declares and a module defines.
FOREIGN = {("*", "idempotency::v1"), ("source/filter/module.cc", "idempotency::envoy")}


@dataclass
class Room:
    namespace: str
    may_include: list[str]


def rooms(text: str) -> dict[str, Room]:
    """Rows look like | `source/x` | `namespace` | what it holds | `source/y`, `source/z` |."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and (name := re.fullmatch(r"`(source/[\w/]+)`", cells[0])):
            found[name[1]] = Room(cells[1].strip("`"), re.findall(r"`([\w/]+)`", cells[3]))
    return found


def sources(root: Path) -> list[Path]:
    return sorted(path for path in (root / "source").rglob("*") if path.suffix in CPP)


def included_rooms(text: str) -> set[str]:
    return {path.rpartition("/")[0] for path in re.findall(r'^#include "(source/[^"]+)"', text, re.M)}


def upward_includes(root: Path, table: dict[str, Room]) -> list[str]:
    found = []
    for path in sources(root):
        room = path.parent.relative_to(root).as_posix()
        allowed = {room, *(f"source/{name}" for name in table[room].may_include)}
        for other in sorted(included_rooms(path.read_text()) - allowed):
            found.append(f"{path.relative_to(root)} includes {other}")
    return found


def wrong_namespaces(root: Path, table: dict[str, Room]) -> list[str]:
    found = []
    for path in sources(root):
        file = path.relative_to(root).as_posix()
        own = f"idempotency::{table[path.parent.relative_to(root).as_posix()].namespace}::"
        for name in re.findall(r"^namespace (idempotency[\w:]*) \{$", path.read_text(), re.M):
            if not f"{name}::".startswith(own) and not FOREIGN & {("*", name), (file, name)}:
                found.append(f"{file} is in namespace {name}")
    return found


@pytest.fixture(scope="module")
def table() -> dict[str, Room]:
    return rooms((ROOT / "CONTRIBUTING.md").read_text())


def test_the_table_lists_every_folder_of_sources(table):
    assert set(table) == {path.parent.relative_to(ROOT).as_posix() for path in sources(ROOT)}


def test_arrows_point_down_only(table):
    """A room may include only rooms that stand above it in the table, so there is no circle."""
    above: set[str] = set()
    for name, room in table.items():
        assert {f"source/{other}" for other in room.may_include} <= above, name
        above.add(name)


def test_no_file_includes_what_its_room_may_not(table):
    assert upward_includes(ROOT, table) == []


def test_every_room_has_its_namespace(table):
    assert wrong_namespaces(ROOT, table) == []


def test_bazel_lets_in_whom_the_table_names(table):
    for name in table:
        build = (ROOT / name / "BUILD").read_text()
        assert 'package(default_visibility = ["//source:tests"])' in build, name
        group = re.search(r'package_group\(\n    name = "users",.*?packages = \[(.*?)\]', build, re.S)
        users = set(re.findall(r'"//(source/[\w/]+)"', group[1])) if group else set()
        allowed = {other for other, room in table.items() if name.removeprefix("source/") in room.may_include}
        assert users == (allowed if group else set()), name
        assert "//visibility:public" not in build, name


def test_the_files_that_a_change_touches_exist():
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where do I put …")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .*", section, re.M)
    named = {path for row in rows for path in re.findall(r"`([\w.*]+(?:/[\w.*]+)+|[A-Z]+\.md)`", row)}
    assert len(named) > 40
    missing = [path for path in named if not [*ROOT.glob(path), *ROOT.glob(f"source/{path}")]]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('#include "source/high/a.h"\n', ["source/low/a.cc includes source/high"]),
        ('#include "source/low/b.h"\n', []),
    ],
)
def test_an_include_upwards_is_found(tmp_path, text, found):
    table = rooms("| `source/low` | `low` | - | - |\n| `source/high` | `high` | - | `low` |\n")
    (tmp_path / "source/low").mkdir(parents=True)
    (tmp_path / "source/low/a.cc").write_text(text)
    assert upward_includes(tmp_path, table) == found


def test_a_foreign_namespace_is_found(tmp_path):
    table = rooms("| `source/low` | `low` | - | - |\n")
    (tmp_path / "source/low").mkdir(parents=True)
    (tmp_path / "source/low/a.cc").write_text("namespace idempotency::high {\n")
    assert wrong_namespaces(tmp_path, table) == ["source/low/a.cc is in namespace idempotency::high"]
