"""The test harness detects seeded problems: console messages, foreign requests, and inaccessible pages."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.faces.browser import PHONE, SCREENSHOTS, Visits
from tests.faces.page_checks import check_page

FAULTLESS_PAGE = "<!doctype html><html lang=en><link rel=icon href='data:,'><title>Fine</title><h1>Fine</h1><button>Go</button>"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Serve a folder, and yield its address and path."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", tmp_path
        server.shutdown()
        thread.join()


@pytest.fixture
def examined(browser: Browser) -> Iterator[Visits]:
    """Yield visits whose problems the test examines."""
    pages = Visits(browser, "harness")
    yield pages
    pages.close()


def open_html(visits: Visits, site: tuple[str, Path], html: str) -> Page:
    (site[1] / "index.html").write_text(html)
    return visits.open(f"{site[0]}/")


def test_faultless_page_passes_and_is_photographed(visits: Visits, site: tuple[str, Path]) -> None:
    page = open_html(visits, site, FAULTLESS_PAGE)
    expect(page.get_by_role("button", name="Go")).to_be_visible()
    before = visits.take_screenshot(page)
    assert before.parent == SCREENSHOTS
    assert before.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ("<script>console.error('no')</script>", "console: error: no"),
        ("<script>console.warn('hm')</script>", "console: warning: hm"),
        ("<script>setTimeout(() => { throw new Error('broken') })</script>", "script failed: broken"),
        ("<script>Promise.reject(new Error('late'))</script>", "script failed: late"),
        ("<script src=/nowhere.js></script>", "404"),
        ("<img alt='' src=http://127.0.0.2:9/x.png>", "the page requested http://127.0.0.2:9/x.png"),
        ("<img alt='' src=https://example.invalid/x.png>", "the page requested https://example.invalid/x.png"),
    ],
)
def test_faulty_page_is_reported(examined: Visits, site: tuple[str, Path], html: str, problem: str) -> None:
    open_html(examined, site, FAULTLESS_PAGE + html)
    examined.close()
    assert any(problem in each for each in examined.problems), examined.problems


def test_expected_browser_errors_are_ignored_only_temporarily(examined: Visits, site: tuple[str, Path]) -> None:
    page = open_html(examined, site, FAULTLESS_PAGE)
    away = "() => fetch('/nowhere').then(() => 1, () => 0)"
    with examined.ignoring_errors("404"):
        page.evaluate(away)
    assert not examined.problems
    page.evaluate(away)
    examined.close()
    assert len(examined.problems) == 1


def test_page_can_be_viewed_on_dark_phone(visits: Visits, site: tuple[str, Path]) -> None:
    (site[1] / "index.html").write_text(FAULTLESS_PAGE)
    page = visits.open(f"{site[0]}/", size=PHONE, scheme="dark")
    assert page.evaluate("innerWidth") == PHONE[0]
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ("<button><svg width=9 height=9></svg></button>", "a button without a name"),
        ("<input>", "a textbox without a name"),
        ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "an image without a name"),
        ("<main></main>", "2 elements are the main landmark"),
        ("<h3>Deep</h3>", "a heading of level 3 follows one of 1"),
        ("<h1>Another</h1>", "2 headings have level 1"),
        ("<p style='color: #999'>faint</p>", '"faint" has a contrast of 2.85'),
        ("<p style='background: #000; color: #444'>dark</p>", '"dark" has a contrast of 2.16'),
        ("<p style='color: #0008'>thin</p>", '"thin" has a contrast of 4.48'),
        ("<div style='opacity: .5'><p>pale</p></div>", '"pale" has a contrast of 3.9'),
        ("<div style='width: 2000px'>wide</div>", "the page is 2008 wide"),
        ("<div style='overflow: hidden'><button style='margin-left: 1300px'>far</button></div>", "far</button> is cut off"),
    ],
)
def test_inaccessible_page_fails_the_checks(visits: Visits, site: tuple[str, Path], html: str, problem: str) -> None:
    page = open_html(visits, site, f"{FAULTLESS_PAGE}<main>{html}")
    with pytest.raises(AssertionError, match=re.escape(problem)):
        check_page(page)


def test_accessible_page_passes_the_checks(visits: Visits, site: tuple[str, Path]) -> None:
    check_page(
        open_html(
            visits, site, f"{FAULTLESS_PAGE}<main><p style='color: #666'>Words <label>Name <input></label> <img alt='' src='data:,'></main>"
        )
    )
