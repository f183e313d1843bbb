"""Operators settle and find records with idempotencyctl, while Envoy serves: in a file, in PostgreSQL, and
through the operator API."""

import json
from pathlib import Path

import pytest
from harness import ctl
from harness.operator import PAY, REASON, ApiSite, as_asked, audit, bare, done, make_unknown, pay_site, run
from harness.site import Site, code_of, new_key
from harness.wait import wait_for

# An answer of an operator.
BODY = b'{"payment": "p-1", "note": "\xc3\xa9"}\n'
RESPONSE = ("--status", "201", "--header", "Content-Type: application/json", "--header", "X-Bank: yes")


@pytest.fixture(scope="module", params=["sqlite", "postgres", "api"])
def site(module_workspace, request) -> Site:
    if request.param == "api":
        return ApiSite(module_workspace)
    postgres = request.param == "postgres"
    return pay_site(module_workspace, request.getfixturevalue("module_migrated") if postgres else None)


# --- settling


def test_what_is_resolved_as_completed_is_replayed_and_never_runs_again(site, folder):
    key, attempt = make_unknown(site)
    body = folder / "body"
    body.write_bytes(BODY)
    out = done(
        site,
        "records",
        "resolve",
        *RESPONSE,
        "--body-file",
        str(body),
        "--attempt",
        attempt,
        "--yes",
        *REASON,
    )
    assert "Every retry gets this response, with status 201" in out
    for _ in range(2):
        replay = site.send(PAY, key)
        assert (replay.status, replay.body) == (201, BODY)
        assert replay.header("content-type") == "application/json"
        assert replay.header("x-bank") == "yes"
        assert replay.header("idempotent-replayed") == "true"
    assert len(site.executions(key)) == 1
    assert audit(site, key)[0] == ("alice", "resolve_completed")


