"""What a terminal shows. May know: rich. Decides: colours, symbols, and that nothing that is shown can do anything to the terminal.

Words of models, outputs of tools and ids come from elsewhere. A control character in them could move the cursor or rewrite the
question above it, so none is ever written: it is shown by its code instead. Colours only on a terminal that wants them (NO_COLOR).
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from legato.inspection.plain import harmless, json_text

if TYPE_CHECKING:
    from rich.console import Console

PALETTE = ("yellow", "magenta", "cyan", "green", "blue", "bright_red", "bright_yellow", "bright_magenta")
USER = "bold"
GAP = 2
"""Spaces between the columns of a table."""
NUMBER = re.compile(r"[\d.,]+")
LEAST = 10
"""How many letters of a column must have room for it to be shown at all."""
SYMBOLS = {
    "handoff": ("⇢", "->"),
    "tool": ("⚙", "*"),
    "done": ("✓", "ok"),
    "failed": ("✗", "x"),
    "ask": ("?", "?"),
    "note": ("·", "-"),
    "says": ("›", ">"),
    "again": ("↺", "~"),
    "edge": ("──▶", "-->"),
    "branch": ("├─▶", "|->"),
    "last": ("└─▶", "`->"),
}


@lru_cache(maxsize=2)
def screen(err: bool = False) -> Console:
    """Standard output, or standard error. What is no terminal is not wrapped: machines and `grep` read lines."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # an encoding that lacks a letter shows its code
    console = Console(stderr=err, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    return console


def tell(*pieces: str | tuple[str, str], end: str = "\n", err: bool = False) -> None:
    """One line of pieces, each plain or with its colour. Every piece is made harmless."""
    from rich.text import Text

    line = Text()
    for piece in pieces:
        words, colour = (piece, "") if isinstance(piece, str) else piece
        line.append(harmless(words), style=colour or None)
    screen(err).print(line, end=end, soft_wrap=True)


def symbol(name: str) -> str:
    """A symbol, or its stand-in where the encoding has none."""
    return SYMBOLS[name][not (sys.stdout.encoding or "").lower().startswith("utf")]


class Colours:
    """A colour per agent, by the order in which the workflow names them: the same in every process."""

    def __init__(self, agents: Sequence[str]) -> None:
        self._known = {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(agents)}

    def of(self, agent: str) -> str:
        return self._known.setdefault(agent, PALETTE[len(self._known) % len(PALETTE)])


def write_json(document: Any) -> None:
    """One JSON document, or one line of several, on standard output."""
    sys.stdout.write(json_text(document) + "\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[str | tuple[str, str]]]) -> None:
    """Rows under headings. What is no terminal gets whole cells; a narrow one, as many columns from the left as it has room for."""
    from rich.table import Table
    from rich.text import Text

    lines: list[list[Text]] = []
    for row in rows:
        given = [cell if isinstance(cell, tuple) else (cell, "") for cell in row]
        lines.append([Text(harmless(words).replace("\n", " "), style=colour) for words, colour in given])
    widths = [max([len(name), *(line[index].cell_len for line in lines)]) for index, name in enumerate(columns)]
    made, room = Table(box=None, pad_edge=False, header_style="dim", padding=(0, GAP, 0, 0)), screen().width
    for index, (name, width) in enumerate(zip(columns, widths, strict=True)):
        if made.columns and room < min(width, LEAST):
            break
        cells = {line[index].plain for line in lines} - {""}
        numbers = bool(cells) and all(map(NUMBER.fullmatch, cells))
        made.add_column(name, overflow="ellipsis", no_wrap=True, width=min(width, room), justify="right" if numbers else "left")
        room -= width + GAP
    for line in lines:
        made.add_row(*line[: len(made.columns)])
    screen().print(made)


def when(ms: int) -> str:
    """A time, as this machine's clock on the wall has it."""
    return datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
