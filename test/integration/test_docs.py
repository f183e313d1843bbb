"""Pages are true: proofs and links lead somewhere, fields are the proto's, configs and commands work."""

import json
import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest
import yaml
from harness import ctl
from harness.config import EnvoyConfig, example_files
from harness.envoy import validate
from harness.operator import PAY, done, make_unknown, store_of
from harness.paths import ENVOY_VERSIONS, ROOT
from harness.site import Site, code_of, new_key

REQUIREMENTS = ROOT / "docs" / "requirements.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# `file name`, alone or with the names of tests in it.
PROOF = re.compile(r"`([\w/.]+\.(?:cc|py|sh))(?: (\w+))?`")


def proofs() -> list[tuple[str, str]]:
    return sorted(set(PROOF.findall(REQUIREMENTS.read_text())))


def test_there_are_proofs():
    assert len(proofs()) > 30


def test_every_requirement_has_a_row():
    text = REQUIREMENTS.read_text()
    numbers = re.findall(r"^\| ([A-Q]\d+) \|", text, re.M)
    assert len(numbers) == len(set(numbers)) == 104
    assert not re.search(r"\| *\|$", text, re.M), "a row without proof or «not yet»"


@pytest.mark.parametrize(("file", "test"), proofs())
def test_a_named_proof_exists(file, test):
    (path,) = (ROOT / "test").rglob(file)
    assert test in path.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for path, _, heading in re.findall(r"\]\(([^)#:]*)(#([^)]+))?\)", page.read_text()):
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading:
            assert heading in headings(target), f"{path}#{heading}"


def headings(page: Path) -> list[str]:
    """As a reader's browser names them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return [re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines]


# --- docs/configuration.md against the proto

_PROTO = ROOT / "api" / "idempotency" / "v1" / "idempotency.proto"
_FIELD = re.compile(r"^ +(?:optional |repeated )?[\w.]+ (\w+) = \d+", re.M)


def proto_fields() -> dict[str, dict[str, str]]:
    """Message → field → its comment."""
    messages: dict[str, dict[str, str]] = {}
    comment: list[str] = []
    fields: dict[str, str] = {}
    for line in _PROTO.read_text().splitlines():
        if match := re.match(r"message (\w+)", line):
            fields = messages[match[1]] = {}
        elif match := _FIELD.match(line):
            fields[match[1]] = " ".join(comment)
        elif match := re.match(r" *//(.*)", line):
            comment.append(match[1].strip())
            continue
        comment = []
    return messages


def page_rows() -> dict[str, dict[str, str]]:
    """Heading → first cell of a row → the row."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    sections = re.split(r"^## (\w+)$", text, flags=re.M)[1:]
    return {
        heading: {row[1]: row[0] for row in re.finditer(r"^\| `(\w+)` \|.*$", body, re.M)}
        for heading, body in zip(sections[::2], sections[1::2], strict=True)
    }


def proto_enums() -> dict[str, list[str]]:
    enums = re.findall(r"enum (\w+) \{(.*?)\n *\}", _PROTO.read_text(), re.S)
    return {name: re.findall(r"^ +([A-Z_]+) = \d+;", body, re.M) for name, body in enums}


def test_the_configuration_page_has_exactly_the_fields_of_the_proto():
    fields = proto_fields()
    assert len(fields) > 15
    pages = {heading: list(rows) for heading, rows in page_rows().items()}
    assert {name: list(rows) for name, rows in fields.items()} == pages


@pytest.mark.parametrize("message", proto_fields())
def test_the_configuration_page_has_the_protos_defaults_and_ranges(message):
    for field, comment in proto_fields()[message].items():
        row = page_rows()[message][field]
        if found := re.search(r"\bDefault ([A-Z_]+|\d[\d.]*s?|true|false)\b", comment):
            assert f"| `{found[1]}`" in row, f"{field}: default {found[1]}"
        if found := re.search(r"[Rr]ange (.+?)[.,](?: |$)", comment):
            assert found[1] in row, f"{field}: range {found[1]}"
        if "Required" in comment and "mode SELECTED" not in comment:
            assert "required" in row, f"{field} is required"


def test_the_configuration_page_names_every_value_of_every_enum():
    text = (ROOT / "docs" / "configuration.md").read_text()
    enums = proto_enums()
    assert len(enums) == 13
    for name, values in enums.items():
        assert ", ".join(f"`{value}`" for value in values) in text, name


# --- what readers copy


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


