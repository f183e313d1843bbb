"""The operators' page in a real browser, served by a real Envoy: what an engineer on call sees and does.

At the end of each visit: no request went elsewhere, no script failed, and the content policy stopped nothing.
"""

import contextlib
import json
import re
import sqlite3
import urllib.parse

import httpx
import pytest
from harness.browser import PAGE, Visit, chromium
from harness.config import OPERATORS
from harness.operators import ACTOR, NOT_RUN, Operator, completed
from harness.site import Site, code_of, new_key
from playwright.sync_api import Page, Route, expect

ROUTES = {"pay": {"operation": "create-payment"}, "secret": {"operation": "make-token"}}
FILTER = {"actor": {"sources": [{"header": ACTOR}]}, "show_responses": ["create-payment"]}

expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def make_site(workspace, **fields) -> Site:
    def add_listener(config):
        config.operators_listener(**{"store": config.our_value["store"], **FILTER, **fields})

    return Site(workspace, ROUTES, change=add_listener)


@pytest.fixture(scope="module")
def site(module_workspace):
    """One for all tests: each has keys of its own, and most a tenant."""
    return make_site(module_workspace)


@pytest.fixture
def visit(browser, site):
    with visiting(browser, site) as made:
        yield made


@contextlib.contextmanager
def visiting(browser, site: Site, **options):
    made = Visit(browser, site.envoy, **options)
    try:
        yield made
    finally:
        made.close()


def leave_unknown(site: Site, path: str = "/pay/", key: str | None = None, **options) -> str:
    """A key whose request has reached the upstream, which cut the connection."""
    key = key or new_key()
    assert site.send(path, key, fault="reset_after_read", **options).status == 503
    site.wait_for_state(key, "unknown")
    return key


def record_of(site: Site, key: str) -> dict:
    return Operator(site.envoy).record(key)


