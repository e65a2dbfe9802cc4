"""Unified diffs of texts."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.inspection import unified_diff
from legato.inspection.unified_diff import diff_lines, render_unified_diff

LINES = st.lists(st.sampled_from([*"abcdefgh", "{", "},", ""]), max_size=40)


def apply_diff(before: list[str], diff: str) -> list[str]:
    """Apply a unified diff to a text, as `patch` does."""
    made: list[str] = []
    at = 0
    for line in diff.split("\n")[2:]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            low = int(start) - (count != "0")
            made += before[at:low]
            at = low
        elif line.startswith("-"):
            assert before[at] == line[1:]
            at += 1
        elif line.startswith("+"):
            made.append(line[1:])
        else:
            assert before[at] == line[1:]
            made.append(line[1:])
            at += 1
    return made + before[at:]


@given(LINES, LINES, st.integers(0, 3))
def test_applying_the_diff_yields_the_other_text(old: list[str], new: list[str], much: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(unified_diff, "MAX_LINE_PAIRS", [250_000, 100, 4, 0][much])
        told = render_unified_diff("\n".join(old), "\n".join(new))
    old, new = "\n".join(old).split("\n"), "\n".join(new).split("\n")  # no lines at all are one empty line
    assert bool(told) == (old != new)
    if told:
        assert apply_diff(old, told) == new


@given(LINES)
def test_equal_texts_have_an_empty_diff(lines: list[str]) -> None:
    assert render_unified_diff("\n".join(lines), "\n".join(lines)) == ""
    assert all(kind == "equal" for kind, *_ in diff_lines(lines, lines))


@pytest.mark.parametrize(
    ("before", "after"), [("a\nb\nc", "a\nc"), ("a", "b"), ("", "a\nb"), ("1\n2\n3\n4\n5\n6\n7\n8\n9", "1\n2\n3\n4\nnew\n6\n7\n8\n9")]
)
def test_format_is_the_same_as_difflib(before: str, after: str) -> None:
    assert render_unified_diff(before, after).split("\n") == [
        *difflib.unified_diff(before.split("\n"), after.split("\n"), "before", "after", lineterm="")
    ]


def test_diff_cost_is_linear_in_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third block of twenty thousand lines is removed, and all blocks have lines in common: few pairs of lines are compared."""
    compared: list[int] = []
    inner = unified_diff._compare_blocks

    def counted(old, new, a, b, c, d):  # type: ignore[no-untyped-def]
        compared.append((b - a) * (d - c))
        return inner(old, new, a, b, c, d)

    monkeypatch.setattr(unified_diff, "_compare_blocks", counted)
    blocks = [["{", f'"text": "{number}"', "},"] for number in range(7_000)]
    old = [line for block in blocks for line in block]
    new = [line for number, block in enumerate(blocks) if number % 3 for line in block]
    assert sum(1 for kind, *_ in diff_lines(old, new) if kind == "delete") == 7_000 // 3 + 1
    assert sum(compared) < 10 * len(old)
