"""The commands that developers run: the report at the end of test/run, and tools/setup."""

import importlib.util
import json
import subprocess
import time

import pytest
from harness.paths import ROOT

JUNIT = """<testsuites><testsuite name="s">
  <testcase classname="c" name="good"/>
  <testcase classname="c" name="bad"><failure message="no"/></testcase>
  <testcase classname="c" name="left out"><skipped/></testcase>
  <testcase classname="c" name="disabled" status="notrun"/>
</testsuite></testsuites>"""
GOOD = '<testsuites><testsuite><testcase classname="c" name="good"/></testsuite></testsuites>'


@pytest.fixture
def report(folder, monkeypatch):
    spec = importlib.util.spec_from_file_location("report", ROOT / "test" / "report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", folder)
    return module


@pytest.fixture
def results(folder):
    """Writes the files that a part of test/run leaves."""

    def write(name: str, code: int, xml: str | None = None, targets: dict | None = None) -> None:
        (folder / f"{name}.code").write_text(f"{code}\n")
        if xml is not None:
            (folder / f"{name}.xml").write_text(xml)
        if targets is not None:
            events = [{"id": {"started": {}}}]
            for label, (status, text) in targets.items():
                path = folder / (label.strip("/").replace(":", " ") + ".xml")
                path.write_text(text)
                outputs = [{"name": "test.xml", "uri": path.as_uri()}]
                result = {"status": status, "testActionOutput": outputs}
                events.append({"id": {"testResult": {"label": label}}, "testResult": result})
            (folder / f"{name}.json").write_text("\n".join(map(json.dumps, events)))

    return write


def last_line(capsys) -> str:
    return capsys.readouterr().out.splitlines()[-1]


def test_test_cases_are_added_up(report, results, capsys):
    results("integration", 0, xml=GOOD)
    results("unit", 0, targets={"//a:b": ("PASSED", GOOD), "//a:c": ("PASSED", GOOD)})
    assert report.main(["unit", "integration"]) == 0
    assert last_line(capsys) == "3 passed, 0 failed"


def test_a_failed_case_is_counted_and_named(report, results, capsys):
    results("unit", 3, targets={"//a:b": ("FAILED", JUNIT)})
    assert report.main(["unit"]) == 1
    output = capsys.readouterr().out
    assert "FAILED //a:b c.bad" in output
    assert output.endswith("\n1 passed, 1 failed\n")


def test_parameters_that_are_no_text_do_not_hide_results(report, results, folder, capsys):
    results("unit", 0, targets={"//a:b": ("PASSED", GOOD), "//a:c": ("PASSED", GOOD)})
    (folder / "a b.xml").write_bytes(GOOD.encode().replace(b"good", b"\x80 \x01 &#x2; &amp;"))
    assert report.main(["unit"]) == 0
    assert last_line(capsys) == "2 passed, 0 failed"


def test_a_target_whose_results_cannot_be_read_is_a_failure(report, results, folder, capsys):
    results("unit", 0, targets={"//a:b": ("PASSED", GOOD), "//a:c": ("PASSED", GOOD)})
    (folder / "a b.xml").write_text("<testsuites>")
    assert report.main(["unit"]) == 1
    assert last_line(capsys) == "1 passed, 1 failed"


def test_a_crash_without_a_failed_case_is_a_failure(report, results, capsys):
    results("unit", 3, targets={"//a:b": ("TIMEOUT", GOOD)})
    assert report.main(["unit"]) == 1
    assert last_line(capsys) == "1 passed, 1 failed"


def test_a_target_that_runs_no_case_is_a_failure(report, results, capsys):
    results("unit", 0, targets={"//a:b": ("PASSED", "<testsuites/>"), "//a:c": ("PASSED", GOOD)})
    assert report.main(["unit"]) == 1
    assert last_line(capsys) == "1 passed, 1 failed"


def test_a_command_that_fails_without_a_failed_test_is_a_failure(report, results, capsys):
    results("unit", 1, targets={"//a:b": ("PASSED", GOOD)})
    results("integration", 2)
    assert report.main(["unit", "integration"]) == 1
    assert last_line(capsys) == "1 passed, 2 failed"


def test_a_test_that_passes_when_it_runs_again_is_named_and_no_failure(report, results, capsys):
    results("integration", 1, xml=JUNIT)
    results("integration.again", 0, xml=GOOD.replace("good", "bad"))
    assert report.main(["integration"]) == 0
    output = capsys.readouterr().out
    assert "UNSTEADY c.bad" in output
    assert output.endswith("\n2 passed, 0 failed\n")


@pytest.mark.parametrize(
    ("code", "xml"),
    [(1, JUNIT), (0, "<testsuites/>"), (2, GOOD), (4, None)],
    ids=["fails_again", "did_not_run", "stopped", "no_results"],
)
def test_a_test_that_does_not_pass_again_is_a_failure(report, results, capsys, code, xml):
    results("integration", 1, xml=JUNIT)
    results("integration.again", code, xml=xml)
    assert report.main(["integration"]) == 1
    output = capsys.readouterr().out
    assert "FAILED c.bad" in output
    assert "UNSTEADY" not in output
    assert output.endswith("\n1 passed, 1 failed\n")


def test_no_test_at_all_is_a_failure(report, results, capsys):
    results("integration", 0, xml="<testsuites/>")
    assert report.main(["integration"]) == 1
    assert last_line(capsys) == "0 passed, 0 failed"


def test_unknown_parts_are_refused():
    for command in ("test/run", "tools/setup"):
        result = subprocess.run([ROOT / command, "everthing"], capture_output=True, text=True)
        assert result.returncode == 2
        assert "unknown part 'everthing'" in result.stderr


def test_setup_says_nothing_and_is_quick_when_nothing_is_missing():
    start = time.monotonic()
    result = subprocess.run([ROOT / "tools" / "setup", "test"], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert time.monotonic() - start < 2