def open_record(visit: Visit, site: Site, key: str) -> Page:
    page = visit.open(f"#/record/{record_of(site, key)['id']}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(json.loads(key))
    return page


def choose(page: Page, change: str, reason: str = "asked the bank") -> None:
    page.get_by_role("button", name=change, exact=True).click()
    expect(page.get_by_role("dialog", name=change)).to_be_visible()
    page.get_by_label("Reason").fill(reason)


def check(page: Page) -> None:
    page.get_by_role("button", name="Check").click()


def first_of(requests: list[Route], page: Page) -> Route:
    """What the page sends sooner or later."""
    for _ in range(1000):
        if requests:
            return requests[0]
        page.wait_for_timeout(10)
    raise AssertionError("the page did not send it")


def headline(page: Page):
    return page.get_by_role("heading", level=1)


# --- The way from the alert to the settled record


def test_the_first_screen_leads_to_the_record_and_its_response_is_replayed(site, visit):
    key = leave_unknown(site, tenant="first")
    page = visit.open()
    expect(headline(page)).to_contain_text("stuck with an unknown outcome")
    expect(page.get_by_text("The oldest has been stuck for")).to_be_visible()
    operations = page.get_by_role("table", name="Affected operations")
    expect(operations.get_by_role("link", name="create-payment")).to_be_visible()
    tenants = page.get_by_role("table", name="Affected tenants")
    tenants.get_by_role("link", name="first").click()
    expect(headline(page)).to_have_text("Records: unknown")
    page.get_by_role("link", name=json.loads(key)).click()
    expect(headline(page)).to_contain_text(json.loads(key))

    choose(page, "Resolve: completed", "seen in the service's log")
    expect(page.locator("#consequence")).to_contain_text("No request with this key runs again")
    page.get_by_label("Status of the response").fill("201")
    page.get_by_label("Headers, one per line").fill("content-type: application/json\nlocation: /payments/7")
    page.get_by_label("Body").fill('{"payment": 7}')
    check(page)
    expect(page.get_by_text("Nothing has been changed yet")).to_be_visible()
    assert site.state(key) == "unknown"
    page.get_by_role("button", name="Resolve as completed").click()
    expect(page.get_by_text("The request ran. Retries get its stored response.")).to_be_visible()
    expect(headline(page)).to_be_focused()
    expect(page.locator("#announcer")).to_contain_text("resolved as completed")
    expect(page.locator(".timeline")).to_contain_text("Resolved as completed")
    expect(page.locator(".timeline")).to_contain_text("by alice")
    expect(page.locator(".timeline")).to_contain_text("seen in the service's log")
    expect(page.get_by_label("Body")).to_have_text('{"payment": 7}')

    retry = site.send("/pay/", key, tenant="first")
    assert (retry.status, retry.body) == (201, b'{"payment": 7}')
    assert retry.header("location") == "/payments/7"
    assert retry.header("idempotent-replayed") == "true"
    assert len(site.executions(key)) == 1


def test_a_record_resolved_as_not_run_runs_once_more(site, visit):
    key = leave_unknown(site)
    page = open_record(visit, site, key)
    choose(page, "Resolve: not run")
    expect(page.locator("#consequence")).to_contain_text("carried out twice")
    check(page)
    page.get_by_role("button", name="Resolve as not run").click()
    expect(page.locator(".timeline")).to_contain_text("Resolved as not run")
    assert [site.send("/pay/", key).status for _ in range(3)] == [200, 200, 200]
    assert len(site.executions(key)) == 2  # The one that was cut, and this one.


def test_a_response_that_nobody_knows_is_not_made_up(site, visit):
    key = leave_unknown(site)
    page = open_record(visit, site, key)
    choose(page, "Resolve: completed")
    page.get_by_label("I know only the status").check()
    expect(page.get_by_label("Body")).to_be_hidden()
    check(page)
    page.get_by_role("button", name="Resolve as completed").click()
    expect(page.get_by_text("The response could not be stored.")).to_be_visible()
    retry = site.send("/pay/", key)
    assert (retry.status, code_of(retry)) == (409, "idempotency_response_unavailable")
    assert len(site.executions(key)) == 1


@pytest.mark.parametrize(("change", "confirm"), [("Release", "Release the key"), ("Bust", "Bust the result")])
def test_a_key_is_freed(site, visit, change, confirm):
    key = leave_unknown(site)
    if change == "Bust":
        alice = Operator(site.envoy)
        assert alice.change(alice.record(key), "resolve", **completed()).status_code == 200
    page = open_record(visit, site, key)
    choose(page, change)
    expect(page.locator("#consequence")).to_contain_text(
        "The next request with this key runs" if change == "Bust" else "The key is free"
    )
    check(page)
    page.get_by_role("button", name=confirm).click()
    expect(headline(page)).to_have_text("There is no such record")
    assert site.state(key) is None


def test_asking_again_is_planned_and_audited(site, visit):
    key = leave_unknown(site)
    page = open_record(visit, site, key)
    choose(page, "Ask again")
    check(page)
    page.locator("#confirm").click()
    expect(page.locator(".timeline")).to_contain_text("The upstream is to be asked again")
    assert site.state(key) == "unknown"
    assert record_of(site, key)["next_try_seconds"] is not None


def test_what_was_checked_is_what_is_confirmed(site, visit):
    """After a check, an edit needs another check."""
    key = leave_unknown(site)
    page = open_record(visit, site, key)
    choose(page, "Resolve: not run")
    check(page)
    expect(page.locator("#confirm")).to_be_visible()
    page.get_by_label("Reason").fill("another ticket")
    expect(page.locator("#confirm")).to_be_hidden()
    expect(page.get_by_role("button", name="Check")).to_be_visible()


def test_nothing_is_edited_while_the_store_is_asked(site, visit):
    page = open_record(visit, site, leave_unknown(site))
    choose(page, "Resolve: not run")
    waiting = []
    page.route("**/resolve", lambda route: waiting.append(route))
    check(page)
    for control in (page.get_by_label("Reason"), page.get_by_role("button", name="Check")):
        expect(control).to_be_disabled()
    first_of(waiting, page).continue_()
    expect(page.locator("#confirm")).to_be_focused()
    expect(page.get_by_label("Reason")).to_be_enabled()


# --- When others act meanwhile


@pytest.mark.parametrize("when", ["before the check", "before the confirmation"])
def test_a_record_that_has_changed_is_not_changed_again(site, visit, when):
    key = leave_unknown(site)
    seen = record_of(site, key)
    page = open_record(visit, site, key)
    choose(page, "Resolve: not run")
    if when == "before the confirmation":
        check(page)
        expect(page.locator("#confirm")).to_be_visible()

    # Another operator resolves it, and the next request is cut too: another attempt.
    assert Operator(site.envoy, "bob").change(seen, "resolve", **NOT_RUN).status_code == 200
    leave_unknown(site, key=key)
    now = record_of(site, key)
    assert now["attempt"] != seen["attempt"]

    page.locator("#check, #confirm").filter(visible=True).click()
    stale = page.locator("#stale")
    expect(stale).to_contain_text("The record has changed since you opened it. Your change was not made.")
    expect(stale).to_contain_text(seen["attempt"])
    expect(stale).to_contain_text(now["attempt"])
    assert (site.state(key), record_of(site, key)["attempt"]) == ("unknown", now["attempt"])
    page.get_by_role("button", name="Show the record as it is now").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator(".facts").first).to_contain_text(now["attempt"])


