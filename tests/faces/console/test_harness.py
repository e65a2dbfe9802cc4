"""The harness sees what it is there to see: a page that complains, a page that asks somebody else, a page that is still wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.faces.browser import PHONE, PICTURES, Visits
from tests.faces.judging import judge

FINE = "<!doctype html><html lang=en><link rel=icon href='data:,'><title>Fine</title><h1>Fine</h1><button>Go</button>"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A folder that is served, and its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", tmp_path
        server.shutdown()
        thread.join()


@pytest.fixture
def looked(browser: Browser) -> Iterator[Visits]:
    """Visits whose complaints the test wants to see, rather than fail with."""
    pages = Visits(browser, "harness")
    yield pages
    pages.close()


def opened(visits: Visits, site: tuple[str, Path], html: str) -> Page:
    (site[1] / "index.html").write_text(html)
    return visits.open(f"{site[0]}/")


def test_a_page_that_is_fine_is_not_complained_about_and_a_picture_of_it_is_kept(visits: Visits, site: tuple[str, Path]) -> None:
    page = opened(visits, site, FINE)
    expect(page.get_by_role("button", name="Go")).to_be_visible()
    before = visits.picture(page)
    assert before.parent == PICTURES
    assert before.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("html", "complaint"),
    [
        ("<script>console.error('no')</script>", "console: error: no"),
        ("<script>console.warn('hm')</script>", "console: warning: hm"),
        ("<script>setTimeout(() => { throw new Error('broken') })</script>", "script failed: broken"),
        ("<script>Promise.reject(new Error('late'))</script>", "script failed: late"),
        ("<script src=/nowhere.js></script>", "404"),
        ("<img alt='' src=http://127.0.0.2:9/x.png>", "the page asked http://127.0.0.2:9/x.png"),
        ("<img alt='' src=https://example.invalid/x.png>", "the page asked https://example.invalid/x.png"),
    ],
)
def test_a_page_that_is_not_fine_is_complained_about(looked: Visits, site: tuple[str, Path], html: str, complaint: str) -> None:
    opened(looked, site, FINE + html)
    looked.close()
    assert any(complaint in each for each in looked.complaints), looked.complaints


def test_what_the_browser_says_of_a_server_that_is_away_is_forgiven_for_that_time_alone(looked: Visits, site: tuple[str, Path]) -> None:
    page = opened(looked, site, FINE)
    away = "() => fetch('/nowhere').then(() => 1, () => 0)"
    with looked.forgiving("404"):
        page.evaluate(away)
    assert not looked.complaints
    page.evaluate(away)
    looked.close()
    assert len(looked.complaints) == 1


def test_a_page_is_seen_as_on_a_phone_and_in_the_dark(visits: Visits, site: tuple[str, Path]) -> None:
    (site[1] / "index.html").write_text(FINE)
    page = visits.open(f"{site[0]}/", size=PHONE, scheme="dark")
    assert page.evaluate("innerWidth") == PHONE[0]
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")


@pytest.mark.parametrize(
    ("html", "complaint"),
    [
        ("<button><svg width=9 height=9></svg></button>", "a button without a name"),
        ("<input>", "a textbox without a name"),
        ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "a picture without a name"),
        ("<main></main>", "2 places are the main one"),
        ("<h3>Deep</h3>", "a heading of level 3 follows one of 1"),
        ("<h1>Another</h1>", "2 headings are the first of all"),
        ("<p style='color: #999'>faint</p>", '"faint" has a contrast of 2.85'),
        ("<p style='background: #000; color: #444'>dark</p>", '"dark" has a contrast of 2.16'),
        ("<p style='color: #0008'>thin</p>", '"thin" has a contrast of 4.48'),
        ("<div style='opacity: .5'><p>pale</p></div>", '"pale" has a contrast of 3.9'),
        ("<div style='width: 2000px'>wide</div>", "the page is 2008 wide"),
        ("<div style='overflow: hidden'><button style='margin-left: 1300px'>far</button></div>", "far</button> is cut off"),
    ],
)
def test_a_page_that_not_everybody_can_use_is_told(visits: Visits, site: tuple[str, Path], html: str, complaint: str) -> None:
    page = opened(visits, site, f"{FINE}<main>{html}")
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        judge(page)


def test_a_page_that_everybody_can_use_is_not_told(visits: Visits, site: tuple[str, Path]) -> None:
    judge(opened(visits, site, f"{FINE}<main><p style='color: #666'>Words <label>Name <input></label> <img alt='' src='data:,'></main>"))
