"""A PostgreSQL database with the schema in it, and a look at its records that does not go through Envoy."""

import dataclasses

from .ctl import migrate
from .postgres import Postgres

_STATES = {1: "in_progress", 2: "completed", 3: "failed_retryable", 4: "unknown", 5: "expired"}


@dataclasses.dataclass(frozen=True)
class Record:
    tenant: str
    operation: str
    key: str
    state: str
    attempt: int
    status: int | None
    last_error: str | None


class Records:
    def __init__(self, server: Postgres, database: str) -> None:
        self.server = server
        self.database = database
        migrate(self.conninfo())

    def conninfo(self, port: int | None = None) -> str:
        """`port`: that of a proxy in between."""
        return self.server.conninfo(self.database, port)

    def store(self, port: int | None = None, **more) -> dict:
        """The `store` of a filter config. Patient, so that a busy machine does not look like a failure."""
        postgres = {"conninfo": self.conninfo(port), "connections": 2, "timeout": "5s", **more}
        return {"postgres": postgres}

    def all(self, key: str | None = None) -> list[Record]:
        """Those of a key, written as in the header; all by default."""
        rows = self.server.query(
            "SELECT tenant, operation, key, state, attempt, status, last_error FROM idempotency.record "
            "ORDER BY tenant, operation, key",
            database=self.database,
        )
        records = [
            Record(*(bytes(value).decode() for value in row[:3]), _STATES[row[3]], *row[4:]) for row in rows
        ]
        return [record for record in records if key in (None, f'"{record.key}"')]

    def one(self, key: str) -> Record:
        (record,) = self.all(key)
        return record

    def delete(self, key: str) -> None:
        self.server.query(
            "DELETE FROM idempotency.record WHERE key = %s", key.strip('"').encode(), database=self.database
        )
