"""What operators see: every counter and what provokes it, access-log metadata, span tags, few log lines."""

import dataclasses
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from harness.clients import KeepAlive, Request
from harness.collector import Collector
from harness.config import EnvoyConfig
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS, ROOT
from harness.process import Workspace
from harness.records import Records
from harness.toxiproxy import Proxy, Toxiproxy
from harness.upstream import Upstream, behave
from harness.wait import wait_for
from harness.wire import Http1Connection, WireResponse

PREFIX = "idempotency."
REQUIRED = {"enforcement": "REQUIRED"}
LEASE = {"lease": "3s", "completion_timeout": "1s"}
# These move by themselves; a step names them where it provokes them.
BACKGROUND = {"heartbeat.extended", "heartbeat.failed", "maintenance.failed", "reaped"}
BACKGROUND |= {"lease.to_unknown", "lease.to_retry", "reconcile.scheduled", "store.error"}
BACKGROUND |= {"store.batches", "store.operations", "store.batches_failed"}
BACKGROUND |= {"store.connects", "store.connections_lost"}
GAUGES = {"in_flight", "held_bytes", "waiting", "settling", "leader", "cache.bytes", "cache.entries"}
GAUGES |= {"store.queued", "store.queued_bytes", "store.refuses", "store.orphans", "detached.running"}
GAUGES |= {"unknown.records", "unknown.oldest_seconds", "dead_letters", "version"}
HISTOGRAMS = {"claim_us", "completion_us"}


def _key() -> str:
    return f'"{uuid.uuid4()}"'


@dataclasses.dataclass
class Rig:
    envoy: Envoy
    upstream: Upstream
    records: Records
    proxy: Proxy

    def send(
        self, path: str = "/any", key: str | None = None, body: bytes = b"{}", **behaviour
    ) -> WireResponse:
        return self.request(path, {"idempotency-key": key or _key(), **behave(**behaviour)}, body)

    def request(self, path: str, headers: dict[str, str], body: bytes = b"{}") -> WireResponse:
        with Http1Connection(self.envoy.port) as connection:
            return connection.request("POST", path, headers, body)

    def start(self, path: str = "/any", key: str | None = None, **behaviour) -> Http1Connection:
        """A request that the upstream holds as `gate`, or that the filter does."""
        connection = Http1Connection(self.envoy.port)
        headers = {"idempotency-key": key or _key(), **behave(hold="gate", **behaviour)}
        connection.start("POST", path, headers, b"{}")
        return connection

    def hold(self, path: str = "/any", key: str | None = None, **behaviour) -> Http1Connection:
        before = self.upstream.held("gate")
        connection = self.start(path, key, **behaviour)
        self.upstream.wait_until_held("gate", before + 1)
        return connection

    def release(self, connection: Http1Connection) -> WireResponse:
        self.upstream.release("gate")
        return connection.read_response()

    def sql(self, text: str) -> None:
        self.records.server.query(text, database=self.records.database)

    def counters(self) -> dict[str, int]:
        """Labels are added up."""
        sums: dict[str, int] = {}
        for name, value in self.envoy.stats("^idempotency").items():
            name = re.sub(r"\.(tenant|route|operation)\.[^.]*$", "", name.removeprefix(PREFIX))
            sums[name] = sums.get(name, 0) + value
        return {name: value for name, value in sums.items() if name not in GAUGES}


