"""One long conversation in a browser: messages, approval, a killed server, model input, usage, replay, export and fork."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.cli.conftest import CANARY
from tests.faces.browser import Visits
from tests.faces.server_process import ServerProcess


def find_row(page: Page, name: str) -> Locator:
    """Return a row of the transcript by its label."""
    return page.get_by_role("article", name=name, exact=True)


def send_message(page: Page, words: str) -> None:
    page.get_by_role("textbox", name="Your message").fill(words)
    page.get_by_role("button", name="Send").click()


def open_view(page: Page, name: str) -> None:
    """Open a view of the session, or a part of a view."""
    page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()


def test_conversation_from_first_message_to_fork(serve: Callable[..., ServerProcess], visits: Visits) -> None:
    server = serve()
    page = visits.open(server.url)
    assert server.token not in page.url, "the address bar does not keep the token"

    # A message, and a handoff.
    page.get_by_role("textbox", name="The first message").fill("Where is order 7?")
    page.get_by_role("textbox", name="Session id").fill("story")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="story", level=1)).to_be_visible()
    expect(find_row(page, "triage handed over to orders")).to_be_visible()
    expect(find_row(page, "orders called look_up_order: done")).to_be_visible()
    expect(find_row(page, "orders said")).to_contain_text("I looked it up: order 7 is a teapot for 24.50")
    visits.take_screenshot(page, "1-handed-over")

    # An approval: another amount is typed into the form that the tool's schema gave, and approved.
    send_message(page, "I want a refund")
    asked = page.get_by_role("region", name="refunds wants to run refund")
    expect(asked).to_contain_text('"amount": 24.5')
    expect(asked).to_contain_text("digest")
    asked.get_by_role("button", name="Edit").click()
    asked.get_by_label("amount").fill("a lot")
    asked.get_by_role("button", name="Approve these arguments").click()
    expect(asked).to_contain_text("Expected:")
    asked.get_by_label("amount").fill("20")
    asked.get_by_label("why").select_option("late")
    visits.take_screenshot(page, "2-edited")

    # The server is killed while somebody fills in the form, and started again: the page says so, and nothing that was typed is lost.
    with visits.ignoring_errors():
        server.kill()
        expect(page.get_by_text("Reconnecting…")).to_be_visible()
        visits.take_screenshot(page, "3-the-server-is-gone")
        server.start()
        expect(page.get_by_text("Reconnecting…")).to_be_hidden()
    asked.get_by_role("button", name="Approve these arguments").click()
    expect(find_row(page, "refunds called refund: done")).to_contain_text("20.00 for order 7 (late) is on its way, with a letter")
    expect(find_row(page, "refunds said").last).to_contain_text("Done, the money is on its way.")
    expect(asked).to_be_hidden()

    # It is killed in the middle of a model's words: they come again whole, once, and nobody touched the page.
    send_message(page, "Tell me slowly")
    expect(page.get_by_role("article", name="triage is replying")).to_contain_text("one two three")
    with visits.ignoring_errors():
        server.kill()
        expect(page.get_by_text("Reconnecting…")).to_be_visible()
        server.start()
        expect(find_row(page, "triage said")).to_contain_text("fifteen sixteen.")
    expect(page.get_by_role("region", name="Transcript").get_by_text("one two three")).to_have_count(1)
    visits.take_screenshot(page, "4-caught-up")

    # The graph tells who has control and which handoffs were taken.
    graph = page.get_by_role("figure", name="Handoff graph").first
    expect(graph).to_contain_text("triage has control.")
    expect(graph).to_contain_text("triage to refunds: taken 1 time")
    expect(graph).to_contain_text("orders to refunds: allowed, not taken")

    # What each agent saw, and why: refunds sees its own tools only, so what orders looked up is not in its request.
    open_view(page, "Model input")
    call = page.get_by_role("listbox", name="Model requests").get_by_role("option").filter(has_text="refunds").first
    call.click()
    expect(call).to_have_attribute("aria-selected", "true")
    conversation = page.get_by_role("region", name="The conversation, each item marked in or out")
    looked_up = conversation.get_by_role("listitem").filter(has_text="look_up_order")
    expect(looked_up).to_contain_text("out")
    expect(looked_up.locator(".rule")).not_to_be_empty()
    expect(conversation.get_by_role("listitem").filter(has_text="I want a refund")).to_contain_text("in")
    request = page.get_by_role("region", name="The request")
    expect(request).to_contain_text("You pay money back where it is due.")
    open_view(page, "As sent")
    expect(request).to_contain_text('"model": "gpt-5.1"')
    expect(request).to_contain_text("I want a refund")
    expect(request).not_to_contain_text("look_up_order")
    page.get_by_role("link", name="Next", exact=True).click()
    expect(request).to_contain_text("20.00 for order 7 (late)")
    assert CANARY not in page.content(), "what the tool was really given is in the ledger and in the request, and on no page"
    page.get_by_role("link", name="Previous", exact=True).click()
    open_view(page, "Since the last agent")
    expect(request).to_contain_text("You are triage")
    expect(request).to_contain_text("+ refund")
    visits.take_screenshot(page, "5-seen")

    # What it cost.
    open_view(page, "Usage")
    usage = page.get_by_role("region", name="Usage and cost")
    expect(usage).to_contain_text("Sent again for handoffs")
    expect(usage).to_contain_text("refunds")
    visits.take_screenshot(page, "6-usage")

    # The replay: at the beginning nothing had been said; step by step it comes back.
    page.get_by_role("link", name="Replay").click()
    scrubber = page.get_by_role("slider", name="Position in the ledger")
    scrubber.press("Home")
    expect(find_row(page, "user said")).to_have_count(0)
    for _ in range(2):
        page.get_by_role("button", name="Next fact").click()
    expect(find_row(page, "user said")).to_have_count(1)
    expect(find_row(page, "triage handed over to orders")).to_have_count(0)
    scrubber.press("End")
    expect(find_row(page, "user said")).to_have_count(3)
    visits.take_screenshot(page, "7-replay")

    # An export: all of it, without the secret.
    page.get_by_label("More").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as JSON").click()
    exported = json.loads(Path(download.value.path()).read_text())
    assert "20.00 for order 7 (late)" in json.dumps(exported)
    assert CANARY not in json.dumps(exported)

    # A fork from the first answer goes its own way; the other session stays as it was.
    before = server.request("/api/sessions/story")["facts"]
    page.get_by_role("link", name="Back to the present").click()
    answered = find_row(page, "orders said")
    answered.hover()
    answered.get_by_role("button", name="Fork").click()
    expect(page.get_by_role("heading", level=1)).not_to_have_text("story")
    expect(find_row(page, "orders said")).to_have_count(1)
    send_message(page, "hello")
    expect(find_row(page, "triage said")).to_contain_text("What can I do for you?")
    expect(find_row(page, "Beginning").last).to_contain_text("Forked from story after 8 facts")
    visits.take_screenshot(page, "8-forked")
    assert server.request("/api/sessions/story")["facts"] == before

    assert CANARY not in page.content()
    assert CANARY not in server.log
