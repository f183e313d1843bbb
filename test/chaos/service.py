"""The upstream: a service that does something which must not be done twice, and writes down that it did.

    python service.py PORT LOG SEED [CONNINFO]

The log is append-only and survives crashes of this process. What a request gets is chosen by its tenant, key
and attempt, so a retry that runs again may end otherwise. A request may ask for a behaviour of its own by the
header x-service, a JSON object (see below).

The reconciler and operators ask what became of an attempt: GET /outcome?operation=…&tenant=…&key=…&attempt=…
&by=…&absences=N. An attempt that is not here gets 404 for the first N times. Then it is refused from then on,
and said not to have run.

What a request may ask for:

    work      seconds of work
    status    of the answer
    crash     "before" or "after" the execution: this process ends at once, without an answer
    until     time.monotonic() from which on a crash is no longer wished
    declares  what it says of the outcome, in the header idempotency-outcome
    location  where a redirect leads to
    plays     a list of such objects: for the first time that it gets this attempt, for the second time, …

What it does on the routes of its own transactions, in the database that CONNINFO names, is in own_work.py.

A proxy may send one attempt more than once, and a redirect brings it back by another path: each time is an
execution.
"""

import asyncio
import hashlib
import json
import os
import random
import sys
import time
import urllib.parse
from collections import Counter
from pathlib import Path

import plan
from attempts import Attempts, Said
from own_work import NoAnswer, OwnWork

# Requests for these paths are sent on to <path>/next, with this chance.
_HOPS, _REDIRECTS = ("/hop", "/detached_hop"), 0.5
# How many of the reconciler's questions get no useful answer, and how many get one too late.
_USELESS, _LATE = 0.03, 0.03


class Service:
    def __init__(self, log: str, seed: str, conninfo: str | None = None) -> None:
        self._seed = seed
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        # Unique over all lives of this process.
        self._number = time.monotonic_ns() // 1000 * 1000
        self._arrivals: Counter[str] = Counter()  # By attempt.
        self._questions: Counter[str] = Counter()  # By attempt.
        self._own = OwnWork(conninfo, seed, self.write, self._crash_if_wished) if conninfo else None
        self._attempts = Attempts(Path(log))
        for attempt, number in self._attempts.unfinished():
            self.write("executed", number=number)
            self._attempts.finish(attempt)

    def write(self, kind: str, **fields) -> None:
        line = json.dumps({"at": time.monotonic_ns(), "type": kind, **fields}) + "\n"
        os.write(self._log, line.encode())

    async def run(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, list, bytes]:
        wish = json.loads(headers.get("x-service", "{}"))
        attempt = headers.get("idempotency-attempt", "")
        operation = path.split("/")[1]
        kept = operation in plan.AUDITED
        identity = {
            "tenant": headers.get("x-tenant", ""),
            "operation": operation,
            "key": headers.get("idempotency-key", "").strip('"'),
        }
        if kept and self._attempts.is_refused(attempt):
            self.write("turned_away", **identity, attempt=attempt)
            return 503, [["idempotency-outcome", "not-run"]], b""
        if "plays" in wish:
            wish = wish["plays"][min(self._arrivals[attempt], len(wish["plays"]) - 1)]
            self._arrivals[attempt] += 1
        self._number += 1
        number = self._number
        facts = {
            "number": number,
            **identity,
            "path": path,
            "payload": hashlib.sha256(headers.get("host", "").encode() + b"\n" + body).hexdigest(),
            "attempt": attempt,
            "call": headers.get("x-call"),
        }
        if operation in plan.OWN:
            return await self._own.run(facts, headers, wish)
        self._crash_if_wished("before", wish)
        chance = random.Random(f"{self._seed} {facts['tenant']} {facts['key']} {facts['attempt']}")
        status = chance.choices(plan.STATUSES, plan.STATUS_WEIGHTS)[0]
        work = chance.uniform(*chance.choices(plan.WORK, plan.WORK_WEIGHTS)[0])
        size = chance.randint(*chance.choices(plan.SIZES, plan.SIZE_WEIGHTS)[0])
        location = wish.get("location")
        if not wish and path in _HOPS and chance.random() < _REDIRECTS:
            status, location = 307, f"{path}/next"
        status, work = wish.get("status", status), wish.get("work", work)
        answer = json.dumps({**facts, "pad": "x" * size})
        own = [["content-type", "application/json"], ["x-execution", str(number)], ["x-size", str(size)]]
        if location:
            own.append(["location", f"http://{headers['host']}{location}"])
        declared = wish.get("declares")
        execution = {**facts, "status": status, "headers": own, "body": answer, "declares": declared}
        self.write("execution", **execution)
        if kept:
            self._attempts.begin(execution)
        await asyncio.sleep(work)
        self.write("executed", number=number)
        if kept:
            self._attempts.finish(attempt)
        self._crash_if_wished("after", wish)
        # The filter takes it off: it is not among the headers that a client must get.
        declaration = [["idempotency-outcome", declared]] if declared else []
        return status, [*own, *declaration], answer.encode()

    async def tell(self, query: dict[str, str]) -> tuple[int, list, bytes]:
        """What became of an attempt."""
        attempt = query["attempt"]
        self._questions[attempt] += 1
        facts = {name: query[name] for name in ("tenant", "operation", "key", "attempt", "by")}
        about = ["x-about", facts["key"]]
        chance = random.Random(f"{self._seed} {attempt} {self._questions[attempt]}").random()
        if facts["by"] == "operator":
            chance = 0.5  # Neither.
        if chance < _USELESS:
            self.write("asked", **facts, said="useless")
            return 503, [about], b""
        said, answer = self._attempts.ask(attempt, int(query["absences"]))
        self.write("asked", **facts, said=said.value)
        if chance > 1 - _LATE:
            await asyncio.sleep(1.5 * plan.ASK_TIMEOUT)
        match said:
            case Said.ABSENT:
                return 404, [about], b""
            case Said.REFUSED:
                return 200, [about, ["idempotency-outcome", "not-run"]], b""
            case Said.RUNNING:
                return 409, [about], b""
        if answer["status"] in (*plan.RETRYABLE, *plan.RELEASED):
            return 200, [about, ["idempotency-outcome", "retryable"]], b""
        return 200, [about], json.dumps(answer).encode()

    @staticmethod
    def _crash_if_wished(when: str, wish: dict) -> None:
        if wish.get("crash") == when and time.monotonic() < wish["until"]:
            os._exit(9)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        start, *lines = head[:-4].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        # Work that has begun goes on, also when the caller leaves.
        path, _, query = start.split(" ")[1].partition("?")
        if path == plan.OUTCOME:
            work = self.tell(dict(urllib.parse.parse_qsl(query)))
        else:
            work = self.run(path, headers, body)
        try:
            status, own, answer = await asyncio.shield(work)
        except NoAnswer:
            return False
        fields = [*own, ["content-length", str(len(answer))]]
        text = "".join(f"{name}: {value}\r\n" for name, value in fields)
        writer.write(f"HTTP/1.1 {status} Answer\r\n{text}\r\n".encode() + answer)
        await writer.drain()
        return True


async def main() -> None:
    port, log, seed, *conninfo = sys.argv[1:]
    service = Service(log, seed, *conninfo)
    server = await asyncio.start_server(service.serve, "127.0.0.1", int(port), backlog=1024, limit=1 << 20)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
