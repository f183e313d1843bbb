"""What idempotencyctl makes from its table of commands: help, manual, the page, completion."""

import os
import subprocess
from pathlib import Path

import pytest
from harness.ctl import PROGRAM, run
from harness.paths import ROOT


def test_the_manual_is_valid_troff():
    text = run("man").stdout
    checked = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", "-z"], input=text, capture_output=True, text=True, check=True
    )
    assert checked.stderr == ""
    shown = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", "-rLL=200n"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for command, options in table_of_commands().items():
        assert f"idempotencyctl {command} [OPTIONS]" in shown
        for option in options:
            assert option in shown


def table_of_commands() -> dict[str, list[str]]:
    """Command → its options, as its help lists them."""
    lines = run("--help").stdout.partition("commands:\n")[2].partition("\n\n")[0].splitlines()
    commands = [line.strip().partition("  ")[0] for line in lines]
    assert len(commands) > 12
    helps = {command: run(*command.split(), "--help").stdout for command in commands}
    return {
        command: [
            line.split()[0] for line in text.splitlines() if line.startswith("  --") and "--help" not in line
        ]
        for command, text in helps.items()
    }


def test_the_page_has_the_help_of_every_command():
    """To bring it up to date: idempotencyctl man --markdown"""
    page = (ROOT / "docs" / "idempotencyctl.md").read_text()
    assert page.partition("## Reference\n\n")[2] == run("man", "--markdown").stdout


BASH = """
source <("$1" completion bash)
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_idempotencyctl
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
autoload -Uz compinit && compinit -D -u
source <("$1" completion zsh)
shift
compadd() { while [ "$1" != -- ] && (($#)); do shift; done; shift; print -rl -- "$@"; }
_files() { print -rl -- *; }
_describe() { local -a all=("${(@P)2}"); print -rl -- "${(@)all%%:*}"; }
words=("$@") CURRENT=$#
_idempotencyctl
"""
FISH = """
$argv[1] completion fish | source
complete -C (string join ' ' -- $argv[2..-1]) | string replace -r '\\t.*' ''
or true
"""
SHELLS = {
    "bash": ["bash", "--norc", "-c", BASH, "bash"],
    "zsh": ["zsh", "-f", "-c", ZSH, "zsh"],
    "fish": ["fish", "--no-config", "-c", FISH],
}


def completed(shell: str, *words: str, cwd: Path) -> set[str]:
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
    result = subprocess.run(
        [*SHELLS[shell], PROGRAM, "idempotencyctl", *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env={"PATH": path, "HOME": str(cwd)},
    )
    assert (result.returncode, result.stderr) == (0, "")
    return {line for line in result.stdout.splitlines() if line.startswith(words[-1])}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_options_and_values(shell, folder):
    (folder / "a file").touch()
    assert completed(shell, "rec", cwd=folder) == {"records"}
    assert completed(shell, "records", "re", cwd=folder) == {"resolve", "release"}
    assert completed(shell, "records", "list", "--s", cwd=folder) == {"--state", "--sqlite"}
    assert completed(shell, "records", "list", "--json", "--limit", "3", "--dead", cwd=folder) == {
        "--dead-letters"
    }
    assert completed(shell, "records", "list", "--state", "unk", cwd=folder) == {"unknown"}
    assert completed(shell, "completion", "b", cwd=folder) == {"bash"}
    (file,) = completed(shell, "records", "show", "--sqlite", "a", cwd=folder)
    assert file.replace("\\", "") == "a file"


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_every_option(shell, folder):
    for command, options in table_of_commands().items():
        # A dash alone: fish shows options only then.
        assert completed(shell, *command.split(), "--", cwd=folder) == {*options, "--help"}, command
