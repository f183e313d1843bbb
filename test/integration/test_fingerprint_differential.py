"""Fingerprints by idempotencyctl against other implementations of RFC 8785 and docs/fingerprint.md."""

import hashlib
import json
import random
import re
import struct
import subprocess

import pytest
import rfc8785
from harness.ctl import PROGRAM as CTL

ROUNDS = 200
# Kinds of parts, as docs/fingerprint.md lists them and source/fingerprint/framing.h numbers them.
VERSION, METHOD, PATH, QUERY, MEDIA_TYPE, HEADER_NAME, HEADER_VALUE = 1, 2, 3, 4, 5, 6, 7
AUTHORITY, QUERY_AS_SENT, BODY_EMPTY, CANONICAL = 9, 10, 16, 18


def digest(version: int, *parts: tuple[int, bytes]) -> str:
    framed = b"".join(
        struct.pack(">BQ", kind, len(data)) + data for kind, data in [(VERSION, bytes([version])), *parts]
    )
    return f"{version:02x}" + hashlib.sha256(framed).hexdigest()


def fingerprints(path: str, *headers: str, body: bytes = b"", options: tuple[str, ...] = ()) -> list[str]:
    """By version 2, then by version 1."""
    words = [CTL, "fingerprint", "--method", "POST", "--path", path, "--body", "-", *options]
    for header in headers:
        words += ["--header", header]
    result = subprocess.run(words, input=body, capture_output=True, timeout=20, check=True)
    return result.stdout.decode().split()


def value(source: random.Random, depth: int = 0):
    kinds = ["number", "integer", "text", "constant"] + (["list", "object"] if depth < 5 else [])
    kind = source.choice(kinds)
    if kind == "number":
        bits = source.getrandbits(64)
        (number,) = struct.unpack(">d", struct.pack(">Q", bits))
        return number if number == number and abs(number) != float("inf") else 0.5
    if kind == "integer":
        return source.randint(-(2**53) + 1, 2**53 - 1) >> source.randrange(53)
    if kind == "text":
        return text(source)
    if kind == "constant":
        return source.choice([True, False, None])
    if kind == "list":
        return [value(source, depth + 1) for _ in range(source.randrange(5))]
    return {text(source): value(source, depth + 1) for _ in range(source.randrange(6))}


def text(source: random.Random) -> str:
    alphabet = 'ab"\\/\b\f\n\r\t\x00\x1f\x7fé€\u2028\ufb33\U0001f600\U0010ffff'
    return "".join(source.choice(alphabet) for _ in range(source.randrange(8)))


@pytest.mark.parametrize("seed", range(4))
def test_random_documents_have_the_fingerprint_of_their_canonical_form(seed):
    source = random.Random(seed)
    for number in range(ROUNDS // 4):
        document = value(source)
        # Any spelling of the same document: escapes or not, spaces, members in any order.
        if isinstance(document, dict):
            members = list(document.items())
            source.shuffle(members)
            document = dict(members)
        body = json.dumps(
            document,
            ensure_ascii=source.random() < 0.5,
            indent=source.choice([None, 0, 3]),
        ).encode()
        type_and_body = [(MEDIA_TYPE, b"application/json"), (CANONICAL, rfc8785.dumps(document))]
        expected = [digest(version, (METHOD, b"POST"), (PATH, b"/p"), *type_and_body) for version in (2, 1)]
        computed = fingerprints("/p", "content-type: application/json", body=body)
        assert computed == expected, (seed, number, body)


# --- Where a request goes


def authority_by_rfc_3986(host: str, port: str, scheme: str) -> str:
    default = {"http": "80", "https": "443"}[scheme]
    return host.lower() + (f":{port}" if port not in ("", default) else "")


def query_by_the_page(query: str, as_sent: bool) -> tuple[int, str]:
    parameters = [(parameter.split("=", 1)[0], parameter) for parameter in query.split("&")]
    if as_sent or ";" in query or any(re.search(r"[][%+]", name) for name, _ in parameters):
        return QUERY_AS_SENT, query
    parameters.sort(key=lambda pair: pair[0].lower().replace(".", "_").encode())
    return QUERY, "&".join(parameter for _, parameter in parameters)


@pytest.mark.parametrize("seed", range(4))
def test_random_targets_have_the_fingerprint_that_the_page_describes(seed):
    source = random.Random(seed)
    kinds = set()
    for number in range(ROUNDS // 4):
        scheme = source.choice(["http", "https"])
        host = source.choice(["api.example.com", "API.Example.com", "[2001:DB8::443]", "10.0.0.1"])
        port = source.choice([None, "", "80", "443", "8443"])
        names = ["a", "A", "b", "b.c", "b_c", "", *(["d[]", "%61", "e+f"] if source.random() < 0.3 else [])]
        values = ["", "=", "=1", "=2", "=[x]%5B+", *(["=1;z"] if source.random() < 0.1 else [])]
        query = "&".join(source.choice(names) + source.choice(values) for _ in range(source.randrange(1, 6)))
        as_sent = source.random() < 0.2
        conditions = [name for name in ("if-match", "if-none-match") if source.random() < 0.3]
        kind, text = query_by_the_page(query, as_sent)
        kinds.add(kind)
        parts = [(METHOD, b"POST")]
        parts.append((AUTHORITY, authority_by_rfc_3986(host, port or "", scheme).encode()))
        parts += [(PATH, b"/p"), (kind, text.encode())]
        for name in conditions:
            parts += [(HEADER_NAME, name.encode()), (HEADER_VALUE, b"*")]
        answer = fingerprints(
            f"/p?{query}",
            f"Host: {host}" + ("" if port is None else f":{port}"),
            "X-Forwarded-Host: elsewhere.example",
            *(f"{name}: *" for name in conditions),
            options=("--scheme", scheme, "--query", "as-sent" if as_sent else "sorted"),
        )
        assert answer[0] == digest(2, *parts, (BODY_EMPTY, b"")), (seed, number, host, port, query)
    assert kinds == {QUERY, QUERY_AS_SENT}