def _config(upstream: Upstream, store: dict) -> EnvoyConfig:
    config = EnvoyConfig.quickstart().for_test(store).upstream(upstream.port)
    config.managers[0]["upgrade_configs"] = [{"upgrade_type": "websocket"}]
    config.filter(
        maintenance={"sweep_interval": "1s", "reap_interval": "1s", "soft_expire": True},
        policy={"max_key_length": 60},
    )
    short = {**REQUIRED, "ttl": "2s", "lease": "2s", "completion_timeout": "1s"}
    for path, policy in {
        "/any": REQUIRED,
        "/short-lease": {**REQUIRED, **LEASE},
        "/accepted": {**REQUIRED, "in_flight": {"action": "ACCEPTED"}},
        "/wait": {**REQUIRED, "in_flight": {"action": "WAIT", "wait": "60s"}},
        "/run-again": short,
        "/gone": {**short, "on_expired": "GONE"},
        "/retry-lease": {**REQUIRED, "on_lease_expired": "RETRY"},
        "/retained": {**REQUIRED, "unknown_retention": "2s"},
        "/open": {**REQUIRED, "on_store_failure": "FAIL_OPEN"},
        "/small": {**REQUIRED, "max_request_bytes": "100", "max_response_bytes": "100"},
        "/old": {**REQUIRED, "max_request_age": {"header": "x-sent", "limit": "60s"}},
        "/narrow": {**REQUIRED, "min_key_length": 70},
        "/nobody": {**REQUIRED, "fingerprint": {"principal": {"header": "x-user"}}},
    }.items():
        config.route(path, policy, timeout="60s")
    redirect = {"internal_redirect_policy": {"redirect_response_codes": [302]}, "timeout": "60s"}
    return config.route("/redirects", REQUIRED, **redirect)


@pytest.fixture(scope="module")
def rig(module_workspace: Workspace, shared_postgres) -> Rig:
    upstream = Upstream(module_workspace)
    records = Records(shared_postgres, shared_postgres.create_database())
    proxy = Toxiproxy(module_workspace).proxy(shared_postgres.port)
    config = _config(upstream, records.store(port=proxy.port, timeout="2s"))
    return Rig(Envoy(module_workspace, config), upstream, records, proxy)


# --- Counters. Each step does something and says by how much each counter must have risen.

RUN = {"covered": 1, "claim.created": 1, "ended.completed": 1}
Step = Callable[[Rig], dict[str, int]]
STEPS: dict[str, Step] = {}


def step(function: Step) -> Step:
    STEPS[function.__name__] = function
    return function


def _plus(*parts: dict[str, int]) -> dict[str, int]:
    names = {name for part in parts for name in part}
    return {name: sum(part.get(name, 0) for part in parts) for name in names}


@step
def first_request(rig):
    assert rig.send().status == 200
    return {**RUN, "store.batches": 2, "store.operations": 2}


@step
def retry(rig):
    key = _key()
    assert [rig.send(key=key).status for _ in range(3)] == [200] * 3
    again = {"covered": 2, "claim.replay": 2, "replay.cached": 2, "tenant.duplicates": 2}
    return _plus(RUN, again)


@step
def reused(rig):
    key = _key()
    rig.send(key=key)
    assert rig.send(key=key, body=b'{"other":1}').status == 422
    reused = {"covered": 1, "claim.key_reused": 1, "key_reused": 1, "replay.cached": 1}
    return _plus(RUN, reused, {"tenant.key_reused": 1})


@step
def refused_for_the_key(rig):
    assert rig.request("/any", {}).status == 400
    assert rig.request("/any", {"idempotency-key": '"short"'}).status == 400
    assert rig.request("/any", {"idempotency-key": "token-token-token"}).status == 400
    return {"key_missing": 1, "key_invalid": 2}


@step
def principal_unknown(rig):
    assert rig.send("/nobody").status == 403
    return {"tenant_missing": 1}


@step
def policy_contradicts(rig):
    assert rig.send("/narrow").status == 500
    return {"config_invalid": 1}


@step
def unprotected(rig):
    assert rig.request("/elsewhere", {}).status == 200
    return {"unprotected": 1}


@step
def too_large_or_too_old(rig):
    assert rig.send("/small", body=b"x" * 101).status == 413
    assert rig.send("/old").status == 400
    return {"request_too_large": 1, "request_too_old": 1}


@step
def upgrade(rig):
    headers = {"idempotency-key": _key(), "upgrade": "websocket", "connection": "upgrade"}
    assert rig.request("/any", headers, b"").status == 400
    return {"upgrade_refused": 1}


@step
def response_too_large(rig):
    key = _key()
    stored = rig.counters().get("ended.tombstone", 0) + 1
    assert rig.send("/small", key, body_size=200).status == 200
    # Such a response is passed on as it comes: the client has all of it before the record is written.
    rig.envoy.wait_for_stat(PREFIX + "ended.tombstone", stored)
    assert rig.send("/small", key, body_size=200).status == 409
    refused = {"covered": 1, "response_unavailable": 1, "tenant.duplicates": 1}
    return _plus({"covered": 1, "claim.created": 1, "ended.tombstone": 1}, refused)


