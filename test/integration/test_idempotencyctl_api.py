"""idempotencyctl --url: the same words and the same answers through the operator filter of a real Envoy, and
what becomes of them where something else answers."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from harness import ctl
from harness.certificates import Authority
from harness.config import OPERATORS, http_filter
from harness.hostile import hostile
from harness.operator import PAY, ApiSite, bare, done, make_unknown, own_store_of
from harness.operators import ACTOR
from harness.ports import free_port
from harness.site import new_key

WHY = ("--reason", "asked the bank")
NOT_RUN = ("records", "resolve", "--not-run")
NOTHING_CHANGED = "; nothing was changed"
DOUBT = "the change may have been made: look at the record before you repeat it"


@pytest.fixture(scope="module")
def site(module_workspace) -> ApiSite:
    return ApiSite(module_workspace)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def both(module_workspace, request) -> ApiSite:
    postgres = request.param == "postgres"
    conninfo = request.getfixturevalue("module_migrated") if postgres else None
    return ApiSite(module_workspace, conninfo)


# --- the same answers

# What moves while a test looks twice.
MOVING = {
    *("age_seconds", "life_left_seconds", "lease_left_seconds", "next_try_seconds"),
    *("oldest_seconds", "oldest_unknown_seconds", "now", "leader"),
}
CLOCK = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+Z?|\b\d+(\.\d+)?(ms|s|m|h|d)\b( \d+(ms|s|m|h)\b)?")


def still(text: str, *names: str) -> str | dict:
    """An answer without what the clock and the width of its columns do, and without the store's name."""
    if text.startswith("{"):
        return json.loads(text, object_hook=lambda o: {k: None if k in MOVING else v for k, v in o.items()})
    for name in names:
        text = text.replace(name, "STORE")
    return re.sub(r" +", " ", CLOCK.sub("TIME", text))


def assert_same(site: ApiSite, *words: str, text: str = "", code: int = 0) -> str:
    """By --url and on the store itself; what was printed by --url."""
    by_url = ctl.run(*words, *site.api(), text=text)
    direct = ctl.run(*words, *own_store_of(site), text=text)
    names = (site.url(), own_store_of(site)[1], "PostgreSQL")
    assert by_url.returncode == direct.returncode == code, by_url.stderr + direct.stderr
    assert still(by_url.stdout, *names) == still(direct.stdout, *names)
    assert still(by_url.stderr) == still(direct.stderr)
    return by_url.stdout


def test_every_look_is_the_same(both):
    key, attempt = make_unknown(both)
    completed = new_key()
    assert both.send(PAY, completed, body=b'{"n": 1}').status == 200
    assert both.send(PAY, new_key(), tenant="other").status == 200
    found = json.loads(assert_same(both, "records", "show", "--attempt", attempt, "--json"))
    ways = [("--attempt", attempt), ("--key-hash", found["key_hash"]), ("--key-stdin",)]
    ways.append(("--key-stdin", "--tenant", "acme", "--operation", found["operation"]))
    for way in ways:
        for form in ((), ("--json",)):
            assert_same(both, "records", "show", *way, *form, text=bare(key))
            assert_same(both, "records", "list", *way, *form, text=bare(key))
            assert_same(both, "audit", "list", *way, *form, text=bare(key))
    for form in ((), ("--json",), ("--response",), ("--response", "--json")):
        shown = assert_same(both, "records", "show", "--key-stdin", *form, text=bare(completed))
        assert ("request_sha256" in shown) == ("--response" in form)  # The upstream's body.
    for words in (
        ("records", "list"),
        ("records", "list", "--limit", "1"),
        ("records", "list", "--state", "unknown", "--state", "completed", "--tenant", "acme"),
        ("records", "list", "--min-age", "1d"),
        ("records", "list", "--error", "no_such_error"),
        ("records", "list", "--dead-letters"),
        ("audit", "list"),
        ("audit", "list", "--limit", "1"),
        ("summary",),
    ):
        assert_same(both, *words)
        assert_same(both, *words, "--json")
    assert_same(both, "watch", "--once")


