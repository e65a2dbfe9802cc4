"""What people are asked, and what goes wrong: every kind of question, words that are erased, sessions that go, a server that is away."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cli.conftest import Shell
from tests.faces.browser import Visits
from tests.faces.serving import Server

PROGRAM = Path(__file__).parents[1] / "asking.py"


@pytest.fixture
def asking(shell: Shell, serve: Callable[..., Server]) -> Server:
    shutil.copy(PROGRAM, shell.folder)
    return serve("asking:asking", "--store", str(shell.folder / "asking.sqlite"))


def visit(visits: Visits, server: Server, id: str) -> Page:
    page = visits.open(server.url)
    page.evaluate("address => { location.hash = address }", f"#/sessions/{id}")
    expect(page.get_by_role("heading", name=id, level=1)).to_be_visible()
    return page


def said(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=f"{name} said").last


def test_the_inbox_has_every_question_of_every_session_and_answers_them(asking: Server, visits: Visits) -> None:
    for word in ("weigh", "potter", "order", "loop"):
        asking.begin(f"Please {word}", word, "pending")
    page = visits.open(asking.url)
    page.get_by_role("link", name="Inbox").click()
    expect(page.locator("#inbox-count")).to_have_text("4")

    weighed = page.get_by_role("region", name="first wants to run weigh")
    expect(weighed).to_contain_text('"grams": 5')
    weighed.get_by_role("button", name="Decline").click()
    weighed.get_by_label("Words for the agent").fill("Not without a saucer")
    weighed.get_by_role("button", name="Decline").last.click()
    asked = page.get_by_role("region", name="first waits for the result of ask_potter")
    asked.get_by_role("button", name="Give the result").click()
    asked.get_by_label("The result").fill("Red clay from Tokoname")
    visits.picture(page, "result")
    asked.get_by_role("button", name="Answer").click()
    ordered = page.get_by_role("region", name="first ran this, and nobody knows how it ended: order")
    ordered.get_by_role("button", name="Say how it ended").click()
    ordered.get_by_label("The result").fill("It was ordered")
    ordered.get_by_role("button", name="Answer").click()
    looped = page.get_by_role("region", name="first reached a limit")
    expect(looped).to_contain_text("This looks like a loop")
    looped.get_by_role("button", name="Give the turn back").click()
    looped.get_by_role("button", name="Give the turn back").last.click()
    expect(page.get_by_text("Nothing waits for an answer.")).to_be_visible()

    words = {id: asking.rested(id)["last"]["text"] for id in ("weigh", "potter", "order")}
    assert "Not without a saucer" in words["weigh"]
    assert words["potter"] == "ask_potter said: Red clay from Tokoname"
    assert words["order"] == "order said: It was ordered"
    assert asking.rested("loop")["pending"] == []

    for id, word, told in (("weigh", "declined", "Not without a saucer"), ("order", "answered", "It was ordered")):
        page.evaluate("address => { location.hash = address }", f"#/sessions/{id}")
        call = page.locator(".call", has_text=told)
        expect(call).to_contain_text(word)
        expect(call).not_to_contain_text("waits")


def test_what_is_being_edited_is_not_approved_by_another_button(asking: Server, visits: Visits) -> None:
    asking.begin("Please weigh", "edited", "pending")
    page = visit(visits, asking, "edited")
    asked = page.get_by_role("region", name="first wants to run weigh")
    asked.get_by_role("button", name="Edit").click()
    expect(asked.get_by_role("button", name="Approve")).to_have_text(["Approve these arguments"])
    asked.get_by_role("button", name="Back").click()
    expect(asked.get_by_role("button", name="Approve")).to_have_text(["Approve"])


def test_an_approval_of_all_like_it_is_asked_once(asking: Server, visits: Visits) -> None:
    asking.begin("Please weigh", "often", "pending")
    page = visit(visits, asking, "often")
    asked = page.get_by_role("region", name="first wants to run weigh")
    asked.get_by_role("checkbox").check()
    asked.get_by_role("button", name="Approve").click()
    expect(said(page, "first")).to_contain_text("5 g are on the scale")
    page.get_by_role("textbox", name="Your message").fill("And weigh again")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Approved by a standing approval")).to_be_visible()
    assert asking.rested("often")["pending"] == []


def test_an_answer_that_somebody_else_gave_first_changes_nothing_and_is_told(asking: Server, visits: Visits) -> None:
    asking.begin("Please weigh", "raced", "pending")
    page = visit(visits, asking, "raced")
    [request] = asking.ask("/api/sessions/raced/pending")["pending"]
    others = {"request": request["id"], "digest": request["digest"], "verdict": "reject", "words": "No"}
    page.route("**/answers", lambda route: (asking.ask("/api/sessions/raced/answers", others), route.continue_()))
    with visits.forgiving("409"):
        page.get_by_role("region", name="first wants to run weigh").get_by_role("button", name="Approve").click()
        expect(page.get_by_text("is not pending")).to_be_visible()
    expect(said(page, "first")).to_contain_text("No")
    assert [fact["verdict"] for fact in asking.ask("/api/sessions/raced/facts")["facts"] if fact["fact"] == "decided"] == ["reject"]


def test_pictures_that_tools_draw_and_people_send_are_shown(asking: Server, visits: Visits, shell: Shell) -> None:
    asking.begin("Please draw", "drawn")
    page = visit(visits, asking, "drawn")
    picture = page.get_by_role("img", name="A picture (image/png)")
    expect(picture).to_be_visible()
    expect(picture).to_have_js_property("naturalWidth", 24)
    expect(picture).to_have_attribute("src", re.compile("^blob:"))
    sent = shell.folder / "square.png"
    sent.write_bytes(picture.screenshot())
    page.locator("input[type=file]").set_input_files(sent)
    expect(page.get_by_text("square.png")).to_be_visible()
    page.get_by_role("textbox", name="Your message").fill("Look at this")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("article", name="user said").last.get_by_role("img")).to_be_visible()
    visits.picture(page, "pictures")


def test_words_that_are_erased_go_from_the_page_at_once(asking: Server, visits: Visits, shell: Shell) -> None:
    asking.begin("My number is 4711", "erased")
    page = visit(visits, asking, "erased")
    expect(said(page, "user")).to_contain_text("4711")
    assert shell("redact", "erased", "--all", "--store", "asking.sqlite").code == 0
    expect(page.get_by_text("were erased")).to_be_visible()
    expect(page.get_by_text("4711")).to_have_count(0)
    page.get_by_role("link", name="Timeline").click()
    expect(page.get_by_role("listbox", name="Facts").get_by_role("option").nth(1)).to_contain_text("[erased on request]")


def test_a_session_that_is_deleted_elsewhere_is_told_as_gone(asking: Server, visits: Visits) -> None:
    asking.begin("Hello", "short")
    page = visit(visits, asking, "short")
    expect(said(page, "first")).to_be_visible()
    with visits.forgiving(r"404|ERR_"):
        asking.ask("/api/sessions/short", method="DELETE")
        page.evaluate("dispatchEvent(new Event('focus'))")  # somebody comes back to the page
        expect(page.get_by_text("This conversation is no longer there.")).to_be_visible()
        page.close()  # what it asked before it knew may be answered yet


def test_a_session_is_deleted_only_when_that_is_meant(asking: Server, visits: Visits) -> None:
    asking.begin("Hello", "kept")
    page = visit(visits, asking, "kept")
    for meant, verb in ((False, "Keep it"), (True, "Delete")):
        page.get_by_label("More").click()
        page.get_by_role("button", name="Delete…").click()
        page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()
        expect(page.get_by_text("kept was deleted.")).to_have_count(int(meant))
    assert asking.ask("/api/sessions")["sessions"] == []


def test_a_message_that_was_sent_while_the_server_was_away_is_kept_and_recorded_once(asking: Server, visits: Visits) -> None:
    asking.begin("Hello", "away")
    page = visit(visits, asking, "away")
    expect(said(page, "first")).to_be_visible()
    written = page.get_by_role("textbox", name="Your message")
    with visits.forgiving():
        asking.kill()
        written.fill("Are you there?")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Your message is kept")).to_be_visible()
        expect(written).to_have_value("Are you there?")
        asking.start()
        expect(page.get_by_text("Reconnecting…")).to_be_hidden()
    page.get_by_role("button", name="Dismiss").click()
    # The answer to the first delivery is lost: it is sent again, by the same key.
    page.route("**/messages", lambda route: (route.fetch(), route.abort()), times=1)
    with visits.forgiving(r"ERR_FAILED"):
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("Your message is kept")).to_be_visible()
    page.get_by_role("button", name="Send").click()
    expect(written).to_have_value("")
    expect(said(page, "first")).to_contain_text("You said: Are you there?")
    facts = asking.ask("/api/sessions/away/facts")["facts"]
    assert [fact["content"] for fact in facts if fact["fact"] == "message_received"] == ["Hello", "Are you there?"]


def test_a_model_that_failed_is_asked_again_when_somebody_says_so(asking: Server, visits: Visits, shell: Shell) -> None:
    (shell.folder / "broken").touch()
    asking.begin("Hello", "failing", "failed")
    page = visit(visits, asking, "failing")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    visits.picture(page, "failed")
    (shell.folder / "broken").unlink()
    page.get_by_role("button", name="Try again").click()
    expect(said(page, "first")).to_contain_text("You said: Hello")


def test_a_session_whose_program_is_not_served_is_read_and_does_not_go_on(
    asking: Server, serve: Callable[..., Server], visits: Visits, shell: Shell
) -> None:
    asking.begin("Please weigh", "elsewhere", "pending")
    asking.stop()
    other = serve("desk:desk", "--store", str(shell.folder / "asking.sqlite"))
    page = visit(visits, other, "elsewhere")
    expect(said(page, "user")).to_contain_text("Please weigh")
    expect(page.get_by_text("is not served here")).to_be_visible()
    expect(page.get_by_role("textbox", name="Your message")).to_be_hidden()
    expect(page.get_by_text('"grams": 5')).to_have_count(0)  # what may be a secret is a digest, where nobody knows


def test_rows_take_exactly_the_room_that_they_were_measured_to_have(asking: Server, visits: Visits) -> None:
    for message in ("Hello", "Please draw", "loop"):
        asking.ask("/api/sessions/rows/messages", {"message": message}) if message != "Hello" else asking.begin(message, "rows")
        asking.rested("rows", "pending" if message == "loop" else "waiting")
    page = visit(visits, asking, "rows")
    expect(page.get_by_role("article", name="first handed over to second").first).to_be_visible()
    expect(page.get_by_role("img")).to_have_js_property("complete", True)
    room = "(rows) => [rows.getBoundingClientRect().height, parseFloat(rows.parentElement.style.height), rows.children.length]"
    taken, measured, rows = page.locator(".transcript .rows").evaluate(room)
    assert abs(taken - measured) < rows * 0.25, "a margin between rows takes room that the list does not know of"