def test_the_page_follows_what_happens(site, browser):
    key = leave_unknown(site, tenant="live")
    with visiting(browser, site) as visit:
        visit.page.clock.install()
        page = open_record(visit, site, key)
        assert (
            Operator(site.envoy, "bob").change(record_of(site, key), "resolve", **NOT_RUN).status_code == 200
        )
        expect(page.get_by_role("button", name="Resolve: not run")).to_be_visible()
        page.clock.run_for(6_000)
        expect(page.locator(".timeline")).to_contain_text("by bob")
        expect(page.locator("#announcer")).to_have_text("The record has changed.")
        expect(page.get_by_role("button", name="Resolve: not run")).to_be_hidden()


def test_a_hidden_page_asks_nothing(site, browser):
    with visiting(browser, site) as visit:
        visit.page.clock.install()
        page = visit.open()

        def hide(hidden: bool) -> None:
            page.evaluate(
                "(value) => { Object.defineProperty(document, 'hidden', { value, configurable: true });"
                " document.dispatchEvent(new Event('visibilitychange')); }",
                hidden,
            )

        hide(True)
        expect(page.locator("#freshness")).to_have_text("Paused")
        before = len(visit.requests)
        page.clock.run_for(60_000)
        assert len(visit.requests) == before
        hide(False)
        expect(page.locator("#freshness")).to_contain_text("Updated")
        assert len(visit.requests) > before


STORE_FAILS = {
    "status": 503,
    "content_type": "application/problem+json",
    "body": json.dumps(
        {
            "title": "Store unavailable",
            "status": 503,
            "code": "store_unavailable",
            "detail": "The store did not answer.",
        }
    ),
}


def test_a_store_that_fails_is_said(site, visit):
    page = visit.open()
    page.route("**/v1/summary", lambda route: route.fulfill(**STORE_FAILS))
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("The store did not answer.")
    page.unroute("**/v1/summary")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Records by state")).to_be_visible()


# --- Lists


def test_a_list_has_pages_and_filters(site, visit):
    keys = [new_key() for _ in range(51)]
    with site.connect() as connection:
        for key in keys:
            site.begin(connection, "/pay/", key, tenant="many")
            assert connection.read_response().status == 200
    page = visit.open("#/records")
    page.get_by_label("Tenant").fill("many")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("heading", name="Tenant many")).to_be_visible()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    seen = set(page.locator("tbody th").all_inner_texts())
    page.get_by_role("link", name="Next page").click()
    expect(rows).to_have_count(1)
    seen |= set(page.locator("tbody th").all_inner_texts())
    assert seen == {json.loads(key) for key in keys}
    expect(page.get_by_role("link", name="Next page")).to_have_count(0)
    page.get_by_role("link", name="First page").click()
    expect(rows).to_have_count(50)

    page.get_by_text("More filters").click()
    page.get_by_label("Key hash").fill(record_of(site, keys[7])["key_hash"])
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("tbody th")).to_have_text([json.loads(keys[7])])
    page.get_by_label("Minimum age").fill("x")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("min_age_seconds")


# --- The audit


