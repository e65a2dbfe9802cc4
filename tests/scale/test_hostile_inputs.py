"""The work of each hostile input is constant or linear in its size: lines that run are counted for a small size and for four times that."""

import asyncio

import pytest

from tests.scale.hostile_inputs import HOSTILE_INPUTS
from tests.scale.work_counters import LineCounter

MAX_GROWTH = {"constant": 2, "linear": 8}
"""The allowed growth of the work for four times the size. Worse orders grow 4 and 16 times; thread switches add some lines."""


class LineCountBlock:
    """A block of a row in which lines are counted."""

    def __init__(self):
        self._lines = LineCounter()
        self.count = 0

    async def __aenter__(self):
        self._lines.__enter__()

    async def __aexit__(self, *error):
        self._lines.__exit__(*error)
        self.count = self._lines.count


def count_lines(hostile, size, folder):
    """Return the number of lines that run for an input of this size."""
    folder.mkdir()
    block = LineCountBlock()
    asyncio.run(hostile.run_input(folder, block, size))
    return block.count


@pytest.mark.parametrize("name", HOSTILE_INPUTS)
def test_hostile_input_costs_bounded_work(name, tmp_path):
    hostile = HOSTILE_INPUTS[name]
    count_lines(hostile, hostile.test_size, tmp_path / "first")  # so that imports of the first use are not counted
    few, many = (count_lines(hostile, size, tmp_path / str(size)) for size in (hostile.test_size, 4 * hostile.test_size))
    assert many / few < MAX_GROWTH[hostile.work], (few, many)
