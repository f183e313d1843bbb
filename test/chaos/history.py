"""What a chaos run writes down, and how it is read back, identity by identity.

A history is a file of JSON lines. Times (`at`) are time.monotonic_ns() of one machine; durations in the
settings are seconds. Every event has `at` and `type`. An identity is tenant, operation (the route), key.

    settings   lease, sweep, cache_age, ttl {operation: seconds}, retryable, released, doubtful (lists of
               statuses), resends, detached, reconciled, audited, own (operations), settled_within, store;
               one. After a retryable or released status of the service itself the next request may run; a
               doubtful one leaves open whether anything ran. On the way of an operation that `resends` a
               proxy sends one request more than once by itself. A `detached` one runs on when its client
               leaves. The outcome of a `reconciled` one is known settled_within seconds after the last fault.
               Of the `audited` ones the audit is read. The service settles `own` ones in its own
               transactions: what it has committed is in the events `effect`; there is no `execution` of them
    call       id (one per attempt), client, envoy, identity, payload (digest of the request's body), policy:
               what the route does when a lease has run out: "mark" (the outcome is unknown) or "retry"
    return     id, status, headers ([name, value]…, lower case), body (text; hexadecimal digits if it is none)
    lost       id, why: nobody knows what came of the call
    execution  the upstream begins: number (unique), identity, payload, attempt (the filter's token), status,
               headers and body that it will answer, call (id; gives its claim's time a bound), perhaps
               `kept: false` (the answer is too long to be stored), path (a redirect leads to another one),
               and `declares`: what the service itself says of the outcome. The answer has the number as
               x-execution: one without it is not the service's, but of a proxy in its place
    executed   number: the upstream's work is done. Missing: nobody knows
    work       of an own operation: number, identity, payload, attempt, call, as an execution has them; point:
               the recovery point in the request
    begun      number, identity (a list), point: what begin_work() said to it
    rolled_back   number, why: it has committed no more, as far as it knows
    effect     of an own operation: a row that a work has committed (`at`: when it wrote it). number,
               identity, attempt, phase; in the phase "done": status, and facts with the headers and the body
               of the response in the same transaction; ordered: whether an effect was ordered in the outbox.
               At the commit: life (when that of the record began), holder (the attempt that held the record),
               state (of the record, its number)
    order      of an own operation: a row of the outbox: identity, attempt, name, life
    asked      identity, attempt, by ("reconciler" asks about unknown outcomes only, "operator" at any time),
               said: the service was asked what became of an attempt
    turned_away   identity, attempt: the service did not run one of which it had said that it never will
    change     identity, attempt, action (as in the audit), actor, reason (unique), began, outcome: what an
               operator did, and what came of it: "done", "stale", "refused", "absent"; "maybe": nobody knows
    audit      identity, attempt, actor, action, detail: an entry of the audit at the very end, in its order
    unsettled  identity, attempt: after the faults, the outcome of a reconciled operation was seen to be
               unknown, for the last time
    bust       identity: an operator is about to delete the record
    fault      kind, target, phase: "begin" or "end". The target is a server ("envoy0", "upstream",
               "database"), or what belongs to an Envoy alone: "envoy0.upstream" is its way to the upstream
    quiet      the last fault is over
    final      identity, payload, status, headers, body: what a patient client got after that; `unresolved`:
               nothing final; perhaps `began`, when it asked for the last time
    row        identity, state, attempt: what the store holds at the very end
    bound      what, value, most: a figure that must not exceed what the settings promise
    expect     identity, and what an aimed scenario knows of it: executions (a number; of an own operation, of
               committed effects), works (likewise, of requests that came to the service), final ("success",
               "unknown"), never (codes of problems that nobody may have got, or "not_stored"), why
"""

import dataclasses
import enum
import json
import math
from collections.abc import Iterable
from pathlib import Path

Identity = tuple[str, str, str]
# Of an own operation: the phase that completes the record.
LAST_PHASE = "done"

