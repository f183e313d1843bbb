"""Operators settle what no retry can, through the operator filter of a real Envoy."""

import json
import re
import threading
import time

import pytest
import yaml
from harness.config import OPERATORS, ListenerFile
from harness.envoy import validate
from harness.operators import ACTOR, NOT_RUN, PREFIX, Operator, completed
from harness.paths import ENVOY_VERSIONS, ROOT
from harness.site import Site, code_of, new_key, patience
from harness.wait import wait_for

# The upstream's answer does not come in time, so its outcome is unknown.
ROUTES = {"pay": {"operation": "create-payment"}, "secret": {"operation": "make-token"}}
FILTER = {"actor": {"sources": [{"header": ACTOR}]}, "show_responses": ["create-payment"]}
STORES = ["sqlite", "postgres"]


@pytest.fixture(scope="module", params=STORES)
def kind(request):
    return request.param


def store_of(kind: str, request) -> dict | None:
    if kind == "sqlite":
        return None
    return {"postgres": {"conninfo": request.getfixturevalue("migrated"), "timeout": patience(ROUTES)}}


@pytest.fixture
def make_site(workspace, request):
    made = []

    def make(kind: str = "sqlite", change=lambda config: None, version: str | None = None, **fields) -> Site:
        def add_listener(config):
            config.operators_listener(**{"store": config.our_value["store"], **FILTER, **fields})
            change(config)

        options = {"version": version} if version else {}
        made.append(Site(workspace, ROUTES, store=store_of(kind, request), change=add_listener, **options))
        return made[-1]

    yield make
    for site in made:
        site.upstream.stop()


@pytest.fixture
def site(make_site, kind):
    return make_site(kind)


def leave_unknown(site: Site, path: str = "/pay/", **options) -> str:
    """A key whose request has reached the upstream, which cut the connection."""
    key = new_key()
    assert site.send(path, key, fault="reset_after_read", **options).status == 503
    site.wait_for_state(key, "unknown")
    assert code_of(site.send(path, key, **options)) == "idempotency_outcome_unknown"
    return key


def store_state(site: Site, key: str) -> tuple:
    record = site.record(key)
    return record["state"], record["attempt"]


# --- Reading


def test_an_operator_sees_what_is_stuck_and_for_whom(site):
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    assert alice.get("/healthz") == {"store": "ok"}

    summary = alice.get("/summary")
    (row,) = [row for row in summary["unsettled"] if row["operation"] == "create-payment"]
    assert row["records"] >= 1
    assert summary["unknown_records"] >= 1
    assert summary["states"]["unknown"] >= 1
    assert "acme" in [row["tenant"] for row in summary["tenants"]]
    assert summary["read_only"] is False

    record = alice.record(key)
    assert (record["state"], record["tenant"], record["operation"]) == ("unknown", "acme", "create-payment")
    assert record["key"] == json.loads(key)
    assert record["attempt"] == str(site.record(key)["attempt"])
    assert record["last_error"]
    for query in (
        {"attempt": record["attempt"]},
        {"key_hash": record["key_hash"]},
        {"state": "unknown", "tenant": "acme", "operation": "create-payment", "error": record["last_error"]},
    ):
        assert record["id"] in [found["id"] for found in alice.records(**query)], query
    assert alice.records(key=json.loads(key), state="completed") == []
    assert alice.records(key=json.loads(key), min_age_seconds=3600) == []


