"""The records of a store as data: read from an old build's store, put into a new one of the same schema."""

import contextlib
import datetime
import sqlite3
import time
from pathlib import Path

import psycopg

# What the tables hold that a request meets. The other tables are about background jobs.
SQLITE_TABLES = ("record", "response", "tenant_use")
POSTGRES_TABLES = ("record", "response")
# SQLite has no type for times: milliseconds since 1970.
SQLITE_TIMES = {"lease_until", "created_at", "expires_at", "completed_at", "expired_at", "reconcile_after"}


def read_sqlite(path: Path) -> dict:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return {
            "read_at": _now(),
            "application_id": db.execute("PRAGMA application_id").fetchone()[0],
            "schema_version": db.execute("PRAGMA user_version").fetchone()[0],
            "schema": [sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")],
            "tables": {name: _rows(db.execute(f"SELECT * FROM {name}")) for name in SQLITE_TABLES},
        }


def write_sqlite(data: dict, path: Path) -> None:
    """Makes the file as the old build left it, as if it had been read a minute ago."""
    shift = int((_now() - 60 - data["read_at"]) * 1000)
    with contextlib.closing(sqlite3.connect(path)) as db:
        for statement in data["schema"]:
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {data['application_id']}")
        db.execute(f"PRAGMA user_version = {data['schema_version']}")
        for table, rows in data["tables"].items():
            for row in rows:
                values = {
                    name: value + shift if name in SQLITE_TIMES and value else _value(value)
                    for name, value in row.items()
                }
                marks = ", ".join("?" * len(values))
                db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", [*values.values()])
        db.commit()


def read_postgres(conninfo: str) -> dict:
    with psycopg.connect(conninfo, options="-c timezone=UTC") as db:
        versions = db.execute("SELECT max(version) FROM idempotency.schema_version").fetchone()
        return {
            "read_at": _now(),
            "schema_version": versions[0],
            "tables": {
                name: _rows(db.execute(f"SELECT * FROM idempotency.{name}")) for name in POSTGRES_TABLES
            },
        }


def write_postgres(data: dict, conninfo: str) -> None:
    """Adds the rows to a database of their schema version, as if they had been read a minute ago."""
    shift = datetime.timedelta(seconds=_now() - 60 - data["read_at"])
    with psycopg.connect(conninfo, options="-c timezone=UTC") as db:
        for table, rows in data["tables"].items():
            for row in rows:
                values = {name: _value(value, shift) for name, value in row.items()}
                marks = ", ".join(["%s"] * len(values))
                db.execute(
                    f"INSERT INTO idempotency.{table} ({', '.join(values)}) VALUES ({marks})",
                    [*values.values()],
                )


def _now() -> float:
    return time.time()


def _rows(cursor) -> list[dict]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, map(_as_json, row), strict=True)) for row in cursor.fetchall()]


def _as_json(value):
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, datetime.datetime):
        return {"time": value.isoformat()}
    return value


def _value(value, shift: datetime.timedelta = datetime.timedelta()):
    match value:
        case {"hex": text}:
            return bytes.fromhex(text)
        case {"time": text}:
            return datetime.datetime.fromisoformat(text) + shift
    return value
