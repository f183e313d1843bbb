"""Every rule of the checker: a history that it lets pass, and one that it must not."""

import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from checker import Violation, check
from history import Malformed, load

LEASE, CACHE_AGE, TTL, BRIEF = 2.0, 1.0, 3600.0, 5.0
SETTLED_WITHIN = 40.0


class Made:
    """A history under construction: time goes on by 10 ms with every event, or by what wait() says."""

    def __init__(self) -> None:
        self._now = 1_000_000_000_000
        self._ids = itertools.count(1)
        self._numbers = itertools.count(100)
        self.events: list[dict] = []
        self.executions: dict[int, dict] = {}
        self.add(
            "settings",
            lease=LEASE,
            sweep=1.0,
            cache_age=CACHE_AGE,
            ttl={
                **dict.fromkeys(("mark", "retry", "pushy", "detached", "asked", "manual", "own"), TTL),
                "own_brief": BRIEF,
                "brief": BRIEF,
            },
            retryable=[425, 429, 500, 503],
            released=[401, 403, 407],
            doubtful=[408, 501, 502, 504],
            resends=["pushy"],
            detached=["detached"],
            reconciled=["asked"],
            settled_within=SETTLED_WITHIN,
            audited=["asked", "manual"],
            own=["own", "own_brief"],
        )

    def add(self, event: str, /, **fields) -> dict:
        self._now += 10_000_000
        self.events.append({"at": self._now, "type": event, **fields})
        return self.events[-1]

    def wait(self, seconds: float) -> None:
        self._now += int(seconds * 1e9)

    def call(
        self,
        payload: str = "p",
        tenant: str = "t",
        operation: str = "mark",
        key: str = "k",
        envoy: int = 0,
    ) -> dict:
        identity = {"tenant": tenant, "operation": operation, "key": key}
        policy = "retry" if operation == "retry" else "mark"
        number = f"c{next(self._ids)}"
        return self.add("call", id=number, client=0, envoy=envoy, **identity, payload=payload, policy=policy)

    def begin(self, call: dict, status: int = 200, attempt: str | None = None, **fields) -> int:
        number = next(self._numbers)
        own = [["content-type", "application/json"], ["x-execution", str(number)]]
        identity = {name: call[name] for name in ("tenant", "operation", "key", "payload")}
        token = attempt or f"attempt {number}"
        values = {"attempt": token, "status": status, "headers": own, "body": f"answer {number}", **fields}
        self.executions[number] = self.add("execution", number=number, call=call["id"], **identity, **values)
        return number

    def end(self, number: int) -> None:
        self.add("executed", number=number)

    def run(self, call: dict, status: int = 200, **fields) -> int:
        number = self.begin(call, status, **fields)
        self.end(number)
        return number

    def _answer(self, number: int, *marks: str) -> dict:
        execution = self.executions[number]
        headers = [*execution["headers"], ["server", "envoy"], ["date", "today"]]
        headers += [mark.split(": ") for mark in marks]
        return {"status": execution["status"], "headers": headers, "body": execution["body"]}

    def returned(self, call: dict, number: int, *marks: str, **changes) -> dict:
        return self.add("return", id=call["id"], **{**self._answer(number, *marks), **changes})

    def replayed(self, call: dict, number: int, **changes) -> dict:
        return self.returned(call, number, "idempotent-replayed: true", **changes)

    def problem(self, call: dict, status: int, code: str) -> dict:
        body = json.dumps({"title": "…", "status": status, "code": f"idempotency_{code}"})
        return self.add("return", id=call["id"], status=status, headers=[], body=body)

    def envoys_own(self, call: dict, status: int) -> dict:
        return self.add("return", id=call["id"], status=status, headers=[["server", "envoy"]], body="no")

    def lost(self, call: dict) -> None:
        self.add("lost", id=call["id"], why="timeout")

    def fault(self, kind: str, target: str, seconds: float = 0.1) -> None:
        self.add("fault", kind=kind, target=target, phase="begin")
        self.wait(seconds)
        self.add("fault", kind=kind, target=target, phase="end")

    def quiet(self) -> None:
        self.add("quiet")

    def final(self, call: dict, number: int | None, code: str | None = None, **fields) -> None:
        identity = {name: call[name] for name in ("tenant", "operation", "key", "payload")}
        answer = {"status": None, "headers": [], "body": ""}
        if number is not None:
            answer = self._answer(number, "idempotent-replayed: true")
        elif code is not None:
            answer = {"status": 409, "headers": [], "body": json.dumps({"code": f"idempotency_{code}"})}
        self.add("final", **identity, **{**answer, **fields})

    def about(self, kind: str, call: dict, **fields) -> dict:
        identity = {name: call[name] for name in ("tenant", "operation", "key")}
        return self.add(kind, **identity, **fields)

    def asked(self, call: dict, attempt: str, said: str = "refused", by: str = "reconciler") -> None:
        self.about("asked", call, attempt=attempt, by=by, said=said)

    def change(
        self,
        call: dict,
        attempt: str,
        action: str = "resolve_not_run",
        outcome: str = "done",
        *,
        audited: bool | None = None,
    ) -> dict:
        """By an operator. It is in the audit if it was done."""
        reason, began = f"case {next(self._ids)}", self._now
        facts = {"attempt": attempt, "action": action, "actor": "ann"}
        change = self.about("change", call, **facts, reason=reason, began=began, outcome=outcome)
        if audited if audited is not None else outcome == "done":
            self.audit(call, attempt, action, "ann", reason)
        return change

    def audit(
        self,
        call: dict,
        attempt: str,
        action: str = "resolve_not_run",
        actor: str = "reconciler",
        detail: str = "declared_not_run (status 200)",
    ) -> None:
        self.about("audit", call, attempt=attempt, action=action, actor=actor, detail=detail)

    # --- the service's own transactions

    def work(self, call: dict, attempt: int | None = None, point: str | None = None) -> int:
        """A request comes to the service."""
        number = next(self._numbers)
        facts = {name: call[name] for name in ("tenant", "operation", "key", "payload")}
        own = [["content-type", "application/json"], ["x-execution", str(number)]]
        self.executions[number] = {
            **self.add(
                "work",
                number=number,
                **facts,
                call=call["id"],
                attempt=str(attempt or number),
                point=point,
            ),
            **{"status": 201, "headers": own, "body": f"answer {number}"},
        }
        return number

    def begun(self, number: int, point: str = "started", identity: list[str] | None = None) -> None:
        work = self.executions[number]
        found = identity or [work[name] for name in ("tenant", "operation", "key")]
        self.add("begun", number=number, identity=found, point=point)

    def effect(self, number: int, phase: str = "done", **changes) -> dict:
        """It commits."""
        work = self.executions[number]
        attempt = int(work["attempt"])
        facts = {name: work[name] for name in ("payload", "headers", "body", "call")}
        values = {
            **{name: work[name] for name in ("tenant", "operation", "key", "number", "status")},
            **{"attempt": attempt, "holder": attempt, "phase": phase, "state": 2 if phase == "done" else 1},
            **{"ordered": False, "life": "today", "facts": facts},
        }
        return self.add("effect", **{**values, **changes})

    def order(self, call: dict, attempt: int = 1, life: str = "today") -> None:
        self.about("order", call, attempt=attempt, name="letters", life=life)

    def settled(self, call: dict, number: int) -> None:
        """The end of a request that its service has completed."""
        self.quiet()
        self.final(call, number)
        attempt = int(self.executions[number]["attempt"])
        self.about("row", call, state="completed", attempt=attempt)

    def violations(self) -> list[Violation]:
        # Lines of two logs: their order in the file tells nothing.
        shuffled = random.Random(7).sample(self.events, len(self.events))
        found = check(shuffled)
        assert {v.rule for v in check(self.events)} == {v.rule for v in found}
        return found

    def rules(self) -> set[str]:
        return {violation.rule for violation in self.violations()}


