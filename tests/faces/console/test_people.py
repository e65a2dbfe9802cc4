"""Accessibility of the console: light and dark, on a phone, by keyboard alone, and with a screen reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.faces.browser import DESKTOP, PHONE, Visits
from tests.faces.page_checks import check_page, read_accessibility_tree
from tests.faces.server_process import ServerProcess

READ_FOCUS = """() => {
  const at = document.activeElement, style = getComputedStyle(at);
  if (at === document.body) return null;
  const ringed = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
  return [at.outerHTML.slice(0, 120), ringed, at.checkVisibility()];
}"""


@pytest.fixture
def talked(serve: Callable[..., ServerProcess]) -> ServerProcess:
    """Start a server with a finished session, and one with a pending request."""
    server = serve()
    server.create_session("Where is order 7?", "found")
    server.create_session("I want a refund", "asks", "pending")
    return server


PAGES = {  # the route of each page, and an element that it has
    "sessions": ("#/sessions", "link", "found"),
    "begin": ("#/begin", "textbox", "The first message"),
    "inbox": ("#/inbox", "button", "Approve"),
    "transcript": ("#/sessions/found", "article", "orders said"),
    "question": ("#/sessions/asks", "region", "refunds wants to run refund"),
    "graph": ("#/sessions/found/graph", "figure", "Handoff graph"),
    "timeline": ("#/sessions/found/timeline/4", "option", "4"),
    "model-input": ("#/sessions/found/seen/1", "heading", "Instructions"),
    "model-input-body": ("#/sessions/found/seen/2?part=body", "generic", "The request's body"),
    "model-input-diff": ("#/sessions/found/seen/2?part=agent", "link", "request 0"),
    "usage": ("#/sessions/found/usage", "heading", "By agent"),
    "replay": ("#/sessions/found/replay/5", "slider", "Position in the ledger"),
}


def open_page(page: Page, name: str) -> None:
    """Open a page, and wait until it is shown."""
    route, role, label = PAGES[name]
    page.evaluate("route => { location.hash = route }", route)
    expect((page.get_by_label(label) if role == "generic" else page.get_by_role(role, name=label)).first).to_be_visible()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_and_fits(
    talked: ServerProcess, visits: Visits, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    page = visits.open(talked.url, size=size, scheme=scheme)
    expect(page.get_by_role("link", name="found")).to_be_visible()
    wrong = []
    for name in PAGES:
        open_page(page, name)
        visits.take_screenshot(page, name)
        try:
            check_page(page)
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n\n".join(wrong)


def test_login_form_accepts_the_token(talked: ServerProcess, visits: Visits) -> None:
    with visits.ignoring_errors("401"):
        page = visits.open(f"{talked.origin}/")
        check_page(page)
        visits.take_screenshot(page)
        field = page.get_by_label("Token")
        field.fill("not the token")
        field.press("Enter")
        expect(page.get_by_text("not")).not_to_have_count(0)
        page.get_by_label("Token").fill(talked.token)
        page.get_by_label("Token").press("Enter")
        expect(page.get_by_role("link", name="found")).to_be_visible()


def test_console_is_usable_by_keyboard_alone(talked: ServerProcess, visits: Visits) -> None:
    page = visits.open(talked.url)
    keys = page.keyboard
    expect(page.get_by_role("link", name="found")).to_be_visible()
    keys.press("n")
    expect(page.get_by_role("textbox", name="The first message")).to_be_focused()
    keys.type("I want a refund")
    keys.press("Enter")
    asked = page.get_by_role("region", name="refunds wants to run refund")
    expect(asked).to_be_visible()
    keys.press("p")
    expect(asked).to_be_focused()
    keys.press("e")
    expect(asked.get_by_label("order_id")).to_be_focused()
    keys.press("Tab")
    expect(asked.get_by_label("amount")).to_be_focused()
    keys.press("ControlOrMeta+a")
    keys.type("12")
    keys.press("Enter")
    expect(page.get_by_role("article", name="refunds called refund: done")).to_contain_text("12.00 for order 7")
    keys.press("c")
    expect(page.get_by_role("textbox", name="Your message")).to_be_focused()
    keys.type("hello")
    keys.press("Enter")
    expect(page.get_by_role("article", name="triage said")).to_be_visible()
    keys.press("Escape")
    keys.press("4")
    expect(page.get_by_role("region", name="Model input")).to_be_visible()
    keys.press("1")
    keys.press("k")
    focused = page.locator("article:focus")
    expect(focused).to_be_visible()
    keys.press("f")
    expect(page.get_by_role("article", name="Beginning").last).to_contain_text("Forked from")
    keys.press("r")
    slider = page.get_by_role("slider", name="Position in the ledger")
    expect(slider).to_be_visible()
    end = slider.input_value()
    keys.press("ArrowLeft")
    expect(slider).not_to_have_value(end)
    keys.press("g")
    keys.press("i")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    keys.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    keys.press("/")
    expect(page.get_by_role("searchbox").first).to_be_focused()


def test_tab_key_leaves_pages_with_visible_focus(talked: ServerProcess, visits: Visits) -> None:
    page = visits.open(talked.url)
    expect(page.get_by_role("link", name="found")).to_be_visible()
    for name in PAGES:
        open_page(page, name)
        page.evaluate("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')")
        steps = list(press_tab_until_end(page))
        assert len(steps) > 5, name
        assert not [element for element, ringed, visible in steps if not (ringed and visible)], name


def press_tab_until_end(page: Page) -> Iterator[tuple[str, bool, bool]]:
    """Press Tab until the focus leaves the page. Yield each focused element, and whether its focus and itself are visible."""
    for _ in range(200):
        page.keyboard.press("Tab")
        at = page.evaluate(READ_FOCUS)
        if at is None:
            return
        yield tuple(at)
    pytest.fail("the focus never left the page")


def test_screen_readers_are_informed_of_events(talked: ServerProcess, visits: Visits) -> None:
    page = visits.open(f"{talked.origin}/#token={talked.token}")
    expect(page.get_by_role("link", name="found")).to_be_visible()
    open_page(page, "transcript")
    page.get_by_role("textbox", name="Your message").fill("hello")
    page.get_by_role("textbox", name="Your message").press("Enter")
    expect(page.locator("#announcements")).to_contain_text("triage: Hello!")
    roles = {node["role"] for node in read_accessibility_tree(page)}
    assert {"banner", "navigation", "main", "heading", "article", "status"} <= roles, roles
