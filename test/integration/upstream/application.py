"""What the upstream does with a request, whatever the protocol."""

import asyncio
import itertools
import json

import psycopg

from .behaviour import BEFORE_EFFECT, HTTP2_ONLY, MID_BODY, BadScript, Behaviour, Fault
from .exchange import Exchange, PeerGone, Request, Response
from .recorder import Recorder, digest
from .scripts import HEADER, Scripts


class Application:
    def __init__(self, recorder: Recorder, scripts: Scripts) -> None:
        self._recorder = recorder
        self._scripts = scripts
        self._numbers = itertools.count(1)

    async def run(self, exchange: Exchange) -> None:
        request = exchange.request
        number = next(self._numbers)
        facts = _facts(number, request)
        self._recorder.write(
            "received",
            **facts,
            headers=request.headers,
            authority=request.authority,
            scheme=request.scheme,
        )
        try:
            behaviour = self._scripts.choose(facts["key"], request.path, request.header(HEADER))
            if behaviour.fault in HTTP2_ONLY and request.protocol != "HTTP/2":
                raise BadScript(f"{behaviour.fault.value} needs HTTP/2")
        except BadScript as error:
            self._recorder.write("bad_script", **facts, error=str(error))
            await exchange.respond(Response(500, [], f"bad script: {error}\n".encode(), []))
            return
        try:
            await self._serve(exchange, behaviour, facts)
        except (PeerGone, ConnectionError):
            self._recorder.write("gone", **facts)

    async def _serve(self, exchange: Exchange, behaviour: Behaviour, facts: dict) -> None:
        fault = behaviour.fault
        if fault in BEFORE_EFFECT:
            await self._cut(exchange, fault, facts)
            return
        if exchange.request.header("expect") == "100-continue" and behaviour.send_continue:
            await exchange.interim(100, [])
        body = await exchange.read_body()
        response = _response(behaviour, facts, body)
        if behaviour.transactions:
            response = await self._transact(behaviour, facts) or response
        # The effect comes before the answer, and stays when the answer does not arrive: the hard case.
        self._recorder.write(
            "executed",
            **facts,
            request_sha256=digest(body),
            request_size=len(body),
            request_trailers=exchange.request_trailers,
            status=response.status,
            response_sha256=digest(response.body),
        )
        if behaviour.early_hints:
            await exchange.interim(103, [("link", "</style.css>; rel=preload")])
        await self._pause(exchange, behaviour.delay_ms, behaviour.hold)
        if fault in MID_BODY or behaviour.hold_mid_body:
            await exchange.respond_half(response)
        if behaviour.hold_mid_body:
            await self._pause(exchange, 0, behaviour.hold_mid_body)
        if fault:
            await self._cut(exchange, fault, facts)
            return
        await (exchange.respond_rest if behaviour.hold_mid_body else exchange.respond)(response)
        self._recorder.write("answered", **facts, status=response.status)

    async def _transact(self, behaviour: Behaviour, facts: dict) -> Response | None:
        """A service with a database: nothing but the commit counts, even if the client is gone.

        None: committed. Else what the service answers that cannot commit.
        """
        try:
            async with await psycopg.AsyncConnection.connect(
                behaviour.database, autocommit=True
            ) as connection:
                for index, statements in enumerate(behaviour.transactions, 1):
                    async with connection.transaction():
                        for statement in statements:
                            await connection.execute(
                                statement, {"attempt": int(facts["attempt"]), "key": facts["key"]}
                            )
                        if behaviour.hold_commit and index == len(behaviour.transactions):
                            await self._scripts.hold(behaviour.hold_commit)
                    self._recorder.write("committed", **facts, transaction=index)
        except psycopg.Error as error:
            self._recorder.write("refused", **facts, sqlstate=error.sqlstate, error=str(error))
            return Response(500, [], f"{error.sqlstate}\n".encode(), [])
        return None

    async def _pause(self, exchange: Exchange, delay_ms: int, hold: str | None) -> None:
        async def pause() -> None:
            await asyncio.sleep(delay_ms / 1000)
            if hold:
                await self._scripts.hold(hold)

        tasks = [asyncio.ensure_future(pause()), asyncio.ensure_future(exchange.gone.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        if exchange.gone.is_set():
            raise PeerGone

    async def _cut(self, exchange: Exchange, fault: Fault, facts: dict) -> None:
        self._recorder.write("cut", **facts, fault=fault.value)
        match fault:
            case Fault.REFUSE_STREAM:
                await exchange.refuse()
            case Fault.GOAWAY:
                await exchange.goaway()
            case Fault.HANG_MID_BODY:
                await exchange.gone.wait()
                raise PeerGone
            case Fault.RESET_AFTER_READ | Fault.RESET_MID_BODY:
                await exchange.reset()
            case Fault.CLOSE_BEFORE_READ | Fault.CLOSE_AFTER_READ | Fault.CLOSE_MID_BODY:
                await exchange.close()


def _facts(number: int, request: Request) -> dict:
    return {
        "execution": number,
        "key": request.header("idempotency-key"),
        "attempt": request.header("idempotency-attempt"),
        "recovery_point": request.header("idempotency-recovery-point"),
        "method": request.method,
        "path": request.path,
        "protocol": request.protocol,
    }


def _response(behaviour: Behaviour, facts: dict, request_body: bytes) -> Response:
    headers = list(behaviour.headers)
    headers.append(("x-execution", str(facts["execution"])))
    if behaviour.body is not None:
        body = behaviour.body.encode()
    elif behaviour.body_hex is not None:
        body = bytes.fromhex(behaviour.body_hex)
    elif behaviour.body_size is not None:
        pattern = b"0123456789abcdef"
        body = (pattern * (behaviour.body_size // len(pattern) + 1))[: behaviour.body_size]
    elif behaviour.status in (204, 304):
        body = b""
    else:
        # Different for every execution, so that a replay cannot be taken for a second run.
        body = json.dumps({**facts, "request_sha256": digest(request_body)}).encode() + b"\n"
        if not any(name.lower() == "content-type" for name, _ in headers):
            headers.append(("content-type", "application/json"))
    return Response(behaviour.status, headers, body, list(behaviour.trailers), behaviour.framing)
