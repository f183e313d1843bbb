"""`idempotencyctl migrate` on a real PostgreSQL: forward, safe when run twice and by many at once, all or
nothing; what the roles may do afterwards; and schemas that are older or newer than a program."""

import contextlib
import re
import sqlite3
import subprocess

import psycopg
import pytest
from harness import ctl
from harness.paths import CACHE, POSTGRES_MAJORS, ROOT
from harness.postgres import Postgres
from harness.store_driver import StoreDriver
from harness.wait import wait_for

NEWEST = len(list((ROOT / "sql").glob("0*.sql")))
FILES = sorted(path.name for path in (ROOT / "sql").glob("0*.sql"))
PAGE = ROOT / "docs" / "postgres.md"
# The number that migrations take turns by (source/store/postgres/schema/migrate.cc).
TURN = 7593461025893847
LOAD = CACHE / "bazel-opt" / "bin" / "bench" / "postgres_load"
ROLES = ("idempotency_filter", "idempotency_upstream", "idempotency_worker", "idempotency_operator")


@pytest.fixture(scope="module")
def server(session_workspace) -> Postgres:
    """Roles belong to the whole server: these tests make and drop them."""
    return Postgres(session_workspace)


@pytest.fixture
def database(server):
    for role in ROLES:
        server.query(f"DROP ROLE IF EXISTS {role}")
    name = server.create_database()
    yield name
    server.drop_database(name)


@pytest.fixture
def migrate(server, database):
    """Runs the command on the test's database; `user` is who runs it."""

    def run(*words: str, user: str = "postgres", **options) -> subprocess.CompletedProcess:
        return ctl.run("migrate", "--conninfo", server.conninfo(database, user=user), *words, **options)

    return run


@pytest.fixture
def query(server, database):
    return lambda sql, *parameters: server.query(sql, *parameters, database=database)


@pytest.fixture
def role(server, database):
    """Makes login roles, which are gone after the test."""
    made = []

    def make(name: str, options: str = "", *grants: str) -> str:
        server.query(f"CREATE ROLE {name} LOGIN {options}")
        made.append(name)
        for grant in grants:
            server.query(f"GRANT {grant} TO {name}", database=database)
        return name

    yield make
    for name in made:
        server.query(f"DROP OWNED BY {name} CASCADE", database=database)
        server.query(f"DROP ROLE {name}")


def version(query) -> int:
    if query("SELECT to_regclass('idempotency.schema_version')") == [(None,)]:
        return 0
    return query("SELECT coalesce(max(version), 0) FROM idempotency.schema_version")[0][0]


def shape(query) -> list[tuple]:
    """All that the schema holds, but for the rights."""
    return query("""
        SELECT 'column', format('%s.%s', attrelid::regclass, attname), format_type(atttypid, atttypmod)
          FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
          WHERE relnamespace = to_regnamespace('idempotency') AND attnum > 0
        UNION ALL
        SELECT 'relation', oid::regclass::text, format('%s %s', relkind, reloptions) FROM pg_class
          WHERE relnamespace = to_regnamespace('idempotency')
        UNION ALL
        SELECT 'function', oid::regprocedure::text, md5(prosrc) FROM pg_proc
          WHERE pronamespace = to_regnamespace('idempotency')
        UNION ALL
        SELECT 'constraint', conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
          WHERE connamespace = to_regnamespace('idempotency')
        ORDER BY 1, 2, 3""")


def rights(query) -> set[tuple[str, str, str]]:
    """(role, object, right) of everybody but the owner, on everything in the schema and the schema itself."""
    return set(
        query("""
        SELECT coalesce(nullif(a.grantee::regrole::text, '-'), 'PUBLIC'), o.name, a.privilege_type
        FROM (
          SELECT 'schema' AS name, nspacl AS acl, nspowner AS owner FROM pg_namespace
            WHERE nspname = 'idempotency'
          UNION ALL
          SELECT relname, relacl, relowner FROM pg_class
            WHERE relnamespace = 'idempotency'::regnamespace AND relkind IN ('r', 'p', 'S', 'v')
          UNION ALL
          SELECT proname, coalesce(proacl, acldefault('f', proowner)), proowner FROM pg_proc
            WHERE pronamespace = 'idempotency'::regnamespace
          UNION ALL
          SELECT c.relname || '.' || a.attname, a.attacl, c.relowner FROM pg_attribute a
            JOIN pg_class c ON c.oid = a.attrelid WHERE relnamespace = 'idempotency'::regnamespace
        ) o, aclexplode(o.acl) a WHERE a.grantee <> o.owner""")
    )


def granted(role: str, lines: dict[str, str]) -> set[tuple[str, str, str]]:
    return {(role, name, right) for name, words in lines.items() for right in words.split()}


# --- Forward


