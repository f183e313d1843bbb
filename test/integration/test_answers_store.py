"""What a request gets where the store decides: leases, expiry, quotas, other Envoys, a store that is down.

Each test has an Envoy of its own. The rows that need none are in test_answers.py.
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import psycopg
import pytest
from harness.ctl import migrate
from harness.ports import free_port
from harness.postgres import unprivileged_user
from harness.site import Site, code_of, new_key
from harness.small_disk import SmallDisk
from harness.wait import wait_for
from harness.wire import WireResponse

# The shortest that the config allows.
SHORT_LEASE = {"lease": "2s", "completion_timeout": "1s"}
NO_MAINTENANCE = {"enabled": False}
DEAD_POSTGRES = f"host=127.0.0.1 port={free_port()} user=nobody dbname=nowhere"


@pytest.fixture
def make_site(workspace):
    return lambda *arguments, **options: Site(workspace, *arguments, **options)


@pytest.fixture
def postgres_site(make_site, migrated):
    """Sites on one database; each further one with the first one's upstream."""
    sites: list[Site] = []

    def make(routes: dict[str, dict], timeout: str = "10s", **options) -> Site:
        store = {"postgres": {"conninfo": migrated, "timeout": timeout}}
        upstream = sites[0].upstream if sites else None
        sites.append(make_site(routes, store=store, upstream=upstream, **options))
        return sites[-1]

    return make


# --- Leases


@pytest.mark.parametrize("swept", [False, True], ids=["not yet swept", "swept"])
def test_lease_run_out_unknown(make_site, swept):
    """The Envoy that ran the request is dead: nobody knows, and no retry finds out by running."""
    maintenance = {"enabled": swept, "sweep_interval": "1s"}
    site = make_site({"pay": SHORT_LEASE}, change=lambda config: config.filter(maintenance=maintenance))
    key = new_key()
    with site.running("/pay/", key):
        site.envoy.kill9()
    site.start()
    if swept:
        site.wait_for_state(key, "unknown")
    answers = []

    def answer() -> str:
        answers.append(site.send("/pay/", key))
        return code_of(answers[-1])

    wait_for(lambda: answer() == "idempotency_outcome_unknown", lambda: f"unknown, but {answers[-1]}")
    assert {response.status for response in answers} == {409}
    assert {code_of(response) for response in answers} <= {
        "idempotency_in_progress",
        "idempotency_outcome_unknown",
    }
    assert len(site.executions(key)) == 1


def test_lease_run_out_retry(make_site):
    """By a policy that says so, the next request runs again, with another attempt."""
    site = make_site({"pay": {**SHORT_LEASE, "on_lease_expired": "RETRY"}})
    key = new_key()
    with site.running("/pay/", key):
        site.envoy.kill9()
    site.start()
    answer = wait_for(lambda: ran(site, "/pay/", key, 201), "the lease runs out")
    assert answer.header("idempotent-replayed") is None
    first, second = site.executions(key)
    assert first["attempt"] != second["attempt"]
    assert site.send("/pay/", key).body == answer.body


def ran(site: Site, path: str, key: str, status: int) -> WireResponse | None:
    """The answer of the upstream with this status, if that is what a request gets now."""
    response = site.send(path, key, status=status)
    return response if response.status == status else None


def test_a_lease_is_kept_alive_while_the_request_runs(make_site):
    site = make_site(
        {"pay": SHORT_LEASE}, change=lambda config: config.filter(maintenance={"sweep_interval": "1s"})
    )
    key = new_key()
    with site.running("/pay/", key) as let_go:
        # Far beyond the lease, by what the heartbeat did.
        site.envoy.wait_for_stat("idempotency.heartbeat.extended", 6)
        assert code_of(site.send("/pay/", key)) == "idempotency_in_progress"
        assert let_go().status == 200
    assert site.state(key) == "completed"
    assert site.send("/pay/", key).header("idempotent-replayed") == "true"


