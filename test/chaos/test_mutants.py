"""The mutants are still what they were made for: each patch applies, and names what must catch it."""

import subprocess
from pathlib import Path

import pytest
from mutate import ROOT, Mutant, all_mutants

MUTANTS = all_mutants()


def test_every_known_bug_has_a_patch():
    assert [mutant.name for mutant in MUTANTS] == [
        "abandoned-claim-kept",
        "attempts-ignored",
        "bodies-not-counted",
        "cached-past-bust",
        "claim-before-sync",
        "commit-not-pinned",
        "durability-not-checked",
        "empty-lookup-claimed",
        "fencing-ignored",
        "fingerprint-not-compared",
        "gateway-status-retryable",
        "hasty-reconciler",
        "heartbeat-stopped",
        "host-not-compared",
        "local-clock-lease",
        "locked-row-waited-for",
        "own-checkpoint-after-commit",
        "own-checkpoint-unfenced",
        "own-completed-twice",
        "own-completion-overwritten",
        "own-completion-unfenced",
        "own-outbox-after-commit",
        "own-phase-forgotten",
        "own-response-over-http",
        "own-timeout-unknown",
        "own-work-not-locked",
        "proxy-answer-trusted",
        "recovery-point-not-sent",
        "redirect-forgotten",
        "release-after-timeout",
        "resolve-not-audited",
        "response-to-wrong-client",
        "run-cancelled-with-client",
        "stale-change-made",
        "stored-after-answer",
        "stray-token-accepted",
        "tenant-not-in-identity",
        "tenants-share-one-pool",
        "unknown-freed-by-time",
        "unknown-retryable",
    ]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_patch_applies(mutant: Mutant):
    command = ["git", "apply", "--check", mutant.patch]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_scenario_exists(mutant: Mutant):
    from aims import SCENARIOS  # `mutate` has made its modules known.

    assert mutant.scenario in SCENARIOS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_rule_exists(mutant: Mutant):
    rules = (Path(__file__).parent / "checker.py").read_text()
    assert f'"{mutant.rule}"' in rules
