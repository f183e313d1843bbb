"""A retry gets what the first request got, byte for byte, whatever happened in between."""

import dataclasses
import email.utils
import gzip
import time
import uuid

import pytest
from harness.clients import KeepAlive, Request
from harness.config import EnvoyConfig
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS
from harness.process import Workspace
from harness.records import Records
from harness.upstream import Upstream, behave
from harness.wait import wait_for
from harness.wire import WireResponse

MEBIBYTE = 1024 * 1024
REPLAYED = "idempotent-replayed"
EXPIRES = "idempotency-key-expires"
EXPOSED = "access-control-expose-headers"
NOT_STORED = [
    ("set-cookie", "session=secret; Secure"),
    ("set-cookie", "other=secret"),
    ("www-authenticate", "Bearer secret"),
    ("proxy-authenticate", "Basic realm=secret"),
    ("authentication-info", "nextnonce=secret"),
    ("keep-alive", "timeout=5"),
    ("idempotent-replayed", "forged"),
    ("idempotency-key-expires", "forged"),
    ("idempotency-stored", "forged"),
    ("idempotency-enforced", "forged"),
]


@dataclasses.dataclass(frozen=True)
class Case:
    behaviour: dict
    method: str = "POST"


CASES = {
    "json": Case({}),
    "binary": Case({"body_hex": bytes(range(256)).hex() + "00ff0d0a0d0a"}),
    "looks like a chunk": Case({"body": "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"}),
    "empty": Case({"body": ""}),
    "empty and chunked": Case({"body": "", "framing": "chunked"}),
    "chunked": Case({"body_size": 100_000, "framing": "chunked"}),
    "ends with the connection": Case({"body_size": 1000, "framing": "close"}),
    "trailers": Case({"body": "text", "trailers": [["x-sum", "1"], ["x-more", "2"], ["x-sum", "3"]]}),
    "trailers alone": Case({"body": "", "trailers": [["x-sum", "1"]]}),
    "one byte": Case({"body_size": 1}),
    "a frame and a byte": Case({"body_size": 16 * 1024 + 1}),
    "the largest that is stored": Case({"body_size": MEBIBYTE}),
    "the largest, chunked": Case({"body_size": MEBIBYTE, "framing": "chunked"}),
    "201 and a location": Case({"status": 201, "headers": [["location", "/payments/1"]], "body": ""}),
    "202": Case({"status": 202}),
    "204": Case({"status": 204}),
    "205": Case({"status": 205, "body": ""}),
    "303": Case({"status": 303, "headers": [["location", "/elsewhere"]]}),
    "400": Case({"status": 400}),
    "402, a declined payment": Case({"status": 402, "body": '{"declined":true}'}),
    "404": Case({"status": 404}),
    "409 of the upstream": Case({"status": 409}),
    "422": Case({"status": 422, "headers": [["content-type", "application/problem+json"]]}),
    "a status without a name": Case({"status": 299}),
    "headers in order": Case(
        {
            "headers": [
                ["x-b", "1"],
                ["etag", '"abc"'],
                ["x-a", "2"],
                ["x-b", "3"],
                ["x-empty", ""],
                ["x-latin", "caf\u00e9"],
                ["vary", "accept"],
                ["cache-control", "no-store"],
                ["vary", "origin"],
                ["x-b", "4, 5"],
            ]
        }
    ),
    "a date of then": Case({"headers": [["date", "Tue, 15 Nov 1994 08:12:31 GMT"]]}),
    "head": Case({"body_size": 100}, method="HEAD"),
    "head with 404": Case({"status": 404, "body_size": 100}, method="HEAD"),
}


@dataclasses.dataclass
class Pair:
    """An Envoy and its upstream, used by many tests."""

    envoy: Envoy
    upstream: Upstream
    cached: bool

    def send(self, case: Case, key: str, http2: bool = False) -> WireResponse:
        headers = behave(**case.behaviour)
        body = b"" if case.method == "HEAD" else b"{}"
        return _send(self.envoy, Request.keyed("/any", key, headers, method=case.method, body=body), http2)

    def executions(self, key: str) -> int:
        return len(self.upstream.executions(key=key))


def _send(server: Envoy, request: Request, http2: bool = False) -> WireResponse:
    connection = KeepAlive(server.port, http2)
    response = connection.send(request)
    connection.close()
    assert response.complete, response.error
    return response


