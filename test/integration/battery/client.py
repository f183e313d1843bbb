"""Sends cases on many connections at once, reads what comes back, and says where that is not what must come.

After the cases of a connection that must still work comes one more request, whose answer names it: had Envoy
taken a part of a case for a request, or a request for a part of a case, another answer would stand there.
"""

import asyncio
import dataclasses
import json
from collections.abc import Iterable

import hpack
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
)

from .case import Case, End, Want
from .frames import headers

# Only a test that fails waits so long.
_PATIENCE = 30.0
_CONNECTIONS = 32
_PIPELINED = 20
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# Far above those that cases use.
_LAST_STREAM = 1001


@dataclasses.dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""
    reset: bool = False

    def fits(self, want: Want) -> bool:
        return (self.status, self._code(), self._replayed()) == (want.status, want.code, want.replayed)

    def __str__(self) -> str:
        words = [str(self.status), self._code(), "replayed" * self._replayed(), "reset" * self.reset]
        return " ".join(word for word in words if word)

    def _code(self) -> str:
        if self.headers.get("content-type") != "application/problem+json":
            return ""
        return json.loads(self.body)["code"]

    def _replayed(self) -> bool:
        return self.headers.get("idempotent-replayed") == "true"


async def send_all(port: int, cases: list[Case]) -> list[str]:
    """What went wrong, a line each."""
    queue = iter(_groups(cases))
    wrong: list[str] = []

    async def work() -> None:
        for group in queue:
            send = _http2 if group[0].http2 else _http1
            try:
                wrong.extend(await asyncio.wait_for(send(port, group), _PATIENCE))
            except (TimeoutError, OSError, EOFError, hpack.HPACKError) as error:
                wrong.append(f"{_names(group)}: {error!r}")

    await asyncio.gather(*(work() for _ in range(_CONNECTIONS)))
    return wrong


def _groups(cases: list[Case]) -> Iterable[list[Case]]:
    """Those that one connection carries.

    Requests that the filter refuses at once do not go together: Envoy ends a connection on which two requests
    that have come already get an answer at once, its own direct_response too.
    """

    def together(case: Case) -> bool:
        return not case.http2 and case.end is End.STAYS and all(want.status == 200 for want in case.wants)

    pipelined = [case for case in cases if together(case)]
    for start in range(0, len(pipelined), _PIPELINED):
        yield pipelined[start : start + _PIPELINED]
    for case in cases:
        if not together(case):
            yield [case]


def _names(group: list[Case]) -> str:
    return " | ".join(f"{case.number} {case.name}" for case in group)[:2000]


def _compare(group: list[Case], answers: list[Answer]) -> list[str]:
    wrong = []
    for case in group:
        mine, answers = answers[: len(case.wants)], answers[len(case.wants) :]
        if len(mine) < len(case.wants) or not all(map(Answer.fits, mine, case.wants)):
            got = ", ".join(map(str, mine))
            wanted = ", ".join(
                f"{want.status} {want.code}" + " replayed" * want.replayed for want in case.wants
            )
            wrong.append(f"{case.number} {case.name}: got [{got}], wanted [{wanted}]")
    if answers:
        wrong.append(f"{_names(group)}: {len(answers)} more answers than requests: {answers[0]}")
    return wrong


def _end_mark(number: int) -> bytes:
    return f"GET /end/{number} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".encode()


def _take_end_mark(group: list[Case], answers: list[Answer]) -> list[str]:
    """Takes the last answer off, if it is the one that must be there."""
    path = f"/end/{group[-1].number}"
    if answers and answers[-1].status == 200 and json.loads(answers[-1].body)["path"] == path:
        answers.pop()
        return []
    return [f"{_names(group)}: the connection did not go on: {[str(answer) for answer in answers]}"]


# --- HTTP/1.1


