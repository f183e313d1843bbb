"""Tenants share nothing: not results, not refusals, not the cache; by whichever way they are told apart."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import httpx
import pytest
from harness.certificates import Authority
from harness.config import EnvoyConfig
from harness.envoy import Envoy
from harness.paths import ENVOY_VERSIONS
from harness.tokens import TokenIssuer
from harness.upstream import behave

TYPE = "type.googleapis.com/envoy.extensions.filters.http."
REQUIRED = {"enforcement": "REQUIRED"}


class Way:
    """How the filter learns who sends. The plainest: a header that something trusted sets."""

    SOURCE: ClassVar[dict] = {"header": "x-tenant-id"}
    NAMES = ("acme", "zenith")

    def __init__(self, folder) -> None:
        self.folder = folder

    def configure(self, config: EnvoyConfig) -> EnvoyConfig:
        return config.filter(tenant={"sources": [self.SOURCE]})

    def client(self, server: Envoy, name: str, **headers: str) -> httpx.Client:
        """Sends as this tenant."""
        return _client(server.url, {"x-tenant-id": name, **headers})


def _client(url: str, headers: dict[str, str], **options) -> httpx.Client:
    return httpx.Client(base_url=url, headers=headers, timeout=60, **options)


class Metadata(Way):
    """Another filter knows who sends, and says so in dynamic metadata."""

    SOURCE: ClassVar[dict] = {"metadata": {"namespace": "test.auth", "key": "tenant"}}
    KIND = "STRING"

    def configure(self, config: EnvoyConfig) -> EnvoyConfig:
        rule = {
            "header": "x-who",
            "on_header_present": {"metadata_namespace": "test.auth", "key": "tenant", "type": self.KIND},
            "remove": True,
        }
        filter_type = TYPE + "header_to_metadata.v3.Config"
        return (
            super()
            .configure(config)
            .before_ours({"name": "who", "typed_config": {"@type": filter_type, "request_rules": [rule]}})
        )

    def client(self, server, name, **headers):
        # The header of the other way means nothing here.
        return _client(server.url, {"x-who": name, "x-tenant-id": "forged", **headers})


class MetadataNumber(Metadata):
    KIND = "NUMBER"
    NAMES = ("7", "8")


class Lua(Metadata):
    def configure(self, config):
        code = """
            function envoy_on_request(handle)
              local who = handle:headers():get("x-who")
              handle:streamInfo():dynamicMetadata():set("test.auth", "tenant", who)
            end
        """
        lua = {"@type": TYPE + "lua.v3.Lua", "default_source_code": {"inline_string": code}}
        return Way.configure(self, config).before_ours({"name": "lua", "typed_config": lua})


class PeerUriSan(Way):
    """Mutual TLS."""

    SOURCE: ClassVar[dict] = {"peer_uri_san": {}}
    NAMES = ("spiffe://example.org/ns/acme", "spiffe://example.org/ns/zenith")

    def __init__(self, folder) -> None:
        super().__init__(folder)
        self.authority = Authority(folder)

    def configure(self, config):
        server = self.authority.issue("server", "IP:127.0.0.1")
        chain = config.listeners[0]["filter_chains"][0]
        chain["transport_socket"] = self.authority.listener_tls(*server, client_required=True)
        return super().configure(config)

    def client(self, server, name, **headers):
        identity = self.authority.issue(name.rpartition("/")[2], f"URI:{name}")
        context = self.authority.client_context(identity)
        url = f"https://127.0.0.1:{server.port}"
        return _client(url, {"x-tenant-id": "forged", **headers}, verify=context)


class Jwt(Way):
    """A verified token; its claim overwrites whatever header the client sent."""

    def __init__(self, folder) -> None:
        super().__init__(folder)
        self.issuer = TokenIssuer(folder)

    def configure(self, config):
        provider = {
            "issuer": TokenIssuer.ISSUER,
            "local_jwks": {"inline_string": self.issuer.jwks()},
            "claim_to_headers": [
                {"header_name": "x-tenant-id", "claim_name": "org.tenant"},
                {"header_name": "x-user", "claim_name": "sub"},
            ],
        }
        jwt = {
            "@type": TYPE + "jwt_authn.v3.JwtAuthentication",
            "providers": {"test": provider},
            "rules": [{"match": {"prefix": "/"}, "requires": {"provider_name": "test"}}],
        }
        return super().configure(config).before_ours({"name": "jwt", "typed_config": jwt})

    def client(self, server, name, subject="somebody", **headers):
        token = self.issuer.token(org={"tenant": name}, sub=subject)
        forged = {"x-tenant-id": self.NAMES[0], "x-user": "forged"}
        return _client(server.url, {"authorization": f"Bearer {token}", **forged, **headers})


WAYS = {way.__name__: way for way in (Way, Metadata, MetadataNumber, Lua, PeerUriSan, Jwt)}
every_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def base(upstream, records) -> EnvoyConfig:
    return EnvoyConfig.quickstart().for_test(records.store()).upstream(upstream.port).route("/any", REQUIRED)


@pytest.fixture
def start(envoy, base, folder) -> Callable[..., tuple[Envoy, Way]]:
    def run(name: str, version: str = ENVOY_VERSIONS[-1]) -> tuple[Envoy, Way]:
        way = WAYS[name](folder)
        return envoy(way.configure(base), version), way

    return run


def _key() -> str:
    return f'"{uuid.uuid4()}"'


def _post(
    client: httpx.Client, key: str, body: bytes = b"{}", path: str = "/any", **behaviour
) -> httpx.Response:
    return client.post(path, content=body, headers={"idempotency-key": key, **behave(**behaviour)})


def _problem(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def _is_replay(response: httpx.Response) -> bool:
    return response.headers.get("idempotent-replayed") == "true"


@every_way
@pytest.mark.parametrize("cache", ["cached", "uncached"])
def test_tenants_do_not_meet(start, base, upstream, records, way, cache):
    if cache == "uncached":
        base.filter(replay_cache={"max_bytes": "0"})
    server, told = start(way)
    with told.client(server, told.NAMES[0]) as one, told.client(server, told.NAMES[1]) as other:
        _no_shared_result(one, other, upstream)
        _no_shared_reuse(one, other)
        _no_shared_claim(one, other, upstream)
        _no_shared_unknown(one, other)
    assert {record.tenant for record in records.all()} == set(told.NAMES)


def _no_shared_result(one, other, upstream) -> None:
    key = _key()
    firsts = [_post(client, key) for client in (one, other)]
    assert [first.status_code for first in firsts] == [200, 200]
    assert firsts[0].content != firsts[1].content
    assert not any(map(_is_replay, firsts))
    for client, first in ((one, firsts[0]), (other, firsts[1])):
        again = _post(client, key)
        assert _is_replay(again)
        assert again.content == first.content
    assert len(upstream.executions(key=key)) == 2


def _no_shared_reuse(one, other) -> None:
    key = _key()
    assert _post(one, key, b'{"a":1}').status_code == 200
    assert _post(other, key, b'{"a":2}').status_code == 200
    assert _problem(_post(one, key, b'{"a":2}')) == (422, "idempotency_key_reused")
    assert _is_replay(_post(other, key, b'{"a":2}'))


def _no_shared_claim(one, other, upstream) -> None:
    key = _key()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(_post, one, key, hold="gate")
        upstream.wait_until_held("gate")
        assert _post(other, key).status_code == 200
        assert _problem(_post(one, key)) == (409, "idempotency_in_progress")
        upstream.release("gate")
        assert running.result().status_code == 200


def _no_shared_unknown(one, other) -> None:
    key = _key()
    assert _post(one, key, fault="close_after_read").status_code == 503
    assert _post(other, key).status_code == 200
    assert _problem(_post(one, key)) == (409, "idempotency_outcome_unknown")


def test_fixed_tenants_of_two_gateways_do_not_meet(envoy, base, upstream, records):
    sources = [{"sources": [{"fixed": name}]} for name in ("acme", "zenith")]
    servers = [envoy(base.copy().filter(tenant=tenant)) for tenant in sources]
    with _client(servers[0].url, {}) as one, _client(servers[1].url, {}) as other:
        _no_shared_result(one, other, upstream)
        _no_shared_reuse(one, other)
        _no_shared_claim(one, other, upstream)
    assert {record.tenant for record in records.all()} == {"acme", "zenith"}


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_a_token_beats_a_forged_header(start, upstream, records, version):
    """The client names another tenant in the header; the token's claim is what counts."""
    server, told = start("Jwt", version)
    key = _key()
    with told.client(server, "acme") as victim:
        secret = _post(victim, key)
    with told.client(server, "zenith", **{"x-tenant-id": "acme"}) as thief:
        stolen = _post(thief, key)
    assert not _is_replay(stolen)
    assert stolen.content != secret.content
    assert [record.tenant for record in records.all(key)] == ["acme", "zenith"]
    received = upstream.log("received")[1]["headers"]
    assert [value for name, value in received if name == "x-tenant-id"] == ["zenith"]


