"""Frames of HTTP/2 as bytes, right or wrong."""

from hyperframe.frame import DataFrame, HeadersFrame

from .case import GOOD, good_key, tenant

Fields = list[tuple[str | bytes, str | bytes]]


def request_fields(
    number: int,
    more: Fields = (),
    *,
    path: str = "strict",
    method: str = "POST",
    key: str | None = GOOD,
) -> Fields:
    """Those of a good request."""
    fields = [
        *((":method", method), (":scheme", "http"), (":path", f"/{path}/{number}"), (":authority", "test")),
        ("x-tenant-id", tenant(number)),
    ]
    if key is not None:
        fields.append(("idempotency-key", good_key(number) if key is GOOD else key))
    return [*fields, *more]


def headers(stream: int, fields: Fields, *, end: bool = True) -> bytes:
    flags = ["END_HEADERS", "END_STREAM"] if end else ["END_HEADERS"]
    return HeadersFrame(stream, block(fields), flags=flags).serialize()


def data(stream: int, content: bytes, *, end: bool = True) -> bytes:
    return DataFrame(stream, content, flags=["END_STREAM"] if end else []).serialize()


def block(fields: Fields) -> bytes:
    """Without the dynamic table: no case depends on another, or on what a broken one left there."""
    return b"".join(literal(name, value) for name, value in fields)


def literal(name: str | bytes, value: str | bytes) -> bytes:
    """A field as HPACK writes it plainly: not indexed, no Huffman code, whatever bytes it has."""
    return b"\x00" + _text(name) + _text(value)


def _text(text: str | bytes) -> bytes:
    data = text.encode("latin-1") if isinstance(text, str) else text
    return _integer(len(data)) + data


def _integer(value: int) -> bytes:
    """RFC 7541 §5.1 with a prefix of 7 bits."""
    if value < 127:
        return bytes([value])
    value -= 127
    encoded = b"\x7f"
    while value >= 128:
        encoded += bytes([value % 128 + 128])
        value //= 128
    return encoded + bytes([value])
