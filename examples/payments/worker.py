"""The outbox worker: has the provider make the charges that payments.orders wait for.

worker.py PROVIDER_URL

The connection to the database comes from libpq's variables (PGHOST, …). Any number of workers may run. Each
step is safe to repeat, because a worker may be killed after any of them:

  1. Claim a row of the outbox, until `due_at`. If this worker dies, another one takes the row then.
  2. Call the provider, with an Idempotency-Key that is always the same for this charge.
  3. Record the provider's id in the row. From then on, nobody asks the provider again.
  4. Settle the order and mark the row done, in one transaction.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from typing import NamedTuple
from urllib.parse import quote

import psycopg
from pause import pause

TIMEOUT = 2.0  # Of a call to the provider.
CLAIM = 3.0  # How long a row is this worker's: longer than a call.
MAX_TRIES = 5
BACK_OFF = 0.5  # After the first failure; twice as long after each further one.


class Row(NamedTuple):
    id: int
    tenant: bytes
    operation: bytes
    key: bytes
    payload: dict
    reference: str | None
    tries: int

    @property
    def provider_key(self) -> str:
        """The client's key, with what makes it unique among all tenants. It depends on nothing else: even if
        the database is restored from a backup and the request runs again, the provider knows the charge."""
        return "/".join(quote(bytes(part), safe="") for part in (self.tenant, self.operation, self.key))


class Failure(Exception):
    """The provider did not say what became of the charge. `final`: asking again will not help."""

    def __init__(self, code: str, *, final: bool = False) -> None:
        super().__init__(code)
        self.final = final


def claim(database: psycopg.Connection) -> Row | None:
    row = database.execute(
        """
        UPDATE idempotency.outbox SET tries = tries + 1, due_at = now() + make_interval(secs => %s)
        WHERE id = (
          SELECT id FROM idempotency.outbox
          WHERE topic = 'charge' AND done_at IS NULL AND dead_at IS NULL AND due_at <= now()
          ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING id, tenant, operation, key, payload, reference, tries
        """,
        [CLAIM],
    ).fetchone()
    return Row(*row) if row else None


def charge(provider: str, row: Row) -> str:
    """The provider's id of the charge, or `declined`."""
    request = urllib.request.Request(
        f"{provider}/charges",
        json.dumps(row.payload).encode(),
        {"content-type": "application/json", "idempotency-key": row.provider_key},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)["id"]
    except urllib.error.HTTPError as error:
        if error.code == 402:
            return "declined"
        # A key that was used for a different charge, or a request that the provider will never accept.
        raise Failure(f"status_{error.code}", final=error.code in (400, 401, 403, 422)) from None
    except (OSError, ValueError, KeyError):
        raise Failure("no_answer") from None


def settle(database: psycopg.Connection, row: Row, reference: str) -> None:
    with database.transaction():
        declined = reference == "declined"
        database.execute(
            "UPDATE payments.orders SET state = %s, charge = %s WHERE id = %s",
            ["declined" if declined else "paid", None if declined else reference, row.payload["order"]],
        )
        database.execute("UPDATE idempotency.outbox SET done_at = now() WHERE id = %s", [row.id])


def fail(database: psycopg.Connection, row: Row, failure: Failure) -> None:
    dead = failure.final or row.tries >= MAX_TRIES
    changed = database.execute(
        """
        UPDATE idempotency.outbox SET last_error = %s, due_at = now() + make_interval(secs => %s),
          dead_at = CASE WHEN %s THEN now() END
        WHERE id = %s AND done_at IS NULL
        """,
        [str(failure), BACK_OFF * 2 ** (row.tries - 1), dead, row.id],
    )
    if dead and changed.rowcount:  # Otherwise another worker has overtaken this one, and done it.
        # The charge may have been made: only the provider knows. To try again: dead_at = NULL, tries = 0.
        print(
            f"worker: ALERT: dead letter: charge of order {row.payload['order']}, row {row.id} of the outbox,"
            f" after {row.tries} tries: {failure}",
            flush=True,
        )


def work(database: psycopg.Connection, provider: str) -> bool:
    """Does one row; false if none is due."""
    row = claim(database)
    if not row:
        return False
    pause("worker.claimed")
    reference = row.reference
    if not reference:
        try:
            # Workers that die count as well: a row that kills them does not do so for ever.
            if row.tries > MAX_TRIES:
                raise Failure("too_many_tries")
            reference = charge(provider, row)
        except Failure as failure:
            fail(database, row, failure)
            return True
        pause("worker.charged")
        database.execute("UPDATE idempotency.outbox SET reference = %s WHERE id = %s", [reference, row.id])
        pause("worker.recorded")
    settle(database, row, reference)
    pause("worker.settled")
    return True


def main() -> None:
    print("worker: started", flush=True)
    while True:
        try:
            with psycopg.connect(autocommit=True) as database:
                while True:
                    if not work(database, sys.argv[1]):
                        time.sleep(0.1)
        except psycopg.OperationalError as error:
            print(f"worker: {error}".rstrip(), flush=True)
            time.sleep(0.5)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
