"""The control port: tests add rules and release held requests here."""

import json

from .behaviour import BadScript
from .exchange import Exchange, Response
from .scripts import Scripts


async def run(exchange: Exchange, scripts: Scripts) -> None:
    body = await exchange.read_body()
    status, answer = 200, {}
    try:
        match exchange.request.method, exchange.request.path:
            case "POST", "/script":
                scripts.add(json.loads(body))
            case "DELETE", "/script":
                scripts.clear()
            case "POST", "/release":
                scripts.release(json.loads(body)["name"])
            case "GET", "/held":
                answer = scripts.held()
            case _:
                status, answer = 404, {"error": "no such call"}
    except (BadScript, KeyError, ValueError) as error:
        status, answer = 400, {"error": str(error)}
    await exchange.respond(Response(status, [], json.dumps(answer).encode(), []))
