"""Judges the history of a chaos run (history.py tells its format), after the run, one identity at a time.

Only what must hold whatever the faults were is a rule. A call that was lost may have had any effect; of two
calls one comes before the other only where its answer came before the other began.
"""

import bisect
import dataclasses
from collections.abc import Callable, Iterable, Iterator

from history import SECOND, Answer, Call, Execution, History, Identity, Kind, Settings, Story, read

# Clocks are read a moment before or after what they stand for.
_SLACK = SECOND // 2

# Fields that Envoy, the connection or the filter adds to the upstream's own.
_NOT_THE_UPSTREAMS = {
    "connection",
    "content-length",
    "date",
    "idempotency-key-expires",
    "idempotency-stored",
    "idempotent-replayed",
    "keep-alive",
    "server",
    "transfer-encoding",
    "x-request-id",
}

# The filter could not ask its store, or has too much to do: allowed at any time.
_REFUSALS = {
    "idempotency_store_unavailable",
    "idempotency_record_unreadable",
    "idempotency_quota_exceeded",
}
_MISUSE = "idempotency_key_reused"
_UNAVAILABLE = "idempotency_response_unavailable"
_UNKNOWN = "idempotency_outcome_unknown"


@dataclasses.dataclass
class Violation:
    rule: str
    identity: Identity
    text: str
    events: list[dict]

    def __str__(self) -> str:
        tenant, operation, key = self.identity
        head = f"{self.rule}: {self.text}\n  tenant {tenant}, operation {operation}, key {key}"
        return "\n".join([head, *_lines(self.events)])


def check(events: Iterable[dict]) -> list[Violation]:
    history = read(events)
    violations: list[Violation] = []
    for story in history.stories.values():
        violations += _Judge(history, story).judge()
    return violations


