"""The scriptable upstream (test/integration/upstream) as a fixture sees it.

A behaviour is a dict. Fields, all optional:

    status, headers, body | body_size | body_hex, trailers
                   the answer; by default 200 and JSON about the execution
    framing        "length", "chunked" or "close" (HTTP/1)
    delay_ms       between the effect and the answer
    hold           a name: the answer waits until release(name)
    hold_mid_body  the same, when its headers and half of its body are written
    fault          "close_before_read", "close_after_read", "reset_after_read", "close_mid_body",
                   "reset_mid_body", "hang_mid_body" (until the other side leaves);
                   HTTP/2 alone: "refuse_stream", "goaway"
    send_continue  False: `Expect: 100-continue` gets no 100
    early_hints    True: a 103 before the answer
    transactions   the effect in the database `database` (a conninfo): a list of transactions, each a list of
                   statements, where %(attempt)s and %(key)s are the request's
    hold_commit    a name: the last of them commits only after release(name)

It is given with the request itself (`behave()` makes the header) or by script(), which needs no change of
the request. The log has one entry for each of these events, in order:

    received    headers are there             executed   body read, effect done, answer decided
    answered    answer wholly written         cut        ended on purpose by a fault
    gone        the other side went away      bad_script the test asked for something that does not exist
    committed   a transaction is durable      refused    the database refused one, with its `sqlstate`
"""

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

from .process import Process, Workspace
from .wait import wait_for

_PACKAGE_PARENT = Path(__file__).resolve().parents[1]


def behave(**behaviour) -> dict[str, str]:
    """Request headers that make the upstream behave so."""
    return {"x-upstream": json.dumps(behaviour)}


class Upstream:
    def __init__(self, workspace: Workspace) -> None:
        folder = workspace.new_folder("upstream")
        self.log_path = folder / "executions.jsonl"
        self.process = Process(
            workspace,
            "upstream",
            [sys.executable, "-m", "upstream", self.log_path],
            folder / "upstream.log",
            cwd=_PACKAGE_PARENT,
            env={"PYTHONDONTWRITEBYTECODE": "1"},
        )
        ready = wait_for(self._ready_line, "upstream says its ports", deadline=20)
        self.port: int = ready["port"]
        self._control: int = ready["control"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(
        self, *steps: dict, key: str | None = None, path: str | None = None, repeat: bool = False
    ) -> None:
        """The next requests that fit get these behaviours, one each; `repeat`: the last one for ever."""
        rule = {"steps": steps, "key": key, "path": path, "repeat": repeat}
        self._call("POST", "/script", rule)

    def clear_scripts(self) -> None:
        self._call("DELETE", "/script")

    def release(self, name: str) -> None:
        """Lets go all requests held under this name now."""
        self._call("POST", "/release", {"name": name})

    def held(self, name: str) -> int:
        return self._call("GET", "/held").get(name, 0)

    def wait_until_held(self, name: str, count: int = 1, deadline: float = 10.0) -> None:
        wait_for(lambda: self.held(name) >= count, f"{count} requests held as {name!r}", deadline)

    def log(self, event: str | None = None, **fields) -> list[dict]:
        """The entries of that event whose fields are as given."""
        if not self.log_path.exists():
            return []
        # The last line may not be whole yet.
        lines, _, _ = self.log_path.read_text().rpartition("\n")
        entries = [json.loads(line) for line in lines.splitlines()]
        return [
            entry
            for entry in entries
            if event in (None, entry["event"]) and all(entry.get(k) == v for k, v in fields.items())
        ]

    def executions(self, **fields) -> list[dict]:
        """Every effect that happened: what must not happen twice."""
        return self.log("executed", **fields)

    def wait_for_log(self, event: str, count: int = 1, **fields) -> list[dict]:
        def enough() -> list[dict]:
            entries = self.log(event, **fields)
            return entries if len(entries) >= count else []

        return wait_for(enough, lambda: f"{count} x {event} {fields} in {self.log()}")

    def stop(self) -> int:
        return self.process.stop()

    def _ready_line(self) -> dict | None:
        self.process.check_running()
        output = self.process.output()
        return json.loads(output.splitlines()[0]) if "\n" in output else None

    def _call(self, method: str, path: str, body: dict | None = None) -> dict:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._control}{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error)["error"]) from None
