"""Free loopback ports for servers that cannot choose one themselves."""

import collections
import itertools
import os
import socket

# Below what Linux hands out for outgoing connections, so that no client takes a port between our look
# and the server's bind. Each test process counts through a range of its own.
_FIRST, _RANGE, _RANGES = 12000, 1000, 20
_next = itertools.count(os.getpid() * 37)
# What keeps ports for this process, also while their servers are down. A part of its range: processes of
# other runs may have the same one.
_kept: collections.deque[socket.socket] = collections.deque(maxlen=_RANGE // 5)


def free_port() -> int:
    """A port that no other process gets from here as long as this one runs, unless it asks for many more."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _RANGES
    for _ in range(_RANGE):
        port = _FIRST + worker * _RANGE + next(_next) % _RANGE
        if (keeper := _keep(port)) is None:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                keeper.close()
                continue
        _kept.append(keeper)
        return port
    raise RuntimeError("no free port on the loopback interface")


def _keep(port: int) -> socket.socket | None:
    """An abstract socket that is named after it; None: there is one already. It ends with its process."""
    keeper = socket.socket(socket.AF_UNIX)
    try:
        keeper.bind(f"\0envoy-idempotency-port-{port}")
    except OSError:
        keeper.close()
        return None
    return keeper