@pytest.mark.parametrize("command", [("resolve", "--not-run"), ("release",)], ids=" ".join)
def test_what_did_not_run_runs_once(site, command):
    key, attempt = make_unknown(site)
    done(site, "records", *command, "--attempt", attempt, "--yes", *REASON)
    answers = [site.send(PAY, key) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert [answer.header("idempotent-replayed") for answer in answers] == [None, "true", "true"]
    assert len(site.executions(key)) == 2  # The one whose outcome was unknown, and the retry.
    assert audit(site, key)[0] == ("alice", "release" if "release" in command else "resolve_not_run")


def test_a_released_key_is_free_for_another_request(site):
    key, attempt = make_unknown(site)
    assert code_of(site.send(PAY, key, body=b'{"n": 2}')) == "idempotency_key_reused"
    done(site, "records", "release", "--attempt", attempt, "--yes", *REASON)
    assert site.send(PAY, key, body=b'{"n": 2}').status == 200


def test_a_bust_result_is_gone_from_the_store(site):
    key = new_key()
    assert site.send(PAY, key).status == 200
    attempt = str(site.record(key)["attempt"])
    out = done(site, "records", "bust", "--attempt", attempt, "--yes", *REASON)
    assert "The next request with this key runs again." in out
    assert site.state(key) is None
    assert audit(site, key)[0] == ("alice", "bust")


def test_ask_again_makes_the_record_due(site):
    key, attempt = make_unknown(site)
    done(site, "records", "ask-again", "--attempt", attempt, "--yes", *REASON)
    assert site.state(key) == "unknown"
    (record,) = json.loads(done(site, "records", "list", "--attempt", attempt, "--json"))["records"]
    assert record["next_try_seconds"] == 0
    assert audit(site, key)[0] == ("alice", "ask_again")


def test_a_stale_attempt_changes_nothing(site):
    """The operator looked, another one settled it, a retry ran: what the operator saw is gone."""
    key, attempt = make_unknown(site)
    done(site, "records", "resolve", "--not-run", "--attempt", attempt, "--yes", *REASON)
    assert site.send(PAY, key, fault="close_after_read").status in (502, 503)
    site.wait_for_state(key, "unknown")
    before = site.record(key)
    words = ("records", "resolve", *RESPONSE, "--key-stdin", "--attempt", attempt, "--yes", *REASON)
    result = run(site, *words, text=bare(key))
    assert (result.returncode, result.stdout) == (1, "")
    assert f"its attempt is now {before['attempt']}" in result.stderr
    assert site.record(key) == before
    assert [action for _, action in audit(site, key)].count("resolve_completed") == 0


def test_what_still_runs_is_left_alone(site):
    key = new_key()
    with site.running(PAY, key) as let_go:
        attempt = str(site.record(key)["attempt"])
        for command in (("resolve", "--not-run"), ("resolve", *RESPONSE), ("release",), ("bust",)):
            result = run(site, "records", *command, "--attempt", attempt, "--yes", *REASON)
            assert result.returncode == 1
            assert "the request is running" in result.stderr
        assert let_go().status == 200
    assert site.send(PAY, key).header("idempotent-replayed") == "true"


@pytest.mark.parametrize(
    "command", [("resolve", "--not-run"), ("resolve", *RESPONSE), ("release",), ("ask-again",)]
)
def test_a_dry_run_changes_nothing(site, command):
    key, attempt = make_unknown(site)
    before, entries = site.record(key), audit(site, key)
    out = done(site, "records", *command, "--attempt", attempt, "--dry-run", *REASON)
    assert "Dry run: nothing was changed." in out
    assert (site.record(key), audit(site, key)) == (before, entries)
    assert code_of(site.send(PAY, key)) == "idempotency_outcome_unknown"


def test_a_purge_takes_all_of_a_tenant_but_what_runs(site):
    kept = new_key()
    assert site.send(PAY, kept).status == 200
    keys = [new_key() for _ in range(3)]
    for key in keys[:2]:
        assert site.send(PAY, key, tenant="leaving").status == 200
    purge = ("tenants", "purge", "--tenant", "leaving", "--yes", "--json", *REASON)
    with site.running(PAY, keys[2], tenant="leaving"):
        dry = json.loads(done(site, *purge, "--dry-run"))
        assert (dry["records"], dry["running"]) == (2, 1)
        assert site.state(keys[0]) == "completed"
        gone = json.loads(done(site, *purge))
        assert (gone["records"], gone["running"]) == (2, 1)
        assert [site.state(key) for key in keys] == [None, None, "in_progress"]
    assert site.state(kept) == "completed"
    entries = json.loads(done(site, "audit", "list", "--limit", "5", "--json"))["entries"]
    assert ("alice", "purge") in [(entry["actor"], entry["action"]) for entry in entries]


# --- finding


def test_a_record_is_found_by_key_by_hash_and_by_attempt(site, folder):
    key, attempt = make_unknown(site)
    file = folder / "key"
    file.write_text(bare(key) + "\n")
    by_attempt = json.loads(done(site, "records", "show", "--attempt", attempt, "--json"))
    assert (by_attempt["key"], by_attempt["state"], by_attempt["tenant"]) == (bare(key), "unknown", "acme")
    for words in (
        ("--key-stdin",),
        ("--key-file", str(file)),
        ("--key-hash", by_attempt["key_hash"]),
        ("--key-stdin", "--tenant", "acme", "--operation", by_attempt["operation"]),
    ):
        found = json.loads(done(site, "records", "show", *words, "--json", text=bare(key)))
        assert (found["id"], found["attempt"]) == (by_attempt["id"], attempt)
    other = run(site, "records", "show", "--key-stdin", "--tenant", "other", text=bare(key))
    assert (other.returncode, other.stdout) == (1, "")


def test_the_list_is_filtered_and_paged(site):
    keys = {make_unknown(site)[0] for _ in range(3)}
    assert site.send(PAY, completed := new_key()).status == 200
    seen: list[str] = []
    cursor = None
    while True:
        words = ["records", "list", "--state", "unknown", "--tenant", "acme", "--limit", "2", "--json"]
        page = json.loads(done(site, *words, *(["--after", "-"] if cursor else []), text=cursor or ""))
        seen += [record["key"] for record in page["records"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen))
    assert {bare(key) for key in keys} <= set(seen)
    assert bare(completed) not in seen
    old = done(site, "records", "list", "--state", "unknown", "--min-age", "1d")
    assert old == "No record matches.\n"


def test_the_summary_and_one_frame_of_watch_show_who_is_affected(site):
    make_unknown(site)
    summary = json.loads(done(site, "summary", "--json"))
    (pay,) = [row for row in summary["unsettled"] if row["operation"] == "pay"]
    assert pay["records"] >= 1
    assert "acme" in [row["tenant"] for row in summary["tenants"]]
    frame = done(site, "watch", "--once")
    assert "acme" in frame
    assert f"{summary['unknown_records']} unknown" in frame


def test_the_key_never_is_in_a_command_line(site):
    """The only way in is stdin or a file; the program starts nothing that would be told the key."""
    key, attempt = make_unknown(site)
    words = ["records", "release", "--key-stdin", "--attempt", attempt, "--yes", *REASON]
    with site.store_held() as let_go:
        process = ctl.start(*as_asked(site, *words))
        process.stdin.write(bare(key))
        process.stdin.close()
        process.stdin = None
        # It has read the key, and waits for the store.
        wait_for(lambda: is_asleep(process.pid), "the program waits for the store")
        assert bare(key) not in everything_that_ps_shows()
        let_go()
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    refused = run(site, "records", "show", "--key", "not-the-key")
    assert refused.returncode == 2
    assert "--key is not accepted: other users of this machine can see arguments" in refused.stderr


def is_asleep(pid: int) -> bool:
    """Not at stdin, which is at its end."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("S")


def everything_that_ps_shows() -> str:
    text = ""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text += (folder / "cmdline").read_text(errors="replace")
        except OSError:  # It has ended.
            continue
    return text


# --- stores that cannot be used


def test_a_store_that_cannot_be_reached_has_an_exit_code_of_its_own(folder):
    for words in (
        ("--sqlite", str(folder / "missing.db")),
        ("--conninfo", "host=127.0.0.1 port=1 dbname=x user=x"),
    ):
        for command in (("records", "list"), ("summary",), ("audit", "list"), ("watch", "--once")):
            result = ctl.run(*command, *words, "--timeout", "5")
            assert (result.returncode, result.stdout) == (3, ""), result.stderr
    assert not (folder / "missing.db").exists()
