"""What the operator filter counts and logs, in a real Envoy: see docs/stats.md, docs/operator.md."""

import contextlib
import json
import re
import socket
import sqlite3

import httpx
import pytest
from harness.config import OPERATORS
from harness.operators import ACTOR, NOT_RUN, PREFIX, Operator, completed, generic, send_webhook
from harness.paths import ENVOY_VERSIONS, ROOT
from harness.site import Site
from harness.wait import wait_for
from test_operator import lds, leave_unknown, make_site  # noqa: F401

SECRET = "a secret of the payment service"
PATH = "/hooks/outcomes"
OURS = re.compile(r"idempotency: (operator|webhook): ")
HOSTILE = (
    'acme"\n[2026-01-01 00:00:00.000][1][info][dynamic_modules] idempotency: operator: forged\r\x1b[2J\\'
)


@pytest.fixture
def make(make_site, folder):  # noqa: F811
    file = folder / "secret"
    file.write_text(SECRET)

    def make(**fields) -> Site:
        return make_site(webhook={"path": PATH, "keys": [{"id": "payments-1", "file": str(file)}]}, **fields)

    return make


def counted(site: Site) -> dict[str, int]:
    """As one name: operator.requests{endpoint="records",status="2xx"}, without the namespace."""
    text = site.envoy.admin("/stats/prometheus")
    found = re.findall(r"^envoy_idempotency_(operator_\w+\{.*\}) (\d+)$", text, re.M)
    return {name: int(value) for name, value in found}


def wait_for_counts(site: Site, **expected: dict) -> None:
    """`expected`: of a statistic, the whole of its labels and values."""
    for name, values in expected.items():
        wanted = {f"operator_{name}{{{labels}}}": value for labels, value in values.items()}

        def found(name: str = name) -> dict[str, int]:
            return {
                one: value for one, value in counted(site).items() if one.startswith(f"operator_{name}{{")
            }

        wait_for(lambda w=wanted, f=found: f() == w, lambda w=wanted, f=found: f"{w}, but {f()}")


def is_busy(site: Site) -> bool:
    """Whether the store is being asked, so that another request waits. Of a site where one may wait."""
    with httpx.Client(base_url=f"http://127.0.0.1:{site.envoy.port_of(OPERATORS)}", timeout=1) as client:
        try:
            client.get(f"{PREFIX}/healthz")
        except httpx.ReadTimeout:
            return True
        return False


def lines(site: Site) -> list[str]:
    return [line for line in site.envoy.process.output().splitlines() if OURS.search(line)]


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_what_operators_and_services_do_is_counted_and_logged(make, version):
    site = make(version=version)
    first, second, third = (leave_unknown(site) for _ in range(3))
    alice = Operator(site.envoy)
    records = {key: alice.record(key) for key in (first, second, third)}
    alice.get("/summary")
    alice.http.get("/idempotency/")
    alice.http.get("/nothing")
    assert alice.change(records[first], "resolve", dry_run=True, **NOT_RUN).status_code == 200
    assert alice.change(records[first], "resolve", **NOT_RUN).status_code == 200
    assert alice.change(records[first], "resolve", **completed()).status_code == 409
    assert alice.change({**records[second], "attempt": "1"}, "release").status_code == 409
    assert alice.change(records[second], "release").status_code == 200
    assert alice.change(records[second], "release").status_code == 404
    assert alice.post("/tenants/purge", {"tenant": "leaving", "reason": "r"}).status_code == 200
    event = {"attempt": records[third]["attempt"], **completed()}
    for sign in (
        lambda body: generic(SECRET, body),
        lambda body: generic(SECRET, body),
        lambda body: generic("another secret of a forger", body),
        lambda body: generic(SECRET, body, at=1_000_000_000),
        lambda body: {},
    ):
        send_webhook(site.envoy, PATH, event, sign)

    wait_for_counts(
        site,
        requests={
            'endpoint="records",status="2xx"': 3,
            'endpoint="summary",status="2xx"': 1,
            'endpoint="page",status="2xx"': 1,
            'endpoint="other",status="4xx"': 1,
            'endpoint="change",status="2xx"': 3,
            'endpoint="change",status="4xx"': 3,
            'endpoint="purge",status="2xx"': 1,
            'endpoint="webhook",status="2xx"': 2,
            'endpoint="webhook",status="4xx"': 3,
        },
        changes={
            'action="resolve_not_run",outcome="dry_run"': 1,
            'action="resolve_not_run",outcome="done"': 1,
            'action="resolve_completed",outcome="refused"': 2,  # One is the event that came again.
            'action="resolve_completed",outcome="done"': 1,
            'action="release",outcome="stale"': 1,
            'action="release",outcome="done"': 1,
            'action="release",outcome="absent"': 1,
            'action="purge",outcome="done"': 1,
        },
        webhook_events={
            'result="settled"': 2,
            'result="signature_invalid"': 1,
            'result="signature_late"': 1,
            'result="signature_missing"': 1,
        },
    )
    assert site.envoy.stat("idempotency.operator.changes.action.release.outcome.done") == 1

    def line(action: str, key: str, actor: str = "alice") -> str:
        of = records[key]
        return (
            f'idempotency: operator: {action}: actor "{actor}", tenant "acme", operation "create-payment", '
            f"key hash {of['key_hash']}, attempt {of['attempt']}: done"
        )

    wanted = [
        line("resolve_not_run", first),
        line("release", second),
        'idempotency: operator: purge: actor "alice", tenant sha256:',
        line("resolve_completed", third, "webhook:payments-1"),
        "idempotency: webhook: event refused: signature_invalid",
        "idempotency: webhook: event refused: signature_late",
        "idempotency: webhook: event refused: signature_missing",
    ]
    wait_for(lambda: len(lines(site)) == len(wanted), lambda: f"{wanted}, but {lines(site)}")
    for logged, expected in zip(lines(site), wanted, strict=True):
        assert expected in logged
        assert ("[warning]" if "refused" in expected else "[info]") in logged
    output = site.envoy.process.output()
    assert "case 12" not in output  # The reason, which is free text.
    assert [key for key in records if json.loads(key) in output] == []