def test_the_audit_leads_to_the_record_and_back(site, visit):
    key = leave_unknown(site, tenant="audited")
    record = record_of(site, key)
    alice = Operator(site.envoy)
    assert alice.change(record, "ask_again", reason="first").status_code == 200
    assert alice.change(record, "resolve", reason="then", **NOT_RUN).status_code == 200
    page = visit.open()
    page.get_by_role("link", name="Audit", exact=True).click()
    expect(headline(page)).to_have_text("Audit")
    expect(headline(page)).to_be_focused()
    expect(page.get_by_role("link", name="Audit", exact=True)).to_have_attribute("aria-current", "page")
    page.get_by_label("Tenant").fill("audited")
    page.get_by_label("Attempt").fill(record["attempt"])
    page.get_by_role("button", name="Apply").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(page.locator("#announcer")).to_have_text("2 entries")
    for part in ("Resolved as not run", "alice", "then", "create-payment", record["attempt"]):
        expect(rows.nth(0)).to_contain_text(part)
    for part in ("The upstream is to be asked again", "first"):
        expect(rows.nth(1)).to_contain_text(part)
    rows.nth(0).get_by_role("link", name=json.loads(key)).click()
    expect(headline(page)).to_contain_text(json.loads(key))
    page.get_by_role("link", name="This key in the audit").click()
    expect(rows).to_have_count(2)
    expect(page.get_by_label("Key", exact=True)).to_have_value(json.loads(key))
    page.get_by_role("link", name="Records of the tenant audited").click()
    expect(page.locator("tbody th")).to_have_text([json.loads(key)])


def test_the_audit_has_pages_newest_first(site, visit):
    record = record_of(site, leave_unknown(site, tenant="long"))
    alice = Operator(site.envoy)
    for number in range(51):
        assert alice.change(record, "ask_again", reason=f"number {number}").status_code == 200
    page = visit.open("#/audit?tenant=long")
    details = page.locator('td[data-column="Detail"]')
    expect(details).to_have_text([f"number {number}" for number in reversed(range(1, 51))])
    page.get_by_role("link", name="Next page").click()
    expect(details).to_have_text(["number 0"])
    expect(page.get_by_role("link", name="Next page")).to_have_count(0)
    page.get_by_role("link", name="First page").click()
    expect(details).to_have_count(50)
    page.get_by_label("Attempt").fill("x")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("attempt")


# --- The purge of a tenant


def fill_tenant(site: Site, tenant: str, records: int = 2) -> list[str]:
    """Completed records of the tenant; their keys."""
    keys = [new_key() for _ in range(records)]
    assert [site.send("/pay/", key, tenant=tenant).status for key in keys] == [200] * records
    return keys


def open_purge(visit: Visit, tenant: str, typed: str | None = None) -> Page:
    page = visit.open("#/records?" + urllib.parse.urlencode({"tenant": tenant}))
    page.get_by_role("button", name="Purge the tenant").click()
    expect(page.get_by_role("dialog", name="Purge the tenant")).to_be_visible()
    page.get_by_label("Type the name of the tenant").fill(tenant if typed is None else typed)
    page.get_by_label("Reason").fill("contract 7 has ended")
    check(page)
    return page


def stated(page: Page) -> list[int]:
    """Records, of these unknown, left running, entries of the audit: as the dialog says."""
    expect(page.locator("#outcome dd")).to_have_count(4)
    return [int(number) for number in page.locator("#outcome dd").all_inner_texts()]


