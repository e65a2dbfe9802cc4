"""Everybody can use the console: in the light and in the dark, on a phone, with the keyboard alone, and by ear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.faces.browser import DESKTOP, PHONE, Visits
from tests.faces.judging import heard, judge
from tests.faces.serving import Server

FOCUS = """() => {
  const at = document.activeElement, style = getComputedStyle(at);
  if (at === document.body) return null;
  const ringed = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
  return [at.outerHTML.slice(0, 120), ringed, at.checkVisibility()];
}"""


@pytest.fixture
def talked(serve: Callable[..., Server]) -> Server:
    """A server with a session that has something of everything, and one that asks."""
    server = serve()
    server.begin("Where is order 7?", "found")
    server.begin("I want a refund", "asks", "pending")
    return server


ROOMS = {  # where it is, and what is there once it has come
    "sessions": ("#/sessions", "link", "found"),
    "begin": ("#/begin", "textbox", "The first message"),
    "inbox": ("#/inbox", "button", "Approve"),
    "transcript": ("#/sessions/found", "article", "orders said"),
    "question": ("#/sessions/asks", "region", "refunds wants to run refund"),
    "graph": ("#/sessions/found/graph", "figure", "Handoff graph"),
    "timeline": ("#/sessions/found/timeline/4", "option", "4"),
    "seen": ("#/sessions/found/seen/1", "heading", "Instructions"),
    "seen-body": ("#/sessions/found/seen/2?part=body", "generic", "The request's body"),
    "seen-diff": ("#/sessions/found/seen/2?part=agent", "link", "call 0"),
    "usage": ("#/sessions/found/usage", "heading", "By agent"),
    "replay": ("#/sessions/found/replay/5", "slider", "Position in the ledger"),
}


def go(page: Page, room: str) -> None:
    """Be in a room, once it has come."""
    address, role, name = ROOMS[room]
    page.evaluate("address => { location.hash = address }", address)
    expect((page.get_by_label(name) if role == "generic" else page.get_by_role(role, name=name)).first).to_be_visible()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_room_has_names_contrast_and_room(
    talked: Server, visits: Visits, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    page = visits.open(talked.url, size=size, scheme=scheme)
    expect(page.get_by_role("link", name="found")).to_be_visible()
    wrong = []
    for name in ROOMS:
        go(page, name)
        visits.picture(page, name)
        try:
            judge(page)
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n\n".join(wrong)


def test_a_door_is_shown_to_those_without_a_token_and_opens_with_it(talked: Server, visits: Visits) -> None:
    with visits.forgiving("401"):
        page = visits.open(f"{talked.origin}/")
        judge(page)
        visits.picture(page)
        field = page.get_by_label("Token")
        field.fill("not the token")
        field.press("Enter")
        expect(page.get_by_text("not")).not_to_have_count(0)
        page.get_by_label("Token").fill(talked.token)
        page.get_by_label("Token").press("Enter")
        expect(page.get_by_role("link", name="found")).to_be_visible()


def test_all_of_it_with_the_keyboard_alone(talked: Server, visits: Visits) -> None:
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
    expect(page.get_by_role("region", name="What an agent saw")).to_be_visible()
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


def test_tab_goes_through_every_room_and_out_of_it_and_always_shows_where_it_is(talked: Server, visits: Visits) -> None:
    page = visits.open(talked.url)
    expect(page.get_by_role("link", name="found")).to_be_visible()
    for room in ROOMS:
        go(page, room)
        page.evaluate("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')")
        met = list(tabbed(page))
        assert len(met) > 5, room
        assert not [at for at, ringed, visible in met if not (ringed and visible)], room


def tabbed(page: Page) -> Iterator[tuple[str, bool, bool]]:
    """What has the focus, one after the other, until it has left the page: what it is, whether that is shown, whether it can be seen."""
    for _ in range(200):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUS)
        if at is None:
            return
        yield tuple(at)
    pytest.fail("the focus never left the page")


def test_what_happens_is_told_to_those_who_hear_the_page(talked: Server, visits: Visits) -> None:
    page = visits.open(f"{talked.origin}/#token={talked.token}")
    expect(page.get_by_role("link", name="found")).to_be_visible()
    go(page, "transcript")
    page.get_by_role("textbox", name="Your message").fill("hello")
    page.get_by_role("textbox", name="Your message").press("Enter")
    expect(page.locator("#announcements")).to_contain_text("triage: Hello!")
    roles = {node["role"] for node in heard(page)}
    assert {"banner", "navigation", "main", "heading", "article", "status"} <= roles, roles
