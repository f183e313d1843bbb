"""The SQL functions with which services settle their requests in their own transactions: who may call them,
what they refuse, what they store, and who waits for whom. What depends on PostgreSQL runs on each major."""

import json
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from harness import ctl
from harness.paths import DEFAULT_POSTGRES, POSTGRES_MAJORS, built
from harness.postgres import Postgres
from harness.store_driver import StoreDriver, new_attempt
from harness.wait import wait_for
from psycopg import errors
from psycopg.types.json import Jsonb

LOST, COMPLETED, NOT_OPTED_IN, BAD_ARGUMENT, REACHED = "ID001", "ID002", "ID003", "ID004", "ID005"
IN_PROGRESS, DONE, FAILED, UNKNOWN, EXPIRED = 1, 2, 3, 4, 5
# What a caller sends, with the attempt as its only parameter.
CALLS = {
    "begin_work": "SELECT * FROM idempotency.begin_work(%s)",
    "checkpoint": "SELECT idempotency.checkpoint(%s, 'charged')",
    "complete": "SELECT idempotency.complete(%s, 201)",
    "enqueue": "SELECT idempotency.enqueue(%s, 'mail', '{}')",
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


class Database:
    """A migrated database with a login role for a service, one for a worker, and one for the module."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.name = server.create_database()
        ctl.migrate(self.conninfo("postgres"))
        self._keys = 0
        self._own = server.connect(self.name)
        for role, member in (("service", "upstream"), ("worker", "worker"), ("gateway", "filter")):
            server.query(f"CREATE ROLE {role} LOGIN IN ROLE idempotency_{member}")

    def conninfo(self, user: str) -> str:
        return self.server.conninfo(self.name, user=user)

    def query(self, sql: str, *parameters) -> list[tuple]:
        """As the owner."""
        cursor = self._own.execute(sql, parameters or None)
        return cursor.fetchall() if cursor.description else []

    @contextmanager
    def session(self, user: str = "service", *, autocommit: bool = False) -> Iterator[psycopg.Connection]:
        """Rolled back at the end, unless it was committed."""
        connection = psycopg.connect(self.conninfo(user), autocommit=autocommit)
        try:
            yield connection
        finally:
            connection.close()

    def call(self, sql: str, *parameters) -> tuple | None:
        """By a service, in a transaction of its own."""
        with self.session(autocommit=True) as session:
            return session.execute(sql, parameters).fetchone()

    def new_key(self) -> str:
        self._keys += 1
        return f"key-{self._keys}"

    def claim(
        self,
        key: str | None = None,
        *,
        own: bool = True,
        age: str = "0 s",
        ttl: str = "1 day",
        lease: str = "30 s",
    ) -> int:
        """A record as the module's claim makes it; its attempt. `age`: how long ago."""
        attempt = new_attempt()
        self.query(
            """INSERT INTO idempotency.record (tenant, operation, key, attempt, state, on_lease_expired,
                 fingerprint, lease_until, expires_at, reap_at, claimed_at, created_at, own_transaction)
               SELECT 'tenant', 'operation', %b, %s, 1, 1, 'f', t + %s::interval, t + %s::interval,
                 t + %s::interval, t, t, %s FROM (SELECT now() - %s::interval AS t) AS claimed""",
            (key or self.new_key()).encode(), attempt, lease, ttl, ttl, own, age,
        )  # fmt: skip
        return attempt

    def make_unknown(self, attempt: int) -> None:
        """As the module's statement does."""
        self.query(
            """WITH done AS (UPDATE idempotency.record SET state = 4, last_error = 'lost',
                 reconcile_after = now() WHERE attempt = %s RETURNING *)
               INSERT INTO idempotency.unsettled (tenant, operation, key, attempt, since, next_try)
               SELECT tenant, operation, key, attempt, now(), reconcile_after FROM done""",
            attempt,
        )

    def set(self, attempt: int, change: str) -> None:
        self.query(f"UPDATE idempotency.record SET {change} WHERE attempt = {attempt}")

    def get(self, attempt: int, columns: str) -> tuple:
        (row,) = self.query(f"SELECT {columns} FROM idempotency.record WHERE attempt = {attempt}")
        return row

    def state(self, attempt: int) -> int:
        return self.get(attempt, "state")[0]

    def response(self, attempt: int) -> bytes:
        """Found as the module finds it: by the attempt and the expiry of the record."""
        ((body,),) = self.query(
            """SELECT p.body FROM idempotency.response p JOIN idempotency.record r
               ON r.attempt = p.attempt AND r.expires_at = p.expires_at WHERE r.attempt = %s""",
            attempt,
        )
        return bytes(body)

    def is_waiting(self, session: psycopg.Connection) -> bool:
        pid = session.info.backend_pid
        return self.query("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", pid) == [
            (True,)
        ]


@pytest.fixture(scope="module")
def databases(module_workspace) -> Callable[[int], Database]:
    made: dict[int, Database] = {}

    def get(major: int) -> Database:
        if major not in made:
            made[major] = Database(Postgres(module_workspace, major))
        return made[major]

    return get


@pytest.fixture
def db(databases, request) -> Iterator[Database]:
    """Of Debian's PostgreSQL, or of each for tests that are marked so."""
    database = databases(getattr(request, "param", DEFAULT_POSTGRES))
    yield database
    # Sweeps and reaps of one test do not see the records of another.
    for table in (
        "record",
        "response",
        "unsettled",
        "outbox",
        "unsettled_change",
        "unsettled_total",
        "sweep_watch",
    ):
        database.query(f"DELETE FROM idempotency.{table}")
    database.query("UPDATE idempotency.sweep_position SET swept_to = '-infinity'")


on_each_major = pytest.mark.parametrize("db", POSTGRES_MAJORS, indirect=True)


@contextmanager
def refused(code: str, message: str = "", detail: str = "", hint: str = "") -> Iterator[None]:
    with pytest.raises(psycopg.Error) as caught:
        yield
    assert caught.value.sqlstate == code, caught.value
    diagnosis = caught.value.diag
    assert message in diagnosis.message_primary
    assert detail in (diagnosis.message_detail or "")
    assert hint in (diagnosis.message_hint or "")


# --- One request


@on_each_major
def test_a_request_is_settled_in_the_services_transaction(db):
    attempt = db.claim("key")
    db.query("CREATE TABLE IF NOT EXISTS payment (key bytea PRIMARY KEY); GRANT ALL ON payment TO service")
    with db.session() as service:
        row = service.execute(CALLS["begin_work"], [attempt]).fetchone()
        assert row == (b"tenant", b"operation", b"key", "started")
        service.execute("INSERT INTO payment VALUES (%s)", [row[2]])
        service.execute(CALLS["checkpoint"], [attempt])
        # Again in one transaction: the lock is held already, and what it has written is seen.
        assert service.execute(CALLS["begin_work"], [attempt]).fetchone()[3] == "charged"
        service.execute(
            "SELECT idempotency.complete(%s, 201, %s, %s)", [attempt, Jsonb({"X-Bank": "yes"}), b"paid"]
        )
        assert db.state(attempt) == IN_PROGRESS
        service.commit()
    assert db.get(
        attempt,
        "state, status, tombstone, response_schema, last_error, recovery_point, own_transaction,"
        " completed_at BETWEEN now() - interval '1 minute' AND now(),"
        " expires_at = claimed_at + interval '1 day', reap_at = expires_at",
    ) == (DONE, 201, 0, 1, None, "charged", True, True, True, True)
    assert db.response(attempt) == bytes.fromhex("080110c9011a0d0a06") + b"x-bank\x12\x03yes\x22\x04paid"
    assert db.query("SELECT count(*) FROM payment") == [(1,)]
    db.query("DROP TABLE payment")


def test_what_is_rolled_back_has_not_happened(db):
    attempt = db.claim()
    before = db.get(attempt, "record::text")
    with db.session() as service:
        for call in CALLS.values():
            if call != CALLS["complete"]:
                service.execute(call, [attempt])
        service.execute(CALLS["complete"], [attempt])
        service.rollback()
    assert db.get(attempt, "record::text") == before
    for table in ("response", "outbox"):
        assert db.query(f"SELECT count(*) FROM idempotency.{table}") == [(0,)]
    # The attempt still holds the record: its transaction may be tried again.
    db.call(CALLS["complete"], attempt)
    assert db.state(attempt) == DONE


def test_completion_needs_no_begin_work(db):
    attempt = db.claim()
    db.call("SELECT idempotency.complete(%s, 204)", attempt)
    assert (db.state(attempt), db.response(attempt)) == (DONE, bytes.fromhex("080110cc01"))


def test_a_phase_ends_with_a_checkpoint_and_the_next_begins_there(db):
    attempt = db.claim()
    db.call("SELECT idempotency.checkpoint(%s, %s)", attempt, "phase 1")
    assert db.call(CALLS["begin_work"], attempt)[3] == "phase 1"
    db.call("SELECT idempotency.checkpoint(%s, %s)", attempt, "phase 2")
    assert db.get(attempt, "state, recovery_point") == (IN_PROGRESS, "phase 2")


# --- Rights


@on_each_major
def test_services_and_workers_may_do_just_what_they_need(db):
    functions = """SELECT proname FROM pg_proc WHERE pronamespace = 'idempotency'::regnamespace
                   AND has_function_privilege(%s, oid, 'EXECUTE')"""
    assert {name for (name,) in db.query(functions, "service")} == set(CALLS)
    assert db.query(functions, "worker") == []
    tables = """SELECT relname, right_ FROM pg_class, unnest(%s::text[]) AS right_
                WHERE relnamespace = 'idempotency'::regnamespace AND relkind IN ('r', 'p', 'v')
                AND (has_table_privilege(%s, oid, right_)
                     OR right_ IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')
                     AND has_any_column_privilege(%s, oid, right_))"""
    every = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"]
    assert db.query(tables, every, "service", "service") == []
    assert set(db.query(tables, every, "worker", "worker")) == {("outbox", "SELECT"), ("outbox", "UPDATE")}
    sequences = """SELECT relname FROM pg_class
                   WHERE relnamespace = 'idempotency'::regnamespace AND relkind = 'S'
                   AND (has_sequence_privilege('service', oid, 'USAGE, SELECT, UPDATE')
                        OR has_sequence_privilege('worker', oid, 'USAGE, SELECT, UPDATE'))"""
    assert db.query(sequences) == []


@every_call
@pytest.mark.parametrize("user", ["worker", "gateway", "stranger"])
def test_nobody_else_may_call_them(db, call, user):
    if user == "stranger":
        db.query("DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN")
    with db.session(user) as session, pytest.raises(errors.InsufficientPrivilege):
        session.execute(call, [db.claim()])


@pytest.mark.parametrize(
    "helper",
    [
        "idempotency.own_record(1)",
        "idempotency.stored_fields('{}', '', '')",
        "idempotency.varint(1)",
        "idempotency.tidy_outbox(1)",
    ],
)
def test_their_helpers_are_closed_to_services(db, helper):
    with db.session() as service, pytest.raises(errors.InsufficientPrivilege):
        service.execute(f"SELECT {helper}")


# What a function could take for PostgreSQL's own, or for ours, if it trusted the caller's search_path.
TRAPS = """
CREATE SCHEMA evil;
GRANT ALL ON SCHEMA evil TO PUBLIC;
CREATE FUNCTION evil.trap() RETURNS text LANGUAGE plpgsql AS $$BEGIN
  RAISE EXCEPTION 'the trap has run as %', current_user; END$$;
CREATE FUNCTION evil.lower(text) RETURNS text LANGUAGE sql AS 'SELECT evil.trap()';
CREATE FUNCTION evil.btrim(text, text) RETURNS text LANGUAGE sql AS 'SELECT evil.trap()';
CREATE FUNCTION evil.length(text) RETURNS int LANGUAGE sql AS 'SELECT length(evil.trap())';
CREATE FUNCTION evil.length(bytea) RETURNS int LANGUAGE sql AS 'SELECT pg_catalog.length(evil.trap())';
CREATE FUNCTION evil.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT evil.trap()::bytea';
CREATE FUNCTION evil.convert_to(text, name) RETURNS bytea LANGUAGE sql AS 'SELECT evil.trap()::bytea';
CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS 'SELECT evil.trap()';
CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT evil.trap()';
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT evil.trap()::timestamptz';
CREATE FUNCTION evil.set_byte(bytea, int, int) RETURNS bytea LANGUAGE sql AS 'SELECT evil.trap()::bytea';
CREATE FUNCTION evil.jsonb_typeof(jsonb) RETURNS text LANGUAGE sql AS 'SELECT evil.trap()';
CREATE FUNCTION evil.equal(bytea, bytea) RETURNS boolean LANGUAGE sql AS 'SELECT evil.trap() IS NULL';
CREATE OPERATOR evil.= (LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = evil.equal);
CREATE FUNCTION evil.equal(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT evil.trap() IS NULL';
CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.equal);
CREATE FUNCTION evil.join(bytea, bytea) RETURNS bytea LANGUAGE sql AS 'SELECT evil.trap()::bytea';
CREATE OPERATOR evil.|| (LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = evil.join);
"""
SETTLE = """
SELECT * FROM idempotency.begin_work({0});
SELECT idempotency.checkpoint({0}, 'charged');
SELECT idempotency.enqueue({0}, 'mail', '{{"to": "a"}}');
SELECT idempotency.complete({0}, 201, '{{"X-A": ["1", "2"], "Connection": "x-b", "x-b": "3"}}',
  decode('6869', 'hex'), '{{"grpc-status": "0"}}');
"""
SETTLED = bytes.fromhex("080110c901") + b"".join(
    [
        b"\x1a\x08\x0a\x03x-a\x12\x011",
        b"\x1a\x08\x0a\x03x-a\x12\x012",
        b"\x22\x02hi",
        b"\x2a\x10\x0a\x0bgrpc-status\x12\x010",
    ]
)


@on_each_major
def test_the_callers_search_path_does_not_matter(db):
    db.query("DROP SCHEMA IF EXISTS evil CASCADE;" + TRAPS)
    attempt = db.claim()
    try:
        with db.session() as service:
            service.execute("CREATE TEMP TABLE record (attempt bigint); CREATE TEMP TABLE response (x int)")
            service.execute("SET search_path = evil, pg_temp, pg_catalog")
            # The traps are where a careless function would fall into them.
            with pytest.raises(errors.RaiseException, match="the trap has run as service"):
                service.execute("SELECT lower('A')")
            service.rollback()
            service.execute("SET search_path = evil, pg_temp, pg_catalog")
            service.execute(SETTLE.format(attempt))
            assert service.execute("SHOW search_path").fetchone() == ("evil, pg_temp, pg_catalog",)
            service.commit()
        assert db.response(attempt) == SETTLED
    finally:
        db.query("DROP SCHEMA evil CASCADE")


@pytest.mark.parametrize(
    "settings",
    [
        {"bytea_output": "escape", "DateStyle": "SQL, DMY", "TimeZone": "Asia/Kathmandu"},
        {"client_encoding": "LATIN1", "extra_float_digits": "-15", "IntervalStyle": "iso_8601"},
        {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"},
        {"plan_cache_mode": "force_custom_plan", "enable_nestloop": "off", "work_mem": "64kB"},
        {"plan_cache_mode": "force_generic_plan", "enable_sort": "off", "jit": "on", "jit_above_cost": "0"},
        {"default_transaction_isolation": "serializable"},
        {"default_transaction_isolation": "repeatable read"},
        {"standard_conforming_strings": "off", "escape_string_warning": "off", "backslash_quote": "on"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_the_callers_settings_do_not_matter(db, settings):
    attempt = db.claim()
    with db.session() as service:
        for name, value in settings.items():
            service.execute(f"SET {name} = '{value}'")
        service.commit()
        service.execute(SETTLE.format(attempt))
        service.commit()
        for name, value in settings.items():
            assert service.execute(f"SHOW {name}").fetchone() == (value,)
    assert db.response(attempt) == SETTLED


@every_call
@pytest.mark.parametrize("caller", ["off", "local", "remote_write", "on", "remote_apply"])
def test_the_commit_is_durable_whatever_the_caller_has_set(db, call, caller):
    """The client gets the response as soon as the commit can be seen."""
    attempt = db.claim()
    with db.session() as service:
        service.execute(f"SET synchronous_commit = {caller}")
        service.commit()
        service.execute(call, [attempt])
        expected = caller if caller == "remote_apply" else "on"
        assert service.execute("SHOW synchronous_commit").fetchone() == (expected,)
        service.commit()
        assert service.execute("SHOW synchronous_commit").fetchone() == (caller,)


# --- Errors


@every_call
def test_an_attempt_that_nobody_has_made_is_refused(db, call):
    with refused(LOST, "does not hold a record", "own_transaction: true", "Roll back."):
        db.call(call, new_attempt())


@every_call
def test_a_route_without_own_transaction_is_named(db, call):
    attempt = db.claim(own=False)
    with refused(
        NOT_OPTED_IN,
        f"attempt {attempt} belongs to a route without own_transaction",
        hint="own_transaction: true",
    ):
        db.call(call, attempt)


@every_call
def test_a_missing_attempt_is_refused(db, call):
    with refused(BAD_ARGUMENT, "the attempt is NULL", hint="Idempotency-Attempt"):
        db.call(call, None)


@every_call
def test_a_completed_request_is_refused_with_its_own_error(db, call):
    """A repeated transaction must not commit its other writes twice, so not even the same result is taken."""
    attempt = db.claim()
    db.call(CALLS["complete"], attempt)
    with refused(COMPLETED, f"attempt {attempt} has already been completed", "with status 201", "COMMIT"):
        db.call(call, attempt)
    assert db.query("SELECT count(*) FROM idempotency.response") == [(1,)]


@every_call
def test_a_completed_request_is_refused_in_the_same_transaction(db, call):
    attempt = db.claim()
    with db.session() as service:
        service.execute(CALLS["complete"], [attempt])
        with refused(COMPLETED):
            service.execute(call, [attempt])


@every_call
@pytest.mark.parametrize("state", [FAILED, EXPIRED])
def test_an_attempt_that_was_given_up_is_refused(db, call, state):
    attempt = db.claim()
    db.set(attempt, f"state = {state}")
    with refused(LOST, f"attempt {attempt} does not hold a record", "given up", "Roll back."):
        db.call(call, attempt)
    assert db.get(attempt, "state, recovery_point") == (state, "started")


@pytest.mark.parametrize(
    "point", [None, "", "started", " x", "x ", "a\tb", "a\nb", "é", "\x7f", "x" * 201], ids=repr
)
def test_a_recovery_point_that_is_no_header_value_is_refused(db, point):
    attempt = db.claim()
    with refused(BAD_ARGUMENT, "the recovery point"):
        db.call("SELECT idempotency.checkpoint(%s, %s)", attempt, point)
    assert db.get(attempt, "recovery_point") == ("started",)


def test_of_two_deliveries_of_one_attempt_one_commits_the_phase(db):
    """A proxy has sent the request twice; the service does not look at the recovery point."""
    db.query("CREATE TABLE IF NOT EXISTS twice (attempt bigint)")
    db.query("GRANT INSERT ON twice TO idempotency_upstream")
    attempt = db.claim()
    phase = f"INSERT INTO twice VALUES ({attempt})"
    with db.session() as first, db.session() as second, ThreadPoolExecutor(1) as pool:
        first.execute(phase)
        first.execute(CALLS["checkpoint"], [attempt])
        second.execute(phase)
        waiting = pool.submit(second.execute, CALLS["checkpoint"], [attempt])
        wait_for(lambda: db.is_waiting(second), "the second delivery waits for the lock")
        first.commit()
        with refused(REACHED, "has already been reached"):
            waiting.result(timeout=20)
    assert db.query("SELECT count(*) FROM twice WHERE attempt = %s", attempt) == [(1,)]
    assert db.get(attempt, "state, recovery_point") == (IN_PROGRESS, "charged")


@pytest.mark.parametrize("point", ["x", "!", "~", "charged: 12.50 EUR", "x" * 200], ids=repr)
def test_a_recovery_point_that_is_one_is_stored(db, point):
    attempt = db.claim()
    db.call("SELECT idempotency.checkpoint(%s, %s)", attempt, point)
    assert db.call(CALLS["begin_work"], attempt)[3] == point


BAD_RESPONSES = {
    "status 199": ("199", "the status is not valid", "200 to 599"),
    "status 600": ("600", "the status is not valid", "200 to 599"),
    "no status": ("NULL", "the status is not valid", "200 to 599"),
    "no body": ("200, '{}', NULL", "the body is not valid", "64 MiB"),
    "a body too much": ("204, '{}', 'x'", "the body is not valid", "status 204 has no body"),
    "a large body": ("200, '{}', repeat('x', 67108865)::bytea", "the body is not valid", "64 MiB"),
    "no headers": ("200, NULL", "the headers are not a JSON object", "string or an array of strings"),
    "a list": ("200, '[]'", "the headers are not a JSON object", "string or an array of strings"),
    "a number": ("200, '{\"x-a\": 1}'", "a value of the headers is not a string", "'x-a'"),
    "null": ("200, '{\"x-a\": null}'", "a value of the headers is not a string", "'x-a'"),
    "a deeper list": ("200, '{\"x-a\": [[\"1\"]]}'", "a value of the headers is not a string", "'x-a'"),
    "an empty name": ("200, '{\"\": \"1\"}'", "a name of the headers is not valid", "token"),
    "a space in a name": ("200, '{\"x a\": \"1\"}'", "a name of the headers is not valid", "token"),
    "a line break in a name": ("200, '{\"x-a\\n\": \"1\"}'", "a name of the headers is not valid", "token"),
    "a letter beyond ASCII": ("200, '{\"\\u212aey\": \"1\"}'", "a name of the headers is not valid", "token"),
    "CR": ("200, '{\"x-a\": \"1\\r\"}'", "a value of the headers is not valid", "control character"),
    "LF": ("200, '{\"x-a\": \"1\\nx-b: 2\"}'", "a value of the headers is not valid", "control character"),
    "DEL": ("200, '{\"x-a\": \"\\u007f\"}'", "a value of the headers is not valid", "control character"),
    "U+0001": ("200, '{\"x-a\": \"\\u0001\"}'", "a value of the headers is not valid", "control character"),
    "large headers": (
        "200, jsonb_build_object('x-a', repeat('a', 61440))", "the headers are too large", "60 KiB"),
    "many headers": (
        "200, (SELECT jsonb_build_object('x', jsonb_agg(''::text)) FROM generate_series(1, 1001))",
        "too many headers", "1000"),
    "bad trailers": ("200, '{}', '', '{\"x a\": \"1\"}'", "a name of the trailers is not valid", "token"),
    "no trailers": ("200, '{}', '', NULL", "the trailers are not a JSON object", "string or an array"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message", "detail"), BAD_RESPONSES.values(), ids=BAD_RESPONSES.keys())
def test_a_response_that_could_not_be_replayed_is_refused(db, arguments, message, detail):
    attempt = db.claim()
    with refused(BAD_ARGUMENT, message, detail):
        db.call(f"SELECT idempotency.complete({attempt}, {arguments})")
    assert db.state(attempt) == IN_PROGRESS
    assert db.query("SELECT count(*) FROM idempotency.response") == [(0,)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("NULL, '{}'", "the topic or the name"),
        ("'', '{}'", "the topic or the name"),
        ("repeat('x', 201), '{}'", "the topic or the name"),
        ("'mail', '{}', ''", "the topic or the name"),
        ("'mail', '{}', repeat('x', 201)", "the topic or the name"),
        ("'mail', NULL", "the payload"),
        ("'mail', to_jsonb(repeat('x', 1048576))", "the payload"),
    ],
)
def test_an_effect_that_is_not_valid_is_refused(db, arguments, message):
    with refused(BAD_ARGUMENT, message):
        db.call(f"SELECT idempotency.enqueue({db.claim()}, {arguments})")


# --- Fencing: whatever takes the record from an attempt, the attempt cannot commit any more

# What others do to a record that an attempt holds; what the attempt is told.
TAKEN = {
    "re-claimed": ("UPDATE idempotency.record SET attempt = 7, claimed_at = now() WHERE attempt = %s", LOST),
    "failed": ("UPDATE idempotency.record SET state = 3 WHERE attempt = %s", LOST),
    "completed": ("UPDATE idempotency.record SET state = 2, status = 200 WHERE attempt = %s", COMPLETED),
    "deleted": ("DELETE FROM idempotency.record WHERE attempt = %s", LOST),
    "expired": ("UPDATE idempotency.record SET state = 5 WHERE attempt = %s", LOST),
}
LIMITED = "SET lock_timeout = '200ms'; UPDATE idempotency.record SET attempt = 7 WHERE attempt = {}"
every_taking = pytest.mark.parametrize(("taking", "code"), TAKEN.values(), ids=TAKEN.keys())


@every_call
@every_taking
def test_an_attempt_whose_record_was_taken_is_refused(db, call, taking, code):
    attempt = db.claim()
    db.query(taking, attempt)
    with refused(code):
        db.call(call, attempt)


@on_each_major
@every_call
@every_taking
def test_an_attempt_that_waited_sees_what_became_of_its_record(db, call, taking, code):
    """The record is taken by a transaction that began first and commits later."""
    attempt = db.claim()
    with db.session("postgres") as other, db.session() as service, ThreadPoolExecutor(1) as pool:
        other.execute(taking, [attempt])
        waiting = pool.submit(service.execute, call, [attempt])
        wait_for(lambda: db.is_waiting(service), "the service waits for the lock")
        other.commit()
        with refused(code):
            waiting.result(timeout=20)


@every_call
def test_an_attempt_that_waited_for_what_was_rolled_back_goes_on(db, call):
    attempt = db.claim()
    with db.session("postgres") as other, db.session() as service, ThreadPoolExecutor(1) as pool:
        other.execute(TAKEN["re-claimed"][0], [attempt])
        waiting = pool.submit(service.execute, call, [attempt])
        wait_for(lambda: db.is_waiting(service), "the service waits for the lock")
        other.rollback()
        waiting.result(timeout=20)
        service.commit()


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@every_call
@every_taking
def test_a_snapshot_of_before_does_not_help_an_attempt(db, call, level, taking, code):
    attempt = db.claim()
    with db.session() as service:
        service.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        service.execute("SELECT 1 FROM pg_class LIMIT 1")
        db.query(taking, attempt)
        with refused("40001"):
            service.execute(call, [attempt])
        service.rollback()
        # As always: the transaction is tried again, and now it is told.
        with refused(code):
            service.execute(call, [attempt])


def test_a_heartbeat_in_between_makes_a_snapshot_stale_and_no_more(db):
    attempt = db.claim()
    with db.session() as service:
        service.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        service.execute("SELECT 1 FROM pg_class LIMIT 1")
        db.set(attempt, "lease_until = now() + interval '1 minute'")
        with refused("40001"):
            service.execute(CALLS["begin_work"], [attempt])
        service.rollback()
        service.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        service.execute(CALLS["complete"], [attempt])
        service.commit()
    assert db.state(attempt) == DONE


@on_each_major
def test_serializable_services_do_not_fail_each_other(db):
    attempts = [db.claim() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = threading.Barrier(6)

        def settle(attempt: int) -> None:
            with db.session() as service:
                service.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                service.execute(CALLS["begin_work"], [attempt])
                together.wait(20)
                for call in ("checkpoint", "enqueue", "complete"):
                    service.execute(CALLS[call], [attempt])
                together.wait(20)
                service.commit()

        list(pool.map(settle, attempts))
    assert {db.state(attempt) for attempt in attempts} == {DONE}


@every_call
def test_a_rolled_back_savepoint_gives_up_the_record(db, call):
    """So begin_work() belongs before the first savepoint."""
    attempt = db.claim()
    with db.session() as service:
        service.execute("SAVEPOINT s")
        service.execute(call, [attempt])
        service.execute("ROLLBACK TO SAVEPOINT s")
        db.server.query(LIMITED.format(attempt), database=db.name)
        with refused(LOST):
            service.execute(call, [attempt])


def test_a_savepoint_that_is_rolled_back_after_begin_work_keeps_the_record(db):
    attempt = db.claim()
    with db.session() as service:
        service.execute(CALLS["begin_work"], [attempt])
        for _ in range(2):
            service.execute("SAVEPOINT s")
            for call in ("checkpoint", "enqueue", "complete"):
                service.execute(CALLS[call], [attempt])
            service.execute("ROLLBACK TO SAVEPOINT s")
        with pytest.raises(errors.LockNotAvailable):
            db.server.query(LIMITED.format(attempt), database=db.name)
        service.execute(CALLS["complete"], [attempt])
        service.commit()
    assert db.get(attempt, "state, recovery_point") == (DONE, "started")
    assert db.query("SELECT count(*) FROM idempotency.outbox") == [(0,)]
    assert db.query("SELECT count(*) FROM idempotency.response") == [(1,)]


def test_the_callers_time_limits_hold(db):
    attempt = db.claim()
    with db.session("postgres") as operator, db.session() as service:
        operator.execute("SELECT FROM idempotency.record WHERE attempt = %s FOR UPDATE", [attempt])
        for limit, error in (
            ("lock_timeout", errors.LockNotAvailable),
            ("statement_timeout", errors.QueryCanceled),
        ):
            service.execute(f"SET LOCAL {limit} = '50ms'")
            with pytest.raises(error):
                service.execute(CALLS["begin_work"], [attempt])
            service.rollback()
    with db.session() as service:
        service.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(errors.ReadOnlySqlTransaction):
            service.execute(CALLS["begin_work"], [attempt])


# --- The module beside them


@pytest.fixture
def module(db, store_driver) -> StoreDriver:
    return store_driver(db.conninfo("gateway"))


def claim_by(module: StoreDriver, db: Database, key: str, **more) -> int:
    """On a route with own_transaction."""
    answer = module.claim(key, retry=True, **more)
    assert answer.result == "claimed", answer
    db.set(answer.attempt, "own_transaction = true")
    return answer.attempt


def test_while_the_transaction_is_open_nobody_takes_the_record(db, module):
    key = db.new_key()
    attempt = claim_by(module, db, key)
    db.set(attempt, "lease_until = now() - interval '1 second', claimed_at = now() - interval '2 minutes'")
    sweep = "SELECT to_unknown, to_retry FROM idempotency.sweep(100, NULL, 100)"
    again = {"from_attempt": attempt, "from_state": IN_PROGRESS}
    with db.session() as service, db.session("gateway", autocommit=True) as gateway:
        service.execute(CALLS["begin_work"], [attempt])
        assert gateway.execute(sweep).fetchone() == (0, 0)
        assert module.send("extend", key, attempt=attempt).get().result == "locked"
        assert module.send("fail", key, attempt=attempt).get().result == "locked"
        assert module.send("release", key, attempt=attempt).get().result == "locked"
        assert module.send("mark_unknown", key, attempt=attempt).get().result == "locked"
        assert module.complete(key, attempt).result == "locked"
        assert module.claim(key, retry=True, **again).result == "exists"
        assert gateway.execute("SELECT expired, deleted FROM idempotency.reap(100, false)").fetchone() == (
            0,
            0,
        )
        service.execute(CALLS["checkpoint"], [attempt])
        assert module.send("extend", key, attempt=attempt).get().result == "locked"
        service.commit()
        # They come back to it.
        assert module.send("extend", key, attempt=attempt).get().result == "done"
        db.set(attempt, "lease_until = now() - interval '1 second'")
        assert gateway.execute(sweep).fetchone() == (0, 1)
    with refused(LOST):
        db.call(CALLS["complete"], attempt)


def test_a_zombie_is_fenced_by_the_modules_re_claim(db, module):
    key = db.new_key()
    zombie = claim_by(module, db, key)
    db.call(CALLS["checkpoint"], zombie)
    db.set(zombie, "lease_until = now()")
    attempt = claim_by(module, db, key, from_attempt=zombie, from_state=IN_PROGRESS)
    for call in CALLS.values():
        with refused(LOST):
            db.call(call, zombie)
    assert db.call(CALLS["begin_work"], attempt)[3] == "charged"
    db.call(CALLS["complete"], attempt)
    assert module.look_up(key).state == "completed"


def test_a_completion_is_seen_by_the_module_and_final(db, module):
    key = db.new_key()
    attempt = claim_by(module, db, key)
    db.call("SELECT idempotency.complete(%s, 200, '{}', 'by SQL')", attempt)
    found = module.look_up(key)
    assert (found.state, found.attempt) == ("completed", attempt)
    assert found.response.endswith("by SQL")
    module.complete(key, attempt, "by HTTP")
    for op in ("fail", "release", "mark_unknown"):
        module.send(op, key, attempt=attempt).get()
    found = module.look_up(key)
    assert (found.state, found.attempt) == ("completed", attempt)
    assert db.response(attempt).endswith(b"by SQL")


OPERATORS = {
    "released": (("release",), LOST),
    "not run": (("resolve", "--not-run"), LOST),
    "completed": (("resolve", "--status", "200"), COMPLETED),
}


@pytest.mark.parametrize(("words", "code"), OPERATORS.values(), ids=OPERATORS.keys())
@every_call
def test_a_zombie_is_fenced_by_an_operator(db, words, code, call):
    """The reconciler settles records with the same statements."""
    attempt = db.claim()
    db.make_unknown(attempt)
    command = ("records", *words, "--attempt", str(attempt), "--yes", "--reason", "r", "--actor", "alice")
    with db.session() as service:
        service.execute(CALLS["begin_work"], [attempt])
        late = ctl.run(*command, "--conninfo", db.conninfo("postgres"))
        assert late.returncode != 0, "an operator does not take a record while its attempt commits"
        assert db.state(attempt) == UNKNOWN
        service.rollback()
    done = ctl.run(*command, "--conninfo", db.conninfo("postgres"))
    assert (done.returncode, done.stderr) == (0, "")
    with refused(code):
        db.call(call, attempt)


# --- Late completions


@on_each_major
def test_a_late_completion_settles_an_unknown_record(db):
    attempt, other = db.claim(age="1 hour", ttl="2 hours"), db.claim()
    for unknown in (attempt, other):
        db.make_unknown(unknown)
    db.set(attempt, "dead_letter = true, reap_at = 'infinity'")
    counts = """SELECT sum(records) FROM (SELECT records FROM idempotency.unsettled_total
                UNION ALL SELECT records FROM idempotency.unsettled_change) c"""
    assert db.query(counts) == [(2,)]
    assert db.call(CALLS["begin_work"], attempt)[3] == "started"
    db.call(CALLS["checkpoint"], attempt)
    assert db.state(attempt) == UNKNOWN
    db.call("SELECT idempotency.complete(%s, 201, '{}', 'late')", attempt)
    # Its life starts again: clients that were told "unknown" must find the result. As long as at the claim.
    assert db.get(
        attempt,
        "state, last_error, reconcile_after, dead_letter, expires_at = completed_at + interval '2 hours',"
        " reap_at = expires_at, completed_at > now() - interval '1 minute'",
    ) == (DONE, None, None, False, True, True, True)
    assert db.response(attempt).endswith(b"late")
    assert db.query("SELECT attempt FROM idempotency.unsettled") == [(other,)]
    assert db.query(counts) == [(1,)]
    db.query("SELECT idempotency.tidy_unsettled(100)")
    assert db.query(counts) == [(1,)]


def test_a_completion_after_the_records_life_gives_it_a_new_one(db):
    attempt = db.claim(age="3 hours", ttl="2 hours")
    db.call(CALLS["complete"], attempt)
    assert db.get(attempt, "state, expires_at = completed_at + interval '2 hours', reap_at = expires_at") == (
        DONE, True, True,
    )  # fmt: skip
    assert db.query("SELECT expired, deleted, more FROM idempotency.reap(100, false)") == [(0, 0, False)]
    db.response(attempt)


def test_a_long_transaction_does_not_shorten_the_life(db):
    """Its now() is long past."""
    with db.session() as service:
        service.execute("SELECT now()")
        time.sleep(0.2)
        attempt = db.claim(ttl="1 hour")
        db.make_unknown(attempt)
        service.execute(CALLS["complete"], [attempt])
        service.commit()
    assert db.get(attempt, "completed_at > claimed_at, expires_at > claimed_at + interval '1 hour'") == (
        True,
        True,
    )


# --- The same bytes as the module

NAMES = [
    "content-type",
    "X-A",
    "x-a",
    "Location",
    "x-b",
    "ETAG",
    "date",
    "via",
    "grpc-status",
    "x" * 127,
    "y" * 128,
]
NEVER_STORED = [
    "Connection", "content-length", "Set-Cookie", "transfer-encoding", "server", "x-envoy-upstream-service",
    "WWW-Authenticate", "Idempotency-Outcome", "idempotent-replayed", ":status", "keep-alive", "te",
    "authorization", "dpop-nonce", "set-cookie2", "Proxy-Authenticate", "idempotency-key-expires", "upgrade",
    "http2-settings", "idempotency-key", "idempotency-attempt", "idempotency-recovery-point",
    "idempotency-run",
    "idempotency-stored", "idempotency-enforced", "authentication-info", "proxy-authentication-info",
    "proxy-authorization", "proxy-connection",
]  # fmt: skip
BORDERS = [0, 1, 2, 126, 127, 128, 129, 255, 256, 16382, 16383, 16384, 16385]
# Including what lower() of other locales and what a careless escape would change.
LETTERS = 'a Z0"\\/\t%\u00df\u0130\u212a\u00e9\u20ac\U0001f600\U0010ffff'


def random_fields(source: random.Random, most: int) -> dict[str, str | list[str]]:
    fields = {}
    room = 40_000  # The bound is another test's.
    for _ in range(source.randrange(most)):
        name = source.choice(3 * NAMES + NEVER_STORED)
        values = []
        for _ in range(source.choice([1, 1, 1, 2, 3, 0])):
            if name == "Connection":
                values.append(source.choice(["close", "X-A", "x-b , \tETag,,", "", ", keep-alive"]))
                continue
            length = source.choice(BORDERS if source.random() < 0.3 else [source.randrange(40)])
            value = "".join(source.choice(LETTERS) for _ in range(min(length, 40)))
            value = (value + "v" * (length - len(value.encode()))) if length >= len(value.encode()) else value
            if len(value.encode()) < room:
                room -= len(value.encode())
                values.append(value)
        fields[name] = values[0] if len(values) == 1 and source.random() < 0.8 else values
    return fields


def as_sent(fields: dict[str, str | list[str]]) -> list[tuple[str, str]]:
    """Line by line, in the order of jsonb: shorter names first. HTTP removes white space around values."""
    names = sorted(fields, key=lambda name: (len(name.encode()), name.encode()))
    lines = [(name, [fields[name]] if isinstance(fields[name], str) else fields[name]) for name in names]
    return [(name.lower(), value.strip(" \t")) for name, values in lines for value in values]


def random_body(source: random.Random) -> bytes:
    size = source.choice([*BORDERS, 0, 2097151, 2097152] if source.random() < 0.2 else BORDERS)
    return source.randbytes(size)


@on_each_major
def test_stored_responses_are_byte_for_byte_those_of_the_module(db):
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    responses = []
    for _ in range(150):
        # Statuses around the border of a varint are all above it; all have two bytes.
        status = source.choice([200, 201, 204, 205, 255, 256, 304, 404, 500, 599, source.randrange(200, 600)])
        body = b"" if status in (204, 205, 304) else random_body(source)
        responses.append((status, random_fields(source, 12), body, random_fields(source, 4)))
    lines = [
        json.dumps({"status": s, "headers": as_sent(h), "body": b.hex(), "trailers": as_sent(t)})
        for s, h, b, t in responses
    ]
    module = subprocess.run(
        [built("test/message/stored_response_driver")],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split()
    assert len(module) == len(responses)
    with db.session(autocommit=True) as service:
        for expected, (status, headers, body, trailers) in zip(module, responses, strict=True):
            attempt = db.claim()
            service.execute(
                "SELECT idempotency.complete(%s, %s, %s, %s, %s)",
                [attempt, status, Jsonb(headers), body, Jsonb(trailers)],
            )
            assert db.response(attempt).hex() == expected, (seed, status, headers, len(body), trailers)


def test_the_largest_response_is_stored(db):
    attempt = db.claim()
    db.call(
        "SELECT idempotency.complete(%s, 200, jsonb_build_object('x-a', repeat('a', 61437)),"
        " repeat('x', 67108864)::bytea)",
        attempt,
    )
    stored = db.response(attempt)
    assert stored[:5] == bytes.fromhex("080110c801")
    # 61446 bytes of field, 64 MiB of body, as varints of 3 and 4 bytes.
    assert stored[5:9] == bytes.fromhex("1a86e003")
    assert stored[-67108864 - 5 : -67108864] == bytes.fromhex("2280808020")


# --- Cost


def in_one_transaction(db: Database, *statements: str) -> tuple[int, int]:
    """Updates of the record table and how many of them were HOT, by this transaction's own statistics."""
    with db.session() as service:
        for statement in statements:
            service.execute(statement)
        (numbers,) = service.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_all_tables"
            " WHERE schemaname = 'idempotency' AND relname = 'record'"
        ).fetchall()
        service.commit()
        return numbers


@on_each_major
def test_checkpoints_and_completions_are_hot_updates(db):
    for _ in range(5):
        attempt = db.claim()
        updates = in_one_transaction(
            db,
            f"SELECT * FROM idempotency.begin_work({attempt})",
            f"SELECT idempotency.checkpoint({attempt}, 'one')",
            f"SELECT idempotency.checkpoint({attempt}, 'two')",
            f"SELECT idempotency.complete({attempt}, 200)",
        )
        assert updates == (3, 3)


def test_neither_services_nor_the_reaper_use_up_multixacts(db):
    """A row that two transactions lock costs one; here each row has one at a time, and no subtransaction."""

    def next_one() -> int:
        db.query("CHECKPOINT")
        return db.query("SELECT next_multixact_id::text::bigint FROM pg_control_checkpoint()")[0][0]

    before = next_one()
    for _ in range(20):
        attempt = db.claim(ttl="1 s", age="2 s")
        with db.session() as service:
            for call in CALLS.values():
                if call != CALLS["complete"]:
                    service.execute(call, [attempt])
            service.execute(CALLS["complete"], [attempt])
            service.commit()
    db.query("UPDATE idempotency.record SET expires_at = now(), reap_at = now()")
    assert db.query("SELECT deleted FROM idempotency.reap(100, false)") == [(20,)]
    assert next_one() == before


@on_each_major
def test_the_partial_index_is_used_and_holds_opted_in_records_only(db):
    db.query("TRUNCATE idempotency.record")
    db.query(
        """INSERT INTO idempotency.record (tenant, operation, key, attempt, state, fingerprint, lease_until,
             expires_at, reap_at, claimed_at, created_at)
           SELECT 't', 'o', i::text::bytea, i, 1, 'f', now(), now() + interval '1 day',
             now() + interval '1 day', now(), now() FROM generate_series(1, 5000) i"""
    )
    size = "SELECT pg_relation_size('idempotency.record_own_attempt')"
    empty = db.query(size)
    assert empty == [(8192,)], "no entry: the index has its first page alone"
    attempt = db.claim()
    assert db.query(size) > empty
    find = "SELECT * FROM idempotency.record r WHERE r.attempt = $1 AND r.own_transaction FOR NO KEY UPDATE"
    # As in own_record(); a test of its text follows.
    assert (
        find.replace("$1", "p_attempt").replace("SELECT *", "SELECT * INTO held")
        in db.query("SELECT prosrc FROM pg_proc WHERE proname = 'own_record'")[0][0]
    )
    with db.session("postgres") as session:
        session.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
        session.execute(f"PREPARE find (bigint) AS {find}")
        plan = "\n".join(row[0] for row in session.execute(f"EXPLAIN EXECUTE find ({attempt})"))
    assert "record_own_attempt" in plan, plan
    assert "Seq Scan" not in plan
    scans = "SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_xact_all_tables WHERE relname = 'record'"
    with db.session() as service:
        service.execute(CALLS["begin_work"], [attempt])
        assert service.execute(scans).fetchone() == (1,)
        assert service.execute(scans.replace("idx_scan", "seq_scan")).fetchone() == (0,)


def test_an_error_looks_at_a_bounded_number_of_records(db):
    db.query(
        """INSERT INTO idempotency.record (tenant, operation, key, attempt, state, fingerprint, lease_until,
             expires_at, reap_at, claimed_at, created_at)
           SELECT 't', 'o', i::text::bytea, i, 1, 'f', now(), now() + interval '1 day',
             now() + interval '1 day', now() - interval '1 hour' + i * interval '1 s', now()
           FROM generate_series(1, 3000) i"""
    )
    db.query("ANALYZE idempotency.record")
    with refused(NOT_OPTED_IN):
        db.call(CALLS["begin_work"], 2001)
    # It may be of any route: too old to look for.
    with refused(LOST):
        db.call(CALLS["begin_work"], 2000)
    assert db.query("SELECT 1 FROM idempotency.record WHERE attempt = 2000") == [(1,)]


# --- The outbox

ENQUEUE = "SELECT idempotency.enqueue(%s, %s, %s, %s)"


def effects(db: Database) -> list[tuple]:
    return db.query("SELECT topic, name, payload FROM idempotency.outbox ORDER BY id")


@on_each_major
def test_an_effect_is_ordered_once_in_a_records_life(db):
    attempt = db.claim("key")
    first = db.call(ENQUEUE, attempt, "mail", Jsonb({"n": 1}), None)
    # Twice in a transaction, in another one, and by a re-run: the first order counts.
    with db.session() as service:
        for _ in range(2):
            assert service.execute(ENQUEUE, [attempt, "mail", Jsonb({"n": 2}), None]).fetchone() == first
        service.commit()
    again = new_attempt()
    db.set(attempt, f"attempt = {again}, claimed_at = now(), reclaimed = true")
    assert db.call(ENQUEUE, again, "mail", Jsonb({"n": 3}), "mail") == first
    assert effects(db) == [("mail", "mail", {"n": 1})]
    # Other names, topics and keys are other effects.
    others = [
        db.call(ENQUEUE, again, "mail", Jsonb({}), "receipt"),
        db.call(ENQUEUE, again, "receipt", Jsonb({}), "mail"),
        db.call(ENQUEUE, again, "receipt", Jsonb({}), None),
        db.call(ENQUEUE, db.claim("other key"), "mail", Jsonb({}), None),
    ]
    assert len({first, *others}) == 5
    assert len(effects(db)) == 5


def test_a_re_run_after_a_roll_back_orders_it(db):
    attempt = db.claim()
    with db.session() as service:
        service.execute(ENQUEUE, [attempt, "mail", Jsonb(1), None])
        service.rollback()
    assert effects(db) == []
    db.call(ENQUEUE, attempt, "mail", Jsonb(2), None)
    assert effects(db) == [("mail", "mail", 2)]


def test_a_reused_key_orders_it_again(db, module):
    """After its expiry the key means another request. The module's own re-claim says which life it is."""
    key = db.new_key()
    attempt = claim_by(module, db, key)
    first = db.call(ENQUEUE, attempt, "mail", Jsonb(1), None)
    # A failure in the same life: not again.
    module.send("fail", key, attempt=attempt).get()
    rerun = claim_by(module, db, key, from_attempt=attempt, from_state=FAILED)
    assert db.call(ENQUEUE, rerun, "mail", Jsonb(2), None) == first
    db.call(CALLS["complete"], rerun)
    db.set(rerun, "expires_at = now()")
    next_life = claim_by(module, db, key, from_attempt=rerun, from_state=DONE)
    assert db.call(ENQUEUE, next_life, "mail", Jsonb(3), None) != first
    # And after its record was deleted.
    db.query("DELETE FROM idempotency.record")
    new = claim_by(module, db, key)
    db.call(ENQUEUE, new, "mail", Jsonb(4), None)
    assert [payload for _, _, payload in effects(db)] == [1, 3, 4]


def test_a_release_does_not_forget_what_was_ordered(db, module):
    """Such as a 401, or a proxy that says that the request was not sent: the key means the same request."""
    key = db.new_key()
    attempt = claim_by(module, db, key)
    first = db.call(ENQUEUE, attempt, "mail", Jsonb(1), None)
    module.send("release", key, attempt=attempt).get()
    assert db.state(attempt) == FAILED
    rerun = claim_by(module, db, key, from_attempt=attempt, from_state=FAILED)
    assert db.call(ENQUEUE, rerun, "mail", Jsonb(2), None) == first
    assert effects(db) == [("mail", "mail", 1)]
    # What was rolled back was not ordered, and a new life has ordered nothing.
    key = db.new_key()
    attempt = claim_by(module, db, key)
    with db.session() as service:
        service.execute(ENQUEUE, [attempt, "mail", Jsonb(1), None])
        service.rollback()
    module.send("release", key, attempt=attempt).get()
    assert db.query("SELECT FROM idempotency.record WHERE attempt = %s", attempt) == []


def test_long_identities_have_effects(db):
    """The primary key takes 2.7 KB; a topic and a name do not make it too long."""
    attempt = db.claim("".join(random.Random(1).choice("0123456789abcdef") for _ in range(2500)))
    db.call(ENQUEUE, attempt, "t" * 200, Jsonb({}), "\u20ac" * 200)
    assert len(effects(db)) == 1


TAKE = """SELECT id, payload FROM idempotency.outbox WHERE topic = %s AND done_at IS NULL AND dead_at IS NULL
          AND due_at <= now() ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED"""


@on_each_major
def test_workers_share_the_open_effects(db):
    for number in range(2):
        db.call(ENQUEUE, db.claim(), "mail", Jsonb(number), None)
    db.call(ENQUEUE, db.claim(), "other", Jsonb("no"), None)
    with db.session("worker") as one, db.session("worker") as two, db.session("worker") as three:
        (first, _), (second, _) = (worker.execute(TAKE, ["mail"]).fetchone() for worker in (one, two))
        assert first != second
        assert three.execute(TAKE, ["mail"]).fetchone() is None
        one.execute(
            "UPDATE idempotency.outbox SET done_at = now(), tries = tries + 1, reference = 'r-1'"
            " WHERE id = %s",
            [first],
        )
        one.commit()
        two.execute(
            "UPDATE idempotency.outbox SET due_at = now() + interval '1 minute', tries = tries + 1,"
            " last_error = 'timeout' WHERE id = %s",
            [second],
        )
        two.commit()
        three.rollback()
        assert three.execute(TAKE, ["mail"]).fetchone() is None
    assert db.query(
        "SELECT tries, reference, last_error FROM idempotency.outbox WHERE topic = 'mail' ORDER BY done_at"
    ) == [
        (1, "r-1", None),
        (1, None, "timeout"),
    ]


def test_an_effect_is_not_seen_before_its_commit(db):
    with db.session() as service, db.session("worker", autocommit=True) as worker:
        service.execute(ENQUEUE, [db.claim(), "mail", Jsonb(1), None])
        assert worker.execute(TAKE, ["mail"]).fetchone() is None
        service.commit()
        assert worker.execute(TAKE, ["mail"]).fetchone()[1] == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE idempotency.outbox SET payload = '{}'",
        "UPDATE idempotency.outbox SET effect = ''",
        "INSERT INTO idempotency.outbox (attempt) VALUES (1)",
        "DELETE FROM idempotency.outbox",
        "SELECT * FROM idempotency.record",
        "SELECT idempotency.enqueue(1, 'mail', '{}')",
    ],
)
def test_workers_may_not(db, statement):
    with db.session("worker") as worker, pytest.raises(errors.InsufficientPrivilege):
        worker.execute(statement)


def test_the_index_of_open_effects_is_used(db):
    attempt = db.claim()
    db.query(
        """INSERT INTO idempotency.outbox (attempt, life, created_at, due_at, done_at, tenant, operation, key,
             topic, name, effect, payload)
           SELECT 1, now(), now(), now(), CASE WHEN i > 10 THEN now() END, 't', 'o', 'k', 'mail', 'n',
             i::text::bytea, '{}' FROM generate_series(1, 5000) i"""
    )
    db.call(ENQUEUE, attempt, "mail", Jsonb({}), None)
    db.query("ANALYZE idempotency.outbox")
    plan = "\n".join(row[0] for row in db.query("EXPLAIN " + TAKE, "mail"))
    assert "outbox_due" in plan, plan


@on_each_major
def test_old_effects_go_when_their_records_have_gone(db):
    """Not before: a re-run would order them again."""
    attempts = {name: db.claim(name, ttl="1 hour") for name in ("gone", "live", "open", "dead", "young")}
    for name, attempt in attempts.items():
        db.call(ENQUEUE, attempt, "mail", Jsonb(name), None)
        if name not in ("open", "dead"):
            age = "1 day" if name == "young" else "8 days"
            db.query(
                f"UPDATE idempotency.outbox SET done_at = now() - interval '{age}' WHERE attempt = {attempt}"
            )
    db.query(
        "UPDATE idempotency.outbox SET dead_at = now() - interval '9 days' WHERE attempt = %s",
        attempts["dead"],
    )
    db.query("DELETE FROM idempotency.record WHERE attempt <> %s", attempts["live"])
    with db.session("gateway", autocommit=True) as gateway:
        for _ in range(2):
            assert gateway.execute("SELECT more FROM idempotency.reap(100, false)").fetchone() == (False,)
    assert {payload for _, _, payload in effects(db)} == {"live", "open", "dead", "young"}
    # Looked at again 7 days after the end of the record's life: it does not slow down every run until then.
    kept = """SELECT kept_until = (SELECT expires_at FROM idempotency.record) FROM idempotency.outbox
              WHERE attempt = %s"""
    assert db.query(kept, attempts["live"]) == [(True,)]
    db.query("DELETE FROM idempotency.record")
    db.query("UPDATE idempotency.outbox SET kept_until = kept_until - interval '9 days'")
    db.query("SELECT idempotency.reap(100, false)")
    assert {payload for _, _, payload in effects(db)} == {"open", "dead", "young"}


def test_a_bounded_number_of_effects_goes_at_a_time(db):
    for number in range(5):
        db.call(ENQUEUE, db.claim(), "mail", Jsonb(number), None)
    db.query(
        "UPDATE idempotency.outbox SET done_at = now() - interval '8 days'; DELETE FROM idempotency.record"
    )
    assert [db.query("SELECT more FROM idempotency.reap(2, false)")[0][0] for _ in range(3)] == [
        True,
        True,
        False,
    ]
    assert effects(db) == []


@on_each_major
def test_a_purge_takes_settled_effects_and_leaves_open_ones(db):
    for name in ("done", "dead", "open", "runs"):
        db.call(ENQUEUE, db.claim(name), "mail", Jsonb(name), None)
    db.query(
        """UPDATE idempotency.outbox SET done_at = CASE WHEN payload <> '"dead"' THEN now() END,
             dead_at = CASE WHEN payload = '"dead"' THEN now() END WHERE payload <> '"open"';
           UPDATE idempotency.record SET lease_until = now() - interval '1 second' WHERE key <> 'runs'"""
    )
    purge = "SELECT records, running, more FROM idempotency.purge_tenant('tenant', 'a', 'r', false, 1000)"
    assert db.query(purge) == [(3, 1, False)]
    assert {payload for _, _, payload in effects(db)} == {"open", "runs"}


# --- Tables of the service that refer to records

DOMAIN = """
CREATE TABLE ride (
  id int PRIMARY KEY, tenant bytea, operation bytea, key bytea, note text,
  FOREIGN KEY (tenant, operation, key) REFERENCES idempotency.record (tenant, operation, key) {0}
);
CREATE INDEX ON ride (tenant, operation, key);
GRANT SELECT, INSERT, UPDATE ON ride TO service;
"""
REAP = "SELECT expired, deleted, more FROM idempotency.reap(100, false)"


@pytest.fixture
def rides(db) -> Iterator[Callable[[str], None]]:
    """Makes the table `ride`; its owner needs REFERENCES on record, the service needs nothing more."""
    db.query("DROP ROLE IF EXISTS rides; CREATE ROLE rides LOGIN; GRANT ALL ON SCHEMA public TO rides")
    db.query("GRANT USAGE ON SCHEMA idempotency TO rides; GRANT REFERENCES ON idempotency.record TO rides")

    def make(action: str = "ON DELETE SET NULL") -> None:
        with db.session("rides") as owner:
            owner.execute(DOMAIN.format(action))
            owner.commit()

    yield make
    db.query("DROP TABLE IF EXISTS ride; DROP OWNED BY rides; DROP ROLE rides")


def add_ride(db: Database, number: int, *, expired: bool) -> int:
    attempt = db.claim()
    with db.session() as service:
        tenant, operation, key, _ = service.execute(CALLS["begin_work"], [attempt]).fetchone()
        service.execute("INSERT INTO ride VALUES (%s, %s, %s, %s)", [number, tenant, operation, key])
        service.execute(CALLS["complete"], [attempt])
        service.commit()
    if expired:
        db.set(attempt, "expires_at = now() - interval '1 hour', reap_at = now() - interval '1 hour'")
    return attempt


@on_each_major
def test_the_reaper_deletes_records_that_rides_refer_to(db, rides):
    rides()
    for number in range(3):
        add_ride(db, number, expired=number < 2)
    with db.session("gateway", autocommit=True) as gateway:
        assert gateway.execute(REAP).fetchone() == (0, 2, False)
    assert db.query("SELECT id, key IS NULL, tenant IS NULL FROM ride ORDER BY id") == [
        (0, True, True),
        (1, True, True),
        (2, False, False),
    ]


@on_each_major
def test_a_locked_ride_is_skipped_and_comes_back(db, rides):
    rides()
    attempts = [add_ride(db, number, expired=True) for number in range(5)]
    with db.session() as service, db.session("gateway", autocommit=True) as gateway:
        service.execute("UPDATE ride SET note = 'busy' WHERE id = 3")
        began = time.monotonic()
        assert gateway.execute(REAP).fetchone() == (0, 4, False)
        assert time.monotonic() - began < 5
        # It is out of the way for a minute, so it costs the next runs nothing.
        assert db.get(attempts[3], "state, reap_at > now(), expires_at < now()") == (DONE, True, True)
        assert gateway.execute(REAP).fetchone() == (0, 0, False)
        service.commit()
    db.set(attempts[3], "reap_at = now()")
    assert db.query(REAP) == [(0, 1, False)]
    assert db.query("SELECT count(*) FROM ride WHERE key IS NULL") == [(5,)]
    assert db.query("SELECT sum(records) FROM idempotency.audit WHERE action = 'delete'")[0][0] >= 5


def test_many_locked_rides_do_not_hold_the_reaper(db, rides):
    """It gives up a batch after ten of them; what is behind them has its turn."""
    rides()
    for number in range(30):
        add_ride(db, number, expired=True)
    db.query("UPDATE idempotency.record SET reap_at = reap_at - interval '1 hour'")
    add_ride(db, 30, expired=True)
    with db.session() as service, db.session("gateway", autocommit=True) as gateway:
        service.execute("SELECT FROM ride WHERE id < 30 FOR UPDATE")
        answers, slowest = [], 0.0
        while not answers or (answers[-1][2] and len(answers) < 9):
            began = time.monotonic()
            answers.append(gateway.execute(REAP).fetchone())
            slowest = max(slowest, time.monotonic() - began)
        assert sum(answer[1] for answer in answers) == 1
        assert len(answers) in (3, 4)
        # Eleven waits of 50 ms each; the rest is the machine's.
        assert slowest < 5
    db.query("UPDATE idempotency.record SET reap_at = now()")
    assert db.query(REAP) == [(0, 30, False)]


def test_the_reaper_is_no_victim_and_makes_none(db, rides):
    """A service that has locked a ride waits for a record that the reaper has locked."""
    rides()
    attempts = [add_ride(db, number, expired=True) for number in range(2)]
    with (
        db.session() as service,
        db.session("gateway", autocommit=True) as gateway,
        ThreadPoolExecutor(1) as pool,
    ):
        service.execute("SELECT FROM ride WHERE id = 1 FOR UPDATE")
        reaping = pool.submit(lambda: gateway.execute(REAP).fetchone())
        # The foreign key of a new ride needs the record that is being deleted, or is gone.
        key = db.get(attempts[1], "tenant, operation, key")
        try:
            service.execute("INSERT INTO ride VALUES (7, %s, %s, %s)", key)
        except errors.ForeignKeyViolation:
            pass
        assert reaping.result(timeout=20)[1] >= 1
    assert db.query("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [(0,)]


@on_each_major
@pytest.mark.parametrize("action", ["ON DELETE RESTRICT", ""])
def test_a_ride_that_forbids_the_deletion_stops_nobody_else(db, rides, action):
    rides(action)
    attempts = [add_ride(db, number, expired=True) for number in range(2)]
    db.query("DELETE FROM ride WHERE id = 1")
    assert db.query(REAP) == [(0, 1, False)]
    assert db.get(attempts[0], "state, reap_at > now()") == (DONE, True)


def test_a_service_refers_to_records_without_any_right_on_them(db, rides):
    db.query("GRANT CREATE ON SCHEMA public TO service")
    with db.session() as service, pytest.raises(errors.InsufficientPrivilege, match="record"):
        service.execute(
            "CREATE TABLE t (a bytea, b bytea, c bytea, FOREIGN KEY (a, b, c) REFERENCES idempotency.record)"
        )
    rides()
    add_ride(db, 1, expired=False)
    with db.session() as service, pytest.raises(errors.ForeignKeyViolation):
        service.execute("INSERT INTO ride VALUES (2, 'no', 'such', 'record')")