def test_every_refusal_is_the_same(both):
    key, attempt = make_unknown(both)
    assert_same(both, "records", "show", "--attempt", "1", code=1)
    assert_same(both, "records", "show", "--key-stdin", "--tenant", "other", text=bare(key), code=1)
    assert_same(
        *(both, "records", "show", "--key-stdin", "--tenant", "acme", "--operation", "other"),
        text=bare(key),
        code=1,
    )
    for command in ("bust", "release", "ask-again"):
        words = ("records", command, "--key-stdin", "--attempt", "1", "--yes", *WHY)
        assert_same(both, *words, text=bare(key), code=1)
    assert_same(both, "records", "bust", "--attempt", attempt, "--yes", *WHY, code=1)
    assert_same(both, *NOT_RUN, "--attempt", attempt, *WHY, code=2)  # No terminal.


def test_every_dry_run_is_the_same(both):
    _, attempt = make_unknown(both)
    completed = ("records", "resolve", "--status", "201", "--header", "X-Bank: yes")
    for words in (NOT_RUN, completed, ("records", "release"), ("records", "ask-again")):
        for form in ((), ("--json",)):
            assert_same(both, *words, "--attempt", attempt, "--dry-run", *WHY, *form)
    for form in ((), ("--json",)):
        assert_same(both, "tenants", "purge", "--tenant", "acme", "--dry-run", *WHY, *form)