@pytest.fixture
def made() -> Made:
    return Made()


def success(made: Made, **options) -> tuple[dict, int]:
    call = made.call(**options)
    number = made.run(call)
    made.returned(call, number)
    return call, number


# --- an ordinary life


def test_run_and_replay_pass(made):
    _, number = success(made)
    made.replayed(made.call(), number)
    made.problem(made.call(payload="other"), 422, "key_reused")
    assert made.rules() == set()


def test_refusals_and_lost_calls_pass_at_any_time(made):
    made.problem(made.call(), 503, "store_unavailable")
    made.lost(made.call())
    _, number = success(made)
    made.problem(made.call(), 503, "store_unavailable")
    made.envoys_own(made.call(), 503)
    made.lost(made.call())
    made.replayed(made.call(), number)
    assert made.rules() == set()


def test_those_that_race_get_in_progress(made):
    first, second = made.call(), made.call()
    number = made.begin(first)
    made.problem(second, 409, "in_progress")
    made.end(number)
    made.returned(first, number)
    assert made.rules() == set()


# --- one-execution


def test_second_execution_is_found(made):
    made.run(made.call())
    made.run(made.call())
    assert made.rules() == {"one-execution"}


def test_second_execution_after_a_lost_call_is_found(made):
    call = made.call()
    made.run(call)
    made.lost(call)
    success(made)
    assert made.rules() == {"one-execution"}


def test_execution_after_a_retryable_or_released_answer_passes(made):
    for status in (503, 403):
        call = made.call()
        made.returned(call, made.run(call, status))
    success(made)
    assert made.rules() == set()


@pytest.mark.parametrize("status", [408, 501, 502, 504])
def test_execution_after_a_status_that_leaves_open_whether_it_ran_is_found(made, status):
    call = made.call()
    made.returned(call, made.run(call, status))
    made.run(made.call())
    assert made.rules() == {"one-execution"}


def test_unknown_outcome_after_such_a_status_passes(made):
    call = made.call()
    made.returned(call, made.run(call, 504))
    made.problem(made.call(), 409, "outcome_unknown")
    assert made.rules() == set()


def test_execution_after_a_proxy_answered_for_a_service_that_ran_is_found(made):
    call = made.call()
    made.run(call)
    made.envoys_own(call, 503)
    made.run(made.call())
    assert made.rules() == {"one-execution"}


def test_execution_after_a_proxy_answered_for_a_service_that_did_not_run_passes(made):
    made.envoys_own(made.call(), 503)
    success(made)
    assert made.rules() == set()


@pytest.mark.parametrize("last", [401, 503])
def test_execution_after_a_redirect_that_failed_is_found(made, last):
    call = made.call()
    made.run(call, 307, attempt="7", path="/mark")
    made.returned(call, made.run(call, last, attempt="7", path="/mark/next"))
    made.run(made.call(), path="/mark")
    assert made.rules() == {"one-execution"}


def test_redirect_that_ends_well_passes(made):
    call = made.call()
    made.run(call, 307, attempt="7", path="/mark")
    number = made.run(call, attempt="7", path="/mark/next")
    made.returned(call, number)
    made.replayed(made.call(), number)
    assert made.rules() == set()


def test_one_attempt_twice_at_one_path_is_found(made):
    call = made.call()
    for _ in range(2):
        made.run(call, 503, attempt="7", path="/mark")
    assert made.rules() == {"one-execution"}


def test_what_a_proxy_sends_again_by_itself_passes(made):
    call = made.call(operation="pushy")
    made.run(call, attempt="7")
    made.returned(call, made.run(call, attempt="7"))
    assert made.rules() == set()


def test_execution_after_a_retry_of_which_only_the_last_failed_is_found(made):
    call = made.call(operation="pushy")
    made.run(call, 200, attempt="7")
    made.returned(call, made.run(call, 503, attempt="7"))
    made.run(made.call(operation="pushy"))
    assert made.rules() == {"one-execution"}


def test_execution_after_a_retry_of_which_all_failed_passes(made):
    call = made.call(operation="pushy")
    made.run(call, 503, attempt="7")
    made.returned(call, made.run(call, 503, attempt="7"))
    success(made, operation="pushy")
    assert made.rules() == set()


def test_execution_while_an_earlier_try_still_runs_is_found(made):
    call = made.call(operation="pushy")
    early = made.begin(call, 503, attempt="7")
    made.returned(call, made.run(call, 503, attempt="7"))
    made.run(made.call(operation="pushy"))
    made.end(early)
    assert made.rules() == {"one-execution"}


@pytest.mark.parametrize(("status", "declared"), [(200, "retryable"), (404, "not-run"), (502, "retryable")])
def test_execution_after_the_service_declared_that_it_may_be_repeated_passes(made, status, declared):
    call = made.call()
    made.returned(call, made.run(call, status, declares=declared))
    success(made)
    assert made.rules() == set()


@pytest.mark.parametrize(("status", "declared"), [(503, "completed"), (503, "unknown"), (401, "unknown")])
def test_execution_after_the_service_declared_otherwise_is_found(made, status, declared):
    call = made.call()
    made.returned(call, made.run(call, status, declares=declared))
    made.run(made.call())
    assert made.rules() == {"one-execution"}


def test_failure_that_is_declared_completed_is_stored(made):
    call = made.call()
    made.returned(call, made.run(call, 500, declares="completed"))
    made.problem(made.call(), 409, "outcome_unknown")
    assert made.rules() == {"after-success"}


def test_success_that_is_declared_unknown_is_not_stored(made):
    call = made.call()
    made.returned(call, made.run(call, declares="unknown"))
    made.problem(made.call(), 409, "outcome_unknown")
    assert made.rules() == set()


def test_execution_while_the_failing_one_still_runs_is_found(made):
    first = made.call()
    number = made.begin(first, 503)
    made.run(made.call())
    made.end(number)
    assert made.rules() == {"one-execution"}


def test_execution_after_one_that_never_ended_is_found(made):
    made.begin(made.call(), 503)
    made.run(made.call())
    assert made.rules() == {"one-execution"}


