"""HTTP/1.1: where a request ends, and attempts to make two servers see it end in two places.

Every refused one has a whole good request behind it, which must never run. What Envoy makes of a broken
message is measured, not promised by a standard; where a server may choose, the comment says what Envoy chose.
"""

import random
import re
import string
from collections.abc import Iterator
from itertools import islice

from .case import Case, End, Want, by_envoy, closed, hidden, ran, request, silent

_BODY = b"{}"
_CHUNKED = b"2\r\n{}\r\n0\r\n\r\n"


def _framed(number: int, fields: list[tuple[str, str]], body: bytes) -> bytes:
    return request(number, fields, length=False) + body


def content_lengths(rng: random.Random, numbers: Iterator[int], count: int = 400) -> Iterator[Case]:
    """RFC 9112 §6.3: anything but digits, or two of them, is an error that ends the connection."""
    values = [
        "+2",
        "-2",
        "0x2",
        "2 2",
        "2;",
        "2.0",
        "",
        "x",
        "2e0",
        "२",
        "2,2",
        "2, 2",
        "2,3",
        "\x0b2",
        "2\x00",
    ]
    values += [str(2**64), str(2**64 + 2), "9" * 30, "9" * 300, "0x" + "f" * 20, "1_0", "٢", "2\x80"]
    values = [value.encode().decode("latin-1") for value in values]
    alphabet = string.digits + "+-.,;xXabcdefE_ \t'\"()"
    while len(values) < count // 2:
        value = "".join(rng.choices(alphabet, k=rng.randint(1, 12)))
        if not re.fullmatch(r"[ \t]*[0-9]+[ \t]*", value):
            values.append(value)
    for value in values:
        number = next(numbers)
        data = _framed(number, [("Content-Length", value)], _BODY)
        yield closed(number, f"content-length {value!r}", data, by_envoy(400))
    for number in islice(numbers, count // 2):
        pair = [str(rng.randint(0, 9)) for _ in range(rng.randint(2, 4))]
        fields = [
            (rng.choice(("Content-Length", "content-length", "CONTENT-LENGTH")), value) for value in pair
        ]
        yield closed(number, f"content-lengths {pair}", _framed(number, fields, _BODY), by_envoy(400))
    # Leading zeros are digits: both requests run.
    number = next(numbers)
    data = _framed(number, [("Content-Length", "0002")], _BODY) + hidden(number)
    yield Case(number, "content-length 0002", data, (ran(), ran()))


_CODINGS = (
    "chunked",
    "identity",
    "gzip",
    "deflate",
    "br",
    "x",
    "xchunked",
    "chunkedx",
    "chunke",
    "",
    "*",
    '"chunked"',
)


def transfer_encodings(rng: random.Random, numbers: Iterator[int], count: int = 300) -> Iterator[Case]:
    """RFC 9112 §6.1: 501 for a coding that the server does not know. Envoy knows chunked, alone, once."""
    for number in islice(numbers, count):
        words = [rng.choice(_CODINGS) for _ in range(rng.randint(1, 3))]
        value = rng.choice((", ", ",", " , ", ";", " ")).join(words)
        if value.strip().lower() == "chunked":
            value += ", identity"
        data = _framed(number, [("Transfer-Encoding", value)], _CHUNKED)
        yield closed(number, f"transfer-encoding {value!r}", data, by_envoy(501))
    for value in ("\x0bchunked", "chunked\x0c", "\x00chunked", "chun\x01ked", "chunked\x7f"):
        number = next(numbers)
        data = _framed(number, [("Transfer-Encoding", value)], _CHUNKED)
        yield closed(number, f"transfer-encoding {value!r}", data, by_envoy(400))
    for value in ("chunked", "Chunked", "CHUNKED", "  chunked  ", "chunked\t"):
        number = next(numbers)
        data = _framed(number, [("Transfer-Encoding", value)], _CHUNKED) + hidden(number)
        yield Case(number, f"transfer-encoding {value!r}", data, (ran(), ran()))
    for other in ("chunked", "identity", "gzip"):
        number = next(numbers)
        fields = [("Transfer-Encoding", "chunked"), ("transfer-encoding", other)]
        yield closed(
            number, f"transfer-encodings {other!r}", _framed(number, fields, _CHUNKED), by_envoy(501)
        )
    # An empty second line makes Envoy forget the first, for itself and for the upstream alike: no body.
    number = next(numbers)
    fields = [("Transfer-Encoding", "chunked"), ("transfer-encoding", "")]
    yield closed(number, "transfer-encodings ''", _framed(number, fields, _CHUNKED), ran(), by_envoy(400))


def length_and_encoding(rng: random.Random, numbers: Iterator[int], count: int = 300) -> Iterator[Case]:
    """CL.TE and TE.CL: both lengths in one request, in either order, is an attack (RFC 9112 §6.1)."""
    for number in islice(numbers, count):
        inside = hidden(number)
        body = rng.choice((b"0\r\n\r\n" + inside, _CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(inside), inside)))
        length = rng.choice((0, 1, 4, 5, len(body), len(body) + 1, len(body) - 1))
        fields = [
            ("Content-Length", str(length)),
            (rng.choice(("Transfer-Encoding", "TRANSFER-ENCODING")), "chunked"),
        ]
        rng.shuffle(fields)
        yield closed(number, f"both lengths, {length}", _framed(number, fields, body), by_envoy(400))


