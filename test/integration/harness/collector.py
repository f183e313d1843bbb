"""A collector of Envoy's spans."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .config import EnvoyConfig


class Collector:
    """Takes spans as Zipkin's and OpenTelemetry's collectors do, all of them in Zipkin's words."""

    def __init__(self) -> None:
        self.spans: list[dict] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self._body()
                zipkin = self.path == _ZIPKIN_PATH
                collector.spans += json.loads(body) if zipkin else _spans_of(body)
                self.send_response(202 if zipkin else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def _body(self) -> bytes:
                if length := self.headers["content-length"]:
                    return self.rfile.read(int(length))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def log_message(self, *_) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def trace(
        self, config: EnvoyConfig, *managers: dict, tracer: str = "zipkin", sampled: int = 100, **fields
    ) -> None:
        """Envoy sends the spans of these connection managers here: `sampled` percent of them.

        `fields` are more of the tracer's.
        """
        config.cluster("collector", self.port)
        for manager in managers:
            manager["tracing"] = {
                "random_sampling": {"value": sampled},
                "provider": {
                    "name": f"envoy.tracers.{tracer}",
                    "typed_config": {**_TRACERS[tracer], **fields},
                },
            }


_ZIPKIN_PATH = "/api/v2/spans"
_TYPE = "type.googleapis.com/envoy.config.trace.v3."
_TRACERS = {
    "zipkin": {
        "@type": _TYPE + "ZipkinConfig",
        "collector_cluster": "collector",
        "collector_endpoint": _ZIPKIN_PATH,
        "collector_endpoint_version": "HTTP_JSON",
    },
    "opentelemetry": {
        "@type": _TYPE + "OpenTelemetryConfig",
        "http_service": {
            "http_uri": {"uri": "http://collector/v1/traces", "cluster": "collector", "timeout": "5s"}
        },
    },
}


# --- OpenTelemetry's messages, as far as the tests read them


def _spans_of(request: bytes) -> list[dict]:
    """resource_spans, scope_spans, spans: 1, 2, 2."""
    resources = (value for number, value in _fields(request) if number == 1)
    scopes = (value for resource in resources for number, value in _fields(resource) if number == 2)
    return [_span(value) for scope in scopes for number, value in _fields(scope) if number == 2]


def _span(message: bytes) -> dict:
    fields = list(_fields(message))
    ids = {number: value.hex() for number, value in fields if number in (1, 2, 4)}
    span = {"traceId": ids[1], "id": ids[2], "tags": dict(_tag(v) for number, v in fields if number == 9)}
    return {**span, "parentId": ids[4]} if ids.get(4) else span


def _tag(attribute: bytes) -> tuple[str, str]:
    key_value = dict(_fields(attribute))
    return key_value[1].decode(), dict(_fields(key_value[2])).get(1, b"").decode()


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and value of each field of a protobuf message that has bytes."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            _, place = _varint(message, place)
        elif kind == 2:
            size, place = _varint(message, place)
            yield number, message[place : place + size]
            place += size
        else:
            place += {1: 8, 5: 4}[kind]


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
