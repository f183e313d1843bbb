"""Records of an earlier build stay valid, by the rules under which they were written, on both stores."""

import contextlib
import json
import sqlite3
from pathlib import Path

import psycopg
import pytest
from harness import ctl
from harness.envoy import Envoy
from harness.upstream import Upstream
from harness.wait import wait_for
from harness.wire import WireResponse
from upgrade import rows
from upgrade.scene import Request, config_for

DATA = {path.stem: path for path in Path(__file__).with_name("upgrade").glob("written_by_*.json")}
# Framing, what Envoy adds by itself, and the time: the loader moves the records to the present.
NOT_STORED = {"date", "server", "content-length", "idempotency-key-expires"}


class OldStore:
    """A store with the rows of an old build, the old schema included, and how to look into it."""

    def __init__(self, kind: str, data: dict, folder: Path, database: str) -> None:
        self.kind = kind
        self.played = data[kind]["played"]
        if kind == "sqlite":
            self._file = folder / "old.db"
            rows.write_sqlite(data[kind]["store"], self._file)
            self.config = {"sqlite": {"path": str(self._file), "timeout": "20s"}}
            return
        old = data[kind]["store"]
        done = ctl.run("migrate", "--conninfo", database, "--to", str(old["schema_version"]))
        assert done.returncode == 0, done.stderr
        rows.write_postgres(old, database)
        ctl.migrate(database)
        self._database = database
        self.config = {"postgres": {"conninfo": database, "timeout": "20s"}}

    def of_state(self, *states: str) -> list[tuple[str, Request, dict]]:
        return [
            (entry["key"], Request.from_json(entry["request"]), entry)
            for entry in self.played
            if entry["state"] in states
        ]

    def fingerprint(self, key: str) -> bytes:
        if self.kind == "sqlite":
            with contextlib.closing(sqlite3.connect(self._file, timeout=20)) as db:
                (row,) = db.execute("SELECT fingerprint FROM record WHERE key = ?", [key.encode()]).fetchall()
        else:
            with psycopg.connect(self._database) as db:
                sql = "SELECT fingerprint FROM idempotency.record WHERE key = %s"
                (row,) = db.execute(sql, [key.encode()]).fetchall()
        return row[0]


@pytest.fixture(params=DATA)
def data(request) -> dict:
    return json.loads(DATA[request.param].read_text())


@pytest.fixture(params=["sqlite", "postgres"])
def old(request, data, folder, database) -> OldStore:
    return OldStore(request.param, data, folder, database)


@pytest.fixture
def server(old, envoy, upstream) -> Envoy:
    return envoy(config_for(old.config, upstream.port))


def problem(response: WireResponse) -> tuple[int, str]:
    return response.status, json.loads(response.body)["code"]


def kept(headers: list) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name not in NOT_STORED]


def assert_replay(answer: WireResponse, as_before: dict, what: str) -> None:
    assert (answer.status, answer.body.hex()) == (as_before["status"], as_before["body"]), what
    assert kept(answer.headers) == kept(as_before["headers"]), what
    assert answer.header("idempotent-replayed") == "true", what


def test_the_data_are_of_version_one_in_every_state(data):
    for kind in ("sqlite", "postgres"):
        records = data[kind]["store"]["tables"]["record" if kind == "sqlite" else "key"]
        assert {record["fingerprint"]["hex"][:2] for record in records} == {"01"}
        assert {record["state"] for record in records} == {1, 2, 3, 4}
        assert len(records) == len(data[kind]["played"]) >= 30


def test_the_same_request_is_replayed_as_the_old_build_did(old, server, upstream):
    completed = old.of_state("completed")
    assert len(completed) >= 25
    for key, request, entry in completed:
        assert_replay(request.send(server.port, key), entry["replay"], key)
        assert old.fingerprint(key)[0] == 1, "a replay leaves the record alone"
    assert upstream.executions() == []


