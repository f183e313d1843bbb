"""What detached runs may use: they count for their tenant and their process until they end, also alone."""

import contextlib
import itertools
import os
import resource
from collections.abc import Callable, Iterator

import pytest
from harness.config import EnvoyConfig
from harness.site import PREFIX, Site, code_of, finish, new_key
from harness.wait import wait_for
from test_detached_faults import full

BODY = b"x" * 50_000  # It fits into the first window of an HTTP/2 client.
OVERLOADED = (503, "idempotency_overloaded")
OVER_QUOTA = (429, "idempotency_quota_exceeded")
UNAVAILABLE = (503, "idempotency_detached_unavailable")


def stat(site: Site, name: str) -> int:
    return site.envoy.stat(PREFIX + name)


def answer_of(response) -> tuple[int, str]:
    return response.status, code_of(response)


def nothing_is_counted(site: Site) -> None:
    site.wait_until_idle()
    wait_for(lambda: stat(site, "held_bytes") == 0, "nothing is held")


@pytest.fixture
def make_site(workspace) -> Iterator[Callable[..., Site]]:
    sites: list[Site] = []

    def make(*, listener: dict | None = None, policy: dict | None = None, workers=2, **limits) -> Site:
        """`listener`: more fields of private_listener."""

        def change(config: EnvoyConfig) -> None:
            config.private_listener(workspace.new_folder("runs") / "runs.sock", **(listener or {}))
            config.filter(limits=limits)

        routes = {"up": {"detached": {}, **(policy or {})}}
        sites.append(Site(workspace, routes, change=change, concurrency=workers))
        return sites[-1]

    yield make
    for site in sites:
        nothing_is_counted(site)
        site.close(may_complain=True)


# --- Shares


def test_one_tenants_runs_leave_room_for_another(make_site, leave):
    """Whether or not their clients wait: in_flight 4 is a share of 2."""
    site = make_site(in_flight=4)
    keys = [new_key(), new_key()]
    with (
        site.running_alone("/up/", keys[0], leave, tenant="greedy") as let_go,
        site.running_alone("/up/", keys[1], leave, tenant="greedy"),
    ):
        with site.counts(covered=1, quota_exceeded=1, tenant__in_flight_full=0):
            assert answer_of(site.send("/up/", new_key(), tenant="greedy")) == OVER_QUOTA
        assert stat(site, "tenant.in_flight_full") == 1
        for _ in range(3):
            assert site.send("/up/", new_key(), tenant="other").status == 200
        let_go()
        site.wait_for_state(keys[0], "completed")
        wait_for(lambda: site.send("/up/", new_key(), tenant="greedy").status == 200, "its share is free")
    for key in keys:
        site.wait_for_state(key, "completed")
        assert len(site.executions(key)) == 1


def test_runs_of_all_tenants_count_for_the_process(make_site, leave):
    site = make_site(in_flight=2)
    keys = [new_key(), new_key()]
    with (
        site.running_alone("/up/", keys[0], leave, tenant="one") as let_go,
        site.running_alone("/up/", keys[1], leave, tenant="two"),
    ):
        third = new_key()
        with site.counts(covered=1, in_flight_full=1, overloaded=1):
            refused = site.send("/up/", third, tenant="three")
        assert answer_of(refused) == OVERLOADED
        assert refused.header("retry-after")
        assert stat(site, "in_flight") == 2
        let_go()
        wait_for(lambda: site.send("/up/", third, tenant="three").status == 200, "there is room")
    assert len(site.executions(third)) == 1


def test_a_client_that_waits_and_its_run_count_once(make_site):
    site = make_site(in_flight=4)
    with site.running("/up/", new_key()) as let_go, site.running("/up/", new_key()):
        assert stat(site, "in_flight") == 2
        assert answer_of(site.send("/up/", new_key())) == OVER_QUOTA
        assert let_go().status == 200
        # Its answer comes before the end of the run's stream.
        wait_for(lambda: stat(site, "in_flight") == 1, "one is left")
        assert site.send("/up/", new_key()).status == 200


def test_a_run_whose_request_waited_waits_no_longer(make_site):
    """The place of a waiter that becomes a run is free for another waiter."""
    wait = {"in_flight": {"action": "WAIT", "wait": "60s"}}
    site = make_site(policy=wait, in_flight=20, tenant_waiters=1)
    key, other = new_key(), new_key()
    with site.connect() as waiter, site.running("/up/", key, status=503) as let_go:
        site.begin(waiter, "/up/", key, hold="second")
        site.envoy.wait_for_stat(PREFIX + "waited", 1)
        assert let_go().status == 503
        site.upstream.wait_until_held("second")
        with site.running("/up/", other) as other_goes, site.connect() as second:
            site.begin(second, "/up/", other)
            site.envoy.wait_for_stat(PREFIX + "waited", 2)
            assert other_goes().status == 200
            assert finish(second, None).header("idempotent-replayed") == "true"
        site.upstream.release("second")
        assert finish(waiter, None).status == 200


