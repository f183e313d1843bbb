"""Starts the upstream: python -m upstream LOG. Prints one line with its two ports when it is ready."""

import asyncio
import json
import sys

from . import control, http1, http2
from .application import Application
from .recorder import Recorder
from .scripts import Scripts

# How a connection of HTTP/2 begins.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\n"


async def _serve(log: str) -> None:
    scripts = Scripts()
    application = Application(Recorder(log), scripts)

    async def data(peer: http1.Peer) -> None:
        head = await http1.read_head(peer)
        if head == _PREFACE:
            await http2.serve(peer, application, head)
        elif head:
            await http1.serve(peer, application.run, head)

    async def steer(peer: http1.Peer) -> None:
        await http1.serve(peer, lambda exchange: control.run(exchange, scripts))

    loop = asyncio.get_running_loop()
    ports = []
    for handler in (data, steer):
        # A full backlog would look like a refused connection to the tests of just that.
        server = await loop.create_server(lambda h=handler: http1.Peer(h), "127.0.0.1", 0, backlog=1024)
        ports.append(server.sockets[0].getsockname()[1])
    print(json.dumps({"port": ports[0], "control": ports[1]}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
