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

RETRYABLE = (408, 425, 429, *range(500, 600))
RELEASED = (401, 403, 407)
TENANT = "x-tenant"


@dataclasses.dataclass(frozen=True)
class Route:
    operation: str
    policy: str  # What becomes of an unknown outcome: "mark" or "retry".
    ttl: int = DAY
    timeout: float = 4 * LEASE
    more: dict = dataclasses.field(default_factory=dict)  # Of the policy.

    def config(self) -> dict:
        return {
            "enforcement": "REQUIRED",
            "operation": self.operation,
            "lease": f"{LEASE}s",
            "ttl": f"{self.ttl}s",
            "completion_timeout": f"{COMPLETION}s",
            **self.more,
        }


ROUTES = {
    route.operation: route
    for route in (
        Route("mark", "mark"),
        Route("wait", "mark", more={"in_flight": {"action": "WAIT", "wait": "0.5s"}}),
        Route("hasty", "mark", timeout=0.4),
        Route("retry", "retry", more={"on_lease_expired": "RETRY"}),
        Route("brief", "mark", ttl=BRIEF),
    )
}


def filter_fields() -> dict:
    return {
        "tenant": {"sources": [{"header": TENANT}]},
        "maintenance": {"sweep_interval": f"{SWEEP}s", "reap_interval": f"{SWEEP}s"},
        "replay_cache": {"max_age": f"{CACHE_AGE}s"},
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
    }


def chance(seed: int, *names: object) -> random.Random:
    """A source of its own for each part: what one does leaves the others' choices as they were."""
    return random.Random(" ".join(map(str, (seed, *names))))
