"""Pages are true: every proof that docs/requirements.md names and every file that a page links to exists."""

import re

import pytest
from harness.paths import ROOT

REQUIREMENTS = ROOT / "docs" / "requirements.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# `file name`, alone or with the names of tests in it.
PROOF = re.compile(r"`([\w/.]+\.(?:cc|py|sh))(?: (\w+))?`")


def proofs() -> list[tuple[str, str]]:
    return sorted(set(PROOF.findall(REQUIREMENTS.read_text())))


def test_there_are_proofs():
    assert len(proofs()) > 30


def test_every_requirement_has_a_row():
    text = REQUIREMENTS.read_text()
    numbers = re.findall(r"^\| ([A-Q]\d+) \|", text, re.M)
    assert len(numbers) == len(set(numbers)) == 84
    assert not re.search(r"\| *\|$", text, re.M), "a row without proof or «not yet»"


@pytest.mark.parametrize(("file", "test"), proofs())
def test_a_named_proof_exists(file, test):
    (path,) = (ROOT / "test").rglob(file)
    assert test in path.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
