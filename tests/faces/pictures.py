"""`make pictures`: what README.md shows, made from the real thing: the chat as a screen has it, the console as a browser has it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cli.conftest import Shell
from tests.faces import finding
from tests.faces.drawing import drawn
from tests.faces.tmux import Screen, environment

PLACE = Path(__file__).parents[2] / "docs" / "pictures"
COLUMNS = 112
ABOUT = (
    "legato chat in a terminal: triage hands over to orders, who looks an order up; then to refunds, who asks before it pays; "
    "/usage shows the tokens of each agent."
)


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


def main() -> int:
    PLACE.mkdir(parents=True, exist_ok=True)
    if not finding.ensured(finding.tmux, "tmux"):
        sys.exit(f"make pictures: {finding.NO_TMUX}")
    with TemporaryDirectory() as folder:
        picture = PLACE / "chat.svg"
        picture.write_text(drawn(chat(Path(folder)), COLUMNS, ABOUT))
        print(f"{picture.relative_to(Path.cwd())}: {picture.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
