"""Builds and runs the mutants: see test/chaos/mutants.

A mutant is a patch in mutants.d. Above its first `diff` line stand the bug in a sentence, the scenario of the
chaos run that must catch it, the rule of the checker that it must break, and the store, unless it is
PostgreSQL. A patch that no longer applies is a failure: the bug that it stands for is then not proved to be
noticed any more. A bug may also be in the schema, or in the service of the run (own_work.py).
"""

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(1, str(HERE.parent / "integration"))

from checker import check  # noqa: E402
from harness.paths import CACHE, module  # noqa: E402
from history import load  # noqa: E402

PATCHES = HERE / "mutants.d"
FOLDER = CACHE / "mutants"
# What the module and idempotencyctl are built from, and the service.
SOURCES = ("WORKSPACE", "BUILD", "VERSION", ".bazelrc", "api", "bazel", "source", "sql")
SERVICE = "test/chaos"
TARGET = "//source:libidempotency.so"
CTL_TARGET = "//source/cli:idempotencyctl"
LONGEST_BUILD = 900.0
LONGEST_RUN = 180.0
MOST_TRIES = 5
DEFAULT_SEED = 7


class CannotRun(Exception):
    """Nothing is known of the mutants."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    bug: str
    scenario: str
    rule: str
    patch: Path
    store: str = "postgres"


@dataclasses.dataclass(frozen=True)
class Built:
    """What a run uses in place of the tree's own."""

    module: Path
    ctl: Path | None = None  # It migrates the database.
    service: Path | None = None
    seconds: float = 0.0

    def words(self) -> list[str]:
        words = ["--module", self.module]
        words += ["--ctl", self.ctl] if self.ctl else []
        words += ["--service", self.service] if self.service else []
        return [str(word) for word in words]


@dataclasses.dataclass
class Verdict:
    """Of one run of a scenario."""

    violations: int
    rules: list[str]
    missed: list[str]
    seconds: float
    text: str


def read_mutant(patch: Path) -> Mutant:
    head, _, _ = patch.read_text().partition("\ndiff --git ")
    bug, *lines = head.strip().splitlines()
    values = dict(line.split(": ", 1) for line in lines)
    store = values.get("Store", Mutant.store)
    return Mutant(patch.stem, bug, values["Scenario"], values["Rule"], patch, store)


def all_mutants() -> list[Mutant]:
    return [read_mutant(patch) for patch in sorted(PATCHES.glob("*.patch"))]


