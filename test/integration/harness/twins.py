"""Two exchanges that must look the same, less what differs between any two: times, keys, numbers."""

from .upstream import Upstream
from .wire import WireResponse

Pairs = list[tuple[str, str]]

# Of responses; the upstream numbers its executions.
_OWN_OF_RESPONSES = {"date", "x-envoy-upstream-service-time", "x-execution", "idempotency-key-expires"}
_OWN_OF_REQUESTS = {"idempotency-key", "idempotency-attempt", "x-request-id"}


def answer(response: WireResponse, given: Pairs = ()) -> tuple:
    """What a client gets. `given`: headers with values that the test has chosen for both."""
    headers = _masked(response.headers, _OWN_OF_RESPONSES, given)
    return response.status, response.interim, headers, response.body, response.trailers, response.complete


def request(upstream: Upstream, key: str, prefix: str, given: Pairs = ()) -> dict:
    """What the upstream got, on the route with that prefix. `given`: as above."""
    (received,) = upstream.log("received", key=key)
    (executed,) = upstream.executions(key=key)
    headers = _masked([tuple(pair) for pair in received["headers"]], _OWN_OF_REQUESTS, given)
    return {
        "headers": [(name, value.replace(prefix, "/*/")) for name, value in headers],
        "path": received["path"].replace(prefix, "/*/"),
        **{name: received[name] for name in ("method", "protocol", "authority", "scheme")},
        **{name: executed[name] for name in ("request_size", "request_sha256", "request_trailers")},
    }


def _masked(headers: Pairs, own: set[str], given: Pairs) -> Pairs:
    """By name, since the order of different names means nothing; that of equal ones does."""
    masked = [pair if pair[0] not in own or pair in given else (pair[0], "*") for pair in headers]
    return sorted(masked, key=lambda pair: pair[0])
