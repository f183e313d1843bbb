"""What one process holds is bounded, each tenant has a share, and a bound that is reached opens no route."""

import contextlib
import json

import pytest
from harness.config import http_filter
from harness.site import PREFIX, TENANT, Site, code_of, new_key
from harness.wait import wait_for
from harness.wire import Http1Connection

MIB = 1 << 20
WAITS = {"in_flight": {"action": "WAIT", "wait": "60s"}}
OVERLOADED = (503, "idempotency_overloaded")
OVER_QUOTA = (429, "idempotency_quota_exceeded")


@pytest.fixture
def make_site(workspace):
    sites: list[Site] = []

    def make(routes: dict[str, dict], **limits) -> Site:
        sites.append(Site(workspace, routes, change=lambda config: config.filter(limits=limits)))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


def begin_body(connection: Http1Connection, path: str, tenant: str, announced: int, sent: int) -> None:
    """The head of a request, and a part of its body. An answer may come before the part is sent."""
    fields = {"host": "localhost", "idempotency-key": new_key(), TENANT: tenant}
    fields["content-length"] = str(announced)
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with contextlib.suppress(ConnectionError):
        connection.send(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + b"x" * sent)


def allocated(site: Site) -> int:
    return int(json.loads(site.envoy.admin("/memory"))["allocated"])


def stat(site: Site, name: str) -> int:
    return site.envoy.stat(PREFIX + name)


def answer_of(response) -> tuple[int, str]:
    return response.status, code_of(response)


def test_slow_bodies_count_before_they_are_whole(make_site):
    site = make_site({"pay": {"max_request_bytes": 8 * MIB}}, in_flight=5)
    before = allocated(site)
    with contextlib.ExitStack() as stack:
        for number in range(5):
            begin_body(stack.enter_context(site.connect()), "/pay/", f"slow {number}", 5 * MIB, 4 * MIB)
        wait_for(lambda: stat(site, "in_flight") == 5, "five are counted")
        for number in range(55):
            connection = stack.enter_context(site.connect())
            begin_body(connection, "/pay/", f"late {number}", 5 * MIB, 0)
            assert answer_of(connection.read_response()) == OVERLOADED
        assert stat(site, "in_flight") == 5
        assert stat(site, "in_flight_full") == 55
        wait_for(lambda: stat(site, "held_bytes") == 5 * 4 * MIB, "what is held is shown")
        assert allocated(site) - before < 30 * MIB
    site.wait_until_idle()
    wait_for(lambda: stat(site, "held_bytes") == 0, "nothing is held any more")
    assert stat(site, "store.error") == 0
    assert site.send("/pay/", new_key()).status == 200


def test_bytes_of_bodies_are_bounded(make_site):
    site = make_site({"pay": {}}, held_bytes=16 * MIB)
    before = allocated(site)
    with contextlib.ExitStack() as stack:
        for number in range(40):
            connection = stack.enter_context(site.connect())
            begin_body(connection, "/pay/", f"tenant {number}", MIB, MIB - 1)
        refused = wait_for(
            lambda: 40 - stat(site, "in_flight") == (full := stat(site, "held_bytes.full")) and full,
            "each is held or refused",
        )
        assert refused >= 28
        assert stat(site, "overloaded") == refused
        wait_for(lambda: 0 < stat(site, "held_bytes") <= 12 * MIB, "three quarters are for requests")
        assert allocated(site) - before < 22 * MIB
    site.wait_until_idle()
    wait_for(lambda: stat(site, "held_bytes") == 0, "nothing is held any more")
    assert site.upstream.log() == []
    assert site.send("/pay/", new_key(), body=b"x" * MIB).status == 200


def test_full_pool_lets_no_request_run_unprotected(make_site):
    site = make_site({"open": {"on_store_failure": "FAIL_OPEN"}}, in_flight=1)
    first, second = new_key(), new_key()
    with site.running("/open/", first) as let_go:
        with site.counts(covered=1, in_flight_full=1, overloaded=1):
            refused = site.send("/open/", second, tenant="stranger")
        assert answer_of(refused) == OVERLOADED
        assert refused.header("retry-after") == "1"
        assert let_go().status == 200
    assert site.executions(second) == []
    assert site.send("/open/", second, tenant="stranger").header("idempotency-enforced") is None


