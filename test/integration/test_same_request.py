"""What makes two requests with one key the same request: through a real Envoy, by HTTP/1.1 and HTTP/2.

What is the same is replayed; what is not gets 422, and the first request's response is not shown.
"""

import json

import pytest
from harness.config import EnvoyConfig, http_filter
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS
from harness.records import Records
from harness.site import new_key
from harness.upstream import Upstream
from harness.wire import Http1Connection, Http2Connection, WireResponse

REQUIRED = {"enforcement": "REQUIRED"}
JSON = {"content-type": "application/json"}
HOST = "api.example.com"


class Client:
    def __init__(self, server: Envoy, upstream: Upstream) -> None:
        self.port = server.port
        self.upstream = upstream

    def send(
        self, key: str, path: str = "/pay", *, http2: bool = False, host: str = HOST, **headers
    ) -> WireResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        fields = list({**JSON, "x-tenant-id": "acme", "idempotency-key": key, **named}.items())
        return self.send_fields(fields, path, http2=http2, host=host)

    def send_fields(self, fields, path="/pay", *, http2=False, host=HOST) -> WireResponse:
        kind = Http2Connection if http2 else Http1Connection
        with kind(self.port) as connection:
            return connection.request("POST", path, fields, b'{"amount": 1}', host=host)

    def runs(self, key: str) -> int:
        return len(self.upstream.executions(key=key))


@pytest.fixture
def base(upstream: Upstream, records: Records) -> EnvoyConfig:
    config = EnvoyConfig.quickstart().for_test(records.store()).upstream(upstream.port)
    config.filter(tenant={"sources": [{"header": "x-tenant-id"}]})
    config.route("/pay", REQUIRED)
    config.route("/any-host", {**REQUIRED, "fingerprint": {"authority": False}})
    config.route("/as-sent", {**REQUIRED, "fingerprint": {"query": "AS_SENT"}})
    config.route("/none", {**REQUIRED, "fingerprint": {"mode": "NONE"}})
    return config.route("/rewritten", REQUIRED, host_rewrite_literal="inner.example")


@pytest.fixture
def client(base, envoy, upstream) -> Client:
    return Client(envoy(base), upstream)


def replayed(response: WireResponse) -> bool:
    return response.header("idempotent-replayed") == "true"


def refusal(response: WireResponse) -> tuple[int, str]:
    return response.status, json.loads(response.body)["code"]


def assert_same(client: Client, key: str, first: WireResponse, *others: WireResponse) -> None:
    assert first.status == 200
    assert not replayed(first)
    for other in others:
        assert replayed(other), other
        assert other.body == first.body
    assert client.runs(key) == 1


def assert_reused(client: Client, key: str, first: WireResponse, *others: WireResponse) -> None:
    assert first.status == 200
    assert [refusal(other) for other in others] == [(422, "idempotency_key_reused")] * len(others)
    assert client.runs(key) == 1


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_virtual_hosts_with_routes_of_one_name_do_not_share_responses(base, envoy, upstream, version):
    hosts = base.managers[0]["route_config"]["virtual_hosts"]
    routes = hosts[0]["routes"]
    hosts[:] = [{"name": name, "domains": [f"{name}.example"], "routes": routes} for name in ("shop", "bank")]
    client, key = Client(envoy(base, version), upstream), new_key()
    for http2 in (False, True):
        first = client.send(key, host="shop.example", http2=http2)
        assert first.status == 200
        assert replayed(first) == http2, "the same host by the other protocol is the same request"
        assert refusal(client.send(key, host="bank.example", http2=http2)) == (422, "idempotency_key_reused")
    assert client.runs(key) == 1


def test_host_in_other_words_is_the_same(client):
    key = new_key()
    others = [
        client.send(key, host=host, http2=http2)
        for host in (HOST, "API.Example.COM", f"{HOST}:80", f"{HOST.upper()}:80")
        for http2 in (False, True)
    ]
    assert_same(client, key, *others)


def test_other_host_or_port_is_another_request(client):
    key = new_key()
    hosts = (HOST, "api-eu.example.com", f"{HOST}:8080", f"{HOST}:443", f"{HOST}.")
    assert_reused(client, key, *(client.send(key, host=host) for host in hosts))


def test_other_host_is_the_same_where_it_does_not_count(client):
    key = new_key()
    hosts = (HOST, "api-eu.example.com", f"{HOST}:8080")
    assert_same(client, key, *(client.send(key, "/any-host", host=host) for host in hosts))


def test_host_that_a_proxy_names_does_not_count(client):
    key = new_key()
    names = ("a.example", "b.example")
    assert_same(client, key, *(client.send(key, x_forwarded_host=name) for name in names))


