"""Judges the history of a chaos run (history.py tells its format), after the run, one identity at a time.

Only what must hold whatever the faults were is a rule. A call that was lost may have had any effect; of two
calls one comes before the other only where its answer came before the other began.
"""

import bisect
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator

from history import (
    LAST_PHASE,
    SECOND,
    Answer,
    Call,
    Execution,
    Fault,
    History,
    Identity,
    Kind,
    Settings,
    Story,
    read,
)

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
    "idempotency_overloaded",
}
_KEY_REUSED = "idempotency_key_reused"
_UNAVAILABLE = "idempotency_response_unavailable"
_UNKNOWN = "idempotency_outcome_unknown"
# Of the audit: what says what became of an attempt, and what lets the next request run.
_SETTLES = {"resolve_completed", "resolve_not_run"}
_FREES = {"resolve_not_run", "release", "bust"}
# The client of a detached run is told so at once.
_RUN_UNKNOWN = {_UNKNOWN, "idempotency_detached_lost", "idempotency_detached_timeout"}

# Faults that may leave the outcome of a detached run unknown: its Envoy ends, its connection to the upstream
# or the upstream itself is lost, its lease runs out. Who waits for it is not among them, and neither is a
# change of its clients' listener.
_ENDS = {"kill_envoy", "term_envoy"}
_HALTS = {"pause_envoy"}
_LOSES = {f"{what}_upstream" for what in ("cut", "reset", "deaf", "mute", "black_hole", "cut_after", "kill")}
_CRASHES = {"crash_upstream_before", "crash_upstream_after"}
_OF_STORE = {"database", "disk"}

# States of a record (their numbers) in which its attempt may settle it, or has done so.
_HELD_STATES = {1, 2, 4}
# A request that nobody ran before has this recovery point, or none.
_AT_THE_START = {None, "", "started"}


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
    for bound in history.bounds:
        if bound["value"] > bound["most"]:
            text = f"{bound['what']}: {bound['value']}, and at most {bound['most']} are promised"
            violations.append(Violation("bound", ("", "", ""), text, [bound]))
    for story in history.stories.values():
        violations += _Judge(history, story).judge()
    return violations


