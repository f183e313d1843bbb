"""A lock on one record, by an operator or by a service's own transaction, delays that record only."""

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
from harness.clients import KeepAlive, Request
from harness.config import EnvoyConfig
from harness.site import new_key
from harness.upstream import behave
from harness.wait import wait_for

LEASE = 3
POLICY = {"enforcement": "REQUIRED", "lease": f"{LEASE}s", "completion_timeout": "1s"}
MAINTENANCE = {"sweep_interval": "1s", "reap_interval": "1s"}


def test_a_lock_for_three_leases_delays_its_own_record_only(envoy, upstream, records):
    config = EnvoyConfig.quickstart().for_test(records.store(timeout="1s")).upstream(upstream.port)
    config.filter(maintenance=MAINTENANCE).route("/pay", POLICY, timeout="60s")
    config.route("/resume", {**POLICY, "on_lease_expired": "RETRY"}, timeout="60s")
    one, other = envoy(config), envoy(config)
    a, b, c = (new_key() for _ in range(3))
    requests = {
        a: Request.keyed("/pay", a, behave(hold="a")),
        b: Request.keyed("/pay", b, behave(hold="b")),
        c: Request.keyed("/resume", c, behave(hold="c")),
    }
    with ThreadPoolExecutor(3) as pool:
        running = {key: pool.submit(KeepAlive(one.port).send, request) for key, request in requests.items()}
        for gate in "abc":
            upstream.wait_until_held(gate)
        stranger = psycopg.connect(records.conninfo())
        stranger.execute("SELECT FROM idempotency.record WHERE key = %s FOR UPDATE", (a.strip('"').encode(),))
        retries = KeepAlive(other.port)
        began = time.monotonic()
        while time.monotonic() < began + 3 * LEASE:
            for key in (b, c):
                answer = retries.send(requests[key])
                assert answer.status == 409
                assert b"idempotency_in_progress" in answer.body
            # This one's lease cannot be renewed: whether it runs is not known to others. It never runs again.
            assert retries.send(requests[a]).status == 409
            assert KeepAlive(other.port).send(Request.keyed("/pay", new_key())).status == 200
            time.sleep(0.2)
        for key, gate in ((b, "b"), (c, "c")):
            upstream.release(gate)
            answer = running[key].result()
            assert (answer.status, answer.header("idempotency-stored")) == (200, None)
            assert records.one(key).state == "completed"
        # The locked one ends, too, and its client gets the answer; it is stored when the lock has gone,
        # although that is more than a lease later.
        upstream.release("a")
        answer = running[a].result()
        assert (answer.status, answer.header("idempotency-stored")) == (200, "false")
        time.sleep(1.5 * LEASE)
        assert records.one(a).state == "in_progress"
        # Whoever comes first once the lock has gone: the sweeper is kept away, so that it is the settler.
        with psycopg.connect(records.conninfo()) as sweeper_lock:
            sweeper_lock.execute("SELECT FROM idempotency.sweep_position FOR UPDATE")
            stranger.close()
            wait_for(
                lambda: records.one(a).state == "completed", "the locked record is completed", deadline=30
            )
            sweeper_lock.rollback()
    replay = retries.send(requests[a])
    assert (replay.status, replay.header("idempotent-replayed")) == (200, "true")
    for key in (a, b, c):
        assert len(upstream.executions(key=key)) == 1
    for server in (one, other):
        assert server.stat("idempotency.lease.to_unknown") == 0
        assert server.stat("idempotency.lease.to_retry") == 0
        assert server.stat("idempotency.fenced") == 0
        assert server.stat("idempotency.store_unavailable") == 0
