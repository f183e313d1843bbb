"""The payment service: POST /payments {"amount": 10, "card": "…"} makes an order, a charge and a receipt.

service.py PORT    0 lets the system choose; the first line of the output is the port

The connection to the database comes from libpq's variables (PGHOST, …). A payment has three phases, and a run
that follows a crash starts where the last one got to:

  1. The order and the charge's row in the outbox, in one transaction with the checkpoint.
  2. The charge. worker.py calls the provider; this service waits for the order to be settled.
  3. The receipt, in one transaction with complete(), which stores the response.

Each run that the filter allows is an attempt, and each transaction names its attempt. If the filter has
meanwhile given the key to another attempt, the transaction fails, and nothing of it remains.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg
from pause import pause
from psycopg.types.json import Jsonb

# The recovery point of phase 1.
ORDERED = "ordered"
# How long a request waits for the charge. Shorter than the route's timeout.
WAIT = 5.0

# What idempotency.begin_work and its kin report.
NOT_OURS = "ID001"
COMPLETED = "ID002"


class Response:
    def __init__(self, status: int, value: dict, **headers: str) -> None:
        self.status = status
        self.headers = {"content-type": "application/json", **headers}
        self.body = json.dumps(value).encode() + b"\n"


def pay(attempt: int, amount: int, card: str) -> Response:
    with psycopg.connect(autocommit=True) as database:
        order = order_of(database, attempt, amount, card)
        pause("service.ordered")
        state, charge = settled(database, order)
        if state == "open":
            # Not a 202: that would be stored as the result. After this answer, the next request with the key
            # goes on from phase 2. The worker keeps trying meanwhile. It does not complete the record itself,
            # since it does not know which attempt holds it by then.
            return Response(
                503,
                {"error": "the payment is being processed; send the request again with the same key"},
                **{"retry-after": "1", "idempotency-outcome": "retryable"},
            )
        pause("service.settled")
        response = finish(database, attempt, order, state, amount, charge)
    pause("service.finished")
    return response


def order_of(database: psycopg.Connection, attempt: int, amount: int, card: str) -> int:
    """Phase 1, unless an earlier attempt has done it: the order's id."""
    with database.transaction():
        # Locks the record until the end of the transaction. Its recovery point is what counts: the one in the
        # request's header was read before the lock.
        tenant, operation, key, recovery_point = database.execute(
            "SELECT tenant, operation, key, recovery_point FROM idempotency.begin_work(%s)", [attempt]
        ).fetchone()
        identity = [tenant, operation, key]
        if recovery_point == ORDERED:
            # The latest: after its record has expired, a key can be used for another payment, and the order
            # of the earlier one refers to the record until the reaper has deleted it.
            query = (
                "SELECT id FROM payments.orders WHERE (tenant, operation, key) = (%s, %s, %s)"
                " ORDER BY id DESC LIMIT 1"
            )
            return database.execute(query, identity).fetchone()[0]
        (order,) = database.execute(
            "INSERT INTO payments.orders (amount, card, tenant, operation, key)"
            " VALUES (%s, %s, %s, %s, %s) RETURNING id",
            [amount, card, *identity],
        ).fetchone()
        database.execute(
            "SELECT idempotency.enqueue(%s, 'charge', %s)",
            [attempt, Jsonb({"order": order, "amount": amount, "card": card})],
        )
        database.execute("SELECT idempotency.checkpoint(%s, %s)", [attempt, ORDERED])
        pause("service.ordering")
    return order


def settled(database: psycopg.Connection, order: int) -> tuple[str, str | None]:
    """Phase 2, which is the worker's: waits for it, outside of any transaction."""
    end = time.monotonic() + WAIT
    while True:
        query = "SELECT state, charge FROM payments.orders WHERE id = %s"
        state, charge = database.execute(query, [order]).fetchone()
        if state != "open" or time.monotonic() > end:
            return state, charge
        time.sleep(0.05)


def finish(
    database: psycopg.Connection, attempt: int, order: int, state: str, amount: int, charge: str | None
) -> Response:
    """Phase 3: the receipt and the response, or neither."""
    with database.transaction():
        if state == "declined":
            response = Response(402, {"order": order, "error": "the card was declined"})
        else:
            (receipt,) = database.execute(
                "INSERT INTO payments.receipts (order_id, amount, charge) VALUES (%s, %s, %s) RETURNING id",
                [order, amount, charge],
            ).fetchone()
            response = Response(201, {"order": order, "charge": charge, "receipt": receipt})
        # Checks the attempt as begin_work does. After the commit, this is the response of every retry,
        # whatever becomes of this process and of the connection to Envoy.
        database.execute(
            "SELECT idempotency.complete(%s, %s, %s, %s)",
            [attempt, response.status, Jsonb(response.headers), response.body],
        )
        pause("service.finishing")
    return response


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            response = self._respond(body)
        except psycopg.Error as error:
            response = self._failure(error)
        self.send_response(response.status)
        for name, value in {**response.headers, "content-length": str(len(response.body))}.items():
            self.send_header(name, value)
        try:
            self.end_headers()
            self.wfile.write(response.body)
        except OSError:
            pass  # Envoy is gone. The next request with the key gets the response.

    def _respond(self, body: bytes) -> Response:
        try:
            request = json.loads(body)
            amount, card = int(request["amount"]), str(request["card"])
        except (ValueError, KeyError, TypeError):
            # Nothing has been done: no transaction is needed for it.
            return Response(400, {"error": 'a payment is {"amount": NUMBER, "card": TEXT}'})
        attempt = self.headers.get("idempotency-attempt")
        if attempt is None:
            # The route has no policy, or somebody calls this service around Envoy.
            return Response(500, {"error": "this service requires a protected route"})
        pause("service.received")
        return pay(int(attempt), amount, card)

    def _failure(self, error: psycopg.Error) -> Response:
        print(f"service: {error.sqlstate or 'no database'}: {str(error).partition(chr(10))[0]}", flush=True)
        later = {"retry-after": "1"}
        if error.sqlstate in (NOT_OURS, COMPLETED):
            # Another attempt has the key, or this one was delivered twice. What this run says must not count:
            # `unknown` never frees a key. The client tries again and gets the response that counts.
            later["idempotency-outcome"] = "unknown"
        # Anything else has rolled back, or it has committed and the filter finds it: a 503 may be retried.
        return Response(503, {"error": "try again with the same key"}, **later)

    def log_message(self, *_) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def main() -> None:
    server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_address[1], flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
