"""toxiproxy between any two servers: cut, slow down, reset, black-hole."""

import json
import urllib.request

from .paths import toxiproxy_binary
from .ports import free_port
from .process import Process, Workspace
from .wait import wait_for


class Toxiproxy:
    """The server. `proxy()` makes a way to a port that the test can disturb."""

    def __init__(self, workspace: Workspace) -> None:
        self._port = free_port()
        self.process = Process(
            workspace,
            "toxiproxy",
            [toxiproxy_binary(), "-host", "127.0.0.1", "-port", str(self._port)],
            workspace.new_folder("toxiproxy") / "toxiproxy.log",
        )
        self._count = 0
        wait_for(self._answers, "toxiproxy answers", deadline=30)

    def proxy(self, port: int, host: str = "127.0.0.1") -> "Proxy":
        return Proxy(self, f"{host}:{port}")

    def listen(self, target: str) -> tuple[str, int]:
        """A name and a port that lead to `target`."""
        self._count += 1
        name, port = f"proxy-{self._count}", free_port()
        # Not a port that the kernel hands out: while the way is cut, a client could get it.
        wanted = {"name": name, "listen": f"127.0.0.1:{port}", "upstream": target, "enabled": True}
        self.call("POST", "/proxies", wanted)
        return name, port

    def stop(self) -> int:
        return self.process.stop()

    def call(self, method: str, path: str, body: dict | None = None) -> dict:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            # toxiproxy refuses callers that look like a browser.
            headers={"User-Agent": "test", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text else {}

    def _answers(self) -> bool:
        self.process.check_running()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self._port}/version", timeout=1).close()
        except OSError:
            return False
        return True


class Proxy:
    """Its `port` may change with restore(): look it up for each connection."""

    def __init__(self, server: Toxiproxy, target: str) -> None:
        self._server, self._target = server, target
        self._open()

    def _open(self) -> None:
        name, self.port = self._server.listen(self._target)
        self._path = f"/proxies/{name}"
        self._listen = f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Closes all connections and refuses new ones."""
        self._server.call("POST", self._path, {"enabled": False, "listen": self._listen})

    def restore(self) -> None:
        """Accepts connections again and takes every disturbance away."""
        try:
            self._server.call("POST", self._path, {"enabled": True, "listen": self._listen})
            for toxic in self._server.call("GET", self._path)["toxics"]:
                self._server.call("DELETE", f"{self._path}/toxics/{toxic['name']}")
        except OSError:
            # toxiproxy waits for ever if a connection breaks just when what disturbs it is taken away. From
            # then on it answers nothing that has to do with this way.
            self._open()

    def lead_to(self, port: int) -> None:
        """From now on it goes to another port; what is open is closed."""
        self._target = f"127.0.0.1:{port}"
        wanted = {"enabled": True, "listen": self._listen, "upstream": self._target}
        self._server.call("POST", self._path, wanted)

    def delay(self, milliseconds: int, jitter: int = 0) -> None:
        """Delays what the server sends back."""
        self._toxic("latency", "downstream", latency=milliseconds, jitter=jitter)

    def black_hole(self) -> None:
        """Swallows all data both ways; connections stay open and silent."""
        self._toxic("timeout", "upstream", timeout=0)
        self._toxic("timeout", "downstream", timeout=0)

    def swallow_answers(self) -> None:
        """Requests arrive, answers do not: the caller cannot know what happened."""
        self._toxic("timeout", "downstream", timeout=0)

    def swallow_requests(self) -> None:
        """Nothing arrives; connections stay open."""
        self._toxic("timeout", "upstream", timeout=0)

    def slice(self, size: int) -> None:
        """Passes everything on in pieces of that many bytes, both ways."""
        for stream in ("upstream", "downstream"):
            self._toxic("slicer", stream, average_size=size, size_variation=0, delay=0)

    def reset_connections(self) -> None:
        """Resets every connection, old and new."""
        self._toxic("reset_peer", "upstream", timeout=0)
        self._toxic("reset_peer", "downstream", timeout=0)

    def cut_after(self, size: int) -> None:
        """Closes each connection once the server has sent that many bytes on it."""
        self._toxic("limit_data", "downstream", bytes=size)

    def _toxic(self, kind: str, stream: str, **attributes) -> None:
        toxic = {
            "type": kind,
            "stream": stream,
            "name": f"{kind}_{stream}",
            "attributes": attributes,
        }
        self._server.call("POST", f"{self._path}/toxics", toxic)
