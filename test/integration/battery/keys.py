"""Idempotency-Key lines. What each must get is told by http_sf, the reference parser of structured fields."""

import random
import re
from collections.abc import Iterator
from itertools import islice

import http_sf

from .case import Case, End, Want, by_envoy, closed, ran, refused, replay, request, silent
from .frames import headers
from .frames import request_fields as http2_fields

# Envoy takes these in no field's value (RFC 9110 §5.5 lets a server refuse them).
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]
_LEAST, _MOST = 16, 255


def strict_key(value: str) -> str | None:
    """The key in a field's value by RFC 8941, without rules for its length; None: there is none."""
    try:
        key, _ = http_sf.parse(value.encode("latin-1"), tltype="item")
    except http_sf.StructuredFieldError:
        return None
    return key if isinstance(key, str) else None


def raw_key(value: str) -> str | None:
    return value if all(c in _PRINTABLE for c in value) and "," not in value else None


def either_key(value: str) -> str | None:
    return strict_key(value) if value.startswith('"') else raw_key(value)


def uuid_key(value: str) -> str | None:
    key = strict_key(value)
    return key if key is not None and _UUID.fullmatch(key) else None


# Route → what its key_syntax and uuid_only make of a value.
READERS = {
    "strict": strict_key,
    "optional": strict_key,
    "raw": raw_key,
    "either": either_key,
    "uuid": uuid_key,
}


def want_for(route: str, value: str, around: str) -> Want:
    """`around`: characters that are no part of a value where they stand around it."""
    if _CONTROL.search(value):
        return by_envoy(400)
    key = READERS[route](value.strip(around))
    good = key is not None and _LEAST <= len(key) <= _MOST
    return ran() if good else refused("key_invalid")


def _case(number: int, route: str, value: str, kind: str) -> Case:
    # By HTTP/1.1 Envoy takes off spaces and tabs (RFC 9110 §5.5); by HTTP/2, where none may be, it does not.
    want = want_for(route, value, " " if number % 2 else " \t")
    name = f"key {route} {kind}: {value!r}"
    if number % 2:
        return _http2_case(number, route, value, name, want)
    data = request(number, path=route, key=value)
    if want.runs:
        return Case(number, name, data * 2, (want, replay()))
    return closed(number, name, data, want)


def _http2_case(number: int, route: str, value: str, name: str, want: Want) -> Case:
    fields = http2_fields(number, path=route, key=value)
    if not want.code and not want.runs:
        return Case(number, name, headers(1, fields), (silent(),), End.CLOSED, http2=True)
    return Case(number, name, headers(1, fields), (want,), http2=True)


# --- values by rule

_TEXT = "0123456789abcdef-of-a-key"
# What is no String, or none alone, or not as long as it must be. {} stands for a good text.
TABLE = [
    *("", '""', '"', "{}", '"{}', '{}"', '"{}"x', '"{}" x', '"{}""{}"', '"{}", "{}"', '"{}",', ',"{}"'),
    *(
        "'{}'",
        "\xe2\x80\x9c{}\xe2\x80\x9d",
        "`{}`",
        '("{}")',
        '("{}" "{}")',
        "()",
        '"{}";',
        '"{}";A',
        '"{}";a=',
        '"{}";a=;b',
        '"{}" ;a',
    ),
    *(
        '"{}"; a',
        '"{}";a;b=1;c="x";d=t/k:n;e=?0;f=:YQ==:;g=-1.5',
        '"{}";a=@1;b=%"x"',
        '"{}";a=?2',
        '"{}";a=:Y:',
    ),
    *(
        '"{}";a=1.',
        '"{}";a=-',
        '"{}";a=1234567890123456',
        '"{}";a="',
        '"{}";\ta',
        '"{}"\t',
        '\t"{}"',
        '"{}\t"',
    ),
    *(
        '"{}\\"',
        '"{}\\\\"',
        '"{}\\n"',
        '"{}\\""',
        '"{}\\',
        '\\"{}"',
        '"{}é"',
        '"{}\x80"',
        '"{}\xff"',
        '"{}\xc3\xa9"',
    ),
    *(
        "?0",
        "?1",
        "1234567890123456",
        "-1",
        "1.5",
        "1.",
        "@1700000000",
        '%"{}"',
        '%"%c3%a9{}"',
        ":MDEyMzQ1Njc4OWFiY2RlZg==:",
    ),
    *(
        ":MDEy!:",
        "a={}",
        'a="{}"',
        "null",
        "undefined",
        "None",
        "[]",
        "{{}}",
        '{{"key": "{}"}}',
        "*",
        "*{}",
        "/{}",
    ),
    *(
        '"                "',
        '"                 "',
        "%22{}%22",
        "&quot;{}&quot;",
        'W/"{}"',
        '"{}"/"{}"',
        "'; DROP TABLE record; --",
    ),
    *(
        "../../../../etc/passwd",
        "${{jndi:ldap://x/{}}}",
        "%00{}",
        "{}%0d%0aX: y",
        '\xef\xbb\xbf"{}"',
        "\xfe\xff{}",
        '\xa0"{}"\xa0',
    ),
]


