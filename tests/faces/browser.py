"""Browser pages for tests, which record console messages, script errors and foreign requests.

A page is Playwright's `Page`. Tests find elements by role, label and text, as people do. A test fails if one of its pages wrote errors to
the browser's console or sent a request to another server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

TIMEOUT_MS = 30_000  # of waiting for an element
SCREENSHOTS = Path(__file__).parents[2] / "build" / "faces"
DESKTOP, PHONE = (1280, 800), (390, 844)
BROWSER_FLAGS = [  # no requests of the browser's own, and the same rendering everywhere
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--font-render-hinting=none",
    "--no-first-run",
]
SERVER_AWAY_ERRORS = (
    r"net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|SOCKET_NOT_CONNECTED|FAILED)"
)

expect.set_options(timeout=TIMEOUT_MS)


class Visits:
    """The pages of one test, and the problems that they had so far."""

    def __init__(self, browser: Browser, name: str) -> None:
        self._browser = browser
        self._name = name
        self._contexts: list[BrowserContext] = []
        self._ignored: list[re.Pattern[str]] = []
        self.problems: list[str] = []

    def open(
        self, url: str, size: tuple[int, int] = DESKTOP, scheme: Literal["light", "dark"] = "light", motion: bool = False, **options: Any
    ) -> Page:
        """Open a page in a new browser profile, without history and storage."""
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            reduced_motion="no-preference" if motion else "reduce",
            locale="en-GB",
            timezone_id="UTC",
            accept_downloads=True,
            **options,
        )
        self._contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        self._record_problems(context, page, url)
        page.goto(url)
        return page

    def _record_problems(self, context: BrowserContext, page: Page, url: str) -> None:
        origin = re.match(r"\w+://[^/]+", url)
        assert origin, f"{url} is no address"
        own = (f"{origin[0]}/", "blob:", "data:", "about:blank")

        def on_request(request: Request) -> None:
            if not f"{request.url}/".startswith(own):
                self.problems.append(f"the page requested {request.url}")

        def on_console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and not any(pattern.search(message.text) for pattern in self._ignored):
                self.problems.append(f"the browser's console: {message.type}: {message.text} ({message.location['url']})")

        context.on("request", on_request)
        context.on("console", on_console)
        page.on("pageerror", lambda error: self.problems.append(f"the page's script failed: {error}"))

    @contextmanager
    def ignoring_errors(self, pattern: str = SERVER_AWAY_ERRORS) -> Iterator[None]:
        """Ignore console messages that the browser writes itself, as for a server that is away."""
        ignored = re.compile(pattern)
        self._ignored.append(ignored)
        try:
            yield
        finally:
            for context in self._contexts:
                for page in context.pages:
                    page.evaluate("1")  # earlier messages have arrived when this has
            self._ignored.remove(ignored)

    def take_screenshot(self, page: Page, name: str = "", whole: bool = False) -> Path:
        """Save a screenshot as build/faces/TEST-NAME.png."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{self._name}{f'-{name}' if name else ''}.png"
        page.screenshot(path=path, full_page=whole)
        return path

    def close(self, failed: bool = False) -> None:
        """Close the pages. If the test failed, save a screenshot of each."""
        for number, context in enumerate(self._contexts):
            for page in context.pages:
                if failed:
                    self.take_screenshot(page, f"failed-{number}")
                page.evaluate("1")
            context.close()
        self._contexts.clear()