class _Judge:
    """The rules, for one identity."""

    def __init__(self, history: History, story: Story) -> None:
        self._settings: Settings = history.settings
        self._all = history.executions
        self._works = history.works
        self._faults = history.faults
        self._quiet = history.quiet
        self._story = story
        self._own = {execution.number: execution for execution in story.executions}
        self._begins = [execution.at for execution in story.executions]
        runs = story.executions or story.effects
        self._ttl = int(self._settings.ttl[story.identity[1]] * SECOND) if runs else 0
        self._violations: list[Violation] = []
        self._questions = sorted(story.calls + story.finals, key=lambda call: call.at)
        self._stored = self._stored_answers()
        self._answers = self._answers_by_execution()
        self._ends: dict[int, int] = {}

    def judge(self) -> list[Violation]:
        rules: list[Callable[[], None]] = [
            self._check_answers,
            *(self._rules_of_own() if self._story.is_own else [self._check_executions]),
            self._check_after_success,
            self._check_key_reuse,
            self._check_replays_end,
            self._check_detached,
            self._check_settled,
            self._check_audit,
            self._check_changes,
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
        if self._story.is_own and (answer.number not in self._all or self._is_honest_failure(answer)):
            self._check_uncommitted(call)
            return
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
            self._report("key-reused", "a request with another body got this key's answer", *shown)
        elif difference := _difference(answer, execution):
            text = f"the {answer.kind.value} answer is not what the execution gave: {difference}"
            self._report("wrong-answer", text, *shown)

    # --- one execution

    def _check_executions(self) -> None:
        runs: dict[str, list[Execution]] = {}
        for execution in self._story.executions:
            runs.setdefault(execution.attempt, []).append(execution)
        for run in runs.values():
            self._check_sent_once(run)
        for before, after in itertools.pairwise(runs.values()):
            self._check_second(before, after[0])

    def _check_sent_once(self, run: list[Execution]) -> None:
        """One attempt runs once at each path, unless a proxy on the way sends requests again by itself."""
        if self._story.identity[1] in self._settings.resends:
            return
        paths: dict[str, Execution] = {}
        for execution in run:
            twin = paths.setdefault(execution.path, execution)
            if twin is not execution:
                text = "two executions with one attempt token"
                self._report("one-execution", text, twin.event, execution.event)

    def _check_second(self, run: list[Execution], after: Execution) -> None:
        """`run` is everything that one attempt did, through every proxy."""
        first, last = run[0], run[-1]
        if self._is_new_life(first, after.at):
            return
        answers = [event for execution in run for event in self._answers_of(execution.number)]
        shown = [*(execution.event for execution in run), *answers, after.event]
        stored = next((self._stored[e.number] for e in run if e.number in self._stored), None)
        if not self._is_released(last) and first.payload != after.payload:
            self._report("key-reused", "another body was executed with a key in use", *shown)
        elif stored:
            text = "executed again although its answer was stored"
            self._report("one-execution", text, last.event, stored.event, stored.answer.event, after.event)
        elif not (self._failed_before(run, after.at) or self._lease_may_be_over(first, after.at)):
            self._report("one-execution", "executed again", *shown)

    def _is_released(self, execution: Execution) -> bool:
        return execution.declares == "not-run" or execution.status in self._settings.released

    def _failed_before(self, run: list[Execution], at: int) -> bool:
        """All that the attempt did ended in a way that lets the next request run, in the service's own
        words. What the service declares at last holds for all of it."""
        if any(execution.executed_at is None or execution.executed_at > at for execution in run):
            return False
        if declared := run[-1].declares:
            return declared in ("not-run", "retryable")
        harmless = self._settings.retryable | self._settings.released
        return all(execution.status in harmless for execution in run)

    def _lease_may_be_over(self, execution: Execution, at: int) -> bool:
        lease = int(self._settings.lease * SECOND)
        return self._story.policy == "retry" and at >= execution.claimed_after + lease

    def _is_new_life(self, execution: Execution, at: int) -> bool:
        """By then the execution's record may have been deleted, or its life may have been over."""
        return at >= execution.claimed_after + self._ttl or self._busted(execution.claimed_after, at)

    def _busted(self, begin: int, end: int) -> bool:
        place = bisect.bisect_left(self._story.busts, begin)
        return place < len(self._story.busts) and self._story.busts[place] <= end

    # --- the service's own transactions

    def _rules_of_own(self) -> list[Callable[[], None]]:
        return [
            self._check_effects,
            self._check_recovery_points,
            self._check_orders,
            self._check_never_unknown,
            self._check_record_of_effect,
        ]

    def _is_honest_failure(self, answer: Answer) -> bool:
        """The filter could not ask what was committed, and says so: no client takes that for a success."""
        return _is_not_stored(answer) and answer.status >= 400

    def _is_result(self, status: int) -> bool:
        settings = self._settings
        return status not in settings.retryable | settings.released | settings.doubtful

    def _check_uncommitted(self, call: Call) -> None:
        answer, work = call.answer, self._works.get(call.answer.number)
        is_result = answer.number not in self._all and self._is_result(answer.status)
        if work is None or answer.kind is Kind.REPLAY or is_result:
            shown = [work] if work else []
            text = f"the {answer.kind.value} answer tells a result, and nothing is committed"
            self._report("no-effect", text, *shown, *self._story.effects, call.event, answer.event)
        elif (owner := _identity_of(work)) != self._story.identity:
            text = f"the answer belongs to tenant {owner[0]}, operation {owner[1]}, key {owner[2]}"
            self._report("foreign-answer", text, call.event, answer.event, work)

    def _check_effects(self) -> None:
        first: dict[str, dict] = {}
        for effect in sorted(self._story.effects, key=_time_of):
            before = first.setdefault(effect["phase"], effect)
            if before is not effect and not self._is_later_life(before, effect):
                text = f"the effect of the phase {effect['phase']} is committed twice"
                self._report("one-effect", text, *self._about(before, effect))
            if str(effect["holder"]) != str(effect["attempt"]) or effect["state"] not in _HELD_STATES:
                text = f"an attempt that did not hold the record has committed ({effect['holder']} held it)"
                self._report("fenced-effect", text, *self._about(effect))
            self._check_whose(effect)

    def _is_later_life(self, before: dict, after: dict) -> bool:
        return after["at"] >= before["at"] + self._ttl or self._busted(before["at"], after["at"])

    def _check_whose(self, effect: dict) -> None:
        work = self._works.get(effect["number"])
        if (
            not work
            or _identity_of(work) != self._story.identity
            or work["attempt"] != str(effect["attempt"])
        ):
            self._report("foreign-effect", "an effect of no request with this key", effect)

    def _about(self, *effects: dict) -> list[dict]:
        """With the requests whose effects they are."""
        works = [self._works[effect["number"]] for effect in effects if effect["number"] in self._works]
        return [*works, *effects, *(row for row in self._story.rows)]

    def _check_recovery_points(self) -> None:
        """An attempt begins where the record says, and the request tells it the same."""
        seen: set[str] = set()
        for begun in sorted(self._story.begun, key=_time_of):
            work = self._works[begun["number"]]
            if tuple(begun["identity"]) != self._story.identity:
                text = f"begin_work() told another identity: {begun['identity']}"
                self._report("foreign-effect", text, work, begun)
            if work["attempt"] in seen:
                continue
            seen.add(work["attempt"])
            both = {work["point"], begun["point"]}
            if len(both) > 1 and not both <= _AT_THE_START:
                text = f"the request has the recovery point {work['point']}, the record {begun['point']}"
                self._report("recovery-point", text, work, begun)

    def _check_orders(self) -> None:
        """An effect and what it has ordered are committed together, once."""
        ordering = [effect for effect in self._story.effects if effect["ordered"]]
        first: dict[str, dict] = {}
        for order in self._story.orders:
            before = first.setdefault(order["name"], order)
            if before is not order and not self._are_of_two_lives(before, order):
                self._report("outbox", "one effect was ordered twice", *self._about(*ordering), before, order)
            if not any(effect["life"] == order["life"] for effect in ordering):
                text = "an effect was ordered by a transaction that is not committed"
                self._report("outbox", text, *self._about(*self._story.effects), order)
        for effect in ordering:
            if not any(order["life"] == effect["life"] for order in self._story.orders):
                self._report("outbox", "what an effect has ordered is not there", *self._about(effect))

    def _are_of_two_lives(self, *orders: dict) -> bool:
        """As far as their effects tell."""
        firsts = [
            min((e for e in self._story.effects if e["life"] == order["life"]), key=_time_of, default=None)
            for order in orders
        ]
        if None in firsts or firsts[0] is firsts[1]:
            return False
        return self._is_later_life(*sorted(firsts, key=_time_of))

    def _check_never_unknown(self) -> None:
        told = [call for call in self._questions if call.answer.code == _UNKNOWN]
        rows = [row for row in self._story.rows if row["state"] == "unknown"]
        if told or rows:
            shown = [told[0].event, told[0].answer.event] if told else []
            text = "the outcome is unknown, although a transaction tells it"
            self._report("own-unknown", text, *self._last_events(), *shown, *rows)

    def _check_record_of_effect(self) -> None:
        """In the end, record and effect are one."""
        done = [effect for effect in self._story.effects if effect["phase"] == LAST_PHASE]
        completed = [row for row in self._story.rows if row["state"] == "completed"]
        end = max((row["at"] for row in self._story.rows), default=self._quiet or 0)
        for effect in done:
            if self._is_later_life(effect, {"at": end}):
                continue  # Its record may be gone.
            if str(effect["attempt"]) not in {str(row["attempt"]) for row in completed}:
                text = "an effect is committed, and its attempt has not completed the record"
                self._report("record-differs", text, *self._about(effect))
        if completed and not done:
            text = "the record is completed, and nothing is committed"
            self._report("record-differs", text, *self._last_events(), *completed)

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
            and self._is_kept(execution)
        )

    def _is_kept(self, execution: Execution) -> bool:
        """Its answer is the operation's result."""
        if execution.declares:
            return execution.declares == "completed"
        settings = self._settings
        return execution.status not in settings.retryable | settings.released | settings.doubtful

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

    # --- a reused key, if and only if the first claim was for another request

    def _check_key_reuse(self) -> None:
        first_use: dict[str, int] = {}
        for call in self._questions:
            first_use.setdefault(call.payload, call.at)
        first_two = list(first_use.items())[:2]
        for call in self._questions:
            holder = self._holder(call)
            if call.answer.code == _KEY_REUSED:
                self._check_called_reused(call, holder, first_two)
            elif holder is not None and holder.payload != call.payload:
                self._check_unnoticed_reuse(call, holder)

    def _check_called_reused(
        self, call: Call, holder: Execution | None, first_two: list[tuple[str, int]]
    ) -> None:
        others = [at for payload, at in first_two if payload != call.payload]
        if min(others, default=call.answer.at) >= call.answer.at:
            text = "called reused, but nobody had used the key with another body"
            self._report("key-reused", text, call.event, call.answer.event)
        elif holder is not None and holder.payload == call.payload:
            text = "called reused, but the key's execution was for the same body"
            self._report("key-reused", text, holder.event, call.event, call.answer.event)

    def _check_unnoticed_reuse(self, call: Call, holder: Execution) -> None:
        # An answer of an execution is judged where answers are.
        if call.answer.kind is Kind.PROBLEM and call.answer.code not in _REFUSALS:
            text = "another body with a key in use was not called reused"
            self._report("key-reused", text, holder.event, call.event, call.answer.event)

    def _holder(self, call: Call) -> Execution | None:
        """Whose record is surely there from the call's beginning to its end."""
        place = bisect.bisect_left(self._begins, call.at)
        if place == 0:
            return None
        execution = self._story.executions[place - 1]
        gone = self._is_released(execution) or self._is_new_life(execution, call.answer.at)
        return None if gone else execution

    # --- a replay ends with its record

    def _check_replays_end(self) -> None:
        for call in self._questions:
            execution = self._own.get(call.answer.number)
            if call.answer.kind is Kind.REPLAY and execution is not None:
                self._check_replay_ends(call, execution)

    def _check_replay_ends(self, call: Call, execution: Execution) -> None:
        shown = (execution.event, call.event, call.answer.event)
        first_end = execution.at + self._ttl + _SLACK
        if call.at > first_end and call.at > self._end_of_life(execution) + _SLACK:
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

    def _answers_by_execution(self) -> dict[int | None, list[Answer]]:
        answers: dict[int | None, list[Answer]] = {}
        for call in sorted(self._questions, key=lambda call: call.answer.at):
            answers.setdefault(call.answer.number, []).append(call.answer)
        return answers

    def _end_of_life(self, execution: Execution) -> int:
        if execution.number not in self._ends:
            stored_by = self._stored_late_by(execution)
            self._ends[execution.number] = (execution.at if stored_by is None else stored_by) + self._ttl
        return self._ends[execution.number]

    def _stored_late_by(self, execution: Execution) -> int | None:
        """An answer that is stored when the record's ttl has passed, or when its outcome has become unknown,
        gets a ttl of its own. This is the last moment at which that may have been; None: it was stored in
        time."""
        if execution.executed_at is None:
            return None
        answers = self._answers[execution.number]
        first_hand = [answer for answer in answers if answer.kind is Kind.FIRST_HAND]
        not_stored = [answer.at for answer in first_hand if _is_not_stored(answer)]
        if first_hand and not not_stored:
            told = first_hand[0]
            # Past its ttl, a record has no expiry until its answer is stored. In time, it must be there.
            late = told.at >= execution.claimed_after + self._ttl
            return told.at if late and told.header("idempotency-key-expires") is None else None
        could = self._could_store_by(execution, max(not_stored, default=None))
        disturbed = could > execution.executed_at + _SLACK
        kept_for = int(self._settings.lease * SECOND) if disturbed else self._ttl
        replayed = min(answer.at for answer in answers if answer.kind is Kind.REPLAY)
        stored_by = min(could, replayed)
        return stored_by if stored_by >= execution.claimed_after + kept_for else None

    def _could_store_by(self, execution: Execution, not_stored_at: int | None) -> int:
        """When the Envoy of this execution had its store at last, and a lease of time to write."""
        own = {call.event.get("envoy") for call in self._story.calls if self._is_of(call, execution)}
        envoys = own or {call.event.get("envoy") for call in self._story.calls}
        without = [
            (f.begin, f.end) for f in self._faults if any(self._is_without_store(f, e) for e in envoys)
        ]
        if not_stored_at is not None:
            without.append((execution.executed_at, not_stored_at))
        lease = int(self._settings.lease * SECOND)
        could = execution.executed_at + _SLACK
        for begin, end in sorted(without):
            if begin <= could <= end + lease:
                could = end + lease
        return could

    @staticmethod
    def _is_without_store(fault: Fault, envoy: int) -> bool:
        halted = fault.target == f"envoy{envoy}" and fault.kind in _HALTS
        return halted or fault.target in _OF_STORE or fault.target == f"envoy{envoy}.database"

    # --- a detached run has a known outcome, whoever leaves

    def _check_detached(self) -> None:
        if self._story.identity[1] not in self._settings.detached:
            return
        told = [call for call in self._questions if call.answer.code in _RUN_UNKNOWN]
        if not told:
            return
        # What comes after it repeats it.
        call = min(told, key=lambda call: call.answer.at)
        runs = [execution for execution in self._story.executions if execution.at < call.answer.at]
        run = [execution for execution in runs if execution.attempt == runs[-1].attempt]
        if self._has_reason(run, call.answer.at):
            return
        shown = (execution.event for execution in run)
        text = "the outcome of a detached run is unknown, and nothing has happened but that clients left"
        self._report("groundless-unknown", text, *self._last_events(), *shown, call.event, call.answer.event)

    def _has_reason(self, run: list[Execution], told_at: int) -> bool:
        """`run`: what the last attempt that came to the service did there."""
        lease = int(self._settings.lease * SECOND)
        if not run or self._failed_before(run, told_at):
            # Another attempt, which did not come to the service.
            begin = run[-1].at if run else self._questions[0].at
            return self._is_disturbed(begin, told_at, {call.event.get("envoy") for call in self._story.calls})
        if self._says_unknown(run):
            return True
        end = told_at
        if run[-1].executed_at is not None:
            # Soon after that its answer is stored.
            end = min(end, run[-1].executed_at + lease)
        envoys = {call.event.get("envoy") for call in self._story.calls if self._is_of(call, run[0])}
        return self._is_disturbed(run[0].claimed_after, end, envoys)

    @staticmethod
    def _is_of(call: Call, execution: Execution) -> bool:
        return call.event["id"] == execution.event.get("call")

    def _says_unknown(self, run: list[Execution]) -> bool:
        """The service itself leaves it open, or one that was redirected to has not run what another has."""
        settings = self._settings
        last = run[-1]
        if last.declares:
            return last.declares == "unknown"
        partly = len(run) > 1 and last.status in settings.retryable | settings.released
        return partly or last.status in settings.doubtful

    def _is_disturbed(self, begin: int, end: int, envoys: set[int]) -> bool:
        """Whether a fault of one of these Envoys gives a reason, in this time or shortly before."""
        return any(
            self._is_reason(fault, f"envoy{envoy}")
            for fault in self._faults
            if fault.begin <= end and fault.end + _SLACK >= begin
            for envoy in envoys
        )

    def _is_reason(self, fault: Fault, envoy: str) -> bool:
        where = {
            envoy: fault.kind in _ENDS | _HALTS,
            f"{envoy}.upstream": fault.kind in _LOSES,
            "upstream": fault.kind in _LOSES | _CRASHES,
            f"{envoy}.database": True,
            # The clock of a file's leases.
            f"{envoy}.clock": self._settings.store == "sqlite",
        }
        return fault.target in _OF_STORE or where.get(fault.target, False)

    # --- the reconciler settles what is unknown

    def _check_settled(self) -> None:
        if self._story.identity[1] not in self._settings.reconciled or self._quiet is None:
            return
        end = self._quiet + int(self._settings.settled_within * SECOND)
        late = [event for event in self._story.unsettled if event["at"] > end]
        late += [row for row in self._story.rows if row["state"] == "unknown"]
        late += [call.event for call in self._story.finals if call.answer.code == _UNKNOWN]
        if late:
            text = f"still unknown {(late[0]['at'] - self._quiet) / SECOND:.1f} s after the faults"
            self._report("unsettled", text, *self._last_events(), late[0])

    # --- every change by an operator or the reconciler has its entry in the audit

    def _check_audit(self) -> None:
        if self._story.identity[1] not in self._settings.audited:
            return
        for change in self._story.changes:
            if change["outcome"] == "done" and not self._entries(change):
                text = f"{change['action']} by {change['actor']} was made, and is not in the audit"
                self._report("unaudited", text, *self._last_events(), change)
        # The reconciler asks about what is unknown, and nothing but an audited change lets that run again.
        freed = {str(entry["attempt"]) for entry in self._story.audit if entry["action"] in _FREES}
        for asked in self._story.asked:
            later = [e for e in self._story.executions if e.claimed_after > asked["at"]]
            unknown = asked["by"] == "reconciler" and str(asked["attempt"]) not in freed
            if unknown and (others := [e for e in later if e.attempt != str(asked["attempt"])]):
                text = "its outcome was unknown, it ran again, and the audit does not tell who let it"
                self._report("unaudited", text, *self._last_events(), asked, others[0].event)
                return

    def _entries(self, change: dict) -> list[dict]:
        names = ("attempt", "actor", "action")
        return [
            entry
            for entry in self._story.audit
            if entry["detail"] == change["reason"]
            and all(str(entry[name]) == str(change[name]) for name in names)
        ]

    # --- a change is about the attempt that it names

    def _check_changes(self) -> None:
        for change in self._story.changes:
            if change["outcome"] in ("stale", "refused", "absent") and (entries := self._entries(change)):
                text = f"{change['action']} was {change['outcome']}, and the audit says that it was made"
                self._report("stale-change", text, change, *entries)
            elif change["outcome"] == "done" and (later := self._later_holder(change)):
                text = f"{change['action']} names an attempt that a later one had replaced, and was made"
                self._report("stale-change", text, *self._last_events(), later.event, change)
        settled: dict[str, dict] = {}
        for entry in self._story.audit:
            if entry["action"] in _SETTLES:
                first = settled.setdefault(str(entry["attempt"]), entry)
                if first is not entry:
                    self._report("stale-change", "one attempt was settled twice", first, entry)

    def _later_holder(self, change: dict) -> Execution | None:
        """An execution by an attempt that surely held the key when the change began, and that came after the
        attempt which the change names."""
        named = str(change["attempt"])
        own = [execution.at for execution in self._story.executions if execution.attempt == named]
        freed = [
            other["at"]
            for other in self._story.changes
            if str(other["attempt"]) == named and other["outcome"] == "done" and other["action"] in _FREES
        ]
        over = min([*own, *freed], default=None)
        for execution in self._story.executions:
            if execution.attempt == named or over is None or execution.at >= change["began"]:
                continue
            if execution.claimed_after > over:
                return execution
        return None

    # --- the end: every key has a final answer, and no claim is left

    def _check_end(self) -> None:
        for call in self._story.finals:
            answer = call.answer
            final = answer.kind in (Kind.FIRST_HAND, Kind.REPLAY)
            if not final and answer.code not in (_UNKNOWN, _UNAVAILABLE, _KEY_REUSED):
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
            self._check_expected_executions(expected, why)
            if final := expected.get("final"):
                self._check_expected_final(final, why)
            never = set(expected.get("never") or ())
            for call in self._questions:
                met = call.answer.code in never or ("not_stored" in never and _is_not_stored(call.answer))
                if met:
                    text = f"{call.answer.code or 'not stored'}, which must not be here: {why}"
                    self._report("expected-never", text, call.event, call.answer.event)

    def _check_expected_executions(self, expected: dict, why: str) -> None:
        """Where the outcome stays unknown, fewer executions are fine: on a busy machine, a request that times
        out may never reach the service, and that is no reason to run it again."""
        works = expected.get("works")
        if works is not None and len(self._story.works) != works:
            text = f"{len(self._story.works)} requests came to the service, instead of {works}: {why}"
            self._report("expected-executions", text, *self._story.works)
        wanted, found = expected.get("executions"), len(self._story.executions)
        fewer_will_do = expected.get("final") == "unknown"
        if wanted is None or found == wanted or (found < wanted and fewer_will_do):
            return
        text = f"{found} executions instead of {wanted}: {why}"
        self._report("expected-executions", text, *(e.event for e in self._story.executions))

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
        hidden = ("row", "expect", "final", "audit", "unsettled", "order")
        shown = [event for event in self._story.events if event["type"] not in hidden]
        return sorted(shown, key=lambda event: event["at"])[-8:]


def _time_of(event: dict) -> int:
    return event["at"]


def _identity_of(event: dict) -> Identity:
    return event["tenant"], event["operation"], event["key"]


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
_FACTS = (
    *("id", "client", "envoy", "number", "attempt", "path", "payload", "status", "declares", "state"),
    *("actor", "action", "outcome", "said", "detail", "why", "what", "value", "body"),
    *("phase", "point", "holder", "life", "name"),
)


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
