"""A relay between two UNIX sockets that keeps what passes through it."""

import contextlib
import socket
import threading
from pathlib import Path


class Relay:
    def __init__(self, listen: Path, target: Path) -> None:
        self._target = target
        self._requests: list[bytearray] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(listen))
        self._server.listen(64)
        self._start(self._accept)

    def requests(self) -> bytes:
        """All that came from those who connected."""
        return b"".join(self._requests)

    def close(self) -> None:
        # Wakes accept(), which close() alone does not.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self._target))
            self._requests.append(bytearray())
            self._start(self._pass, near, far, self._requests[-1])
            self._start(self._pass, far, near, bytearray())

    def _pass(self, source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        while data := source.recv(65536):
            kept += data
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)

    def _start(self, work, *arguments) -> None:
        def run() -> None:
            # The end of either side ends the work.
            with contextlib.suppress(OSError):
                work(*arguments)

        threading.Thread(target=run, daemon=True).start()
