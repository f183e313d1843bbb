"""HTTP/1.1: request lines, names and values of fields, tenants, sizes.

What Envoy refuses by itself (400, 426, 431) was measured; it never reaches the filter.
"""

import random
from collections.abc import Iterator
from itertools import islice

from .case import Case, Want, by_envoy, closed, ran, refused, replay, request, tenant, too_large

_TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NOT_TOKEN = [chr(code) for code in range(256) if chr(code) not in _TOKEN and chr(code) not in "\r\n:"]


def _one(number: int, name: str, data: bytes, want: Want) -> Case:
    """Envoy ends the connection after what it refuses itself, and after 400 and 413."""
    if want.status == 200:
        return Case(number, name, data, (want,))
    if want.code and want.status not in (400, 413):
        return Case(number, name, data, (want,))
    return closed(number, name, data, want)


def request_lines(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    for method in (
        "post",
        "Post",
        "POST\0",
        "",
        "P OST",
        "FOO",
        "\x80POST",
        "PO(ST",
        " POST",
        "POST,",
        "POSTT",
        "PO\x01ST",
    ):
        number = next(numbers)
        yield _one(number, f"method {method!r}", request(number, method=method), by_envoy(400))
    for version in (
        "http/1.1",
        "HTTP/1.10",
        "HTTP/1.",
        "HTTP/11",
        "HTTP 1.1",
        "HTP/1.1",
        "HTTP/1.1x",
        "HTTP/+1.1",
        "x",
    ):
        number = next(numbers)
        yield _one(number, f"version {version!r}", request(number, version=version), by_envoy(400))
    for version in ("HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/3.0", "HTTP/9.9", ""):
        number = next(numbers)
        yield _one(number, f"version {version!r}", request(number, version=version), by_envoy(426))
    bad = (
        "",
        "*",
        "strict/{}",
        "http:///strict/{}",
        "ftp://test/strict/{}",
        "/strict/{} x",
        "/strict/{}\0",
        "/strict/{}\x80",
    )
    bad += (
        "/strict/{}\x01",
        "/strict/{}\x7f",
        "test:80",
        "/strict/{}%00",
        "/strict/{}#fragment",
        "\\strict\\{}",
        "?{}",
    )
    for target in bad:
        number = next(numbers)
        data = request(number, target=target.format(number))
        yield _one(number, f"target {target!r}", data, by_envoy(400))
    for code in (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0x100)):
        if code != 0x0D:
            number = next(numbers)
            data = request(number, target=f"/strict/{number}{chr(code)}")
            yield _one(number, f"target with byte {code:#x}", data, by_envoy(400))
    for target in (
        "/x/../strict/{}",
        "/%73trict/{}",
        "/strict/../../strict/{}",
        "/strict\\{}",
        "/./strict/{}",
        "/x/%2e%2E/strict/{}",
    ):
        number = next(numbers)
        data = request(number, target=target.format(number), key=None)
        yield _one(number, f"way around {target!r}", data, refused("key_missing"))
    number = next(numbers)
    yield _one(
        number, "target of 70,000 bytes", request(number, target="/strict/" + "a" * 70_000), by_envoy(431)
    )