@pytest.mark.parametrize("major", POSTGRES_MAJORS)
def test_from_nothing_on_each_major(postgres_server, major):
    fresh: Postgres = postgres_server(major)
    result = ctl.run("migrate", "--conninfo", fresh.conninfo())
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [f"applied {name}" for name in FILES] + [f"schema version {NEWEST}"]
    rows = fresh.query(
        "SELECT version, name, encode(checksum, 'hex'), compatible_with, applied_by,"
        " applied_at <= now() FROM idempotency.schema_version ORDER BY 1"
    )
    assert [(row[0], row[1], row[4], row[5]) for row in rows] == [
        (number, name, "postgres", True) for number, name in enumerate(FILES, 1)
    ]
    for _, name, checksum, compatible_with, *_ in rows:
        text = (ROOT / "sql" / name).read_bytes()
        assert fresh.query("SELECT encode(sha256(%b), 'hex')", text) == [(checksum,)]
        assert text.startswith(b"-- compatible-with: %d\n" % compatible_with)
    assert {name for (name,) in fresh.query("SELECT rolname FROM pg_roles")} >= set(ROLES)


def test_second_run_changes_nothing(migrate, query):
    assert migrate().returncode == 0
    before = shape(query), rights(query), query("SELECT * FROM idempotency.schema_version ORDER BY 1")
    query("INSERT INTO idempotency.audit (action) VALUES ('kept')")
    result = migrate()
    assert (result.returncode, result.stdout, result.stderr) == (0, f"schema version {NEWEST}\n", "")
    assert (shape(query), rights(query)) == before[:2]
    assert query("SELECT * FROM idempotency.schema_version ORDER BY 1") == before[2]
    assert query("SELECT count(*) FROM idempotency.audit") == [(1,)]


def test_step_by_step_is_the_same_as_all_at_once(server, migrate, query):
    assert migrate().returncode == 0
    at_once = shape(query), rights(query)
    query("DROP SCHEMA idempotency CASCADE")
    for step in range(1, NEWEST + 1):
        result = migrate("--to", str(step))
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout == f"applied {FILES[step - 1]}\nschema version {step}\n"
        assert version(query) == step
    assert (shape(query), rights(query)) == at_once


def _record_of_version_4(query, key: str, state: int, tombstone: int | None, reap_at: str) -> None:
    """Or earlier, when the table had another name."""
    old = "now() - interval '2 days'"
    query(
        f"""INSERT INTO idempotency.key (tenant, operation, key, fingerprint, attempt, state, status,
              tombstone, lease_until, expires_at, reap_at, claimed_at, created_at, completed_at)
            VALUES ('t', 'o', '{key}', 'f', 7, {state}, 408, {"NULL" if tombstone is None else tombstone},
              {old}, now() - interval '1 day', {reap_at}, {old}, {old}, now())"""
    )


def test_records_that_were_given_up_are_unknown_again(migrate, query):
    """Version 2 ended unknown records at the end of their life, and freed their keys."""
    assert migrate("--to", "2").returncode == 0
    past = "now() - interval '1 day'"
    _record_of_version_4(query, "given up", 2, 4, past)
    _record_of_version_4(query, "given up and kept", 5, 4, "'infinity'")
    _record_of_version_4(query, "completed with 408", 2, 0, past)
    _record_of_version_4(query, "expired", 5, 0, "'infinity'")
    _record_of_version_4(query, "unknown", 4, None, past)
    assert migrate().returncode == 0
    found = query(
        "SELECT convert_from(key, 'UTF8'), state, status, tombstone, completed_at FROM idempotency.record"
    )
    unknown = {row[0] for row in found if row[1:] == (4, None, None, None)}
    assert unknown == {"given up", "given up and kept"}
    assert {row[0]: row[1] for row in found} == {
        "given up": 4,
        "given up and kept": 4,
        "completed with 408": 2,
        "expired": 5,
        "unknown": 4,
    }
    reap = "SELECT expired, deleted, more FROM idempotency.reap(100, false)"
    assert query(reap) == [(0, 1, False)]
    assert query(reap) == [(0, 0, False)]
    left = query("SELECT convert_from(key, 'UTF8'), reap_at = 'infinity' FROM idempotency.record ORDER BY 1")
    assert left == [("expired", True), ("given up", True), ("given up and kept", True), ("unknown", True)]


def test_the_rename_keeps_what_is_stored(migrate, query):
    """Version 5 gave the tables the names that the embedded store uses."""
    assert migrate("--to", "4").returncode == 0
    for state in range(1, 6):
        _record_of_version_4(query, f"state {state}", state, 0, "now() + interval '1 hour'")
    query("INSERT INTO idempotency.response VALUES (7, now() - interval '1 day', 'the response')")
    query("INSERT INTO idempotency.audit (action, count, detail) VALUES ('expire', 3, 'before')")
    query("INSERT INTO idempotency.sweep_watch SELECT tenant, operation, key FROM idempotency.key")
    query("INSERT INTO idempotency.tenant_use (tenant, records) VALUES ('t', 4)")
    query("INSERT INTO idempotency.leader VALUES ('maintenance', 'somebody', now())")
    tables = ("record", "response", "audit", "sweep_watch", "sweep_position", "tenant_use", "leader")
    # As text, since Python has no infinite times.
    contents = "SELECT t::text FROM idempotency.{} t"
    before = {name: query(contents.format(name.replace("record", "key"))) for name in tables}
    assert len(before["record"]) == 5
    assert migrate("--to", "5").stdout == f"applied {FILES[4]}\nschema version 5\n"
    assert {name: query(contents.format(name)) for name in tables} == before
    assert query("SELECT records, detail FROM idempotency.audit") == [(3, "before")]