def test_retry_policy_runs_again_after_the_lease_only(made):
    call = made.call(operation="retry")
    made.begin(call)
    made.wait(LEASE)
    success(made, operation="retry")
    assert made.rules() == set()


def test_retry_policy_within_the_lease_is_found(made):
    made.begin(made.call(operation="retry"))
    made.wait(LEASE * 0.9)
    success(made, operation="retry")
    assert made.rules() == {"one-execution"}


def test_mark_policy_after_the_lease_is_found(made):
    made.begin(made.call())
    made.wait(LEASE * 10)
    success(made)
    assert made.rules() == {"one-execution"}


def test_retry_policy_after_a_stored_answer_is_found(made):
    success(made, operation="retry")
    made.wait(LEASE * 2)
    made.run(made.call(operation="retry"))
    assert made.rules() == {"one-execution"}


def test_stored_answer_of_a_replaced_attempt_is_found(made):
    slow = made.call(operation="retry")
    number = made.begin(slow)
    made.wait(LEASE)
    made.run(made.call(operation="retry"))
    made.end(number)
    made.returned(slow, number)
    assert made.rules() == {"one-execution"}


def test_answer_of_a_replaced_attempt_passes_if_it_says_that_it_is_not_stored(made):
    slow = made.call(operation="retry")
    number = made.begin(slow)
    made.wait(LEASE)
    _, later = success(made, operation="retry")
    made.end(number)
    made.returned(slow, number, "idempotency-stored: false")
    made.replayed(made.call(operation="retry"), later)
    assert made.rules() == set()


def test_one_attempt_token_twice_is_found(made):
    made.run(made.call(), 503, attempt="7")
    made.run(made.call(), 503, attempt="7")
    assert made.rules() == {"one-execution"}


def test_execution_after_the_end_of_its_life_passes(made):
    success(made, operation="brief")
    made.wait(BRIEF)
    success(made, operation="brief")
    assert made.rules() == set()


def test_execution_before_the_end_of_its_life_is_found(made):
    success(made, operation="brief")
    made.wait(BRIEF * 0.9)
    made.run(made.call(operation="brief"))
    assert made.rules() == {"one-execution"}


def test_execution_after_a_bust_passes(made):
    call, _ = success(made)
    made.about("bust", call)
    success(made)
    assert made.rules() == set()


# --- answers


@pytest.mark.parametrize(
    "change", [{"status": 201}, {"body": "answer"}, {"headers": []}], ids=["status", "body", "headers"]
)
@pytest.mark.parametrize("how", ["returned", "replayed"])
def test_answer_that_differs_is_found(made, how, change):
    call = made.call()
    number = made.run(call)
    if how == "replayed":
        made.returned(call, number)
        call = made.call()
    if "headers" in change:
        change = {"headers": [["x-execution", str(number)], ["idempotent-replayed", "true"]]}
    getattr(made, how)(call, number, **change)
    assert made.rules() == {"wrong-answer"}


def test_header_without_a_source_is_found(made):
    call = made.call()
    made.returned(call, made.run(call), "x-more: 1")
    assert made.rules() == {"wrong-answer"}


def test_answer_without_execution_is_found(made):
    call = made.call()
    number = made.run(call)
    made.events = [event for event in made.events if event["type"] not in ("execution", "executed")]
    made.returned(call, number)
    assert made.rules() == {"no-execution"}


def test_success_that_names_no_execution_is_found(made):
    made.envoys_own(made.call(), 200)
    assert made.rules() == {"no-execution"}


def test_answer_before_its_execution_is_found(made):
    call, other = made.call(), made.call()
    number = made.run(other)
    made.returned(call, number)["at"] = other["at"] + 1
    assert made.rules() == {"no-execution"}


def test_answer_of_another_tenant_is_found(made):
    _, number = success(made)
    made.replayed(made.call(tenant="other"), number)
    assert made.rules() == {"foreign-answer"}


def test_same_key_of_two_tenants_passes(made):
    success(made)
    success(made, tenant="other")
    assert made.rules() == set()


# --- after-success


@pytest.mark.parametrize("code", ["in_progress", "outcome_unknown", "response_unavailable"])
def test_conflict_after_a_stored_success_is_found(made, code):
    success(made)
    made.problem(made.call(), 409, code)
    assert made.rules() == {"after-success"}


def test_conflict_for_a_call_that_began_before_the_success_came_passes(made):
    call, other = made.call(), made.call()
    made.returned(call, made.run(call))
    made.problem(other, 409, "in_progress")
    assert made.rules() == set()


@pytest.mark.parametrize("code", ["in_progress", "outcome_unknown"])
def test_conflict_after_an_answer_that_says_that_it_is_not_stored_passes(made, code):
    call = made.call()
    made.returned(call, made.run(call), "idempotency-stored: false")
    made.problem(made.call(), 409, code)
    assert made.rules() == set()


def test_conflict_after_an_answer_too_long_to_be_kept_passes(made):
    call = made.call()
    made.returned(call, made.run(call, kept=False))
    made.problem(made.call(), 409, "response_unavailable")
    assert made.rules() == set()


def test_conflict_after_a_replay_is_found(made):
    call = made.call()
    number = made.run(call)
    made.lost(call)
    made.replayed(made.call(), number)
    made.problem(made.call(), 409, "outcome_unknown")
    assert made.rules() == {"after-success"}


# --- a reused key


def test_reuse_that_is_none_is_found(made):
    made.problem(made.call(), 422, "key_reused")
    assert made.rules() == {"key-reused"}


def test_reuse_called_for_the_holder_of_the_key_is_found(made):
    made.lost(made.call(payload="other"))
    call = made.call()
    made.run(call)
    made.lost(call)
    made.problem(made.call(), 422, "key_reused")
    assert made.rules() == {"key-reused"}


def test_reuse_by_the_second_request_passes(made):
    first, second = made.call(), made.call(payload="other")
    number = made.run(second)
    made.problem(first, 422, "key_reused")
    made.returned(second, number)
    assert made.rules() == set()


@pytest.mark.parametrize("code", ["in_progress", "outcome_unknown"])
def test_reuse_that_was_not_noticed_is_found(made, code):
    made.begin(made.call())
    made.problem(made.call(payload="other"), 409, code)
    assert made.rules() == {"key-reused"}


def test_replay_for_another_body_is_found(made):
    _, number = success(made)
    made.replayed(made.call(payload="other"), number)
    assert made.rules() == {"key-reused"}


def test_execution_for_another_body_is_found(made):
    call = made.call()
    made.returned(call, made.run(call, 503))
    success(made, payload="other")
    assert made.rules() == {"key-reused"}


def test_key_given_back_may_be_used_for_another_body(made):
    call = made.call()
    made.returned(call, made.run(call, 403))
    success(made, payload="other")
    assert made.rules() == set()


def test_reuse_by_a_former_holder_passes(made):
    former = made.call()
    made.returned(former, made.run(former, 403))
    holder, again = made.call(payload="other"), made.call()
    made.problem(again, 422, "key_reused")
    made.returned(holder, made.run(holder))
    assert made.rules() == set()


