"""A TCP proxy that understands what passes, so that a fault can strike at a known moment.

Envoy talks to its database and to its upstream through observers. A trap names a key and a boundary; when the
message that carries the key comes by, the trap's action runs *before* the message is passed on, and may hold
it, cut the connection, or kill somebody.

    claim sent       the statement that claims the key is on its way to the database
    claim acknowledged     its commit comes back
    upstream sent, upstream answered
    completion sent, completion acknowledged
    commit sent, commit acknowledged     of the service's own transaction that completes the record
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable

from harness.ports import free_port


class Boundary(enum.Enum):
    CLAIM_SENT = "claim_sent"
    CLAIM_ACKNOWLEDGED = "claim_acknowledged"
    READ_SENT = "read_sent"  # The look-up after a claim that found a record.
    UPSTREAM_SENT = "upstream_sent"
    UPSTREAM_ANSWERED = "upstream_answered"
    COMPLETION_SENT = "completion_sent"
    COMPLETION_ACKNOWLEDGED = "completion_acknowledged"
    COMMIT_SENT = "commit_sent"
    COMMIT_ACKNOWLEDGED = "commit_acknowledged"


# How the service commits what completes a record (own_work.py); the key follows.
_COMMIT = b"COMMIT /*"
# PostgreSQL: which prepared statement means what. Releases, failures and unknown outcomes are endings, too.
_STATEMENTS = {
    b"idempotency_claim": Boundary.CLAIM_SENT,
    b"idempotency_reclaim": Boundary.CLAIM_SENT,
    b"idempotency_read_record": Boundary.READ_SENT,
    b"idempotency_complete": Boundary.COMPLETION_SENT,
    b"idempotency_fail": Boundary.COMPLETION_SENT,
    b"idempotency_release": Boundary.COMPLETION_SENT,
    b"idempotency_mark_unknown": Boundary.COMPLETION_SENT,
}
_ACKNOWLEDGED = {
    Boundary.CLAIM_SENT: Boundary.CLAIM_ACKNOWLEDGED,
    Boundary.COMPLETION_SENT: Boundary.COMPLETION_ACKNOWLEDGED,
    Boundary.COMMIT_SENT: Boundary.COMMIT_ACKNOWLEDGED,
}


class Trap:
    """Springs once, for one key and one boundary."""

    def __init__(
        self, key: str, boundary: Boundary, action: Callable[["Link"], Awaitable[None]] | None, skip: int = 0
    ) -> None:
        self.key = key.encode()
        self.boundary = boundary
        self.sprung = asyncio.Event()
        self.skip = skip  # So many of these pass untouched before.
        self._action = action

    async def spring(self, link: "Link") -> None:
        self.sprung.set()
        if self._action:
            await self._action(link)


class Observer:
    """Listens on a port of its own and passes everything on to the one that `target` tells."""

    def __init__(self, target: Callable[[], int], *, postgres: bool, port: int = 0) -> None:
        """`port`: where it will listen; 0: any free one."""
        self._target = target
        self.port = port
        self.traps: list[Trap] = []
        self.links: set[Link] = set()
        self._postgres = postgres
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """On a free port the first time, on the same one from then on: no client can take it in between.
        Nothing if it listens already."""
        if self._server and self._server.is_serving():
            return self.port
        port = self.port or free_port()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, backlog=256)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    def refuse(self) -> None:
        """Nobody listens any more; connections stay. start() ends it."""
        self._server.close()

    def set(self, trap: Trap) -> Trap:
        self.traps.append(trap)
        return trap

    def clear(self, trap: Trap) -> None:
        if trap in self.traps:
            self.traps.remove(trap)

    async def stop(self) -> None:
        if self._server:
            self._server.close()
        for link in list(self.links):
            link.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", self._target())
        except OSError:
            writer.transport.abort()
            return
        link = (_PostgresLink if self._postgres else _HttpLink)(self, (reader, writer), there)
        self.links.add(link)
        try:
            await link.run()
        finally:
            self.links.discard(link)


class Link:
    """One connection. `near` is the side of Envoy."""

    def __init__(self, observer: Observer, near: tuple, far: tuple) -> None:
        self._observer = observer
        self._near, self._far = near, far

    async def run(self) -> None:
        pumps = [
            asyncio.create_task(self._pump(self._near[0], self._far[1], self.to_far)),
            asyncio.create_task(self._pump(self._far[0], self._near[1], self.to_near)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        self.cut()
        await asyncio.gather(*pumps, return_exceptions=True)

    def cut(self) -> None:
        for _, writer in (self._near, self._far):
            writer.transport.abort()

    async def say_far(self, data: bytes) -> None:
        self._far[1].write(data)
        await self._far[1].drain()

    async def _pump(self, reader, writer, watch) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(b"".join(await watch(data)))
                await writer.drain()
        except (ConnectionError, OSError):
            pass

    async def to_far(self, data: bytes) -> list[bytes]:
        raise NotImplementedError

    async def to_near(self, data: bytes) -> list[bytes]:
        raise NotImplementedError

    def _trap(self, boundary: Boundary, text: bytes) -> Trap | None:
        for trap in self._observer.traps:
            if trap.boundary is boundary and trap.key in text:
                if trap.skip:
                    trap.skip -= 1
                    continue
                self._observer.traps.remove(trap)
                return trap
        return None


class _HttpLink(Link):
    """One request at a time, so both directions tell by the key in the head or body."""

    async def to_far(self, data: bytes) -> list[bytes]:
        if self._observer.traps and (trap := self._trap(Boundary.UPSTREAM_SENT, data)):
            await trap.spring(self)
        return [data]

    async def to_near(self, data: bytes) -> list[bytes]:
        if self._observer.traps and (trap := self._trap(Boundary.UPSTREAM_ANSWERED, data)):
            await trap.spring(self)
        return [data]


class _PostgresLink(Link):
    """Frames of PostgreSQL's protocol, without TLS."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._out, self._in = bytearray(), bytearray()
        self._started = False
        self._syncs = 0  # Sent, and simple queries, which are answered alike.
        self._readies = 0  # Received: each ends what one Sync committed; the first ends the start-up.
        self._waiting: list[tuple[int, Trap]] = []
        self.withhold_sync: asyncio.Event | None = None

    async def to_far(self, data: bytes) -> list[bytes]:
        self._out += data
        passed = []
        while (size := self._frame(self._out, self._started)) and len(self._out) >= size:
            message = bytes(self._out[:size])
            del self._out[:size]
            if not self._started:
                self._started = True
            elif message[:1] in b"SQ":
                if self.withhold_sync:
                    await self._flush_without_sync(passed)
                if message[1 + 4 :].startswith(_COMMIT) and self._observer.traps:
                    await self._met(Boundary.COMMIT_SENT, message, passed)
                self._syncs += 1
            elif message[:1] == b"B" and self._observer.traps:
                await self._bound(message, passed)
            passed.append(message)
        return passed

    async def to_near(self, data: bytes) -> list[bytes]:
        self._in += data
        passed = []
        while (size := self._frame(self._in, True)) and len(self._in) >= size:
            message = bytes(self._in[:size])
            del self._in[:size]
            if message[:1] == b"Z":
                self._readies += 1
                for trap in self._acknowledged():
                    await trap.spring(self)
            passed.append(message)
        return passed

    def cut(self) -> None:
        # Traps that wait for an answer which this connection will not bring are set again.
        self._observer.traps += [trap for _, trap in self._waiting]
        self._waiting = []
        super().cut()

    def _acknowledged(self) -> list[Trap]:
        # The first ready answers the start-up, so sync number n is answered by ready number n + 1.
        done = [trap for sync, trap in self._waiting if sync < self._readies]
        self._waiting = [(sync, trap) for sync, trap in self._waiting if sync >= self._readies]
        return done

    async def _bound(self, message: bytes, passed: list[bytes]) -> None:
        _, _, rest = message[5:].partition(b"\0")
        statement, _, values = rest.partition(b"\0")
        boundary = _STATEMENTS.get(_stem(statement))
        if boundary is not None:
            await self._met(boundary, values, passed)

    async def _met(self, boundary: Boundary, values: bytes, passed: list[bytes]) -> None:
        if boundary in _ACKNOWLEDGED and (trap := self._trap(_ACKNOWLEDGED[boundary], values)):
            self._waiting.append((self._syncs + 1, trap))
        if trap := self._trap(boundary, values):
            # What came before it is on its way; only this one and what follows is held.
            await self.say_far(b"".join(passed))
            passed.clear()
            await trap.spring(self)

    async def _flush_without_sync(self, passed: list[bytes]) -> None:
        """The server carries out what came so far and answers, but commits nothing."""
        await self.say_far(b"".join(passed) + b"H\0\0\0\4")
        passed.clear()
        await self.withhold_sync.wait()

    @staticmethod
    def _frame(buffer: bytearray, typed: bool) -> int:
        """Size of the first message; 0 while its length is not there yet."""
        start = 1 if typed else 0
        if len(buffer) < start + 4:
            return 0
        return start + int.from_bytes(buffer[start : start + 4], "big")


def _stem(statement: bytes) -> bytes:
    for suffix in (b"_many", b"_bare", b"_in_quota"):
        statement = statement.removesuffix(suffix)
    return statement