def test_records_that_are_unknown_already_are_found_and_counted(migrate, query):
    assert migrate("--to", "5").returncode == 0
    query(
        """INSERT INTO idempotency.record (tenant, operation, key, fingerprint, attempt, state, dead_letter,
             reconcile_after, lease_until, expires_at, reap_at, claimed_at, created_at)
           SELECT 't', ('o' || i % 2)::bytea, ('k' || i)::bytea, 'f', i, 1 + i % 5, i % 2 = 0, now(),
             now() - interval '1 hour', now(), now(), now() - interval '2 hours', now()
           FROM generate_series(1, 50) i"""
    )
    assert migrate().returncode == 0
    assert query(
        "SELECT convert_from(key, 'UTF8'), attempt, next_try IS NULL, dead_letter,"
        " since BETWEEN now() - interval '61 minutes' AND now() - interval '59 minutes'"
        " FROM idempotency.unsettled ORDER BY attempt"
    ) == [(f"k{i}", i, i % 2 == 0, i % 2 == 0, True) for i in range(3, 51, 5)]
    query("SELECT idempotency.tidy_unsettled(100)")
    totals = "SELECT convert_from(operation, 'UTF8'), records, dead_letters FROM idempotency.unsettled_total"
    assert query(f"{totals} ORDER BY 1") == [("o0", 5, 5), ("o1", 5, 0)]
    assert query("SELECT count(*) FROM idempotency.unsettled") == [(10,)]


# The page's statements that build the index of version 7 before the migration.
BEFORE_VERSION_7 = re.findall(
    r"^(?:ALTER TABLE|CREATE INDEX CONCURRENTLY) .*;$", PAGE.read_text(), re.MULTILINE
)


def test_the_index_of_version_7_can_be_built_before(migrate, query):
    assert migrate().returncode == 0
    alone = shape(query), rights(query)
    query("DROP SCHEMA idempotency CASCADE")
    assert migrate("--to", "6").returncode == 0
    for statement in BEFORE_VERSION_7:
        query(statement)
    index = "SELECT relfilenode FROM pg_class WHERE relname = 'record_own_attempt'"
    before = query(index)
    assert migrate().returncode == 0
    assert (shape(query), rights(query)) == alone
    assert query(index) == before


