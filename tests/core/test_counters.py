"""Counters: work time, where parallel work counts once."""

from hypothesis import given
from hypothesis import strategies as st

from legato.core.counters import WorkTime

PIECES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=12)


@given(PIECES)
def test_parallel_work_counts_once(pieces: list[tuple[int, int]]) -> None:
    work, union = WorkTime(), set[int]()
    for start, end in sorted(((start, start + length) for start, length in pieces), key=lambda piece: piece[1]):
        new = set(range(start, end)) - union
        assert work.add(start, end) == len(new)
        union |= new


@given(st.lists(st.tuples(PIECES, st.integers(0, 20), st.integers(0, 5)), max_size=6))
def test_work_after_parallel_tools_counts_once(turns) -> None:
    """A reply begins after the tools before it; nothing that follows it is counted twice."""
    work, union, begun = WorkTime(), set[int](), 0
    for pieces, thought, pause in turns:
        ends = sorted(((begun + start, begun + start + length) for start, length in pieces), key=lambda piece: piece[1])
        begun = max([begun, *(end for _, end in ends)]) + pause
        for start, end in [*ends, (begun, begun + thought)]:
            new = set(range(start, end)) - union
            assert work.add(start, end) == len(new)
            union |= new