def _new_key() -> str:
    return f'"{uuid.uuid4()}"'


def _config(upstream: Upstream, store: dict, http2: bool = False, **policy) -> EnvoyConfig:
    config = EnvoyConfig.quickstart().for_test(store).upstream(upstream.port, http2=http2)
    policy = {"enforcement": "REQUIRED", "methods": ["POST", "PATCH", "PUT", "HEAD"], **policy}
    return config.route("/any", policy)


# Every Envoy, and both kinds on the oldest and the newest.
KINDS = [(version, "cached") for version in ENVOY_VERSIONS] + [(ENVOY_VERSIONS[0], "uncached")]
KINDS += [(ENVOY_VERSIONS[-1], "uncached")]


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def pair(request, module_workspace: Workspace, shared_postgres) -> Pair:
    """Cached: HTTP/2 to the upstream, replays from memory. Else HTTP/1.1, and replays from PostgreSQL."""
    version, kind = request.param
    upstream = Upstream(module_workspace)
    if kind == "cached":
        store = {"sqlite": {"path": str(module_workspace.new_folder("sqlite") / "idempotency.db")}}
        config = _config(upstream, store, http2=True)
    else:
        store = Records(shared_postgres, shared_postgres.create_database()).store()
        config = _config(upstream, store).filter(replay_cache={"max_bytes": "0"})
    return Pair(Envoy(module_workspace, config, version), upstream, kind == "cached")


# What tells of the connection and of the Envoy that answers, or is checked by itself.
_APART = {"content-length", "transfer-encoding", "x-envoy-upstream-service-time", "server", EXPIRES, REPLAYED}


def _kept(response: WireResponse, less: set[str] = frozenset()) -> list[tuple[str, str]]:
    return [pair for pair in response.headers if pair[0] not in _APART | less]


def assert_replay_of(first: WireResponse, again: WireResponse) -> None:
    assert first.header(REPLAYED) is None
    assert again.header(REPLAYED) == "true"
    assert (again.status, again.body, again.trailers) == (first.status, first.body, first.trailers)
    assert again.header(EXPIRES) == first.header(EXPIRES)
    apart = {EXPOSED, *_dates(first)}
    assert _kept(again, apart) == _kept(first, apart)
    assert again.all(EXPOSED) == first.all(EXPOSED)
    if length := again.header("content-length"):
        assert int(length) == len(again.body)
        assert again.status not in (204, 304)


def _dates(first: WireResponse) -> set[str]:
    """Envoy adds the date of now where the upstream sent none: only then it may differ."""
    return set() if first.header("date") == "Tue, 15 Nov 1994 08:12:31 GMT" else {"date"}


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("name", CASES)
def test_a_replay_is_the_first_answer_byte_for_byte(pair, name, http2):
    case, key = CASES[name], _new_key()
    first = pair.send(case, key, http2)
    assert first.status == case.behaviour.get("status", 200)
    again = [pair.send(case, key, http2) for _ in range(2)]
    for replay in again:
        assert_replay_of(first, replay)
    # And over the other protocol, which has its own framing. HTTP/1 shows no trailers.
    other = pair.send(case, key, not http2)
    assert other.header(REPLAYED) == "true"
    assert (other.status, other.body) == (first.status, first.body)
    assert pair.executions(key) == 1


def test_trailers_do_reach_http2_clients(pair):
    response = pair.send(CASES["trailers"], _new_key(), http2=True)
    # Envoy drops those of HTTP/1 upstreams, unless told otherwise.
    expected = [("x-sum", "1"), ("x-more", "2"), ("x-sum", "3")]
    assert response.trailers == (expected if pair.cached else [])


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_a_connection_works_after_replays_of_every_kind(pair, http2):
    """A wrong length would shift the bytes of all that follow."""
    connection, key = KeepAlive(pair.envoy.port, http2), {name: _new_key() for name in CASES}
    for round_number in range(2):
        for name, case in CASES.items():
            body = b"" if case.method == "HEAD" else b"{}"
            headers = behave(**case.behaviour)
            request = Request.keyed("/any", key[name], headers, method=case.method, body=body)
            response = connection.send(request)
            assert response.complete, (name, response)
            assert response.status == case.behaviour.get("status", 200), (name, response)
            assert (response.header(REPLAYED) == "true") == (round_number == 1), name
    connection.close()