# --- Until the private listener takes over


@pytest.fixture
def stuck(workspace) -> Iterator[tuple[Site, Callable[[], None]]]:
    """A Site whose private listener accepts nobody; call what you get, and nobody listens any more."""
    path = workspace.new_folder("runs") / "runs.sock"

    def change(config: EnvoyConfig) -> None:
        config.filter(
            private_listener={"path": str(path), "accept_timeout": "60s"},
            limits={"in_flight": 4, "held_bytes": 64 << 20},
        )

    with contextlib.ExitStack() as stack:
        stack.enter_context(full(path))
        site = Site(workspace, {"up": {"detached": {}}}, change=change)
        yield site, stack.close
    nothing_is_counted(site)
    site.close(may_complain=True)


def begin_and_leave(site: Site, leave: Callable, **options) -> None:
    with site.connect(leave.http2) as connection:
        with site.until_counted("claim.created"):
            stream = site.begin(connection, "/up/", new_key(), **options)
        with site.until_counted("cut_short"):
            leave(connection, stream)


def test_runs_that_wait_for_the_listener_use_their_tenants_share(stuck, leave):
    site, end = stuck
    for _ in range(2):
        begin_and_leave(site, leave, tenant="greedy")
    assert answer_of(site.send("/up/", new_key(), tenant="greedy")) == OVER_QUOTA
    end()
    wait_for(
        lambda: answer_of(site.send("/up/", new_key(), tenant="greedy")) == UNAVAILABLE,
        "its share is free again",
    )
    assert site.upstream.log() == []


def test_requests_that_wait_for_the_listener_are_held(stuck, leave):
    site, end = stuck
    for _ in range(2):
        begin_and_leave(site, leave, body=BODY)
    wait_for(lambda: 2 * len(BODY) <= stat(site, "held_bytes") < 3 * len(BODY), "two requests are held")
    end()
    wait_for(lambda: stat(site, "held_bytes") == 0, "nothing is held any more")


def test_requests_that_have_arrived_are_not_held(make_site, leave):
    site = make_site()
    key = new_key()
    with site.running_alone("/up/", key, leave, body=BODY):
        wait_for(lambda: stat(site, "held_bytes") == 0, "the upstream has the request")
    site.wait_for_state(key, "completed")


# --- Descriptors


def descriptors(site: Site) -> set[int]:
    """Of Envoy, when it has closed those of connections that are over."""
    folder = f"/proc/{site.envoy.process.pid}/fd"
    seen: list[set[int]] = []

    def unchanged() -> bool:
        seen.append(set(map(int, os.listdir(folder))))
        return len(seen) > 10 and all(earlier == seen[-1] for earlier in seen[-10:])

    wait_for(unchanged, "the descriptors stay the same")
    return seen[-1]


@contextlib.contextmanager
def descriptors_left(site: Site, count: int) -> Iterator[None]:
    """Envoy can open so many more."""
    pid = site.envoy.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = descriptors(site)
    # The kernel gives the lowest free number, and none from the limit on.
    free = (number for number in itertools.count() if number not in used)
    limit = next(itertools.islice(free, count, None))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("count", [0, 1], ids=["none to connect", "none to accept"])
def test_without_descriptors_nothing_runs_and_nothing_is_lost(make_site, leave, count):
    site = make_site(listener={"accept_timeout": "1s"}, workers=1)
    alone, key = new_key(), new_key()
    # Afterwards there are two connections to the upstream, which need no descriptors any more.
    with site.running("/up/", new_key()), site.running("/up/", new_key()):
        pass
    with site.connect(http2=True) as connection:
        assert finish(connection, site.begin(connection, "/up/", new_key())).status == 200
        with site.running_alone("/up/", alone, leave) as let_go, descriptors_left(site, count):
            refused = finish(connection, site.begin(connection, "/up/", key))
            assert answer_of(refused) == UNAVAILABLE
            let_go()
            # Also now.
            site.wait_for_state(alone, "completed")
        assert site.upstream.log(key=key) == []
        assert finish(connection, site.begin(connection, "/up/", key)).status == 200
    assert site.send("/up/", alone).header("idempotent-replayed") == "true"
    assert len(site.executions(alone)) == len(site.executions(key)) == 1


def test_a_run_needs_two_descriptors(make_site):
    """As docs/detached.md says, besides those of its client and its upstream."""
    site = make_site(workers=1)
    with site.connect(http2=True) as connection:
        assert finish(connection, site.begin(connection, "/up/", new_key())).status == 200
        site.wait_until_idle()
        with descriptors_left(site, 2):
            assert finish(connection, site.begin(connection, "/up/", new_key())).status == 200
