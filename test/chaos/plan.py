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
# How the service chooses: most requests succeed at once, and every row of the outcome table comes up.
STATUSES = [200, 201, 402, 404, 503, 429, 403, 500, 502, 504]
STATUS_WEIGHTS = [60, 24, 3, 2, 3, 2, 3, 1, 1, 1]
# (least, most) seconds.
WORK = [(0.001, 0.02), (0.05, 0.2), (0.5, 1.5)]
WORK_WEIGHTS = [85, 13, 2]
SIZES = [(0, 300), (2_000, 8_000), (20_000, 60_000)]
SIZE_WEIGHTS = [85, 12, 3]
TENANT = "x-tenant"
HOST, OTHER_HOST = "chaos", "other.chaos"
# How many requests one Envoy may hold.
IN_FLIGHT = 192

# The reconciler: seconds between questions, and for an answer.
ASK, ASK_MOST, ASK_TIMEOUT = 1, 2, 1
OUTCOME = "/outcome"  # The path that is asked.
# How often it may be told "not here yet", where the service does not refuse an attempt at once.
ABSENCES = 2
# What the product adds, and no setting changes: a process begins to lead so long after its start; a store
# that failed is left alone; what an Envoy asks about that is gone is held back; how often it looks for more.
_LEAD, _STORE_PAUSE, _HOLD, _LOOK = 5 + 1.5, 5, ASK_TIMEOUT + 1 + 5, 1
# After the last fault: a lease ends, is swept, an Envoy leads, has its store, waits for what another one has
# taken, and asks until it is told.
SETTLED_WITHIN = LEASE + SWEEP + _LEAD + _STORE_PAUSE + _HOLD + (1 + ABSENCES) * (ASK_MOST + _LOOK) + SLACK


@dataclasses.dataclass(frozen=True)
class Route:
    operation: str
    policy: str  # What becomes of an unknown outcome: "mark", "retry", or "own".
    ttl: int = DAY
    timeout: float = 4 * LEASE
    more: dict = dataclasses.field(default_factory=dict)  # Of the policy.
    cluster: str = "upstream"
    action: dict = dataclasses.field(default_factory=dict)  # Of Envoy's RouteAction.
    resends: bool = False  # A proxy on the way sends one request more than once by itself.
    detached: bool = False  # It runs on when its client leaves, and half of the clients do.
    # The reconciler asks about it; so often the service says first that it does not know the attempt.
    absences: int | None = None
    aimed: bool = False  # For aimed scenarios alone.
    # The service settles it in its own transactions (own_work.py); only with PostgreSQL. An outcome that is
    # not known lets the next request run.
    own: bool = False

    def config(self) -> dict:
        return {
            "enforcement": "REQUIRED",
            "operation": self.operation,
            "lease": f"{LEASE}s",
            "ttl": f"{self.ttl}s",
            "completion_timeout": f"{COMPLETION}s",
            # Longer than the route's: that one ends the run.
            **({"detached": {"timeout": f"{4 * self.timeout}s"}} if self.detached else {}),
            **({"own_transaction": True, "on_lease_expired": "RETRY"} if self.own else {}),
            **self.more,
        }

    def reconcile(self) -> dict:
        about = "operation={operation}&tenant={tenant}&key={key}&attempt={attempt}"
        return {
            "operations": [self.operation],
            "cluster": "outcome",
            "path": f"{OUTCOME}?{about}&by=reconciler&absences={self.absences}",
            "timeout": f"{ASK_TIMEOUT}s",
            "interval": f"{ASK}s",
            "max_interval": f"{ASK_MOST}s",
            # No fault lasts so long: what is not settled is an error, and no dead letter.
            "max_tries": 1000,
            "max_parallel": 32,
            "response": {part + "_pointer": "/" + part for part in ("status", "headers", "body")},
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
        # The reconciler asks what became of it. An attempt that the service does not know is refused from
        # then on, at once or after it has said a few times that it does not know it.
        Route("asked", "mark", timeout=0.4, absences=0),
        Route("doubted", "mark", timeout=0.8, absences=ABSENCES),
        # Operators alone settle it.
        Route("manual", "mark", timeout=2.0, aimed=True),
        # The service's own transactions; one is too slow for its route, one is sent twice by Envoy.
        Route("own", "own", own=True),
        Route("own_hasty", "own", own=True, timeout=0.4),
        Route("own_again", "own", own=True, action={"retry_policy": _RETRY}, resends=True),
        Route("own_detached", "own", own=True, detached=True),
    )
}
RECONCILED = [route.operation for route in ROUTES.values() if route.absences is not None]
OWN = [route.operation for route in ROUTES.values() if route.own]
# What operators and the reconciler change: the service keeps the attempts, and the audit is read in the end.
AUDITED = [*RECONCILED, "manual"]
# Where a redirected request may be sent: the service, or nobody.
HOPS = {"/hop/next": "upstream", "/hop/refused": "closed", "/detached_hop/next": "upstream"}


def routes(store: str) -> list[Route]:
    """Those that this store has."""
    return [route for route in ROUTES.values() if store == "postgres" or not route.own]


def filter_fields() -> dict:
    return {
        "tenant": {"sources": [{"header": TENANT}]},
        "maintenance": {"sweep_interval": f"{SWEEP}s", "reap_interval": f"{SWEEP}s"},
        "replay_cache": {"max_age": f"{CACHE_AGE}s"},
        "limits": {"in_flight": IN_FLIGHT},
        "reconcile": [ROUTES[operation].reconcile() for operation in RECONCILED],
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
        "own": OWN,
        # Nothing is ever unknown of the service's own transactions, so no unknown outcome needs a reason.
        "detached": [route.operation for route in ROUTES.values() if route.detached and not route.own],
        "reconciled": RECONCILED,
        "settled_within": SETTLED_WITHIN,
        "audited": AUDITED,
    }


def chance(seed: int, *names: object) -> random.Random:
    """A source of its own for each part: what one does leaves the others' choices as they were."""
    return random.Random(" ".join(map(str, (seed, *names))))
