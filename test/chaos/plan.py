"""The routes, their policies and all times of a run."""

import dataclasses
import random

# Seconds. As short as the product allows, with some room: every lease, sweep and expiry falls into a run.
LEASE = 2
SWEEP = 1
CACHE_AGE = 1
BRIEF = 4
DAY = 86400
COMPLETION = 1
STORE_TIMEOUT = 1
# What a busy machine may add to each of them.
SLACK = 15.0

# What the service itself may say so that the next request runs, and what leaves open whether anything ran.
RETRYABLE = (425, 429, 500, 503)
RELEASED = (401, 403, 407)
DOUBTFUL = (408, *(status for status in range(501, 600) if status != 503))
TENANT = "x-tenant"
HOST, OTHER_HOST = "chaos", "other.chaos"
# How many requests one Envoy may hold.
IN_FLIGHT = 192


@dataclasses.dataclass(frozen=True)
class Route:
    operation: str
    policy: str  # What becomes of an unknown outcome: "mark" or "retry".
    ttl: int = DAY
    timeout: float = 4 * LEASE
    more: dict = dataclasses.field(default_factory=dict)  # Of the policy.
    cluster: str = "upstream"
    action: dict = dataclasses.field(default_factory=dict)  # Of Envoy's RouteAction.
    resends: bool = False  # A proxy on the way sends one request more than once by itself.
    detached: bool = False  # It runs on when its client leaves, and half of the clients do.
    aimed: bool = False  # For aimed scenarios alone.

    def config(self) -> dict:
        return {
            "enforcement": "REQUIRED",
            "operation": self.operation,
            "lease": f"{LEASE}s",
            "ttl": f"{self.ttl}s",
            "completion_timeout": f"{COMPLETION}s",
            # Longer than the route's: that one ends the run.
            **({"detached": {"timeout": f"{4 * self.timeout}s"}} if self.detached else {}),
            **self.more,
        }


_FOLLOW = {"redirect_response_codes": [307]}
_RETRY = {"retry_on": "5xx,reset", "num_retries": 1, "per_try_timeout": "0.4s"}

ROUTES = {
    route.operation: route
    for route in (
        Route("mark", "mark"),
        Route("wait", "mark", more={"in_flight": {"action": "WAIT", "wait": "0.5s"}}),
        Route("hasty", "mark", timeout=0.4),
        Route("retry", "retry", more={"on_lease_expired": "RETRY"}),
        Route("brief", "mark", ttl=BRIEF),
        Route("fleeting", "mark", ttl=BRIEF, timeout=0.4),
        # By way of another Envoy, which may answer in the service's place; the second one adds Proxy-Status.
        Route("mesh", "mark", cluster="sidecar"),
        Route("told", "mark", cluster="telling_sidecar"),
        Route("pushy", "mark", cluster="sidecar", resends=True, aimed=True),
        Route("told_pushy", "mark", cluster="telling_sidecar", resends=True, aimed=True),
        # The service may send the request on to <its path>/next.
        Route("hop", "mark", action={"internal_redirect_policy": _FOLLOW}),
        Route("again", "mark", action={"retry_policy": _RETRY}, resends=True),
        Route("queue", "mark", more={"in_flight": {"action": "WAIT", "wait": "2s"}}, aimed=True),
        Route("detached", "mark", detached=True),
        Route("detached_wait", "mark", detached=True, more={"in_flight": {"action": "WAIT", "wait": "0.5s"}}),
        Route("detached_hop", "mark", detached=True, action={"internal_redirect_policy": _FOLLOW}),
    )
}
# Where a redirected request may be sent: the service, or nobody.
HOPS = {"/hop/next": "upstream", "/hop/refused": "closed", "/detached_hop/next": "upstream"}


def filter_fields() -> dict:
    return {
        "tenant": {"sources": [{"header": TENANT}]},
        "maintenance": {"sweep_interval": f"{SWEEP}s", "reap_interval": f"{SWEEP}s"},
        "replay_cache": {"max_age": f"{CACHE_AGE}s"},
        "limits": {"in_flight": IN_FLIGHT},
    }


def settings() -> dict:
    return {
        "lease": LEASE,
        "sweep": SWEEP,
        "cache_age": CACHE_AGE,
        "slack": SLACK,
        "ttl": {route.operation: route.ttl for route in ROUTES.values()},
        "policies": {route.operation: route.policy for route in ROUTES.values()},
        "retryable": list(RETRYABLE),
        "released": list(RELEASED),
        "doubtful": list(DOUBTFUL),
        "resends": [route.operation for route in ROUTES.values() if route.resends],
        "detached": [route.operation for route in ROUTES.values() if route.detached],
    }


def chance(seed: int, *names: object) -> random.Random:
    """A source of its own for each part: what one does leaves the others' choices as they were."""
    return random.Random(" ".join(map(str, (seed, *names))))
