"""HTTP/2: frames and header blocks that RFC 9113 forbids, or that nobody sends.

A broken message ends the whole connection in Envoy, by its default: stream_error_on_invalid_http_message is
off. Statuses and ends were measured.
"""

import random
import struct
from collections.abc import Iterator
from itertools import islice

from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from .case import Case, End, Want, passed, ran, refused, silent, too_large
from .frames import Fields, block, data, headers, request_fields

_BODY = b"{}"


def _case(number: int, name: str, sent: bytes, want: Want, end: End = End.STAYS) -> Case:
    return Case(number, f"http2 {name}", sent, (want,), end, http2=True)


def _broken(number: int, name: str, sent: bytes, want: Want | None = None) -> Case:
    """A good request behind it, on a later stream, must not run: the connection is over."""
    behind = headers(3, request_fields(number, path="hidden"))
    return _case(number, name, sent + behind, want or silent(), End.CLOSED)


def _fields_without(number: int, name: str) -> Fields:
    return [field for field in request_fields(number) if field[0] != name]


def pseudo_headers(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    """RFC 9113 §8.3."""
    for name in (":method", ":scheme", ":path"):
        number = next(numbers)
        yield _broken(number, f"without {name}", headers(1, _fields_without(number, name)))
    for name, value in (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/other"),
        (":authority", "test"),
        (":status", "200"),
        (":nonsense", "x"),
        (":", "x"),
    ):
        number = next(numbers)
        first, *rest = request_fields(number)
        yield _broken(number, f"one more {name}", headers(1, [first, (name, value), *rest]))
        number = next(numbers)
        yield _broken(
            number, f"{name} after other fields", headers(1, request_fields(number, [(name, value)]))
        )
    for name, value in (
        (":path", ""),
        (":method", ""),
        (":method", "PO ST"),
        (":method", "POST\x00"),
        (":path", "/strict/\x00"),
    ):
        number = next(numbers)
        fields = [(name, value), *_fields_without(number, name)]
        yield _broken(number, f"{name} is {value!r}", headers(1, fields))
    for value in ("post", "Post", "FOO", "(", "POST,"):
        number = next(numbers)
        sent = headers(1, [(":method", value), *_fields_without(number, ":method")])
        # A token is a method, in Envoy's HTTP/2 any of them; the policy covers POST and PATCH.
        yield (
            _case(number, f":method is {value!r}", sent, passed())
            if value.isalpha()
            else _broken(number, f":method is {value!r}", sent)
        )
    for value in ("*", "strict/1", "http://test/strict/1"):
        number = next(numbers)
        yield _broken(
            number, f":path is {value!r}", headers(1, [(":path", value), *_fields_without(number, ":path")])
        )


def field_names(rng: random.Random, numbers: Iterator[int], count: int = 250) -> Iterator[Case]:
    """RFC 9113 §8.2: lower case, no control characters, no spaces; no fields of the connection."""
    for name in ("Idempotency-Key", "X", "xY", "X-Tenant-Id"):
        number = next(numbers)
        yield _broken(number, f"upper case {name}", headers(1, request_fields(number, [(name, "y")])))
    for name, value in (
        ("connection", "close"),
        ("connection", "idempotency-key"),
        ("keep-alive", "1"),
        ("proxy-connection", "x"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
    ):
        number = next(numbers)
        yield _broken(number, f"{name}: {value}", headers(1, request_fields(number, [(name, value)])))
    bad = [
        chr(code)
        for code in range(256)
        if (chr(code) not in "!#$%&'*+-.^_`|~" and not chr(code).isalnum()) or code > 0x7E
    ]
    for number in islice(numbers, count):
        name = rng.choice(("x{}", "x{}y", "{}x", "idempotency-key{}")).format(rng.choice(bad))
        yield _broken(number, f"name {name!r}", headers(1, request_fields(number, [(name, "y")])))
    number = next(numbers)
    yield _broken(number, "name ''", headers(1, request_fields(number, [("", "y")])))


def field_values(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    for code in range(256):
        number = next(numbers)
        control = (code < 0x20 and code != 0x09) or code == 0x7F
        sent = headers(1, request_fields(number, [("x", f"y{chr(code)}z")]))
        yield (
            _broken(number, f"value with {code:#x}", sent)
            if control
            else _case(number, f"value with {code:#x}", sent, ran())
        )


def keys_and_tenants(rng: random.Random, numbers: Iterator[int], count: int = 150) -> Iterator[Case]:
    for number in islice(numbers, count):
        more = [("idempotency-key", f'"another-key-{n}-{number}"') for n in range(rng.randint(1, 5))]
        fields = request_fields(number) + more
        yield _case(number, f"{len(more)} more keys", headers(1, fields), refused("key_invalid"))
    for number in islice(numbers, count):
        more = [("x-tenant-id", f"other-{n}") for n in range(rng.randint(1, 5))]
        yield _case(
            number,
            f"{len(more)} more tenants",
            headers(1, request_fields(number, more)),
            refused("tenant_missing"),
        )
    for number in islice(numbers, 20):
        yield _case(number, "no key", headers(1, request_fields(number, key=None)), refused("key_missing"))


def lengths(rng: random.Random, numbers: Iterator[int], count: int = 200) -> Iterator[Case]:
    """RFC 9113 §8.1.1: a content-length that is not that of the DATA frames makes the message malformed."""
    for number in islice(numbers, count):
        body = b"x" * rng.randint(0, 20)
        length = rng.choice([n for n in range(25) if n != len(body)])
        head = headers(1, request_fields(number, [("content-length", str(length))]), end=not body)
        name = f"{len(body)} of {length} bytes"
        if body:
            yield _case(number, name, head + data(1, body), silent("covered", "cut_short"), End.RESET)
        else:
            yield _broken(number, name, head)
    for value in ("x", "-1", "+2", "2,2", "0x2", "", " ", "2 2", str(2**64), "9" * 40):
        number = next(numbers)
        head = headers(1, request_fields(number, [("content-length", value)]), end=False)
        yield _broken(number, f"content-length {value!r}", head + data(1, _BODY))
    for pair in (("2", "3"), ("2", "2")):
        number = next(numbers)
        head = headers(1, request_fields(number, [("content-length", value) for value in pair]), end=False)
        yield _broken(number, f"content-lengths {pair}", head + data(1, _BODY))
    for size in (1001, 5000, 16_000):
        number = next(numbers)
        head = headers(1, request_fields(number, path="small"), end=False)
        yield _case(number, f"body of {size}", head + data(1, b"x" * size), too_large())
        number = next(numbers)
        head = headers(1, request_fields(number, [("content-length", str(size))], path="small"), end=False)
        # The answer, and then the end of a stream whose other half Envoy does not want any more.
        yield _case(number, f"head that promises {size}", head, refused("request_too_large"), End.RESET)


def _raw(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + payload


def frames(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    """A good request with a frame of another kind before it, or instead of its end."""
    before: dict[str, bytes] = {
        "DATA on stream 0": _raw(0, 0, 0, b"x"),
        "DATA on an idle stream": data(9, b"x"),
        "HEADERS on stream 0": _raw(1, 5, 0, b"\x82"),
        "HEADERS on an even stream": headers(2, [(":method", "GET")]),
        "RST_STREAM of an idle stream": _raw(3, 0, 9, b"\0\0\0\0"),
        "RST_STREAM on stream 0": _raw(3, 0, 0, b"\0\0\0\0"),
        "RST_STREAM of 3 bytes": _raw(3, 0, 1, b"\0\0\0"),
        "SETTINGS on a stream": _raw(4, 0, 1, b""),
        "SETTINGS of 5 bytes": _raw(4, 0, 0, b"\0" * 5),
        "SETTINGS ACK with content": _raw(4, 1, 0, b"\0" * 6),
        "SETTINGS with a huge window": SettingsFrame(0, {4: 2**31}).serialize(),
        "SETTINGS with a tiny frame": SettingsFrame(0, {5: 1}).serialize(),
        "SETTINGS that allow 2 pushes": SettingsFrame(0, {2: 2}).serialize(),
        "PUSH_PROMISE": PushPromiseFrame(1, 2, b"\x82", flags=["END_HEADERS"]).serialize(),
        "PING of 7 bytes": _raw(6, 0, 0, b"\0" * 7),
        "PING on a stream": _raw(6, 0, 1, b"\0" * 8),
        "GOAWAY on a stream": _raw(7, 0, 1, b"\0" * 8),
        "GOAWAY of 7 bytes": _raw(7, 0, 0, b"\0" * 7),
        "WINDOW_UPDATE by 0": _raw(8, 0, 0, b"\0\0\0\0"),
        "WINDOW_UPDATE of 3 bytes": _raw(8, 0, 0, b"\0\0\0"),
        "WINDOW_UPDATE past the end": WindowUpdateFrame(0, window_increment=2**31 - 1).serialize() * 2,
        "WINDOW_UPDATE of an idle stream": WindowUpdateFrame(9, window_increment=1).serialize(),
        "CONTINUATION alone": ContinuationFrame(1, b"\x82", flags=["END_HEADERS"]).serialize(),
        "frame of 17,000 bytes": _raw(0xB, 0, 0, b"x" * 17_000),
        "PRIORITY of 4 bytes": _raw(2, 0, 1, b"\0" * 4),
        "no index 0 in HPACK": _raw(1, 5, 1, b"\x80"),
        "index beyond the table": _raw(1, 5, 1, b"\xff\xff\x7f"),
        "HPACK text that ends early": _raw(1, 5, 1, b"\x00\x0aabc"),
        "HPACK Huffman code of ones": _raw(1, 5, 1, b"\x00\x84\xff\xff\xff\xff\x01x"),
        "HPACK table of 1 GiB": _raw(1, 5, 1, b"\x3f\xe1\xff\xff\xff\x03"),
        "HPACK integer without end": _raw(1, 5, 1, b"\xff" * 20),
        "padding longer than HEADERS": _raw(1, 0xD, 1, b"\xff\x82"),
        "empty padded HEADERS": _raw(1, 0xD, 1, b""),
        # Envoy's bounds against floods.
        "40 settings": SettingsFrame(0, dict.fromkeys(range(20, 60), 1)).serialize(),
        "100 WINDOW_UPDATE": WindowUpdateFrame(0, window_increment=1).serialize() * 100,
        "random frame header": bytes(rng.choices(range(1, 256), k=9)),
    }
    for name, sent in before.items():
        number = next(numbers)
        yield _broken(number, name, sent)
    harmless: dict[str, bytes] = {
        "unknown frame": _raw(0xB, 0, 0, b"x" * 100),
        "unknown frame on a stream": _raw(0xFE, 0xFF, 9, b"x"),
        "unknown setting": SettingsFrame(0, {0xFFFF: 2**32 - 1}).serialize(),
        "PING": PingFrame(0, b"12345678").serialize() * 20,
        "PRIORITY on stream 0": _raw(2, 0, 0, b"\0" * 5),
        "PRIORITY of itself": PriorityFrame(9, depends_on=9, stream_weight=1).serialize(),
        "WINDOW_UPDATE": WindowUpdateFrame(0, window_increment=1).serialize() * 5,
        "GOAWAY": GoAwayFrame(0, last_stream_id=0).serialize(),
        "SETTINGS ACK for nothing": SettingsFrame(0, flags=["ACK"]).serialize(),
    }
    for name, sent in harmless.items():
        number = next(numbers)
        yield _case(number, f"harmless {name}", sent + headers(1, request_fields(number)), ran())


def header_blocks(rng: random.Random, numbers: Iterator[int], count: int = 100) -> Iterator[Case]:
    """HEADERS with CONTINUATION: in pieces, interrupted, without end, too large."""
    for number in islice(numbers, count):
        sent = block(request_fields(number))
        cuts = sorted(rng.sample(range(1, len(sent)), rng.randint(1, 20)))
        yield _case(number, f"block in {len(cuts) + 1} pieces", _pieces(1, sent, cuts), ran())
    others = {
        "PING": PingFrame(0).serialize(),
        "DATA": data(1, b"x"),
        "HEADERS": headers(3, [(":method", "GET")]),
        "SETTINGS": SettingsFrame(0).serialize(),
        "CONTINUATION of another stream": ContinuationFrame(3, b"\x82").serialize(),
        "RST_STREAM": RstStreamFrame(1).serialize(),
        "unknown frame": _raw(0xB, 0, 1, b"x"),
    }
    for name, other in others.items():
        number = next(numbers)
        sent = block(request_fields(number))
        first = HeadersFrame(1, sent[:10], flags=["END_STREAM"]).serialize()
        rest = ContinuationFrame(1, sent[10:], flags=["END_HEADERS"]).serialize()
        yield _broken(number, f"{name} within a block", first + other + rest)
    for size in (70_000, 200_000):
        number = next(numbers)
        sent = block(request_fields(number, [("x", "y" * size)]))
        yield _case(
            number,
            f"field of {size}",
            _pieces(1, sent, range(16_000, len(sent), 16_000)),
            silent(),
            End.CLOSED,
        )
    for size in (101, 1000):
        number = next(numbers)
        sent = block(request_fields(number, [(f"x{n}", "y") for n in range(size)]))
        yield _case(
            number, f"{size} fields", _pieces(1, sent, range(16_000, len(sent), 16_000)), silent(), End.RESET
        )
    for flood in (20, 200):
        number = next(numbers)
        sent = HeadersFrame(1, block(request_fields(number))).serialize()
        yield _case(
            number,
            f"{flood} empty CONTINUATION",
            sent + ContinuationFrame(1).serialize() * flood,
            silent(),
            End.CLOSED,
        )


def _pieces(stream: int, sent: bytes, cuts) -> bytes:
    parts = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    frames = [HeadersFrame(stream, parts[0], flags=["END_STREAM"])]
    frames += [ContinuationFrame(stream, part) for part in parts[1:]]
    frames[-1].flags.add("END_HEADERS")
    return b"".join(frame.serialize() for frame in frames)


def bodies(rng: random.Random, numbers: Iterator[int], count: int = 60) -> Iterator[Case]:
    """DATA and trailers; streams that are reset or left in the middle."""

    def head(number: int) -> bytes:
        return headers(1, request_fields(number), end=False)

    number = next(numbers)
    yield _case(number, "one empty DATA", head(number) + data(1, b"", end=False) + data(1, _BODY), ran())
    number = next(numbers)
    yield _broken(
        number,
        "20 empty DATA",
        head(number) + data(1, b"", end=False) * 20 + data(1, _BODY),
        silent("covered", "cut_short"),
    )
    number = next(numbers)
    padded = DataFrame(1, _BODY, pad_length=200, flags=["END_STREAM", "PADDED"]).serialize()
    yield _case(number, "padded DATA", head(number) + padded, ran())
    number = next(numbers)
    yield _broken(
        number,
        "padding longer than DATA",
        head(number) + _raw(0, 9, 1, b"\xffx"),
        silent("covered", "cut_short"),
    )
    trailers = {
        "trailers": ([("x", "y")], True),
        "a key in the trailers": ([("idempotency-key", '"another-key-0123456789"')], True),
        "trailers with a pseudo-header": ([(":path", "/other")], False),
        "trailers in upper case": ([("X", "y")], False),
        "trailers with connection": ([("connection", "close")], False),
    }
    for name, (fields, good) in trailers.items():
        number = next(numbers)
        sent = head(number) + data(1, _BODY, end=False) + headers(1, fields)
        yield (
            _case(number, name, sent, ran())
            if good
            else _broken(number, name, sent, silent("covered", "cut_short"))
        )
    number = next(numbers)
    sent = head(number) + data(1, _BODY, end=False) + headers(1, [("x", "y")], end=False)
    yield _broken(number, "trailers without end", sent, silent("covered", "cut_short"))
    number = next(numbers)
    sent = headers(1, request_fields(number)) + data(1, b"x")
    yield _broken(number, "DATA after the end", sent, silent("covered", "cut_short"))
    for number in islice(numbers, count):
        body = b"x" * rng.randint(0, 1000)
        code = rng.choice((0, 1, 2, 5, 7, 8, 11, 13, 255, 2**32 - 1))
        sent = (
            head(number) + (data(1, body, end=False) if body else b"") + RstStreamFrame(1, code).serialize()
        )
        yield _case(
            number, f"reset with {code} after {len(body)} bytes", sent, silent("covered", "cut_short")
        )
    for number in islice(numbers, count):
        body = b"x" * rng.randint(0, 1000)
        sent = head(number) + (data(1, body, end=False) if body else b"")
        yield _case(number, f"left after {len(body)} bytes", sent, silent("covered", "cut_short"), End.LEFT)
    for number in islice(numbers, count):
        sent = headers(1, request_fields(number))
        yield _case(number, "left within HEADERS", sent[: rng.randint(1, len(sent) - 1)], silent(), End.LEFT)


def prefaces(rng: random.Random, numbers: Iterator[int], count: int = 60) -> Iterator[Case]:
    """Nothing that looks like a frame."""
    for number in islice(numbers, count):
        # A length beyond what Envoy allows.
        junk = bytes([rng.randint(1, 255)]) + bytes(rng.choices(range(256), k=rng.randint(20, 300)))
        yield _broken(number, f"junk {junk[:10]!r}", junk)