SECOND = 1_000_000_000


class Malformed(ValueError):
    """The history contradicts itself: the run is at fault, not what it tested."""


class Kind(enum.Enum):
    LOST = "lost"  # Nobody knows.
    FIRST_HAND = "first-hand"  # The upstream's answer, as it came.
    REPLAY = "replay"
    PROBLEM = "problem"  # The filter's own answer; `code` says which.
    OTHER = "other"  # Envoy's own: it promises nothing.


@dataclasses.dataclass(frozen=True)
class Answer:
    at: int
    kind: Kind
    event: dict
    status: int = 0
    number: int | None = None  # Which execution it tells of.
    code: str = ""

    def header(self, name: str) -> str | None:
        return next((value for field, value in self.event["headers"] if field == name), None)


@dataclasses.dataclass(frozen=True)
class Call:
    """One question and what came back; the last one of a patient client, too."""

    at: int
    payload: str
    answer: Answer
    event: dict


@dataclasses.dataclass
class Execution:
    at: int
    number: int
    payload: str
    status: int
    attempt: str
    event: dict
    claimed_after: int  # The claim was made between this moment and `at`.
    executed_at: int | None = None
    kept: bool = True
    path: str = ""
    declares: str | None = None


@dataclasses.dataclass
class Story:
    """All that happened to one identity, each list in the order of time."""

    identity: Identity
    policy: str = "mark"
    is_own: bool = False  # `executions` are the committed effects that complete the record.
    works: list[dict] = dataclasses.field(default_factory=list)
    begun: list[dict] = dataclasses.field(default_factory=list)
    effects: list[dict] = dataclasses.field(default_factory=list)
    orders: list[dict] = dataclasses.field(default_factory=list)
    calls: list[Call] = dataclasses.field(default_factory=list)
    executions: list[Execution] = dataclasses.field(default_factory=list)
    finals: list[Call] = dataclasses.field(default_factory=list)
    busts: list[int] = dataclasses.field(default_factory=list)
    rows: list[dict] = dataclasses.field(default_factory=list)
    expectations: list[dict] = dataclasses.field(default_factory=list)
    changes: list[dict] = dataclasses.field(default_factory=list)
    audit: list[dict] = dataclasses.field(default_factory=list)
    unsettled: list[dict] = dataclasses.field(default_factory=list)
    asked: list[dict] = dataclasses.field(default_factory=list)
    events: list[dict] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Settings:
    lease: float
    cache_age: float
    ttl: dict[str, float]
    retryable: frozenset[int]
    released: frozenset[int]
    doubtful: frozenset[int]
    resends: frozenset[str]
    detached: frozenset[str]
    store: str
    reconciled: frozenset[str] = frozenset()
    settled_within: float = 0.0
    audited: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    target: str
    begin: int
    end: float  # Infinite: it is never said to be over.


@dataclasses.dataclass
class History:
    settings: Settings
    stories: dict[Identity, Story]
    executions: dict[int, tuple[Identity, Execution]]
    bounds: list[dict]
    faults: list[Fault]
    quiet: int | None = None
    works: dict[int, dict] = dataclasses.field(default_factory=dict)  # By number.


def load(path: Path) -> list[dict]:
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def read(events: Iterable[dict]) -> History:
    return _Reader(events).read()


