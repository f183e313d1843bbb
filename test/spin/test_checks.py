"""Whether test/spin/run notices a search that is cut off, a step that is not met, a mutant that survives."""

import re

import pytest
from checks import (
    MUTANTS,
    WEIGHTY_STEPS,
    Mutant,
    Promise,
    fold,
    judge_mutant,
    judge_promise,
    judge_steps,
    steps_of,
)
from verifier import MODEL, CannotRun, Search, Trail, read_search, read_trail, verifier

SMALL = {"RETRY": "false", "TOKENS": 2}

WHOLE = """
Full statespace search for:
State-vector 116 byte, depth reached 919, errors: 0
    24417 states, stored
   228824 transitions (= visited+matched)
  184.000	total actual memory usage
did: store: attempt %d is fenced off, nothing changes
"""


def search(**changes: object) -> Search:
    found = read_search(WHOLE, 1.0)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_a_whole_search_without_errors_holds():
    found = read_search(WHOLE, 1.0)
    assert found.holds
    assert (found.states, found.depth) == (24417, 919)
    assert found.met == {"store: attempt %d is fenced off, nothing changes"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("errors: 0", "errors: 1"),
        ("Full statespace search", "Bit statespace search"),
        ("State-vector", "error: max search depth too small\nState-vector"),
        ("State-vector", "pan: reached -DMEMLIM bound\nState-vector"),
        ("State-vector", "Warning: Search not completed\nState-vector"),
    ],
)
def test_a_search_that_is_cut_off_or_finds_an_error_does_not_hold(old: str, new: str):
    found = read_search(WHOLE.replace(old, new), 1.0)
    assert not found.holds
    assert not judge_promise(Promise("p", retry=False, tokens=2), found).passed


def test_a_verifier_that_says_nothing_is_no_success():
    with pytest.raises(CannotRun):
        read_search("Segmentation fault", 1.0)


def test_the_real_verifier_is_noticed_when_depth_or_memory_cuts_it_off():
    with verifier(SMALL, "-O0", "-DSAFETY", "-DMEMLIM=200") as pan:
        assert pan.run("-m100000").holds
        assert not pan.run("-m60").complete
    with verifier(SMALL, "-O0", "-DSAFETY", "-DMEMLIM=2") as pan:
        assert not pan.run("-m10000", "-w10").complete


def test_a_model_that_spin_refuses_is_no_success():
    with pytest.raises(CannotRun), verifier({**SMALL, "TOKENS": "("}, "-O0"):
        pass


def test_a_trail_ends_where_the_first_promise_is_broken():
    trail = read_trail(
        "Never claim moves\n  Envoy 0: claims\nBroken, kept: gone\nBroken, once: twice\nspin: text\n"
    )
    assert trail == Trail(["Envoy 0: claims"], [], "kept: gone")
    cycle = read_trail("Envoy 0: claims\n<<<<<START OF CYCLE>>>>>\nEnvoy 1: 409\nEnvoy 1: 409\n")
    assert cycle == Trail(["Envoy 0: claims"], ["Envoy 1: 409"], "")


def test_what_repeats_itself_is_told_once():
    assert fold(["a", "b", "c", "b", "c", "b", "c", "d", "d"]) == ["a", "b", "c", "d"]
    assert fold(["a", "b", "a", "c", "a"]) == ["a", "b", "a", "c", "a"]


def test_a_mutant_must_break_the_promise_that_it_is_made_for():
    broken = Trail(["Envoy 0: claims"], [], "once: twice")
    for_ever = Trail(["Envoy 0: claims"], ["Envoy 1: 409"], "")
    assert judge_mutant(Mutant("M", "once"), search(), broken).passed
    assert judge_mutant(Mutant("M", "settled"), search(), for_ever).passed
    assert not judge_mutant(Mutant("M", "kept"), search(), broken).passed
    assert not judge_mutant(Mutant("M", "settled"), search(), broken).passed
    assert not judge_mutant(Mutant("M", "once"), search(), for_ever).passed
    assert not judge_mutant(Mutant("M", "once"), search(), None).passed


def test_every_step_must_be_met():
    model = MODEL.read_text()
    steps = steps_of(model)
    assert all(verdict.passed for verdict in judge_steps(model, steps))
    for step in steps:
        assert not judge_steps(model, steps - {step})[0].passed
    assert not judge_steps("", set())[0].passed


def test_no_weighty_step_can_leave_the_model_unnoticed():
    model = MODEL.read_text()
    for words in WEIGHTY_STEPS:
        assert not judge_steps(model.replace(words, "nothing"), set())[1].passed


def test_every_mutant_of_the_model_is_run():
    listed = re.search(r"mtype:mutant = \{(.*?)\};", MODEL.read_text(), re.DOTALL)
    assert listed is not None
    names = set(re.findall(r"^\s*(\w+)", listed[1], re.MULTILINE)) - {"NoMutant"}
    assert names == {mutant.name for mutant in MUTANTS}