def test_secrets_and_hop_by_hop_headers_are_never_replayed(pair):
    key = _new_key()
    hops = [] if pair.cached else [["connection", "x-hop"], ["x-hop", "secret"]]  # HTTP/2 has none.
    case = Case({"headers": [*NOT_STORED, *hops, ["x-kept", "yes"]]})
    first = pair.send(case, key)
    assert first.all("set-cookie") == ["session=secret; Secure", "other=secret"]
    # Nobody may forge what the filter says.
    assert "forged" not in str(first.headers)
    again = pair.send(case, key)
    assert again.header("x-kept") == "yes"
    for name, _ in NOT_STORED:
        if name not in (REPLAYED, EXPIRES):
            assert again.all(name) == [], name
    assert "secret" not in str(again.headers)
    assert "forged" not in str(again.headers)


def test_secrets_are_not_even_stored(envoy, upstream, records):
    key = _new_key()
    server = envoy(_config(upstream, records.store(), unstored_headers=["x-mine"]))
    headers = [*NOT_STORED[:5], ["x-mine", "secret"], ["x-kept", "yes"]]
    _send(server, Request.keyed("/any", key, behave(headers=headers, body="text")))
    ((stored,),) = records.server.query("SELECT body FROM idempotency.response", database=records.database)
    assert b"x-kept" in bytes(stored)
    assert b"secret" not in bytes(stored)


def test_the_expiry_is_the_same_in_every_answer_and_lies_a_day_ahead(pair):
    key = _new_key()
    before = time.time()
    answers = [pair.send(CASES["json"], key).header(EXPIRES) for _ in range(3)]
    assert len(set(answers)) == 1
    expires = email.utils.parsedate_to_datetime(answers[0]).timestamp()
    # Whole seconds, and the store's clock is this machine's.
    assert before + 86400 - 2 <= expires <= time.time() + 86400 + 1


def test_a_replay_is_of_then_although_the_upstream_has_changed(pair):
    key = _new_key()
    first = _send(pair.envoy, Request.keyed("/any", key))
    pair.upstream.script({"status": 404, "body": "it was deleted"}, key=key, repeat=True)
    assert_replay_of(first, _send(pair.envoy, Request.keyed("/any", key)))
    pair.upstream.clear_scripts()
    assert pair.executions(key) == 1


# --- Other filters

CORS = {
    "name": "envoy.filters.http.cors",
    "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors"},
}
COMPRESSOR = {
    "name": "envoy.filters.http.compressor",
    "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.compressor.v3.Compressor",
        "compressor_library": {
            "name": "gzip",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.compression.gzip.compressor.v3.Gzip"
            },
        },
    },
}


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_cors_and_compression_before_ours_work_on_replays_too(envoy, upstream, records, version):
    config = _config(upstream, records.store()).before_ours(CORS).before_ours(COMPRESSOR)
    config.routes[0]["typed_per_filter_config"]["envoy.filters.http.cors"] = {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy",
        "allow_origin_string_match": [{"exact": "https://shop.example"}],
        "expose_headers": "x-execution",
    }
    server, key = envoy(config, version), _new_key()
    behaviour = behave(body_size=5000, headers=[["content-type", "text/plain"]])

    def send(**headers) -> WireResponse:
        return _send(server, Request.keyed("/any", key, {**behaviour, **headers}))

    zipped = {"accept-encoding": "gzip", "origin": "https://shop.example"}
    first, again, plain = send(**zipped), send(**zipped), send()
    for answer in (first, again):
        assert answer.header("content-encoding") == "gzip"
        assert gzip.decompress(answer.body) == plain.body
        assert answer.header("access-control-allow-origin") == "https://shop.example"
    assert len(plain.body) == 5000
    assert plain.header("content-encoding") is None
    assert plain.header("access-control-allow-origin") is None
    assert [answer.header(REPLAYED) for answer in (first, again, plain)] == [None, "true", "true"]
    assert len(upstream.executions()) == 1


def test_an_upstream_that_speaks_cors_gets_the_filters_headers_exposed(pair):
    key = _new_key()
    headers = [["access-control-allow-origin", "*"], [EXPOSED, "x-execution"]]
    first = pair.send(Case({"headers": headers}), key)
    again = pair.send(Case({"headers": headers}), key)
    for answer in (first, again):
        exposed = [name.strip() for name in answer.header(EXPOSED).split(",")]
        assert exposed[0] == "x-execution"
        assert {REPLAYED, EXPIRES} < set(exposed)
    assert_replay_of(first, again)


