"""What the terminal shows. May know: lines and colours. Decides: how a line looks.

Colours only on a terminal that wants them (`NO_COLOR` is honoured), symbols only where the encoding has them.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from typing import TextIO

MARGIN = 15
COLOURS = {
    "customer": "36",
    "supervisor": "36",
    "triage": "33",
    "refunds": "35",
    "output": "2",
    "dim": "2",
    "bold": "1",
    "red": "1;31",
    "green": "32",
}
SYMBOLS = {"handoff": ("⇢", "->"), "tool": ("⚙", "*"), "ask": ("?", "?"), "dead": ("✗", "x"), "line": ("─", "-"), "yes": ("✓", "ok")}


class Stage:
    """Prints, and asks."""

    def __init__(self, auto: bool, pace: float | None = None, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        terminal = self._out.isatty()
        self._colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._pace = pace if pace is not None else (0.35 if terminal else 0.0)
        self._auto = auto
        self._plain = not (self._out.encoding or "").lower().startswith("utf")
        self._width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 100))

    @property
    def plays_itself(self) -> bool:
        return self._auto

    def symbol(self, name: str) -> str:
        return SYMBOLS[name][self._plain]

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if self._colour and colour in COLOURS else text

    def line(self, text: str = "") -> None:
        print(text, file=self._out, flush=True)

    def rule(self, text: str) -> None:
        self.line()
        dash = self.symbol("line")
        self.line(self.paint(f"{dash * 2} {text} {dash * max(2, self._width - len(text) - 4)}", "dim"))
        self._wait()

    def says(self, who: str, words: str) -> None:
        """Somebody's words, beside their name."""
        self._beside(who, words, who)

    def sequence(self, label: str, who: str, note: str, names: list[str], held: int) -> None:
        """A row of initials, one per message. Those that somebody held already stand before a bar."""
        initials = {"customer": "U", "output": "o"}
        row = [self.paint(initials.get(name, name[:1].upper()), "dim" if number < held else name) for number, name in enumerate(names)]
        row = [*row[:held], "|", *row[held:]]
        self.line(self.paint(f"  {label:<{MARGIN - 2}}", who) + self.paint(f"{note:<14}", "dim") + " ".join(row))
        self._wait()

    def does(self, kind: str, words: str, colour: str = "dim") -> None:
        """Something that happens between the words."""
        self._beside(f"    {self.symbol(kind)}", words, colour, all_of_it=True)

    def _beside(self, label: str, words: str, colour: str, all_of_it: bool = False) -> None:
        lines = textwrap.wrap(words, self._width - MARGIN - 2) or [""]
        head = f"  {label:<{MARGIN - 2}}"
        for number, each in enumerate(lines):
            start = head if number == 0 else " " * MARGIN
            self.line(self.paint(start + each, colour) if all_of_it else self.paint(start, colour) + each)
        self._wait()

    def ask(self, who: str, suggestion: str, hint: str) -> str | None:
        """What the person answers; the suggestion if they only press enter. None at the end of the input."""
        if self._auto:
            self.says(who, suggestion)
            return suggestion
        self.line(self.paint(f"{' ' * MARGIN}{hint}", "dim"))
        try:
            typed = input(self.paint(f"  {who:<{MARGIN - 2}}", who)).strip()
        except EOFError:
            self.line()
            return None
        return typed or suggestion

    def _wait(self) -> None:
        if self._pace:
            time.sleep(self._pace)