class _Judge:
    """The rules, for one identity."""

    def __init__(self, history: History, story: Story) -> None:
        self._settings: Settings = history.settings
        self._all = history.executions
        self._story = story
        self._own = {execution.number: execution for execution in story.executions}
        self._begins = [execution.at for execution in story.executions]
        self._ttl = int(self._settings.ttl[story.identity[1]] * SECOND) if story.executions else 0
        self._violations: list[Violation] = []
        self._questions = sorted(story.calls + story.finals, key=lambda call: call.at)
        self._stored = self._stored_answers()

    def judge(self) -> list[Violation]:
        rules: list[Callable[[], None]] = [
            self._check_answers,
            self._check_executions,
            self._check_after_success,
            self._check_misuse,
            self._check_replays_end,
            self._check_end,
            self._check_expectations,
        ]
        for rule in rules:
            rule()
        return self._violations

    def _report(self, rule: str, text: str, *events: dict) -> None:
        self._violations.append(Violation(rule, self._story.identity, text, list(events)))

    # --- what an answer says is what was run

    def _check_answers(self) -> None:
        for call in self._questions:
            answer = call.answer
            if answer.kind in (Kind.FIRST_HAND, Kind.REPLAY):
                self._check_answer(call)
            elif answer.kind is Kind.OTHER and answer.status < 400:
                self._report("no-execution", "a success that no execution gave", call.event, answer.event)

    def _check_answer(self, call: Call) -> None:
        answer = call.answer
        owner, execution = self._all.get(answer.number, (None, None))
        if execution is None:
            self._report("no-execution", "an answer that no execution gave", call.event, answer.event)
            return
        shown = (call.event, answer.event, execution.event)
        if owner != self._story.identity:
            text = f"the answer belongs to tenant {owner[0]}, operation {owner[1]}, key {owner[2]}"
            self._report("foreign-answer", text, *shown)
        elif execution.at > answer.at:
            self._report("no-execution", "the answer came before its execution began", *shown)
        elif execution.payload != call.payload:
            self._report("misuse", "a request with another body got this key's answer", *shown)
        elif difference := _difference(answer, execution):
            text = f"the {answer.kind.value} answer is not what the execution gave: {difference}"
            self._report("wrong-answer", text, *shown)

    # --- one execution

    def _check_executions(self) -> None:
        attempts: dict[str, Execution] = {}
        for execution in self._story.executions:
            twin = attempts.setdefault(execution.attempt, execution)
            if twin is not execution:
                text = "two executions with one attempt token"
                self._report("one-execution", text, twin.event, execution.event)
        for before, after in zip(self._story.executions, self._story.executions[1:], strict=False):
            self._check_second(before, after)

    def _check_second(self, before: Execution, after: Execution) -> None:
        if self._is_new_life(before, after.at):
            return
        shown = [before.event, *self._answers_of(before.number), after.event]
        if before.status not in self._settings.released and before.payload != after.payload:
            self._report("misuse", "another body was executed with a key in use", *shown)
        elif stored := self._stored.get(before.number):
            text = "executed again although its answer was stored"
            self._report("one-execution", text, before.event, stored.event, stored.answer.event, after.event)
        elif not (self._failed_before(before, after.at) or self._lease_may_be_over(before, after.at)):
            self._report("one-execution", "executed again", *shown)

    def _failed_before(self, execution: Execution, at: int) -> bool:
        """It ended in a way that lets the next request run."""
        harmless = self._settings.retryable | self._settings.released
        done = execution.executed_at is not None and execution.executed_at <= at
        return done and execution.status in harmless

    def _lease_may_be_over(self, execution: Execution, at: int) -> bool:
        lease = int(self._settings.lease * SECOND)
        return self._story.policy == "retry" and at >= execution.claimed_after + lease

    def _is_new_life(self, execution: Execution, at: int) -> bool:
        """By then the execution's record may have been deleted, or its life may have been over."""
        return at >= execution.claimed_after + self._ttl or self._busted(execution.claimed_after, at)

    def _busted(self, begin: int, end: int) -> bool:
        place = bisect.bisect_left(self._story.busts, begin)
        return place < len(self._story.busts) and self._story.busts[place] <= end

    # --- after a success

    def _stored_answers(self) -> dict[int, Call]:
        """By execution: the first call that was told, in so many words, that the answer is stored."""
        stored: dict[int, Call] = {}
        for call in sorted(self._questions, key=lambda call: call.answer.at):
            if self._says_stored(call.answer):
                stored.setdefault(call.answer.number, call)
        return stored

    def _says_stored(self, answer: Answer) -> bool:
        execution = self._own.get(answer.number)
        if execution is None or not execution.kept:
            return False
        if answer.kind is Kind.REPLAY:
            return True
        return (
            answer.kind is Kind.FIRST_HAND
            and answer.header("idempotency-stored") is None
            and answer.status not in self._settings.retryable | self._settings.released
        )

    def _check_after_success(self) -> None:
        told = sorted(self._stored.values(), key=lambda call: call.answer.at)
        ends = [call.answer.at for call in told]
        for call in self._questions:
            place = bisect.bisect_left(ends, call.at)
            if place > 0:
                self._check_later_answer(told[place - 1], call)

    def _check_later_answer(self, success: Call, call: Call) -> None:
        answer = call.answer
        execution = self._own[success.answer.number]
        allowed = answer.kind in (Kind.LOST, Kind.OTHER) or answer.code in _REFUSALS
        if allowed or call.payload != execution.payload or self._is_new_life(execution, answer.at):
            return
        if answer.kind is Kind.REPLAY and answer.number == execution.number:
            return
        text = "after a stored success, another answer than its replay"
        self._report("after-success", text, execution.event, success.answer.event, call.event, answer.event)

    # --- misuse, if and only if the first claim was for another request

    def _check_misuse(self) -> None:
        first_use: dict[str, int] = {}
        for call in self._questions:
            first_use.setdefault(call.payload, call.at)
        first_two = list(first_use.items())[:2]
        for call in self._questions:
            holder = self._holder(call)
            if call.answer.code == _MISUSE:
                self._check_called_misuse(call, holder, first_two)
            elif holder is not None and holder.payload != call.payload:
                self._check_unnoticed_misuse(call, holder)

    def _check_called_misuse(
        self, call: Call, holder: Execution | None, first_two: list[tuple[str, int]]
    ) -> None:
        others = [at for payload, at in first_two if payload != call.payload]
        if min(others, default=call.answer.at) >= call.answer.at:
            text = "called misuse, but nobody had used the key with another body"
            self._report("misuse", text, call.event, call.answer.event)
        elif holder is not None and holder.payload == call.payload:
            text = "called misuse, but the key's execution was for the same body"
            self._report("misuse", text, holder.event, call.event, call.answer.event)

    def _check_unnoticed_misuse(self, call: Call, holder: Execution) -> None:
        # An answer of an execution is judged where answers are.
        if call.answer.kind is Kind.PROBLEM and call.answer.code not in _REFUSALS:
            text = "another body with a key in use was not called misuse"
            self._report("misuse", text, holder.event, call.event, call.answer.event)

    def _holder(self, call: Call) -> Execution | None:
        """Whose record is surely there from the call's beginning to its end."""
        place = bisect.bisect_left(self._begins, call.at)
        if place == 0:
            return None
        execution = self._story.executions[place - 1]
        gone = execution.status in self._settings.released or self._is_new_life(execution, call.answer.at)
        return None if gone else execution

    # --- a replay ends with its record

    def _check_replays_end(self) -> None:
        for call in self._questions:
            execution = self._own.get(call.answer.number)
            if call.answer.kind is Kind.REPLAY and execution is not None:
                self._check_replay_ends(call, execution)

    def _check_replay_ends(self, call: Call, execution: Execution) -> None:
        shown = (execution.event, call.event, call.answer.event)
        if call.at > execution.at + self._ttl + _SLACK:
            self._report("past-life", "a replay past the end of the record's life", *shown)
            return
        cache_age = int(self._settings.cache_age * SECOND)
        if self._busted(execution.at, call.at - cache_age - _SLACK):
            self._report("past-bust", "a replay long after the record was deleted", *shown)
        elif not self._busted(execution.claimed_after, call.at):
            place = bisect.bisect_left(self._begins, call.at)
            latest = self._story.executions[place - 1] if place else execution
            if latest.at > execution.at:
                text = "a replay of an attempt that a later one had replaced"
                self._report("fenced", text, execution.event, latest.event, call.event, call.answer.event)

    # --- the end: every key has a final answer, and no claim is left

    def _check_end(self) -> None:
        for call in self._story.finals:
            answer = call.answer
            final = answer.kind in (Kind.FIRST_HAND, Kind.REPLAY)
            if not final and answer.code not in (_UNKNOWN, _UNAVAILABLE, _MISUSE):
                self._report(
                    "unresolved", "no final answer after the faults", *self._last_events(), call.event
                )
        for row in self._story.rows:
            if row["state"] == "in_progress":
                self._report("stuck-claim", "a claim that nobody ends", *self._last_events(), row)
            elif not self._story.calls and not self._story.finals:
                self._report("foreign-record", "a record of an identity that nobody used", row)

    def _check_expectations(self) -> None:
        for expected in self._story.expectations:
            why = expected.get("why", "")
            wanted = expected.get("executions")
            if wanted is not None and wanted != len(self._story.executions):
                text = f"{len(self._story.executions)} executions instead of {wanted}: {why}"
                self._report("expected-executions", text, *(e.event for e in self._story.executions))
            if final := expected.get("final"):
                self._check_expected_final(final, why)
            never = set(expected.get("never") or ())
            for call in self._questions:
                met = call.answer.code in never or ("not_stored" in never and _is_not_stored(call.answer))
                if met:
                    text = f"{call.answer.code or 'not stored'}, which must not be here: {why}"
                    self._report("expected-never", text, call.event, call.answer.event)

    def _check_expected_final(self, wanted: str, why: str) -> None:
        if not self._story.finals:
            self._report(
                "expected-final", f"no final answer, instead of {wanted}: {why}", *self._last_events()
            )
            return
        call = self._story.finals[-1]
        answer = call.answer
        if wanted == "unknown":
            good = answer.code == _UNKNOWN
        else:
            good = answer.kind in (Kind.FIRST_HAND, Kind.REPLAY) and answer.status < 400
        if not good:
            self._report("expected-final", f"not {wanted}: {why}", *self._last_events(), call.event)

    # --- what is shown

    def _answers_of(self, number: int) -> list[dict]:
        return [call.answer.event for call in self._questions if call.answer.number == number][:2]

    def _last_events(self) -> list[dict]:
        hidden = ("row", "expect", "final")
        shown = [event for event in self._story.events if event["type"] not in hidden]
        return sorted(shown, key=lambda event: event["at"])[-8:]