def test_an_index_of_version_7_that_was_not_finished_is_refused(server, database, migrate, query):
    assert migrate("--to", "6").returncode == 0
    column, index = BEFORE_VERSION_7
    query(column)
    # An older snapshot keeps it from ending.
    with server.connect(database) as stranger:
        stranger.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        stranger.execute("SELECT count(*) FROM idempotency.record")
        with server.connect(database) as owner:
            owner.execute("SET statement_timeout = '200ms'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                owner.execute(index)
        stranger.execute("ROLLBACK")
    result = migrate()
    assert (result.returncode, version(query)) == (1, 6)
    assert "record_own_attempt is not valid: drop it" in result.stderr
    query("DROP INDEX idempotency.record_own_attempt")
    assert migrate().returncode == 0


def test_after_the_rename_nothing_has_an_old_name(migrate, query):
    assert migrate().returncode == 0
    names = query(
        "SELECT relname FROM pg_class WHERE relnamespace = 'idempotency'::regnamespace UNION"
        " SELECT conname FROM pg_constraint WHERE connamespace = 'idempotency'::regnamespace"
    )
    assert [name for (name,) in names if name.startswith("key")] == []
    texts = query(
        "SELECT prosrc FROM pg_proc WHERE pronamespace = 'idempotency'::regnamespace UNION ALL"
        " SELECT description FROM pg_description d JOIN pg_class c ON c.oid = d.objoid"
        " WHERE c.relnamespace = 'idempotency'::regnamespace AND NOT c.relispartition"
    )
    old = re.compile(r"idempotency\.key\b|\bkey\.\w|\bin key\b|\bkey row\b|action, count")
    assert [text for (text,) in texts if old.search(text)] == []


def test_the_functions_run_after_the_rename(migrate, query):
    """With records that the version before wrote: each function reads and writes the renamed tables."""
    assert migrate("--to", "4").returncode == 0
    past = "now() - interval '1 day'"
    _record_of_version_4(query, "lease ran out", 1, None, past)
    _record_of_version_4(query, "completed", 2, 0, past)
    query("INSERT INTO idempotency.tenant_use (tenant, records) VALUES ('t', 0)")
    assert migrate().returncode == 0
    assert query("SELECT to_unknown, to_retry, more FROM idempotency.sweep(10, NULL, 10)") == [(1, 0, False)]
    assert query("SELECT records, live, complete FROM idempotency.count_tenant('t', 10)") == [(2, 0, True)]
    assert query("SELECT idempotency.recount_tenants(10)") == [(1,)]
    assert query("SELECT records FROM idempotency.tenant_use") == [(2,)]
    assert query("SELECT expired, deleted, more FROM idempotency.reap(10, true)") == [(1, 0, False)]
    audit = query("SELECT action, records FROM idempotency.audit ORDER BY id")
    assert audit == [("lease_to_unknown", 1), ("expire", 1)]


@pytest.mark.parametrize("start", [0, 4])
def test_an_earlier_version_keeps_the_rights_on_its_tables(migrate, query, start):
    """Modules of that version may run: `--to` their version must not lock them out."""
    for _ in range(2 if start else 1):
        assert migrate("--to", "4").returncode == 0
    renamed = {
        (who, "key" if name == "record" else name, right)
        for who, name, right in FILTER | OPERATOR
        if name not in LATER_THAN_VERSION_4
    }
    assert rights(query) == renamed | {(role, "schema", "USAGE") for role in ROLES}


def test_a_new_module_refuses_the_schema_of_an_older_one(server, database, migrate, session_workspace):
    assert migrate("--to", str(NEWEST - 1)).returncode == 0
    store = StoreDriver(session_workspace, server.conninfo(database))
    try:
        wait_for(lambda: store.stats()["last_error"], "it has connected")
        assert store.stats()["last_error"].endswith(
            f"the schema has version {NEWEST - 1}, but version {NEWEST} is required:"
            " run idempotencyctl migrate"
        )
        assert store.claim("key", deadline=1).result == "unavailable"
        assert migrate().returncode == 0
        store.claims_again("key")
    finally:
        store.stop()


def test_modules_from_before_the_rename_are_refused(migrate, query):
    """They compare their own version with this number, and say that the schema requires a newer module."""
    assert migrate("--to", "4").returncode == 0
    assert query("SELECT max(compatible_with) FROM idempotency.schema_version") == [(1,)]
    assert migrate().returncode == 0
    assert query("SELECT max(compatible_with) >= 5 FROM idempotency.schema_version") == [(True,)]


# Columns that only one of the stores needs. All others have the same name in both.
OWN_COLUMNS = {
    "record": {"reap_at", "id", "expired_at", "unknown_since", "own_transaction"},
    "response": {"expires_at", "id"},
    "tenant_use": {"asked_at", "counted_at", "counting_took"},
    "audit": set(),
    "leader": set(),
}


def test_both_stores_have_the_same_words(migrate, query):
    assert migrate().returncode == 0
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        for path in sorted((ROOT / "sql" / "sqlite").glob("0*.sql")):
            db.executescript(path.read_text())
        embedded = db.execute(
            "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c"
            " WHERE t.type = 'table'"
        ).fetchall()
    there = query(
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE c.relnamespace = 'idempotency'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0"
    )
    for table, own in OWN_COLUMNS.items():
        columns, others = ({column for name, column in rows if name == table} for rows in (there, embedded))
        assert columns ^ others == own, table
    shared = {name for name, _ in there} & {name for name, _ in embedded}
    assert shared == set(OWN_COLUMNS)


def test_never_backwards(migrate, query):
    assert migrate().returncode == 0
    before = shape(query)
    result = migrate("--to", "1")
    assert (result.returncode, result.stdout) == (0, f"schema version {NEWEST}\n")
    assert (version(query), shape(query)) == (NEWEST, before)


@pytest.mark.parametrize("to", ["0", str(NEWEST + 1), "-1", "x", ""])
def test_version_that_does_not_exist_is_refused(migrate, query, to):
    result = migrate(f"--to={to}")
    assert result.returncode == 2
    assert "idempotencyctl" in result.stderr
    assert version(query) == 0


# --- Many at once


def waiting_for_their_turn(query) -> int:
    return query(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"
        " AND application_name = 'idempotencyctl migrate' AND datname = current_database()"
    )[0][0]


@pytest.fixture
def gate(server, database):
    """Migrations of the test's database wait until this connection is closed."""
    connection = server.connect(database)
    connection.execute(f"SELECT pg_advisory_lock({TURN})")
    yield connection
    connection.close()


def test_many_at_once_run_each_migration_once(server, database, query, gate):
    racers = [ctl.start("migrate", "--conninfo", server.conninfo(database)) for _ in range(8)]
    wait_for(lambda: waiting_for_their_turn(query) == 8, "all eight wait for their turn", deadline=30)
    assert version(query) == 0
    gate.close()
    outputs = [racer.communicate(timeout=60) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 8, outputs
    lines = "".join(out for out, _ in outputs).splitlines()
    assert sorted(line for line in lines if line.startswith("applied ")) == [
        f"applied {name}" for name in FILES
    ]
    assert lines.count(f"schema version {NEWEST}") == 8
    assert query("SELECT count(*) FROM idempotency.schema_version") == [(NEWEST,)]


def test_databases_of_one_server_at_once(server, database):
    """They share the roles, which each of them wants to make."""
    names = [server.create_database() for _ in range(6)]
    for _ in range(3):
        racers = [ctl.start("migrate", "--conninfo", server.conninfo(name)) for name in names]
        outputs = [racer.communicate(timeout=60) for racer in racers]
        assert [racer.returncode for racer in racers] == [0] * len(names), outputs
        for name in names:
            server.query("DROP SCHEMA idempotency CASCADE", database=name)
        for role in ROLES:
            server.query(f"DROP ROLE {role}")
    for name in names:
        server.drop_database(name)


def test_killed_in_its_turn_it_leaves_the_turn_to_others(server, database, query, gate):
    victim = ctl.start("migrate", "--conninfo", server.conninfo(database))
    wait_for(lambda: waiting_for_their_turn(query) == 1, "it waits", deadline=30)
    # Somebody uses what it needs next, so that it stands still with the turn in its hands.
    with server.connect(database) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("CREATE SCHEMA idempotency")
        gate.close()
        wait_for(
            lambda: query(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND application_name = 'idempotencyctl migrate' AND wait_event <> 'advisory'"
            )[0][0],
            "it has the turn and waits for the schema",
            deadline=30,
        )
        victim.kill()
        victim.communicate()
        stranger.execute("ROLLBACK")
    result = ctl.run("migrate", "--conninfo", server.conninfo(database))
    assert (result.returncode, result.stderr) == (0, "")
    assert version(query) == NEWEST


def test_session_that_is_ended_while_it_waits_is_not_blamed_on_others(server, database, query, gate):
    victim = ctl.start("migrate", "--conninfo", server.conninfo(database))
    wait_for(lambda: waiting_for_their_turn(query) == 1, "it waits", deadline=30)
    query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'idempotencyctl migrate' AND datname = current_database()"
    )
    _, errors = victim.communicate(timeout=60)
    assert victim.returncode == 1
    assert "terminat" in errors
    assert "another migration" not in errors
    assert version(query) == 0


# --- Dry run


def test_dry_run_prints_the_plan_and_changes_nothing(migrate, query):
    result = migrate("--dry-run")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"-- current schema version 0, target version {NEWEST}\n")
    for name in [*FILES, "privileges.sql"]:
        assert f"-- {name}\n{(ROOT / 'sql' / name).read_text()}" in result.stdout
    assert query("SELECT to_regnamespace('idempotency')") == [(None,)]
    assert query("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'idempotency%%'") == [(0,)]