@step
def body_that_is_no_json(rig):
    headers = {"idempotency-key": _key(), "content-type": "application/json"}
    assert rig.request("/any", headers, b'{"a":').status == 200
    return {**RUN, "json_rejected": 1}


@step
def failure_and_retry(rig):
    key = _key()
    rig.upstream.script({"status": 503}, {"status": 200}, key=key)
    assert [rig.request("/any", {"idempotency-key": key}).status for _ in range(2)] == [503, 200]
    first = {"covered": 1, "claim.created": 1, "ended.failed_retryable": 1}
    return _plus(first, {"covered": 1, "claim.failed_retry": 1, "ended.completed": 1})


@step
def not_authorised(rig):
    assert rig.send(status=401).status == 401
    return {"covered": 1, "claim.created": 1, "ended.released": 1}


@step
def outcome_declared(rig):
    key, nonsense = _key(), _key()
    for name, value in ((key, "completed"), (nonsense, "perhaps")):
        said = {"status": 503, "headers": [["idempotency-outcome", value]]}
        rig.upstream.script(said, key=name)
        assert rig.request("/any", {"idempotency-key": name}).status == 503
    unknown = {"covered": 1, "claim.created": 1, "ended.unknown": 1, "outcome.invalid": 1}
    return _plus({**RUN, "outcome.declared": 1}, unknown)


@step
def proxy_answers_for_the_service(rig):
    key = _key()
    said = {"status": 503, "headers": [["proxy-status", "sidecar; error=connection_terminated"]]}
    rig.upstream.script(said, key=key)
    assert rig.request("/any", {"idempotency-key": key}).status == 503
    return {"covered": 1, "claim.created": 1, "ended.unknown": 1, "outcome.proxy_made": 1}


@step
def proxy_has_sent_it_before(rig):
    key = _key()
    rig.upstream.script({"status": 503, "headers": [["x-envoy-attempt-count", "2"]]}, key=key)
    assert rig.request("/any", {"idempotency-key": key}).status == 503
    return {"covered": 1, "claim.created": 1, "ended.unknown": 1, "outcome.sent_before": 1}


@step
def outcome_unknown(rig):
    key = _key()
    assert rig.send(key=key, fault="close_after_read").status == 503
    assert rig.send(key=key, fault="close_after_read").status == 409
    refused = {"covered": 1, "claim.unknown": 1, "outcome_unknown": 1, "tenant.duplicates": 1}
    return _plus({"covered": 1, "claim.created": 1, "ended.unknown": 1}, refused)


@step
def client_leaves(rig):
    rig.hold().close()
    return {"covered": 1, "claim.created": 1, "ended.unknown": 1, "cut_short": 1}


@step
def in_progress(rig):
    key, other = _key(), _key()
    running, accepted = rig.hold(key=key), rig.hold("/accepted", other)
    assert rig.send(key=key, hold="gate").status == 409
    assert rig.send("/accepted", other, hold="gate").status == 202
    wait_for(lambda: rig.envoy.stat(PREFIX + "in_flight") == 2, "two in flight")
    rig.upstream.release("gate")
    assert [c.read_response().status for c in (running, accepted)] == [200, 200]
    wait_for(lambda: rig.envoy.stat(PREFIX + "in_flight") == 0, "none in flight")
    duplicates = {"covered": 2, "claim.in_progress": 2, "tenant.duplicates": 2}
    return _plus(RUN, RUN, duplicates, {"in_progress": 1, "accepted": 1})


@step
def waiting(rig):
    key = _key()
    running = rig.hold("/wait", key)
    waiter = rig.start("/wait", key)
    rig.envoy.wait_for_stat(PREFIX + "waiting", 1)
    rig.upstream.release("gate")
    assert [c.read_response().status for c in (running, waiter)] == [200, 200]
    wait_for(lambda: rig.envoy.stat(PREFIX + "waiting") == 0, "nobody waits")
    held = {"covered": 1, "waited": 1, "claim.in_progress": 1, "claim.replay": 1}
    return _plus(RUN, held, {"replay.cached": 1, "tenant.duplicates": 2})