def test_a_purge_says_what_goes_and_deletes_the_tenant(site, visit):
    keys = fill_tenant(site, "leaving", 3)
    unknown = leave_unknown(site, tenant="leaving")
    alice = Operator(site.envoy)
    assert alice.change(alice.record(unknown), "ask_again", reason="secret of leaving").status_code == 200
    (other,) = fill_tenant(site, "leaving-not", 1)
    running = new_key()
    with site.running("/pay/", running, tenant="leaving"):
        page = open_purge(visit, "leaving")
        expect(page.locator("#consequence")).to_contain_text("also if that request has run before")
        expect(page.locator("#consequence")).to_contain_text("cannot be undone")
        expect(page.get_by_text("Nothing has been changed yet")).to_be_visible()
        assert stated(page) == [4, 1, 1, 1]
        expect(page.locator("#outcome")).to_contain_text("Settle the unknown outcomes first")
        assert [site.state(key) for key in [*keys, unknown]] == ["completed"] * 3 + ["unknown"]

        page.get_by_role("button", name="Purge 4 records", exact=True).click()
        expect(page.get_by_text("The tenant is purged.")).to_be_visible()
        assert stated(page) == [4, 1, 1, 1]
        expect(page.locator("#outcome")).to_contain_text("Purge it again when these requests have ended")
        expect(page.get_by_role("button", name="Close")).to_be_focused()
        assert [site.state(key) for key in [*keys, unknown]] == [None] * 4
        assert (site.state(running), site.state(other)) == ("in_progress", "completed")
        page.get_by_role("button", name="Close").click()
        expect(page.locator("tbody th")).to_have_text([json.loads(running)])
        expect(page.locator("#announcer")).to_have_text("The tenant is purged.")
        expect(headline(page)).to_be_focused()
    page = visit.open("#/audit")
    newest = page.locator("tbody tr").first
    for part in ("The tenant was purged", "4 records", "alice", "contract 7 has ended"):
        expect(newest).to_contain_text(part)
    expect(page.locator("main")).not_to_contain_text("secret of leaving")


@pytest.mark.parametrize("typed", ["", "stayin", "Staying", "staying "])
def test_a_purge_needs_the_name_of_the_tenant(site, visit, typed):
    (key,) = fill_tenant(site, "staying", 1)
    page = open_purge(visit, "staying", typed)
    if typed:
        expect(page.get_by_role("alert")).to_contain_text("This is not the name of the tenant")
    expect(page.locator("#confirm")).to_be_hidden()
    assert [url for url in visit.requests if url.endswith("/purge")] == []
    assert site.state(key) == "completed"


def test_a_purge_needs_a_reason_and_another_check_after_an_edit(site, visit):
    (key,) = fill_tenant(site, "edited", 1)
    page = open_purge(visit, "edited")
    expect(page.locator("#confirm")).to_be_visible()
    page.get_by_label("Type the name of the tenant").fill("edite")
    expect(page.locator("#confirm")).to_be_hidden()
    page.get_by_label("Type the name of the tenant").fill("edited")
    page.get_by_label("Reason").fill("")
    check(page)
    expect(page.locator("#confirm")).to_be_hidden()
    assert site.state(key) == "completed"


def test_a_tenant_without_records_is_not_purged(site, visit):
    page = open_purge(visit, "nobody")
    expect(page.get_by_text("There is nothing to purge.")).to_be_visible()
    expect(page.locator("#confirm")).to_be_hidden()


class Steps:
    """From now on, each step of a purge deletes two records; the step with the number `held` waits."""

    def __init__(self, page: Page, held: int = 0) -> None:
        self.page = page
        self.bodies = []
        self._held = held
        self._waiting = []
        page.route("**/v1/tenants/purge", self._handle)

    def _handle(self, route) -> None:
        body = route.request.post_data_json
        if body["dry_run"]:
            route.continue_()
            return
        self.bodies.append({**body, "limit": 2})
        if len(self.bodies) == self._held:
            self._waiting.append(route)
        else:
            self.go_on(route)

    def held(self) -> Route:
        return first_of(self._waiting, self.page)

    def go_on(self, route: Route) -> None:
        route.continue_(post_data=json.dumps(self.bodies[-1]))


def test_a_purge_goes_on_until_all_is_gone(site, visit):
    keys = fill_tenant(site, "large", 7)
    page = open_purge(visit, "large")
    assert stated(page) == [7, 0, 0, 0]
    steps = Steps(page)
    page.get_by_role("button", name="Purge 7 records").click()
    expect(page.get_by_text("The tenant is purged.")).to_be_visible()
    assert stated(page) == [7, 0, 0, 0]
    assert len(steps.bodies) == 4
    assert {(body["tenant"], body["reason"]) for body in steps.bodies} == {("large", "contract 7 has ended")}
    assert {site.state(key) for key in keys} == {None}