def test_host_counts_as_the_client_sent_it_although_the_route_rewrites_it(client):
    key = new_key()
    assert_same(client, key, *(client.send(key, "/rewritten") for _ in range(2)))
    headers = dict(client.upstream.log("received", key=key)[0]["headers"])
    assert headers["host"] == "inner.example"
    assert refusal(client.send(key, "/rewritten", host="inner.example"))[0] == 422


def test_a_filter_before_ours_can_give_all_hosts_one_name(base, envoy, upstream):
    code = f"""
        function envoy_on_request(handle)
          handle:headers():replace(":authority", "{HOST}")
        end
    """
    base.before_ours(http_filter("lua", "Lua", default_source_code={"inline_string": code}))
    client, key = Client(envoy(base), upstream), new_key()
    hosts = ("api-eu.example.com", "api-us.example.com")
    assert_same(client, key, *(client.send(key, host=host) for host in hosts))


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "if-match": ('"1"', '"2"'),
        "if-none-match": ("*", '"1"'),
        "if-unmodified-since": ("Tue, 17 Nov 2026 00:00:00 GMT", "Tue, 17 Nov 2026 00:00:01 GMT"),
        "content-encoding": ("gzip", "br"),
    }.items(),
)
@pytest.mark.parametrize("http2", [False, True])
def test_conditions_and_content_coding_count(client, name, values, http2):
    for first, other in (values, (values[0], None), (None, values[0])):
        key = new_key()
        answers = [
            client.send(key, http2=http2, **({name: value} if value else {})) for value in (first, other)
        ]
        assert_reused(client, key, *answers)
    key = new_key()
    assert_same(client, key, *(client.send(key, http2=http2, **{name: values[0]}) for _ in range(2)))


def test_each_line_of_a_condition_counts(client):
    key = new_key()
    fields = [*JSON.items(), ("x-tenant-id", "acme"), ("idempotency-key", key), ("if-match", '"1"')]
    first = client.send_fields(fields)
    assert_reused(client, key, first, client.send_fields([*fields, ("if-match", '"2"')]))
    assert replayed(client.send_fields(fields))


def test_order_of_query_parameters(client):
    key = new_key()
    assert_same(client, key, *(client.send(key, f"/pay?{query}") for query in ("a=1&b=2", "b=2&a=1")))
    for path, first, other in (
        ("/pay", "a=1&a=2", "a=2&a=1"),
        ("/pay", "i[][n]=x&i[][q]=1&i[][n]=y", "i[][n]=x&i[][n]=y&i[][q]=1"),
        ("/pay", "i%5B%5D=1&j%5B%5D=2", "j%5B%5D=2&i%5B%5D=1"),
        ("/pay", "a=1;b=2&c", "c&a=1;b=2"),
        ("/pay", "a=1&%61=2", "%61=2&a=1"),
        ("/pay", "a=1&A=2", "A=2&a=1"),
        ("/as-sent", "a=1&b=2", "b=2&a=1"),
    ):
        key = new_key()
        assert_reused(client, key, *(client.send(key, f"{path}?{query}") for query in (first, other)))


def test_every_request_is_alike_in_mode_none(client):
    key = new_key()
    others = [
        client.send(key, "/none"),
        client.send(key, "/none?b[]=1", host="elsewhere.example", if_match='"1"'),
    ]
    assert_same(client, key, *others)


# --- A trusted header that comes twice


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
@pytest.mark.parametrize("name", ["authorization", "x-tenant-id"])
@pytest.mark.parametrize("http2", [False, True])
def test_tenant_on_two_lines_is_refused_whether_envoy_joins_them_or_not(
    base, envoy, upstream, records, version, name, http2
):
    base.filter(tenant={"sources": [{"header": name}, {"fixed": "anybody"}]})
    client, key = Client(envoy(base, version), upstream), new_key()
    fields = [*JSON.items(), ("idempotency-key", key)]
    both = [*fields, (name, "Bearer one"), (name, "Bearer two")]
    assert refusal(client.send_fields(both, http2=http2)) == (403, "idempotency_tenant_missing")
    assert (records.all(), client.runs(key)) == ([], 0)
    assert client.send_fields([*fields, (name, "Bearer one")], http2=http2).status == 200
    assert [record.tenant for record in records.all()] == ["Bearer one"]
    # What comes of the lines where no filter of ours looks: Envoy makes one of some headers' lines.
    client.send_fields(both, "/free", http2=http2)
    received = upstream.log("received", path="/free")[0]["headers"]
    lines = [value for header, value in received if header == name]
    assert lines == (["Bearer one,Bearer two"] if name == "authorization" else ["Bearer one", "Bearer two"])