def hosts(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    for lines in (
        [],
        ["Host: a b"],
        ["Host: a/b"],
        ["Host: \x80"],
        ["Host: a\\b"],
        ["Host: {}"],
        ["Host: <x>"],
        ["Host: \0"],
    ):
        number = next(numbers)
        yield _one(number, f"host {lines}", request(number, host=lines), by_envoy(400))
    # Envoy joins two of them, and takes what is no host for one: routing decides, here by "*".
    for lines in (["Host: a", "Host: b"], ["Host:"], ["Host: a:x"], ["Host: [::1"]):
        number = next(numbers)
        yield _one(number, f"host {lines}", request(number, host=lines), ran())


def garbage(rng: random.Random, numbers: Iterator[int], count: int = 250) -> Iterator[Case]:
    """Random bytes whose first line cannot be a request."""
    for number in islice(numbers, count):
        junk = bytes(
            rng.choices([c for c in range(256) if c not in (0x0A, 0x0D, 0x20)], k=rng.randint(1, 300))
        )
        first = ord(rng.choice([c for c in _NOT_TOKEN if ord(c) not in (0x09, 0x20)]))
        yield closed(
            number, f"garbage {junk[:10]!r}", bytes([first]) + junk + b" / HTTP/1.1\r\n\r\n", by_envoy(400)
        )


def names(rng: random.Random, numbers: Iterator[int], count: int = 400) -> Iterator[Case]:
    """RFC 9110 §5.1: a name is a token."""
    for number in islice(numbers, count):
        at = rng.choice(_NOT_TOKEN)
        name = rng.choice(("X{}Y", "X{}", "Idempotency-Key{}", "Idempotency{}Key", "{0}{0}X")).format(at)
        # A line that begins with a space goes on with the one before it.
        name = name.replace(" ", "x ", 1) if name[0] in " \t" else name
        name = "(" + name if name[0] in "\t" else name
        yield _one(number, f"name {name!r}", request(number, [(name, "y")]), by_envoy(400))
    looks_like = (
        "Idempotency_Key",
        "X-Idempotency-Key",
        "IdempotencyKey",
        "Idempotency-Key-",
        "-Idempotency-Key",
        "Idempotency.Key",
    )
    for name in (
        *looks_like,
        "Idempotency-Keys",
        "Idempotency-Ke",
        "Idempotency-\u041aey".encode().decode("latin-1"),
    ):
        number = next(numbers)
        data = request(number, [(name, '"0123456789abcdef"')], key=None)
        want = by_envoy(400) if any(c in _NOT_TOKEN for c in name) else refused("key_missing")
        yield _one(number, f"no key but {name!r}", data, want)
    for name in ("Idempotency-Key ", "Idempotency-Key\t", "Idempotency-Key\0", "\0Idempotency-Key"):
        number = next(numbers)
        yield _one(
            number,
            f"no key but {name!r}",
            request(number, [(name, '"0123456789abcdef"')], key=None),
            by_envoy(400),
        )
    for name in (":path", ":method", ":authority", ":scheme", ":status", ":"):
        number = next(numbers)
        yield _one(number, f"name {name!r}", request(number, [(name, "/other")]), by_envoy(400))


def values(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    """Bytes in a field that nobody looks at."""
    for code in range(256):
        if chr(code) in "\r\n":
            continue
        number = next(numbers)
        control = (code < 0x20 and code != 0x09) or code == 0x7F
        data = request(number, [("X", f"y{chr(code)}z")])
        yield _one(number, f"value with byte {code:#x}", data, by_envoy(400) if control else ran())


def connection_options(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    """RFC 9110 §7.6.1: what Connection names is for this hop alone, so it never reaches the filter."""
    wants = {
        "idempotency-key": refused("key_missing"),
        "Idempotency-Key, keep-alive": refused("key_missing"),
        "x-tenant-id": refused("tenant_missing"),
        "keep-alive": ran(),
        "\x80": ran(),
        ",,,": ran(),
    }
    for value, want in wants.items():
        number = next(numbers)
        yield _one(number, f"connection {value!r}", request(number, [("Connection", value)]), want)
    for protocol in ("websocket", "nonsense", "TLS/1.0", ""):
        number = next(numbers)
        data = request(number, [("Upgrade", protocol), ("Connection", "Upgrade")])
        yield closed(number, f"upgrade {protocol!r}", data, by_envoy(403))
    for field in (
        ("Expect", "nonsense"),
        ("TE", "chunked"),
        ("Keep-Alive", "-1"),
        ("HTTP2-Settings", "?"),
        ("Range", "bytes=9-1"),
    ):
        number = next(numbers)
        yield _one(number, f"{field}", request(number, [field]), ran())


def tenants(rng: random.Random, numbers: Iterator[int], count: int = 200) -> Iterator[Case]:
    missing = refused("tenant_missing")
    name = "X-Tenant-Id"
    table = {
        "": missing,
        f"{name}:": missing,
        f"{name}:  \t ": missing,
        f"{name}: {'a' * 256}": missing,
        f"{name}: {'a' * 5000}": missing,
        f"{name}: a\n{name}: a": missing,
        f"{name}: a\n{name}: b": missing,
        f"{name}: a\n{name}:": missing,
        f"{name}:\n{name}: a": missing,
        f"{name.replace('-', '_')}: a": missing,
        f"{name}: \0": by_envoy(400),
        f"{name} : a": by_envoy(400),
    }
    for number in islice(numbers, count):
        copies = [
            f"{rng.choice((name, name.lower(), name.upper()))}: {tenant(number + n)}"
            for n in range(rng.randint(2, 6))
        ]
        table["\n".join(copies)] = missing
    for text, want in table.items():
        number = next(numbers)
        data = request(number, owner=text.split("\n") if text else [])
        yield _one(number, f"tenant {text!r}", data, want)


def sizes(rng: random.Random, numbers: Iterator[int]) -> Iterator[Case]:
    """Envoy's bounds: 60 KiB of head, 100 fields. 413 is the route's own bound, of 1000 bytes."""
    for count in (101, 130, 500, 1000):
        number = next(numbers)
        yield _one(
            number, f"{count} fields", request(number, [(f"x{n}", "y") for n in range(count)]), by_envoy(431)
        )
    for size in (62_000, 100_000, 300_000):
        number = next(numbers)
        yield _one(number, f"field of {size}", request(number, [("x", "y" * size)]), by_envoy(431))
        number = next(numbers)
        yield _one(number, f"key of {size}", request(number, key=f'"{"y" * size}"'), by_envoy(431))
        number = next(numbers)
        yield _one(number, f"name of {size}", request(number, [("y" * size, "x")]), by_envoy(431))
    for size in (1001, 1002, 2000, 10_000, 100_000, 2_000_000):
        number = next(numbers)
        known = refused("request_too_large")
        yield _one(number, f"body of {size}", request(number, path="small", body=b"x" * size), known)
        number = next(numbers)
        head = request(number, [("Transfer-Encoding", "chunked")], path="small", length=False)
        chunk = b"%x\r\n%s\r\n" % (size // 2, b"x" * (size // 2))
        yield _one(number, f"chunks of {size}", head + chunk * 3 + b"0\r\n\r\n", too_large())
        number = next(numbers)
        data = request(number, [("Content-Length", str(size))], path="small", length=False)
        yield _one(number, f"head that promises {size}", data, known)
    number = next(numbers)
    data = request(number, path="small", body=b"x" * 1000)
    yield Case(number, "body of 1000", data * 2, (ran(), replay()))