# --- the end of a replay


def test_replay_of_a_replaced_attempt_is_found(made):
    slow = made.call(operation="retry")
    number = made.begin(slow)
    made.wait(LEASE)
    again = made.call(operation="retry")
    made.begin(again)
    made.end(number)
    made.lost(slow)
    made.replayed(made.call(operation="retry"), number)
    assert "fenced" in made.rules()


def test_replay_past_its_life_is_found(made):
    _, number = success(made, operation="brief")
    made.wait(BRIEF + 1)
    made.replayed(made.call(operation="brief"), number)
    assert made.rules() == {"past-life"}


def test_replay_up_to_the_end_of_its_life_passes(made):
    _, number = success(made, operation="brief")
    made.wait(BRIEF - 0.1)
    made.replayed(made.call(operation="brief"), number)
    assert made.rules() == set()


NOT_STORED = "idempotency-stored: false"
EXPIRES = "idempotency-key-expires: later"


def replay_brief(made: Made, number: int, after: float) -> set[str]:
    made.wait(after)
    made.replayed(made.call(operation="brief"), number)
    return made.rules()


def without_store(made: Made, target: str = "database", kind: str = "stop", seconds: float = BRIEF) -> int:
    """A finished execution whose client left, and then a fault that begins early in the record's life."""
    call = made.call(operation="brief")
    number = made.run(call)
    made.lost(call)
    made.fault(kind, target, seconds)
    return number


def answered_late(made: Made, *marks: str) -> int:
    call = made.call(operation="brief")
    number = made.begin(call)
    made.wait(BRIEF + 1)
    made.end(number)
    made.returned(call, number, *marks)
    return number


REPLAYED_AFTER = [(BRIEF - 0.5, set()), (BRIEF + LEASE + 1, {"past-life"})]


@pytest.mark.parametrize(("after", "rules"), REPLAYED_AFTER)
def test_run_longer_than_its_life_gets_another_from_its_answer(made, after, rules):
    assert replay_brief(made, answered_late(made), after) == rules


def test_expiry_in_the_answer_of_a_long_run_holds(made):
    assert replay_brief(made, answered_late(made, EXPIRES), 1) == {"past-life"}


@pytest.mark.parametrize(("after", "rules"), REPLAYED_AFTER)
@pytest.mark.parametrize(
    ("target", "kind"), [("database", "stop"), ("envoy0.database", "cut"), ("envoy0", "pause_envoy")]
)
def test_answer_stored_once_the_store_is_back_gets_another_life(made, target, kind, after, rules):
    assert replay_brief(made, without_store(made, target, kind), after) == rules


@pytest.mark.parametrize(("after", "rules"), REPLAYED_AFTER)
def test_answer_that_says_it_is_not_stored_may_be_stored_later(made, after, rules):
    call = made.call(operation="brief")
    number = made.run(call)
    made.wait(BRIEF - 1)
    made.returned(call, number, NOT_STORED, EXPIRES)
    assert replay_brief(made, number, after) == rules


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("envoy1.database", "cut"),
        ("envoy1", "pause_envoy"),
        ("upstream", "cut_upstream"),
        ("envoy0", "reload"),
    ],
)
def test_replay_past_its_life_for_another_fault_is_found(made, target, kind):
    assert replay_brief(made, without_store(made, target, kind), 1) == {"past-life"}


def test_replay_past_its_life_after_a_run_whose_client_left_is_found(made):
    _, number = left(made, operation="brief")
    assert replay_brief(made, number, BRIEF + 1) == {"past-life"}


def test_short_fault_excuses_no_more_than_a_lease(made):
    number = without_store(made, seconds=0.1)
    assert replay_brief(made, number, BRIEF + LEASE + 1) == {"past-life"}


def test_replay_past_its_life_after_a_fault_that_began_when_the_answer_was_stored_is_found(made):
    call = made.call(operation="brief")
    number = made.run(call)
    made.lost(call)
    made.wait(1)
    made.fault("stop", "database", BRIEF)
    assert replay_brief(made, number, 1) == {"past-life"}


def test_replay_past_the_expiry_that_the_answer_told_is_found_whatever_the_faults(made):
    call = made.call(operation="brief")
    number = made.run(call)
    made.returned(call, number, EXPIRES)
    made.fault("stop", "database", BRIEF)
    assert replay_brief(made, number, 1) == {"past-life"}


def test_replay_past_its_life_after_a_replay_within_its_life_is_found(made):
    """It had been stored by then, although the first answer said that it was not."""
    call = made.call(operation="brief")
    number = made.run(call)
    made.returned(call, number, NOT_STORED)
    made.replayed(made.call(operation="brief"), number)
    made.fault("stop", "database", BRIEF)
    assert replay_brief(made, number, 1) == {"past-life"}


def test_replay_shortly_after_a_bust_passes(made):
    call, number = success(made)
    made.about("bust", call)
    made.wait(CACHE_AGE)
    made.replayed(made.call(), number)
    assert made.rules() == set()


def test_replay_long_after_a_bust_is_found(made):
    call, number = success(made)
    made.about("bust", call)
    made.wait(CACHE_AGE + 1)
    made.replayed(made.call(), number)
    assert made.rules() == {"past-bust"}


# --- detached runs


def left(made: Made, status: int = 200, **options) -> tuple[dict, int]:
    """Its client leaves while the service works."""
    call = made.call(**{"operation": "detached", **options})
    number = made.begin(call, status)
    made.lost(call)
    made.end(number)
    return call, number


def ask_again(made: Made, code: str = "outcome_unknown") -> None:
    made.problem(made.call(operation="detached"), 409, code)


def test_response_of_a_detached_run_whose_client_left_passes(made):
    _, number = left(made)
    made.replayed(made.call(operation="detached"), number)
    assert made.rules() == set()


@pytest.mark.parametrize("code", ["outcome_unknown", "detached_lost", "detached_timeout"])
def test_unknown_outcome_because_the_client_left_is_found(made, code):
    left(made)
    ask_again(made, code)
    assert made.rules() == {"groundless-unknown"}


def test_unknown_outcome_at_the_end_because_the_client_left_is_found(made):
    call, _ = left(made)
    made.quiet()
    made.final(call, None, "outcome_unknown")
    assert made.rules() == {"groundless-unknown"}


def test_unknown_outcome_because_the_client_left_before_the_service_was_called_is_found(made):
    made.lost(made.call(operation="detached"))
    ask_again(made)
    assert made.rules() == {"groundless-unknown"}


def test_unknown_outcome_because_the_client_of_an_attached_run_left_passes(made):
    call = made.call()
    made.run(call)
    made.lost(call)
    made.problem(made.call(), 409, "outcome_unknown")
    assert made.rules() == set()


def test_second_detached_run_is_found(made):
    left(made)
    made.fault("kill_envoy", "envoy0")
    left(made)
    assert made.rules() == {"one-execution"}


