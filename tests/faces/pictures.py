"""`make pictures`: what README.md shows, made from the real thing: the chat as a screen has it, the console as a browser has it."""

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

from legato.cli.chat import PORT
from legato.emulator import serve as emulated
from tests.cli.conftest import Shell
from tests.faces import finding
from tests.faces.browser import FLAGS, Visits
from tests.faces.drawing import drawn
from tests.faces.serving import Server
from tests.faces.tmux import Screen, environment

HERE = Path(__file__).parent
PLACE = HERE.parents[1] / "docs" / "pictures"
COLUMNS = 112
ABOUT = (
    "legato chat in a terminal: triage hands over to orders, who looks an order up; then to refunds, who asks before it pays; "
    "/usage shows the tokens of each agent."
)
CHOSEN = "customer-42"
SAID = {"customer-17": "hello", "customer-23": "Where is order 7?", "customer-31": "Where is order 8?"}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIZE = (1240, 800)


def chat(folder: Path) -> str:
    """A newcomer's first conversation."""
    shell = Shell(folder)
    (folder / ".bashrc").write_text("PS1='$ '\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    given = {**environment(shell), "PATH": path, "BASH_SILENCE_DEPRECATION_WARNING": "1"}
    given.pop("PYTHONPATH")  # as it is installed
    assert shell("new", "tea").code == 0
    with Screen(["bash", "-i"], folder / "tea", given, COLUMNS, rows=60) as screen:
        screen.until("$ ")
        screen.type("legato chat desk:desk --session first")
        screen.until("you ›")
        screen.type("Where is order 8?")
        screen.until("you ›", 2)
        screen.type("Order 7 arrived broken. Please refund the 24.50 that I paid.")
        screen.until("l later")
        screen.type("y")
        screen.until("you ›", 3)
        screen.type("/usage")
        screen.until("in all")
        screen.until("you ›", 4)
        screen.press("C-d")
        screen.until("$ ", 2)
        shown = screen.shown(colours=True).rstrip().removesuffix("$").rstrip()
        return re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{PORT}", shown)  # where it listens unless somebody else does


def console(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The console with some conversations, one of which asks; and what an agent of that one saw. For light pages and for dark ones."""
    shell = Shell(folder)
    shutil.copy(HERE / "desk.py", folder)
    with ExitStack() as stack:
        emulator = stack.enter_context(emulated(mind=HERE / "mind.yaml"))
        provider = {"OPENAI_BASE_URL": emulator.openai_url, "OPENAI_API_KEY": "any"}
        server = Server(folder, {**shell.environment, **provider}, "desk:desk", "--store", "desk.sqlite")
        stack.callback(server.stop)
        for id, message in SAID.items():
            server.begin(message, id)
        server.begin("Where is order 7?", CHOSEN)
        server.ask(f"/api/sessions/{CHOSEN}/messages", {"message": "It arrived broken. I want a refund."})
        server.rested(CHOSEN, "pending")
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=finding.browser(), args=FLAGS)
        visits = Visits(browser, "pictures")
        for scheme in SCHEMES:
            page = visits.open(server.url, size=SIZE, scheme=scheme, device_scale_factor=1.3)
            page.get_by_role("link", name=CHOSEN).click()
            expect(page.get_by_role("region", name="refunds wants to run refund")).to_be_in_viewport()
            yield f"console-{scheme}.png", _taken(page)
            page.evaluate("address => { location.hash = address }", f"#/sessions/{CHOSEN}/seen/4?part=agent")
            expect(page.get_by_text("own_tools").first).to_be_visible()
            yield f"seen-{scheme}.png", _taken(page)
        visits.close()
        browser.close()
        assert not visits.complaints, visits.complaints


def _taken(page: Page) -> bytes:
    page.mouse.move(0, 0)
    return page.screenshot(animations="disabled", caret="hide")


def main() -> int:
    if not finding.ensured(finding.tmux, "tmux"):
        sys.exit(f"make pictures: {finding.NO_TMUX}")
    if not finding.ensured(finding.browser, "chromium", "fonts-liberation"):
        sys.exit(f"make pictures: {finding.NO_BROWSER}")
    PLACE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        _keep("chat.svg", drawn(chat(Path(folder)), COLUMNS, ABOUT).encode())
    with TemporaryDirectory() as folder:
        for name, picture in console(Path(folder)):
            _keep(name, picture)
    return 0


def _keep(name: str, picture: bytes) -> None:
    (PLACE / name).write_bytes(picture)
    print(f"docs/pictures/{name}: {len(picture):,} bytes")


if __name__ == "__main__":
    sys.exit(main())
