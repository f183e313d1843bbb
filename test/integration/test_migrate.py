"""`idempotencyctl migrate` on a real PostgreSQL: forward, safe when run twice and by many at once, all or
nothing; what the roles may do afterwards; and schemas that are older or newer than a program."""

import re
import subprocess

import psycopg
import pytest
from harness import ctl
from harness.paths import CACHE, POSTGRES_MAJORS, ROOT
from harness.postgres import Postgres
from harness.wait import wait_for

NEWEST = len(list((ROOT / "sql").glob("0*.sql")))
FILES = sorted(path.name for path in (ROOT / "sql").glob("0*.sql"))
# The number that migrations take turns by (source/store/postgres/migrate.cc).
TURN = 7593461025893847
LOAD = CACHE / "bazel-opt" / "bin" / "bench" / "postgres_load"
ROLES = ("idempotency_filter", "idempotency_upstream", "idempotency_operator")


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
    assert result.stdout.splitlines() == [f"ran {name}" for name in FILES] + [f"schema version {NEWEST}"]
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
        assert result.stdout == f"ran {FILES[step - 1]}\nschema version {step}\n"
        assert version(query) == step
    assert (shape(query), rights(query)) == at_once


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
    assert sorted(line for line in lines if line.startswith("ran ")) == [f"ran {name}" for name in FILES]
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
    assert result.stdout.startswith(f"-- schema version 0, wanted {NEWEST}\n")
    for name in [*FILES, "privileges.sql"]:
        assert f"-- {name}\n{(ROOT / 'sql' / name).read_text()}" in result.stdout
    assert query("SELECT to_regnamespace('idempotency')") == [(None,)]
    assert query("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'idempotency%%'") == [(0,)]


def test_dry_run_tells_what_is_missing_only(migrate, query):
    assert migrate("--to", "1").returncode == 0
    before = shape(query)
    result = migrate("--dry-run")
    assert result.stdout.startswith(f"-- schema version 1, wanted {NEWEST}\n")
    assert f"-- {FILES[0]}\n" not in result.stdout
    assert f"-- {FILES[1]}\n" in result.stdout
    assert (version(query), shape(query)) == (1, before)
    assert FILES[1] not in migrate("--dry-run", "--to", "1").stdout


def test_what_dry_run_prints_can_be_run_by_hand(server, migrate, query):
    """For sites where only an administrator's own tool may change the schema: all but the table of versions'
    rows, which the command then lacks; so it refuses rather than guess."""
    plan = migrate("--dry-run").stdout
    query(plan)
    assert query("SELECT to_regclass('idempotency.key')::text") == [("idempotency.key",)]
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
        assert f"schema version {NEWEST + 1}, this program knows {NEWEST}: use a newer one" in result.stderr
    assert (shape(query), rights(query)) == before


def test_migration_that_was_run_with_another_text(migrate, query):
    assert migrate("--to", "1").returncode == 0
    query("UPDATE idempotency.schema_version SET checksum = sha256('other')")
    before = shape(query)
    result = migrate()
    assert (result.returncode, result.stdout) == (1, "")
    assert f"migration {FILES[0]} was run with another text" in result.stderr
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
    assert re.search(rf'{FILES[1]}: .*"sweep_watch" already exists.*; it was rolled back', result.stderr)
    assert (version(query), shape(query), rights(query)) == (1, *before)
    query("DROP TABLE idempotency.sweep_watch")
    assert migrate().returncode == 0
    assert version(query) == NEWEST


def test_table_in_use_is_waited_for_no_longer_than_told(server, database, migrate, query):
    """Requests queue up behind a migration that waits: it gives up, and says so."""
    with server.connect(database) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("CREATE SCHEMA idempotency")
        result = migrate("--lock-timeout", "100")
        assert result.returncode == 1
        assert re.search(rf"{FILES[0]}: .*lock timeout.*; it was rolled back", result.stderr)
        stranger.execute("ROLLBACK")
    assert version(query) == 0
    assert migrate("--lock-timeout", "100").returncode == 0


# --- No connection


def test_no_server(server):
    result = ctl.run("migrate", "--conninfo", "host=127.0.0.1 port=1 password=hush-hush")
    assert (result.returncode, result.stdout) == (1, "")
    assert "cannot connect" in result.stderr
    assert "hush" not in result.stderr


def test_no_such_database(server):
    result = ctl.run("migrate", "--conninfo", server.conninfo("nowhere"))
    assert result.returncode == 1
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
    wait_for(lambda: ctl.run(*words, str(secret)).returncode == 1, "passwords are asked for")
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


def test_role_that_may_not_make_roles_is_told_and_helped_later(server, database, migrate, query, role):
    owner = role("schema_owner", "", f"CREATE ON DATABASE {database}")
    result = migrate(user=owner)
    assert (result.returncode, result.stderr) == (0, "")
    for name in ROLES:
        assert f"warning: role {name} is missing and schema_owner may not create it" in result.stdout
    assert rights(query) == set()
    for name in ROLES:
        server.query(f"CREATE ROLE {name}")
    assert migrate(user=owner).stdout == f"schema version {NEWEST}\n"
    assert rights(query) == FILTER | UPSTREAM | OPERATOR


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
        "key": "SELECT INSERT UPDATE DELETE",
        "response": "SELECT INSERT",
        "response_default": "SELECT DELETE",
        "leader": "SELECT INSERT UPDATE",
        "audit": "INSERT",
        "sweep_position": "SELECT UPDATE",
        "sweep_watch": "SELECT INSERT DELETE",
        "make_response_partitions": "EXECUTE",
        "drop_response_partitions": "EXECUTE",
        "sweep": "EXECUTE",
        "reap": "EXECUTE",
    },
)
UPSTREAM = granted("idempotency_upstream", {"schema": "USAGE"})
OPERATOR_WRITES = {"key": "UPDATE DELETE", "response": "INSERT DELETE", "audit": "INSERT"}
OPERATOR_READS = [
    "schema_version",
    "key",
    "response",
    "response_default",
    "audit",
    "leader",
    "sweep_position",
    "sweep_watch",
]
OPERATOR = (
    granted("idempotency_operator", {"schema": "USAGE"})
    | granted("idempotency_operator", OPERATOR_WRITES)
    | granted("idempotency_operator", dict.fromkeys(OPERATOR_READS, "SELECT"))
)


