"""No hostile input costs more work than its size explains: counted in lines that run, for a small size and for four times as much."""

import asyncio

import pytest

from tests.scale.hostile import ROWS
from tests.scale.work import Lines

AT_MOST = {"constant": 2, "linear": 8}
"""Four times as much may cost so many times as much. Worse orders cost 4 and 16 times as much; how threads take turns adds some lines."""


class CountedLines:
    """The block of a row in which lines are counted."""

    def __init__(self):
        self._lines = Lines()
        self.count = 0

    async def __aenter__(self):
        self._lines.__enter__()

    async def __aexit__(self, *error):
        self._lines.__exit__(*error)
        self.count = self._lines.count


def lines_of(hostile, size, folder):
    """The lines that run for so much of it."""
    folder.mkdir()
    counted = CountedLines()
    asyncio.run(hostile.play(folder, counted, size))
    return counted.count


@pytest.mark.parametrize("name", ROWS)
def test_hostile_input_costs_bounded_work(name, tmp_path):
    hostile = ROWS[name]
    lines_of(hostile, hostile.few, tmp_path / "first")  # what is imported at its first use is imported here
    few, many = (lines_of(hostile, size, tmp_path / str(size)) for size in (hostile.few, 4 * hostile.few))
    assert many / few < AT_MOST[hostile.work], (few, many)
