"""No hostile input costs more work than its size explains: counted in lines that run, for a small size and for four times as much."""

import asyncio

import pytest

from tests.scale.hostile_inputs import HOSTILE_INPUTS
from tests.scale.work_counters import LineCounter

MAX_GROWTH = {"constant": 2, "linear": 8}
"""Four times as much may cost so many times as much. Worse orders cost 4 and 16 times as much; how threads take turns adds some lines."""


class CountedLines:
    """The block of a row in which lines are counted."""

    def __init__(self):
        self._lines = LineCounter()
        self.count = 0

    async def __aenter__(self):
        self._lines.__enter__()

    async def __aexit__(self, *error):
        self._lines.__exit__(*error)
        self.count = self._lines.count


def count_lines(hostile, size, folder):
    """The lines that run for so much of it."""
    folder.mkdir()
    counted = CountedLines()
    asyncio.run(hostile.run(folder, counted, size))
    return counted.count


@pytest.mark.parametrize("name", HOSTILE_INPUTS)
def test_hostile_input_costs_bounded_work(name, tmp_path):
    hostile = HOSTILE_INPUTS[name]
    count_lines(hostile, hostile.test_size, tmp_path / "first")  # what is imported at its first use is imported here
    few, many = (count_lines(hostile, size, tmp_path / str(size)) for size in (hostile.test_size, 4 * hostile.test_size))
    assert many / few < MAX_GROWTH[hostile.work], (few, many)