# --- The store and the processes come and go


def test_cached_replays_come_while_the_store_is_down(envoy, upstream, postgres_server):
    database = postgres_server()
    server = envoy(_config(upstream, Records(database, "postgres").store()))
    key, request = _new_key(), {}
    first = _send(server, Request.keyed("/any", key, request))
    database.kill9()
    for _ in range(3):
        assert_replay_of(first, _send(server, Request.keyed("/any", key, request)))
    assert server.stat("idempotency.replay.cached") == 3
    # What is not cached is refused, and so is another request under the cached key.
    assert _send(server, Request.keyed("/any", _new_key())).status == 503
    assert _send(server, Request.keyed("/any", key, body=b'{"other":1}')).status == 422
    assert len(upstream.executions()) == 1


@pytest.mark.parametrize("restarts", ["envoy", "postgres", "both", "both by kill -9"])
def test_replays_come_after_a_restart(envoy, upstream, postgres_server, restarts):
    database = postgres_server(settings={"fsync": "on"})
    config = _config(upstream, Records(database, "postgres").store())
    if restarts == "postgres":
        config.filter(replay_cache={"max_bytes": "0"})
    server, key = envoy(config), _new_key()
    cases = {name: (_new_key(), CASES[name]) for name in ("binary", "201 and a location", "404")}

    def send(key: str, case: Case) -> WireResponse:
        return _send(server, Request.keyed("/any", key, behave(**case.behaviour)))

    first = {name: send(*case) for name, case in cases.items()}
    if restarts == "both by kill -9":
        server.kill9()
        database.kill9()
    elif restarts != "envoy":
        database.shut_down()
    if restarts != "envoy":
        database.start()
    if restarts in ("envoy", "both"):
        assert server.stop() == 0
    if restarts != "postgres":
        server = envoy(config)
    # Old connections are dead; the first request that meets them may be refused, never run.
    wait_for(lambda: send(key, CASES["json"]).status == 200, "the store is back", deadline=30)
    for name, case in cases.items():
        assert_replay_of(first[name], send(*case))
        assert len(upstream.executions(key=case[0])) == 1


def test_replays_from_sqlite_come_after_a_kill_of_envoy(envoy, config, upstream):
    server, key = envoy(config.route("/any", {"enforcement": "REQUIRED"})), _new_key()
    first = _send(server, Request.keyed("/any", key))
    server.kill9()
    assert_replay_of(first, _send(envoy(config), Request.keyed("/any", key)))
    assert len(upstream.executions()) == 1


# --- The cache and the record's life


def test_the_cache_never_outlives_the_record(envoy, upstream, records):
    """Short life, long cache: as soon as the record's time is over the key runs anew, from memory or not."""
    store = records.store(timeout="2s")
    server = envoy(_config(upstream, store, ttl="2s", lease="2s", completion_timeout="1s"))
    key = _new_key()
    first = _send(server, Request.keyed("/any", key))
    expires = email.utils.parsedate_to_datetime(first.header(EXPIRES)).timestamp()
    replays = 0
    while (answer := _send(server, Request.keyed("/any", key))).header(REPLAYED):
        # The header has whole seconds: the life ends within the second that begins there.
        assert time.time() < expires + 1, "a replay past the end of the record's life"
        replays += 1
        time.sleep(0.05)
    assert replays > 0
    assert answer.status == 200
    assert time.time() >= expires
    assert len(upstream.executions()) == 2
    # The cache lets go a moment early, so that the last ones may come from the store.
    assert 0 < server.stat("idempotency.replay.cached") <= replays


def test_a_record_that_was_deleted_is_gone_from_the_cache_within_max_age(envoy, upstream, records):
    config = _config(upstream, records.store()).filter(replay_cache={"max_age": "1s"})
    server, key = envoy(config), _new_key()
    _send(server, Request.keyed("/any", key))
    records.delete(key)
    end = time.monotonic() + 1
    while (answer := _send(server, Request.keyed("/any", key))).header(REPLAYED):
        assert time.monotonic() < end + 10, "still replayed"
        time.sleep(0.05)
    assert answer.status == 200
    assert len(upstream.executions()) == 2
