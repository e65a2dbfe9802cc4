"""What changed between two texts."""

from __future__ import annotations

from difflib import unified_diff

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.inspection import differences
from legato.inspection.differences import changes, unified

LINES = st.lists(st.sampled_from([*"abcdefgh", "{", "},", ""]), max_size=40)


def applied(before: list[str], diff: str) -> list[str]:
    """What a unified diff makes of a text: read as `patch` reads it."""
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
def test_a_difference_says_how_one_text_becomes_the_other(old: list[str], new: list[str], much: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(differences, "MUCH", [250_000, 100, 4, 0][much])
        told = unified("\n".join(old), "\n".join(new))
    old, new = "\n".join(old).split("\n"), "\n".join(new).split("\n")  # no lines at all are one empty line
    assert bool(told) == (old != new)
    if told:
        assert applied(old, told) == new


@given(LINES)
def test_what_is_equal_is_never_told(lines: list[str]) -> None:
    assert unified("\n".join(lines), "\n".join(lines)) == ""
    assert all(kind == "equal" for kind, *_ in changes(lines, lines))


@pytest.mark.parametrize(
    ("before", "after"), [("a\nb\nc", "a\nc"), ("a", "b"), ("", "a\nb"), ("1\n2\n3\n4\n5\n6\n7\n8\n9", "1\n2\n3\n4\nnew\n6\n7\n8\n9")]
)
def test_it_is_written_as_others_write_it(before: str, after: str) -> None:
    assert unified(before, after).split("\n") == [*unified_diff(before.split("\n"), after.split("\n"), "before", "after", lineterm="")]


def test_a_long_text_costs_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third block of twenty thousand lines is gone, and lines that all blocks have stand in between: the pieces stay small."""
    compared: list[int] = []
    inner = differences._compared

    def counted(old, new, a, b, c, d):  # type: ignore[no-untyped-def]
        compared.append((b - a) * (d - c))
        return inner(old, new, a, b, c, d)

    monkeypatch.setattr(differences, "_compared", counted)
    blocks = [["{", f'"text": "{number}"', "},"] for number in range(7_000)]
    old = [line for block in blocks for line in block]
    new = [line for number, block in enumerate(blocks) if number % 3 for line in block]
    assert sum(1 for kind, *_ in changes(old, new) if kind == "delete") == 7_000 // 3 + 1
    assert sum(compared) < 10 * len(old)