def test_a_late_answer_is_fenced_off(postgres_site):
    """An Envoy that stood still comes back with an answer when another has finished the key."""
    routes = {"pay": {**SHORT_LEASE, "on_lease_expired": "RETRY"}}
    still, other = (postgres_site(routes, timeout="2s") for _ in range(2))
    key = new_key()
    with still.running("/pay/", key, status=201) as let_go:
        still.envoy.process.pause()
        try:
            second = wait_for(lambda: ran(other, "/pay/", key, 202), "the lease runs out")
        finally:
            still.envoy.process.resume()
        first = let_go()
    # It is what its upstream said, but not what is on record.
    assert (first.status, first.header("idempotency-stored")) == (201, "false")
    assert first.header("idempotency-key-expires") is None
    assert still.record(key)["status"] == 202
    for site in (still, other):
        replay = site.send("/pay/", key)
        assert (replay.status, replay.body) == (202, second.body)
    still.envoy.wait_for_stat("idempotency.fenced", 1)
    assert len(still.executions(key)) == 2


def test_a_policy_that_now_says_retry_runs_nothing_that_was_claimed_before_it_did(postgres_site):
    """A policy change has reached one of two Envoys. The claim of the other excludes any second run."""
    options = {"timeout": "2s", "change": no_maintenance}
    still = postgres_site({"pay": SHORT_LEASE}, **options)
    changed = postgres_site({"pay": {**SHORT_LEASE, "on_lease_expired": "RETRY"}}, **options)
    key = new_key()
    with still.running("/pay/", key, status=201) as let_go:
        still.envoy.process.pause()
        try:
            wait_for(
                lambda: code_of(changed.send("/pay/", key)) == "idempotency_outcome_unknown",
                "the lease runs out",
            )
        finally:
            still.envoy.process.resume()
        first = let_go()
    assert (first.status, first.header("idempotency-stored")) == (201, None)
    replay = changed.send("/pay/", key)
    assert (replay.body, replay.header("idempotent-replayed")) == (first.body, "true")
    assert len(still.executions(key)) == 1


# --- Expiry


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_request_that_outlives_its_record_is_not_run_again(make_site, migrated, kind):
    """Retries get 409 with Retry-After while it runs, and its response afterwards."""
    store = {"postgres": {"conninfo": migrated, "timeout": "2s"}} if kind == "postgres" else None
    site = make_site({"pay": {**SHORT_LEASE, "ttl": "4s"}}, store=store, change=no_maintenance)
    key = new_key()
    with site.running("/pay/", key) as let_go:
        # Far beyond its life, by what the heartbeat did.
        site.envoy.wait_for_stat("idempotency.heartbeat.extended", 9)
        told = site.send("/pay/", key)
        assert (code_of(told), told.header("retry-after")) == ("idempotency_in_progress", "1")
        before = datetime.now(UTC)
        first = let_go()
    assert (first.status, first.header("idempotency-stored")) == (200, None)
    retry = site.send("/pay/", key)
    assert (retry.body, retry.header("idempotent-replayed")) == (first.body, "true")
    # What is over is told to nobody.
    assert [told.header("idempotency-key-expires"), first.header("idempotency-key-expires")] == [None, None]
    assert parsedate_to_datetime(retry.header("idempotency-key-expires")) > before
    assert len(site.executions(key)) == 1


def test_expired_runs_as_new(make_site):
    site = make_site({"pay": {**SHORT_LEASE, "ttl": "2s"}}, change=no_maintenance)
    key = new_key()
    first = site.send("/pay/", key)
    seen = []

    def run() -> bool:
        # Also with another request: the key is as good as new.
        seen.append(site.send("/pay/", key, body=b'{"n":2}'))
        return seen[-1].status == 200

    wait_for(run, "the record's life ends")
    assert {code_of(response) for response in seen[:-1]} <= {"idempotency_key_reused"}
    assert seen[-1].body != first.body
    assert len(site.executions(key)) == 2
    assert site.envoy.stat("idempotency.claim.expired_run") == 1


