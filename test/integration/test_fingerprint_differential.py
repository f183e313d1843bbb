"""Fingerprints by idempotencyctl against an independent implementation of RFC 8785 and our own framing."""

import hashlib
import json
import random
import struct
import subprocess

import pytest
import rfc8785
from harness.ctl import PROGRAM as CTL

ROUNDS = 200
# Kinds of parts, as docs/fingerprint.md lists them and source/fingerprint/framing.h numbers them.
VERSION, METHOD, PATH, MEDIA_TYPE, CANONICAL = 1, 2, 3, 5, 18


def expected(body: bytes) -> str:
    parts = [(VERSION, b"\x01"), (METHOD, b"POST"), (PATH, b"/p"), (MEDIA_TYPE, b"application/json")]
    framed = b"".join(
        struct.pack(">BQ", kind, len(data)) + data for kind, data in [*parts, (CANONICAL, body)]
    )
    return "01" + hashlib.sha256(framed).hexdigest()


def fingerprint(body: bytes) -> str:
    result = subprocess.run(
        [
            *(CTL, "fingerprint", "--method", "POST", "--path", "/p"),
            *("--header", "content-type: application/json", "--body", "-"),
        ],
        input=body,
        capture_output=True,
        timeout=20,
        check=True,
    )
    return result.stdout.split()[0].decode()


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
        assert fingerprint(body) == expected(rfc8785.dumps(document)), (seed, number, body)
