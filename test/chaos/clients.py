"""Clients that behave as real ones do: they retry with the same key after time-outs and lost connections.

Each client takes one task after the other. A task is an identity and a body; the client sends it, perhaps to
the other Envoy, until it has a final answer or gives up. Some identities are its own, some are wanted by all
clients at once, some come with a wrong body, some have a key that other tenants use as well.
"""

import asyncio
import dataclasses
import hashlib
import itertools
import json
import random

import plan
from recorder import Recorder
from requester import Answer, Lost, Requester
from world import World

TENANTS = ("acme", "bolt", "core", "dune", "echo")
_HOT = 6  # Keys wanted by all at any time,
_HOT_LIFE = 40  # replaced one after the other after so many uses.
_REMEMBERED = 2000
# About as long as a request takes: those who leave, leave before, during and after the upstream's work.
_STAY = 0.05


@dataclasses.dataclass(frozen=True)
class Task:
    tenant: str
    operation: str
    key: str
    body: bytes
    host: str = plan.HOST

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.tenant, self.operation, self.key

    @property
    def payload(self) -> str:
        """What makes two requests the same one; service.py computes it, too."""
        return hashlib.sha256(self.host.encode() + b"\n" + self.body).hexdigest()


def code_of(answer: Answer) -> str | None:
    """The code if the filter itself answered."""
    if not (answer.header("content-type") or "").startswith("application/problem+json"):
        return None
    return json.loads(answer.body).get("code")


def is_final(answer: Answer, operation: str) -> bool:
    """Whether asking again would give the same for the rest of the record's life."""
    code = code_of(answer)
    if code == "idempotency_outcome_unknown":
        return operation not in plan.RECONCILED and not plan.ROUTES[operation].own
    if code is not None:
        return code in ("idempotency_response_unavailable", "idempotency_key_reused")
    if answer.header("idempotent-replayed") == "true":
        return True
    return answer.status not in (*plan.RETRYABLE, *plan.RELEASED, *plan.DOUBTFUL)


class Sender:
    """Sends and writes down. One for each client."""

    _ids = itertools.count(1)

    def __init__(self, world: World, recorder: Recorder, name: str) -> None:
        self._world, self._recorder, self._name = world, recorder, name
        self._requester = Requester()

    async def send(
        self,
        task: Task,
        envoy: int,
        timeout: float,
        wish: dict | None = None,
    ) -> Answer | None:
        """None: lost. `wish` is a behaviour of the upstream."""
        number = str(next(self._ids))
        self._recorder.add(
            "call",
            id=number,
            client=self._name,
            envoy=envoy,
            tenant=task.tenant,
            operation=task.operation,
            key=task.key,
            payload=task.payload,
            policy=plan.ROUTES[task.operation].policy,
        )
        try:
            answer = await self._post(task, envoy, timeout, wish, number)
        except Lost as lost:
            self._recorder.add("lost", id=number, why=lost.why)
            return None
        except asyncio.CancelledError:
            # The client goes away in the middle.
            self._recorder.add("lost", id=number, why="disconnect")
            self._requester.close()
            raise
        self._recorder.add(
            "return", id=number, status=answer.status, headers=answer.headers, body=answer.body
        )
        return answer

    async def ask(self, task: Task, envoy: int, timeout: float, wish: dict) -> Answer | None:
        """Without a word in the history."""
        try:
            return await self._post(task, envoy, timeout, wish, None)
        except Lost:
            return None

    async def _post(
        self, task: Task, envoy: int, timeout: float, wish: dict | None, number: str | None
    ) -> Answer:
        headers = {
            "host": task.host,
            "content-type": "application/json",
            "idempotency-key": f'"{task.key}"',
            plan.TENANT: task.tenant,
            **({"x-call": number} if number else {}),
            **({"x-service": json.dumps(wish)} if wish else {}),
            **({"x-sidecar": wish["sidecar"]} if wish and "sidecar" in wish else {}),
        }
        port = self._world.gateways[envoy].front.port
        return await self._requester.post(port, f"/{task.operation}", headers, task.body, timeout)

    def close(self) -> None:
        self._requester.close()


