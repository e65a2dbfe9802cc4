"""Plots as SVG: lines on logarithmic axes, with a name at the end of each. Readable on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 840, 440
LEFT, RIGHT, TOP, BOTTOM = 78, 260, 46, 52
COLOURS = {
    "legato": "#d9480f",
    "bare limit": "#868e96",
    "openai-agents": "#1c7ed6",
    "agent-framework": "#9c36b5",
    "langgraph": "#2b8a3e",
    "pydantic-ai": "#e64980",
    "google-adk": "#b58900",
}
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #212529 } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #dee2e6 } .axis { stroke: #868e96 } .back { fill: #ffffff }
@media (prefers-color-scheme: dark) { text { fill: #e9ecef } .grid { stroke: #343a40 } .back { fill: #16181b } }
"""

Points = Sequence[tuple[float, float]]


def draw_log_log(title: str, x_label: str, y_label: str, lines: Mapping[str, Points]) -> str:
    """Draw a plot with a line for each system (or `system, variant`)."""
    lines = {name: [(x, y) for x, y in points if x > 0 and y > 0] for name, points in lines.items()}
    every = [point for points in lines.values() for point in points]
    if not every:
        return _wrap_svg(f'<text class="title" x="20" y="28">{escape(title)}: nothing was measured</text>')
    xs, ys = _find_axis_range(x for x, _ in every), _find_axis_range(y for _, y in every)

    def at(x: float, y: float) -> tuple[float, float]:
        right, high = (math.log10(x) - xs[0]) / (xs[1] - xs[0]), (math.log10(y) - ys[0]) / (ys[1] - ys[0])
        return LEFT + right * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - high * (HEIGHT - TOP - BOTTOM)

    elements = [f'<text class="title" x="{LEFT}" y="26">{escape(title)}</text>']
    for power in range(math.ceil(xs[0]), math.floor(xs[1]) + 1):
        x, _ = at(10.0**power, 10.0 ** ys[0])
        elements.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>')
        elements.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{_format_power(power)}</text>')
    for power in range(math.ceil(ys[0]), math.floor(ys[1]) + 1):
        _, y = at(10.0 ** xs[0], 10.0**power)
        elements.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
        elements.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_format_power(power)}</text>')
    elements.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>')
    elements.append(
        f'<text transform="translate(18 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
    )
    names: list[tuple[float, str, str]] = []
    for name, points in lines.items():
        if points:
            colour = COLOURS.get(name.partition(",")[0], "#868e96")
            dash = ' stroke-dasharray="6 4"' if name.startswith("bare limit") else ""
            width = 3 if name.startswith("legato") else 1.8
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in sorted(points)))
            elements.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>')
            elements += [f'<circle cx="{at(*point)[0]:.1f}" cy="{at(*point)[1]:.1f}" r="3" fill="{colour}"/>' for point in points]
            names.append((at(*max(points))[1], name, colour))
    below = TOP - 16.0
    for y, name, colour in sorted(names):  # names stand at the ends of lines, without overlaps
        below = max(y, below + 16)
        elements.append(f'<text x="{WIDTH - RIGHT + 10}" y="{below + 4:.1f}" style="fill:{colour}">{escape(name)}</text>')
    return _wrap_svg("\n".join(elements))


def _wrap_svg(body: str) -> str:
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    back = f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{STYLE}</style>\n{back}\n{body}\n</svg>\n'


def _find_axis_range(values: object) -> tuple[float, float]:
    """Return the range of an axis, in powers of ten, with a margin."""
    logs = [math.log10(value) for value in values]  # type: ignore[attr-defined] # any iterable of numbers
    low, high = min(logs), max(logs)
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin


def _format_power(power: int) -> str:
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:.{-power}f}"
