"""HTTP clients: one request at a time, or many at once."""

import dataclasses
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx

from .upstream import behave
from .wait import wait_for
from .wire import Http1Connection, Http2Connection, WireResponse

_TIMEOUT = 30.0


def client(http2: bool = False, **options) -> httpx.Client:
    """A client for HTTP/1.1, or for HTTP/2 with prior knowledge.

    It calls every Envoy by one name, as clients of several gateways do: the port must not count.
    """
    headers = {"host": "test", **options.pop("headers", {})}
    return httpx.Client(http1=not http2, http2=http2, headers=headers, **{"timeout": _TIMEOUT, **options})


def post(url: str, key: str | None = None, http2: bool = False, **options) -> httpx.Response:
    """One POST. `key` goes into Idempotency-Key as given, quotes and all."""
    headers = dict(options.pop("headers", {}))
    if key is not None:
        headers["idempotency-key"] = key
    with client(http2) as http:
        return http.post(url, headers=headers, **options)


@dataclasses.dataclass(frozen=True)
class Request:
    path: str
    method: str = "POST"
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b"{}"

    @classmethod
    def keyed(cls, path: str, key: str, headers: dict[str, str] | None = None, **more) -> "Request":
        return cls(path, headers={"idempotency-key": key, **(headers or {})}, **more)


class KeepAlive:
    """One connection, used again as long as the server allows. Failures come as responses with status 0."""

    def __init__(self, port: int, http2: bool = False, timeout: float = _TIMEOUT) -> None:
        self._port = port
        self._timeout = timeout
        self._kind = Http2Connection if http2 else Http1Connection
        self._connection: Http1Connection | Http2Connection | None = None

    def open(self) -> None:
        """Connects, if it is not connected. send() does it by itself."""
        if self._connection is None:
            self._connection = self._kind(self._port, self._timeout)

    def send(self, request: Request) -> WireResponse:
        try:
            self.open()
            response = self._connection.request(request.method, request.path, request.headers, request.body)
        except (OSError, EOFError) as error:
            response = WireResponse(0, [], b"", [], complete=False, error=repr(error))
        if not response.complete or self._ends(response):
            self.close()
        return response

    def close(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def _ends(self, response: WireResponse) -> bool:
        if isinstance(self._connection, Http2Connection):
            return self._connection.last_stream is not None
        return response.header("connection") == "close"


def send_many(
    port: int, requests: list[Request], concurrency: int = 16, http2: bool = False
) -> list[WireResponse]:
    """Sends all, that many at a time, each sender on its own connection; answers in the requests' order."""
    local = threading.local()
    opened: list[KeepAlive] = []

    def send(request: Request) -> WireResponse:
        if not hasattr(local, "connection"):
            local.connection = KeepAlive(port, http2)
            opened.append(local.connection)
        return local.connection.send(request)

    with ThreadPoolExecutor(concurrency) as pool:
        answers = list(pool.map(send, requests))
    for connection in opened:
        connection.close()
    return answers


def send_multiplexed(port: int, requests: list[Request], streams: int = 100) -> list[WireResponse]:
    """Sends all on one HTTP/2 connection, that many streams at a time."""
    answers: list[WireResponse] = []
    with Http2Connection(port) as connection:
        for start in range(0, len(requests), streams):
            ids = [
                connection.start(request.method, request.path, request.headers, request.body)
                for request in requests[start : start + streams]
            ]
            answers += [connection.finish(stream) for stream in ids]
    return answers


class Twice:
    """Requests for Load: each client sends each of its keys twice in a row."""

    def __init__(self, path: str, delay_ms: int = 10, headers: dict[str, str] | None = None) -> None:
        self._run = uuid.uuid4().hex[:8]
        self._path = path
        self._headers = {**behave(delay_ms=delay_ms), **(headers or {})}

    def __call__(self, client: int, count: int) -> Request:
        return Request.keyed(self._path, f'"{self._run}-{client:04}-{count // 2:08}"', self._headers)


class Load:
    """Clients that send one request after the other, each on its own connection, until told to stop."""

    def __init__(
        self,
        port: int,
        make: Callable[[int, int], Request],
        clients: int = 16,
        http2: bool = False,
        timeout: float = _TIMEOUT,
    ):
        """`make` gets the client's number and how many it has sent already. After `timeout` seconds without
        an answer, a client leaves its connection."""
        self.answers: list[WireResponse] = []
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(clients)
        self._senders = [
            self._pool.submit(self._run, KeepAlive(port, http2, timeout), self._requests(make, n))
            for n in range(clients)
        ]

    def wait_for_more(self, count: int) -> None:
        goal = len(self.answers) + count
        wait_for(lambda: len(self.answers) >= goal, f"{count} more answers")

    def stop(self) -> None:
        """No client sends another request."""
        self._stop.set()

    def finish(self) -> list[WireResponse]:
        """Lets every client end its current request; all answers."""
        self.stop()
        for sender in self._senders:
            sender.result()
        self._pool.shutdown()
        return self.answers

    def _requests(self, make: Callable[[int, int], Request], client_number: int) -> Iterator[Request]:
        sent = 0
        while not self._stop.is_set():
            yield make(client_number, sent)
            sent += 1

    def _run(self, connection: KeepAlive, requests: Iterator[Request]) -> None:
        for request in requests:
            self.answers.append(connection.send(request))
        connection.close()
