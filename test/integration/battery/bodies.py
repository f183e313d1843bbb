"""Bodies that are not what their content type says.

The filter compares what claims to be JSON and is not by its bytes, and says so by a counter. The request
runs, its retry gets the replay, and any other body is refused as a reused key, be it as broken as the first.
"""

import json
import random
from collections.abc import Iterator
from itertools import islice

from .case import Case, End, ran, replay, request, reused

# No document by RFC 8259, or none with one meaning, or none that RFC 8785 can write.
BROKEN = [
    *(
        b"{",
        b"}",
        b"[",
        b'{"a"',
        b'{"a":',
        b'{"a":1',
        b'{"a":1,}',
        b'{"a":1}}',
        b"[1,]",
        b"[1 2]",
        b"{1:2}",
        b"{a:1}",
    ),
    *(
        b"{'a':1}",
        b'{"a":1}x',
        b'{"a":1} {"a":2}',
        b"nul",
        b"True",
        b"NaN",
        b"Infinity",
        b"-",
        b"01",
        b"1.",
        b".5",
        b"1e",
        b"+1",
        b"0x1",
    ),
    *(
        b'"',
        b'"a',
        b'"\\x"',
        b'"\\u12"',
        b'"\x01"',
        b'"\n"',
        b"\x00",
        b"{}\x00",
        b"//c\n{}",
        b"/**/{}",
        b"\xef\xbb\xbf{}",
    ),
    *(
        b'"\xff"',
        b'"\xc3"',
        b'"\xc0\xaf"',
        b'"\xed\xa0\x80"',
        b'"\xf5\x80\x80\x80"',
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
    ),
    *(
        b'{"a":1,"a":2}',
        b'{"a":1,"\\u0061":2}',
        '{"a":1}'.encode("utf-16"),
        '{"a":1}'.encode("utf-32"),
        b"\x1f\x8b\x08\x00junk",
    ),
    *(b"[" * 200 + b"]" * 200, b'{"a":' * 200 + b"1" + b"}" * 200, b"[" * 5000),
    *(b"9007199254740993", b"1e400", b"-1e999", b"0.1000000000000000055"),
]
_TYPES = (
    "application/json",
    "application/json; charset=utf-8",
    "application/problem+json",
    "APPLICATION/JSON",
)


def broken_json(rng: random.Random, numbers: Iterator[int], count: int = 150) -> Iterator[Case]:
    bodies = BROKEN + [_cut(rng) for _ in range(count)]
    for body in bodies:
        number = next(numbers)
        fields = [("Content-Type", rng.choice(_TYPES))]
        data = request(number, fields, body) * 2 + request(number, fields, body + b" ")
        wants = (ran("json_rejected"), replay("json_rejected"), reused("json_rejected", "replay.cached"))
        yield Case(number, f"json {body[:40]!r}", data, wants, End.DONE)


def _cut(rng: random.Random) -> bytes:
    """A document without its last byte, or more."""
    whole = json.dumps(
        {"amount": rng.random(), "list": [rng.randint(0, 9), "text", None, {"a": True}]}
    ).encode()
    return whole[: rng.randint(1, len(whole) - 1)]


def odd_types(rng: random.Random, numbers: Iterator[int], count: int = 60) -> Iterator[Case]:
    """Media types and encodings that nobody can read: compared by their bytes."""
    types = [
        "",
        ";",
        "/",
        "a",
        "a/",
        "/b",
        "application/json;",
        "application/jsonx",
        "\x80/\xff",
        "a/b;c",
        "*/*",
        "x" * 5000,
    ]
    for value in types:
        number = next(numbers)
        fields = [
            ("Content-Type", value),
            ("Content-Encoding", rng.choice(("gzip", "br", "nonsense", "\xff", ""))),
        ]
        body = bytes(rng.choices(range(256), k=rng.randint(1, 500)))
        data = request(number, fields, body) * 2 + request(number, fields, body + b"x")
        counts = ("json_rejected",) if value == "application/json;" else ()
        yield Case(
            number,
            f"type {value[:40]!r}",
            data,
            (ran(*counts), replay(*counts), reused(*counts, "replay.cached")),
            End.DONE,
        )
    for number in islice(numbers, count):
        body = bytes(rng.choices(range(256), k=rng.randint(1, 2000)))
        data = request(number, [], body) * 2 + request(number, [], body[:-1])
        yield Case(number, f"bytes {body[:10]!r}", data, (ran(), replay(), reused("replay.cached")), End.DONE)