@pytest.mark.parametrize("kept", [False, True], ids=["past its life", "kept as expired"])
def test_expired_gone(make_site, kept):
    maintenance = {"enabled": kept, "reap_interval": "1s", "soft_expire": True}
    site = make_site(
        {"pay": {**SHORT_LEASE, "ttl": "2s", "on_expired": "GONE"}},
        change=lambda config: config.filter(maintenance=maintenance),
    )
    key = new_key()
    assert site.send("/pay/", key).status == 200
    if kept:
        site.wait_for_state(key, "expired")
    answer = wait_for(
        lambda: response if (response := site.send("/pay/", key)).status != 200 else None, "expired"
    )
    assert (answer.status, code_of(answer)) == (410, "idempotency_key_expired")
    assert answer.header("retry-after") is None
    assert site.envoy.stat("idempotency.key_expired") == 1
    assert len(site.executions(key)) == 1


def no_maintenance(config) -> None:
    config.filter(maintenance=NO_MAINTENANCE)


# --- Quotas


def test_quota_of_new_keys_per_second(make_site):
    """One each second: of many at once, the others are refused. What is known is not new."""
    site = make_site({"pay": {}}, change=lambda config: config.filter(limits={"tenant_key_rate": 1}))
    keys = [new_key() for _ in range(12)]
    answers = [site.send("/pay/", key) for key in keys]
    assert answers[0].status == 200
    refused = [answer for answer in answers if answer.status == 429]
    # That slow is no machine: twelve seconds for twelve requests.
    assert refused
    assert {code_of(answer) for answer in refused} == {"idempotency_quota_exceeded"}
    assert {answer.header("retry-after") for answer in refused} == {"1"}
    assert {answer.header("idempotency-key-expires") for answer in refused} == {None}
    assert site.envoy.stat("idempotency.quota_exceeded") == len(refused)
    assert len(site.upstream.executions()) == len(answers) - len(refused)
    # A replay is no new key.
    for _ in range(4):
        assert site.send("/pay/", keys[0]).header("idempotent-replayed") == "true"
    assert site.send("/pay/", new_key(), tenant="other").status == 200


def test_quota_of_live_keys(make_site):
    site = make_site({"pay": {}}, change=lambda config: config.filter(limits={"tenant_live_keys": 2}))
    first, second, third = new_key(), new_key(), new_key()
    assert [site.send("/pay/", key).status for key in (first, second)] == [200, 200]
    with site.counts(covered=1, quota_exceeded=1):
        refused = site.send("/pay/", third)
    assert (refused.status, code_of(refused)) == (429, "idempotency_quota_exceeded")
    assert int(refused.header("retry-after")) >= 1
    assert site.executions(third) == []
    assert site.record(third) is None
    assert site.send("/pay/", first).header("idempotent-replayed") == "true"
    assert site.send("/pay/", third, tenant="other").status == 200


def test_too_many_in_flight(make_site):
    site = make_site(
        {"pay": {}}, change=lambda config: config.filter(limits={"in_flight": 1}, maintenance=NO_MAINTENANCE)
    )
    first, second = new_key(), new_key()
    with site.running("/pay/", first) as let_go:
        with site.counts(covered=1, in_flight_full=1, overloaded=1):
            refused = site.send("/pay/", second)
        assert (refused.status, code_of(refused)) == (503, "idempotency_overloaded")
        assert let_go().status == 200
    assert site.executions(second) == []
    assert site.send("/pay/", second).status == 200


# --- Other Envoys


def test_in_progress_wait_is_woken_by_another_envoys_completion(postgres_site):
    routes = {"pay": {"in_flight": {"action": "WAIT", "wait": "60s"}}}
    one, two = postgres_site(routes), postgres_site(routes)
    key = new_key()
    with one.running("/pay/", key) as let_go, two.connect() as connection:
        two.begin(connection, "/pay/", key)
        two.envoy.wait_for_stat("idempotency.waited", 1)
        first = let_go()
        second = connection.read_response()
    assert (second.status, second.body) == (200, first.body)
    assert second.header("idempotent-replayed") == "true"
    assert len(one.executions(key)) == 1