def test_roles_have_exactly_what_they_need(migrate, query):
    assert migrate().returncode == 0
    assert rights(query) == FILTER | UPSTREAM | OPERATOR
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
    assert rights(query) == FILTER | UPSTREAM | OPERATOR


FORBIDDEN = {
    "gateway": [
        "DROP TABLE idempotency.key",
        "TRUNCATE idempotency.key",
        "ALTER TABLE idempotency.key ADD COLUMN x int",
        "CREATE TABLE idempotency.mine ()",
        "CREATE INDEX ON idempotency.key (state)",
        "SELECT * FROM idempotency.audit",
        "UPDATE idempotency.audit SET action = 'x'",
        "DELETE FROM idempotency.audit",
        "UPDATE idempotency.response SET body = ''",
        "DELETE FROM idempotency.response",
        "DELETE FROM idempotency.leader",
        "DELETE FROM idempotency.sweep_position",
        "INSERT INTO idempotency.schema_version VALUES (9, 'x', '', 1)",
        "UPDATE idempotency.schema_version SET version = 9",
        "DROP FUNCTION idempotency.reap(bigint, boolean)",
        "SELECT * FROM private",
        "DROP SCHEMA idempotency CASCADE",
    ],
    "service": [
        "SELECT * FROM idempotency.key",
        "SELECT * FROM idempotency.response",
        "INSERT INTO idempotency.audit (action) VALUES ('x')",
        "SELECT idempotency.drop_response_partitions()",
        "SELECT * FROM idempotency.reap(1, false)",
    ],
    "operator": [
        "INSERT INTO idempotency.key (attempt) VALUES (1)",
        "TRUNCATE idempotency.key",
        "DELETE FROM idempotency.audit",
        "UPDATE idempotency.audit SET action = 'x'",
        "UPDATE idempotency.response SET body = ''",
        "DROP TABLE idempotency.response",
        "SELECT idempotency.drop_response_partitions()",
    ],
    "stranger": [
        "SELECT * FROM idempotency.schema_version",
        "SELECT idempotency.make_response_partitions(1)",
    ],
}


def test_roles_are_refused_everything_else(server, database, migrate, query, role):
    assert migrate().returncode == 0
    query("CREATE TABLE private (secret text)")
    for name, member in zip(("gateway", "service", "operator"), ROLES, strict=True):
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


def test_traffic_goes_on_while_the_schema_is_migrated(server, database, migrate, query, role):
    """The load ends with an error if a single operation fails."""
    assert migrate().returncode == 0
    role("gateway", "IN ROLE idempotency_filter")
    load = [LOAD, server.conninfo(database, user="gateway"), "lives", "4", "16"]
    with subprocess.Popen([*load, "old"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as old:
        try:
            wait_for(lambda: query("SELECT count(*) > 100 FROM idempotency.key")[0][0], "lives are led")
            for _ in range(3):
                # Rights are taken and given in one transaction.
                assert migrate().returncode == 0
            # As the next version's migration might: one that the present module works with.
            query(
                "ALTER TABLE idempotency.key ADD COLUMN later integer NOT NULL DEFAULT 7;"
                "ALTER TABLE idempotency.response ADD COLUMN later text;"
                "INSERT INTO idempotency.schema_version (version, name, checksum, compatible_with)"
                f" VALUES ({NEWEST + 1}, 'later.sql', '', {NEWEST})"
            )
            seen = query("SELECT count(*) FROM idempotency.key")[0][0]
            wait_for(
                lambda: query("SELECT count(*) FROM idempotency.key")[0][0] > seen,
                "sessions of before go on",
            )
            # One that is started now.
            new = subprocess.run([*load[:3], "1", "16", "new"], capture_output=True, text=True, timeout=60)
            assert new.returncode == 0, new.stderr
            _, errors = old.communicate(timeout=60)
            assert old.returncode == 0, errors
        finally:
            old.kill()
    states = query("SELECT state, count(*) FROM idempotency.key GROUP BY 1")
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
    assert {name for name, _ in functions} == {"make_response_partitions", "drop_response_partitions"}
    for name, settings in functions:
        assert "search_path=pg_catalog, pg_temp" in settings, name


# --- The page


def test_sql_of_the_page_runs(server, database, migrate, query):
    blocks = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "postgres.md").read_text(), re.DOTALL)
    assert len(blocks) > 3
    assert migrate().returncode == 0
    try:
        for block in blocks:
            query(block)
        assert query("SELECT pg_has_role('gateway', 'idempotency_filter', 'USAGE')") == [(True,)]
    finally:
        server.query("DROP ROLE IF EXISTS gateway")
