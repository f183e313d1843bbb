"""One story of a detached run: two access logs, spans and counters, and each thing told once."""

import json

import pytest
from harness.collector import Collector
from harness.config import EnvoyConfig
from harness.paths import ENVOY_VERSIONS
from harness.site import Site, new_key
from harness.wait import wait_for

FORMAT = {
    "listener": "",
    "id": "%REQ(X-REQUEST-ID)%",
    "status": "%RESPONSE_CODE%",
    **{
        name: f"%DYNAMIC_METADATA(envoy-idempotency:{name})%"
        for name in ("outcome", "key_hash", "tenant", "attempt")
    },
}
SAME = ("id", "key_hash", "tenant", "attempt")


@pytest.fixture(scope="module", params=ENVOY_VERSIONS)
def site(request, session_workspace):
    def change(config: EnvoyConfig) -> None:
        config.private_listener(session_workspace.new_folder("runs") / "runs.sock")
        (log,) = config.managers[0]["access_log"]
        for name, manager in zip(("clients", "runs"), config.all_managers, strict=True):
            form = {"log_format": {"json_format": {**FORMAT, "listener": name}}}
            manager["access_log"] = [{**log, "typed_config": {**log["typed_config"], **form}}]

    routes = {"up": {"detached": {}}, "small": {"detached": {}, "max_response_bytes": 100}}
    # Envoy writes access logs every ten seconds by default.
    flush = ("--file-flush-interval-msec", "50")
    made = Site(session_workspace, routes, change=change, version=request.param, arguments=flush)
    yield made
    made.close()


def logged(site: Site, request_id: str) -> dict[str, list[dict]]:
    """What each listener says of a request."""
    lines = [json.loads(line) for line in site.envoy.process.output().splitlines() if line.startswith("{")]
    return {
        name: [line for line in lines if (line["id"], line["listener"]) == (request_id, name)]
        for name in ("clients", "runs")
    }


def both(site: Site, key: str) -> tuple[dict, dict]:
    """The only line of each listener, which agree on which request it was."""
    (received,) = site.upstream.log("received", key=key)
    fields = dict(received["headers"])
    request_id = fields["x-request-id"]
    found = wait_for(
        lambda: found if all((found := logged(site, request_id)).values()) else None,
        lambda: f"both listeners log {request_id}: {site.envoy.process.tail()}",
    )
    (clients,), (runs,) = found["clients"], found["runs"]
    assert [clients[name] for name in SAME] == [runs[name] for name in SAME]
    assert clients["attempt"] == fields["idempotency-attempt"] == str(site.record(key)["attempt"])
    assert clients["key_hash"]
    return clients, runs