def test_pages_hold_every_record_once(site):
    keys = {json.loads(leave_unknown(site)) for _ in range(5)}
    alice = Operator(site.envoy)
    found = []
    query = {"state": "unknown", "limit": 2}
    while True:
        page = alice.get("/records", **query)
        assert len(page["records"]) <= 2
        found += [record["key"] for record in page["records"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert len(found) == len(set(found))
    assert keys <= set(found)


def test_a_stored_response_is_shown_only_where_the_config_allows_it(site):
    shown, hidden = new_key(), new_key()
    site.send("/pay/", shown, body=b'{"a": 1}')
    site.send("/secret/", hidden, body=b'{"a": 1}')
    alice = Operator(site.envoy)
    response = alice.get(f"/records/{alice.record(shown)['id']}")["response"]
    assert response["shown"] is True
    assert response["body"] == site.send("/pay/", shown, body=b'{"a": 1}').body.decode()
    assert alice.get(f"/records/{alice.record(hidden)['id']}")["response"].keys() == {
        "status",
        "readable",
        "shown",
        "body_bytes",
    }


# --- Settling


def test_resolved_as_completed_the_retry_gets_the_operators_response(site):
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    record = alice.record(key)
    answer = alice.change(record, "resolve", **completed())
    assert answer.status_code == 200, answer.text
    assert answer.json()["action"] == "resolve_completed"
    assert answer.json()["before"]["state"] == "unknown"

    retry = site.send("/pay/", key)
    assert (retry.status, retry.body, retry.header("idempotent-replayed")) == (201, b'{"payment": 1}', "true")
    assert retry.header("content-type") == "application/json"
    assert len(site.executions(key)) == 1
    (entry,) = [e for e in alice.get(f"/records/{record['id']}")["timeline"] if e["actor"] == "alice"]
    assert (entry["action"], entry["detail"], entry["attempt"]) == (
        "resolve_completed",
        "case 12",
        record["attempt"],
    )
    assert entry["id"] in [e["id"] for e in alice.get("/audit", attempt=record["attempt"])["entries"]]


def test_resolved_as_not_run_the_retry_runs_once(site):
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    assert alice.change(alice.record(key), "resolve", **NOT_RUN).status_code == 200
    assert site.send("/pay/", key).status == 200
    assert site.send("/pay/", key).header("idempotent-replayed") == "true"
    assert len(site.executions(key)) == 2  # The one that was cut off, and the retry.


def test_a_released_key_is_free_for_another_request(site):
    key = leave_unknown(site, body=b'{"a": 1}')
    alice = Operator(site.envoy)
    assert alice.change(alice.record(key), "release").status_code == 200
    assert site.state(key) is None
    assert site.send("/pay/", key, body=b'{"b": 2}').status == 200


def test_an_outcome_without_its_response_leaves_the_status(site):
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    body = {"outcome": "completed", "response": {"status": 201, "unavailable": True}}
    assert alice.change(alice.record(key), "resolve", **body).status_code == 200
    retry = site.send("/pay/", key)
    assert (retry.status, code_of(retry)) == (409, "idempotency_response_unavailable")


def test_the_upstream_is_asked_again_only_about_unknown_outcomes(site):
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    assert alice.change(alice.record(key), "ask_again", after_seconds=3600).status_code == 200
    assert 3500 < alice.record(key)["next_try_seconds"] <= 3600
    done = new_key()
    site.send("/pay/", done)
    answer = alice.change(alice.record(done), "ask_again")
    assert (answer.status_code, answer.json()["code"]) == (409, "refused")


def test_a_dry_run_says_what_would_happen_and_changes_nothing(site):
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    record = alice.record(key)
    before = store_state(site, key)
    answer = alice.change(record, "resolve", dry_run=True, **NOT_RUN)
    assert (answer.status_code, answer.json()["dry_run"]) == (200, True)
    assert store_state(site, key) == before
    assert not [e for e in alice.get(f"/records/{record['id']}")["timeline"] if e["actor"] == "alice"]


# --- Two at once


def test_of_two_operators_one_settles_and_the_other_is_told(site):
    key = leave_unknown(site)
    people = [Operator(site.envoy, name) for name in ("alice", "bob")]
    record = people[0].record(key)
    bodies = [completed(), NOT_RUN]
    answers = [None, None]
    barrier = threading.Barrier(2)

    def change(i: int) -> None:
        barrier.wait()
        answers[i] = people[i].change(record, "resolve", **bodies[i])

    threads = [threading.Thread(target=change, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    (refused,) = [answer.json() for answer in answers if answer.status_code == 409]
    assert refused["code"] == "refused"
    assert refused["record"]["state"] in ("completed", "failed_retryable")
    timeline = people[0].get(f"/records/{record['id']}")["timeline"]
    assert len([e for e in timeline if e["action"].startswith("resolve_")]) == 1


def test_what_an_operator_saw_must_still_be_so(site):
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    stale = alice.record(key)
    alice.change(stale, "resolve", **NOT_RUN)
    site.send("/pay/", key)  # Another attempt has the record.
    answer = alice.change(stale, "bust")
    assert (answer.status_code, answer.json()["code"]) == (409, "stale")
    assert answer.json()["record"]["attempt"] == str(site.record(key)["attempt"])
    assert site.state(key) == "completed"


def test_a_running_request_is_left_to_its_own_ending(site):
    key = new_key()
    alice = Operator(site.envoy)
    with site.running("/pay/", key) as let_go:
        record = alice.record(key)
        assert (record["state"], record["lease_alive"]) == ("in_progress", True)
        for change, body in (("resolve", completed()), ("resolve", NOT_RUN), ("release", {}), ("bust", {})):
            answer = alice.change(record, change, **body)
            assert (answer.status_code, answer.json()["code"]) == (409, "refused"), change
        response = let_go()
    assert response.status == 200
    assert site.send("/pay/", key).body == response.body
    assert len(site.executions(key)) == 1


# --- Deleting


def test_a_busted_result_is_gone_from_the_cache_within_max_age(make_site, kind):
    site = make_site(kind, change=lambda config: config.filter(replay_cache={"max_age": "1s"}))
    key = new_key()
    first = site.send("/pay/", key)
    assert site.send("/pay/", key).header("idempotent-replayed") == "true"
    alice = Operator(site.envoy)
    assert alice.change(alice.record(key), "bust").status_code == 200
    busted = time.monotonic()
    assert alice.records(key=json.loads(key)) == []
    wait_for(
        lambda: site.send("/pay/", key).header("idempotent-replayed") is None,
        "the request runs again",
        deadline=10,
    )
    assert first.status == 200
    assert len(site.executions(key)) == 2
    assert time.monotonic() - busted < 10


def test_a_purged_tenant_leaves_neither_keys_nor_responses(site):
    key = new_key()
    site.send("/pay/", key, tenant="leaving")
    other = new_key()
    site.send("/pay/", other, tenant="staying")
    alice = Operator(site.envoy)
    body = {"tenant": "leaving", "reason": "contract ended"}
    dry = alice.post("/tenants/purge", {**body, "dry_run": True})
    assert (dry.status_code, dry.json()["records"]) == (200, 1), dry.text
    assert alice.records(tenant="leaving")
    done = alice.post("/tenants/purge", body).json()
    assert (done["records"], done["more"]) == (1, False)
    assert alice.records(tenant="leaving") == []
    assert alice.records(tenant="staying")
    assert alice.get("/audit")["entries"][0]["action"] == "purge"


# --- Who may do what


def test_a_change_needs_an_actor(make_site):
    site = make_site()
    key = leave_unknown(site)
    nobody = Operator(site.envoy, None)
    record = nobody.record(key)
    answer = nobody.change(record, "resolve", **NOT_RUN)
    assert (answer.status_code, answer.json()["code"]) == (403, "actor_missing")
    assert site.state(key) == "unknown"
    # Two lines: not only the trusted filter wrote one.
    headers = [(ACTOR, "alice"), (ACTOR, "mallory")]
    assert nobody.post(f"/records/{record['id']}/bust", {}, headers=headers).status_code == 403


def test_read_only_changes_nothing(make_site):
    site = make_site(read_only=True)
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    record = alice.record(key)
    for change, body in (("resolve", NOT_RUN), ("release", {}), ("bust", {}), ("ask_again", {})):
        answer = alice.change(record, change, **body)
        assert (answer.status_code, answer.json()["code"]) == (403, "read_only")
    assert alice.post("/tenants/purge", {"tenant": "acme", "reason": "r"}).status_code == 403
    assert alice.get("/summary")["read_only"] is True
    assert site.state(key) == "unknown"


def test_a_page_of_another_site_cannot_change_anything(make_site):
    site = make_site()
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    record = alice.record(key)
    path = f"{PREFIX}/records/{record['id']}/resolve"
    body = {"attempt": record["attempt"], "reason": "r", "outcome": "not_run"}
    for origin in ("cross-site", "same-site"):
        answer = alice.http.post(path, json=body, headers={"sec-fetch-site": origin})
        assert (answer.status_code, answer.json()["code"]) == (403, "cross_site")
    # What forms of other sites can send without asking first.
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        headers = {"content-type": media_type} if media_type else {}
        answer = alice.http.post(path, content=json.dumps(body), headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert site.state(key) == "unknown"
    assert alice.http.post(path, json=body, headers={"sec-fetch-site": "same-origin"}).status_code == 200


# --- HTTP


@pytest.mark.parametrize("version", ENVOY_VERSIONS)
def test_each_request_that_makes_no_sense_is_refused_by_its_name(make_site, version):
    site = make_site(version=version, limits={"max_request_bytes": 2048})
    key = leave_unknown(site)
    alice = Operator(site.envoy)
    one = f"/records/{alice.record(key)['id']}"
    cases = [
        ("GET", "/nothing", None, 404, "not_found"),
        ("GET", "/records/AAAA", None, 404, "record_not_found"),
        ("GET", "/records/AAAAAAAA", None, 404, "record_not_found"),
        ("GET", one + "/resolve", None, 405, "method_not_allowed"),
        ("POST", one, {}, 405, "method_not_allowed"),
        ("PUT", "/summary", {}, 405, "method_not_allowed"),
        ("POST", one + "/explode", {}, 404, "not_found"),
        ("GET", "/records?limit=0", None, 400, "invalid_request"),
        ("GET", "/records?colour=red", None, 400, "invalid_request"),
        ("POST", one + "/bust", {}, 400, "invalid_request"),
        ("POST", one + "/bust", {"attempt": "1", "reason": "r" * 3000}, 413, "too_large"),
    ]
    for method, path, body, status, code in cases:
        answer = alice.http.request(method, PREFIX + path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), (method, path)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
    broken = alice.http.post(
        f"{PREFIX}{one}/bust", content=b"{", headers={"content-type": "application/json"}
    )
    assert (broken.status_code, broken.json()["code"]) == (400, "invalid_request")
    assert alice.http.get("/other").status_code == 404
    # Without its length: it is noticed when it comes.
    chunks = alice.http.post(
        f"{PREFIX}{one}/bust",
        content=iter([b"a" * 1500, b"b" * 1500]),
        headers={"content-type": "application/json"},
    )
    assert (chunks.status_code, chunks.json()["code"]) == (413, "too_large")
    assert site.state(key) == "unknown"


def test_head_and_options(make_site):
    alice = Operator(make_site().envoy)
    get = alice.http.get(PREFIX + "/audit")
    head = alice.http.head(PREFIX + "/audit")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]
    options = alice.http.options(PREFIX + "/records")
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    assert alice.http.options(PREFIX + "/tenants/purge").headers["allow"] == "POST, OPTIONS"
    assert "access-control-allow-origin" not in options.headers


# --- The store


def test_a_slow_store_delays_operators_and_no_request(make_site):
    site = make_site()
    key = leave_unknown(site)
    done = new_key()
    site.send("/pay/", done)
    alice = Operator(site.envoy)
    record = alice.record(key)
    answers = []
    with site.store_held() as release:
        waiting = threading.Thread(
            target=lambda: answers.append(alice.change(record, "resolve", **NOT_RUN).status_code)
        )
        waiting.start()
        # The workers answer at once: from the cache, and for what needs no store.
        for _ in range(20):
            assert site.send("/pay/", done).header("idempotent-replayed") == "true"
            assert Operator(site.envoy).http.get("/other").status_code == 404
        assert waiting.is_alive()
        release()
        waiting.join(30)
    assert answers == [200]


def test_a_store_that_is_not_there_is_told_and_found_again(make_site, workspace):
    path = workspace.new_folder("later") / "idempotency.db"
    site = make_site(store={"sqlite": {"path": str(path)}})
    alice = Operator(site.envoy)
    answer = alice.http.get(PREFIX + "/healthz")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.headers["retry-after"]
    site.send("/pay/", new_key())
    path.symlink_to(site.store["sqlite"]["path"])
    assert alice.http.get(PREFIX + "/healthz").status_code == 200


# --- Config


def test_a_reload_of_the_listener_keeps_serving(make_site, workspace):
    files = []
    site = make_site(change=lambda config: files.append(lds(workspace, config)))
    key = leave_unknown(site)
    wait_for(lambda: Operator(site.envoy).http.get(PREFIX + "/healthz").status_code == 200, "it serves")
    file, listeners = files[0]
    (operators,) = [listener for listener in listeners if listener["name"] == OPERATORS]
    manager = operators["filter_chains"][0]["filters"][0]["typed_config"]
    manager["http_filters"][0]["typed_config"]["filter_config"]["value"]["read_only"] = True
    file.write(listeners)
    wait_for(lambda: Operator(site.envoy).get("/summary")["read_only"], "the new config serves")
    assert Operator(site.envoy).record(key)["state"] == "unknown"


def lds(workspace, config):
    listeners = list(config.listeners)
    return ListenerFile(workspace.new_folder("lds"), config), listeners


BAD = {
    "no store": ({"store": None}, "store"),
    "no actor": ({"actor": None}, "actor.sources"),
    "a fixed actor": ({"actor": {"sources": [{"fixed": "root"}]}}, "actor.sources[0].fixed"),
    "unknown field": ({"readonly": True}, "readonly"),
    "a prefix with a slash at its end": ({"prefix": "/ops/"}, "prefix"),
    "a webhook without keys": ({"webhook": {"path": "/hook"}}, "webhook.keys"),
    "keys for an unsigned webhook": (
        {"webhook": {"path": "/hook", "unsigned": True, "keys": [{"id": "a", "file": "/a"}]}},
        "webhook.keys",
    ),
    "two keys with one id": (
        {"webhook": {"path": "/h", "keys": [{"id": "a", "file": "/a"}, {"id": "a", "file": "/b"}]}},
        "webhook.keys[1].id",
    ),
    "a webhook inside of the API": (
        {"webhook": {"path": "/idempotency/v1/hook", "unsigned": True}},
        "webhook.path",
    ),
    "no room": ({"limits": {"max_waiting": 0}}, "limits.max_waiting"),
}


@pytest.mark.parametrize("case", BAD)
def test_validation_names_the_wrong_field(folder, config, case):
    fields, name = BAD[case]
    value = {"store": {"sqlite": {"path": "/tmp/never.db"}}, **FILTER, **fields}
    config.operators_listener(**{name: field for name, field in value.items() if field is not None})
    result = validate(config, folder)
    assert result.returncode == 1, result.stdout
    assert [line for line in result.stdout.splitlines() if "idempotency" in line and name in line]


def test_validation_accepts_a_config_and_reads_no_file(folder, config):
    webhook = {"path": "/hook", "keys": [{"id": "a", "file": str(folder / "absent")}]}
    config.operators_listener({"sqlite": {"path": str(folder / "never.db")}}, **FILTER, webhook=webhook)
    result = validate(config, folder)
    assert result.returncode == 0, result.stdout
    assert not (folder / "never.db").exists()


# --- docs/operator-api.yaml is what the filter does


SPEC = yaml.safe_load((ROOT / "docs" / "operator-api.yaml").read_text())


def resolved(schema: dict) -> dict:
    while "$ref" in schema:
        found = SPEC
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        schema = found
    parts = [resolved(part) for part in schema.get("allOf", [])]
    if parts:
        return {
            "type": "object",
            "required": [name for part in parts for name in part["required"]],
            "properties": {name: one for part in parts for name, one in part["properties"].items()},
        }
    return schema


TYPES = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def check(value, schema: dict, path: str = "") -> None:
    """The answer has the members of the description, with their types, and no others."""
    schema = resolved(schema)
    for choice in schema.get("oneOf", []):
        if (value is None) == (resolved(choice).get("type") == "null"):
            return check(value, choice, path)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    assert not kinds or isinstance(value, tuple(TYPES[kind] for kind in kinds)), f"{path} is {value!r}"
    assert value in schema.get("enum", [value]), f"{path} is {value!r}"
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(item, schema["items"], f"{path}[{i}]")
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        assert set(schema.get("required", [])) <= set(value), path
        for name, member in value.items():
            assert others or name in properties, f"{path}.{name} is not described"
            check(member, others or properties[name], f"{path}.{name}")


def test_the_answers_are_those_of_the_description(site):
    key, done = leave_unknown(site), new_key()
    site.send("/pay/", done)
    alice = Operator(site.envoy)
    record, completed_record = alice.record(key), alice.record(done)
    one, other = (f"/records/{found['id']}" for found in (record, completed_record))
    body = {"attempt": record["attempt"], "reason": "r"}
    calls = [
        ("get", "/v1/healthz", "/healthz", None),
        ("get", "/v1/summary", "/summary", None),
        ("get", "/v1/records", "/records?limit=3", None),
        ("get", "/v1/records", "/records?limit=0", None),
        ("get", "/v1/records/{id}", other, None),
        ("get", "/v1/records/{id}", "/records/AAAA", None),
        ("post", "/v1/records/{id}/ask_again", one + "/ask_again", body),
        ("post", "/v1/records/{id}/bust", one + "/bust", body),
        ("post", "/v1/records/{id}/bust", one + "/bust", {**body, "attempt": "1"}),
        ("post", "/v1/records/{id}/resolve", one + "/resolve", {**body, **NOT_RUN}),
        ("post", "/v1/records/{id}/release", one + "/release", body),
        ("post", "/v1/records/{id}/release", one + "/release", {}),
        ("post", "/v1/tenants/purge", "/tenants/purge", {"tenant": "nothing", "reason": "r"}),
        ("get", "/v1/audit", "/audit", None),
    ]
    assert {(method, path) for method, path, _, _ in calls} == {
        (method, path)
        for path, methods in SPEC["paths"].items()
        for method in methods
        if method in ("get", "post")
    }
    for method, path, url, body in calls:
        answer = alice.http.request(method, PREFIX + url, json=body)
        described = SPEC["paths"][path][method]["responses"]
        assert str(answer.status_code) in described, (path, answer.text)
        ((media_type, content),) = resolved(described[str(answer.status_code)])["content"].items()
        assert answer.headers["content-type"] == media_type
        check(answer.json(), content["schema"], path)


def test_the_description_has_every_problem():
    source = (ROOT / "source" / "operator_api" / "problem.cc").read_text()
    codes = re.findall(r'\{ApiProblem::\w+, "(\w+)"', source)
    assert codes == SPEC["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
