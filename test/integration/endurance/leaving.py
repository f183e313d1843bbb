"""Clients that leave, in each phase of a request."""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator

from harness.site import PREFIX, Site, new_key
from harness.wait import wait_for
from harness.wire import Http1Connection, Http2Connection

# More than Envoy and all sockets buffer: the rest is still to come when its client leaves.
_LONG = 1_000_000
# The same, and short enough to be stored. Envoy gets all of it at once.
_STORED = 300_000
# At most one HTTP/2 connection's worth of streams.
GROUP = 48


class Group:
    """Clients that send alike and leave at once."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.size = GROUP

    def start(self, path: str, key: str | None = None, whole: bool = True) -> None:
        """One request of each, with keys of their own unless there is one for all."""
        for _ in range(self.size):
            fields = {"content-type": "application/json", "idempotency-key": key or new_key()}
            self._start(path, fields, whole)

    @contextlib.contextmanager
    def counted(self, name: str) -> Iterator[None]:
        """Over when each of them was counted there."""
        name = name if name.startswith("http.") else PREFIX + name
        before = self.site.envoy.stat(name)
        yield
        self.site.envoy.wait_for_stat(name, before + self.size, deadline=60)

    def leave(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """What is left."""

    def _start(self, path: str, fields: dict[str, str], whole: bool) -> None:
        raise NotImplementedError


class Http1Group(Group):
    """On connections of their own. Every other one is reset."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._connections: list[Http1Connection] = []

    def _start(self, path: str, fields: dict[str, str], whole: bool) -> None:
        connection = Http1Connection(self.site.port)
        self._connections.append(connection)
        if whole:
            connection.start("POST", path, fields, b"{}")
        else:
            connection.start("POST", path, {**fields, "content-length": "100"})
            connection.send(b"{")

    def leave(self) -> None:
        at_once = struct.pack("ii", 1, 0)
        for number, connection in enumerate(self._connections):
            if number % 2:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            connection.close()


class Http2Group(Group):
    """On one connection, which stays: each resets its stream."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._connection = Http2Connection(site.port)
        self._streams: list[int] = []

    def _start(self, path: str, fields: dict[str, str], whole: bool) -> None:
        body = b"{}" if whole else b"{"
        fields["content-length"] = "2"  # The upstream reads no chunks.
        self._streams.append(self._connection.start("POST", path, fields, body, end=whole))

    def leave(self) -> None:
        for stream in self._streams:
            self._connection.reset(stream)

    def close(self) -> None:
        self._connection.close()


class LostHttp2Group(Http2Group):
    """On one connection, which is lost."""

    def leave(self) -> None:
        self._connection.close()


def before_the_request_is_whole(group: Group) -> None:
    with group.counted("covered"):
        group.start("/pay/200", whole=False)
    with group.counted("cut_short"):
        group.leave()


def while_the_claim_is_asked_for(group: Group) -> None:
    with group.site.store_held():
        with group.counted("in_flight"):
            group.start("/pay/200")
        with group.counted("cut_short"):
            group.leave()


def while_another_one_runs(group: Group) -> None:
    key = new_key()
    with group.site.connect() as runs:
        group.site.begin(runs, "/hold/wait/", key)
        _wait_until_held(group.site, 1)
        with group.counted("waited"):
            group.start("/hold/wait/", key)
        with group.counted("cut_short"):
            group.leave()
        group.site.upstream.release()
        assert runs.read_response().status == 201


def while_the_upstream_works(group: Group) -> None:
    group.start("/hold/")
    _wait_until_held(group.site, group.size)
    with group.counted("cut_short"):
        group.leave()
    _wait_until_held(group.site, 0)


def while_the_answer_is_being_stored(group: Group) -> None:
    group.start("/hold/")
    _wait_until_held(group.site, group.size)
    with group.counted("ended.completed"), group.site.store_held():
        group.site.upstream.release()
        wait_for(
            lambda: group.site.envoy.stat("cluster.upstream.upstream_rq_active") == 0,
            "all answers are with Envoy",
            deadline=50,
        )
        group.leave()
        group.site.wait_until_idle()


def in_the_middle_of_an_answer(group: Group) -> None:
    with group.counted("http.ingress.downstream_rq_2xx"):
        group.start(f"/long/{_LONG}")
    with group.counted("cut_short"):
        group.leave()


def in_the_middle_of_a_replay(group: Group) -> None:
    key, path = new_key(), f"/pay/{_STORED}"
    assert group.site.send(path, key).status == 201
    with group.counted("claim.replay"):
        group.start(path, key)
    wait_for(lambda: _unsent(group.site), "Envoy has more to send", deadline=60)
    group.leave()


PHASES: list[Callable[[Group], None]] = [
    before_the_request_is_whole,
    while_the_claim_is_asked_for,
    while_another_one_runs,
    while_the_upstream_works,
    while_the_answer_is_being_stored,
    in_the_middle_of_an_answer,
    in_the_middle_of_a_replay,
]
WAYS: list[type[Group]] = [Http1Group, Http2Group, LostHttp2Group]


def leave(site: Site) -> int:
    """Each phase in each way; how many clients left."""
    left = 0
    for phase in PHASES:
        for way in WAYS:
            site.wait_until_idle()
            group = way(site)
            phase(group)
            group.close()
            left += group.size
    return left


def _unsent(site: Site) -> int:
    """By HTTP/1.1 it waits for the socket, by HTTP/2 for the client's window."""
    stats = site.envoy.stats("^http.ingress.downstream_(cx_tx_bytes_buffered|rq_active)$")
    return sum(stats.values())


def _wait_until_held(site: Site, count: int) -> None:
    wait_for(lambda: site.upstream.held() == count, lambda: f"{count} held, but {site.upstream.held()}", 60)
