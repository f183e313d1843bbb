"""Every PostgreSQL major that we support starts, answers, and can be killed and started again."""

import psycopg
import pytest
from harness.paths import POSTGRES_MAJORS
from harness.postgres import Postgres


@pytest.mark.parametrize("major", POSTGRES_MAJORS)
def test_each_major_starts_and_keeps_committed_rows_over_kill_9(postgres_server, major):
    server: Postgres = postgres_server(major)
    (version,) = server.query("SHOW server_version_num")[0]
    assert int(version) // 10000 == major
    server.query("CREATE TABLE kept (n int)")
    server.query("INSERT INTO kept VALUES (1)")
    server.kill9()
    with pytest.raises(psycopg.OperationalError):
        server.query("SELECT 1")
    server.start()
    assert server.query("SELECT n FROM kept") == [(1,)]
    assert server.shut_down() == 0


def test_commits_are_as_durable_as_in_production(shared_postgres):
    assert shared_postgres.query("SHOW synchronous_commit") == [("on",)]


def test_settings_reach_the_server(postgres_server):
    server = postgres_server(settings={"max_connections": "17"})
    assert server.query("SHOW max_connections") == [("17",)]


def test_a_database_is_empty_and_of_this_test_alone(shared_postgres, database):
    with psycopg.connect(database) as connection:
        tables = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 2200"
        assert connection.execute(tables).fetchone() == (0,)
        connection.execute("CREATE TABLE mine (n int)")
    other = shared_postgres.create_database()
    assert shared_postgres.query("SELECT to_regclass('mine')", database=other) == [(None,)]
    shared_postgres.drop_database(other)
