"""The Envoy of an upgrade test, and how a request is written down, so that it stays as it was."""

import dataclasses

from harness.config import EnvoyConfig
from harness.wire import Http1Connection, WireResponse

TENANT = "x-tenant-id"
# Names of routes and what their policies say about the fingerprint: words that the first build knows, too.
ROUTES = {
    "json": {},
    "counted": {"headers": ["x-source", "x-absent"]},
    "mine": {"principal": {"header": "x-user"}},
    "raw": {"mode": "RAW"},
    "selected": {"mode": "SELECTED", "pointers": ["/amount", "/tip"]},
    "excluding": {"exclude_pointers": ["/sent_at"]},
    "none": {"mode": "NONE"},
}


@dataclasses.dataclass(frozen=True)
class Request:
    """A request as it goes over the wire, without its key."""

    path: str
    body: bytes = b'{"amount": 100, "currency": "EUR"}'
    method: str = "POST"
    host: str = "api.example.com"
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)

    def changed(self, **fields) -> "Request":
        return dataclasses.replace(self, **fields)

    def begin(self, connection: Http1Connection, key: str, *more: tuple[str, str]) -> None:
        headers = [(TENANT, "acme"), ("idempotency-key", f'"{key}"'), *self.headers, *more]
        connection.start(self.method, self.path, headers, self.body, host=self.host)

    def send(self, port: int, key: str, *more: tuple[str, str]) -> WireResponse:
        with Http1Connection(port) as connection:
            self.begin(connection, key, *more)
            return connection.read_response()

    def to_json(self) -> dict:
        return {**dataclasses.asdict(self), "body": self.body.hex()}

    @classmethod
    def from_json(cls, fields: dict) -> "Request":
        headers = tuple((name, value) for name, value in fields["headers"])
        return cls(**{**fields, "body": bytes.fromhex(fields["body"]), "headers": headers})


def config_for(store: dict, upstream_port: int) -> EnvoyConfig:
    config = EnvoyConfig.quickstart().for_test(store).upstream(upstream_port)
    config.filter(tenant={"sources": [{"header": TENANT}]})
    for name, fingerprint in ROUTES.items():
        config.route(f"/{name}", {"enforcement": "REQUIRED", "fingerprint": fingerprint})
    return config
