"""How one request is to be treated. Tests write it as JSON; see harness/upstream.py for the fields."""

import dataclasses
import enum
import json


class Fault(enum.Enum):
    CLOSE_BEFORE_READ = "close_before_read"  # Connection closed once the headers are there.
    CLOSE_AFTER_READ = "close_after_read"  # Whole request read, effect done, connection closed.
    RESET_AFTER_READ = "reset_after_read"  # The same with a TCP reset, or RST_STREAM.
    CLOSE_MID_BODY = "close_mid_body"  # Half of the response body, then closed.
    RESET_MID_BODY = "reset_mid_body"  # Half of the response body, then reset.
    HANG_MID_BODY = "hang_mid_body"  # Half of the response body, then nothing until the other side leaves.
    REFUSE_STREAM = "refuse_stream"  # HTTP/2: RST_STREAM(REFUSED_STREAM) before anything was done.
    GOAWAY = "goaway"  # HTTP/2: GOAWAY that excludes this stream, then closed.


BEFORE_EFFECT = {Fault.CLOSE_BEFORE_READ, Fault.REFUSE_STREAM, Fault.GOAWAY}
HTTP2_ONLY = {Fault.REFUSE_STREAM, Fault.GOAWAY}
MID_BODY = {Fault.CLOSE_MID_BODY, Fault.RESET_MID_BODY, Fault.HANG_MID_BODY}


class Framing(enum.Enum):
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"  # HTTP/1: the body ends with the connection.


class BadScript(ValueError):
    """A test wrote a behaviour that does not exist."""


@dataclasses.dataclass(frozen=True)
class Behaviour:
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None  # Text to send. None: a JSON object that tells of this execution.
    body_size: int | None = None  # That many bytes instead.
    body_hex: str | None = None  # These bytes instead, as hexadecimal digits.
    trailers: tuple[tuple[str, str], ...] = ()
    framing: Framing = Framing.LENGTH
    delay_ms: int = 0  # Between the effect and the answer.
    hold: str | None = None  # Answer only after this name was released.
    hold_mid_body: str | None = None  # The second half of the answer only after this name was released.
    fault: Fault | None = None
    send_continue: bool = True  # Whether `Expect: 100-continue` gets its 100.
    early_hints: bool = False  # A 103 before the answer.
    # The effect: one transaction each, with these statements. %(attempt)s and %(key)s are the request's.
    transactions: tuple[tuple[str, ...], ...] = ()
    database: str | None = None  # Its conninfo.
    hold_commit: str | None = None  # The last transaction commits only after this name was released.


def _pairs(value) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), str(text)) for name, text in value)


_CONVERT = {
    "headers": _pairs,
    "trailers": _pairs,
    "transactions": lambda value: tuple(tuple(statements) for statements in value),
    "framing": Framing,
    "fault": lambda value: None if value is None else Fault(value),
}


def parse(value: dict) -> Behaviour:
    known = {field.name for field in dataclasses.fields(Behaviour)}
    unknown = sorted(set(value) - known)
    if unknown:
        raise BadScript(f"no such behaviour: {', '.join(unknown)}")
    try:
        return Behaviour(**{k: _CONVERT.get(k, lambda v: v)(v) for k, v in value.items()})
    except (TypeError, ValueError) as error:
        raise BadScript(str(error)) from error


def parse_text(text: str) -> Behaviour:
    try:
        return parse(json.loads(text))
    except json.JSONDecodeError as error:
        raise BadScript(f"x-upstream is not JSON: {error}") from error