def named(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    for route in READERS:
        for pattern in TABLE:
            value = pattern.format(*[_TEXT] * 2)
            yield _case(next(numbers), route, value, "table")
        for length in (1, 2, 15, 16, 17, 36, 254, 255, 256, 257, 1000, 8000):
            yield _case(next(numbers), route, f'"{"k" * length}"', "length")
            yield _case(next(numbers), route, "k" * length, "bare length")
            yield _case(next(numbers), route, f'"{chr(92) * 2 * length}"', "escaped length")
        for code in range(256):
            if chr(code) not in "\r\n":  # These end the line: framing.py.
                yield _case(next(numbers), route, f'"{_TEXT}{chr(code)}{_TEXT}"', "byte inside")
                yield _case(next(numbers), route, f"{chr(code)}{_TEXT}", "byte first")
                yield _case(next(numbers), route, f'"{_TEXT}"{chr(code)}', "byte last")


def many_lines(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    """More than one line: whatever they say, which one counts would be a guess."""
    names = ("Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY", "iDeMpOtEnCy-kEy")
    values = (f'"{_TEXT}"', f'"{_TEXT}x"', "", '""', _TEXT, '"')
    for route in READERS:
        for count in (1, 2, 9):
            for value in values:
                number = next(numbers)
                lines = [(rng.choice(names), value) for _ in range(count)]
                data = request(number, lines, path=route, key=f'"{_TEXT}"')
                yield closed(
                    number, f"key {route} {count} more lines {value!r}", data, refused("key_invalid")
                )


# --- values by chance


def random_values(rng: random.Random, numbers: Iterator[int], count: int = 3600) -> Iterator[Case]:
    for number in islice(numbers, count):
        route = rng.choice(list(READERS))
        yield _case(number, route, _mutant(rng), "random")


def _mutant(rng: random.Random) -> str:
    value = rng.choice((_string, _string, _bare, _uuid, _with_parameters))(rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = rng.choice(_MUTATIONS)(rng, value)
    return value.replace("\r", "").replace("\n", "")


def _text(rng: random.Random) -> str:
    length = rng.choice(
        (rng.randint(0, 15), rng.randint(16, 255), rng.randint(16, 60), rng.randint(254, 300))
    )
    return "".join(rng.choices(_PRINTABLE, k=length))


def _bare(rng: random.Random) -> str:
    return _text(rng).strip()


def _string(rng: random.Random) -> str:
    escaped = _text(rng).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _uuid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return f'"{"-".join(parts)}"'


def _with_parameters(rng: random.Random) -> str:
    values = (
        "",
        "=1",
        "=-1.25",
        '="x"',
        "=tok",
        "=?1",
        "=:YQ==:",
        "=@1",
        '=%"x"',
        "=",
        "=1.",
        "=?",
        '="',
        "=(1)",
    )
    names = ("a", "b-c", "*d", "e.f_g", "A", "1", "")
    parameters = [
        f"{rng.choice((';', '; ', ' ;', ';;'))}{rng.choice(names)}{rng.choice(values)}"
        for _ in range(rng.randint(1, 4))
    ]
    return _string(rng) + "".join(parameters)


def _place(rng: random.Random, value: str) -> int:
    return rng.randint(0, len(value))


def _insert(rng: random.Random, value: str) -> str:
    at = _place(rng, value)
    return value[:at] + chr(rng.randint(0, 255)) + value[at:]


def _replace(rng: random.Random, value: str) -> str:
    at = _place(rng, value)
    return value[:at] + chr(rng.randint(0, 255)) + value[at + 1 :]


def _delete(rng: random.Random, value: str) -> str:
    at = _place(rng, value)
    return value[:at] + value[at + 1 :]


def _cut(rng: random.Random, value: str) -> str:
    return value[: _place(rng, value)]


def _cut_front(rng: random.Random, value: str) -> str:
    return value[_place(rng, value) :]


def _double(rng: random.Random, value: str) -> str:
    return value + rng.choice(("", " ", ",", ", ", ";", "=")) + value


def _marks(rng: random.Random, value: str) -> str:
    at = _place(rng, value)
    return (
        value[:at]
        + rng.choice(('"', "\\", ",", ";", "=", "(", ")", ":", "?1", "%", "@", "\t", "  "))
        + value[at:]
    )


def _utf8(rng: random.Random, value: str) -> str:
    at = _place(rng, value)
    return value[:at] + rng.choice("éß€𝄞\u202e\ufeff").encode().decode("latin-1") + value[at:]


def _same(rng: random.Random, value: str) -> str:
    return value


_MUTATIONS = (
    _insert,
    _insert,
    _replace,
    _replace,
    _delete,
    _cut,
    _cut_front,
    _double,
    _marks,
    _marks,
    _utf8,
    _same,
)
