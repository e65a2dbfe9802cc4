"""`make pictures`: the pictures in README.md, from the real chat in a terminal and the real console in a browser."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from playwright.sync_api import Page, expect, sync_playwright

from legato.cli.missing_providers import EMULATOR_PORT
from legato.emulator import serve as emulated
from tests.cli.conftest import Shell
from tests.faces import installed_tools
from tests.faces.browser import BROWSER_FLAGS, Visits
from tests.faces.server_process import ServerProcess
from tests.faces.terminal_svg import render_svg
from tests.faces.tmux import TmuxScreen, make_environment

HERE = Path(__file__).parent
PICTURES_FOLDER = HERE.parents[1] / "docs" / "pictures"
COLUMNS = 112
CHAT_DESCRIPTION = (
    "legato chat in a terminal: triage hands over to orders, who looks an order up; then to refunds, who asks before it pays; "
    "/usage shows the tokens of each agent."
)
SHOWN_SESSION = "customer-42"
OTHER_SESSIONS = {"customer-17": "hello", "customer-23": "Where is order 7?", "customer-31": "Where is order 8?"}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PAGE_SIZE = (1240, 800)


def draw_chat(folder: Path) -> str:
    """Record a first conversation in the chat, and return the screen."""
    shell = Shell(folder)
    (folder / ".bashrc").write_text("PS1='$ '\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    given = {**make_environment(shell), "PATH": path, "BASH_SILENCE_DEPRECATION_WARNING": "1"}
    given.pop("PYTHONPATH")  # as it is installed
    assert shell("new", "tea").code == 0
    with TmuxScreen(["bash", "-i"], folder / "tea", given, COLUMNS, rows=60) as screen:
        screen.wait_for("$ ")
        screen.type("legato chat desk:desk --session first")
        screen.wait_for("you ›")
        screen.type("Where is order 8?")
        screen.wait_for("you ›", 2)
        screen.type("Order 7 arrived broken. Please refund the 24.50 that I paid.")
        screen.wait_for("l later")
        screen.type("y")
        screen.wait_for("you ›", 3)
        screen.type("/usage")
        screen.wait_for("total")
        screen.wait_for("you ›", 4)
        screen.press("C-d")
        screen.wait_for("$ ", 2)
        shown = screen.read(colours=True).rstrip().removesuffix("$").rstrip()
        return re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{EMULATOR_PORT}", shown)  # where it listens unless somebody else does


def take_console_pictures(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield pictures of the console, light and dark: a session with a pending request, and its model input."""
    shell = Shell(folder)
    shutil.copy(HERE / "desk.py", folder)
    with ExitStack() as stack:
        emulator = stack.enter_context(emulated(fake_model=HERE / "fake_model.yaml"))
        provider = {"OPENAI_BASE_URL": emulator.openai_url, "OPENAI_API_KEY": "any"}
        server = ServerProcess(folder, {**shell.environment, **provider}, "desk:desk", "--store", "desk.sqlite")
        stack.callback(server.stop)
        for id, message in OTHER_SESSIONS.items():
            server.create_session(message, id)
        server.create_session("Where is order 7?", SHOWN_SESSION)
        server.request(f"/api/sessions/{SHOWN_SESSION}/messages", {"message": "It arrived broken. I want a refund."})
        server.wait_for_status(SHOWN_SESSION, "pending")
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=installed_tools.find_browser(), args=BROWSER_FLAGS)
        visits = Visits(browser, "pictures")
        for scheme in SCHEMES:
            page = visits.open(server.url, size=PAGE_SIZE, scheme=scheme, device_scale_factor=1.3)
            page.get_by_role("link", name=SHOWN_SESSION).click()
            expect(page.get_by_role("region", name="refunds wants to run refund")).to_be_in_viewport()
            yield f"console-{scheme}.png", _take_screenshot(page)
            page.evaluate("address => { location.hash = address }", f"#/sessions/{SHOWN_SESSION}/seen/4?part=agent")
            expect(page.get_by_text("own_tools").first).to_be_visible()
            yield f"seen-{scheme}.png", _take_screenshot(page)
        visits.close()
        browser.close()
        assert not visits.problems, visits.problems


def _take_screenshot(page: Page) -> bytes:
    page.mouse.move(0, 0)
    return page.screenshot(animations="disabled", caret="hide")


def main() -> int:
    if not installed_tools.ensure_installed(installed_tools.find_tmux, "tmux"):
        sys.exit(f"make pictures: {installed_tools.NO_TMUX}")
    if not installed_tools.ensure_installed(installed_tools.find_browser, "chromium", "fonts-liberation"):
        sys.exit(f"make pictures: {installed_tools.NO_BROWSER}")
    PICTURES_FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        _save_picture("chat.svg", render_svg(draw_chat(Path(folder)), COLUMNS, CHAT_DESCRIPTION).encode())
    with TemporaryDirectory() as folder:
        for name, picture in take_console_pictures(Path(folder)):
            _save_picture(name, picture)
    return 0


def _save_picture(name: str, picture: bytes) -> None:
    (PICTURES_FOLDER / name).write_bytes(picture)
    print(f"docs/pictures/{name}: {len(picture):,} bytes")


if __name__ == "__main__":
    sys.exit(main())