@step
def end_of_life(rig):
    keys = [_key(), _key()]
    paths = ["/run-again", "/gone"]
    for path, key in zip(paths, keys, strict=True):
        assert rig.send(path, key).status == 200
    reaped = rig.envoy.stat(PREFIX + "reaped")
    rig.envoy.wait_for_stat(PREFIX + "reaped", reaped + 2, deadline=40)
    statuses = [rig.send(path, key).status for path, key in zip(paths, keys, strict=True)]
    assert statuses == [200, 410]
    # Ends of life that others' records come to are counted, too: at least two.
    again = {"covered": 2, "claim.expired_run": 1, "ended.completed": 1, "key_expired": 1}
    return _plus(RUN, RUN, again, {"tenant.duplicates": 1, "reaped": 2})


@step
def unknown_retention(rig):
    key = _key()
    assert rig.send("/retained", key, fault="close_after_read").status == 503
    answers = []

    def answer() -> int:
        answers.append(rig.send("/retained", key).status)
        return answers[-1]

    wait_for(lambda: answer() == 410, lambda: f"410, but {answers}")
    assert set(answers[:-1]) <= {409}
    early = len(answers) - 1
    first = {"covered": 1, "claim.created": 1, "ended.unknown": 1}
    met = {"covered": len(answers), "claim.unknown": len(answers), "tenant.duplicates": len(answers)}
    return _plus(
        first, met, {"outcome_unknown": early, "unknown_expired": 1} if early else {"unknown_expired": 1}
    )


def _lease_over(rig: Rig, key: str) -> None:
    over = "lease_until = now() - interval '1 second'"
    rig.sql(f"UPDATE idempotency.record SET {over} WHERE key = '{key[1:-1]}'")


@step
def lease_over(rig):
    """Nobody renewed it, as it seems to the sweeper; the request itself then finds its claim gone."""
    keys = {"/any": _key(), "/retry-lease": _key()}
    before = rig.counters()
    connections = [rig.hold(path, key) for path, key in keys.items()]
    for key in keys.values():
        _lease_over(rig, key)
    for name in ("lease.to_unknown", "lease.to_retry"):
        rig.envoy.wait_for_stat(PREFIX + name, before.get(name, 0) + 1, deadline=40)
    rig.upstream.release("gate")
    answers = [connection.read_response() for connection in connections]
    # The first one's result settles its record after all; the other's key may be another's already.
    assert [answer.header("idempotency-stored") for answer in answers] == [None, "false"]
    lost = {"covered": 2, "claim.created": 2, "ended.completed": 1, "fenced": 1, "not_stored": 1}
    return {**lost, "lease.to_unknown": 1, "lease.to_retry": 1}


@step
def record_of_another_version(rig):
    key = _key()
    assert rig.send(key=key, status=503).status == 503
    rig.sql(rf"UPDATE idempotency.record SET fingerprint = '\xff00'::bytea WHERE key = '{key[1:-1]}'")
    assert rig.send(key=key, status=503).status == 503
    unreadable = {"covered": 1, "record_unreadable": 1, "tenant.duplicates": 1}
    return _plus({"covered": 1, "claim.created": 1, "ended.failed_retryable": 1}, unreadable)


@step
def redirect(rig):
    key = _key()
    rig.upstream.script(
        {"status": 302, "headers": [["location", "http://test/any"]]}, {"status": 200}, key=key
    )
    answer = rig.request("/redirects", {"idempotency-key": key}, b"")
    assert answer.status == 200
    return {**RUN, "redirected": 1}


@step
def heartbeat(rig):
    before = rig.envoy.stat(PREFIX + "heartbeat.extended")
    running = rig.hold("/short-lease")
    rig.envoy.wait_for_stat(PREFIX + "heartbeat.extended", before + 2, deadline=30)
    assert rig.release(running).status == 200
    return {**RUN, "heartbeat.extended": 2}


