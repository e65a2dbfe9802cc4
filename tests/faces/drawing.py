"""A screen of a terminal as a picture: an SVG of text, which loads nothing and can be read aloud, selected and searched.

What stands on the screen at the end is shown as it came: lines one after another, and what a person typed letter by letter, once. The times
are even, not those of the recording, so that the same screen is the same picture. Where nothing moves (print, a viewer that does not
animate, a reader who asked for less motion) the whole screen is there.
"""

from __future__ import annotations

import re
from html import escape
from itertools import groupby

from rich.ansi import AnsiDecoder
from rich.style import Style
from rich.text import Text

WIDE, HIGH, EDGE = 8.4, 20, 18  # of a letter, of a line, around all of it
COLOURS = ("#4a505c", "#f2817c", "#93cc7e", "#e6c27d", "#82b4f2", "#d49fe2", "#70c9d8", "#d6d9df")  # as terminals number them
BREATH = 0.3
"""Seconds before somebody types, and after."""
TYPED = re.compile(r"^(\$ |you › |  › )(?=\S)")
"""Where a person types: behind these words."""

STYLE = """\
svg { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d6d9df }
text { white-space: pre }
.dim { fill: #949ba8 } .bold { font-weight: 700; fill: #f2f4f8 }
@media (prefers-reduced-motion: no-preference) {
  .line { animation: come .2s both } .typed { animation: type 1s both }
}
@keyframes come { from { opacity: 0 } }
@keyframes type { from { clip-path: inset(0 100% 0 0) } }
"""


def drawn(screen: str, columns: int, about: str) -> str:
    """The picture of a screen, given as text with colours as terminals write them. `about` is for those who cannot see it."""
    lines = list(AnsiDecoder().decode(screen))
    width, height = 2 * EDGE + columns * WIDE, 2 * EDGE + len(lines) * HIGH
    colours = " ".join(f".c{number} {{ fill: {value} }}" for number, value in enumerate(COLOURS))
    rows, clock = [], 0.0
    for number, line in enumerate(lines):
        row, clock = _row(line, EDGE + number * HIGH + 15, clock)
        rows.append(row)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}" role="img">\n'
        f"<title>{escape(about)}</title>\n<style>\n{STYLE}{colours}\n</style>\n"
        f'<rect width="100%" height="100%" rx="10" fill="#171a21"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


def _row(line: Text, y: int, clock: float) -> tuple[str, float]:
    """One line of the screen, and when the next one comes."""
    begins = TYPED.match(line.plain)
    typing = len(line.plain.rstrip()) - begins.end() if begins else 0
    pieces, column = [], 0
    for piece, looks in _pieces(line):
        words = piece.rstrip() if column + len(piece) == len(line.plain) else piece
        if words.strip():
            by_hand = begins is not None and column >= begins.end()
            length = f' textLength="{len(words) * WIDE:g}"' if len(words) > 1 else ""
            names = f' class="{" ".join([*looks, *(["typed"] if by_hand else [])])}"' if looks or by_hand else ""
            typed = {"delay": f"{clock + BREATH:.1f}s", "duration": f"{_seconds(typing):.1f}s", "timing-function": f"steps({typing})"}
            times = _style(**typed) if by_hand else ""
            pieces.append(f'<text x="{EDGE + column * WIDE:g}" y="{y}"{length}{names}{times}>{escape(words, quote=False)}</text>')
        column += len(piece)
    after = clock + (BREATH + _seconds(typing) + BREATH if begins else 0.1)
    return f'<g class="line"{_style(delay=f"{clock:.1f}s")}>{"".join(pieces)}</g>', after


def _style(**animation: str) -> str:
    told = "; ".join(f"animation-{name}: {value}" for name, value in animation.items())
    return f' style="{told}"'


def _seconds(letters: int) -> float:
    return min(1.0, 0.03 * letters)


def _pieces(line: Text) -> list[tuple[str, tuple[str, ...]]]:
    """The letters of a line that look alike, together."""
    looks: list[tuple[str, ...]] = [()] * len(line.plain)
    for span in line.spans:
        style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
        for at in range(span.start, span.end):
            looks[at] = _names(style)
    cells = zip(line.plain, looks, strict=True)
    return [("".join(letter for letter, _ in group), look) for look, group in groupby(cells, key=lambda cell: cell[1])]


def _names(style: Style) -> tuple[str, ...]:
    number = style.color.number if style.color else None
    return tuple(name for name, on in (("dim", style.dim), ("bold", style.bold), (f"c{(number or 0) % 8}", number is not None)) if on)