def test_one_tenants_waiting_requests_leave_room_for_another(make_site):
    site = make_site({"pay": WAITS}, in_flight=20, tenant_waiters=5)
    key = new_key()
    with contextlib.ExitStack() as stack:
        let_go = stack.enter_context(site.running("/pay/", key, tenant="greedy"))
        waiting = [stack.enter_context(site.connect()) for _ in range(5)]
        for connection in waiting:
            site.begin(connection, "/pay/", key, tenant="greedy")
        site.envoy.wait_for_stat(PREFIX + "waited", 5)
        for _ in range(25):
            refused = site.send("/pay/", key, tenant="greedy")
            assert answer_of(refused) == OVER_QUOTA
            assert refused.header("retry-after") == "1"
        assert stat(site, "tenant.waiters_full") == 25
        other = new_key()
        assert site.send("/pay/", other, tenant="other").status == 200
        with site.running("/pay/", new_key(), tenant="other") as other_goes, site.connect() as waits:
            site.begin(waits, "/pay/", other, tenant="other")
            assert waits.read_response().header("idempotent-replayed") == "true"
            assert other_goes().status == 200
        first = let_go()
        for connection in waiting:
            replay = connection.read_response()
            assert (replay.body, replay.header("idempotent-replayed")) == (first.body, "true")
    assert len(site.executions(key)) == 1


def test_one_tenant_takes_its_share_of_requests(make_site):
    site = make_site({"pay": {}}, in_flight=4)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            begin_body(stack.enter_context(site.connect()), "/pay/", "greedy", 100, 1)
        wait_for(lambda: stat(site, "in_flight") == 2, "its share")
        assert answer_of(site.send("/pay/", new_key(), tenant="greedy")) == OVER_QUOTA
        assert stat(site, "tenant.in_flight_full") == 1
        assert site.send("/pay/", new_key(), tenant="other").status == 200


# --- Expect: 100-continue


def expecting(connection: Http1Connection, key: str) -> None:
    fields = f"host: localhost\r\nidempotency-key: {key}\r\n{TENANT}: acme\r\nexpect: 100-continue\r\n"
    connection.send(f"POST /pay/ HTTP/1.1\r\n{fields}content-length: 2\r\n\r\n".encode())


def test_envoy_answers_expect_itself(make_site):
    site = make_site({"pay": {}})
    with site.connect() as connection:
        expecting(connection, new_key())
        connection.send(b"{}")
        response = connection.read_response()
    assert (response.status, response.interim) == (200, [100])


def test_client_that_waits_for_a_100_of_the_upstream_gets_an_answer(workspace):
    def change(config) -> None:
        for manager in config.managers:
            manager["proxy_100_continue"] = True

    site = Site(workspace, {"pay": {}}, change=change)
    key = new_key()
    with site.connect() as connection, site.counts(expectation_failed=1):
        expecting(connection, key)
        refused = connection.read_response()
    assert answer_of(refused) == (417, "idempotency_expectation_failed")
    assert site.executions(key) == []
    assert site.send("/pay/", key).status == 200, "without Expect"
    site.close()


# --- CORS before ours


@pytest.mark.parametrize("expose", [None, "x-mine"], ids=["no list of its own", "a list of its own"])
def test_envoys_cors_filter_before_ours(workspace, expose):
    policy = {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy",
        "allow_origin_string_match": [{"exact": "https://shop.example"}],
        **({"expose_headers": expose} if expose else {}),
    }

    def change(config) -> None:
        config.before_ours(http_filter("cors", "Cors"))
        for route in config.routes:
            route.setdefault("typed_per_filter_config", {})["envoy.filters.http.cors"] = policy

    site = Site(workspace, {"pay": {}}, change=change)
    key = new_key()
    answers = [
        site.send("/pay/", key, body=body, headers={"origin": "https://shop.example"})
        for body in (b"{}", b"{}", b"[]")
    ]
    assert [answer.status for answer in answers] == [200, 200, 422]
    for answer in answers:
        assert answer.header("access-control-allow-origin") == "https://shop.example"
        exposed = answer.header("access-control-expose-headers")
        # Its own list takes the place of ours, as the page says.
        assert exposed == expose if expose else "idempotent-replayed" in exposed
    site.close()