def test_without_a_valid_token_nothing_is_claimed_or_replayed(start, folder, upstream, records):
    server, told = start("Jwt")
    key = _key()
    with told.client(server, "acme") as client:
        assert _post(client, key).status_code == 200
    forger_folder = folder / "forger"
    forger_folder.mkdir()
    forged = TokenIssuer(forger_folder).token(org={"tenant": "acme"})
    for headers in ({}, {"authorization": f"Bearer {forged}"}):
        with _client(server.url, {"x-tenant-id": "acme", **headers}) as client:
            for tried in (key, _key()):
                answer = _post(client, tried)
                assert answer.status_code == 401
                assert not _is_replay(answer)
    assert len(upstream.executions()) == 1
    assert len(records.all()) == 1


def test_a_token_without_the_claim_names_no_tenant(start, upstream):
    server, told = start("Jwt")
    token = told.issuer.token(sub="somebody")
    with _client(server.url, {"authorization": f"Bearer {token}", "x-tenant-id": "acme"}) as client:
        answer = _post(client, _key())
    # jwt_authn takes the client's header away, also where the token has nothing to put in its place.
    assert _problem(answer) == (403, "idempotency_tenant_missing")
    assert upstream.log() == []


@pytest.mark.parametrize("way", ["Way", "Jwt"])
def test_the_principal_is_part_of_the_request(start, base, upstream, way):
    """Somebody else of the same tenant who sends the same under the same key did not send this request."""
    base.route("/mine", {**REQUIRED, "fingerprint": {"principal": {"header": "x-user"}}})
    server, told = start(way)
    key = _key()

    def send(user: str, key: str = key, path: str = "/mine") -> httpx.Response:
        more = {"subject": user} if way == "Jwt" else {"x-user": user}
        with told.client(server, "acme", **more) as client:
            return _post(client, key, path=path)

    first = send("alice")
    assert first.status_code == 200
    assert send("alice").content == first.content
    assert _problem(send("bob")) == (422, "idempotency_key_reused")
    assert len(upstream.executions()) == 1
    # Where it does not count, it does not.
    shared = _key()
    assert send("alice", shared, "/any").status_code == 200
    assert _is_replay(send("bob", shared, "/any"))


