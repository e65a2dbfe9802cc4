"""A browser with a person before it: pages are opened, watched and pictured.

A page is Playwright's own `Page`: find things by role, label and text, as whoever sees or hears the page does. When a test is over, its
pages must have said nothing in the browser's console and asked nobody but their own server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

PATIENCE = 30_000  # milliseconds until something that should be seen is given up
PICTURES = Path(__file__).parents[2] / "build" / "faces"
DESKTOP, PHONE = (1280, 800), (390, 844)
FLAGS = [  # a browser that asks nobody anything of its own accord, and looks the same everywhere
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--font-render-hinting=none",
    "--no-first-run",
]
UNREACHED = r"net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|SOCKET_NOT_CONNECTED|FAILED)"

expect.set_options(timeout=PATIENCE)


class Visits:
    """The pages of one test. `complaints` is what was wrong with them so far."""

    def __init__(self, browser: Browser, name: str) -> None:
        self._browser = browser
        self._name = name
        self._contexts: list[BrowserContext] = []
        self._forgiven: list[re.Pattern[str]] = []
        self.complaints: list[str] = []

    def open(
        self, url: str, size: tuple[int, int] = DESKTOP, scheme: Literal["light", "dark"] = "light", motion: bool = False, **options: Any
    ) -> Page:
        """A page as a new person would have it: an empty browser, no history, nothing stored."""
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
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        self._watch(context, page, url)
        page.goto(url)
        return page

    def _watch(self, context: BrowserContext, page: Page, url: str) -> None:
        origin = re.match(r"\w+://[^/]+", url)
        assert origin, f"{url} is no address"
        own = (f"{origin[0]}/", "blob:", "data:", "about:blank")

        def asked(request: Request) -> None:
            if not f"{request.url}/".startswith(own):
                self.complaints.append(f"the page asked {request.url}")

        def told(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and not any(pattern.search(message.text) for pattern in self._forgiven):
                self.complaints.append(f"the browser's console: {message.type}: {message.text} ({message.location['url']})")

        context.on("request", asked)
        context.on("console", told)
        page.on("pageerror", lambda error: self.complaints.append(f"the page's script failed: {error}"))

    @contextmanager
    def forgiving(self, pattern: str = UNREACHED) -> Iterator[None]:
        """What the browser itself says to its console in there, and the page can do nothing about: a server that is away, a refusal."""
        forgiven = re.compile(pattern)
        self._forgiven.append(forgiven)
        try:
            yield
        finally:
            for context in self._contexts:
                for page in context.pages:
                    page.evaluate("1")  # what was said before has come when this has
            self._forgiven.remove(forgiven)

    def picture(self, page: Page, name: str = "", whole: bool = False) -> Path:
        """A picture that is kept: build/faces/TEST-NAME.png."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{self._name}{f'-{name}' if name else ''}.png"
        page.screenshot(path=path, full_page=whole)
        return path

    def close(self, failed: bool = False) -> None:
        """Close the pages. Where the test failed, each leaves a picture of how it looked then."""
        for number, context in enumerate(self._contexts):
            for page in context.pages:
                if failed:
                    self.picture(page, f"failed-{number}")
                page.evaluate("1")
            context.close()
        self._contexts.clear()