@pytest.mark.parametrize("stop", ["Stop", "Escape"])
def test_a_purge_can_be_stopped(site, visit, stop):
    keys = fill_tenant(site, f"stopped-by-{stop}", 7)
    page = open_purge(visit, f"stopped-by-{stop}")
    expect(page.locator("#confirm")).to_be_visible()
    steps = Steps(page, held=2)
    page.get_by_role("button", name="Purge 7 records").click()
    expect(page.locator("#progress")).to_have_text("2 records deleted so far.")
    expect(page.get_by_role("button", name="Stop")).to_be_focused()
    expect(page.get_by_label("Reason")).to_be_disabled()
    if stop == "Stop":
        page.get_by_role("button", name="Stop").click()
    else:
        page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    steps.go_on(steps.held())  # The step that had begun is finished.
    expect(page.locator("#announcer")).to_have_text("Stopped: 4 records deleted so far.")
    expect(page.locator("tbody tr")).to_have_count(3)
    assert [site.state(key) for key in keys].count(None) == 4
    assert len(steps.bodies) == 2


def test_a_purge_that_fails_says_how_far_it_came(site, visit):
    keys = fill_tenant(site, "broken", 5)
    page = open_purge(visit, "broken")
    expect(page.locator("#confirm")).to_be_visible()
    steps = Steps(page, held=2)
    page.get_by_role("button", name="Purge 5 records").click()
    expect(page.locator("#progress")).to_have_text("2 records deleted so far.")
    steps.held().fulfill(**STORE_FAILS)
    expect(page.get_by_role("alert")).to_contain_text("The store did not answer.")
    expect(page.locator("#outcome")).to_contain_text("2 records deleted so far.")
    expect(page.get_by_role("button", name="Check")).to_be_focused()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    check(page)
    page.get_by_role("button", name="Purge 3 records").click()
    expect(page.get_by_text("The tenant is purged.")).to_be_visible()
    assert stated(page)[0] == 5
    assert {site.state(key) for key in keys} == {None}


# --- What the configuration withholds


def test_a_response_is_shown_only_where_the_config_allows_it(site, visit):
    shown, hidden = new_key(), new_key()
    assert site.send("/pay/", shown).status == 200
    assert site.send("/secret/", hidden).status == 200
    page = open_record(visit, site, shown)
    expect(page.get_by_label("Body")).to_have_text(site.send("/pay/", shown).body.decode())
    page = open_record(visit, site, hidden)
    expect(page.get_by_text("The configuration does not show responses of this operation")).to_be_visible()
    expect(page.get_by_label("Body")).to_have_count(0)


def test_read_only_shows_everything_and_changes_nothing(browser, workspace):
    site = make_site(workspace, read_only=True)
    with visiting(browser, site) as visit:
        page = visit.open()
        expect(headline(page)).to_have_text("Nothing is stuck")
        key = leave_unknown(site)
        page = open_record(visit, site, key)
        expect(page.get_by_text("Read-only", exact=True)).to_be_visible()
        expect(page.get_by_text("its configuration allows no changes")).to_be_visible()
        expect(page.locator("main button")).to_have_count(0)
        page = visit.open("#/records?tenant=acme")
        expect(page.get_by_role("link", name="Show its audit")).to_be_visible()
        expect(page.get_by_role("button", name="Purge the tenant")).to_have_count(0)
        page.get_by_role("link", name="Show its audit").click()
        expect(page.get_by_label("Results")).to_contain_text("No entry matches.")


# --- Hostile text


ATTACKS = [
    "<script>alert('ran')</script><img src=x onerror=alert('ran')>",
    "javascript:alert('ran')//\"'><svg/onload=alert('ran')>",
    "user\u202egpj.exe\u2066\u200b",
]


@pytest.fixture(scope="module")
def hostile_site(module_workspace):
    return make_site(module_workspace, show_responses=["*"])


def plant(site: Site, attack: str) -> dict:
    """A record whose every text is the attack. The store takes more than Envoy would let through."""
    key, text = leave_unknown(site), attack.encode()
    with contextlib.closing(sqlite3.connect(site.store["sqlite"]["path"], timeout=20)) as db, db:
        db.execute(
            "UPDATE record SET tenant = ?, operation = ?, key = ?, last_error = ? WHERE key = ?",
            [text, text, text, attack, json.loads(key).encode()],
        )
    (record,) = Operator(site.envoy).records(key=attack)
    return record


