"""A tiny payment service: every POST that reaches it makes a payment. Standard library only.

upstream.py PORT    0 lets the system choose; the first line of the output is the port

A payment takes a tenth of a second; a transfer, a refund, and a payment below /payments/slow three.
"""

import itertools
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_payments = itertools.count(1)
_SLOW = ("/transfers", "/refunds", "/payments/slow")


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # Twenty clients may connect at once.
    daemon_threads = True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(200, {"hello": self.path})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        number = next(_payments)
        key = self.headers.get("idempotency-key", "none")
        tenant = self.headers.get("x-tenant")
        print(
            f"upstream: executed #{number} {self.command} {self.path} key={key}"
            + (f" tenant={tenant}" if tenant else ""),
            flush=True,
        )
        time.sleep(3 if self.path.startswith(_SLOW) else 0.1)
        self._answer(201, {"payment": number, "request": body.decode(errors="replace")})

    do_PATCH = do_POST

    def _answer(self, status: int, value: dict) -> None:
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass  # Envoy has timed out.

    def log_message(self, *_) -> None:
        pass  # One line per execution is enough.


def main() -> None:
    server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_address[1], flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