REASONS = {
    "its Envoy is killed": ("kill_envoy", "envoy0"),
    "its Envoy is stopped": ("term_envoy", "envoy0"),
    "its Envoy stands still": ("pause_envoy", "envoy0"),
    "its connection is cut": ("cut_upstream", "envoy0.upstream"),
    "its connection is cut in the response": ("cut_after_upstream", "envoy0.upstream"),
    "its connection is reset": ("reset_upstream", "envoy0.upstream"),
    "its connection is silent": ("black_hole_upstream", "envoy0.upstream"),
    "the upstream is killed": ("kill_upstream", "upstream"),
    "the upstream crashes": ("crash_upstream_after", "upstream"),
    "the database is killed": ("kill_database", "database"),
    "the database is far away": ("delay_database", "envoy0.database"),
    "the disk is full": ("full_disk", "disk"),
}
NO_REASONS = {
    "another Envoy is killed": ("kill_envoy", "envoy1"),
    "another Envoy stands still": ("pause_envoy", "envoy1"),
    "another Envoy's connections are cut": ("cut_upstream", "envoy1.upstream"),
    "the clients' connections are cut": ("cut_front", "envoy0.front"),
    "the clients' listener changes": ("reload", "envoy0"),
    "the response takes its time": ("delay_upstream", "envoy0.upstream"),
    "the upstream takes its time": ("slow_upstream", "upstream"),
    "the clock of an Envoy is set": ("clock_jump", "envoy0.clock"),
}


def during(made: Made, kind: str, target: str) -> None:
    call = made.call(operation="detached")
    number = made.begin(call)
    made.lost(call)
    made.fault(kind, target)
    made.end(number)
    ask_again(made)


@pytest.mark.parametrize("fault", REASONS.values(), ids=REASONS)
def test_unknown_outcome_of_a_detached_run_with_a_reason_passes(made, fault):
    during(made, *fault)
    assert made.rules() == set()


@pytest.mark.parametrize("fault", NO_REASONS.values(), ids=NO_REASONS)
def test_unknown_outcome_of_a_detached_run_with_something_that_is_no_reason_is_found(made, fault):
    during(made, *fault)
    assert made.rules() == {"groundless-unknown"}


def test_fault_that_was_over_before_the_detached_run_is_no_reason(made):
    made.fault("kill_envoy", "envoy0")
    made.wait(1)
    left(made)
    ask_again(made)
    assert made.rules() == {"groundless-unknown"}


def test_fault_long_after_the_response_of_the_detached_run_is_no_reason(made):
    left(made)
    made.wait(LEASE + 1)
    made.fault("kill_envoy", "envoy0")
    ask_again(made)
    assert made.rules() == {"groundless-unknown"}


def test_fault_that_does_not_end_is_a_reason(made):
    made.add("fault", kind="mute_upstream", target="envoy0.upstream", phase="begin")
    made.wait(10)
    made.lost(made.call(operation="detached"))
    ask_again(made)
    assert made.rules() == set()


@pytest.mark.parametrize(("envoy", "rules"), [(0, set()), (1, {"groundless-unknown"})])
def test_store_that_its_envoy_says_it_does_not_have_is_a_reason(made, envoy, rules):
    call = made.call(operation="detached")
    number = made.begin(call)
    made.lost(call)
    made.problem(made.call(key="of another", envoy=envoy), 503, "store_unavailable")
    made.end(number)
    ask_again(made)
    assert made.rules() == rules


def test_clock_of_a_file_is_a_reason(made):
    made.events[0]["store"] = "sqlite"
    during(made, "clock_jump", "envoy0.clock")
    assert made.rules() == set()


def test_fault_after_a_run_that_may_be_repeated_is_a_reason_for_the_next(made):
    left(made, status=503)
    made.wait(LEASE + 1)
    made.lost(made.call(operation="detached"))
    made.fault("cut_upstream", "envoy0.upstream")
    ask_again(made)
    assert made.rules() == set()


def test_client_that_leaves_after_a_run_that_may_be_repeated_is_no_reason(made):
    left(made, status=503)
    made.lost(made.call(operation="detached"))
    ask_again(made)
    assert made.rules() == {"groundless-unknown"}


def test_unknown_outcome_of_a_detached_run_in_the_words_of_the_service_passes(made):
    left(made, status=504)
    ask_again(made)
    declared = made.call(operation="detached", key="declared")
    made.run(declared, declares="unknown")
    made.lost(declared)
    made.problem(made.call(operation="detached", key="declared"), 409, "outcome_unknown")
    assert made.rules() == set()


@pytest.mark.parametrize(("last", "rules"), [(503, set()), (200, {"groundless-unknown"})])
def test_unknown_outcome_of_a_detached_run_that_was_redirected(made, last, rules):
    call = made.call(operation="detached")
    made.run(call, 307, attempt="a", path="/hop")
    made.run(call, last, attempt="a", path="/hop/next")
    made.lost(call)
    ask_again(made)
    assert made.rules() == rules


# --- unsettled, unaudited, stale-change


def unknown(made: Made, operation: str = "asked", **options) -> dict:
    """A call whose request may have run."""
    call = made.call(operation=operation)
    made.run(call, **options)
    made.problem(call, 409, "outcome_unknown")
    return call


def lost_request(made: Made, operation: str = "asked") -> dict:
    """A call whose request did not arrive."""
    call = made.call(operation=operation)
    made.problem(call, 409, "outcome_unknown")
    return call


def test_result_that_the_reconciler_finds_passes(made):
    call = made.call(operation="asked")
    number = made.run(call, attempt="7")
    made.envoys_own(call, 504)
    made.problem(made.call(operation="asked"), 409, "outcome_unknown")
    made.asked(call, "7", "done")
    made.replayed(made.call(operation="asked"), number)
    made.quiet()
    made.final(call, number)
    made.about("row", call, state="completed", attempt=7)
    made.audit(call, "7", "resolve_completed", detail="result (status 200)")
    assert made.rules() == set()


def test_result_that_the_reconciler_made_up_is_found(made):
    call = made.call(operation="asked")
    number = made.run(call, attempt="7")
    made.envoys_own(call, 504)
    made.replayed(made.call(operation="asked"), number, body="another answer")
    assert made.rules() == {"wrong-answer"}


def test_run_after_the_reconciler_heard_that_it_did_not_run_passes(made):
    call = lost_request(made)
    made.asked(call, "7")
    again = made.call(operation="asked")
    made.returned(again, made.run(again))
    made.audit(call, "7")
    assert made.rules() == set()


def test_run_although_a_delayed_request_ran_too_is_found(made):
    call = lost_request(made)
    made.asked(call, "7", "absent")
    again = made.call(operation="asked")
    made.returned(again, made.run(again, attempt="8"))
    made.run(call, attempt="7")
    made.audit(call, "7", detail="absent (status 404)")
    assert made.rules() == {"one-execution"}