def judge(page: Page) -> None:
    """Nothing of the text is an element, and all links stay on the page."""
    assert page.locator("main, dialog").locator("script, img, svg, b").count() == 0
    links = page.eval_on_selector_all("a", "all => all.map(link => link.getAttribute('href'))")
    assert [link for link in links if not link.startswith("#/")] == []


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_from_outside_is_never_markup(browser, hostile_site, attack):
    """In tenant, operation, key, error, reason, actor, and the response; in every view and every link."""
    site = hostile_site
    record = plant(site, attack)
    spelled = re.sub("[\u200b\u202e\u2066]", lambda found: f"U+{ord(found[0]):04X}", attack)
    with visiting(browser, site) as visit:
        page = visit.open()
        expect(page.get_by_role("table", name="Affected operations")).to_contain_text(spelled)
        expect(page.get_by_role("table", name="Affected tenants")).to_contain_text(spelled)

        mallory = Operator(site.envoy, "<b>mallory</b>")
        body = completed(body=attack)
        assert mallory.change(record, "resolve", **body, reason=attack).status_code == 200
        visit.open("#/records?state=completed")
        expect(headline(page)).to_have_text("Records: completed")
        page.get_by_role("region", name="Results").get_by_role("link", name=spelled).click()
        expect(headline(page)).to_contain_text(spelled)
        expect(page.locator(".timeline")).to_contain_text("by <b>mallory</b>")
        expect(page.locator(".timeline")).to_contain_text(spelled)
        expect(page.get_by_label("Body")).to_have_text(spelled)
        choose(page, "Bust", attack)
        check(page)
        expect(page.locator("#confirm")).to_be_visible()
        judge(page)

        page = visit.open("#/audit")
        row = page.locator("tbody tr").first
        expect(row).to_contain_text("<b>mallory</b>")
        expect(row.locator("td").last).to_have_text(spelled)
        expect(row).to_contain_text(f"{spelled} · tenant {spelled}")
        judge(page)

        # A reader can type what the page shows.
        page = open_purge(visit, attack, spelled)
        expect(page.get_by_role("dialog")).to_contain_text(spelled)
        expect(page.locator("#confirm")).to_have_text("Purge 1 record")
        judge(page)
        page.locator("#confirm").click()
        expect(page.get_by_text("The tenant is purged.")).to_be_visible()
        assert Operator(site.envoy).records(key=attack) == []


@pytest.mark.parametrize(
    "address",
    [
        "#/record/<img src=x onerror=alert(1)>",
        "#/record/../summary",
        "#/record/%2e%2e",
        "#/records?state=<script>",
        "#/records?tenant=<img src=x onerror=alert(1)>",
        "#/audit?tenant=<script>alert(1)</script>&attempt=x",
        "#javascript:alert(1)",
    ],
)
def test_an_address_from_outside_does_no_harm(visit, address):
    page = visit.open(address)
    expect(headline(page)).to_be_visible()
    assert page.locator("main script, main img").count() == 0


INTRUSIONS = {
    "markup": "document.body.innerHTML = '<b>markup</b>'",
    "handler": "document.body.setAttribute('onclick', 'window.ran = 1')",
    "elsewhere": "fetch('http://127.0.0.1:9/')",
    "image": "document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:9/' }))",
    "style": "document.body.setAttribute('style', 'color: red')",
}


def test_the_policy_stops_what_would_get_in(site, browser):
    """What the other tests rely on: the policy works, and a test sees what it stops."""
    visit = Visit(browser, site.envoy)
    page = visit.open()
    for name, intrusion in INTRUSIONS.items():
        visit.errors.clear()
        with page.expect_console_message(lambda message: message.text.startswith("policy violated")):
            page.evaluate(f"async () => {{ try {{ await ({intrusion}); }} catch {{ }} }}")
        assert visit.errors != [], name
    assert page.evaluate("document.body.style.color") == ""
    visit.context.close()