@step
def store_gone(rig):
    """Last: afterwards the store needs a while to be trusted again."""
    before = rig.counters()
    key = _key()
    running = rig.hold("/short-lease", key)
    rig.proxy.cut()
    for name in ("heartbeat.failed", "maintenance.failed"):
        rig.envoy.wait_for_stat(PREFIX + name, before.get(name, 0) + 1, deadline=30)
    assert rig.send().status == 503
    rig.envoy.wait_for_stat(PREFIX + "store.refuses", 1, deadline=30)
    open_answer = rig.send("/open")
    assert (open_answer.status, open_answer.header("idempotency-enforced")) == (200, "false")
    assert rig.release(running).header("idempotency-stored") == "false"
    # The result is still being tried, also when the lease is long over.
    rig.envoy.wait_for_stat(PREFIX + "settling", 1)
    time.sleep(5)
    assert rig.envoy.stat(PREFIX + "settling") == 1
    rig.proxy.restore()
    wait_for(lambda: rig.envoy.stat(PREFIX + "store.refuses") == 0, "the store is back", deadline=60)
    wait_for(lambda: rig.envoy.stat(PREFIX + "settling") == 0, "it is stored", deadline=60)
    replay = rig.send("/short-lease", key)
    assert (replay.status, replay.header("idempotent-replayed")) == (200, "true")
    counted = {"covered": 4, "claim.created": 1, "store_unavailable": 1, "store.fail_open": 1}
    replayed = {"claim.replay": 1, "replay.cached": 1, "tenant.duplicates": 1}
    late = {"not_stored": 1, "ended.completed": 1, "store.error": 3}
    connections = {"store.connections_lost": 1, "store.connects": 1}
    return {**counted, **replayed, **late, **connections, "heartbeat.failed": 1, "maintenance.failed": 1}


def _documented() -> set[str]:
    page = (ROOT / "docs" / "stats.md").read_text()
    return set(re.findall(r"^\| `([a-z_.]+)` \|", page, flags=re.MULTILINE))


# Provoked by the test of limits below, by test_bounds.py, by a bug, by a process that stood still or a batch
# that was cut off (unit tests).
ELSEWHERE = {
    "quota_exceeded",
    "in_flight_full",
    "overloaded",
    "held_bytes.full",
    "held_bytes.unkept",
    "queue_full",
    "tenant.in_flight_full",
    "tenant.held_bytes_full",
    "tenant.waiters_full",
    "expectation_failed",
    "hook_exception",
    "store.late_answer",
    "store.batches_failed",
    # test_own_transaction.py
    "ended.by_upstream",
    # test_reconcile.py
    "reconcile.scheduled",
    "reconcile.asked",
    "reconcile.resolved",
    "reconcile.failed",
    "reconcile.dead_letters",
    # test_detached*.py, test_async.py
    "detached.runs",
    "detached.handed_over",
    "detached.finished_alone",
    "detached.lost",
    "detached.not_started",
    "detached.strays",
    "detached_unavailable",
    "detached_timeout",
    "detached_lost",
    "respond_async",
    "run_not_found",
    "run_not_completed",
    "status_requests",
    # test_operator_log.py
    "operator.requests",
    "operator.changes",
    "operator.webhook_events",
}


@pytest.mark.timeout(300)
def test_every_event_raises_its_counters_and_no_others(rig, subtests):
    """And each counter of the page is raised by some event: one that is new there needs a step here."""
    provoked: set[str] = set()
    for name, run in STEPS.items():
        with subtests.test(name):
            before = rig.counters()
            expected = run(rig)
            provoked |= set(expected)
            wait_for(
                lambda before=before, expected=expected: _is_right(_risen(rig, before), expected),
                lambda before=before, expected=expected: f"{expected}, but {_risen(rig, before)}",
            )
    assert _documented() - provoked == ELSEWHERE | GAUGES | HISTOGRAMS


def _risen(rig: Rig, before: dict[str, int]) -> dict[str, int]:
    return {name: rise for name, now in rig.counters().items() if (rise := now - before.get(name, 0))}


def _is_right(risen: dict[str, int], expected: dict[str, int]) -> bool:
    """Background jobs may have done more than the step asked for."""
    exact = (set(risen) | set(expected)) - BACKGROUND
    return all(risen.get(name, 0) == expected.get(name, 0) for name in exact) and all(
        risen.get(name, 0) >= count for name, count in expected.items()
    )