def test_pages_beyond_those_of_the_api_are_put_together(site):
    for _ in range(3):
        make_unknown(site)
    direct = json.loads(ctl.run("records", "list", "--json", *own_store_of(site)).stdout)
    cursor, found = None, []
    while True:
        words = ["records", "list", "--limit", "2", "--json", *(["--after", "-"] if cursor else [])]
        page = json.loads(done(site, *words, text=cursor or ""))
        found += [record["id"] for record in page["records"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == [record["id"] for record in direct["records"]]


def test_a_response_that_the_filter_does_not_show_is_named(workspace):
    site = ApiSite(workspace, show_responses=None)
    key = new_key()
    assert site.send(PAY, key).status == 200
    record = json.loads(done(site, "records", "show", "--key-stdin", "--json", text=bare(key)))
    direct = ctl.run("records", "show", "--key-stdin", "--json", *own_store_of(site), text=bare(key))
    assert record["response"] == json.loads(direct.stdout)["response"]
    assert record["response"]["shown"] is False
    text = done(site, "records", "show", "--key-stdin", "--response", text=bare(key))
    assert f"not shown; its body has {record['response']['body_bytes']} bytes" in text
    assert "show_responses does not name the operation" in text


# --- who is asking


def test_the_actor_is_who_the_server_says(site):
    _, attempt = make_unknown(site)
    words = ("records", "release", "--attempt", attempt, "--yes", *WHY)
    refused = ctl.run(*words, "--actor", "mallory", *site.api())
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--actor cannot be combined with --url" in refused.stderr
    nobody = ctl.run(*words, "--url", site.url())
    assert (nobody.returncode, nobody.stdout) == (3, "")
    assert "403 Actor missing" in nobody.stderr
    assert nobody.stderr.rstrip().endswith(NOTHING_CHANGED)
    assert ctl.run(*words, *site.api()).returncode == 0
    entries = json.loads(done(site, "audit", "list", "--attempt", attempt, "--json"))["entries"]
    assert ("alice", "release") in [(entry["actor"], entry["action"]) for entry in entries]


def test_a_header_is_read_from_stdin_too(site):
    words = ("summary", "--url", site.url(), "--header-file", "-")
    assert ctl.run(*words, text=f"\n{ACTOR}: alice\r\n\n").returncode == 0


@pytest.mark.parametrize(
    "line", ["no colon", ": empty", "name:", "na me: x", "Content-Length: 3", "x: a\x00"]
)
def test_a_header_file_that_is_none_is_not_repeated(site, folder, line):
    file = folder / "headers"
    file.write_text(f"{ACTOR}: very-secret\n{line}\n")
    result = ctl.run("summary", "--url", site.url(), "--header-file", str(file))
    assert (result.returncode, result.stdout) == (2, "")
    assert "line 2" in result.stderr
    assert "secret" not in result.stderr


def test_what_rbac_forbids_is_forbidden(workspace):
    """As on the page of the operator filter: everyone looks, nobody changes."""

    def look_only(config):
        get = {"header": {"name": ":method", "string_match": {"exact": "GET"}}}
        policy = {"permissions": [get], "principals": [{"any": True}]}
        rules = {"action": "ALLOW", "policies": {"everyone-looks": policy}}
        filters = config.all_managers[-1]["http_filters"]
        assert filters[0]["name"] == OPERATORS
        filters.insert(0, http_filter("rbac", "RBAC", rules=rules))

    site = ApiSite(workspace, change=look_only)
    key, attempt = make_unknown(site)
    for words in ((*NOT_RUN, "--attempt", attempt), ("tenants", "purge", "--tenant", "acme")):
        result = ctl.run(*words, "--yes", *WHY, *site.api())
        assert (result.returncode, result.stdout) == (3, "")
        assert f"status 403: RBAC: access denied{NOTHING_CHANGED}" in result.stderr
    assert site.state(key) == "unknown"


def test_a_read_only_filter_changes_nothing(workspace):
    site = ApiSite(workspace, read_only=True)
    key, attempt = make_unknown(site)
    assert json.loads(done(site, "summary", "--json"))["read_only"] is True
    result = ctl.run(*NOT_RUN, "--attempt", attempt, "--yes", *WHY, *site.api())
    assert (result.returncode, result.stdout) == (3, "")
    assert "403 Read-only" in result.stderr
    assert result.stderr.rstrip().endswith(NOTHING_CHANGED)
    assert site.state(key) == "unknown"


@pytest.mark.parametrize("size", [1 << 20, 3 << 20])
def test_a_response_beyond_the_filters_limit_is_refused(site, folder, size):
    key, attempt = make_unknown(site)
    body = folder / "body"
    body.write_bytes(b"x" * size)
    words = ("records", "resolve", "--status", "200", "--body-file", str(body))
    result = ctl.run(*words, "--attempt", attempt, "--yes", *WHY, *site.api())
    if size < 2 << 20:
        assert (result.returncode, result.stderr) == (0, "")
        assert site.send(PAY, key).body == body.read_bytes()
    else:
        assert (result.returncode, result.stdout) == (3, "")
        assert "413 Request too large" in result.stderr
        assert result.stderr.rstrip().endswith(NOTHING_CHANGED)
        assert site.state(key) == "unknown"


# --- ways to the server


def with_tls(authority: Authority):
    def change(config):
        (listener,) = [one for one in config.listeners if one.get("name") == OPERATORS]
        server = authority.issue("server", "IP:127.0.0.1")
        listener["filter_chains"][0]["transport_socket"] = authority.listener_tls(
            *server, client_required=True
        )

    return change


def test_the_client_is_known_by_its_certificate(workspace, folder):
    authority = Authority(folder)
    uri = "spiffe://example.org/people/alice"
    certificate, key = authority.issue("alice", f"URI:{uri}")
    actor = {"sources": [{"peer_uri_san": {}}]}
    site = ApiSite(workspace, change=with_tls(authority), actor=actor)
    to = ("--url", site.url("https"))
    trusted = (*to, "--ca-file", str(authority.certificate))
    identity = ("--cert", str(certificate), "--cert-key", str(key))
    _, attempt = make_unknown(site)
    words = (*NOT_RUN, "--attempt", attempt, "--yes", *WHY)

    # Not known to the server, and the server not known to the client.
    nobody = ctl.run(*words, *trusted)
    assert (nobody.returncode, nobody.stdout) == (3, "")
    stranger = ctl.run(*words, *to, *identity)
    assert (stranger.returncode, stranger.stdout) == (3, "")
    assert "--ca-file names the authority to trust" in stranger.stderr
    (folder / "other").mkdir()
    wrong = ctl.run(*words, *to, *identity, "--ca-file", str(Authority(folder / "other").certificate))
    assert (wrong.returncode, wrong.stdout) == (3, "")
    assert "--ca-file names the authority to trust" in wrong.stderr
    name = ctl.run(*words, "--url", trusted[1].replace("127.0.0.1", "localhost"), *trusted[2:], *identity)
    assert (name.returncode, name.stdout) == (3, "")

    together = folder / "both.pem"
    together.write_bytes(certificate.read_bytes() + key.read_bytes())
    assert ctl.run("summary", *trusted, "--cert", str(together)).returncode == 0
    settled = ctl.run(*words, *trusted, *identity)
    assert (settled.returncode, settled.stderr) == (0, "")
    entries = json.loads(ctl.run("audit", "list", "--attempt", attempt, "--json", *trusted, *identity).stdout)
    assert (uri, "resolve_not_run") in [(entry["actor"], entry["action"]) for entry in entries["entries"]]

    # Files that cannot be used: a usage error, and no question for a password.
    locked = folder / "locked.key"
    subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:secret"],
        check=True,
        capture_output=True,
    )
    for files in (
        ("--cert", str(certificate), "--cert-key", str(locked)),
        ("--cert", str(certificate)),
        ("--cert", str(site.headers), "--cert-key", str(key)),
    ):
        result = ctl.run("summary", *trusted, *files)
        assert (result.returncode, result.stdout) == (2, ""), files
    no_authority = ctl.run("summary", *to, "--ca-file", str(site.headers), *identity)
    assert (no_authority.returncode, no_authority.stdout) == (2, "")


def test_by_a_unix_socket(workspace):
    socket = workspace.new_folder("socket") / "operators"

    def change(config):
        (listener,) = [one for one in config.listeners if one.get("name") == OPERATORS]
        listener["address"] = {"pipe": {"path": str(socket)}}

    site = ApiSite(workspace, change=change)
    key, attempt = make_unknown(site)
    to = ("--url", "http://operators", "--unix-socket", str(socket), "--header-file", str(site.headers))
    result = ctl.run(*NOT_RUN, "--attempt", attempt, "--yes", *WHY, *to)
    assert (result.returncode, result.stderr) == (0, "")
    assert site.state(key) == "failed_retryable"
    missing = ctl.run("summary", *to[:3], str(socket) + ".none")
    assert (missing.returncode, missing.stdout) == (3, "")


def test_no_proxy_of_the_environment_is_asked(site):
    dead = f"http://127.0.0.1:{free_port()}"
    env = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"), dead)
    result = ctl.run("summary", *site.api(), env={**env, "no_proxy": "", "NO_PROXY": ""})
    assert (result.returncode, result.stderr) == (0, "")


def test_a_server_that_is_down_has_an_exit_code_of_its_own():
    to = ("--url", f"http://127.0.0.1:{free_port()}", "--timeout", "5")
    for command in (("records", "list"), ("summary",), ("audit", "list"), ("watch", "--once")):
        result = ctl.run(*command, *to)
        assert (result.returncode, result.stdout) == (3, ""), result.stderr
    purge = ctl.run("tenants", "purge", "--tenant", "acme", "--yes", *WHY, *to)
    assert (purge.returncode, purge.stdout) == (3, "")
    assert purge.stderr.rstrip().endswith(NOTHING_CHANGED)


def test_watch_shows_an_envoy_that_is_gone_and_comes_back(workspace, folder):
    site = ApiSite(workspace)
    port = site.url().rpartition(":")[2]
    (listener,) = [one for one in site.config.listeners if one.get("name") == OPERATORS]
    listener["address"]["socket_address"]["port_value"] = int(port)
    terminal = ctl.Terminal("watch", "--interval", "1", "--timeout", "1", *site.api())
    try:
        terminal.wait_for("leader:")
        assert site.envoy.stop() == 0
        terminal.wait_for("no answer from the store:")
        site.start()
        _, attempt = make_unknown(site)
        terminal.wait_for(attempt)
        terminal.type("q")
        assert terminal.finish() == 0
    finally:
        terminal.close()


# --- what is no operator API


def head(status: str, *fields: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode()


def endless(client) -> None:
    client.sendall(head("200 OK", "content-type: application/json"))
    while True:
        client.sendall(b'{"records": [' + b" " * 65536)


def endless_head(client) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        client.sendall(b"x-more: " + b"y" * 4096 + b"\r\n")


def slow(client) -> None:
    client.sendall(head("200 OK", "content-type: application/json", "content-length: 100000"))
    while True:
        client.sendall(b" ")
        time.sleep(0.1)


def silent(client) -> None:
    client.recv(1)


def answers(*parts: bytes):
    def send(client) -> None:
        for part in parts:
            client.sendall(part)

    return send


JSON = "content-type: application/json"
HOSTILE = {
    "endless": (endless, "the answer is too long"),
    "endless head": (endless_head, ""),
    "slow": (slow, "--timeout sets how long to wait"),
    "silent": (silent, "--timeout sets how long to wait"),
    "page": (
        answers(head("200 OK", "content-type: text/html"), b"<html>"),
        "200 with text/html instead of JSON",
    ),
    "garbage": (answers(head("200 OK", JSON), b"\xff\x00{"), "the answer cannot be read"),
    "deep": (answers(head("200 OK", JSON), b'{"a":' * 100_000), "the answer cannot be read"),
    "other JSON": (answers(head("200 OK", JSON), b'{"records": 1}'), "the answer cannot be read"),
    "no HTTP": (answers(b"SSH-2.0-OpenSSH\r\n"), ""),
    "redirect": (answers(head("302 Found", "location: /login")), "redirects are not followed"),
    "cut": (answers(head("200 OK", JSON, "content-length: 10"), b"{"), ""),
    "terminal": (
        answers(head("500 Oops", "content-type: text/plain"), b"\x1b]0;title\x07 \x1b[2J"),
        "status 500",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_operator_api_is_an_error(name):
    answer, said = HOSTILE[name]
    # What has an end of its own reaches it, on a busy machine, too.
    patience = "60" if answer in (endless, endless_head) else "1"
    with hostile(answer) as url:
        to = ("--url", url, "--timeout", patience)
        start = time.monotonic()
        for command in (("summary",), ("records", "list"), ("records", "show", "--attempt", "5")):
            result = ctl.run(*command, *to)
            assert (result.returncode, result.stdout) == (3, ""), result.stderr
            assert said in result.stderr
            assert "may have been made" not in result.stderr
            assert re.fullmatch(r"[ -~…\n]*", result.stderr)
        purge = ctl.run("tenants", "purge", "--tenant", "acme", "--yes", *WHY, *to)
        assert (purge.returncode, purge.stdout) == (3, "")
        assert DOUBT in purge.stderr
        assert time.monotonic() - start < 60


# --- the command line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--url", "ftp://host"), "must begin with http:// or https://"),
        (("--url", "https://alice:very-secret@host"), "must not hold a user or a password"),
        (("--url", "http://host", "--sqlite", "x"), "cannot be combined with --sqlite"),
        (("--url", "http://host", "--conninfo", ""), "cannot be combined with --conninfo"),
        (("--url", "http://host", "--ca-file", "x"), "--ca-file requires a --url with https"),
        (("--url", "https://host", "--cert-key", "x"), "--cert-key requires --cert"),
        (("--url", "https://host", "--ca-file", "/no/such/file"), "cannot read /no/such/file"),
        (("--url", "https://host", "--header-file", "/no/such/file"), "cannot read /no/such/file"),
        (("--sqlite", "x", "--header-file", "x"), "--header-file requires --url"),
        (("--unix-socket", "x"), "--unix-socket requires --url"),
        (("--url", "https://host", "--cert", "-"), "--cert must be a file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_options_that_do_not_fit_are_a_usage_error(words, said):
    result = ctl.run("summary", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert "very-secret" not in result.stderr


def test_watch_does_not_read_headers_from_its_keyboard(site):
    result = ctl.run("watch", "--url", site.url(), "--header-file", "-")
    assert (result.returncode, result.stdout) == (2, "")
    assert "stdin is the keyboard" in result.stderr


def test_a_header_never_is_in_a_command_line(site, folder):
    secret = folder / "headers"
    secret.write_text(f"authorization: Bearer very-secret\n{ACTOR}: alice\n")
    with site.store_held():
        process = ctl.start(
            *("records", "release", "--attempt", "5", "--yes", *WHY),
            *("--url", site.url(), "--header-file", str(secret), "--timeout", "2"),
        )
        try:
            assert "very-secret" not in Path(f"/proc/{process.pid}/cmdline").read_text()
        finally:
            _, err = process.communicate(timeout=60)
    assert "very-secret" not in err