@pytest.mark.parametrize(
    ("state", "status", "code"),
    [
        ("in_progress", 409, "idempotency_in_progress"),
        ("unknown", 409, "idempotency_outcome_unknown"),
        ("failed_retryable", 200, None),
        ("completed", 201, None),
    ],
)
def test_what_one_envoy_did_another_knows(postgres_site, state, status, code):
    one, two = postgres_site({"pay": {}}), postgres_site({"pay": {}})
    key = new_key()
    if state == "in_progress":
        with one.running("/pay/", key):
            response = two.send("/pay/", key)
            other = two.send("/pay/", key, body=b"[]")
    else:
        behaviour = {
            "unknown": {"fault": "close_after_read"},
            "failed_retryable": {"status": 500},
            "completed": {"status": 201},
        }[state]
        one.send("/pay/", key, **behaviour)
        assert one.state(key) == state
        other = two.send("/pay/", key, body=b"[]")
        response = two.send("/pay/", key)
    assert response.status == status
    assert code is None or code_of(response) == code
    assert (other.status, code_of(other)) == (422, "idempotency_key_reused")
    assert len(one.executions(key)) == (2 if state == "failed_retryable" else 1)


# --- A store that is down

STORE_DOWN = {
    "closed": {},
    "open": {"on_store_failure": "FAIL_OPEN"},
    "later": {"in_flight": {"retry_after": "11s"}},
}


def test_store_down(make_site):
    site = make_site(STORE_DOWN, store={"postgres": {"conninfo": DEAD_POSTGRES, "timeout": "0.3s"}})
    key = new_key()
    with site.counts(covered=1, store__error=1, store_unavailable=1):
        refused = site.send("/closed/", key)
    assert (refused.status, code_of(refused)) == (503, "idempotency_store_unavailable")
    assert refused.header("retry-after") == "1"
    assert refused.header("idempotency-key-expires") is None
    assert site.send("/later/", key).header("retry-after") == "11"
    assert site.upstream.log() == []
    assert any("store unavailable since" in line for line in site.envoy.module_complaints())


def test_store_down_fail_open(make_site):
    site = make_site(STORE_DOWN, store={"postgres": {"conninfo": DEAD_POSTGRES, "timeout": "0.3s"}})
    key = new_key()
    with site.counts(covered=2, store__error=2, store__fail_open=2):
        answers = [site.send("/open/", key, status=201) for _ in range(2)]
    for answer in answers:
        assert answer.status == 201
        assert answer.header("idempotency-enforced") == "false"
        assert answer.header("idempotency-key-expires") is None
    executions = site.executions(key)
    # Unprotected means just that: both ran, and no attempt is claimed to exist.
    assert [execution["attempt"] for execution in executions] == [None, None]


def test_store_down_grpc(make_site):
    site = make_site(STORE_DOWN, store={"postgres": {"conninfo": DEAD_POSTGRES, "timeout": "0.3s"}})
    response = site.send("/closed/", new_key(), http2=True, headers={"content-type": "application/grpc"})
    assert (response.status, response.header("grpc-status")) == (200, "14")


def test_store_slow(postgres_site):
    """The claim comes too late for the request: refused, and the claim is taken back."""
    site = postgres_site({"pay": {}}, timeout="0.3s")
    key = new_key()
    with site.store_held():
        refused = site.send("/pay/", key)
    assert (refused.status, code_of(refused)) == (503, "idempotency_store_unavailable")
    site.wait_for_state(key, None)
    assert site.executions(key) == []
    wait_for(lambda: site.send("/pay/", key).status == 200, "the store is back")
    assert len(site.executions(key)) == 1


# What an operator does to the database, what undoes it, and what the log then says.
BROKEN_DATABASES = {
    "read-only": (
        "ALTER DATABASE {} SET default_transaction_read_only = on",
        "ALTER DATABASE {} RESET default_transaction_read_only",
        "read-only",
    ),
    "table gone": (
        "ALTER TABLE idempotency.record RENAME TO hidden",
        "ALTER TABLE idempotency.hidden RENAME TO record",
        "the schema is not as expected",
    ),
    "schema gone": (
        "ALTER SCHEMA idempotency RENAME TO hidden",
        "ALTER SCHEMA hidden RENAME TO idempotency",
        "run idempotencyctl migrate",
    ),
    "schema of a newer module": (
        "UPDATE idempotency.schema_version SET compatible_with = compatible_with + 1000",
        "UPDATE idempotency.schema_version SET compatible_with = compatible_with - 1000",
        "requires a newer module",
    ),
}