OUTCOMES = {
    "stored": ("/up/", {"status": 201}),
    # Chunked: the client waits for the end.
    "tombstone": ("/small/", {"body_size": 5000, "framing": "chunked"}),
    "a streamed tombstone": ("/small/", {"body_size": 3_000_000, "framing": "chunked"}),
    "failed_retryable": ("/up/", {"status": 503}),
    "unknown": ("/up/", {"fault": "close_after_read"}),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_both_logs_agree(site, case):
    path, behaviour = OUTCOMES[case]
    key = new_key()
    site.send(path, key, **behaviour)
    clients, runs = both(site, key)
    assert (clients["outcome"], runs["outcome"]) == (case.split()[-1],) * 2
    assert clients["status"] == behaviour.get("status", 503 if case == "unknown" else 200)


def test_a_client_that_left_is_logged_as_such(site, leave):
    key = new_key()
    counts = {"covered": 1, "claim__created": 1, "detached__runs": 1, "detached__finished_alone": 1}
    run = site.running_alone("/up/", key, leave, status=201)
    with site.counts(**counts, ended__completed=1, cut_short=1), run as let_go:
        let_go()
        site.wait_for_state(key, "completed")
    clients, runs = both(site, key)
    assert (clients["outcome"], runs["outcome"]) == ("detached", "stored")
    assert runs["status"] == 201


def test_a_client_that_left_in_the_midst_of_the_response(site, leave):
    key = new_key()
    with site.running_alone("/small/", key, leave, at="hold_mid_body", body_size=100_000) as let_go:
        let_go()
        site.wait_for_state(key, "completed")
    clients, runs = both(site, key)
    assert (clients["outcome"], runs["outcome"]) == ("detached", "tombstone")


def test_every_run_ends_in_one_way(site, leave):
    """Handed over, finished alone or lost; its outcome is counted once."""
    kept, left = new_key(), new_key()
    ways = {"detached__handed_over": 1, "detached__finished_alone": 1, "detached__lost": 1, "cut_short": 1}
    endings = {"ended__completed": 2, "ended__unknown": 1}
    with site.counts(covered=3, claim__created=3, detached__runs=3, detached_lost=1, **ways, **endings):
        assert site.send("/up/", kept).status == 200
        with site.running_alone("/up/", left, leave) as let_go:
            let_go()
            site.wait_for_state(left, "completed")
        assert site.send("/up/", new_key(), fault="close_mid_body", body_size=1000).status == 502


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def make_traced(workspace, collector):
    """A site with a detached route; `of` says which connection managers trace."""
    made: list[Site] = []

    def make(version: str, tracer: str, of: str = "both", **options) -> Site:
        def change(config: EnvoyConfig) -> None:
            config.private_listener(workspace.new_folder("runs") / "runs.sock")
            managers = config.all_managers if of == "both" else config.managers[:1]
            collector.trace(config, *managers, tracer=tracer, **options)

        made.append(Site(workspace, {"up": {"detached": {}}}, change=change, version=version))
        return made[-1]

    yield make
    for site in made:
        site.close()


def run_traced(site: Site, **headers) -> dict[str, str]:
    """The fields that the upstream gets."""
    key = new_key()
    assert site.send("/up/", key, headers=headers).status == 200
    (received,) = site.upstream.log("received", key=key)
    return dict(received["headers"])


def wait_for_spans(collector: Collector, count: int) -> list[dict]:
    wait_for(lambda: len(collector.spans) == count, lambda: f"{count} spans: {collector.spans}", 30)
    return collector.spans


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
W3C = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
B3 = {"x-b3-traceid": "463ac35c9f6413ad", "x-b3-spanid": "a2fb4a1d1a96d312", "x-b3-sampled": "1"}
SENT = [("opentelemetry", {}), ("opentelemetry", W3C), ("zipkin", {}), ("zipkin", B3)]


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
@pytest.mark.parametrize(("tracer", "sent"), SENT)
def test_spans_tell_the_same_story(make_traced, collector, version, tracer, sent):
    """In one trace, that of the client if it began one, and the upstream is in it."""
    fields = run_traced(make_traced(version, tracer), **sent)
    spans = wait_for_spans(collector, 2)
    for span in spans:
        assert span["tags"]["guid:x-request-id"] == fields["x-request-id"]
        assert span["tags"]["idempotency.attempt"] == fields["idempotency-attempt"]
        assert span["tags"]["idempotency.outcome"] == "stored"
    (trace,) = {span["traceId"] for span in spans}
    if tracer == "zipkin":
        # Its two ends of a call share one span.
        assert trace == fields["x-b3-traceid"] == sent.get("x-b3-traceid", trace)
        assert {span["id"] for span in spans} == {fields["x-b3-spanid"]}
        assert fields["x-b3-sampled"] == "1"
        return
    assert trace == (TRACE if sent else trace)
    (clients,) = [span for span in spans if span.get("parentId") == (PARENT if sent else None)]
    (runs,) = [span for span in spans if span.get("parentId") == clients["id"]]
    assert fields["traceparent"] == f"00-{trace}-{runs['id']}-01"
    assert fields["tracestate"] == sent.get("tracestate", "")


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
@pytest.mark.parametrize(("tracer", "sent"), SENT)
def test_upstream_is_in_the_trace_of_the_clients_listener_alone(
    make_traced, collector, version, tracer, sent
):
    fields = run_traced(make_traced(version, tracer, "clients"), **sent)
    (span,) = wait_for_spans(collector, 1)
    if tracer == "zipkin":
        ids = {"x-b3-traceid": span["traceId"], "x-b3-spanid": span["id"], "x-b3-sampled": "1"}
        assert {name: fields[name] for name in ids} == ids
    else:
        assert fields["traceparent"] == f"00-{span['traceId']}-{span['id']}-01"
        assert fields.get("tracestate") == sent.get("tracestate")


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
@pytest.mark.parametrize("of", ["both", "clients"])
@pytest.mark.parametrize(
    ("tracer", "sampled", "sent"),
    [
        ("opentelemetry", 0, {}),
        ("opentelemetry", 0, W3C),
        ("opentelemetry", 100, {"traceparent": f"00-{TRACE}-{PARENT}-00"}),
        ("zipkin", 0, {}),
        ("zipkin", 100, {**B3, "x-b3-sampled": "0"}),
        ("zipkin", 100, {"x-b3-sampled": "0"}),
    ],
)
def test_unsampled_trace_stays_unsampled(make_traced, version, of, tracer, sampled, sent):
    """What the upstream gets is what the last span knows."""
    fields = run_traced(make_traced(version, tracer, of, sampled=sampled), **sent)
    if tracer == "zipkin":
        assert fields["x-b3-sampled"] == "0"
    else:
        assert fields["traceparent"].endswith("-00")


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_context_of_the_client_passes_without_tracing(workspace, version):
    path = workspace.new_folder("runs") / "runs.sock"
    routes = {"up": {"detached": {}}}
    site = Site(workspace, routes, change=lambda config: config.private_listener(path), version=version)
    fields = run_traced(site, **W3C, **B3)
    assert {name: fields[name] for name in W3C | B3} == W3C | B3
    site.close()