async def _http1(port: int, group: list[Case]) -> list[str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        stays = group[-1].end is End.STAYS
        data = b"".join(case.data for case in group)
        writer.write(data + _end_mark(group[-1].number) * stays)
        if group[-1].end is End.LEFT:
            await writer.drain()
            return []
        most = len(group[-1].wants) if group[-1].end is End.DONE else None
        answers = await _read_answers(reader, writer, most)
        wrong = _take_end_mark(group, answers) if stays else []
        return wrong + _compare(group, answers)
    finally:
        writer.close()


async def _read_answers(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None
) -> list[Answer]:
    """All until the end of the connection, or so many."""
    answers = []
    while len(answers) != most:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return answers
        start, *lines = head[:-4].decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines)
        answer = Answer(int(start.split(" ")[1]), fields)
        if answer.status >= 200:
            answer.body = await reader.readexactly(int(fields["content-length"]))
            answers.append(answer)
        if fields.get("connection") == "close":
            # Envoy leaves a client a second to read its answer, or until the client ends its side.
            writer.write_eof()
    return answers


# --- HTTP/2


async def _http2(port: int, group: list[Case]) -> list[str]:
    (case,) = group
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    peer = _Peer(reader)
    try:
        writer.write(_PREFACE + SettingsFrame(0).serialize() + case.data)
        if case.end is End.LEFT:
            await writer.drain()
            return []
        stays = case.end in (End.STAYS, End.RESET)
        if stays:
            writer.write(_end_headers(case.number))
        answered = sum(1 for want in case.wants if want.status) or int(case.end is End.RESET)
        await peer.read(answered + 1 if stays else None, writer)
        answers = peer.answers()
        wrong = _take_end_mark(group, answers) if stays else []
        if peer.closed == stays:
            wrong.append(f"{case.number} {case.name}: connection {'closed' if peer.closed else 'open'}")
        if any(answer.reset for answer in answers) != (case.end is End.RESET):
            wrong.append(f"{case.number} {case.name}: reset {[str(answer) for answer in answers]}")
        answers = [answer for answer in answers if answer.status or stays]
        answers += [Answer()] * (len(case.wants) - len(answers))
        return wrong + _compare(group, answers)
    finally:
        writer.close()


def _end_headers(number: int) -> bytes:
    fields = [(":method", "GET"), (":scheme", "http"), (":path", f"/end/{number}"), (":authority", "test")]
    return headers(_LAST_STREAM, fields)


class _Peer:
    """What Envoy sends on a connection."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.closed = False  # Or about to: GOAWAY.
        self._reader = reader
        self._decoder = hpack.Decoder()
        self._streams: dict[int, Answer] = {}
        self._ended: set[int] = set()

    def answers(self) -> list[Answer]:
        return [self._streams[stream] for stream in sorted(self._streams)]

    async def read(self, streams: int | None, writer: asyncio.StreamWriter) -> None:
        """Until so many streams are over; None: until the connection ends."""
        while not self.closed and (streams is None or len(self._ended) < streams):
            try:
                head = await self._reader.readexactly(9)
                frame, length = Frame.parse_frame_header(memoryview(head))
                frame.parse_body(memoryview(await self._reader.readexactly(length)))
            except (asyncio.IncompleteReadError, ConnectionError):
                self.closed = True
                return
            self._take(frame, writer)

    def _take(self, frame: Frame, writer: asyncio.StreamWriter) -> None:
        match frame:
            case HeadersFrame():
                answer = self._streams.setdefault(frame.stream_id, Answer())
                fields = {str(name): str(value) for name, value in self._decoder.decode(frame.data)}
                if int(fields.get(":status", 200)) >= 200:
                    answer.headers |= fields
                    answer.status = int(answer.headers[":status"])
            case DataFrame():
                self._streams[frame.stream_id].body += frame.data
            case RstStreamFrame():
                self._streams.setdefault(frame.stream_id, Answer()).reset = True
                self._ended.add(frame.stream_id)
            case GoAwayFrame():
                self.closed = True
            case PingFrame() if "ACK" not in frame.flags:
                writer.write(PingFrame(0, frame.opaque_data, flags=["ACK"]).serialize())
        if "END_STREAM" in frame.flags:
            self._ended.add(frame.stream_id)
