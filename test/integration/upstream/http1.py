"""HTTP/1.1, written out by hand because the tests need exact control of the wire."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

from .behaviour import Framing
from .exchange import Exchange, Pairs, PeerGone, Request, Response

_LIMIT = 64 * 1024 * 1024
_REASONS = {100: "Continue", 103: "Early Hints", 200: "OK", 201: "Created", 204: "No Content"}


class Peer(asyncio.StreamReaderProtocol):
    """A connection: a reader, a writer, and an event that is set when the other side is gone."""

    def __init__(self, handler: Callable[["Peer"], Awaitable[None]]) -> None:
        self.reader = asyncio.StreamReader(limit=_LIMIT)
        self.gone = asyncio.Event()
        self._handler = handler
        super().__init__(self.reader, self._connected)

    async def _connected(self, _reader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        try:
            await self._handler(self)
        except (ConnectionError, asyncio.IncompleteReadError, PeerGone):
            pass
        finally:
            writer.close()

    def eof_received(self) -> bool:
        self.gone.set()
        super().eof_received()
        return False

    def connection_lost(self, error) -> None:
        self.gone.set()
        super().connection_lost(error)

    async def send(self, data: bytes) -> None:
        if self.writer.is_closing():
            raise PeerGone
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        # A zero linger time makes the kernel send RST instead of FIN.
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def read_head(peer: Peer) -> bytes | None:
    """Everything up to the first empty line; None at the end of the connection."""
    try:
        return await peer.reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None


async def serve(peer: Peer, run: Callable[[Exchange], Awaitable[None]], head: bytes | None = None) -> None:
    """Answers requests until the connection ends. `head` was read already, if given."""
    while head := head or await read_head(peer):
        exchange = Http1Exchange(peer, _parse(head))
        await run(exchange)
        if not exchange.reusable:
            return
        head = None


def _parse(head: bytes) -> Request:
    start, *lines = head[:-4].decode("latin-1").split("\r\n")
    method, path, protocol = start.split(" ", 2)
    headers = []
    for line in lines:
        name, _, value = line.partition(":")
        headers.append((name.lower(), value.strip()))
    return Request(method, path, headers, protocol, dict(headers).get("host"))


class Http1Exchange(Exchange):
    def __init__(self, peer: Peer, request: Request) -> None:
        self.request = request
        self.request_trailers: Pairs = []
        self.gone = peer.gone
        self.reusable = False
        self._peer = peer

    async def read_body(self) -> bytes:
        self.reusable = self.request.header("connection") != "close"
        try:
            if (self.request.header("transfer-encoding") or "").endswith("chunked"):
                return await self._read_chunks()
            return await self._peer.reader.readexactly(int(self.request.header("content-length") or 0))
        except asyncio.IncompleteReadError as error:
            raise PeerGone from error

    async def _read_chunks(self) -> bytes:
        body = b""
        while True:
            size = int((await self._line()).split(b";")[0], 16)
            if not size:
                break
            body += await self._peer.reader.readexactly(size)
            await self._line()
        while line := await self._line():
            name, _, value = line.decode("latin-1").partition(":")
            self.request_trailers.append((name.lower(), value.strip()))
        return body

    async def _line(self) -> bytes:
        return (await self._peer.reader.readuntil(b"\r\n"))[:-2]

    async def interim(self, status: int, headers: Pairs) -> None:
        await self._peer.send(_head(status, headers))

    async def respond(self, response: Response) -> None:
        head, pieces = self._encode(response)
        await self._peer.send(head + b"".join(pieces))
        if response.framing is Framing.CLOSE:
            self.reusable = False

    async def respond_half(self, response: Response) -> None:
        head, pieces = self._encode(response)
        body = b"".join(pieces)
        await self._peer.send(head + body[: len(body) // 2])
        self.reusable = False

    async def respond_rest(self, response: Response) -> None:
        _, pieces = self._encode(response)
        body = b"".join(pieces)
        await self._peer.send(body[len(body) // 2 :])
        self.reusable = response.framing is not Framing.CLOSE

    async def close(self) -> None:
        self.reusable = False
        self._peer.close()

    async def reset(self) -> None:
        self.reusable = False
        self._peer.reset()

    async def refuse(self) -> None:
        raise AssertionError("HTTP/1.1 cannot refuse a stream")

    async def goaway(self) -> None:
        raise AssertionError("HTTP/1.1 has no GOAWAY")

    def _encode(self, response: Response) -> tuple[bytes, list[bytes]]:
        headers = list(response.headers)
        bodyless = response.status in (204, 304) or self.request.method == "HEAD"
        if response.framing is Framing.CHUNKED or response.trailers:
            headers.append(("transfer-encoding", "chunked"))
            if response.trailers:
                headers.append(("trailer", ", ".join(name for name, _ in response.trailers)))
            pieces = [] if bodyless else _chunks(response)
        elif response.framing is Framing.CLOSE:
            headers.append(("connection", "close"))
            pieces = [response.body]
        else:
            if response.status not in (204, 304):
                headers.append(("content-length", str(len(response.body))))
            pieces = [] if bodyless else [response.body]
        return _head(response.status, headers), pieces


def _head(status: int, headers: Pairs) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _chunks(response: Response) -> list[bytes]:
    size = 16 * 1024
    pieces = []
    for start in range(0, len(response.body), size):
        piece = response.body[start : start + size]
        pieces.append(b"%x\r\n%s\r\n" % (len(piece), piece))
    pieces.append(b"0\r\n")
    pieces += [f"{name}: {value}\r\n".encode("latin-1") for name, value in response.trailers]
    pieces.append(b"\r\n")
    return pieces