def test_delayed_request_that_is_turned_away_passes(made):
    call = lost_request(made)
    made.asked(call, "7")
    again = made.call(operation="asked")
    made.returned(again, made.run(again, attempt="8"))
    made.about("turned_away", call, attempt="7")
    made.audit(call, "7")
    assert made.rules() == set()


@pytest.mark.parametrize("late", [False, True])
def test_unknown_outcome_must_be_settled_soon_after_the_faults(made, late):
    call = unknown(made, attempt="7")
    made.quiet()
    made.wait(SETTLED_WITHIN + (1 if late else -1))
    made.about("unsettled", call, attempt="7")
    assert made.rules() == ({"unsettled"} if late else set())


def test_unknown_outcome_of_a_client_that_was_patient_is_found(made):
    call = unknown(made)
    made.quiet()
    made.final(call, None, "outcome_unknown")
    assert made.rules() == {"unsettled"}


def test_record_that_stays_unknown_is_found(made):
    call = unknown(made, attempt="7")
    made.quiet()
    made.about("row", call, state="unknown", attempt=7)
    assert made.rules() == {"unsettled"}


def test_unknown_outcome_that_nobody_asks_about_passes(made):
    call = unknown(made, "manual", attempt="7")
    made.quiet()
    made.wait(2 * SETTLED_WITHIN)
    made.final(call, None, "outcome_unknown")
    made.about("row", call, state="unknown", attempt=7)
    assert made.rules() == set()


def test_change_that_is_audited_passes(made):
    call = lost_request(made, "manual")
    made.change(call, "7")
    again = made.call(operation="manual")
    made.returned(again, made.run(again))
    assert made.rules() == set()


def test_change_that_is_not_audited_is_found(made):
    made.change(lost_request(made, "manual"), "7", audited=False)
    assert made.rules() == {"unaudited"}


@pytest.mark.parametrize("other", ["attempt", "action", "actor", "detail"])
def test_entry_of_another_change_does_not_count(made, other):
    call = lost_request(made, "manual")
    change = made.change(call, "7", audited=False)
    entry = {"attempt": "7", "action": "resolve_not_run", "actor": "ann", "detail": change["reason"]}
    made.audit(call, **{**entry, other: "another"})
    assert made.rules() == {"unaudited"}


def test_attempts_are_numbers_in_the_audit_and_text_elsewhere(made):
    call = lost_request(made, "manual")
    change = made.change(call, "7", audited=False)
    made.about("audit", call, attempt=7, action="resolve_not_run", actor="ann", detail=change["reason"])
    assert made.rules() == set()


def test_change_of_which_nobody_knows_whether_it_was_made_passes(made):
    call = lost_request(made, "manual")
    made.change(call, "7", outcome="maybe")
    made.change(call, "7", outcome="maybe", audited=True)
    assert made.rules() == set()


def test_run_that_the_reconciler_allowed_without_a_word_in_the_audit_is_found(made):
    call = lost_request(made)
    made.asked(call, "7")
    again = made.call(operation="asked")
    made.returned(again, made.run(again, attempt="8"))
    made.audit(call, "7", "ask_again", detail="absent (status 404)")
    assert made.rules() == {"unaudited"}


def test_run_of_a_request_that_was_asked_about_while_it_was_on_its_way_passes(made):
    call = lost_request(made)
    made.asked(call, "7", "absent")
    made.run(call, attempt="7")
    assert made.rules() == set()


def test_run_after_an_operator_only_looked_passes(made):
    call = made.call(operation="manual")
    made.asked(call, "7", "running", by="operator")
    made.returned(call, made.run(call, 503, attempt="7"))
    again = made.call(operation="manual")
    made.returned(again, made.run(again))
    assert made.rules() == set()


@pytest.mark.parametrize("outcome", ["stale", "refused", "absent"])
def test_change_that_was_not_made_passes_and_is_not_in_the_audit(made, outcome):
    call = lost_request(made, "manual")
    made.change(call, "7", outcome=outcome)
    assert made.rules() == set()
    made.change(call, "7", outcome=outcome, audited=True)
    assert made.rules() == {"stale-change"}


@pytest.mark.parametrize("action", ["resolve_completed", "resolve_not_run", "release"])
def test_change_that_names_an_attempt_that_was_freed_before_is_found(made, action):
    call = lost_request(made, "manual")
    made.change(call, "7", "release")
    unknown(made, "manual", attempt="8")
    made.change(call, "7", action)
    assert made.rules() == {"stale-change"}


def test_change_that_names_an_attempt_that_ran_before_is_found(made):
    call = made.call(operation="manual")
    made.returned(call, made.run(call, 503, attempt="7"))
    unknown(made, "manual", attempt="8")
    made.change(call, "7", "release")
    assert made.rules() == {"stale-change"}


def test_stale_change_that_frees_the_key_is_found_by_what_runs(made):
    call = lost_request(made, "manual")
    made.change(call, "7")
    unknown(made, "manual", attempt="8")
    made.change(call, "7")
    again = made.call(operation="manual")
    made.returned(again, made.run(again))
    assert made.rules() == {"stale-change", "one-execution"}


def test_change_that_names_the_attempt_that_holds_the_key_passes(made):
    call = lost_request(made, "manual")
    made.change(call, "7")
    unknown(made, "manual", attempt="8")
    made.change(call, "7", outcome="stale")
    made.change(call, "8", "resolve_completed")
    assert made.rules() == set()


def test_change_of_an_attempt_that_may_have_come_after_those_that_ran_passes(made):
    """It did not come to the service, so nothing tells when it had the key."""
    call = made.call(operation="manual")
    made.returned(call, made.run(call, 503, attempt="7"))
    made.change(lost_request(made, "manual"), "8")
    assert made.rules() == set()


def test_attempt_that_is_settled_twice_is_found(made):
    call = unknown(made, attempt="7")
    made.change(call, "7", "resolve_completed")
    made.audit(call, "7", "resolve_completed", detail="result (status 200)")
    assert made.rules() == {"stale-change"}


def test_attempts_that_are_settled_once_each_pass(made):
    call = lost_request(made)
    made.audit(call, "7", "ask_again", detail="absent (status 404)")
    made.audit(call, "7")
    made.audit(call, "8")
    assert made.rules() == set()


# --- the end of the run


def test_final_answers_pass(made):
    call, number = success(made)
    lost = made.call(key="lost")
    made.run(lost)
    made.lost(lost)
    made.quiet()
    made.final(call, number)
    made.final(lost, None, "outcome_unknown")
    made.about("row", call, state="completed", attempt=1)
    made.about("row", lost, state="unknown", attempt=2)
    assert made.rules() == set()


@pytest.mark.parametrize(
    "answer", [{"code": None}, {"code": "in_progress"}, {"code": "store_unavailable"}, {"unresolved": True}]
)
def test_key_without_a_final_answer_is_found(made, answer):
    call = made.call()
    made.lost(call)
    made.quiet()
    made.final(call, None, **answer)
    assert made.rules() == {"unresolved"}