def test_dry_run_prints_only_what_is_missing(migrate, query):
    assert migrate("--to", "1").returncode == 0
    before = shape(query)
    result = migrate("--dry-run")
    assert result.stdout.startswith(f"-- current schema version 1, target version {NEWEST}\n")
    assert f"-- {FILES[0]}\n" not in result.stdout
    assert f"-- {FILES[1]}\n" in result.stdout
    assert (version(query), shape(query)) == (1, before)
    assert FILES[1] not in migrate("--dry-run", "--to", "1").stdout


def test_what_dry_run_prints_can_be_run_by_hand(server, migrate, query):
    """For sites where only an administrator's own tool may change the schema: all but the table of versions'
    rows, which the command then lacks; so it refuses rather than guess."""
    plan = migrate("--dry-run").stdout
    query(plan)
    assert query("SELECT to_regclass('idempotency.record')::text") == [("idempotency.record",)]
    result = migrate()
    assert result.returncode == 1
    assert "already exists" in result.stderr
    assert version(query) == 0


# --- What must not be touched


def test_database_that_is_newer_than_the_program(migrate, query):
    assert migrate().returncode == 0
    query(
        "INSERT INTO idempotency.schema_version (version, name, checksum, compatible_with)"
        f" VALUES ({NEWEST + 1}, 'later.sql', '', 1)"
    )
    before = shape(query), rights(query)
    for words in ([], ["--dry-run"], ["--to", "1"]):
        result = migrate(*words)
        assert (result.returncode, result.stdout) == (1, "")
        assert (
            f"schema version {NEWEST + 1}, but this program knows only {NEWEST}: use a newer one"
            in result.stderr
        )
    assert (shape(query), rights(query)) == before


def test_migration_that_was_run_with_another_text(migrate, query):
    assert migrate("--to", "1").returncode == 0
    query("UPDATE idempotency.schema_version SET checksum = sha256('other')")
    before = shape(query)
    result = migrate()
    assert (result.returncode, result.stdout) == (1, "")
    assert f"migration {FILES[0]} was applied with different contents" in result.stderr
    assert shape(query) == before


def test_gap_in_what_was_run(migrate, query):
    assert migrate().returncode == 0
    query("DELETE FROM idempotency.schema_version WHERE version = 1")
    result = migrate()
    assert result.returncode == 1
    assert "has a gap before version 2" in result.stderr


def test_failing_migration_leaves_nothing_half_done(migrate, query):
    assert migrate("--to", "1").returncode == 0
    # In the way of the second one, after it has made functions and other tables.
    query("CREATE TABLE idempotency.sweep_watch (n int)")
    before = shape(query), rights(query)
    result = migrate()
    assert (result.returncode, result.stdout) == (1, "")
    assert re.search(rf'{FILES[1]}: .*"sweep_watch" already exists.*; rolled back', result.stderr)
    assert (version(query), shape(query), rights(query)) == (1, *before)
    query("DROP TABLE idempotency.sweep_watch")
    assert migrate().returncode == 0
    assert version(query) == NEWEST


def test_table_in_use_is_waited_for_no_longer_than_the_limit(server, database, migrate, query):
    """Requests queue up behind a migration that waits: it gives up, and says so."""
    with server.connect(database) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("CREATE SCHEMA idempotency")
        result = migrate("--lock-timeout", "100")
        assert result.returncode == 1
        assert re.search(rf"{FILES[0]}: .*lock timeout.*; rolled back", result.stderr)
        stranger.execute("ROLLBACK")
    assert version(query) == 0
    assert migrate("--lock-timeout", "100").returncode == 0


# --- No connection


def test_no_server(server):
    result = ctl.run("migrate", "--conninfo", "host=127.0.0.1 port=1 password=hush-hush")
    assert (result.returncode, result.stdout) == (3, "")
    assert "cannot connect" in result.stderr
    assert "hush" not in result.stderr


