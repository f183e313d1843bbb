"""A real browser: Debian's Chromium, with the operators' page in it."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from .config import OPERATORS
from .envoy import Envoy
from .operators import ACTOR
from .paths import CACHE

_CHROMIUM = "/usr/bin/chromium"
# Nothing of the browser's own business: each test sees the requests of the page alone.
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_AXE = CACHE / "axe" / "axe.min.js"
SCREENS = CACHE / "screens"
PAGE = "/idempotency/"

# Tells the test what the policy has stopped; the console does too, but in words that change.
_WATCH_POLICY = """
addEventListener('securitypolicyviolation', (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """With a profile of its own, which is removed at the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One operator in front of the page, and everything that the page did."""

    def __init__(self, browser: Browser, envoy: Envoy, name: str = "alice", **options) -> None:
        self.origin = f"http://127.0.0.1:{envoy.port_of(OPERATORS)}"
        self.context: BrowserContext = browser.new_context(extra_http_headers={ACTOR: name}, **options)
        self.context.add_init_script(_WATCH_POLICY)
        self.page: Page = self.context.new_page()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._on_console)
        self.page.on("dialog", self._on_dialog)

    def open(self, view: str = "") -> Page:
        self.page.goto(self.origin + PAGE + view)
        self.page.locator("h1").wait_for()
        return self.page

    def close(self) -> None:
        """The page has asked its own server alone, and nothing went wrong in it."""
        self.context.close()
        assert [url for url in self.requests if not url.startswith(self.origin + PAGE)] == []
        assert self.errors == []

    def accessibility_faults(self) -> list[tuple]:
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_AXE.read_text())
        found = self.page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
        return [(fault["id"], fault["help"], fault["nodes"][0]["html"]) for fault in found]

    def screenshot(self, name: str) -> None:
        SCREENS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENS / f"{name}.png", full_page=True)

    def _on_console(self, message) -> None:
        # Chromium itself says so of every answer from 400 on.
        if message.type == "error" and not message.text.startswith("Failed to load resource: the server"):
            self.errors.append(message.text)

    def _on_dialog(self, dialog) -> None:
        self.errors.append(f"a dialog of a script: {dialog.message}")
        dialog.dismiss()