# --- For everybody


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_every_view_is_accessible_and_fits(site, browser, scheme, width):
    key = leave_unknown(site, tenant="a-tenant-with-a-rather-long-name")
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    with visiting(browser, site, **options) as visit:

        def judge(name: str) -> None:
            visit.screenshot(f"{name}-{scheme}-{width}")
            assert visit.accessibility_faults() == [], name
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width, name

        page = visit.open()
        judge("overview")
        page = visit.open("#/records?state=unknown")
        expect(page.locator("tbody tr").first).to_be_visible()
        judge("list")
        page = open_record(visit, site, key)
        judge("record")
        choose(page, "Resolve: completed")
        judge("resolve")
        check(page)
        expect(page.locator("#confirm")).to_be_visible()
        judge("confirm")
        page.get_by_role("button", name="Cancel").click()
        alice = Operator(site.envoy)
        assert (
            alice.change(alice.record(key), "ask_again", reason="a reason of some length").status_code == 200
        )
        page = visit.open("#/audit")
        expect(page.locator("tbody tr").first).to_contain_text("a reason of some length")
        judge("audit")
        page = open_purge(visit, "a-tenant-with-a-rather-long-name")
        expect(page.locator("#confirm")).to_be_visible()
        judge("purge")
        page.get_by_label("Type the name").fill("another")
        check(page)
        expect(page.get_by_role("alert")).to_be_visible()
        judge("purge-refused")
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("button", name="Purge the tenant")).to_be_visible()
        judge("tenant")


def tab_to(page: Page, target) -> None:
    for _ in range(200):
        if target.evaluate("(element) => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("cannot be reached with the Tab key")


def test_the_keyboard_is_enough_for_a_purge(site, visit):
    (key,) = fill_tenant(site, "typed", 1)
    page = visit.open("#/records?tenant=typed")
    button = page.get_by_role("button", name="Purge the tenant")
    expect(button).to_be_visible()
    tab_to(page, button)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    tab_to(page, page.get_by_label("Type the name of the tenant"))
    page.keyboard.type("typed")
    page.keyboard.press("Tab")
    page.keyboard.type("contract 7 has ended")
    page.keyboard.press("Enter")
    expect(page.locator("#confirm")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(headline(page)).to_be_focused()
    expect(page.get_by_label("Results")).to_contain_text("No record matches.")
    assert site.state(key) is None


def test_the_keyboard_is_enough(site, visit):
    key = leave_unknown(site)
    page = visit.open("#/records?state=unknown")
    link = page.get_by_role("link", name=json.loads(key))
    expect(link).to_be_visible()
    tab_to(page, link)
    page.keyboard.press("Enter")
    expect(headline(page)).to_be_focused()
    button = page.get_by_role("button", name="Resolve: not run")
    tab_to(page, button)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("Reason"))
    page.keyboard.type("asked the bank")
    page.keyboard.press("Enter")
    expect(page.locator("#confirm")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".timeline")).to_contain_text("Resolved as not run")


def test_a_dialog_that_is_closed_and_opened_in_one_moment_is_whole(site, visit):
    key = leave_unknown(site)
    page = visit.open("#/records?state=unknown")
    page.get_by_role("link", name=json.loads(key)).click()
    button = page.get_by_role("button", name="Resolve: not run")
    button.click()
    expect(page.get_by_label("Reason")).to_be_visible()
    # The browser tells the page of the first closing only after the second opening.
    assert button.evaluate(
        """(button) => {
          const dialog = document.querySelector("dialog");
          const told = new Promise((done) => dialog.addEventListener("close", () => done(true)));
          dialog.close();
          button.click();
          return told;
        }"""
    )
    expect(page.get_by_label("Reason")).to_be_visible()


# --- The files


def test_the_files_have_strict_headers(site):
    with httpx.Client(base_url=f"http://127.0.0.1:{site.envoy.port_of(OPERATORS)}") as client:
        moved = client.get(PAGE.removesuffix("/"))
        assert (moved.status_code, moved.headers["location"]) == (308, PAGE)
        for name in ("", "index.html", "page.js", "page.css", "icon.svg"):
            answer = client.get(PAGE + name)
            assert answer.status_code == 200, name
            assert answer.headers["content-security-policy"].startswith(
                "default-src 'none'; script-src 'self';"
            )
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["referrer-policy"] == "no-referrer"
            head = client.head(PAGE + name)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == str(len(answer.content))
            assert client.post(PAGE + name).status_code == 405
        assert client.get(PAGE + "page.mjs").status_code == 404
        assert client.get(PAGE + "../idempotency/page.js%00").status_code == 404
