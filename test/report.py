"""Adds up test results: report.py NAME... prints a line for each, then `N passed, N failed`.

NAME.json is Bazel's build event file, NAME.xml is pytest's JUnit file, NAME/ holds the fuzzers' exit codes;
all in .cache/results. NAME.code is the exit code of the command itself. NAME.again.xml and .code, if they are
there, are from a second run of the tests that failed.
"""

import dataclasses
import json
import re
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / ".cache" / "results"


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)
    unsteady: list[str] = dataclasses.field(default_factory=list)  # Failed, and passed when run again.

    def add(self, other: "Count") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures

    def fail(self, what: str) -> None:
        self.failed += 1
        self.failures.append(what)


# What XML 1.0 cannot hold, as such or as a reference. googletest writes test parameters as they are.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|&#[^;]*;")


def count_junit(path: Path) -> Count:
    """Test cases of a JUnit file, as pytest, googletest and Bazel write it."""
    count = Count()
    text = _NOT_XML.sub("?", path.read_bytes().decode(errors="replace"))
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            count.fail(name)
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            count.skipped += 1
        else:
            count.passed += 1
    return count


def count_bazel(path: Path) -> Count:
    """Test cases of all targets that Bazel ran or had cached."""
    count = Count()
    for line in path.read_text().splitlines():
        event = json.loads(line)
        result = event.get("testResult")
        if result is None:
            continue
        label = event["id"]["testResult"]["label"]
        target = Count()
        for output in result.get("testActionOutput", []):
            if output["name"] == "test.xml":
                xml = Path(urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path))
                try:
                    target = count_junit(xml)
                except (OSError, ElementTree.ParseError) as error:
                    target.fail(f"has no readable results: {error}")
        target.failures = [f"{label} {failure}" for failure in target.failures]
        # A crash or a time-out leaves no failed case behind.
        if result["status"] != "PASSED" and not target.failed:
            target.fail(f"{label} {result['status']}")
        # A program that ends before its first case would look fine.
        if result["status"] == "PASSED" and not (target.passed or target.failed or target.skipped):
            target.fail(f"{label} ran no test case")
        count.add(target)
    return count


def count_fuzz(folder: Path) -> Count:
    count = Count()
    for path in sorted(folder.glob("*.code")):
        if path.read_text().strip() == "0":
            count.passed += 1
        else:
            count.fail(path.stem)
    return count


def passed_again(name: str, first: Count) -> bool:
    """Whether every test that failed has run again, and passed."""
    if not first.failed or not (RESULTS / f"{name}.again.code").exists():
        return False
    again = count(f"{name}.again")
    return not again.failed and again.passed >= first.failed


def count(name: str) -> Count:
    code = RESULTS / f"{name}.code"
    try:
        if (RESULTS / name).is_dir():
            return count_fuzz(RESULTS / name)
        found = RESULTS / f"{name}.xml"
        result = count_junit(found) if found.exists() else count_bazel(RESULTS / f"{name}.json")
    except (OSError, ValueError, ElementTree.ParseError) as error:
        result = Count()
        result.fail(f"{name}: no results ({error})")
    if passed_again(name, result):
        return Count(passed=result.passed + result.failed, skipped=result.skipped, unsteady=result.failures)
    # The command failed and no test did: the build broke, say.
    if code.read_text().strip() != "0" and not result.failed:
        result.fail(f"{name}: the test command ended with {code.read_text().strip()}")
    return result


def main(names: list[str]) -> int:
    total = Count()
    print()
    for name in names:
        part = count(name)
        skipped = f", {part.skipped} skipped" if part.skipped else ""
        print(f"{name}: {part.passed} passed, {part.failed} failed{skipped}")
        for failure in part.failures:
            print(f"  FAILED {failure}")
        for failure in part.unsteady:
            print(f"  UNSTEADY {failure}: failed, and passed when it ran again by itself")
        total.add(part)
    print(f"{total.passed} passed, {total.failed} failed", flush=True)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