def test_no_such_database(server):
    result = ctl.run("migrate", "--conninfo", server.conninfo("nowhere"))
    assert result.returncode == 3
    assert 'database "nowhere" does not exist' in result.stderr


@pytest.mark.parametrize(
    "conninfo", ["host=db password=hush hush", "postgres://u:hush-hush@[::1/x", "pasword=hush-hush"]
)
def test_broken_conninfo_is_not_quoted(conninfo):
    result = ctl.run("migrate", "--conninfo", conninfo)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--conninfo" in result.stderr
    assert "hush" not in result.stderr


def test_conninfo_of_the_environment(server, database, query):
    env = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres", "PGDATABASE": database}
    assert ctl.run("migrate", env=env).returncode == 0
    assert version(query) == NEWEST


def test_password_file(postgres_server, folder):
    fresh: Postgres = postgres_server()
    fresh.query("CREATE ROLE secretive LOGIN SUPERUSER PASSWORD 'hush hush'")
    (fresh.data / "pg_hba.conf").write_text(
        "host all secretive 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
    )
    fresh.query("SELECT pg_reload_conf()")
    secret = folder / "secret"
    words = ["migrate", "--conninfo", fresh.conninfo(user="secretive"), "--password-file"]
    secret.write_text("wrong\n")
    wait_for(lambda: ctl.run(*words, str(secret)).returncode == 3, "passwords are asked for")
    secret.write_text("hush hush\n")
    result = ctl.run(*words, str(secret))
    assert (result.returncode, result.stderr) == (0, "")
    assert ctl.run(*words, "-", text="hush hush\n").returncode == 0
    missing = ctl.run(*words, str(folder / "none"))
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "none" in missing.stderr


# --- Rights of the one who migrates


def test_role_without_rights(migrate, query, role):
    role("nobody_special")
    result = migrate(user="nobody_special")
    assert (result.returncode, result.stdout) == (1, "")
    assert "permission denied for database" in result.stderr
    assert query("SELECT to_regnamespace('idempotency')") == [(None,)]


def test_role_that_may_not_create_roles_is_warned_and_helped_later(server, database, migrate, query, role):
    owner = role("schema_owner", "", f"CREATE ON DATABASE {database}")
    result = migrate(user=owner)
    assert (result.returncode, result.stderr) == (0, "")
    for name in ROLES:
        assert f"warning: role {name} is missing and schema_owner may not create it" in result.stdout
    assert rights(query) == set()
    for name in ROLES:
        server.query(f"CREATE ROLE {name}")
    assert migrate(user=owner).stdout == f"schema version {NEWEST}\n"
    assert rights(query) == FILTER | UPSTREAM | WORKER | OPERATOR


def test_schema_that_an_administrator_made_is_used(server, database, migrate, query, role):
    """Then the one who migrates needs no right to make schemas in the database."""
    owner = role("schema_owner")
    server.query(f"CREATE SCHEMA idempotency AUTHORIZATION {owner}", database=database)
    result = migrate(user=owner)
    assert (result.returncode, result.stderr) == (0, "")
    assert version(query) == NEWEST


# --- Rights of the others

FILTER = granted(
    "idempotency_filter",
    {
        "schema": "USAGE",
        "schema_version": "SELECT",
        "record": "SELECT INSERT UPDATE DELETE",
        "response": "SELECT INSERT",
        "response_default": "SELECT DELETE",
        "leader": "SELECT INSERT UPDATE",
        "audit": "INSERT",
        "sweep_position": "SELECT UPDATE",
        "sweep_watch": "SELECT INSERT DELETE",
        "tenant_use": "SELECT INSERT UPDATE",
        "make_response_partitions": "EXECUTE",
        "drop_response_partitions": "EXECUTE",
        "sweep": "EXECUTE",
        "reap": "EXECUTE",
        "count_tenant": "EXECUTE",
        "recount_tenants": "EXECUTE",
        "unsettled": "SELECT INSERT UPDATE DELETE",
        "unsettled_total": "SELECT",
        "unsettled_change": "SELECT",
        "tidy_unsettled": "EXECUTE",
        "tidy_outbox": "EXECUTE",
    },
)
LATER_THAN_VERSION_4 = {
    "unsettled",
    "unsettled_total",
    "unsettled_change",
    "records",
    "readable",
    "key_hash",
    "tidy_unsettled",
    "purge_tenant",
    "tidy_outbox",
    "outbox",
}
SERVICE_CALLS = ("begin_work", "checkpoint", "complete", "enqueue")
UPSTREAM = granted("idempotency_upstream", {"schema": "USAGE", **dict.fromkeys(SERVICE_CALLS, "EXECUTE")})
WORKER_WRITES = ("due_at", "done_at", "dead_at", "tries", "reference", "last_error")
WORKER = granted(
    "idempotency_worker",
    {"schema": "USAGE", "outbox": "SELECT", **{f"outbox.{name}": "UPDATE" for name in WORKER_WRITES}},
)
OPERATOR_WRITES = {
    "record": "UPDATE DELETE",
    "response": "INSERT DELETE",
    "audit": "INSERT",
    "unsettled": "INSERT UPDATE DELETE",
    "readable": "EXECUTE",
    "key_hash": "EXECUTE",
    "tidy_unsettled": "EXECUTE",
    "purge_tenant": "EXECUTE",
}
OPERATOR_READS = [
    "schema_version",
    "record",
    "response",
    "response_default",
    "audit",
    "leader",
    "sweep_position",
    "sweep_watch",
    "tenant_use",
    "unsettled",
    "unsettled_total",
    "unsettled_change",
    "records",
    "outbox",
]
OPERATOR = (
    granted("idempotency_operator", {"schema": "USAGE"})
    | granted("idempotency_operator", OPERATOR_WRITES)
    | granted("idempotency_operator", dict.fromkeys(OPERATOR_READS, "SELECT"))
)