@pytest.mark.parametrize("name", ["README.md", "docs/configuration.md"])
def test_the_configs_on_a_page_are_accepted(folder, config, name):
    filters, route = map(yaml.safe_load, blocks(ROOT / name, "yaml"))
    config.managers[0]["http_filters"][0] = filters["http_filters"][0]
    config.routes[0].update(route)
    result = validate(config, folder)
    assert result.returncode == 0, result.stdout


# In examples/payments, no run is detached.
DETACHED = [path for path in example_files() if path.parent.name != "payments"]


@pytest.mark.parametrize("example", DETACHED, ids=lambda path: path.parent.name)
def test_the_private_listener_on_the_page_is_that_of_the_examples(example):
    page = (ROOT / "docs" / "detached.md").read_text()
    (text,) = re.findall(r"^ *```yaml\n( *- name: idempotency_runs\n.*?)^ *```$", page, re.M | re.S)
    # Its routes stand elsewhere.
    text = text.replace("*routes", "the routes")
    (shown,) = yaml.safe_load(text)
    config = EnvoyConfig.load(example)
    _, private = config.listeners
    (manager,) = private["filter_chains"][0]["filters"]
    assert manager["typed_config"]["route_config"] is config.managers[0]["route_config"]
    manager["typed_config"]["route_config"] = "the routes"
    assert private == shown


def commands(text: str) -> list[str]:
    """The blocks of shell commands in a part of a page."""
    return [textwrap.dedent(block) for block in re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.M | re.S)]