def test_gauges_and_histograms_show_the_state(rig):
    rig.send()
    for name in ("leader", "cache.entries", "cache.bytes"):
        rig.envoy.wait_for_stat(PREFIX + name, 1, deadline=30)
    wait_for(
        lambda: all(f"{PREFIX}{name}: P0(" in rig.envoy.admin("/stats") for name in HISTOGRAMS),
        "histograms come with the flush",
        deadline=30,
    )
    assert "envoy_idempotency_claim_us_bucket" in rig.envoy.admin("/stats/prometheus")
    assert rig.envoy.stat(PREFIX + "hook_exception") == 0


def test_limits_have_counters(envoy, upstream, records):
    config = _config(upstream, records.store())
    server = envoy(config.filter(limits={"in_flight": 1, "tenant_key_rate": 1}))
    rig = Rig(server, upstream, records, None)
    running = rig.hold()
    assert rig.send().status == 503
    assert server.stat("idempotency.in_flight_full") == 1
    assert rig.release(running).status == 200
    wait_for(lambda: server.stat("idempotency.in_flight") == 0, "nothing in flight")
    # More in a second than one; none at all if all of them come within the first request's second.
    statuses = [rig.send().status for _ in range(20)]
    assert 429 in statuses
    assert set(statuses) <= {200, 429}
    assert server.stat("idempotency.quota_exceeded") == statuses.count(429)
    assert len(upstream.executions()) == 1 + statuses.count(200)


# --- Per tenant


def test_only_frequent_tenants_get_a_label_of_their_own(envoy, upstream, records):
    config = _config(upstream, records.store()).filter(tenant={"sources": [{"header": "x-tenant-id"}]})
    server = envoy(config)
    connection = KeepAlive(server.port)

    def duplicates(tenant: str, count: int) -> None:
        key = _key()
        for _ in range(count + 1):
            assert connection.send(Request.keyed("/any", key, {"x-tenant-id": tenant})).status == 200

    duplicates("frequent", 30)
    for number in range(40):
        duplicates(f"seldom-{number}", 1)
    for number in range(105):
        duplicates(f"crowd-{number}", 11)

    def counted() -> dict[str, int]:
        stats = server.stats("^idempotency.tenant.duplicates")
        return {name.rpartition(".tenant.")[2]: value for name, value in stats.items()}

    # Those of a label that come fast are told together, now and then.
    everything = 30 + 40 + 105 * 11
    wait_for(lambda: sum(counted().values()) == everything, lambda: f"{everything} in {counted()}")
    labels = counted()
    assert labels["frequent"] == 30 - 9  # The first nine did not have the name yet.
    assert not [label for label in labels if label.startswith("seldom")]
    assert len(labels) == 100 + 1
    assert labels["other"] > 40
    assert 'envoy_idempotency_tenant_duplicates{tenant="frequent"} 21' in server.admin("/stats/prometheus")


# --- Access log and traces

LOG_FORMAT = {
    name: f"%DYNAMIC_METADATA(envoy-idempotency:{name})%"
    for name in ("outcome", "key_hash", "tenant", "attempt", "replayed")
}


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def _observed(config: EnvoyConfig, collector: Collector) -> EnvoyConfig:
    (log,) = config.managers[0]["access_log"]
    log["typed_config"]["log_format"] = {
        "json_format": {"path": "%REQ(:PATH)%", "status": "%RESPONSE_CODE%", **LOG_FORMAT}
    }
    collector.trace(config, *config.managers)
    return config.filter(tenant={"sources": [{"header": "x-tenant-id"}]})


