"""Keeps what a build of the module writes to both stores, for later builds to read.

    cd test/integration && ../../.cache/venv/bin/python -m upgrade.make BUILD NAME

BUILD is a folder with libidempotency.so and idempotencyctl of that build. NAME says which build it is, a
commit for one, and becomes part of the file's name. When what records hold is to change, run it with the last
build before the change.
"""

import json
import subprocess
import sys
from pathlib import Path

from harness.envoy import Envoy
from harness.postgres import Postgres
from harness.process import Workspace
from harness.upstream import Upstream, behave
from harness.wait import wait_for
from harness.wire import Http1Connection

from . import rows
from .scene import Request, config_for

JSON = ("content-type", "application/json")

COMPLETED = {
    "plain": Request("/json"),
    "json-in-other-words": Request("/json", body=b'{"b": 1e2, "a": "\\u00fc", "c": [1.0, null]}'),
    "json-that-is-none": Request("/json", body=b'{"a": 1, "a": 2}'),
    "json-charset": Request("/json", headers=(("content-type", "Application/JSON; Charset=UTF-8; v=2"),)),
    "text": Request("/json", body=b"a b\n", headers=(("content-type", "text/plain"),)),
    "no-media-type": Request("/json", body=b"\x00\x01", headers=()),
    "empty": Request("/json", body=b"", headers=()),
    "patch": Request("/json", method="PATCH"),
    "query": Request("/json/p?b=2&a=1&a=0&c"),
    "query-in-order": Request("/json/p?a=1&b=2"),
    "query-empty": Request("/json?"),
    "query-brackets": Request("/json?i[][n]=x&i[][q]=1&i[][n]=y"),
    "query-encoded-brackets": Request("/json?i%5b%5D=2&a=1"),
    "query-semicolons": Request("/json?b=1;a=2&a=3"),
    "query-encoded-name": Request("/json?a=1&%61=2"),
    "host-with-port": Request("/json", host="API.example.com:8443"),
    "if-match": Request("/json", headers=(JSON, ("if-match", '"1"'))),
    "content-encoding": Request("/json", body=b"\x1f\x8b\x08", headers=(JSON, ("content-encoding", "gzip"))),
    "counted": Request("/counted", headers=(JSON, ("x-source", "app"), ("x-source", "web"))),
    "counted-absent": Request("/counted"),
    "principal": Request("/mine", headers=(JSON, ("x-user", "alice"))),
    "raw": Request("/raw"),
    "selected": Request("/selected", body=b'{"amount": 1.0, "note": "x"}'),
    "excluding": Request("/excluding", body=b'{"amount": 1, "sent_at": 5}'),
    "none": Request("/none"),
}
FAILED = {"failed": Request("/json?b=1&a=2"), "failed-principal": COMPLETED["principal"]}
UNKNOWN = {"unknown": Request("/json?b=1&a=2"), "unknown-counted": COMPLETED["counted"]}
INTERRUPTED = {"interrupted": Request("/json?b=1&a=2")}


def play(workspace: Workspace, build: Path, store: dict) -> list[dict]:
    """Sends all requests through the build. Returns them and, of those that completed, the replay."""
    upstream = Upstream(workspace)
    envoy = Envoy(
        workspace,
        config_for(store, upstream.port),
        env={"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": str(build)},
    )
    port = envoy.port
    played = []

    def keep(name: str, request: Request, state: str, **more) -> None:
        played.append({"key": key_of(name), "state": state, "request": request.to_json(), **more})

    for name, request in COMPLETED.items():
        assert request.send(port, key_of(name), *behave(**answer_of(name)).items()).status == 201, name
        replay = request.send(port, key_of(name))
        assert replay.header("idempotent-replayed") == "true", name
        answer = {"status": replay.status, "headers": replay.headers, "body": replay.body.hex()}
        keep(name, request, "completed", replay=answer)
    for name, request in FAILED.items():
        assert request.send(port, key_of(name), *behave(status=503).items()).status == 503
        keep(name, request, "failed_retryable")
    for name, request in UNKNOWN.items():
        assert request.send(port, key_of(name), *behave(fault="close_after_read").items()).status == 503
        keep(name, request, "unknown")
    wait_for(lambda: envoy.stat("idempotency.in_flight") == 0, "everything is settled")
    for name, request in INTERRUPTED.items():
        with Http1Connection(port) as connection:
            request.begin(connection, key_of(name), *behave(hold=name).items())
            upstream.wait_until_held(name)
            envoy.kill9()
        keep(name, request, "in_progress")
    upstream.stop()
    return played


def answer_of(name: str) -> dict:
    """With what replays must keep: repeated headers, bytes that are no text; another one for each name."""
    body = b"\x00\xff\r\n\x80" + name.encode()
    return {"status": 201, "headers": [["x-part", "1"], ["x-part", "2"]], "body_hex": body.hex()}


def key_of(name: str) -> str:
    return f"key-of-the-request-{name}"


def main(build: Path, name: str) -> None:
    workspace = Workspace()
    try:
        file = workspace.new_folder("sqlite") / "idempotency.db"
        server = Postgres(workspace)
        migrate = [build / "idempotencyctl", "migrate", "--conninfo", server.conninfo()]
        subprocess.run(migrate, check=True, stdout=subprocess.DEVNULL)
        sqlite_played = play(workspace, build, {"sqlite": {"path": str(file), "timeout": "20s"}})
        postgres_played = play(
            workspace, build, {"postgres": {"conninfo": server.conninfo(), "timeout": "20s"}}
        )
        data = {
            "written_by": name,
            "sqlite": {"played": sqlite_played, "store": rows.read_sqlite(file)},
            "postgres": {"played": postgres_played, "store": rows.read_postgres(server.conninfo())},
        }
    finally:
        workspace.close()
    target = Path(__file__).with_name(f"written_by_{name}.json")
    target.write_text(json.dumps(data, indent=1) + "\n")
    print(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
