"""Free loopback ports for servers that cannot choose one themselves."""

import itertools
import os
import socket

# Below what Linux hands out for outgoing connections, so that no client takes a port between our look
# and the server's bind. Each test process counts through a range of its own.
_FIRST, _RANGE, _RANGES = 12000, 1000, 20
_next = itertools.count(os.getpid() * 37)


def free_port() -> int:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _RANGES
    for _ in range(_RANGE):
        port = _FIRST + worker * _RANGE + next(_next) % _RANGE
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port on the loopback interface")
