"""The service's table of attempts keeps its word, also over a crash."""

import json
from pathlib import Path

import pytest
from attempts import Attempts, Said


@pytest.fixture
def log(tmp_path) -> Path:
    return tmp_path / "executions.jsonl"


def execution(attempt: str, number: int = 1, operation: str = "asked") -> dict:
    answer = {"status": 201, "headers": [["x-execution", str(number)]], "body": "done"}
    return {"type": "execution", "operation": operation, "attempt": attempt, "number": number, **answer}


def write(log: Path, event: dict) -> None:
    with open(log, "a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def test_attempt_that_is_not_here_is_refused_from_then_on(log):
    attempts = Attempts(log)
    assert not attempts.is_refused("7")
    assert attempts.ask("7", 0)[0] is Said.REFUSED
    assert attempts.is_refused("7")
    assert Attempts(log).is_refused("7"), "after a crash"


def test_absence_may_be_said_some_times_before(log):
    attempts = Attempts(log)
    assert [attempts.ask("7", 2)[0] for _ in range(3)] == [Said.ABSENT, Said.ABSENT, Said.REFUSED]


def test_attempt_that_arrives_before_it_is_refused_runs(log):
    attempts = Attempts(log)
    assert attempts.ask("7", 1)[0] is Said.ABSENT
    attempts.begin(execution("7"))
    assert attempts.ask("7", 1)[0] is Said.RUNNING
    attempts.finish("7")
    answer = {"status": 201, "headers": {"x-execution": "1"}, "body": "done"}
    assert attempts.ask("7", 1) == (Said.DONE, answer)
    assert not attempts.is_refused("7")


def test_attempt_that_had_begun_before_a_crash_is_known(log):
    Attempts(log).begin(execution("7", 5))
    assert Attempts(log).unfinished() == [("7", 5)]


@pytest.mark.parametrize(("operation", "known"), [("asked", True), ("mark", False)])
def test_crash_between_the_log_and_the_table_forgets_nothing(log, operation, known):
    write(log, execution("6"))
    write(log, execution("7", 5, operation))
    assert Attempts(log).unfinished() == ([("7", 5)] if known else [])


def test_half_a_line_in_the_log_is_no_execution(log):
    log.write_text(json.dumps(execution("7"))[:-1])
    assert Attempts(log).unfinished() == []
