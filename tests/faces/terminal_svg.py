"""A terminal screen as an SVG of text, which loads nothing and can be read aloud, selected and searched.

The final screen is animated once: line by line, and typed text character by character. The times are constant, not those of the recording,
so that the same screen gives the same picture. Without animation (print, reduced motion) the whole screen is visible.
"""

from __future__ import annotations

import re
from html import escape
from itertools import groupby

from rich.ansi import AnsiDecoder
from rich.style import Style
from rich.text import Text

CHAR_WIDTH, LINE_HEIGHT, PADDING = 8.4, 20, 18  # in pixels
COLOURS = ("#4a505c", "#f2817c", "#93cc7e", "#e6c27d", "#82b4f2", "#d49fe2", "#70c9d8", "#d6d9df")  # by terminal colour number
PAUSE_S = 0.3
"""The pause before and after typing."""
TYPED_LINE = re.compile(r"^(\$ |you › |  › )(?=\S)")
"""Prompts: typed text follows them."""

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


def render_svg(screen: str, columns: int, about: str) -> str:
    """Render a screen, which is text with ANSI colours. `about` is a description for screen readers."""
    lines = list(AnsiDecoder().decode(screen))
    width, height = 2 * PADDING + columns * CHAR_WIDTH, 2 * PADDING + len(lines) * LINE_HEIGHT
    colours = " ".join(f".c{number} {{ fill: {value} }}" for number, value in enumerate(COLOURS))
    rows, clock = [], 0.0
    for number, line in enumerate(lines):
        row, clock = _render_line(line, PADDING + number * LINE_HEIGHT + 15, clock)
        rows.append(row)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}" role="img">\n'
        f"<title>{escape(about)}</title>\n<style>\n{STYLE}{colours}\n</style>\n"
        f'<rect width="100%" height="100%" rx="10" fill="#171a21"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


def _render_line(line: Text, y: int, clock: float) -> tuple[str, float]:
    """Render a line, and return it with the start time of the next one."""
    prompt = TYPED_LINE.match(line.plain)
    typed_chars = len(line.plain.rstrip()) - prompt.end() if prompt else 0
    pieces, column = [], 0
    for piece, looks in _split_by_style(line):
        words = piece.rstrip() if column + len(piece) == len(line.plain) else piece
        if words.strip():
            is_typed = prompt is not None and column >= prompt.end()
            length = f' textLength="{len(words) * CHAR_WIDTH:g}"' if len(words) > 1 else ""
            names = f' class="{" ".join([*looks, *(["typed"] if is_typed else [])])}"' if looks or is_typed else ""
            typed = {
                "delay": f"{clock + PAUSE_S:.1f}s",
                "duration": f"{_typing_seconds(typed_chars):.1f}s",
                "timing-function": f"steps({typed_chars})",
            }
            times = _animation_style(**typed) if is_typed else ""
            pieces.append(f'<text x="{PADDING + column * CHAR_WIDTH:g}" y="{y}"{length}{names}{times}>{escape(words, quote=False)}</text>')
        column += len(piece)
    after = clock + (PAUSE_S + _typing_seconds(typed_chars) + PAUSE_S if prompt else 0.1)
    return f'<g class="line"{_animation_style(delay=f"{clock:.1f}s")}>{"".join(pieces)}</g>', after


def _animation_style(**animation: str) -> str:
    properties = "; ".join(f"animation-{name}: {value}" for name, value in animation.items())
    return f' style="{properties}"'


def _typing_seconds(chars: int) -> float:
    return min(1.0, 0.03 * chars)


def _split_by_style(line: Text) -> list[tuple[str, tuple[str, ...]]]:
    """Split a line into pieces of the same style."""
    looks: list[tuple[str, ...]] = [()] * len(line.plain)
    for span in line.spans:
        style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
        for at in range(span.start, span.end):
            looks[at] = _class_names(style)
    cells = zip(line.plain, looks, strict=True)
    return [("".join(character for character, _ in group), look) for look, group in groupby(cells, key=lambda cell: cell[1])]


def _class_names(style: Style) -> tuple[str, ...]:
    number = style.color.number if style.color else None
    return tuple(name for name, on in (("dim", style.dim), ("bold", style.bold), (f"c{(number or 0) % 8}", number is not None)) if on)