def test_roles_have_exactly_what_they_need(migrate, query):
    assert migrate().returncode == 0
    assert rights(query) == FILTER | UPSTREAM | WORKER | OPERATOR
    assert (
        query(
            "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s) AND (rolcanlogin OR rolsuper"
            " OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)",
            list(ROLES),
        )
        == []
    )


def test_rights_that_are_too_many_are_taken_back(migrate, query):
    assert migrate().returncode == 0
    query("GRANT ALL ON ALL TABLES IN SCHEMA idempotency TO idempotency_filter, idempotency_upstream")
    query("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA idempotency TO PUBLIC, idempotency_operator")
    query("GRANT CREATE ON SCHEMA idempotency TO idempotency_filter, PUBLIC")
    assert migrate().returncode == 0
    assert rights(query) == FILTER | UPSTREAM | WORKER | OPERATOR


FORBIDDEN = {
    "gateway": [
        "DROP TABLE idempotency.record",
        "TRUNCATE idempotency.record",
        "ALTER TABLE idempotency.record ADD COLUMN x int",
        "CREATE TABLE idempotency.mine ()",
        "CREATE INDEX ON idempotency.record (state)",
        "SELECT * FROM idempotency.audit",
        "UPDATE idempotency.audit SET action = 'x'",
        "DELETE FROM idempotency.audit",
        "UPDATE idempotency.response SET body = ''",
        "DELETE FROM idempotency.response",
        "DELETE FROM idempotency.leader",
        "DELETE FROM idempotency.sweep_position",
        "UPDATE idempotency.unsettled_total SET records = 0",
        "SELECT * FROM idempotency.purge_tenant('t', 'a', 'r', false, 1)",
        "INSERT INTO idempotency.schema_version VALUES (9, 'x', '', 1)",
        "UPDATE idempotency.schema_version SET version = 9",
        "DROP FUNCTION idempotency.reap(bigint, boolean)",
        "SELECT * FROM private",
        "DROP SCHEMA idempotency CASCADE",
    ],
    "service": [
        "SELECT * FROM idempotency.record",
        "SELECT * FROM idempotency.response",
        "INSERT INTO idempotency.audit (action) VALUES ('x')",
        "SELECT idempotency.drop_response_partitions()",
        "SELECT * FROM idempotency.reap(1, false)",
        "SELECT * FROM idempotency.outbox",
        "SELECT idempotency.own_record(1)",
    ],
    "worker": [
        "SELECT * FROM idempotency.record",
        "DELETE FROM idempotency.outbox",
        "UPDATE idempotency.outbox SET payload = '{}'",
        "SELECT * FROM idempotency.begin_work(1)",
    ],
    "operator": [
        "INSERT INTO idempotency.record (attempt) VALUES (1)",
        "TRUNCATE idempotency.record",
        "DELETE FROM idempotency.audit",
        "UPDATE idempotency.audit SET action = 'x'",
        "UPDATE idempotency.response SET body = ''",
        "DROP TABLE idempotency.response",
        "SELECT idempotency.drop_response_partitions()",
        "UPDATE idempotency.unsettled_total SET records = 0",
        "DELETE FROM idempotency.unsettled_change",
    ],
    "stranger": [
        "SELECT * FROM idempotency.schema_version",
        "SELECT idempotency.make_response_partitions(1)",
    ],
}


def test_roles_are_refused_everything_else(server, database, migrate, query, role):
    assert migrate().returncode == 0
    query("CREATE TABLE private (secret text)")
    for name, member in zip(("gateway", "service", "worker", "operator"), ROLES, strict=True):
        role(name, f"IN ROLE {member}")
    role("stranger")
    for name, statements in FORBIDDEN.items():
        with psycopg.connect(server.conninfo(database, user=name), autocommit=True) as connection:
            for statement in statements:
                try:
                    connection.execute(statement)
                except psycopg.errors.InsufficientPrivilege:
                    continue
                pytest.fail(f"{name} may {statement}")


def test_partitions_of_later_days_are_reached_through_their_parent_only(
    server, database, migrate, query, role
):
    assert migrate().returncode == 0
    role("gateway", "IN ROLE idempotency_filter")
    query(
        "DO $$ DECLARE p text; BEGIN FOR p IN SELECT relname FROM pg_class WHERE relkind = 'r' AND"
        " relname ~ '^response_[0-9]+$' LOOP EXECUTE 'DROP TABLE idempotency.' || p; END LOOP; END $$"
    )
    with psycopg.connect(server.conninfo(database, user="gateway"), autocommit=True) as connection:
        made = connection.execute("SELECT idempotency.make_response_partitions(3)").fetchone()
        assert made == (4,)
        connection.execute("INSERT INTO idempotency.response VALUES (1, now() + interval '1 day', 'body')")
        assert connection.execute("SELECT body FROM idempotency.response").fetchone() == (b"body",)
        (partition,) = connection.execute(
            "SELECT tableoid::regclass::text FROM idempotency.response"
        ).fetchone()
        assert partition.startswith("idempotency.response_2")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT * FROM {partition}")


