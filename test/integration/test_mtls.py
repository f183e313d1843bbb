"""The tenant from the client's certificate, as Envoy has verified it."""

import httpx
import pytest
from harness.certificates import Authority
from harness.config import EnvoyConfig
from harness.paths import ENVOY_VERSIONS
from harness.probe import PROBE_ENV, probe_config

KEY = {"idempotency-key": '"0123456789abcdef"'}


@pytest.fixture
def authority(folder):
    return Authority(folder)


def with_tls(config: EnvoyConfig, authority: Authority, client_required: bool = False) -> EnvoyConfig:
    server = authority.issue("server", "IP:127.0.0.1")
    chain = config.listeners[0]["filter_chains"][0]
    chain["transport_socket"] = authority.listener_tls(*server, client_required=client_required)
    return config


def post(server, authority, identity, headers):
    with httpx.Client(verify=authority.client_context(identity), timeout=30) as client:
        return client.post(f"https://127.0.0.1:{server.port}/payments", headers=headers, content=b"{}")


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_the_peers_uri_name_is_the_tenant(envoy, config, upstream, authority, version):
    config.filter(tenant={"sources": [{"peer_uri_san": {}}]})
    server = envoy(with_tls(config, authority), version)
    named = authority.issue("named", "URI:spiffe://example.org/ns/shop", "DNS:shop.example.org")
    unnamed = authority.issue("unnamed", "DNS:shop.example.org")
    assert post(server, authority, named, KEY).status_code == 200
    for identity in (unnamed, None):
        response = post(server, authority, identity, KEY)
        assert response.status_code == 403
        assert response.json()["code"] == "idempotency_tenant_missing"
    assert len(upstream.executions()) == 1


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_facts_of_a_verified_peer(envoy, config, authority, version):
    server = envoy(with_tls(probe_config(config), authority), version, env=PROBE_ENV)
    identity = authority.issue("shop", "URI:spiffe://example.org/ns/shop", "DNS:shop.example.org")
    lines = post(server, authority, identity, {"x-probe": "facts"}).text.splitlines()
    assert "mtls known true" in lines
    assert "mtls true" in lines
    assert "peer 'spiffe://example.org/ns/shop'" in lines
    assert "peer dns 'shop.example.org'" in lines
    assert "peer subject 'CN=shop'" in lines
    assert "peer digest 64" in lines
    assert "scheme 'https'" in lines