def test_key_whose_last_answer_says_to_try_again_is_found(made):
    call = made.call()
    number = made.run(call, 503)
    made.returned(call, number)
    made.quiet()
    made.final(call, number, unresolved=True)
    assert made.rules() == {"unresolved"}


def test_stored_success_that_is_gone_at_the_end_is_found(made):
    call, _ = success(made)
    made.quiet()
    made.final(call, None, "outcome_unknown")
    assert made.rules() == {"after-success"}


def test_claim_that_stays_is_found(made):
    call = made.call()
    made.lost(call)
    made.about("row", call, state="in_progress", attempt=1)
    assert made.rules() == {"stuck-claim"}


def test_record_without_an_owner_is_found(made):
    made.add("row", tenant="", operation="mark", key="k", state="completed", attempt=1)
    assert made.rules() == {"foreign-record"}


# --- the service's own transactions


def own_call(made: Made, **options) -> dict:
    return made.call(operation="own", **options)


def committed(made: Made, **changes) -> tuple[dict, int]:
    call = own_call(made)
    number = made.work(call)
    made.begun(number)
    made.effect(number, **changes)
    return call, number


def test_own_transaction_passes(made):
    call, number = committed(made, ordered=True)
    made.order(call, number)
    made.returned(call, number)
    made.replayed(own_call(made), number)
    made.settled(call, number)
    assert made.rules() == set()


def test_own_transaction_after_attempts_that_did_not_commit_passes(made):
    """One never came to its commit, one was denied, one ended between its phases."""
    made.lost(own_call(made))
    call = own_call(made)
    made.begun(made.work(call))
    made.lost(call)
    call = own_call(made)
    denied = made.work(call)
    made.returned(call, denied, status=403, body="no")
    call = own_call(made)
    first = made.work(call)
    made.begun(first)
    made.effect(first, "reserved", ordered=True)
    made.order(call, first)
    made.lost(call)
    call = own_call(made)
    last = made.work(call, point="reserved")
    made.begun(last, "reserved")
    made.effect(last, ordered=True)
    made.returned(call, last)
    made.settled(call, last)
    assert made.rules() == set()


@pytest.mark.parametrize("phase", ["reserved", "done"])
def test_effect_that_is_committed_twice_is_found(made, phase):
    call = own_call(made)
    for number in (made.work(call), made.work(call)):
        made.effect(number, phase, state=1)
    made.lost(call)
    assert "one-effect" in made.rules()


def test_effect_that_is_committed_twice_by_one_attempt_is_found(made):
    call = own_call(made)
    for number in (made.work(call, attempt=7), made.work(call, attempt=7)):
        made.effect(number)
    made.lost(call)
    made.about("row", call, state="completed", attempt=7)
    assert made.rules() == {"one-effect"}


def test_effect_is_committed_twice_although_the_record_was_deleted(made):
    """Nothing has told the service to forget what it did."""
    call = own_call(made)
    for life in ("one", "two"):
        made.effect(made.work(call), "reserved", life=life)
    made.lost(call)
    assert made.rules() == {"one-effect"}


def test_effect_of_a_later_life_passes(made):
    for life in ("one", "two"):
        call = made.call(operation="own_brief")
        number = made.work(call)
        made.effect(number, life=life, ordered=True)
        made.order(call, number, life)
        made.returned(call, number)
        made.wait(BRIEF + 1)
    made.about("row", call, state="completed", attempt=number)
    assert made.rules() == set()


@pytest.mark.parametrize(
    "changes", [{"holder": 7}, {"holder": None, "state": None}, {"state": 3}, {"state": 5}]
)
def test_effect_of_an_attempt_that_does_not_hold_its_record_is_found(made, changes):
    call, number = committed(made, **changes)
    made.returned(call, number)
    made.settled(call, number)
    assert made.rules() == {"fenced-effect"}


def test_effect_of_an_unknown_record_passes(made):
    """A late completion by the attempt itself is the truth."""
    call = own_call(made)
    number = made.work(call)
    made.effect(number, "reserved", state=4)
    made.effect(number)
    made.returned(call, number)
    made.settled(call, number)
    assert made.rules() == set()


@pytest.mark.parametrize("changes", [{"key": "other"}, {"attempt": 7, "holder": 7}])
def test_effect_of_no_request_with_this_key_is_found(made, changes):
    committed(made, **changes)
    assert "foreign-effect" in made.rules()


def test_work_on_another_record_is_found(made):
    call = own_call(made)
    made.begun(made.work(call), identity=["t", "own", "other"])
    made.lost(call)
    assert made.rules() == {"foreign-effect"}


@pytest.mark.parametrize(("told", "point"), [(None, "reserved"), ("reserved", "started")])
def test_recovery_point_that_differs_is_found(made, told, point):
    call = own_call(made)
    made.begun(made.work(call, point=told), point)
    made.lost(call)
    assert made.rules() == {"recovery-point"}


def test_attempt_that_moves_its_own_recovery_point_passes(made):
    call = own_call(made)
    number = made.work(call)
    made.begun(number)
    made.begun(number, "reserved")
    made.lost(call)
    assert made.rules() == set()


def test_effect_without_its_order_is_found(made):
    call, number = committed(made, ordered=True)
    made.returned(call, number)
    made.settled(call, number)
    assert made.rules() == {"outbox"}


def test_order_without_its_effect_is_found(made):
    call, number = committed(made)
    made.order(call, number)
    made.returned(call, number)
    made.settled(call, number)
    assert made.rules() == {"outbox"}


@pytest.mark.parametrize("life", ["today", "tomorrow"])
def test_effect_that_is_ordered_twice_is_found(made, life):
    call, number = committed(made, ordered=True)
    for which in ("today", life):
        made.order(call, number, which)
    made.returned(call, number)
    made.settled(call, number)
    assert made.rules() == {"outbox"}


@pytest.mark.parametrize("says", [{"status": 500}, {"status": 404}, {"body": "another"}])
def test_answer_that_is_not_what_was_committed_is_found(made, says):
    call, number = committed(made)
    made.returned(call, number, **says)
    made.settled(call, number)
    assert made.rules() == {"wrong-answer"}


def test_header_that_was_not_committed_is_found(made):
    call, number = committed(made)
    made.returned(call, number, "x-other: value")
    made.settled(call, number)
    assert made.rules() == {"wrong-answer"}


@pytest.mark.parametrize("status", [503, 404])
def test_failure_of_which_the_filter_says_that_it_could_not_ask_passes(made, status):
    call, number = committed(made)
    made.returned(call, number, "idempotency-stored: false", status=status, body="no")
    made.settled(call, number)
    assert made.rules() == set()


def test_success_that_differs_is_found_although_the_filter_could_not_ask(made):
    call, number = committed(made)
    made.returned(call, number, "idempotency-stored: false", status=200)
    made.settled(call, number)
    assert made.rules() == {"wrong-answer"}


@pytest.mark.parametrize("status", [200, 404])
def test_result_of_which_nothing_is_committed_is_found(made, status):
    call = own_call(made)
    made.returned(call, made.work(call), status=status)
    assert made.rules() == {"no-effect"}


