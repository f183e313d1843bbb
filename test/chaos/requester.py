"""One HTTP/1.1 request on asyncio, with a deadline, and with connections that are used again."""

import asyncio
import dataclasses

import plan

_LIMIT = 1 << 20


class Lost(Exception):
    """No whole answer came; whether the request ran is not known. `why` is a word of the history."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: str

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class Requester:
    """Of one client: one request at a time to each port."""

    def __init__(self) -> None:
        self._idle: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def post(
        self, port: int, path: str, headers: dict[str, str], body: bytes, timeout: float
    ) -> Answer:
        return await self.send("POST", port, path, headers, body, timeout)

    async def send(
        self, method: str, port: int, path: str, headers: dict[str, str], body: bytes, timeout: float
    ) -> Answer:
        try:
            async with asyncio.timeout(timeout):
                return await self._send(method, port, path, headers, body)
        except TimeoutError:
            self._drop(port)
            raise Lost("timeout") from None
        except (ConnectionError, OSError, asyncio.IncompleteReadError, ValueError) as error:
            self._drop(port)
            raise Lost("refused" if isinstance(error, ConnectionRefusedError) else "disconnect") from None

    def close(self) -> None:
        for port in list(self._idle):
            self._drop(port)

    async def _send(self, method: str, port: int, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if port not in self._idle:
            self._idle[port] = await asyncio.open_connection("127.0.0.1", port, limit=_LIMIT)
        reader, writer = self._idle[port]
        fields = {"host": plan.HOST, "content-length": str(len(body)), **headers}
        text = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode() + body)
        answer = await _read(reader)
        if answer.header("connection") == "close":
            self._drop(port)
        return answer

    def _drop(self, port: int) -> None:
        if pair := self._idle.pop(port, None):
            pair[1].transport.abort()


async def _read(reader: asyncio.StreamReader) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    start, *lines = head[:-4].decode("latin-1").split("\r\n")
    headers = []
    for line in lines:
        name, _, value = line.partition(":")
        headers.append((name.lower(), value.strip()))
    answer = Answer(int(start.split(" ")[1]), headers, "")
    if (answer.header("transfer-encoding") or "").endswith("chunked"):
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(answer.header("content-length") or 0))
    return dataclasses.replace(answer, body=body.decode())


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return body
