"""How the service settles requests in its own PostgreSQL transactions: docs/own-transaction.md.

Each effect is a row of chaos.effect, in the transaction that calls checkpoint() or complete(). Half of the
requests have two phases, some order an effect in the outbox; that depends on the key, so every attempt has
the same. The service says only after its commit that it succeeded.

A request may ask for more than service.py says:

    work      seconds of work before the first transaction
    hold      seconds of work inside of the one that completes the record
    pause     seconds between the phases
    phases    1 or 2
    outbox    "", "last" (ordered with the last phase) or "all" (with each one, by the same name)
    begins    whether transactions call begin_work(), or only what writes
    crash     also "open" (before the commit that completes the record), "committed" (after it), "between"
              (the phases)
    status    of what is committed; one that is not a result is answered without a commit
    says      what is answered over HTTP instead: a status, or 0 for a connection that breaks
    denied    a status that is answered in place of the last phase, without a commit
"""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Callable

import plan
import psycopg
from psycopg.conninfo import make_conninfo

_TOPIC = "letters"
# The first phase, as the recovery point has it; what the record has before.
FIRST, LAST = "reserved", "done"
# At most so many connections; and how long one may take for a request, or be silent in a transaction.
_CONNECTIONS = 24
_LONGEST, _SILENT = 5 * plan.LEASE, 3 * plan.LEASE
_TWO_PHASES, _OTHER_ANSWER, _NO_ANSWER, _ABRUPT = 0.5, 0.5, 0.05, 0.2
_DENIED = 0.1


class NoAnswer(Exception):
    """The connection to the caller breaks."""


class _Denied(Exception):
    """In the middle of its work, the service finds that the caller may not have this."""


class OwnWork:
    """`write`: a line of the log. `crash`: ends the process if that is wished for this moment."""

    def __init__(
        self, conninfo: str, seed: str, write: Callable[..., None], crash: Callable[[str, dict], None]
    ) -> None:
        # A transaction whose service is gone, and nobody tells the server, must not hold its locks for ever.
        options = f"-c idle_in_transaction_session_timeout={_SILENT}s"
        self._conninfo = make_conninfo(
            conninfo, target_session_attrs="read-write", options=options, tcp_user_timeout=_SILENT * 1000
        )
        self._seed, self._write, self._crash = seed, write, crash
        self._idle: list[psycopg.AsyncConnection] = []
        self._places = asyncio.Semaphore(_CONNECTIONS)

    async def run(self, facts: dict, headers: dict[str, str], wish: dict) -> tuple[int, list, bytes]:
        """`facts`: those of an execution. The answer over HTTP."""
        chance = random.Random(f"{self._seed} {facts['tenant']} {facts['key']} {facts['attempt']}")
        work = _Request(facts, wish, random.Random(f"{self._seed} {facts['tenant']} {facts['key']}"), chance)
        point = headers.get("idempotency-recovery-point")
        self._write("work", **facts, point=point)
        self._crash("before", wish)
        await asyncio.sleep(work.seconds)
        if not work.commits:
            return work.answer(work.says)
        try:
            async with asyncio.timeout(_LONGEST):
                await self._commit(work, point)
        except _Denied:
            return work.answer(work.denied)
        except (psycopg.Error, TimeoutError, OSError) as error:
            # Also if a commit was sent, and nobody knows what came of it.
            why = getattr(error, "sqlstate", None) or type(error).__name__
            self._write("rolled_back", number=facts["number"], why=why)
            return work.answer(503)
        self._crash("committed", wish)
        self._crash("after", wish)
        if work.breaks:
            raise NoAnswer
        return work.answer(work.says)

    async def _commit(self, work: "_Request", point: str | None) -> None:
        if work.phases == 2 and point != FIRST:
            async with self._transaction("") as connection:
                # The request's may be older than the record's: it may have been sent twice.
                if await self._begin(connection, work) != FIRST:
                    await self._take_effect(connection, work, FIRST)
                    await connection.execute("SELECT idempotency.checkpoint(%s, %s)", [work.attempt, FIRST])
            self._crash("between", work.wish)
            await asyncio.sleep(work.pause)
        if work.denied:
            raise _Denied
        async with self._transaction(work.facts["key"]) as connection:
            await self._begin(connection, work)
            await self._take_effect(connection, work, LAST)
            await asyncio.sleep(work.hold)
            await connection.execute(
                "SELECT idempotency.complete(%s, %s, %s, %s)",
                [work.attempt, work.status, json.dumps(dict(work.headers)), work.body(work.status).encode()],
            )
            self._crash("open", work.wish)

    async def _begin(self, connection: psycopg.AsyncConnection, work: "_Request") -> str | None:
        """The recovery point, if it is asked for."""
        if not work.begins:
            return None
        cursor = await connection.execute("SELECT * FROM idempotency.begin_work(%s)", [work.attempt])
        *names, point = await cursor.fetchone()
        identity = [name.decode() for name in names]
        self._write("begun", number=work.facts["number"], identity=identity, point=point)
        return point

    async def _take_effect(self, connection: psycopg.AsyncConnection, work: "_Request", phase: str) -> None:
        ordered = work.outbox == "all" or (work.outbox == "last" and phase == LAST)
        facts = {
            **{name: work.facts[name] for name in ("tenant", "operation", "key", "number", "attempt")},
            "at": time.monotonic_ns(),
            "phase": phase,
            "ordered": ordered,
            "facts": json.dumps({**work.facts, "headers": work.headers, "body": work.body(work.status)}),
            "status": work.status,
        }
        names = ", ".join(facts)
        places = ", ".join(["%s"] * len(facts))
        await connection.execute(f"INSERT INTO chaos.effect ({names}) VALUES ({places})", [*facts.values()])
        if ordered:
            about = json.dumps({"number": work.facts["number"]})
            await connection.execute("SELECT idempotency.enqueue(%s, %s, %s)", [work.attempt, _TOPIC, about])

    @contextlib.asynccontextmanager
    async def _transaction(self, key: str) -> AsyncIterator[psycopg.AsyncConnection]:
        """`key`: the last commit of a request names it, for those who watch (observer.py)."""
        async with self._places, self._connection() as connection:
            await connection.execute("BEGIN")
            yield connection
            await connection.execute(f"COMMIT /* {key} */" if key else "COMMIT")

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """A connection on which anything failed is not used again."""
        connection = self._idle.pop() if self._idle else await self._connect()
        try:
            yield connection
        except BaseException:
            # At once: close() would be enough, but for one whose other side is silent.
            connection.pgconn.finish()
            raise
        self._idle.append(connection)

    async def _connect(self) -> psycopg.AsyncConnection:
        return await psycopg.AsyncConnection.connect(
            self._conninfo, autocommit=True, prepare_threshold=None, connect_timeout=2
        )