def test_a_principal_that_cannot_be_determined_is_refused(start, base, upstream):
    base.route("/mine", {**REQUIRED, "fingerprint": {"principal": {"header": "x-user"}}})
    server, told = start("Way")
    with told.client(server, "acme") as client:
        assert _problem(_post(client, _key(), path="/mine")) == (403, "idempotency_tenant_missing")
    assert upstream.log() == []


def test_operations_share_keys_only_by_scope_tenant(start, base, upstream, records):
    base.route("/refunds", REQUIRED).route("/charges", REQUIRED)
    wide = {**REQUIRED, "scope": "TENANT", "fingerprint": {"mode": "NONE"}}
    base.route("/wide-a", wide).route("/wide-b", wide)
    server, told = start("Way")
    key = _key()
    with told.client(server, "acme") as one, told.client(server, "zenith") as other:
        answers = [_post(one, key, path=path) for path in ("/refunds", "/charges")]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].content != answers[1].content
        assert _is_replay(_post(one, key, path="/refunds"))
        first = _post(one, key, path="/wide-a")
        assert not _is_replay(first)
        assert _post(one, key, path="/wide-b").content == first.content
        assert not _is_replay(_post(other, key, path="/wide-b"))
    operations = [(record.tenant, record.operation) for record in records.all(key)]
    assert operations == [("acme", ""), ("acme", "charges"), ("acme", "refunds"), ("zenith", "")]