def _is_not_stored(answer: Answer) -> bool:
    return answer.kind is Kind.FIRST_HAND and answer.header("idempotency-stored") == "false"


def _difference(answer: Answer, execution: Execution) -> str | None:
    if answer.status != execution.status:
        return f"status {answer.status}, not {execution.status}"
    if answer.event["body"] != execution.event["body"]:
        return "another body"
    there, given = _own_fields(answer.event["headers"]), _own_fields(execution.event["headers"])
    if there != given:
        changed = sorted(set(there) ^ set(given))
        return f"other headers: {changed or 'their number'}"
    return None


def _own_fields(headers: list) -> list[tuple[str, str]]:
    return sorted(
        (name, value)
        for name, value in headers
        if name not in _NOT_THE_UPSTREAMS and not name.startswith(("x-envoy-", ":"))
    )


# --- how a violation is printed

_MOST_LINES = 12
# How much of a fact is shown; what is not here is short.
_SHOWN = {"payload": 8, "body": 60}
_FACTS = ("id", "client", "envoy", "number", "attempt", "payload", "status", "state", "why", "body")


def _lines(events: list[dict]) -> Iterator[str]:
    # One event may play two parts.
    once = sorted({id(event): event for event in events}.values(), key=lambda event: event["at"])
    for event in once[-_MOST_LINES:]:
        yield f"  {(event['at'] - once[0]['at']) / 1e6:10.1f} ms  {event['type']:10} {_facts(event)}"


def _facts(event: dict) -> str:
    facts = [
        f"{name} {str(event[name])[: _SHOWN.get(name)]}" for name in _FACTS if event.get(name) is not None
    ]
    marks = [
        f"{name}: {value}"
        for name, value in event.get("headers", [])
        if name.startswith(("idempot", "x-execution"))
    ]
    return ", ".join(facts + marks)
