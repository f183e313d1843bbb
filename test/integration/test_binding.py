"""Every call and hook of source/envoy inside every supported Envoy, by the probe module (probe/probe.cc).

A prototype that differs from Envoy's shows here as wrong values or a crash.
"""

import json

import pytest
from harness.clients import post
from harness.collector import Collector
from harness.paths import ENVOY_VERSIONS
from harness.probe import PROBE_ENV, probe_config
from harness.upstream import behave
from harness.wait import wait_for
from harness.wire import Http1Connection, Http2Connection


@pytest.fixture(params=ENVOY_VERSIONS)
def server(request, envoy, config):
    started = envoy(probe_config(config), request.param, env=PROBE_ENV)
    yield started
    # Whatever a test did to it, it still ends in order.
    assert started.stop() == 0


def probe(server, what, body=b"", headers=None, path="/payments"):
    return post(server.url + path, content=body, headers={"x-probe": what, **(headers or {})})


def wait_for_log(server, text):
    wait_for(lambda: text in server.process.output(), lambda: f"{text!r} in:\n{server.process.tail()}")


def test_facts_of_a_request(server):
    headers = [("x-probe", "facts"), ("x-twice", "one"), ("x-twice", "two")]
    with Http1Connection(server.port) as connection:
        response = connection.request("POST", "/payments/7?a=1&b=2", headers, b"{}")
    assert response.status == 299
    assert response.header("content-type") == "text/x-probe"
    assert response.header("x-empty") == ""
    is_140 = server.version.startswith("1.40")
    assert response.body.decode().splitlines() == [
        "method 'POST'",
        "twice 2 'one' 'two' none",
        "absent 0 none",
        "all x-twice=one x-twice=two",
        "empty add false set false",
        "response map false",
        "path '/payments/7?a=1&b=2'",
        "url path '/payments/7'",
        "query 'a=1&b=2'",
        "host 'test'",
        "scheme 'http'",
        "attribute method 'POST'",
        "protocol 'HTTP/1.1'",
        "request id 36",
        "source true",
        "connection true",
        "mtls known false",
        "mtls false",
        "peer none",
        "peer dns none",
        "peer subject none",
        "peer digest 0",
        "route name 'payments'",
        "attempts 0",
        "wrong kind false",
        "cluster 'upstream'",
        "worker true",
        "route a route",
        "config a config",
        "metadata 'value' 2.5 true none",
        "entries '1' '2'",
        "route metadata 'by the route'",
        "state before none",
        "state set true",
        "state after 'kept'",
        "span none",
        "limit true true",
        "late metric false",
        "secret false",
        "log false true",
    ]
    wait_for_log(server, "probe: a line for the log")
    wait_for_log(server, "probe: local reply 299 probe_facts")
    wait_for_log(server, "probe: complete facts probe_facts")
    wait_for_log(server, "PROBE probe_facts")
    (logged,) = [line for line in server.process.output().splitlines() if "PROBE probe_facts" in line]
    assert json.loads(logged.partition(" PROBE")[0]) == {
        "text": "value",
        "one": "1",
        "two": "2",
        "number": 2.5,
        "flag": True,
    }
    assert "probe: validation false concurrency 2" in server.process.output()
    assert f"envoy 1.40 {str(is_140).lower()}" in server.process.output()


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
@pytest.mark.parametrize("tracer", ["opentelemetry", "zipkin"])
def test_span_of_a_request(envoy, config, collector, version, tracer):
    """Zipkin's span does not tell its own id, but where the trace begins it is the same."""
    probed = probe_config(config)
    collector.trace(probed, *probed.managers, tracer=tracer)
    server = envoy(probed, version, env=PROBE_ENV)
    (line,) = [line for line in probe(server, "facts").text.splitlines() if line.startswith("span ")]
    (span,) = wait_for(lambda: collector.spans, lambda: "a span", 30)
    assert span["tags"]["probe"] == "tag"
    assert "parentId" not in span
    if tracer == "opentelemetry":
        assert line == f"span {span['traceId']} {span['id']}"
    else:
        assert line.rstrip() == f"span {span['traceId']}"
        assert span["traceId"] == span["id"]
    assert server.stop() == 0


