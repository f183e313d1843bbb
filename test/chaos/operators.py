"""Operators: they find out what became of an attempt, and settle its record. Each change is written down.

They use the API of an Envoy, or idempotencyctl. What they say is true: they ask the service, as the
reconciler does.
"""

import asyncio
import base64
import itertools
import json
import os
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path

import plan
from clients import Task
from gateway import ACTOR, Gateway
from harness import ctl
from harness.operators import PREFIX
from recorder import Recorder
from requester import Answer, Lost, Requester
from world import World

API, CTL = "api", "ctl"
_PATIENCE = 20.0
# What an operator wants, by the word of the audit: words of the command line, and path of the API.
_WORDS = {
    "resolve_completed": (("resolve",), "resolve"),
    "resolve_not_run": (("resolve", "--not-run"), "resolve"),
    "release": (("release",), "release"),
}
_OUTCOMES = {"stale": "stale", "refused": "refused", "record_not_found": "absent"}
_CTL_OUTCOMES = {
    "another request has claimed": "stale",
    "nothing was changed": "refused",
    "no record matches": "absent",
}


class Operators:
    _reasons = itertools.count(1)

    def __init__(self, world: World, recorder: Recorder) -> None:
        self._world, self._recorder = world, recorder

    async def look(self, task: Task, gateway: Gateway) -> dict | None:
        """The record as the API shows it; None: there is none, or no answer."""
        answer = await self._send("GET", gateway, f"/records/{_id_of(task)}", {})
        return json.loads(answer.body) if answer and answer.status == 200 else None

    async def find_out(self, task: Task, attempt: str) -> tuple[str, dict | None] | None:
        """What one who has asked the service may say of the attempt, with its response; None: nothing yet."""
        about = urllib.parse.urlencode(
            {
                **dict(zip(("tenant", "operation", "key"), task.identity, strict=True)),
                "attempt": attempt,
                "absences": 0,
                "by": "operator",
            }
        )
        requester = Requester()
        try:
            answer = await requester.send(
                "GET", self._world.service.port, f"{plan.OUTCOME}?{about}", {}, b"", _PATIENCE
            )
        except Lost:
            return None
        finally:
            requester.close()
        if answer.header("idempotency-outcome"):
            return "resolve_not_run", None
        return ("resolve_completed", json.loads(answer.body)) if answer.status == 200 else None

    async def change(
        self, task: Task, attempt: str, action: str, gateway: Gateway, by: str, response: dict | None = None
    ) -> str:
        """What came of it, in the words of the history."""
        reason = f"case {next(self._reasons)}"
        began = time.monotonic_ns()
        act = self._by_api if by == API else self._by_ctl
        outcome = await act(task, attempt, action, gateway, reason, response)
        tenant, operation, key = task.identity
        self._recorder.add(
            "change",
            tenant=tenant,
            operation=operation,
            key=key,
            attempt=attempt,
            action=action,
            actor=by,
            reason=reason,
            began=began,
            outcome=outcome,
        )
        return outcome

    async def _by_api(
        self, task: Task, attempt: str, action: str, gateway: Gateway, reason: str, response: dict | None
    ) -> str:
        body: dict = {"attempt": attempt, "reason": reason}
        if action == "resolve_not_run":
            body["outcome"] = "not_run"
        elif action == "resolve_completed":
            headers = [{"name": name, "value": value} for name, value in response["headers"].items()]
            body |= {"outcome": "completed", "response": {**response, "headers": headers}}
        _, path = _WORDS[action]
        answer = await self._send("POST", gateway, f"/records/{_id_of(task)}/{path}", body)
        if answer is None or answer.status == 503:
            return "maybe"
        return "done" if answer.status == 200 else _OUTCOMES[json.loads(answer.body)["code"]]

    async def _send(self, method: str, gateway: Gateway, path: str, body: dict) -> Answer | None:
        requester = Requester()
        headers = {"content-type": "application/json", ACTOR: API}
        text = json.dumps(body).encode() if body else b""
        try:
            return await requester.send(method, gateway.operators, PREFIX + path, headers, text, _PATIENCE)
        except Lost:
            return None
        finally:
            requester.close()

    async def _by_ctl(
        self, task: Task, attempt: str, action: str, gateway: Gateway, reason: str, response: dict | None
    ) -> str:
        tenant, operation, key = task.identity
        command, _ = _WORDS[action]
        words = ["records", *command, "--tenant", tenant, "--operation", operation, "--key-stdin"]
        words += ["--attempt", attempt, "--yes", "--reason", reason, "--actor", CTL, *self._world.store_words]
        with tempfile.TemporaryDirectory() as folder:
            if action == "resolve_completed":
                body = Path(folder) / "body"
                body.write_text(response["body"])
                words += ["--status", str(response["status"]), "--body-file", str(body)]
                for name, value in response["headers"].items():
                    words += ["--header", f"{name}: {value}"]
            # It judges leases in a file by its own clock.
            env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
            done = await asyncio.to_thread(
                subprocess.run,
                [*self._world.inside, ctl.PROGRAM, *words],
                input=key,
                capture_output=True,
                text=True,
                timeout=3 * _PATIENCE,
                check=False,
                env={**env, **gateway.clock_env()},
            )
        if done.returncode == 0:
            return "done"
        return next((word for text, word in _CTL_OUTCOMES.items() if text in done.stderr), "maybe")


def _id_of(task: Task) -> str:
    names = [name.encode() for name in task.identity]
    text = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()