@pytest.mark.parametrize("harm", BROKEN_DATABASES)
def test_store_broken_by_its_operator(postgres_site, migrated, harm):
    """503 and an untouched upstream while it lasts; afterwards it works again by itself."""
    site = postgres_site({"pay": {}}, timeout="1s", change=lambda c: c.filter(replay_cache={"max_bytes": 0}))
    known, new = new_key(), new_key()
    assert site.send("/pay/", known).status == 200
    breaks, mends, said = BROKEN_DATABASES[harm]

    def operate(sql: str) -> None:
        with psycopg.connect(migrated, autocommit=True) as owner:
            owner.execute("SET default_transaction_read_only = off")
            owner.execute(sql.format(owner.info.dbname))
            # Sessions that stand already are not asked.
            owner.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    operate(breaks)
    wait_for(lambda: site.send("/pay/", known).status == 503, "the store refuses")
    for key in (new, known):
        refused = site.send("/pay/", key)
        assert (refused.status, code_of(refused)) == (503, "idempotency_store_unavailable")

    def log_says() -> bool:
        site.send("/pay/", known)  # A line every ten seconds at most, and only with a request.
        return said in site.envoy.process.output()

    wait_for(log_says, f"the log says: {said}", deadline=40)
    assert site.envoy.wait_for_stat("idempotency.store.refuses", 1, deadline=30)
    assert site.executions(new) == []
    operate(mends)
    wait_for(lambda: site.send("/pay/", new).status == 200, "the store is back", deadline=60)
    assert site.send("/pay/", known).header("idempotent-replayed") == "true"
    assert (len(site.executions(known)), len(site.executions(new))) == (1, 1)


def test_store_full(make_site, workspace, postgres_server):
    """No room for a claim: 503, and nothing runs. A replay needs none."""
    disk = SmallDisk(workspace, 48, unprivileged_user())
    server = postgres_server(disk=disk)
    server.query(f"CREATE TABLESPACE small LOCATION '{disk.path}'")
    server.query("CREATE DATABASE small TABLESPACE small")
    migrate(server.conninfo("small"))
    store = {"postgres": {"conninfo": server.conninfo("small"), "timeout": "5s"}}
    policy = {"completion_timeout": "0.1s"}
    site = make_site({"pay": policy}, store=store, change=lambda c: c.filter(replay_cache={"max_bytes": 0}))
    known, new = new_key(), new_key()
    assert site.send("/pay/", known).status == 200
    disk.fill(leave=200_000)
    answers = []

    def refused() -> bool:
        answers.append(site.send("/pay/", f'{new_key()[:-1]}{"x" * 200}"'))
        return answers[-1].status != 200

    wait_for(refused, "the disk is full", deadline=60)
    assert (answers[-1].status, code_of(answers[-1])) == (503, "idempotency_store_unavailable")
    assert len(site.upstream.log("executed")) == len(answers), "the known one ran, the last one did not"
    disk.empty()
    wait_for(lambda: site.send("/pay/", new).status == 200, "the store is back", deadline=60)
    assert site.send("/pay/", known).header("idempotent-replayed") == "true"


def test_store_lost_before_the_answer_is_stored(postgres_site):
    """The client gets the true answer, marked; the write goes on and a retry is replayed in the end."""
    site = postgres_site({"pay": {"completion_timeout": "0.3s"}}, timeout="20s")
    key = new_key()
    with site.running("/pay/", key, status=201) as let_go, site.store_held() as give_back:
        answer = let_go()
        assert answer.status == 201
        assert answer.header("idempotency-stored") == "false"
        assert answer.header("idempotency-key-expires") is None
        give_back()
    site.wait_for_state(key, "completed")
    assert site.send("/pay/", key).body == answer.body
    assert len(site.executions(key)) == 1
    assert site.envoy.stat("idempotency.not_stored") == 1
