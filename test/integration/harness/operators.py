"""Operators: clients of the operator filter's API."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable

import httpx

from .config import OPERATORS
from .envoy import Envoy

ACTOR = "x-operator"
PREFIX = "/idempotency/v1"


class Operator:
    """A person with a name, as the listener's authentication would set it in a header."""

    def __init__(self, envoy: Envoy, name: str | None = "alice", **options) -> None:
        headers = {ACTOR: name} if name is not None else {}
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{envoy.port_of(OPERATORS)}", headers=headers, timeout=30, **options
        )

    def get(self, path: str, **query) -> dict:
        response = self.http.get(PREFIX + path, params=query)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/json"
        assert response.headers["cache-control"] == "no-store"
        return response.json()

    def post(self, path: str, body: dict, **options) -> httpx.Response:
        return self.http.post(PREFIX + path, json=body, **options)

    def records(self, **query) -> list[dict]:
        return self.get("/records", **query)["records"]

    def record(self, key: str) -> dict:
        """The only record with this key, as the header has it."""
        (record,) = self.records(key=json.loads(key))
        return record

    def change(self, record: dict, change: str, **body) -> httpx.Response:
        return self.post(
            f"/records/{record['id']}/{change}",
            {"attempt": record["attempt"], "reason": "case 12", **body},
        )


def completed(body: str = '{"payment": 1}', status: int = 201, **more) -> dict:
    """The members of a resolution as completed."""
    headers = [{"name": "content-type", "value": "application/json"}]
    return {
        "outcome": "completed",
        "response": {"status": status, "headers": headers, "body": body},
        **more,
    }


NOT_RUN = {"outcome": "not_run"}


def generic(secret: str, body: bytes, at: float | None = None) -> dict[str, str]:
    """The headers of a webhook in the format GENERIC."""
    stamp = str(int(time.time() if at is None else at))
    return {
        "idempotency-webhook-timestamp": stamp,
        "idempotency-webhook-signature": _hex(secret, f"{stamp}.".encode() + body),
    }


def stripe(secret: str, body: bytes, at: float | None = None) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    old = "0" * 64  # While a secret is rotated, there are two signatures.
    return {"stripe-signature": f"t={stamp},v1={old},v1={_hex(secret, f'{stamp}.'.encode() + body)},v0=x"}


def standard(secret: str, body: bytes, at: float | None = None) -> dict[str, str]:
    """Standard Webhooks: the secret is whsec_ and base64."""
    stamp = str(int(time.time() if at is None else at))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"msg_1.{stamp}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _hex(secret: str, text: bytes) -> str:
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def send_webhook(
    envoy: Envoy,
    path: str,
    event: dict,
    sign: Callable[[bytes], dict[str, str]] = lambda body: {},
) -> httpx.Response:
    body = json.dumps(event).encode()
    headers = {"content-type": "application/json", **sign(body)}
    url = f"http://127.0.0.1:{envoy.port_of(OPERATORS)}{path}"
    return httpx.post(url, content=body, headers=headers, timeout=30)
