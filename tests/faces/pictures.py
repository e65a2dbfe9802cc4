"""`make pictures`: what README.md shows, made from the real thing: the chat as a screen has it, the console as a browser has it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from playwright.sync_api import expect, sync_playwright

from tests.cli.conftest import Shell
from tests.faces import finding
from tests.faces.browser import FLAGS, Visits
from tests.faces.drawing import drawn
from tests.faces.serving import Server
from tests.faces.tmux import Screen, environment

PLACE = Path(__file__).parents[2] / "docs" / "pictures"
COLUMNS = 112
ABOUT = (
    "legato chat in a terminal: triage hands over to orders, who looks an order up; then to refunds, who asks before it pays; "
    "/usage shows the tokens of each agent."
)
CHOSEN = "customer-42"
SAID = {
    "customer-17": "Hello!",
    "customer-23": "Where is order 9?",
    "customer-31": "What was in order 8, and what did it cost?",
}


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
        return screen.shown(colours=True).rstrip().removesuffix("$").rstrip()


def console(folder: Path) -> list[tuple[str, bytes]]:
    """The console with a few conversations in it, one of which asks: in the light and in the dark, for pages of either kind."""
    shell = Shell(folder)
    assert shell("new", "tea").code == 0
    server = Server(folder / "tea", shell.environment, "desk:desk", "--store", "tea.sqlite")
    try:
        for id, message in SAID.items():
            server.begin(message, id)
        server.begin("Where is order 7?", CHOSEN)
        server.ask(f"/api/sessions/{CHOSEN}/messages", {"message": "Order 7 arrived broken. Please refund the 24.50 that I paid."})
        server.rested(CHOSEN, "pending")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=finding.browser(), args=FLAGS)
            visits = Visits(browser, "pictures")
            taken = [(scheme, _taken(visits, server, scheme)) for scheme in ("light", "dark")]
            visits.close()
            browser.close()
        assert not visits.complaints, visits.complaints
        return taken
    finally:
        server.stop()


def _taken(visits: Visits, server: Server, scheme: Literal["light", "dark"]) -> bytes:
    page = visits.open(server.url, size=(1200, 760), scheme=scheme, device_scale_factor=1.5)
    page.get_by_role("link", name=CHOSEN).click()
    expect(page.get_by_role("region", name="refunds wants to run refund")).to_be_in_viewport()
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
        for scheme, picture in console(Path(folder)):
            _keep(f"console-{scheme}.png", picture)
    return 0


def _keep(name: str, picture: bytes) -> None:
    (PLACE / name).write_bytes(picture)
    print(f"docs/pictures/{name}: {len(picture):,} bytes")


if __name__ == "__main__":
    sys.exit(main())
