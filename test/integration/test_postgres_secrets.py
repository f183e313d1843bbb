"""How the PostgreSQL store proves who it is, and how the server does: passwords from files, TLS."""

import os
from pathlib import Path

import pytest
from harness.certificates import Authority
from harness.postgres import Postgres, unprivileged_user
from harness.wait import wait_for

NAME = "localhost"


def reason(store) -> str:
    return store.stats()["last_error"]


def wait_for_reason(store, *parts: str) -> None:
    wait_for(
        lambda: all(part in reason(store) for part in parts),
        lambda: f"{parts} in {reason(store)}",
        deadline=30,
    )


def end_sessions(server: Postgres, role: str) -> None:
    server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", role)


# --- Passwords


@pytest.fixture
def guarded(postgres_server, schema):
    """A server that lets the role gateway in by its password alone; and a database."""
    server = postgres_server()
    name = schema(server)
    server.query("CREATE ROLE gateway LOGIN IN ROLE idempotency_filter PASSWORD 'first'")
    server.access("host all gateway 127.0.0.1/32 scram-sha-256")
    return server, name


def test_a_rotated_password_is_read_from_its_file_without_a_restart(guarded, store_driver, folder):
    server, name = guarded
    file = folder / "password"
    file.write_text("first\n")
    store = store_driver(server.conninfo(name, user="gateway"), password_file=str(file))
    store.wait_until_up()
    # The usual order: the role first. Sessions that stand go on, new ones are refused.
    server.query("ALTER ROLE gateway PASSWORD 'second'")
    store.must_claim("between")
    end_sessions(server, "gateway")
    wait_for_reason(store, "password authentication failed")
    assert store.claim("k", deadline=1).result == "unavailable"
    assert "first" not in reason(store)
    # Replaced by renaming, as secrets are.
    (folder / "new").write_text("second")
    os.replace(folder / "new", file)
    store.claims_again("k")
    store.wait_until_up()
    # The other order: the file first.
    file.write_text("third\r\n")
    store.must_claim("before")
    server.query("ALTER ROLE gateway PASSWORD 'third'")
    end_sessions(server, "gateway")
    store.claims_again("after")


def test_a_password_file_that_is_missing_or_empty_is_waited_for(guarded, store_driver, folder):
    server, name = guarded
    file = folder / "password"
    store = store_driver(server.conninfo(name, user="gateway"), password_file=str(file))
    assert store.claim("k", deadline=1).result == "unavailable"
    wait_for_reason(store, "cannot read password_file")
    file.write_text("\n")
    wait_for_reason(store, "password_file is empty")
    file.write_text("first\n")
    store.claims_again("k")


def test_a_password_file_that_vanishes_does_no_harm_to_sessions_that_stand(guarded, store_driver, folder):
    server, name = guarded
    file = folder / "password"
    file.write_text("first")
    store = store_driver(server.conninfo(name, user="gateway"), password_file=str(file))
    store.wait_until_up()
    file.unlink()
    store.must_claim("k")
    assert store.stats()["connections_lost"] == 0


# --- TLS


def install(server: Postgres, certificate: Path, key: Path) -> None:
    """The server's own certificate, from now on."""
    for source, target in ((certificate, "server.crt"), (key, "server.key")):
        path = server.data / target
        path.write_bytes(source.read_bytes())
        path.chmod(0o600)
        if user := unprivileged_user():
            os.chown(path, *user)


@pytest.fixture
def authority(folder) -> Authority:
    return Authority(folder)


@pytest.fixture
def encrypted(postgres_server, schema, authority):
    """A server that lets the role gateway in by TLS alone; and a database."""
    server = postgres_server()
    name = schema(server)
    server.query("CREATE ROLE gateway LOGIN IN ROLE idempotency_filter")
    install(server, *authority.issue("server", f"DNS:{NAME}"))
    server.set("ssl", "on")
    server.access("hostssl all gateway 127.0.0.1/32 trust", "host all gateway 127.0.0.1/32 reject")
    return server, name


def tls(server: Postgres, name: str, **more: str) -> str:
    return server.conninfo(name, **{"user": "gateway", "host": NAME, "sslmode": "verify-full", **more})


def test_a_verified_server_is_used_by_tls_alone(encrypted, authority, store_driver):
    server, name = encrypted
    store = store_driver(tls(server, name, sslrootcert=str(authority.certificate)))
    store.wait_until_up()
    attempt = store.must_claim("k")
    assert store.complete("k", attempt, "x" * 200_000).result == "done"
    assert store.claim("k").response == "x" * 200_000
    sessions = server.query(
        "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'gateway'"
    )
    assert sessions == [(True,)] * 4


def test_without_tls_the_server_refuses(encrypted, store_driver):
    server, name = encrypted
    store = store_driver(tls(server, name, sslmode="disable"))
    assert store.claim("k", deadline=1).result == "unavailable"
    wait_for_reason(store, "pg_hba.conf rejects connection")


def test_a_server_of_another_authority_is_refused(encrypted, store_driver, workspace):
    server, name = encrypted
    other = Authority(workspace.new_folder("other-authority"))
    store = store_driver(tls(server, name, sslrootcert=str(other.certificate)))
    assert store.claim("k", deadline=1).result == "unavailable"
    wait_for_reason(store, "certificate verify failed")
    assert server.query("SELECT count(*) FROM pg_stat_activity WHERE usename = 'gateway'") == [(0,)]


def test_a_server_of_another_name_is_refused_until_it_has_the_right_certificate(
    encrypted, authority, store_driver
):
    server, name = encrypted
    install(server, *authority.issue("other", "DNS:other.example.org"))
    server.reload()
    store = store_driver(tls(server, name, sslrootcert=str(authority.certificate)))
    assert store.claim("k", deadline=1).result == "unavailable"
    wait_for_reason(store, "other.example.org", "does not match host name", NAME)
    # A new certificate, on a server that runs: the store finds it.
    install(server, *authority.issue("right", f"DNS:{NAME}"))
    server.reload()
    store.claims_again("k")


def test_the_store_proves_itself_by_a_certificate(encrypted, authority, store_driver):
    server, name = encrypted
    (server.data / "root.crt").write_bytes(authority.certificate.read_bytes())
    (server.data / "root.crt").chmod(0o644)
    server.set("ssl_ca_file", "root.crt")
    server.access("hostssl all gateway 127.0.0.1/32 cert")
    certificate, key = authority.issue("gateway", "DNS:gateway")
    key.chmod(0o600)
    root = str(authority.certificate)
    store = store_driver(tls(server, name, sslrootcert=root, sslcert=str(certificate), sslkey=str(key)))
    store.claims_again("k")
    unknown = store_driver(tls(server, name, sslrootcert=root))
    assert unknown.claim("k", deadline=1).result == "unavailable"
    wait_for_reason(unknown, "certificate")