class _Reader:
    def __init__(self, events: Iterable[dict]) -> None:
        self._by_type: dict[str, list[dict]] = {}
        for event in events:
            self._by_type.setdefault(event["type"], []).append(event)
        self._stories: dict[Identity, Story] = {}
        self._executions: dict[int, tuple[Identity, Execution]] = {}
        self._calls: dict[str, dict] = {}
        self._works: dict[int, dict] = {}

    def read(self) -> History:
        settings = self._settings()
        self._read_calls()
        self._read_executions()
        self._read_own()
        self._read_finals()
        for event in self._events("bust"):
            self._story(event).busts.append(event["at"])
        for event in self._events("row"):
            self._story(event).rows.append(event)
        for event in self._events("expect"):
            self._story(event).expectations.append(event)
        for event in self._events("change"):
            self._story(event).changes.append(event)
        for event in self._events("audit"):
            self._story(event).audit.append(event)
        for event in self._events("unsettled"):
            self._story(event).unsettled.append(event)
        for event in self._events("asked"):
            self._story(event).asked.append(event)
        for event in self._events("turned_away"):
            self._story(event)
        for story in self._stories.values():
            story.is_own = story.identity[1] in settings.own
            for events in (story.calls, story.executions, story.finals):
                events.sort(key=lambda event: event.at)
            story.busts.sort()
            for events in (story.changes, story.audit, story.unsettled, story.asked):
                events.sort(key=lambda event: event["at"])
        faults = [*self._faults(), *self._outages()]
        bounds = self._events("bound")
        return History(settings, self._stories, self._executions, bounds, faults, self._quiet(), self._works)

    def _events(self, kind: str) -> list[dict]:
        return self._by_type.get(kind, [])

    def _story(self, event: dict) -> Story:
        identity = (event["tenant"], event["operation"], event["key"])
        story = self._stories.get(identity)
        if story is None:
            story = self._stories[identity] = Story(identity)
        story.events.append(event)
        return story

    def _settings(self) -> Settings:
        found = self._events("settings")
        if len(found) != 1:
            raise Malformed(f"{len(found)} lines of settings")
        values = found[0]
        return Settings(
            lease=values["lease"],
            cache_age=values["cache_age"],
            ttl=values["ttl"],
            retryable=frozenset(values["retryable"]),
            released=frozenset(values["released"]),
            doubtful=frozenset(values.get("doubtful", ())),
            resends=frozenset(values.get("resends", ())),
            detached=frozenset(values.get("detached", ())),
            store=values.get("store", "postgres"),
            reconciled=frozenset(values.get("reconciled", ())),
            settled_within=values.get("settled_within", 0.0),
            audited=frozenset(values.get("audited", ())),
            own=frozenset(values.get("own", ())),
        )

    def _quiet(self) -> int | None:
        return max((event["at"] for event in self._events("quiet")), default=None)

    def _faults(self) -> list[Fault]:
        """A fault lasts until the next end of its kind and target."""
        found: list[Fault] = []
        ends: dict[tuple[str, str], int] = {}
        for event in sorted(self._events("fault"), key=lambda event: event["at"], reverse=True):
            what = (event["kind"], event["target"])
            if event["phase"] == "end":
                ends[what] = event["at"]
            else:
                found.append(Fault(*what, event["at"], ends.get(what, math.inf)))
        return found

    def _outages(self) -> list[Fault]:
        """When an Envoy said that it did not have its store: also a while after what took it away is over."""
        found: list[Fault] = []
        for envoy, calls in self._refused_by_envoy().items():
            outages: list[Fault] = []
            for call in sorted(calls, key=lambda call: call.at):
                if outages and call.at <= outages[-1].end + SECOND:
                    begin, end = outages[-1].begin, max(outages.pop().end, call.answer.at)
                else:
                    begin, end = call.at, call.answer.at
                outages.append(Fault("outage", f"envoy{envoy}.database", begin, end))
            found += outages
        return found

    def _refused_by_envoy(self) -> dict[int, list[Call]]:
        calls: dict[int, list[Call]] = {}
        for story in self._stories.values():
            for call in story.calls:
                if call.answer.code == "idempotency_store_unavailable":
                    calls.setdefault(call.event["envoy"], []).append(call)
        return calls

    def _read_calls(self) -> None:
        ends: dict[str, dict] = {}
        for event in self._events("return") + self._events("lost"):
            if ends.setdefault(event["id"], event) is not event:
                raise Malformed(f"call {event['id']} ends twice")
        for event in self._events("call"):
            if self._calls.setdefault(event["id"], event) is not event:
                raise Malformed(f"call {event['id']} begins twice")
            story = self._story(event)
            story.policy = event["policy"]
            # A run that was stopped leaves calls without an end: lost, like any that nobody heard of again.
            end = ends.pop(event["id"], {"at": event["at"], "type": "lost", "why": "the run ended"})
            story.events.append(end)
            story.calls.append(Call(event["at"], event["payload"], _answer(end), event))
        if ends:
            raise Malformed(f"call {next(iter(ends))} ends without a beginning")

    def _read_executions(self) -> None:
        done = {event["number"]: event for event in self._events("executed")}
        for event in self._events("execution"):
            story = self._story(event)
            execution = Execution(
                at=event["at"],
                number=event["number"],
                payload=event["payload"],
                status=event["status"],
                attempt=str(event["attempt"]),
                event=event,
                claimed_after=self._claimed_after(event, story),
                kept=event.get("kept", True),
                path=event.get("path", ""),
                declares=event.get("declares"),
            )
            if end := done.get(execution.number):
                execution.executed_at = end["at"]
                story.events.append(end)
            if execution.number in self._executions:
                raise Malformed(f"execution {execution.number} begins twice")
            self._executions[execution.number] = (story.identity, execution)
            story.executions.append(execution)

    def _read_own(self) -> None:
        for event in self._events("work"):
            if self._works.setdefault(event["number"], event) is not event:
                raise Malformed(f"work {event['number']} begins twice")
            self._story(event).works.append(event)
        for event in self._events("begun"):
            # Of the story in whose name it was called, whatever it was told.
            work = self._works[event["number"]]
            self._stories[work["tenant"], work["operation"], work["key"]].begun.append(event)
        for event in self._events("effect"):
            story = self._story(event)
            story.effects.append(event)
            if event["phase"] == LAST_PHASE:
                self._add_execution(story, event)
        for event in self._events("order"):
            self._story(event).orders.append(event)

    def _add_execution(self, story: Story, effect: dict) -> None:
        facts = effect["facts"]
        event = {**effect, "headers": facts["headers"], "body": facts["body"]}
        execution = Execution(
            at=effect["at"],
            number=effect["number"],
            payload=facts["payload"],
            status=effect["status"],
            attempt=str(effect["attempt"]),
            event=event,
            claimed_after=self._claimed_after({**facts, "at": effect["at"]}, story),
            executed_at=effect["at"],
        )
        self._executions.setdefault(execution.number, (story.identity, execution))
        story.executions.append(execution)

    def _claimed_after(self, event: dict, story: Story) -> int:
        call = self._calls.get(event.get("call", ""))
        if call is not None:
            return call["at"]
        return story.calls[0].at if story.calls else event["at"]

    def _read_finals(self) -> None:
        quiet = self._quiet()
        for event in self._events("final"):
            began = event.get("began", quiet)
            if began is None:
                raise Malformed("a final answer without `began`, and no `quiet`")
            silent = event.get("unresolved") or event.get("status") is None
            end = {**event, "type": "lost"} if silent else event
            self._story(event).finals.append(Call(began, event["payload"], _answer(end), event))


def _answer(event: dict) -> Answer:
    if event["type"] == "lost":
        return Answer(event["at"], Kind.LOST, event)
    headers = dict(event["headers"])
    number = headers.get("x-execution")
    status = event["status"]
    if headers.get("idempotent-replayed") == "true":
        return Answer(event["at"], Kind.REPLAY, event, status, _integer(number))
    if number is not None:
        return Answer(event["at"], Kind.FIRST_HAND, event, status, _integer(number))
    if code := _code(event["body"]):
        return Answer(event["at"], Kind.PROBLEM, event, status, code=code)
    return Answer(event["at"], Kind.OTHER, event, status)


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _code(body: str) -> str:
    if '"idempotency_' not in body:
        return ""
    try:
        code = json.loads(body).get("code", "")
    except (ValueError, AttributeError):
        return ""
    return code if isinstance(code, str) and code.startswith("idempotency_") else ""