class Shell:
    """Types what docs/operations.md shows, into the store of a site."""

    OPERATION = "create-payment"
    BODY = b'{"payment": "p-1"}'

    def __init__(self, workspace, conninfo: str | None) -> None:
        store = conninfo and {"postgres": {"conninfo": conninfo, "timeout": "20s"}}
        self.site = Site(workspace, {"pay": {"operation": self.OPERATION}}, store=store)
        self.folder = workspace.new_folder("operator")
        (self.folder / "response.json").write_bytes(self.BODY)
        page = (ROOT / "docs" / "operations.md").read_text()
        _, _, text = page.partition("## Unknown outcomes")
        self.unknown, _, self.runbooks = text.partition("## Runbooks")

    def block(self, words: str) -> str:
        """The one that has these words."""
        (block,) = [block for block in commands(self.unknown) if words in block]
        return block

    def run(self, block: str, key: str) -> str:
        """What it prints about the record of the key, which takes the place of the page's."""
        attempt = str(self.site.record(key)["attempt"])
        found = json.loads(done(self.site, "records", "show", "--attempt", attempt, "--json"))
        for shown, real in (("6917529027641081856", attempt), ("3f1c9a4be07d2258", found["key_hash"])):
            block = block.replace(shown, real)
        # What the page says about the store, once for all commands.
        store = shlex.join(store_of(self.site))
        start = f'set -e -o pipefail\nidempotencyctl() {{ {ctl.PROGRAM} "$@" {store}; }}\n'
        result = subprocess.run(
            ["bash", "-c", start + block],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "key": json.loads(key)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (result.returncode, result.stderr) == (0, ""), block
        return result.stdout


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shell(module_workspace, request) -> Shell:
    postgres = request.param == "postgres"
    return Shell(module_workspace, request.getfixturevalue("module_migrated") if postgres else None)


def test_an_operator_sees_and_finds_an_unknown_outcome_as_the_page_says(shell):
    key, attempt = make_unknown(shell.site)
    for words in ("records list --state unknown", "--key-stdin"):
        shown = shell.run(shell.block(words), key)
        assert attempt in shown
        assert "acme" in shown
        assert Shell.OPERATION in shown


def test_an_operator_can_settle_an_unknown_outcome_as_the_page_says(shell):
    """Each way, and what the page says that the next requests with the key get."""
    other = b'{"another": "request"}'
    site = shell.site

    key, _ = make_unknown(site)
    assert "Dry run: nothing was changed." in shell.run(shell.block("--body-file"), key)
    replay = site.send(PAY, key)
    assert (replay.status, replay.body) == (201, Shell.BODY)
    assert replay.header("idempotent-replayed") == "true"
    assert code_of(site.send(PAY, key, body=other)) == "idempotency_key_reused"
    assert len(site.executions(key)) == 1
    settled = shell.run(shell.block("audit list"), key)
    assert "resolve_completed" in settled
    assert "case 12: paid, see the ledger" in settled

    key, _ = make_unknown(site)
    shell.run(shell.block("--not-run"), key)
    assert code_of(site.send(PAY, key, body=other)) == "idempotency_key_reused"
    assert [site.send(PAY, key).header("idempotent-replayed") for _ in range(2)] == [None, "true"]
    assert len(site.executions(key)) == 2

    key, _ = make_unknown(site)
    shell.run(shell.block("records release"), key)
    assert site.send(PAY, key, body=other).status == 200
    assert len(site.executions(key)) == 2

    key, attempt = make_unknown(site)
    shell.run(shell.block("records ask-again"), key)
    (record,) = json.loads(done(site, "records", "list", "--attempt", attempt, "--json"))["records"]
    assert (record["state"], record["next_try_seconds"]) == ("unknown", 0)
    assert code_of(site.send(PAY, key)) == "idempotency_outcome_unknown"


def test_an_operator_can_delete_a_wrong_result_as_the_page_says(shell):
    key = new_key()
    assert shell.site.send(PAY, key).status == 200
    shell.run(shell.block("records bust"), key)
    assert shell.site.state(key) is None


def test_a_dry_run_comes_before_each_change_on_the_page(shell):
    changes = [block for block in commands(shell.unknown) if "--reason" in block]
    assert len(changes) == 5
    for block in changes:
        dry, real = block.replace("\\\n", "").splitlines()
        assert [word for word in shlex.split(dry) if word != "--dry-run"] == [
            word for word in shlex.split(real) if word != "--yes"
        ]


def test_the_commands_of_the_runbooks_work_and_change_nothing(shell):
    key, _ = make_unknown(shell.site)
    before = shell.site.record(key)
    blocks_shown = commands(shell.runbooks)
    assert len(blocks_shown) > 8
    for block in blocks_shown:
        shell.run(block, key)
    assert shell.site.record(key) == before


def test_each_alert_has_a_runbook():
    page = (ROOT / "docs" / "operations.md").read_text()
    table = page.partition("## Stats to alert on")[2].partition("Access log:")[0]
    alerts = re.findall(r"^\| (`[^|]+) \|", table, re.M)
    runbooks = page.partition("## Runbooks")[2].split("\n### ")[1:]
    assert [runbook.split("\n", 1)[0] for runbook in runbooks] == alerts
    for runbook in runbooks:
        for part in ("**Meaning.**", "**Look.**", "**Do.**", "**Over** when"):
            assert runbook.count(part) == 1, runbook


def test_the_operations_page_names_the_packages_of_the_libraries():
    page = (ROOT / "docs" / "operations.md").read_text()
    for package in (
        "libabsl",
        "libfmt",
        "libpq",
        "libprotobuf",
        "libsimdjson",
        "libsqlite3",
        "libssl",
        "libstdc++",
    ):
        assert package in page
    libraries = (ROOT / "test" / "integration" / "symbols" / "libraries.txt").read_text().split()
    known = re.compile(
        r"ld-linux|lib[cm]\.|libgcc_s|libcrypto|libssl|lib(absl|fmt|pq|protobuf|simdjson|sqlite3|stdc)"
    )
    assert [library for library in libraries if not known.match(library)] == []


@pytest.mark.parametrize("name", ["README.md", "docs/operations.md"])
def test_a_page_names_every_supported_envoy(name):
    for version in ENVOY_VERSIONS:
        assert version in (ROOT / name).read_text()


def test_the_operations_page_names_only_stats_that_exist():
    page = (ROOT / "docs" / "operations.md").read_text()
    table = page.partition("## Stats to alert on")[2].partition("Access log:")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", table, re.M)
    named = [stat for row in rows for stat in re.findall(r"`([\w.]+)`", row)]
    known = re.findall(r"^\| `([\w.]+)` \|", (ROOT / "docs" / "stats.md").read_text(), re.M)
    assert len(named) > 15
    assert set(named) <= set(known)


def test_the_other_names_of_stats_lead_to_stats_that_exist():
    page = (ROOT / "docs" / "stats.md").read_text()
    aliases = dict(re.findall(r"^\| ([\w.]+) \| (.+) \|$", page.partition("## Other names")[2], re.M))
    names = {
        "reserve": ["created", "replay", "in_progress", "key_misuse", "failed_retry", "unknown"],
        "reconcile": ["scheduled", "resolved", "failed"],
    }
    dotted = {f"{group}.{name}" for group, members in names.items() for name in members}
    assert set(aliases) == dotted | {"store.error", "zombie_key", "ttl_pruned"}
    known = re.findall(r"^\| (`[\w.]+`) \|", page, re.M)
    assert set(aliases.values()) <= {*known, "not implemented yet"}
