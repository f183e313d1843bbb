"""HTTP on bare sockets, for where exact bytes, trailers, 1xx responses and resets matter."""

import dataclasses
import socket
import struct
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.settings

_TIMEOUT = 30.0


@dataclasses.dataclass
class WireResponse:
    status: int
    headers: list[tuple[str, str]]  # Names in lower case, in the order of the wire.
    body: bytes
    trailers: list[tuple[str, str]]
    interim: list[int] = dataclasses.field(default_factory=list)  # 1xx before it.
    complete: bool = True  # False: the connection or stream ended too early.
    error: str = ""  # Why there is no response at all; status is 0 then.
    raw: bytes = b""  # HTTP/1.1: all bytes as they came.

    def header(self, name: str) -> str | None:
        values = [value for key, value in self.headers if key == name]
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


class Http1Connection:
    """A socket that sends the bytes it is given and reads whole responses."""

    def __init__(self, at: int | Path, timeout: float = _TIMEOUT) -> None:
        """`at`: a port, or the path of a UNIX socket."""
        if isinstance(at, Path):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(str(at))
        else:
            self.socket = socket.create_connection(("127.0.0.1", at), timeout=timeout)
        self._buffer = b""
        self._taken = b""

    def __enter__(self) -> "Http1Connection":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def start(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | list[tuple[str, str]] = (),
        body: bytes = b"",
        *,
        host: str = "test",
    ) -> None:
        """Sends a request. Host and, for a body, content-length are added."""
        pairs = [("host", host), *(headers.items() if isinstance(headers, dict) else headers)]
        if body:
            pairs.append(("content-length", str(len(body))))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def request(self, method: str, *arguments, **options) -> WireResponse:
        self.start(method, *arguments, **options)
        return self.read_response(head_only=method == "HEAD")

    def read_response(self, head_only: bool = False) -> WireResponse:
        self._taken = b""
        interim = []
        while True:
            status, headers = self._read_head()
            if status >= 200:
                break
            interim.append(status)
        response = WireResponse(status, headers, b"", [], interim)
        try:
            if not head_only and status not in (204, 304):
                self._read_body(response)
        except EOFError:
            response.complete = False
        response.raw = self._taken
        return response

    def at_eof(self) -> bool:
        """True when the other side has closed and everything was read."""
        return not self._buffer and not self._more()

    def close(self) -> None:
        self.socket.close()

    def _read_head(self) -> tuple[int, list[tuple[str, str]]]:
        start, *lines = self._until(b"\r\n\r\n").decode("latin-1")[:-4].split("\r\n")
        return int(start.split(" ")[1]), [_field(line) for line in lines]

    def _read_body(self, response: WireResponse) -> None:
        if (response.header("transfer-encoding") or "").endswith("chunked"):
            self._read_chunks(response)
        elif (length := response.header("content-length")) is not None:
            while len(response.body) < int(length):
                response.body += self._take(int(length) - len(response.body))
        else:
            while self._buffer or self._more():
                response.body += self._take(len(self._buffer))

    def _read_chunks(self, response: WireResponse) -> None:
        while size := int(self._until(b"\r\n").split(b";")[0], 16):
            end = len(response.body) + size
            while len(response.body) < end:
                response.body += self._take(end - len(response.body))
            self._until(b"\r\n")
        while (line := self._until(b"\r\n")) != b"\r\n":
            response.trailers.append(_field(line.decode("latin-1").rstrip("\r\n")))

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._need_more()
        return self._take(self._buffer.index(end) + len(end))

    def _take(self, most: int) -> bytes:
        """At least one byte, at most so many."""
        if not self._buffer:
            self._need_more()
        data, self._buffer = self._buffer[:most], self._buffer[most:]
        self._taken += data
        return data

    def _need_more(self) -> None:
        if not self._more():
            raise EOFError("connection ended in the middle of a response")

    def _more(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            return False
        self._buffer += data
        return bool(data)


class Http2Connection:
    """HTTP/2 with prior knowledge; shows trailers, 1xx responses and resets."""

    def __init__(self, port: int, timeout: float = _TIMEOUT) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="latin-1"))
        self._h2.initiate_connection()
        self._flush()
        self._input = b""
        self._responses: dict[int, WireResponse] = {}
        self._ended: set[int] = set()
        self.reset_codes: dict[int, int] = {}
        # Set once the server sent GOAWAY: streams that it still serves go on, new ones need a new connection.
        self.last_stream: int | None = None

    def __enter__(self) -> "Http2Connection":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def start(
        self,
        method: str,
        path: str,
        headers: list[tuple[str, str]] | dict[str, str] = (),
        body: bytes = b"",
        trailers: list[tuple[str, str]] = (),
        end: bool = True,
        *,
        host: str = "test",
    ) -> int:
        """Sends a request and returns its stream id. The body must fit the first window (64 KiB).

        `end=False`: as if more of it were to come.
        """
        stream = self._h2.get_next_available_stream_id()
        pairs = [(":method", method), (":scheme", "http"), (":path", path), (":authority", host)]
        pairs += headers.items() if isinstance(headers, dict) else headers
        self._h2.send_headers(stream, pairs, end_stream=end and not body and not trailers)
        for start in range(0, len(body), 16384):
            last = start + 16384 >= len(body)
            self._h2.send_data(stream, body[start : start + 16384], end_stream=end and last and not trailers)
        if trailers:
            self._h2.send_headers(stream, trailers, end_stream=True)
        self._flush()
        return stream

    def finish(self, stream: int) -> WireResponse:
        """Reads until the stream's response is whole, reset or cut off."""
        while stream not in self._ended and self._receive():
            for event in self._h2.receive_data(self._whole_frames()):
                self._on(event)
            self._flush()
        response = self._responses.setdefault(stream, WireResponse(0, [], b"", []))
        response.complete = stream in self._ended and stream not in self.reset_codes
        return response

    def request(self, *arguments, **options) -> WireResponse:
        return self.finish(self.start(*arguments, **options))

    def open_windows(self) -> None:
        """From now on HTTP/2 lets the server send as much as it has: only the connection holds it up."""
        largest, first = 2**31 - 1, 65535
        self._h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: largest})
        self._h2.increment_flow_control_window(largest - first)
        self._flush()

    def reset(self, stream: int) -> None:
        self._h2.reset_stream(stream)
        self._flush()

    def close(self) -> None:
        self.socket.close()

    def _receive(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            return False
        self._input += data
        return bool(data)

    def _whole_frames(self) -> bytes:
        """Takes what has come, less GOAWAY: the h2 library would not read on after it."""
        frames = b""
        while len(self._input) >= 9:
            size = 9 + int.from_bytes(self._input[:3], "big")
            if len(self._input) < size:
                break
            frame, self._input = self._input[:size], self._input[size:]
            if frame[3] == 0x7:
                self.last_stream = struct.unpack("!I", frame[9:13])[0] & 0x7FFFFFFF
            else:
                frames += frame
        return frames

    def _on(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.InformationalResponseReceived():
                self._response(event).interim.append(int(dict(event.headers)[":status"]))
            case h2.events.ResponseReceived():
                response = self._response(event)
                response.status = int(dict(event.headers)[":status"])
                response.headers = [pair for pair in event.headers if pair[0] != ":status"]
            case h2.events.DataReceived():
                self._response(event).body += event.data
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.TrailersReceived():
                self._response(event).trailers = list(event.headers)
            case h2.events.StreamReset():
                self.reset_codes[event.stream_id] = int(event.error_code)
                self._ended.add(event.stream_id)
            case h2.events.StreamEnded():
                self._ended.add(event.stream_id)

    def _response(self, event) -> WireResponse:
        return self._responses.setdefault(event.stream_id, WireResponse(0, [], b"", []))

    def _flush(self) -> None:
        try:
            self.socket.sendall(self._h2.data_to_send())
        except ConnectionError:
            pass  # The next read tells.


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip()