def _logged(server: Envoy) -> list[dict]:
    lines = server.process.output().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def _tags(collector: Collector) -> list[dict]:
    """Of spans with something of ours, oldest first, without our prefix."""
    found = []
    for span in sorted(collector.spans, key=lambda span: span["timestamp"]):
        tags = {name: value for name, value in span["tags"].items() if name.startswith("idempotency.")}
        if tags:
            found.append({name.removeprefix("idempotency."): value for name, value in tags.items()})
    return found


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_access_log_and_spans_show_the_outcome_and_never_the_key(
    envoy, upstream, records, collector, version
):
    config = _config(upstream, records.store())
    # Envoy writes access logs every ten seconds by default.
    flush = ("--file-flush-interval-msec", "100")
    server = envoy(_observed(config, collector), version, arguments=flush)
    secret = f"secret-{uuid.uuid4()}"
    key, other = f'"{secret}"', f'"{secret}-other"'

    def send(
        path: str = "/any", key: str = key, body: bytes = b"{}", tenant: str = "acme", **behaviour
    ) -> None:
        headers = {"idempotency-key": key, "x-tenant-id": tenant, **behave(**behaviour)}
        KeepAlive(server.port).send(Request(path, headers=headers, body=body))

    send()
    send()
    send(body=b'{"other":1}')
    send(tenant="zenith")
    send(key=other, fault="close_after_read")
    send(key=other, fault="close_after_read")
    send("/small", key=f'"{secret}-large"', body_size=500)
    send("/any", key=f'"{secret}-401"', status=401)
    send("/any", key=f'"{secret}-503"', status=503)
    send("/any", key=secret)
    outcomes = ["stored", "replayed", "idempotency_key_reused", "stored", "unknown"]
    outcomes += ["idempotency_outcome_unknown", "tombstone", "released", "failed_retryable"]
    outcomes += ["idempotency_key_invalid"]
    lines = wait_for(
        lambda: found if len(found := _logged(server)) >= len(outcomes) else None,
        lambda: f"{len(outcomes)} lines: {server.process.tail()}",
        deadline=30,
    )
    assert [line["outcome"] for line in lines] == outcomes
    hashes = [line["key_hash"] for line in lines]
    # One hash for an identity, another for another tenant, none without a key.
    assert hashes[0] == hashes[1] == hashes[2]
    assert hashes[4] == hashes[5]
    assert len({hashes[0], hashes[3], hashes[4]}) == 3
    assert re.fullmatch("[0-9a-f]{16}", hashes[0])
    assert hashes[-1] is None
    assert [line["tenant"] for line in lines[:5]] == ["acme", "acme", "acme", "zenith", "acme"]
    assert [line["replayed"] for line in lines[:3]] == [None, True, None]
    assert lines[0]["attempt"] == str(records.all(key)[0].attempt)
    assert lines[3]["attempt"] != lines[0]["attempt"]
    wait_for(lambda: len(_tags(collector)) >= len(outcomes), lambda: f"spans: {collector.spans}", 30)
    tags = _tags(collector)
    assert [tag["outcome"] for tag in tags] == outcomes
    assert [tag.get("key_hash") for tag in tags] == hashes
    assert tags[0]["attempt"] == lines[0]["attempt"]
    assert tags[1]["replayed"] == "true"
    assert [tag.get("tenant") for tag in tags[:5]] == ["acme", "acme", "acme", "zenith", "acme"]
    # The key itself is nowhere.
    assert secret not in server.process.output()
    assert secret not in server.admin("/stats") + server.admin("/stats/prometheus")
    assert secret not in json.dumps(collector.spans)
    assert secret not in server.admin("/config_dump")


def test_an_outage_writes_few_lines(envoy, upstream, records, toxiproxy):
    proxy = toxiproxy.proxy(records.server.port)
    config = _config(upstream, records.store(port=proxy.port, timeout="1s"))
    rig = Rig(envoy(config), upstream, records, proxy)
    assert rig.send().status == 200
    proxy.cut()
    begin = time.monotonic()
    secret = f"secret-{uuid.uuid4()}"
    statuses = {rig.send(key=f'"{secret}-{number}"').status for number in range(200)}
    passed = time.monotonic() - begin
    assert statuses == {503}
    lines = [line for line in rig.envoy.process.output().splitlines() if "store unavailable" in line]
    assert 1 <= len(lines) <= 1 + passed / 10
    assert all("[warning]" in line for line in lines)
    assert secret not in rig.envoy.process.output()
    assert rig.envoy.stat("idempotency.store_unavailable") == 200
    assert all(re.search(r"store unavailable since \d\d:\d\d:\d\d UTC: ", line) for line in lines)
    # Each further line says how many requests there were before it.
    assert "answered 503" not in lines[0]
    assert all(re.search(r" \([1-9]\d* requests? answered 503\)$", line) for line in lines[1:])
    proxy.restore()
    wait_for(lambda: rig.send().status == 200, "the store is back", deadline=60)
    end = re.compile(r"store available again after \d+s \(\d+ requests answered 503\)")
    wait_for(
        lambda: rig.send().status == 200 and end.search(rig.envoy.process.output()),
        "the log says so",
        deadline=60,
    )
