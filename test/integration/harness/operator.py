"""An operator with idempotencyctl beside an Envoy that serves."""

import json
import subprocess

from . import ctl
from .site import Site, code_of, new_key

PAY = "/pay/"
REASON = ("--reason", "asked the bank", "--actor", "alice")


def pay_site(workspace, conninfo: str | None) -> Site:
    """A site with the route PAY; without a conninfo its store is a file."""
    store = conninfo and {"postgres": {"conninfo": conninfo, "timeout": "20s"}}
    return Site(workspace, {"pay": {}}, store=store)


def store_of(site: Site) -> list[str]:
    if "sqlite" in site.store:
        return ["--sqlite", site.store["sqlite"]["path"]]
    # With the rights of an operator, and no more.
    return ["--conninfo", site.store["postgres"]["conninfo"] + " options='-c role=idempotency_operator'"]


def run(site: Site, *words: str, text: str = "") -> subprocess.CompletedProcess:
    return ctl.run(*words, *store_of(site), text=text)


def done(site: Site, *words: str, text: str = "") -> str:
    result = run(site, *words, text=text)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def bare(key: str) -> str:
    return json.loads(key)


def make_unknown(site: Site) -> tuple[str, str]:
    """A key whose outcome is unknown, and its attempt."""
    key = new_key()
    assert site.send(PAY, key, fault="close_after_read").status in (502, 503)
    site.wait_for_state(key, "unknown")
    assert code_of(site.send(PAY, key)) == "idempotency_outcome_unknown"
    return key, str(site.record(key)["attempt"])


def audit(site: Site, key: str) -> list[tuple[str, str]]:
    """Who did what, the newest first."""
    entries = json.loads(done(site, "audit", "list", "--key-stdin", "--json", text=bare(key)))["entries"]
    return [(entry["actor"], entry["action"]) for entry in entries]
