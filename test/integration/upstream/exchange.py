"""One request and the means to answer it, the same for HTTP/1.1 and HTTP/2."""

import abc
import asyncio
import dataclasses

from .behaviour import Framing

Pairs = list[tuple[str, str]]


class PeerGone(Exception):
    """The other side closed or reset before the exchange was over."""


@dataclasses.dataclass
class Request:
    method: str
    path: str
    headers: Pairs  # Names in lower case, in order, without HTTP/2's pseudo-headers.
    protocol: str
    authority: str | None
    scheme: str | None = None  # HTTP/1.1 has none.

    def header(self, name: str) -> str | None:
        """All lines of that name, joined as HTTP allows."""
        values = [value for key, value in self.headers if key == name]
        return ", ".join(values) if values else None


@dataclasses.dataclass
class Response:
    status: int
    headers: Pairs
    body: bytes
    trailers: Pairs
    framing: Framing = Framing.LENGTH


class Exchange(abc.ABC):
    request: Request
    request_trailers: Pairs
    # Set when the other side is gone or has reset this stream.
    gone: asyncio.Event

    @abc.abstractmethod
    async def read_body(self) -> bytes: ...

    @abc.abstractmethod
    async def interim(self, status: int, headers: Pairs) -> None:
        """Sends a 1xx response."""

    @abc.abstractmethod
    async def respond(self, response: Response) -> None: ...

    @abc.abstractmethod
    async def respond_half(self, response: Response) -> None:
        """The headers of the whole response and half of its body."""

    @abc.abstractmethod
    async def respond_rest(self, response: Response) -> None:
        """What respond_half() left out."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Closes the connection in an orderly way."""

    @abc.abstractmethod
    async def reset(self) -> None:
        """TCP reset, or RST_STREAM(INTERNAL_ERROR)."""

    @abc.abstractmethod
    async def refuse(self) -> None:
        """HTTP/2: RST_STREAM(REFUSED_STREAM)."""

    @abc.abstractmethod
    async def goaway(self) -> None:
        """HTTP/2: GOAWAY below this stream, then the connection is closed."""
