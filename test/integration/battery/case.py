"""A case: what is sent, and what it must lead to at the client, the upstream and the counters."""

import dataclasses
import enum
import random
from collections import Counter
from collections.abc import Callable, Iterator

# Statuses by docs/answers.md.
_STATUS = {
    "key_missing": 400,
    "key_invalid": 400,
    "tenant_missing": 403,
    "key_reused": 422,
    "request_too_large": 413,
    "upgrade_refused": 400,
    "in_progress": 409,
}


class End(enum.Enum):
    """What becomes of the connection after the last answer."""

    STAYS = "stays"
    CLOSED = "closed"  # By Envoy; HTTP/2: with GOAWAY.
    RESET = "reset"  # HTTP/2: this stream alone.
    DONE = "done"  # Closed by us, after the answers.
    LEFT = "left"  # Closed by us, before an answer.


@dataclasses.dataclass(frozen=True)
class Want:
    """One answer. The counters are those of docs/stats.md, without their prefix."""

    status: int  # 0: none.
    code: str = ""  # Of the filter's problem; empty: the answer is not the filter's.
    replayed: bool = False
    runs: int = 0
    counts: tuple[tuple[str, int], ...] = ()


def refused(name: str, *counts: str) -> Want:
    """By the filter; `name` is that of the counter."""
    return Want(_STATUS[name], f"idempotency_{name}", counts=_one_each(name, *counts))


def too_large() -> Want:
    """Seen only when the body has come. With a content-length the head alone is refused, and not covered."""
    return refused("request_too_large", "covered")


def reused(*counts: str) -> Want:
    return refused("key_reused", "covered", "claim.key_reused", *counts)


def by_envoy(status: int, *counts: str) -> Want:
    """By Envoy: the filter saw nothing of the request, or its beginning."""
    return Want(status, counts=_one_each(*counts))


def ran(*counts: str) -> Want:
    return Want(200, runs=1, counts=_one_each("covered", "claim.created", "ended.completed", *counts))


def replay(*counts: str) -> Want:
    names = ("covered", "claim.replay", "replay.cached", *counts)
    return Want(200, replayed=True, counts=_one_each(*names))


def passed() -> Want:
    """The route's policy does not cover it: nothing is looked at, nothing is claimed."""
    return Want(200, runs=1)


def silent(*counts: str) -> Want:
    """No answer."""
    return Want(0, counts=_one_each(*counts))


def _one_each(*names: str) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(names).items()))


@dataclasses.dataclass(frozen=True)
class Case:
    """`data` holds its number in every path, so that the upstream's log tells what ran for it."""

    number: int
    name: str
    data: bytes
    wants: tuple[Want, ...]
    end: End = End.STAYS
    http2: bool = False

    @property
    def runs(self) -> int:
        return sum(want.runs for want in self.wants)

    @property
    def counts(self) -> Counter[str]:
        return sum((Counter(dict(want.counts)) for want in self.wants), Counter())


# A family makes cases: a generator that gets a source of randomness and the numbers for its cases.
Family = Callable[[random.Random, Iterator[int]], Iterator[Case]]


def tenant(number: int) -> str:
    """Each case has its own, so that no two meet by their keys."""
    return f"tenant-{number}"


def good_key(number: int) -> str:
    return f'"key-of-the-case-{number}"'


# Stands for the case's own good key.
GOOD = "good"


def request(
    number: int,
    fields: list[tuple[str, str]] = (),
    body: bytes = b"",
    *,
    path: str = "strict",
    method: str = "POST",
    target: str | None = None,
    version: str = "HTTP/1.1",
    host: list[str] = ("Host: test",),
    owner: list[str] | None = None,
    key: str | None = GOOD,
    length: bool = True,
) -> bytes:
    """A request of HTTP/1.1, good by itself; latin-1 stands for bytes."""
    lines = [f"{method} {f'/{path}/{number}' if target is None else target} {version}", *host]
    lines += [f"X-Tenant-Id: {tenant(number)}"] if owner is None else owner
    if key is not None:
        lines.append(f"Idempotency-Key: {good_key(number) if key is GOOD else key}")
    lines += [f"{name}: {value}" for name, value in fields]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def hidden(number: int) -> bytes:
    """A whole good request, to be put where only a confused server would take it for one."""
    return request(number, path="hidden", key=f'"hidden-behind-case-{number}"')


def closed(number: int, name: str, data: bytes, *wants: Want) -> Case:
    """HTTP/1.1: Envoy ends the connection after the last answer, so that nothing behind it is looked at.

    Envoy does so after every 400, also of a filter: something is wrong with how the client speaks.
    """
    return Case(number, name, data + hidden(number), wants, End.CLOSED)
