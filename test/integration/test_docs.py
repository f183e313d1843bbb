"""Pages are true: proofs and links lead somewhere, fields are the proto's, configs and SQL on them work."""

import re
import sqlite3
from pathlib import Path

import psycopg
import pytest
import yaml
from harness.clients import post
from harness.envoy import validate
from harness.paths import ENVOY_VERSIONS, ROOT
from harness.upstream import behave

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
    assert len(numbers) == len(set(numbers)) == 84
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
    enums = re.findall(r"enum (\w+) \{(.*?)\n  \}", _PROTO.read_text(), re.S)
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
    assert len(enums) == 9
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


def test_an_operator_can_settle_an_unknown_outcome_as_the_page_says(migrated):
    list_unknown, let_it_run = blocks(ROOT / "docs" / "operations.md", "sql")
    with psycopg.connect(migrated, autocommit=True) as owner:
        owner.execute(
            """INSERT INTO idempotency.key (tenant, operation, key, fingerprint, attempt, state, lease_until,
                 expires_at, reap_at, claimed_at, created_at)
               VALUES ('acme', 'create-payment', '8e03978e-40d5-43dd-bc93-6894a57f9324', 'x', 1234567890, 4,
                 now(), now(), now(), now(), now())"""
        )
        owner.execute("SET ROLE idempotency_operator")
        (row,) = owner.execute(list_unknown).fetchall()
        assert row[:4] == ("acme", "create-payment", "8e03978e-40d5-43dd-bc93-6894a57f9324", 1234567890)
        owner.execute(let_it_run)
        assert owner.execute(list_unknown).fetchall() == []
        assert owner.execute("SELECT state FROM idempotency.key").fetchall() == [(3,)]
        assert owner.execute("SELECT actor, action, attempt FROM idempotency.audit").fetchall() == [
            ("your name", "operator_retry", 1234567890)
        ]
        # Once more: nothing is unknown, so nothing is done.
        owner.execute(let_it_run)
        assert owner.execute("SELECT count(*) FROM idempotency.audit").fetchone() == (1,)


def test_an_operator_can_let_a_request_run_again_with_sqlite(envoy, config, upstream, folder):
    (block,) = blocks(ROOT / "docs" / "operations.md", "sqlite")
    list_unknown, let_it_run = block.split(";\n", 1)
    server = envoy(config.filter(tenant={"sources": [{"fixed": "acme"}]}))
    key = "8e03978e-40d5-43dd-bc93-6894a57f9324"
    answer = post(server.url + "/payments", key=f'"{key}"', headers=behave(fault="close_after_read"))
    assert answer.status_code == 503
    refused = post(server.url + "/payments", key=f'"{key}"')
    assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_outcome_unknown")
    with sqlite3.connect(folder / "idempotency.db") as file:
        (row,) = file.execute(list_unknown).fetchall()
        assert row[:3] == ("acme", "create-payment", key)
        assert file.execute(let_it_run).rowcount == 0, "it is another attempt"
        assert file.execute(let_it_run.replace("1234567890", str(row[3]))).rowcount == 1
    assert post(server.url + "/payments", key=f'"{key}"').status_code == 200
    assert len(upstream.executions()) == 2


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
        r"ld-linux|libc\.|libgcc_s|libcrypto|libssl|lib(absl|fmt|pq|protobuf|simdjson|sqlite3|stdc)"
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