def test_result_is_found_although_a_phase_is_committed_and_the_filter_could_not_ask(made):
    call = own_call(made)
    number = made.work(call)
    made.effect(number, "reserved")
    made.returned(call, number, "idempotency-stored: false", status=404)
    assert made.rules() == {"no-effect"}


def test_replay_of_which_nothing_is_committed_is_found(made):
    call = own_call(made)
    made.replayed(call, made.work(call), status=503)
    assert made.rules() == {"no-effect"}


def test_answer_of_no_work_is_found(made):
    call = own_call(made)
    number = made.work(call)
    made.returned(call, number, headers=[["x-execution", "1"]], status=503)
    assert made.rules() == {"no-effect"}


def test_failure_of_another_key_is_found(made):
    other = own_call(made, key="other")
    number = made.work(other)
    made.lost(other)
    made.returned(own_call(made), number, status=503)
    assert made.rules() == {"foreign-answer"}


def test_two_clients_with_two_results_are_found(made):
    call, number = committed(made)
    made.returned(call, number)
    call = own_call(made)
    later = made.work(call)
    made.effect(later)
    made.returned(call, later)
    made.about("row", call, state="completed", attempt=later)
    assert {"one-effect", "after-success", "record-differs"} <= made.rules()


@pytest.mark.parametrize("when", ["meanwhile", "at the end", "in the store"])
def test_own_transaction_with_an_unknown_outcome_is_found(made, when):
    call = own_call(made)
    made.begun(made.work(call))
    if when == "meanwhile":
        made.problem(call, 409, "outcome_unknown")
    else:
        made.lost(call)
    made.quiet()
    if when == "at the end":
        made.final(call, None, "outcome_unknown")
    if when == "in the store":
        made.about("row", call, state="unknown", attempt=1)
    assert made.rules() == {"own-unknown"}


@pytest.mark.parametrize("row", [{"state": "failed_retryable"}, {"attempt": 7}, None])
def test_effect_whose_record_says_otherwise_is_found(made, row):
    call, number = committed(made)
    made.returned(call, number)
    made.quiet()
    made.final(call, number)
    if row is not None:
        made.about("row", call, **{"state": "completed", "attempt": number, **row})
    assert made.rules() == {"record-differs"}


def test_completed_record_without_an_effect_is_found(made):
    call = own_call(made)
    number = made.work(call)
    made.lost(call)
    made.about("row", call, state="completed", attempt=number)
    assert made.rules() == {"record-differs"}


@pytest.mark.parametrize(("works", "rules"), [(1, set()), (2, {"expected-executions"})])
def test_requests_that_must_not_come_to_the_service_are_found(made, works, rules):
    call, number = committed(made)
    made.returned(call, number)
    made.settled(call, number)
    made.about("expect", call, executions=1, works=works, final="success", why="")
    assert made.rules() == rules


def test_second_effect_is_found_by_expectation(made):
    call, number = committed(made)
    made.returned(call, number)
    made.settled(call, number)
    made.about("expect", call, executions=2, final="success", why="")
    assert made.rules() == {"expected-executions"}


# --- bounds


def test_bound_that_is_kept_passes(made):
    made.add("bound", what="requests", value=10, most=10)
    assert made.rules() == set()


def test_bound_that_is_not_kept_is_found(made):
    made.add("bound", what="requests", value=11, most=10)
    (violation,) = made.violations()
    assert violation.rule == "bound"
    assert "requests: 11, and at most 10 are promised" in str(violation)


# --- what a scenario knows


def test_met_expectations_pass(made):
    call, number = success(made)
    made.quiet()
    made.final(call, number)
    made.about("expect", call, executions=1, final="success", never=["idempotency_outcome_unknown"], why="")
    assert made.rules() == set()


@pytest.mark.parametrize(
    ("expectation", "rule"),
    [
        ({"executions": 0}, "expected-executions"),
        ({"executions": 2}, "expected-executions"),
        ({"final": "success"}, "expected-final"),
        ({"never": ["idempotency_outcome_unknown"]}, "expected-never"),
        ({"never": ["not_stored"]}, "expected-never"),
    ],
)
def test_expectation_that_is_not_met_is_found(made, expectation, rule):
    call = made.call()
    made.returned(call, made.run(call), "idempotency-stored: false")
    made.quiet()
    made.final(call, None, "outcome_unknown")
    made.about("expect", call, why="the scenario says so", **expectation)
    assert made.rules() == {rule}


@pytest.mark.parametrize(("executions", "rules"), [(0, {"expected-executions"}), (1, set()), (2, set())])
def test_fewer_executions_do_where_the_outcome_stays_unknown(made, executions, rules):
    call = made.call()
    made.returned(call, made.run(call), "idempotency-stored: false")
    made.quiet()
    made.final(call, None, "outcome_unknown")
    made.about("expect", call, why="", executions=executions, final="unknown")
    assert made.rules() == rules


def test_expected_unknown_outcome_that_is_a_success_is_found(made):
    call, number = success(made)
    made.about("expect", call, final="unknown", why="")
    assert made.rules() == {"expected-final"}
    made.quiet()
    made.final(call, number)
    assert made.rules() == {"expected-final"}


# --- the tool itself


def test_history_that_contradicts_itself_is_refused(made):
    call = made.call()
    made.lost(call)
    made.lost(call)
    with pytest.raises(Malformed, match="ends twice"):
        check(made.events)


def test_answer_to_no_call_is_refused(made):
    made.lost({"id": "nobody"})
    with pytest.raises(Malformed, match="without a beginning"):
        check(made.events)


def test_violation_is_shown_small(made):
    for _ in range(50):
        made.lost(made.call())
    made.run(made.call(), body="x" * 10_000)
    made.run(made.call())
    (violation,) = made.violations()
    text = str(violation)
    assert "tenant t, operation mark, key k" in text
    assert text.count("execution") >= 2
    assert len(text) < 1500


def test_command_reports_by_its_exit_code(made, tmp_path):
    command = [sys.executable, Path(__file__).parent / "check"]

    def run(events: list[dict]) -> tuple[int, str]:
        path = tmp_path / "history.jsonl"
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        assert load(path) == events
        done = subprocess.run([*command, path], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout

    success(made)
    assert run(made.events) == (0, "0 violations\n")
    made.run(made.call())
    code, text = run(made.events)
    assert code == 1
    assert text.endswith("1 violations (one-execution)\n")
    assert run([])[0] == 2


def test_work_grows_no_faster_than_the_history():
    def steps(size: int) -> int:
        busy = Made()
        _, number = success(busy)
        for other in range(size):
            busy.replayed(busy.call(), number)
            busy.problem(busy.call(payload=f"other {other}"), 422, "key_reused")
            busy.lost(busy.call(key=f"key {other}"))
        lines = 0

        def count(frame, event, argument):
            nonlocal lines
            lines += 1
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            assert check(busy.events) == []
        finally:
            sys.settrace(before)
        return lines

    assert steps(2000) < 12 * steps(200)
