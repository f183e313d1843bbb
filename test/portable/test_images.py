"""The portable files run where users put them: in root filesystems like those of Envoy's images, as a user
without rights, with either store."""

import os
import re
from pathlib import Path

import pytest
from harness.certificates import Authority
from harness.clients import Request, post, send_many
from harness.config import EnvoyConfig
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS, built
from harness.postgres import Postgres, unprivileged_user
from harness.site import new_key
from image import IMAGES, MODULE_FOLDER, PROGRAM, USER, Image

every_envoy = pytest.mark.parametrize("version", ENVOY_VERSIONS)
# Beside Envoy and the module. Nothing else may be mapped, and nothing of this machine.
C_LIBRARY = re.compile(
    r"/(usr/)?lib(/x86_64-linux-gnu|64)?/(ld|lib(c|m|dl|pthread|rt|nss_\w+|resolv))\b[^/]*\.so\S*"
)
DATABASE_HOST = "localhost"


def start(envoy, config: EnvoyConfig, version: str, image: Image) -> Envoy:
    environment = {"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": MODULE_FOLDER}
    return envoy(config, version, inside=image.inside_for_envoy(version), env=environment)


def assert_in_image(server: Envoy, image: Image) -> None:
    """The test would otherwise pass on this machine's own libraries, or as root."""
    process = Path(f"/proc/{server.process.pid}")
    assert IMAGES[image.name] in (process / "root/etc/os-release").read_text().splitlines()
    status = (process / "status").read_text()
    assert re.search(rf"^Uid:\s+{USER}\s+{USER}\s", status, re.M)
    assert re.search(r"^CapEff:\s+0+$", status, re.M)


def assert_maps_nothing_else(server: Envoy, image: Image) -> None:
    files = image.mapped(server.process.pid)
    assert any(file.endswith(("/libc.so.6", "/libc-2.31.so")) for file in files), files
    assert {file for file in files if not C_LIBRARY.fullmatch(file)} == {f"{MODULE_FOLDER}/libidempotency.so"}


def drive(server: Envoy, upstream) -> None:
    """What a user sees first: a key is needed, a retry replays, a reused key is refused, one of many runs."""
    before = len(upstream.executions())
    key, url = new_key(), f"{server.url}/payments"
    assert post(url, json={"amount": 10}).status_code == 400
    first = post(url, key=key, json={"amount": 10})
    assert first.status_code == 200, first.text
    again = post(url, key=key, json={"amount": 10})
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert post(url, key=key, json={"amount": 99}).status_code == 422
    many = new_key()
    answers = send_many(server.port, [Request.keyed("/payments", many)] * 20, concurrency=20)
    assert {answer.status for answer in answers} <= {200, 409}
    assert len(upstream.executions()) == before + 2


@every_envoy
def test_an_envoy_in_an_image_serves_with_sqlite_and_replays_after_a_restart(
    image, envoy, config, upstream, version
):
    key = new_key()
    bodies = []
    for _ in range(2):
        server = start(envoy, config, version, image)
        assert_in_image(server, image)
        response = post(f"{server.url}/payments", key=key, content=b"{}")
        assert response.status_code == 200, response.text
        bodies.append(response.content)
        drive(server, upstream)
        assert_maps_nothing_else(server, image)
        assert server.stop() == 0
        assert server.module_complaints() == []
    assert bodies[0] == bodies[1]
    assert response.headers["idempotent-replayed"] == "true"


@pytest.fixture
def authority(folder) -> Authority:
    return Authority(folder)


@pytest.fixture
def guarded(postgres_server, schema, authority, folder) -> tuple[Postgres, str]:
    """A server that lets the role gateway in by TLS and its password alone; and a database."""
    server = postgres_server()
    name = schema(server)
    server.query("CREATE ROLE gateway LOGIN IN ROLE idempotency_filter PASSWORD 'a secret'")
    (folder / "password").write_text("a secret\n")
    certificate, key = authority.issue("server", f"DNS:{DATABASE_HOST}")
    for source, target in ((certificate, "server.crt"), (key, "server.key")):
        path = server.data / target
        path.write_bytes(source.read_bytes())
        path.chmod(0o600)
        if user := unprivileged_user():
            os.chown(path, *user)
    server.set("ssl", "on")
    server.access("hostssl all gateway all scram-sha-256", "host all gateway all reject")
    return server, name


def conninfo(server: Postgres, name: str, authority: Authority) -> str:
    return server.conninfo(
        name,
        user="gateway",
        host=DATABASE_HOST,
        sslmode="verify-full",
        sslrootcert=str(authority.certificate),
        channel_binding="require",
    )


def store(server: Postgres, name: str, authority: Authority, password: Path) -> dict:
    connection = conninfo(server, name, authority)
    return {"postgres": {"conninfo": connection, "password_file": str(password), "timeout": "5s"}}


@every_envoy
def test_an_envoy_in_an_image_serves_with_postgres_by_verified_tls_and_scram(
    image, envoy, config, upstream, version, guarded, authority, folder
):
    server, name = guarded
    config.store(store(server, name, authority, folder / "password"))
    proxy = start(envoy, config, version, image)
    assert_in_image(proxy, image)
    drive(proxy, upstream)
    assert_maps_nothing_else(proxy, image)
    sessions = server.query(
        "SELECT ssl, version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'gateway'"
    )
    assert sessions
    assert set(sessions) == {(True, "TLSv1.3")}
    assert server.query("SELECT count(*) FROM idempotency.record", database=name) == [(2,)]
    assert proxy.stop() == 0
    assert proxy.module_complaints() == []


def test_a_server_that_another_authority_vouches_for_is_refused(
    image, envoy, config, upstream, workspace, guarded, folder
):
    server, name = guarded
    other = Authority(workspace.new_folder("test"))
    config.store(store(server, name, other, folder / "password"))
    proxy = start(envoy, config, ENVOY_VERSIONS[-1], image)
    response = post(f"{proxy.url}/payments", key=new_key(), content=b"{}")
    assert response.status_code == 503
    assert upstream.executions() == []
    assert any("certificate verify failed" in line for line in proxy.module_complaints())


def test_the_operators_program_runs_in_an_image(image, guarded, authority, folder):
    server, _ = guarded
    empty = server.create_database()
    server.query("CREATE ROLE owner LOGIN SUPERUSER PASSWORD 'a secret'")
    server.access("hostssl all owner all scram-sha-256")
    connection = conninfo(server, empty, authority).replace("gateway", "owner")
    words = ("--conninfo", connection, "--password-file", str(folder / "password"))
    done = image.run(PROGRAM, "migrate", *words, shown=(folder,))
    assert done.returncode == 0, done.stderr
    listed = image.run(PROGRAM, "records", "list", *words, "--json", shown=(folder,))
    assert listed.returncode == 0, listed.stderr
    assert '"records"' in listed.stdout


def test_the_runtime_that_the_files_bring_works_in_an_image(image):
    """Exceptions, random numbers and exact waiting: what newer C libraries have and older ones lack."""
    program, module = built("test/portable/runtime_program"), built("test/portable/libruntime_module.so")
    done = image.run(program.resolve(), module.resolve(), shown=(program.resolve(), module.resolve()))
    assert (done.returncode, done.stdout) == (0, "program: fine\nmodule: fine\n"), done.stderr
