"""A payment provider, as seen from outside: it makes one charge per Idempotency-Key and never forgets one.

provider.py FILE PORT    the file is its ledger (SQLite); PORT 0 lets the system choose; the first line of the
                         output is the port

POST /charges {"order": 1, "amount": 10, "card": "…"} charges the card. The card "declined" is declined,
the card "unavailable" always gets a 503. GET /charges lists all charges.
"""

import contextlib
import json
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pause import pause


class Ledger:
    def __init__(self, path: str) -> None:
        self._path = path
        with self._open() as file:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute(
                "CREATE TABLE IF NOT EXISTS charge (id INTEGER PRIMARY KEY, key TEXT UNIQUE, "
                "reference INTEGER NOT NULL, amount INTEGER NOT NULL, card TEXT NOT NULL)"
            )

    @contextlib.contextmanager
    def _open(self):
        file = sqlite3.connect(self._path, timeout=5)
        try:
            with file:
                yield file
        finally:
            file.close()

    def charge(self, key: str | None, order: int, amount: int, card: str) -> str | None:
        """The charge's id; None: the key was used for another one. Without a key, it is a new one."""
        with self._open() as file:
            file.execute(
                "INSERT OR IGNORE INTO charge (key, reference, amount, card) VALUES (?, ?, ?, ?)",
                [key, order, amount, card],
            )
            if key is None:
                return _name(file.execute("SELECT last_insert_rowid()").fetchone()[0])
            query = "SELECT id, amount, card FROM charge WHERE key = ?"
            id, *charged = file.execute(query, [key]).fetchone()
        return _name(id) if charged == [amount, card] else None

    def charges(self) -> list[dict]:
        with self._open() as file:
            rows = file.execute("SELECT id, key, reference, amount FROM charge ORDER BY id").fetchall()
        return [
            {"id": _name(id), "key": key, "order": order, "amount": amount} for id, key, order, amount in rows
        ]


def _name(id: int) -> str:
    return f"ch_{id}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(200, {"charges": self.server.ledger.charges()})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        order, amount, card = request["order"], request["amount"], request["card"]
        if card == "unavailable":
            return self._answer(503, {"error": "try again later"})
        if card == "declined":
            return self._answer(402, {"error": "the card was declined"})
        pause("provider.received")
        charge = self.server.ledger.charge(self.headers.get("idempotency-key"), order, amount, card)
        pause("provider.charged")
        if not charge:
            return self._answer(422, {"error": "the key was used for a different charge"})
        return self._answer(201, {"id": charge})

    def _answer(self, status: int, value: dict) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        try:
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # The worker was killed.

    def log_message(self, *_) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    ledger: Ledger


def main() -> None:
    server = Server(("127.0.0.1", int(sys.argv[2])), Handler)
    server.ledger = Ledger(sys.argv[1])
    print(server.server_address[1], flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