def test_no_name_forges_a_line(make):
    """The store takes names that Envoy would not let through, and other filters may write any."""
    site = make()
    key = leave_unknown(site)
    with contextlib.closing(sqlite3.connect(site.store["sqlite"]["path"], timeout=20)) as db, db:
        sql = "UPDATE record SET tenant = ?, operation = ? WHERE key = ?"
        db.execute(sql, [HOSTILE.encode(), HOSTILE.encode(), json.loads(key).encode()])
    mallory = Operator(site.envoy, 'mallory"\\ tenant "\u202eacme'.encode())
    record = mallory.record(key)
    assert record["tenant"] == HOSTILE
    answer = mallory.change(record, "release", reason='because", actor "root')
    assert answer.status_code == 200, answer.text
    wait_for(lambda: lines(site), "the line is there")
    (line,) = [line for line in site.envoy.process.output().split("\n") if OURS.search(line)]
    assert 'actor "mallory\\x22\\x5c tenant \\x22' in line
    assert 'tenant "acme\\x22\\x0a[2026-01-01' in line
    assert line.count('"') == 6
    assert line.isascii()
    assert line.isprintable()
    assert "root" not in line


def test_a_flood_of_forged_events_fills_no_log(make):
    site = make()
    for _ in range(200):
        send_webhook(
            site.envoy, PATH, {"attempt": "1", **NOT_RUN}, lambda body: generic("a forger's secret", body)
        )
    wait_for_counts(site, webhook_events={'result="signature_invalid"': 200}, changes={})
    assert len(lines(site)) == 1


def test_a_change_is_counted_and_logged_also_if_its_client_has_left(make):
    site = make(limits={"max_waiting": 1})
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    record = alice.record(key)
    body = json.dumps({"attempt": record["attempt"], "reason": "r", **NOT_RUN})
    head = (
        f"POST {PREFIX}/records/{record['id']}/resolve HTTP/1.1\r\nhost: a\r\n{ACTOR}: alice\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with site.store_held() as release:
        with socket.create_connection(("127.0.0.1", site.envoy.port_of(OPERATORS))) as leaving:
            leaving.sendall((head + body).encode())
            active = f"http.{OPERATORS}.downstream_rq_active"
            wait_for(lambda: site.envoy.stat(active) == 1, "the change waits for the store")
            wait_for(lambda: is_busy(site), "the store is asked")
        wait_for(lambda: site.envoy.stat(active) == 0, "its client has left")
        release()
    site.wait_for_state(key, "failed_retryable")
    wait_for_counts(site, changes={'action="resolve_not_run",outcome="done"': 1})
    assert counted(site)['operator_requests{endpoint="change",status="left"}'] == 1
    assert [line for line in lines(site) if record["key_hash"] in line]


def test_a_reload_loses_no_count(make_site, workspace):  # noqa: F811
    """Configs of equal settings share the store: the counts go to the one that lives."""
    files = []
    site = make_site(change=lambda config: files.append(lds(workspace, config)))
    keys = [leave_unknown(site), leave_unknown(site)]
    alice = Operator(site.envoy)
    wait_for(lambda: alice.http.get(PREFIX + "/healthz").status_code == 200, "it serves")
    alice.change(alice.record(keys[0]), "resolve", **NOT_RUN)
    file, listeners = files[0]
    (operators,) = [listener for listener in listeners if listener["name"] == OPERATORS]
    operators["filter_chains"][0]["filters"][0]["typed_config"]["stat_prefix"] = "later"
    file.write(listeners)
    wait_for(
        lambda: Operator(site.envoy).get("/healthz") and site.envoy.stat("http.later.downstream_rq_total"),
        "the new config serves",
    )
    alice = Operator(site.envoy)
    alice.change(alice.record(keys[1]), "resolve", **NOT_RUN)
    wait_for_counts(site, changes={'action="resolve_not_run",outcome="done"': 2})


def test_the_page_of_statistics_names_every_value():
    """The values of labels are words of the source: each has to be explained."""
    page = (ROOT / "docs" / "stats.md").read_text().partition("## Operators")[2].partition("\n## ")[0]
    source = ROOT / "source"
    routing = (source / "operator_api" / "routing.cc").read_text()
    endpoints = re.findall(r'return "(\w+)";', routing.partition("endpointName")[2].partition("\n}\n")[0])
    log = (source / "filter" / "operator" / "operator_log.cc").read_text()
    outcomes = re.findall(r'(?:Done|DryRun|Failed) = "(\w+)"|return "(\w+)";', log)
    words = [*endpoints, *(one or other for one, other in outcomes), "page", "left"]
    assert len(words) > 15
    assert [word for word in words if f"`{word}`" not in page] == []