# --- Old and new side by side


def test_traffic_continues_while_the_schema_is_migrated(server, database, migrate, query, role):
    """The load ends with an error if a single operation fails."""
    assert migrate().returncode == 0
    role("gateway", "IN ROLE idempotency_filter")
    load = [LOAD, server.conninfo(database, user="gateway"), "lives", "4", "16"]
    with subprocess.Popen([*load, "old"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as old:
        try:
            wait_for(lambda: query("SELECT count(*) > 100 FROM idempotency.record")[0][0], "lives are led")
            for _ in range(3):
                # Rights are taken and given in one transaction.
                assert migrate().returncode == 0
            # As the next version's migration might: one that the present module works with.
            query(
                "ALTER TABLE idempotency.record ADD COLUMN later integer NOT NULL DEFAULT 7;"
                "ALTER TABLE idempotency.response ADD COLUMN later text;"
                "INSERT INTO idempotency.schema_version (version, name, checksum, compatible_with)"
                f" VALUES ({NEWEST + 1}, 'later.sql', '', {NEWEST})"
            )
            seen = query("SELECT count(*) FROM idempotency.record")[0][0]
            wait_for(
                lambda: query("SELECT count(*) FROM idempotency.record")[0][0] > seen,
                "sessions of before go on",
            )
            # One that is started now.
            new = subprocess.run([*load[:3], "1", "16", "new"], capture_output=True, text=True, timeout=60)
            assert new.returncode == 0, new.stderr
            _, errors = old.communicate(timeout=60)
            assert old.returncode == 0, errors
        finally:
            old.kill()
    states = query("SELECT state, count(*) FROM idempotency.record GROUP BY 1")
    assert [state for state, _ in states] == [2], "every life that was begun was completed"


# --- What stands in the catalogue


def test_every_table_column_and_function_has_a_comment(migrate, query):
    assert migrate().returncode == 0
    assert (
        query("""
        SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'idempotency'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
          AND NOT a.attisdropped AND NOT c.relispartition
          AND coalesce(col_description(c.oid, a.attnum), '') = ''""")
        == []
    )
    assert (
        query("""
        SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'idempotency'::regnamespace
          AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND coalesce(obj_description(c.oid, 'pg_class'), '') = ''""")
        == []
    )
    assert (
        query("""
        SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'idempotency'::regnamespace
          AND coalesce(obj_description(p.oid, 'pg_proc'), '') = ''""")
        == []
    )
    assert query("SELECT obj_description('idempotency'::regnamespace, 'pg_namespace') <> ''") == [(True,)]


def test_functions_with_the_owners_rights_trust_no_search_path(migrate, query):
    assert migrate().returncode == 0
    functions = query(
        "SELECT proname, proconfig FROM pg_proc"
        " WHERE pronamespace = 'idempotency'::regnamespace AND prosecdef"
    )
    assert {name for name, _ in functions} == {
        "make_response_partitions",
        "drop_response_partitions",
        "count_unsettled",
        "tidy_unsettled",
        "purge_tenant",
        "own_record",
        "begin_work",
        "checkpoint",
        "complete",
        "enqueue",
        "tidy_outbox",
    }
    for name, settings in functions:
        assert "search_path=pg_catalog, pg_temp" in settings, name


# --- The page


def test_sql_of_the_page_runs(server, database, migrate, query):
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) > 3
    assert migrate().returncode == 0
    roles = ("gateway", "payments", "app_owner")
    # What the page's service has claimed.
    query(
        """INSERT INTO idempotency.record (tenant, operation, key, fingerprint, attempt, state,
             own_transaction, lease_until, expires_at, reap_at, claimed_at, created_at)
           VALUES ('t', 'o', 'k', 'f', 4611686018427387905, 1, true, now() + interval '30 s',
             now() + interval '1 day', now() + interval '1 day', now(), now())"""
    )
    try:
        server.query("CREATE ROLE app_owner LOGIN")
        for block in blocks:
            # One statement at a time: together they are a transaction, in which CONCURRENTLY fails.
            for statement in block.split(";\n") if "CONCURRENTLY" in block else [block]:
                query(statement)
        assert query("SELECT pg_has_role('gateway', 'idempotency_filter', 'USAGE')") == [(True,)]
        assert query("SELECT status FROM idempotency.records WHERE key = 'k'") == [(201,)]
        assert query("SELECT topic, payload FROM idempotency.outbox") == [
            ("receipt", {"to": "a@example.com"})
        ]
        # What workers write stands in a table.
        table = re.findall(r"`(UPDATE idempotency\.outbox .*?)`", PAGE.read_text())
        assert len(table) == 3
        for statement in table:
            query(statement.replace("$1", "(SELECT max(id) FROM idempotency.outbox)").replace("$2", "'code'"))
    finally:
        query("DROP OWNED BY app_owner, payments")
        for name in roles:
            server.query(f"DROP ROLE IF EXISTS {name}")
