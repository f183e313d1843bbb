"""A peer for bench/run: idemkit's middleware around the smallest ASGI service, run by uvicorn.

STORE names the store: a postgresql:// or a redis:// address. POST /…/N answers 201 with N bytes of JSON.
"""

import os

from idemkit import HttpConfig, IdempotencyMiddleware, PostgresBackend, RedisBackend


def _answer(size: int) -> bytes:
    return b'{"id":"' + b"x" * max(0, size - 9) + b'"}'


async def service(scope, receive, send) -> None:
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    while (await receive()).get("more_body"):
        pass
    body = _answer(int(scope["path"].rpartition("/")[2]))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_store = os.environ["STORE"]
_backend = (PostgresBackend if _store.startswith("postgresql:") else RedisBackend).from_url(_store)
app = IdempotencyMiddleware(service, backend=_backend, config=HttpConfig(scope=lambda request: "acme"))