class Copy:
    """The sources, apart from the tree, with an output base of their own that stays warm: a mutant costs the
    files that it changes, and the linker."""

    def __init__(self) -> None:
        self._tree = FOLDER / "tree"
        shutil.rmtree(self._tree, ignore_errors=True)
        self._tree.mkdir(parents=True)
        for name in SOURCES:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            copy(ROOT / name, self._tree / name)
        (self._tree / SERVICE).mkdir(parents=True)
        for file in HERE.glob("*.py"):
            shutil.copy2(file, self._tree / SERVICE)

    def build(self, mutant: Mutant) -> Built:
        begin = time.monotonic()
        patch = mutant.patch.read_text()
        with self._patched(mutant.patch):
            if f" b/{SERVICE}/" in patch:
                return Built(module(), service=self._keep_service(mutant))
            in_schema = " b/sql/" in patch
            targets = [TARGET, CTL_TARGET] if in_schema else [TARGET]
            self._bazel("build", "--config=opt", "--symlink_prefix=.cache/", *targets)
            return Built(
                self._keep("libidempotency.so", f"{mutant.name}.so"),
                self._keep("cli/idempotencyctl", f"{mutant.name}.ctl") if in_schema else None,
                seconds=round(time.monotonic() - begin, 1),
            )

    def _keep(self, output: str, name: str) -> Path:
        kept = FOLDER / name
        # Bazel writes its outputs without permission to write.
        kept.unlink(missing_ok=True)
        shutil.copyfile(self._tree / ".cache" / "bin" / "source" / output, kept)
        kept.chmod(0o755)
        return kept

    def _keep_service(self, mutant: Mutant) -> Path:
        folder = FOLDER / f"{mutant.name}.service"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._tree / SERVICE, folder)
        return folder / "service.py"

    def close(self) -> None:
        with contextlib.suppress(CannotRun):
            self._bazel("shutdown")

    @contextlib.contextmanager
    def _patched(self, patch: Path) -> Iterator[None]:
        self._apply(patch)
        try:
            yield
        finally:
            self._apply(patch, "--reverse")

    def _apply(self, patch: Path, *options: str) -> None:
        # The copy is inside of a repository, but no part of it: git must not look for one.
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(FOLDER)}
        command = ["git", "apply", "--whitespace=nowarn", *options, str(patch)]
        done = subprocess.run(command, cwd=self._tree, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotRun(f"{patch.name} does not apply any more:\n{done.stderr}")

    def _bazel(self, *words: str) -> None:
        command = ["bazel", f"--output_base={FOLDER / 'base'}", *words]
        try:
            done = subprocess.run(
                command, cwd=self._tree, capture_output=True, text=True, timeout=LONGEST_BUILD, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise CannotRun(f"bazel {words[0]} takes too long") from error
        if done.returncode:
            raise CannotRun(f"bazel {words[0]} failed:\n{done.stderr[-4000:]}")


def run_scenarios(names: list[str], built: Built, seed: int, store: str) -> Verdict:
    """Until each of them has struck: on a busy machine the moment that one is aimed at may not come, and one
    may take away another's. So those that missed theirs are played again by themselves. A run that could not
    be carried out is repeated once."""
    begin, left, broken = time.monotonic(), names, False
    for later in range(MOST_TRIES):
        try:
            verdict = run_once(left, built, seed + later, store)
        except CannotRun as error:
            if broken:
                raise
            broken = True
            print(error, file=sys.stderr)
            continue
        if verdict.violations or not verdict.missed:
            return dataclasses.replace(verdict, seconds=round(time.monotonic() - begin, 1))
        left = verdict.missed
    raise CannotRun(f"the moment for {', '.join(left)} did not come in {MOST_TRIES} runs")


def run_once(names: list[str], built: Built, seed: int, store: str) -> Verdict:
    history, figures = FOLDER / "history.jsonl", FOLDER / "figures.json"
    for file in (history, figures):
        file.unlink(missing_ok=True)
    command = [
        sys.executable,
        HERE / "main.py",
        "--only",
        ",".join(names),
        "--faults",
        "none",
        "--seconds",
        "0",
    ]
    command += [*built.words(), "--seed", str(seed), "--history", history, "--json", figures]
    command += ["--store", store]
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=LONGEST_RUN, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CannotRun(f"{', '.join(names)}: longer than {LONGEST_RUN:.0f} s") from error
    if done.returncode not in (0, 1):
        raise CannotRun(f"{', '.join(names)}: could not run:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    violations = check(load(history))
    struck = json.loads(figures.read_text())["aims"]
    return Verdict(
        violations=len(violations),
        rules=sorted({violation.rule for violation in violations}),
        missed=[name for name in names if not struck.get(name)],
        seconds=round(time.monotonic() - begin, 1),
        text="\n".join(map(str, violations[:2])),
    )


def run_mutant(mutant: Mutant, building: Future[Built], seed: int) -> dict:
    result = {"name": mutant.name, "bug": mutant.bug, "scenario": mutant.scenario}
    try:
        built = building.result()
        # What a bug leads to may depend on a moment that no scenario can hold, such as when a server writes
        # its log. The control shows that these scenarios accuse nobody wrongly.
        for later in range(MOST_TRIES):
            verdict = run_scenarios([mutant.scenario], built, seed + 100 * later, mutant.store)
            if mutant.rule in verdict.rules:
                break
            print(f"{mutant.name}: not noticed in run {later + 1}", file=sys.stderr, flush=True)
    except CannotRun as error:
        print(f"{mutant.name}: {error}", file=sys.stderr)
        return {**result, "caught": False, "seconds": 0, "how": [], "error": str(error)}
    caught = mutant.rule in verdict.rules
    rules = ", ".join(verdict.rules) or "nothing"
    print(
        f"{mutant.name}: {'caught' if caught else 'NOT CAUGHT'} by {mutant.scenario}: {rules};"
        f" {verdict.seconds} s (built in {built.seconds} s)",
        flush=True,
    )
    return {
        **result,
        "caught": caught,
        "seconds": verdict.seconds,
        "how": verdict.rules,
        "build_seconds": built.seconds,
    }


def run_control(mutants: list[Mutant], seed: int) -> dict:
    """The module as it is. If the scenarios accused it, their verdict on a mutant would be worth nothing."""
    result = {"scenarios": [], "violations": 0, "rules": [], "seconds": 0.0}
    for store in sorted({mutant.store for mutant in mutants}):
        scenarios = sorted({mutant.scenario for mutant in mutants if mutant.store == store})
        verdict = run_scenarios(scenarios, Built(module()), seed, store)
        if verdict.violations:
            print(f"the module as it is is accused:\n{verdict.text}", file=sys.stderr)
        print(f"no mutant, {store}: {verdict.violations} violations, {verdict.seconds} s", flush=True)
        result["scenarios"] += scenarios
        result["violations"] += verdict.violations
        result["rules"] += verdict.rules
        result["seconds"] += verdict.seconds
    return result


def arguments(known: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="test/chaos/mutants")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--json", type=Path, help="where the verdicts are written")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--no-control", action="store_true", help="mutants alone, not the module as it is")
    parser.add_argument(
        "--build-only", action="store_true", help="only sees whether the patches apply and build"
    )
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no such mutant: {', '.join(unknown)}")
    return options


def run_all(mutants: list[Mutant], options: argparse.Namespace) -> tuple[list[dict], dict | None]:
    copy = Copy()
    # One build at a time, ahead of the runs.
    with ThreadPoolExecutor(max_workers=1) as builder, contextlib.closing(copy):
        builds = [builder.submit(copy.build, mutant) for mutant in mutants]
        if options.build_only:
            for mutant, built in zip(mutants, builds, strict=True):
                print(f"{mutant.name}: built in {built.result().seconds} s", flush=True)
            return [], None
        control = None
        if not options.no_control:
            control = run_control(mutants, options.seed)
        results = [run_mutant(m, b, options.seed) for m, b in zip(mutants, builds, strict=True)]
    return results, control


def main() -> int:
    begin = time.monotonic()
    try:
        mutants = all_mutants()
        options = arguments([mutant.name for mutant in mutants])
        wanted = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
        results, control = run_all(wanted, options)
    except CannotRun as error:
        print(f"test/chaos/mutants: {error}", file=sys.stderr)
        return 2
    caught = sum(result["caught"] for result in results)
    clean = control is None or control["violations"] == 0
    seconds = round(time.monotonic() - begin, 1)
    if options.json:
        report = {"mutants": results, "control": control, "seed": options.seed, "seconds": seconds}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{caught} of {len(results)} mutants caught, {seconds} s")
    return 0 if caught == len(results) and clean else 1


if __name__ == "__main__":
    sys.exit(main())