def disguised_encodings(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    """A transfer-encoding that one server sees and another does not: refused, or no such field at all."""
    refused_lines = [
        *("Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding\x00: chunked"),
        *("Transfer\x0bEncoding: chunked", "Transfer Encoding: chunked", "Transfer-Encoding\x80: chunked"),
        *("Transfer-Encoding", "Transfer-Encoding=chunked", "X: y\r\nTransfer-Encoding\r\n : chunked"),
        *("X: y\x00\r\nTransfer-Encoding: chunked", "X\r: y\r\nTransfer-Encoding: chunked"),
        *(": x\r\nTransfer-Encoding: chunked", "X y: z\r\nTransfer-Encoding: chunked"),
    ]
    other_fields = [
        *("Transfer_Encoding: chunked", "X-Transfer-Encoding: chunked", "Transfer-Encodings: chunked"),
        # A folded line belongs to the field before it.
        *(
            "X: y\r\n Transfer-Encoding: chunked",
            "X: y\r\n\tTransfer-Encoding: chunked",
            "X:\r\n Transfer-Encoding: chunked",
        ),
        *("TE: chunked", "Trailer: Transfer-Encoding", "Content-Encoding: chunked"),
    ]
    for line in refused_lines:
        number = next(numbers)
        head = request(number, length=False)[:-2] + line.encode("latin-1") + b"\r\nContent-Length: 5\r\n\r\n"
        yield closed(number, f"disguised {line!r}", head + b"0\r\n\r\n", by_envoy(400))
    for line in other_fields:
        number = next(numbers)
        body = b"0\r\n\r\n" + hidden(number)
        head = request(number, length=False)[:-2] + line.encode("latin-1")
        data = head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        yield Case(number, f"other field {line!r}", data, (ran(),))


def chunks(rng: random.Random, numbers: Iterator[int], count: int = 500) -> Iterator[Case]:
    """RFC 9112 §7.1. The filter has seen the head by then, and waits for the rest: nothing is claimed."""
    table: dict[bytes, Want] = {
        body: by_envoy(400, "covered")
        for body in (
            *(
                b"\r\n{}\r\n0\r\n\r\n",
                b"2\n{}\r\n0\r\n\r\n",
                b"2\r\r\n{}\r\n0\r\n\r\n",
                b"2;x\n\r\n{}\r\n0\r\n\r\n",
            ),
            *(
                b"2\r\n{}0\r\n\r\n",
                b"2\r\n{}xx0\r\n\r\n",
                b"f" * 18 + b"\r\n{}",
                b"1" + b"0" * 16 + b"\r\n{}",
            ),
            *(b"2\r\n{}\r\n0\n\n", b"2\r\n{}\r\n0\r\nbad trailer\r\n\r\n", b"2\r\n{}\r\n0\r\n: y\r\n\r\n"),
            *(
                b"2\r\n{}\r\n0\r\n X: y\r\n\r\n",
                b"2\r\n{}\r\n0\r\nX: \x00\r\n\r\n",
                b"2\r\n{}\r\n0\r\nX y: z\r\n\r\n",
            ),
            *(b"2\r\n{}\r\n-1\r\n\r\n", b"2\r\n{}\r\ng\r\n\r\n", b"{}\r\n", b"2\r\n{}\r\n 0\r\n\r\n"),
        )
    }
    table |= {
        body: ran()
        for body in (
            *(
                _CHUNKED,
                b"0002\r\n{}\r\n000\r\n\r\n",
                b"2;x=y\r\n{}\r\n0;z\r\n\r\n",
                b"2 \r\n{}\r\n0\r\n\r\n",
                b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
            ),
            b'2;x="y;z"\r\n{}\r\n0\r\n\r\n',
            # Envoy skips to the next LF after the data, and it takes no trailer for a field of the head.
            b"1\r\n{}\r\n0\r\n\r\n",
            *(
                b"2\r\n{}\n0\r\n\r\n",
                b"2\r\n{}\r\n0\r\nX: y\r\n\r\n",
                b"2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n",
            ),
            *(
                b'2\r\n{}\r\n0\r\nIdempotency-Key: "x"\r\n\r\n',
                b"2\r\n{}\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n",
            ),
        )
    }
    # A size that does not begin with a hexadecimal digit.
    while len(table) < count:
        junk = bytes(
            rng.choices(
                [c for c in range(256) if chr(c) not in string.hexdigits + "\r\n"], k=rng.randint(1, 4)
            )
        )
        table[junk + b"2\r\n{}\r\n0\r\n\r\n"] = by_envoy(400, "covered")
    for body, want in table.items():
        number = next(numbers)
        data = _framed(number, [("Transfer-Encoding", "chunked")], body)
        name = f"chunks {body!r}"
        if want.runs:
            yield Case(number, name, data + hidden(number), (want, ran()))
        else:
            yield closed(number, name, data, want)


def line_ends(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    """Envoy takes bare LF for a line's end and bare CR for a space (RFC 9112 §2.2), and unfolds lines."""
    changes: dict[str, tuple] = {
        "bare LF everywhere": (lambda data: data.replace(b"\r\n", b"\n"), ran()),
        "bare LF once": (lambda data: data.replace(b"test\r\n", b"test\n"), ran()),
        "bare CR in a value": (lambda data: data.replace(b"test\r\n", b"test\r\nX: y\rZ: w\r\n"), ran()),
        "folded value": (lambda data: data.replace(b"test\r\n", b"test\r\nX: y\r\n z\r\n"), ran()),
        "empty lines first": (lambda data: b"\r\n\r\n\r\n" + data, ran()),
        "folded first line": (lambda data: data.replace(b"1.1\r\n", b"1.1\r\n X: y\r\n"), by_envoy(400)),
        "line without colon": (lambda data: data.replace(b"test\r\n", b"test\r\nnothing\r\n"), by_envoy(400)),
        "NUL after the head": (lambda data: data + b"\x00", None),
    }
    for name, (change, want) in changes.items():
        number = next(numbers)
        data = change(request(number))
        if want is None:
            # The good request runs; what follows it is the beginning of a bad one.
            yield closed(number, name, data, ran(), by_envoy(400))
        elif want.runs:
            yield Case(number, name, data, (want,))
        else:
            yield closed(number, name, data, want)


def cut_off(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    """The client leaves, after each byte of the head and within bodies: nothing runs or stays claimed."""
    head_size = len(request(next(numbers), body=_BODY)) - len(_BODY)
    for length in range(1, head_size):
        number = next(numbers)
        data = request(number, body=_BODY)[:length]
        yield Case(number, f"head cut after {length} bytes", data, (silent(),), End.LEFT)
    for size in (1, 2, 100, 1000, 65_536, 300_000):
        for sent in sorted({0, 1, size // 2, size - 1} - {size}):
            number = next(numbers)
            head = request(number, [("Content-Length", str(size))], length=False)
            yield _left(number, f"{sent} of {size} bytes", head + b"x" * sent)
    for body in (
        b"",
        b"2",
        b"2\r",
        b"2\r\n",
        b"2\r\n{",
        b"2\r\n{}",
        b"2\r\n{}\r\n",
        b"2\r\n{}\r\n0",
        b"2\r\n{}\r\n0\r\n",
        b"2\r\n{}\r\n0\r\nX: y\r\n",
    ):
        number = next(numbers)
        yield _left(number, f"chunks cut {body!r}", _framed(number, [("Transfer-Encoding", "chunked")], body))


def _left(number: int, name: str, data: bytes) -> Case:
    return Case(number, name, data, (silent("covered", "cut_short"),), End.LEFT)