class _Request:
    """What one attempt does. `by_key`: a source of chance that every attempt has alike."""

    def __init__(self, facts: dict, wish: dict, by_key: random.Random, chance: random.Random) -> None:
        self.facts, self.wish = facts, wish
        self.attempt = int(facts["attempt"])
        self.phases = wish.get("phases", 2 if by_key.random() < _TWO_PHASES else 1)
        self.outbox = wish.get("outbox", by_key.choice(("", "last", "all")))
        status = chance.choices(plan.STATUSES, plan.STATUS_WEIGHTS)[0]
        seconds = chance.uniform(*chance.choices(plan.WORK, plan.WORK_WEIGHTS)[0])
        differs = chance.random() < _OTHER_ANSWER
        self._size = chance.randint(*chance.choices(plan.SIZES, plan.SIZE_WEIGHTS)[0])
        begins = chance.random() >= _ABRUPT
        held = chance.random() < 0.2
        breaks, denied = chance.random() < _NO_ANSWER, chance.random() < _DENIED
        if wish:
            begins, differs, held, breaks, denied = True, False, False, False, False
        # What may come twice must ask.
        twice = self.phases == 2 and plan.ROUTES[facts["operation"]].resends
        self.begins = wish.get("begins", begins or twice)
        status = wish.get("status", status)
        no_result = status in (*plan.RETRYABLE, *plan.RELEASED, *plan.DOUBTFUL)
        # What is said and what is committed are two things, sometimes.
        self.commits = not no_result or differs
        self.status = 201 if no_result else status
        self.says = wish.get("says", status)
        self.breaks = breaks or self.says == 0
        self.denied = wish.get("denied", chance.choice(plan.RELEASED) if denied else 0)
        self.seconds = wish.get("work", 0 if held else seconds)
        self.hold = wish.get("hold", seconds if held else 0)
        self.pause = wish.get("pause", 0 if wish else seconds / 2)

    @property
    def headers(self) -> list:
        number = str(self.facts["number"])
        return [["content-type", "application/json"], ["x-execution", number], ["x-size", str(self._size)]]

    def answer(self, status: int) -> tuple[int, list, bytes]:
        return status, self.headers, self.body(status).encode()

    def body(self, status: int) -> str:
        return json.dumps({**self.facts, "status": status, "pad": "x" * self._size})
