"""Pending requests of every kind, and problems: redaction, deleted sessions, races, and a server that is away."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cli.conftest import Shell
from tests.faces.browser import Visits
from tests.faces.server_process import ServerProcess

PROGRAM_FILE = Path(__file__).parents[1] / "all_requests.py"


@pytest.fixture
def server(shell: Shell, serve: Callable[..., ServerProcess]) -> ServerProcess:
    shutil.copy(PROGRAM_FILE, shell.folder)
    return serve("all_requests:workflow", "--store", str(shell.folder / "all_requests.sqlite"))


def open_session(visits: Visits, server: ServerProcess, id: str) -> Page:
    page = visits.open(server.url)
    page.evaluate("address => { location.hash = address }", f"#/sessions/{id}")
    expect(page.get_by_role("heading", name=id, level=1)).to_be_visible()
    return page


def find_message(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=f"{name} said").last


def test_inbox_lists_and_answers_all_requests(server: ServerProcess, visits: Visits) -> None:
    for word in ("weigh", "potter", "order", "loop"):
        server.create_session(f"Please {word}", word, "pending")
    page = visits.open(server.url)
    page.get_by_role("link", name="Inbox").click()
    expect(page.locator("#inbox-count")).to_have_text("4")

    weighed = page.get_by_role("region", name="first wants to run weigh")
    expect(weighed).to_contain_text('"grams": 5')
    weighed.get_by_role("button", name="Decline").click()
    weighed.get_by_label("Message to the agent").fill("Not without a saucer")
    weighed.get_by_role("button", name="Decline").last.click()
    asked = page.get_by_role("region", name="first waits for the result of ask_potter")
    asked.get_by_role("button", name="Supply the result").click()
    asked.get_by_label("The result").fill("Red clay from Tokoname")
    visits.take_screenshot(page, "result")
    asked.get_by_role("button", name="Answer").click()
    ordered = page.get_by_role("region", name="first ran this tool, and its outcome is unknown: order")
    ordered.get_by_role("button", name="Supply the outcome").click()
    ordered.get_by_label("The result").fill("It was ordered")
    ordered.get_by_role("button", name="Answer").click()
    looped = page.get_by_role("region", name="first reached a limit")
    expect(looped).to_contain_text("This looks like a loop")
    looped.get_by_role("button", name="End the turn").click()
    looped.get_by_role("button", name="End the turn").last.click()
    expect(page.get_by_text("There are no pending requests.")).to_be_visible()

    words = {id: server.wait_for_status(id)["last"]["text"] for id in ("weigh", "potter", "order")}
    assert "Not without a saucer" in words["weigh"]
    assert words["potter"] == "ask_potter said: Red clay from Tokoname"
    assert words["order"] == "order said: It was ordered"
    assert server.wait_for_status("loop")["pending"] == []

    for id, word, told in (("weigh", "declined", "Not without a saucer"), ("order", "answered", "It was ordered")):
        page.evaluate("address => { location.hash = address }", f"#/sessions/{id}")
        call = page.locator(".call", has_text=told)
        expect(call).to_contain_text(word)
        expect(call).not_to_contain_text("waits")


def test_editing_hides_the_other_buttons(server: ServerProcess, visits: Visits) -> None:
    server.create_session("Please weigh", "edited", "pending")
    page = open_session(visits, server, "edited")
    asked = page.get_by_role("region", name="first wants to run weigh")
    asked.get_by_role("button", name="Edit").click()
    expect(asked.get_by_role("button", name="Approve")).to_have_text(["Approve these arguments"])
    asked.get_by_role("button", name="Back").click()
    expect(asked.get_by_role("button", name="Approve")).to_have_text(["Approve"])


def test_standing_approval_is_requested_once(server: ServerProcess, visits: Visits) -> None:
    server.create_session("Please weigh", "often", "pending")
    page = open_session(visits, server, "often")
    asked = page.get_by_role("region", name="first wants to run weigh")
    asked.get_by_role("checkbox").check()
    asked.get_by_role("button", name="Approve").click()
    expect(find_message(page, "first")).to_contain_text("5 g are on the scale")
    page.get_by_role("textbox", name="Your message").fill("And weigh again")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Approved by a standing approval")).to_be_visible()
    assert server.wait_for_status("often")["pending"] == []


def test_late_answer_is_reported_and_changes_nothing(server: ServerProcess, visits: Visits) -> None:
    server.create_session("Please weigh", "raced", "pending")
    page = open_session(visits, server, "raced")
    [request] = server.request("/api/sessions/raced/pending")["pending"]
    others = {"request": request["id"], "digest": request["digest"], "verdict": "reject", "words": "No"}
    page.route("**/answers", lambda route: (server.request("/api/sessions/raced/answers", others), route.continue_()))
    with visits.ignoring_errors("409"):
        page.get_by_role("region", name="first wants to run weigh").get_by_role("button", name="Approve").click()
        expect(page.get_by_text("is not pending")).to_be_visible()
    expect(find_message(page, "first")).to_contain_text("No")
    assert [fact["verdict"] for fact in server.request("/api/sessions/raced/facts")["facts"] if fact["fact"] == "decided"] == ["reject"]


def test_images_of_tools_and_users_are_shown(server: ServerProcess, visits: Visits, shell: Shell) -> None:
    server.create_session("Please draw", "drawn")
    page = open_session(visits, server, "drawn")
    picture = page.get_by_role("img", name="An image (image/png)")
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
    visits.take_screenshot(page, "pictures")


def test_redacted_text_disappears_at_once(server: ServerProcess, visits: Visits, shell: Shell) -> None:
    server.create_session("My number is 4711", "erased")
    page = open_session(visits, server, "erased")
    expect(find_message(page, "user")).to_contain_text("4711")
    assert shell("redact", "erased", "--all", "--store", "all_requests.sqlite").code == 0
    expect(page.get_by_text("was redacted")).to_be_visible()
    expect(page.get_by_text("4711")).to_have_count(0)
    page.get_by_role("link", name="Timeline").click()
    expect(page.get_by_role("listbox", name="Facts").get_by_role("option").nth(1)).to_contain_text("[erased on request]")


def test_session_deleted_elsewhere_is_reported(server: ServerProcess, visits: Visits) -> None:
    server.create_session("Hello", "short")
    page = open_session(visits, server, "short")
    expect(find_message(page, "first")).to_be_visible()
    with visits.ignoring_errors(r"404|ERR_"):
        server.request("/api/sessions/short", method="DELETE")
        page.evaluate("dispatchEvent(new Event('focus'))")  # as when the user returns to the page
        expect(page.get_by_text("This session was deleted.")).to_be_visible()
        page.close()  # earlier requests may still fail


def test_session_is_deleted_only_after_confirmation(server: ServerProcess, visits: Visits) -> None:
    server.create_session("Hello", "kept")
    page = open_session(visits, server, "kept")
    for meant, verb in ((False, "Keep it"), (True, "Delete")):
        page.get_by_label("More").click()
        page.get_by_role("button", name="Delete…").click()
        page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()
        expect(page.get_by_text("kept was deleted.")).to_have_count(int(meant))
    assert server.request("/api/sessions")["sessions"] == []


def test_message_sent_while_offline_is_recorded_once(server: ServerProcess, visits: Visits) -> None:
    server.create_session("Hello", "away")
    page = open_session(visits, server, "away")
    expect(find_message(page, "first")).to_be_visible()
    written = page.get_by_role("textbox", name="Your message")
    with visits.ignoring_errors():
        server.kill()
        written.fill("Are you there?")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Your message is kept")).to_be_visible()
        expect(written).to_have_value("Are you there?")
        server.start()
        expect(page.get_by_text("Reconnecting…")).to_be_hidden()
    page.get_by_role("button", name="Dismiss").click()
    # The response to the first delivery is lost: the retry has the same key.
    page.route("**/messages", lambda route: (route.fetch(), route.abort()), times=1)
    with visits.ignoring_errors(r"ERR_FAILED"):
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("Your message is kept")).to_be_visible()
    page.get_by_role("button", name="Send").click()
    expect(written).to_have_value("")
    expect(find_message(page, "first")).to_contain_text("You said: Are you there?")
    facts = server.request("/api/sessions/away/facts")["facts"]
    assert [fact["content"] for fact in facts if fact["fact"] == "message_received"] == ["Hello", "Are you there?"]


def test_failed_model_request_is_retried_on_click(server: ServerProcess, visits: Visits, shell: Shell) -> None:
    (shell.folder / "broken").touch()
    server.create_session("Hello", "failing", "failed")
    page = open_session(visits, server, "failing")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    visits.take_screenshot(page, "failed")
    (shell.folder / "broken").unlink()
    page.get_by_role("button", name="Try again").click()
    expect(find_message(page, "first")).to_contain_text("You said: Hello")


def test_session_of_unserved_workflow_is_read_only(
    server: ServerProcess, serve: Callable[..., ServerProcess], visits: Visits, shell: Shell
) -> None:
    server.create_session("Please weigh", "elsewhere", "pending")
    server.stop()
    other = serve("desk:desk", "--store", str(shell.folder / "all_requests.sqlite"))
    page = open_session(visits, other, "elsewhere")
    expect(find_message(page, "user")).to_contain_text("Please weigh")
    expect(page.get_by_text("does not serve the workflow")).to_be_visible()
    expect(page.get_by_role("textbox", name="Your message")).to_be_hidden()
    expect(page.get_by_text('"grams": 5')).to_have_count(0)  # without the workflow, any argument may be a secret


def test_rows_are_exactly_as_high_as_measured(server: ServerProcess, visits: Visits) -> None:
    for message in ("Hello", "Please draw", "loop"):
        server.request("/api/sessions/rows/messages", {"message": message}) if message != "Hello" else server.create_session(
            message, "rows"
        )
        server.wait_for_status("rows", "pending" if message == "loop" else "waiting")
    page = open_session(visits, server, "rows")
    expect(page.get_by_role("article", name="first handed over to second").first).to_be_visible()
    expect(page.get_by_role("img")).to_have_js_property("complete", True)
    room = "(rows) => [rows.getBoundingClientRect().height, parseFloat(rows.parentElement.style.height), rows.children.length]"
    taken, measured, rows = page.locator(".transcript .rows").evaluate(room)
    assert abs(taken - measured) < rows * 0.25, "a margin between rows is not part of the measured heights"