def test_another_request_is_refused(old, server, upstream):
    for key, request, _ in old.of_state("completed", "failed_retryable", "unknown", "in_progress"):
        if request.path.startswith("/none"):
            continue
        path, _, query = request.path.partition("?")
        others = {
            "method": request.changed(method="PATCH" if request.method == "POST" else "POST"),
            "path": request.changed(path=f"{path}/other?{query}"),
            "query": request.changed(path=f"{path}?{query}&more=1"),
            "media type": request.changed(headers=(*request.headers[1:], ("content-type", "text/other"))),
            "body": request.changed(body=b'{"amount": 101}'),
        }
        for what, other in others.items():
            assert problem(other.send(server.port, key)) == (422, "idempotency_key_reused"), (key, what)
    assert upstream.executions() == []


def test_what_only_a_policy_makes_count_counts(old, server, upstream):
    (counted, request) = next(entry[:2] for entry in old.of_state("completed") if "counted" in entry[0])
    headers = (*request.headers[:-1], ("x-source", "other"))
    assert problem(request.changed(headers=headers).send(server.port, counted))[0] == 422
    (mine, request) = next(entry[:2] for entry in old.of_state("completed") if "principal" in entry[0])
    headers = (*request.headers[:-1], ("x-user", "bob"))
    assert problem(request.changed(headers=headers).send(server.port, mine))[0] == 422
    assert upstream.executions() == []


def test_what_version_one_did_not_look_at_still_does_not_count(old, server, upstream):
    for key, request, entry in old.of_state("completed"):
        elsewhere = request.changed(host="elsewhere.example")
        assert_replay(elsewhere.send(server.port, key), entry["replay"], key)
        condition = ("if-unmodified-since", "Tue, 17 Nov 2026 00:00:00 GMT")
        assert_replay(request.send(server.port, key, condition), entry["replay"], key)
    brackets = next(entry for entry in old.of_state("completed") if "query-brackets" in entry[0])
    sorted_anew = brackets[1].changed(path="/json?i[][n]=x&i[][n]=y&i[][q]=1")
    assert_replay(sorted_anew.send(server.port, brackets[0]), brackets[2]["replay"], "brackets")
    assert upstream.executions() == []


def test_failed_records_run_again_and_are_then_of_version_two(old, server, upstream):
    for key, request, _ in old.of_state("failed_retryable"):
        # By the rule of its version another host is the same request.
        answer = request.changed(host="elsewhere.example").send(server.port, key)
        assert (answer.status, answer.header("idempotent-replayed")) == (200, None)
        assert len(upstream.executions(key=f'"{key}"')) == 1
        assert old.fingerprint(key)[0] == 2
        assert problem(request.send(server.port, key)) == (422, "idempotency_key_reused")


def test_unknown_outcomes_stay_unknown(old, server, upstream):
    for key, request, _ in old.of_state("unknown"):
        assert problem(request.send(server.port, key)) == (409, "idempotency_outcome_unknown")
    # The Envoy of this one was killed, and its lease has run out.
    for key, request, _ in old.of_state("in_progress"):
        wait_for(
            lambda key=key, request=request: (
                problem(request.send(server.port, key)) == (409, "idempotency_outcome_unknown")
            ),
            "the lease counts as run out",
        )
    assert upstream.executions() == []


def test_new_records_are_of_version_two(old, server, upstream: Upstream):
    """Each request of the data once more, under a new key."""
    for number, (_, request, _) in enumerate(old.of_state("completed")):
        key = f"key-of-a-later-day-{number}"
        first = request.send(server.port, key)
        assert (first.status, first.header("idempotent-replayed")) == (200, None)
        assert request.send(server.port, key).body == first.body
        fingerprint = old.fingerprint(key)
        assert (fingerprint[0], len(fingerprint)) == (2, 33)
        elsewhere = request.changed(host="elsewhere.example").send(server.port, key)
        if request.path.startswith("/none"):
            assert elsewhere.body == first.body
        else:
            assert problem(elsewhere) == (422, "idempotency_key_reused")
        assert len(upstream.executions(key=f'"{key}"')) == 1