def test_a_route_without_config_has_none(server):
    assert "route none" in probe(server, "facts", path="/other").text.splitlines()


@pytest.mark.parametrize(("what", "status"), [("held", 200), ("held-reply", 299)])
@pytest.mark.parametrize("body", [b"", b"x" * 100_000], ids=["empty", "body"])
def test_a_held_request_continues_when_another_thread_says_so(server, upstream, what, status, body):
    for _ in range(20):
        response = probe(server, what, body)
        assert response.status_code == status
    executions = upstream.executions()
    assert len(executions) == (20 if what == "held" else 0)
    assert all(entry["request_size"] == len(body) for entry in executions)


def test_a_task_of_the_config_runs_on_the_main_thread(server, upstream):
    assert probe(server, "config-mail").status_code == 200
    assert server.stat("probe.counter") == 100


@pytest.mark.parametrize("size", [1, 20_000, 300_000])
def test_the_whole_body_is_seen(server, upstream, size):
    response = probe(server, "whole", b"a" * size)
    assert response.text == f"size {size} body {'a' * size}\n"
    assert upstream.executions() == []


def test_the_whole_body_is_seen_before_trailers(server):
    with Http2Connection(server.port) as connection:
        response = connection.request(
            "POST", "/payments", {"x-probe": "whole"}, b"abc", trailers=[("x-trailer", "t")]
        )
    assert response.body == b"trailer 't'\nsize 3 body abc\n"


def test_request_headers_and_body_are_changed(server, upstream):
    headers = [("x-probe", "edit"), ("x-set", "old"), ("x-removed", "here"), ("transfer-encoding", "chunked")]
    with Http1Connection(server.port) as connection:
        connection.start("POST", "/payments", headers)
        connection.send(b"3\r\nabc\r\n0\r\n\r\n")
        assert connection.read_response().status == 200
    (entry,) = upstream.executions()
    assert entry["request_size"] == 4
    (received,) = upstream.log("received")
    seen = [pair for pair in received["headers"] if pair[0] in ("x-added", "x-set", "x-removed")]
    assert sorted(seen) == [["x-added", "1"], ["x-added", "2"], ["x-set", "new"]]


def test_response_is_seen_and_changed(server):
    response = probe(server, "edit-response", b"{}", headers=behave(body="hello"))
    assert response.text == "hello +5"
    assert response.headers["x-details"] == "via_upstream"
    assert response.headers["x-flags"] == "0"
    assert response.headers["x-attempts"] == "1"


def test_response_trailers_are_changed(server):
    with Http2Connection(server.port) as connection:
        script = behave(body="hello", trailers=[["x-own", "1"]])
        response = connection.request("POST", "/h2", {"x-probe": "none", **script})
    assert response.body == b"hello"
    assert response.trailers == [("x-own", "1"), ("x-seen", "yes")]


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_a_reply_in_pieces(server, http2, upstream):
    kind = Http2Connection if http2 else Http1Connection
    with kind(server.port) as connection:
        response = connection.request("POST", "/payments", {"x-probe": "streamed"})
    assert response.status == 201
    assert response.all("x-two") == ["a", "b"]
    assert response.body == b"one two"
    assert response.trailers == [("x-trailer", "t")]
    assert upstream.executions() == []


def test_a_stream_is_reset(server, upstream):
    with Http2Connection(server.port) as connection:
        response = connection.request("POST", "/payments", {"x-probe": "reset"})
    assert not response.complete
    wait_for_log(server, "probe: complete reset")
    assert upstream.executions() == []


