"""An operator with idempotencyctl beside an Envoy that serves."""

import json
import subprocess
from collections.abc import Callable

from . import ctl
from .config import OPERATORS, EnvoyConfig
from .operators import ACTOR
from .process import Workspace
from .site import Site, code_of, new_key
from .wait import wait_for

PAY = "/pay/"
_ALICE = ("--actor", "alice")
REASON = ("--reason", "asked the bank", *_ALICE)


class ApiSite(Site):
    """A site with the route PAY, whose operators come through the operator filter, as alice."""

    def __init__(
        self,
        workspace: Workspace,
        conninfo: str | None = None,
        change: Callable[[EnvoyConfig], None] = lambda config: None,
        **fields,
    ) -> None:
        """`fields` are the operator filter's; None leaves one out."""
        self.headers = workspace.new_folder("operator") / "headers"
        self.headers.write_text(f"{ACTOR}: alice\n")
        usual = {"actor": {"sources": [{"header": ACTOR}]}, "show_responses": ["*"]}
        given = {name: value for name, value in {**usual, **fields}.items() if value is not None}

        def add_listener(config: EnvoyConfig) -> None:
            config.operators_listener(**{"store": config.our_value["store"], **given})
            change(config)

        super().__init__(workspace, {"pay": {}}, store=_store(conninfo), change=add_listener)
        # Envoy is live before a new file has its tables.
        wait_for(lambda: ctl.run("summary", *own_store_of(self)).returncode == 0, "the store is ready")

    def url(self, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.envoy.port_of(OPERATORS)}"

    def api(self) -> list[str]:
        """The options by which the tool reaches the API."""
        return ["--url", self.url(), "--header-file", str(self.headers)]


def _store(conninfo: str | None) -> dict | None:
    return conninfo and {"postgres": {"conninfo": conninfo, "timeout": "20s"}}


def pay_site(workspace, conninfo: str | None) -> Site:
    """A site with the route PAY; without a conninfo its store is a file."""
    return Site(workspace, {"pay": {}}, store=_store(conninfo))


def store_of(site: Site) -> list[str]:
    return site.api() if isinstance(site, ApiSite) else own_store_of(site)


def own_store_of(site: Site) -> list[str]:
    if "sqlite" in site.store:
        return ["--sqlite", site.store["sqlite"]["path"]]
    # With the rights of an operator, and no more.
    return ["--conninfo", site.store["postgres"]["conninfo"] + " options='-c role=idempotency_operator'"]


def as_asked(site: Site, *words: str) -> list[str]:
    """The same words with the site's store. The API knows by itself that it is alice."""
    known = _ALICE if isinstance(site, ApiSite) else ()
    return [*(word for word in words if word not in known), *store_of(site)]


def run(site: Site, *words: str, text: str = "") -> subprocess.CompletedProcess:
    return ctl.run(*as_asked(site, *words), text=text)


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
