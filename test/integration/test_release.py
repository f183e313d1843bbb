"""tools/release refuses what is no release, before it builds anything. test/portable tests what it makes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from harness.paths import ROOT

IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")


@pytest.fixture
def tree(folder) -> Path:
    """A repository with what the checks read, in which version 1.2.3 is ready."""
    path = folder / "tree"
    for file in ("tools/release", "tools/lib.sh", ".gitignore"):
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, path / file)
    (path / "VERSION").write_text("1.2.3\n")
    (path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 1.2.3\n\n- Fixed: much.\n\n## 1.2.2\n\n- Older.\n\n## 1.2.1\n"
    )
    subprocess.run(["git", "init", "-q", path], check=True)
    commit(path)
    return path


def commit(tree: Path) -> None:
    subprocess.run(["git", "-C", tree, "add", "-A"], check=True)
    subprocess.run(["git", "-C", tree, *IDENTITY, "commit", "-q", "-m", "a change"], check=True)


def release(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tree / "tools" / "release", *words], capture_output=True, text=True, timeout=60)


def assert_refused(tree: Path, words: tuple[str, ...], reason: str) -> None:
    result = release(tree, *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert reason in result.stderr
    assert not (tree / ".cache").exists()


def test_a_tree_with_changes_is_refused(tree):
    (tree / "VERSION").write_text("1.2.3\n\n")
    assert_refused(tree, ("1.2.3",), "not committed")


def test_a_new_file_is_a_change(tree):
    (tree / "new").touch()
    assert_refused(tree, ("1.2.3",), "not committed")


@pytest.mark.parametrize("version", ["1.2.3-dev", "v1.2.3", "1.2", "1.2.3 ", ""])
def test_what_is_no_version_is_refused(tree, version):
    assert_refused(tree, (version,), "version")


def test_another_version_than_the_tree_has_is_refused(tree):
    assert_refused(tree, ("1.2.2",), "the file VERSION says 1.2.3")


def test_a_version_that_the_changelog_does_not_describe_is_refused(tree):
    (tree / "VERSION").write_text("1.2.4\n")
    commit(tree)
    assert_refused(tree, ("1.2.4",), "CHANGELOG.md says nothing below '## 1.2.4'")
    # A heading alone is no description.
    (tree / "VERSION").write_text("1.2.1\n")
    commit(tree)
    assert_refused(tree, ("1.2.1",), "CHANGELOG.md says nothing below '## 1.2.1'")


def test_failing_tests_stop_a_release(tree):
    script = tree / ".ci" / "run"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    commit(tree)
    result = release(tree, "1.2.3")
    assert (result.returncode, result.stderr) == (1, "tools/release: tests failed: no release\n")
    assert not (tree / ".cache").exists()
