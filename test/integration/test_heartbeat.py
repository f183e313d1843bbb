"""A request may take longer than its lease: the lease is renewed as long as the request runs."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.clients import KeepAlive, Request
from harness.config import EnvoyConfig
from harness.paths import ENVOY_VERSIONS
from harness.upstream import behave

LEASE = 3
# The shortest sweep there is, so that a lease that is not renewed is noticed.
MAINTENANCE = {"sweep_interval": "1s", "reap_interval": "1s"}


@pytest.mark.parametrize("version", [ENVOY_VERSIONS[0], ENVOY_VERSIONS[-1]])
def test_a_request_longer_than_its_lease_keeps_its_claim(envoy, upstream, records, version):
    config = EnvoyConfig.quickstart().for_test(records.store(timeout=f"{LEASE}s")).upstream(upstream.port)
    policy = {"enforcement": "REQUIRED", "lease": f"{LEASE}s", "completion_timeout": f"{LEASE}s"}
    config.filter(maintenance=MAINTENANCE).route("/slow", policy, timeout="60s")
    one, other = envoy(config, version), envoy(config, version)
    key = f'"{uuid.uuid4()}"'
    request = Request.keyed("/slow", key, behave(hold="gate"))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(KeepAlive(one.port).send, request)
        upstream.wait_until_held("gate")
        began = time.monotonic()
        attempt = records.one(key).attempt
        connection = KeepAlive(other.port)
        while time.monotonic() < began + 2.5 * LEASE:
            answer = connection.send(request)
            assert answer.status == 409
            assert b"idempotency_in_progress" in answer.body
            time.sleep(0.2)
        upstream.release("gate")
        first = running.result()
    assert first.status == 200
    assert first.header("idempotency-stored") is None
    record = records.one(key)
    assert (record.state, record.attempt) == ("completed", attempt)
    assert connection.send(request).body == first.body
    assert len(upstream.executions()) == 1
    # One for each third of a lease; a busy machine may be late, but not by so much.
    assert one.stat("idempotency.heartbeat.extended") >= 3
    for server in (one, other):
        assert server.stat("idempotency.lease.to_unknown") == 0
        assert server.stat("idempotency.fenced") == 0
