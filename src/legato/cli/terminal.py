"""Lines, tables and JSON on a terminal, with colours and symbols.

Messages of models, outputs of tools and ids come from elsewhere. A control character in them could move the cursor or overwrite a
prompt, so each is replaced by its escape code. Colours are used only on a terminal, and not with NO_COLOR.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from legato.inspection.terminal_safe_text import encode_printable_json, escape_unprintable

if TYPE_CHECKING:
    from rich.console import Console

AGENT_COLOURS = ("yellow", "magenta", "cyan", "green", "blue", "bright_red", "bright_yellow", "bright_magenta")
USER_STYLE = "bold"
COLUMN_GAP_CHARS = 2
"""Spaces between two columns of a table."""
NUMBER_PATTERN = re.compile(r"[\d.,]+")
MIN_COLUMN_CHARS = 10
"""A column that has room for fewer characters is left out."""
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
def get_console(err: bool = False) -> Console:
    """Return the console of standard output, or standard error. Lines are wrapped only on a terminal: programs and `grep` read lines."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # an encoding that lacks a character prints its code
    console = Console(stderr=err, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    return console


def print_line(*pieces: str | tuple[str, str], end: str = "\n", err: bool = False) -> None:
    """Print one line of pieces, each a text or a text with a style. Unprintable characters are escaped."""
    from rich.text import Text

    line = Text()
    for piece in pieces:
        words, colour = (piece, "") if isinstance(piece, str) else piece
        line.append(escape_unprintable(words), style=colour or None)
    get_console(err).print(line, end=end, soft_wrap=True)


def get_symbol(name: str) -> str:
    """Return a symbol, or its ASCII replacement if the output is not UTF-8."""
    return SYMBOLS[name][not (sys.stdout.encoding or "").lower().startswith("utf")]


class AgentColours:
    """A colour for each agent, by their order in the workflow: the same in every process."""

    def __init__(self, agents: Sequence[str]) -> None:
        self._colours = {name: AGENT_COLOURS[index % len(AGENT_COLOURS)] for index, name in enumerate(agents)}

    def of(self, agent: str) -> str:
        return self._colours.setdefault(agent, AGENT_COLOURS[len(self._colours) % len(AGENT_COLOURS)])


def write_json(document: Any) -> None:
    """Write a JSON document on standard output, in one line."""
    sys.stdout.write(encode_printable_json(document) + "\n")
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | tuple[str, str]]]) -> None:
    """Print rows under headings. A narrow terminal gets as many columns as it has room for; any other output, all of them."""
    from rich.table import Table
    from rich.text import Text

    lines: list[list[Text]] = []
    for row in rows:
        pieces = [cell if isinstance(cell, tuple) else (cell, "") for cell in row]
        lines.append([Text(escape_unprintable(text).replace("\n", " "), style=colour) for text, colour in pieces])
    widths = [max([len(name), *(line[index].cell_len for line in lines)]) for index, name in enumerate(columns)]
    grid, width_left = Table(box=None, pad_edge=False, header_style="dim", padding=(0, COLUMN_GAP_CHARS, 0, 0)), get_console().width
    for index, (name, width) in enumerate(zip(columns, widths, strict=True)):
        if grid.columns and width_left < min(width, MIN_COLUMN_CHARS):
            break
        cells = {line[index].plain for line in lines} - {""}
        numbers = bool(cells) and all(map(NUMBER_PATTERN.fullmatch, cells))
        grid.add_column(name, overflow="ellipsis", no_wrap=True, width=min(width, width_left), justify="right" if numbers else "left")
        width_left -= width + COLUMN_GAP_CHARS
    for line in lines:
        grid.add_row(*line[: len(grid.columns)])
    get_console().print(grid)


def format_time(ms: int) -> str:
    """Return a time in this machine's time zone."""
    return datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
