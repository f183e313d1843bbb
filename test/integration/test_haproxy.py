"""HAProxy between Envoy and the service: what it answers in the service's place lets no retry run."""

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator

import pytest
from harness.ports import free_port
from harness.process import Process, Workspace
from harness.site import Site, code_of, new_key
from harness.upstream import Upstream
from harness.wait import wait_for

_CONFIG = """
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend front
  bind 127.0.0.1:{port} {bind}
  default_backend service
backend service
  {rule}
  server service 127.0.0.1:{upstream}
"""


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except ConnectionError:
        return False


@contextlib.contextmanager
def behind_haproxy(workspace: Workspace, *, http2: bool = False, rule: str = "") -> Iterator[Site]:
    """`rule`: one of its backend's."""
    program = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin")
    assert program, "haproxy is missing: run tools/setup"
    upstream = Upstream(workspace)
    port, folder = free_port(), workspace.new_folder("haproxy")
    config = folder / "haproxy.cfg"
    bind = "proto h2" if http2 else ""
    config.write_text(_CONFIG.format(port=port, bind=bind, rule=rule, upstream=upstream.port))
    haproxy = Process(workspace, "haproxy", [program, "-db", "-f", config], folder / "haproxy.log")
    wait_for(lambda: _accepts(port), "haproxy listens")
    site = Site(
        workspace,
        {"up": {}},
        change=lambda envoy: envoy.upstream(port, http2=http2, cluster="upstream"),
        upstream=upstream,
    )
    yield site
    site.close()
    haproxy.stop()


def runs_once(site: Site, **behaviour) -> None:
    key = new_key()
    assert site.send("/up/", key, **behaviour).status >= 400
    assert len(site.executions(key)) == 1
    for _ in range(2):
        assert code_of(site.send("/up/", key)) == "idempotency_outcome_unknown"
    assert len(site.executions(key)) == 1


@pytest.mark.parametrize("fault", ["close_after_read", "reset_after_read"])
def test_refused_stream_of_haproxy_runs_once(workspace, fault):
    """The service has read the request and dies. HAProxy refuses the stream, to let its client try again."""
    with behind_haproxy(workspace, http2=True) as site:
        runs_once(site, fault=fault)


@pytest.mark.parametrize("fault", ["close_after_read", "reset_after_read"])
def test_bad_gateway_of_haproxy_runs_once(workspace, fault):
    with behind_haproxy(workspace) as site:
        runs_once(site, fault=fault)


@pytest.mark.parametrize("status", [403, 500, 503])
def test_response_that_haproxy_denies_runs_once(workspace, status):
    """The service has run; its response breaks a rule."""
    with behind_haproxy(workspace, rule=f"http-response deny deny_status {status}") as site:
        runs_once(site)
