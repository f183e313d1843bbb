"""The servers of a benchmark: a durable PostgreSQL, the fast upstream, Envoys that differ in one thing."""

import os
import re
import subprocess
import urllib.request
from pathlib import Path

from harness.config import FILTER_NAME, EnvoyConfig, http_filter, per_route
from harness.ctl import migrate
from harness.envoy import Envoy
from harness.paths import built
from harness.ports import free_port
from harness.postgres import Postgres, programs
from harness.process import Process, Workspace
from harness.wait import wait_for

# Debian's defaults but for these.
_POSTGRES = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
    # A checkpoint in the middle would hit one side and not the other: they are made in between.
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "log_min_messages": "warning",
}
ROLE = "gateway"
BODIES = (200, 2048, 65536)
CORES = os.cpu_count() or 2
# Of Envoy: the load, the upstream and PostgreSQL need a core, too. `scaling.workers` has more of them.
WORKERS = max(1, CORES // 2)


class Database(Postgres):
    """A durable server. All clients come by its Unix socket."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace, settings=_POSTGRES)
        self.folder = self.data.parent
        self.programs = programs(workspace, self.major)

    def address(self, database: str, user: str = "postgres") -> str:
        return self.conninfo(database, host=str(self.folder), user=user)

    def create(self, name: str) -> str:
        """A database with the filter's schema, and a role that may do what the filter needs."""
        self.query(f"CREATE DATABASE {name}")
        migrate(self.conninfo(name))
        if not self.query("SELECT 1 FROM pg_roles WHERE rolname = %s", ROLE):
            self.query(f"CREATE ROLE {ROLE} LOGIN IN ROLE idempotency_filter", database=name)
        return name

    def store(self, database: str) -> dict:
        """The filter's `store`."""
        return {"postgres": {"conninfo": self.address(database, ROLE), "timeout": "10s"}}

    def checkpoint(self) -> None:
        self.query("CHECKPOINT")


class Upstream:
    def __init__(self, workspace: Workspace, conninfo: str | None = None) -> None:
        """`conninfo`: of the database with its payments."""
        self.port = free_port()
        log = workspace.new_folder("upstream") / "upstream.log"
        command = [built("bench/http_upstream"), str(self.port), *([conninfo] if conninfo else [])]
        self.process = Process(workspace, "http_upstream", command, log)
        wait_for(self._answers, "the upstream answers")

    def held(self) -> int:
        return int(self._get("/held"))

    def release(self) -> None:
        self._get("/release")

    def stop(self) -> int:
        return self.process.stop()

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.read().decode()

    def _answers(self) -> bool:
        self.process.check_running()
        try:
            return self.held() == 0
        except OSError:
            return False


def _base(upstream: Upstream, store: dict) -> EnvoyConfig:
    config = EnvoyConfig.quickstart().for_test(store).upstream(upstream.port)
    for manager in config.managers:
        del manager["access_log"]
    # Held requests must not meet Envoy's own limits.
    config.routes[-1]["route"]["timeout"] = "0s"
    limits = ("max_connections", "max_pending_requests", "max_requests")
    for cluster in config.tree["static_resources"]["clusters"]:
        cluster["connect_timeout"] = "20s"
        cluster["circuit_breakers"] = {"thresholds": [dict.fromkeys(limits, 100_000)]}
    return config


def _policy(config: EnvoyConfig, policy: dict | None) -> EnvoyConfig:
    """Gives every route this policy; None: no route says anything."""
    for route in config.routes:
        route.pop("typed_per_filter_config", None)
        if policy is not None:
            route["typed_per_filter_config"] = {FILTER_NAME: per_route({"policy": policy})}
    return config


def bare_config(upstream: Upstream) -> EnvoyConfig:
    """Without the filter. Below /direct/N Envoy answers by itself, with N bytes."""
    config = _policy(_base(upstream, {}), None)
    for manager in config.managers:
        filters = manager["http_filters"]
        manager["http_filters"] = [entry for entry in filters if entry["name"] != FILTER_NAME]
        manager["route_config"]["max_direct_response_body_size_bytes"] = max(BODIES)
    for size in BODIES:
        text = '{"id":"' + "x" * (size - 9) + '"}'
        config.routes.insert(
            0,
            {
                "match": {"path": f"/direct/{size}"},
                "direct_response": {"status": 201, "body": {"inline_string": text}},
                "response_headers_to_add": [{"header": {"key": "content-type", "value": "application/json"}}],
            },
        )
    return config


def direct_config(upstream: Upstream) -> EnvoyConfig:
    """Bare, but a request is read to its end first: Envoy closes a connection that it answers too early."""
    config = bare_config(upstream)
    for manager in config.managers:
        manager["http_filters"].insert(0, http_filter("buffer", "Buffer", max_request_bytes=1 << 20))
    return config


def off_config(upstream: Upstream, store: dict) -> EnvoyConfig:
    """The filter is there, but its routes are off."""
    return _policy(_base(upstream, store), {"enforcement": "OFF"})


def start_idle(workspace: Workspace, upstream: Upstream) -> Envoy:
    """Bare, but with a module whose filter does nothing (bench/idle_module.cc)."""
    config = bare_config(upstream)
    fields = {"dynamic_module_config": {"name": "idle", "do_not_close": True}, "filter_name": "idle"}
    for manager in config.managers:
        manager["http_filters"].insert(0, http_filter("dynamic_modules", "DynamicModuleFilter", **fields))
    folder = built("bench/libidle.so").parent
    return start_envoy(workspace, config, env={"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": str(folder)})


def keyed_config(upstream: Upstream, store: dict, more: dict | None = None, **fields) -> EnvoyConfig:
    """The filter as users have it; `more` of its policy, `fields` are more of its config."""
    policy = {"enforcement": "REQUIRED", "operation": "create-payment", **(more or {})}
    return _policy(_base(upstream, store), policy).filter(**fields)


def detached_config(workspace: Workspace, upstream: Upstream, store: dict, **fields) -> EnvoyConfig:
    """The same, but each request has a run of its own on a private listener."""
    policy = {"enforcement": "REQUIRED", "operation": "create-payment", "detached": {}}
    config = _policy(_base(upstream, store), policy).filter(**fields)
    # Many runs that begin at once must not meet this limit.
    return config.private_listener(workspace.new_folder("runs") / "runs.sock", accept_timeout="20s")


def start_envoy(
    workspace: Workspace, config: EnvoyConfig, workers: int = WORKERS, env: dict[str, str] | None = None
) -> Envoy:
    envoy = Envoy(workspace, config, concurrency=workers, env=env)
    # Asked for once: the admin page is slow.
    envoy.listen_port = envoy.port
    return envoy


def versions() -> dict[str, str]:
    """Of the programs that take part."""
    postgres = _first_line("/usr/lib/postgresql/15/bin/postgres", "--version")
    return {
        "envoy": Envoy.__init__.__defaults__[0],
        "postgres": postgres,
        "kernel": os.uname().release,
        "commit": _first_line("git", "-C", Path(__file__).parent, "rev-parse", "HEAD"),
    }


def machine() -> dict[str, str | int | float]:
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "cpu": cpu[1] if cpu else "unknown",
        "cores": os.cpu_count() or 0,
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else 0,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _first_line(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.splitlines()[0] if done.stdout else "unknown"