class Keys:
    """Which identities the clients use, and all that were ever used."""

    def __init__(self, seed: int, operations: list[str]) -> None:
        self.used: dict[tuple[str, str, str], dict[bytes, None]] = {}
        self.settled: set[tuple[str, str, str]] = set()  # Somebody got a final answer.
        self._chance = plan.chance(seed, "keys")
        self._numbers = itertools.count(1)
        self._prefix = f"run-{seed}"
        self._operations = operations
        self._hot = [self._new() for _ in range(_HOT)]
        self._recent: list[Task] = []

    def choose(self) -> Task:
        kind = self._chance.choices(("unique", "hot", "again", "reuse", "shared"), (55, 20, 12, 5, 8))[0]
        makers = {
            "unique": self._unique,
            "hot": self._hot_one,
            "again": self._again,
            "reuse": self._reuse,
            "shared": self._shared,
        }
        task = makers[kind]()
        self.note(task)
        return task

    def new(self, operation: str | None = None, tenant: str | None = None, aim: str = "") -> Task:
        """An identity that nobody else uses."""
        task = self._new(operation, tenant, aim)
        self.note(task)
        return task

    def note(self, task: Task) -> None:
        self.used.setdefault(task.identity, {})[task.body] = None

    def _new(self, operation: str | None = None, tenant: str | None = None, aim: str = "") -> Task:
        number = next(self._numbers)
        return Task(
            tenant or self._chance.choice(TENANTS),
            operation or self._chance.choice(self._operations),
            f"{self._prefix}-{aim or 'key'}-{number:08}",
            json.dumps({"amount": number, "run": self._prefix}).encode(),
        )

    def _unique(self) -> Task:
        task = self._new()
        self._remember(task)
        return task

    def _remember(self, task: Task) -> None:
        self._recent.append(task)
        if len(self._recent) > _REMEMBERED:
            del self._recent[: _REMEMBERED // 2]

    def _hot_one(self) -> Task:
        if self._chance.random() < 1 / _HOT_LIFE:
            self._hot[self._chance.randrange(_HOT)] = self._new()
        return self._chance.choice(self._hot)

    def _again(self) -> Task:
        """One that was used before, perhaps long ago."""
        return self._chance.choice(self._recent) if self._recent else self._unique()

    def _reuse(self) -> Task:
        """A known key with another body."""
        known = self._again()
        return dataclasses.replace(known, body=known.body.replace(b'"amount"', b'"price"'))

    def _shared(self) -> Task:
        """A known key and body of another tenant."""
        return dataclasses.replace(self._again(), tenant=self._chance.choice(TENANTS))


class Client:
    def __init__(self, number: int, seed: int, world: World, recorder: Recorder, keys: Keys) -> None:
        self._world, self._keys = world, keys
        self._chance: random.Random = plan.chance(seed, "client", number)
        self._sender = Sender(world, recorder, f"client-{number}")

    async def run(self, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                await self._finish(self._keys.choose(), stop)
                await asyncio.sleep(self._chance.expovariate(1 / 0.02))
        finally:
            self._sender.close()

    async def _finish(self, task: Task, stop: asyncio.Event) -> None:
        """Until a final answer, or until it has no patience left."""
        pause = 0.05
        for _ in range(self._chance.randint(2, 8)):
            answer = await self._try(task)
            if answer and is_final(answer, task.operation):
                self._keys.settled.add(task.identity)
                return
            if stop.is_set():
                return
            await asyncio.sleep(self._chance.uniform(pause / 2, pause))
            pause = min(2 * pause, 1.0)

    async def _try(self, task: Task) -> Answer | None:
        envoy = self._chance.randrange(len(self._world.gateways))
        wish = None
        if self._chance.random() < 0.003:
            wish = {"work": 1.5 * plan.LEASE}
        return await self._sender.send(task, envoy, self._patience(task.operation), wish)

    def _patience(self, operation: str) -> float:
        """Most are patient; some leave early, as people do who close a page. Where that must not matter, half
        of them leave, at any moment."""
        if plan.ROUTES[operation].detached and self._chance.random() < 0.5:
            return self._chance.expovariate(1 / _STAY)
        return self._chance.choices((6.0, 1.5, 0.1, 0.01), (80, 12, 6, 2))[0]