def test_metrics_count(server):
    for what in ("metrics", "metrics"):
        assert probe(server, what).status_code == 200
    assert server.stat("probe.counter") == 6
    assert server.stat("probe.labelled.first.x.second.y") == 4
    assert server.stat("probe.gauge") == 10
    assert probe(server, "gauge").status_code == 200
    assert server.stat("probe.gauge") == 40
    assert 'envoy_probe_labelled{first="x",second="y"} 4' in server.admin("/stats/prometheus")
    # Histograms show after Envoy's next flush.
    wait_for(
        lambda: "envoy_probe_histogram_count{} 2" in server.admin("/stats/prometheus"),
        "histogram",
        deadline=15,
    )


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("callout", ["start 0", "nowhere 2", "bare 1", "result 0", "status 200", "body side answer"]),
        (
            "side-stream",
            ["start 0", "sent true", "trailers true", "status 200", "data side answer", "complete"],
        ),
        ("side-reset", ["start 0", "reset 2", "sent false"]),
        ("config-callout", ["result 0 status 200 body side answer"]),
        ("config-stream", ["headers side answer complete"]),
    ],
)
def test_side_requests(server, upstream, what, lines):
    upstream.script({"body": "side answer"}, path="/side", repeat=True)
    response = probe(server, what)
    assert response.status_code == 299
    assert response.text.splitlines() == lines
    if what != "side-reset":
        (entry,) = upstream.executions()
        size = {"callout": 6, "side-stream": 13, "config-callout": 6, "config-stream": 12}[what]
        assert (entry["path"], entry["request_size"]) == ("/side", size)


def test_a_callout_to_a_dead_cluster_answers_too(server):
    lines = probe(server, "callout-fails").text.splitlines()
    assert lines[:3] == ["start 0", "result 0", "status 503"]


REFUSING = ["request-headers", "request-body", "scheduled", "response-headers", "response-body-held"]


@pytest.mark.parametrize("hook", REFUSING)
def test_a_hook_that_throws_fails_its_request_closed(server, upstream, hook):
    response = probe(server, f"throw-{hook}", b"body", headers=behave(body="secret"))
    assert response.status_code == 500
    assert response.text == "idempotency: internal error\n"
    assert server.stat("probe.hook_exception") == 1
    wait_for_log(server, f"probe: {hook}")
    if not hook.startswith("response"):
        assert upstream.executions() == []
    # Others are served.
    assert probe(server, "none").status_code == 200


def test_a_throw_after_the_answer_began_cuts_it(server):
    with Http1Connection(server.port) as connection:
        script = behave(body_size=100_000)
        response = connection.request("POST", "/payments", {"x-probe": "throw-response-body", **script}, b"x")
    assert response.status == 500 or not response.complete
    assert server.stat("probe.hook_exception") == 1
    assert probe(server, "none").status_code == 200


def test_a_throw_in_request_trailers_refuses(server, upstream):
    with Http2Connection(server.port) as connection:
        response = connection.request(
            "POST", "/payments", {"x-probe": "throw-request-trailers"}, b"abc", trailers=[("x", "1")]
        )
    assert response.status == 500
    assert upstream.executions() == []


@pytest.mark.parametrize("hook", ["local-reply", "stream-complete"])
def test_a_throw_where_nothing_can_be_answered_is_counted(server, hook):
    # /dead: Envoy answers itself.
    response = probe(server, f"throw-{hook}", path="/dead")
    assert response.status_code == 503
    server.wait_for_stat("probe.hook_exception", 1)
    assert probe(server, "none").status_code == 200


def test_a_throw_in_response_trailers_cuts_the_answer(server):
    with Http2Connection(server.port) as connection:
        script = behave(body="hello", trailers=[["x-own", "1"]])
        response = connection.request("POST", "/h2", {"x-probe": "throw-response-trailers", **script})
    assert not response.complete
    assert server.stat("probe.hook_exception") == 1


@pytest.mark.parametrize("where", ["filter", "route"])
def test_a_throw_while_a_config_is_made_rejects_it(envoy, config, where):
    probe_config(config)
    if where == "filter":
        typed = config.managers[0]["http_filters"][0]["typed_config"]
    else:
        (route,) = [route for route in config.routes if "typed_per_filter_config" in route]
        typed = route["typed_per_filter_config"]["idempotency"]
    typed["filter_config"]["value"] = "throw"
    with pytest.raises(AssertionError, match=r"exception in http_filter_(per_route_)?config_new: probe"):
        envoy(config, env=PROBE_ENV)
