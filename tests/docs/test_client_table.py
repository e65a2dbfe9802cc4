"""The table of clients on the page about OpenAI's APIs matches the results of `make peers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.desk import EXPECTATIONS
from tests.peers.matrix import BEGIN_MARKER, END_MARKER, IMPOSSIBLE, PAGE, ROWS, Cell, Row, draw_table, write_table


def split_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def parse_table(text: str) -> list[list[str]]:
    """Return the rows of the table between the markers, without the line below its head."""
    assert text.count(BEGIN_MARKER) == text.count(END_MARKER) == 1
    table_text = text.partition(BEGIN_MARKER)[2].partition(END_MARKER)[0]
    head, _, *rows = table_text.strip().splitlines()
    return [split_cells(line) for line in (head, *rows)]


def test_table_has_every_client_and_column() -> None:
    head, *rows = parse_table(PAGE.read_text())
    assert head == ["client", *EXPECTATIONS]
    assert [row[0] for row in rows] == [row.name for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_cell_says_yes_or_the_reason(row: Row) -> None:
    (row_cells,) = (cells for cells in parse_table(PAGE.read_text()) if cells[0] == row.name)
    for column, text in zip(EXPECTATIONS, row_cells[1:], strict=True):
        assert text == IMPOSSIBLE.get((row.name, column), "yes"), column


def test_failure_is_written_into_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN_MARKER}\nold\n{END_MARKER}\nafter\n")
    cells = [Cell(ROWS[0], column, "it saw nothing" if column == "plain" else "") for column in EXPECTATIONS]
    write_table(cells, page)
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")
    assert parse_table(page.read_text())[1][:3] == [ROWS[0].name, "**fails**", "yes"]
    assert "old" not in page.read_text()
    assert draw_table(cells) in page.read_text()


def test_impossible_cells_name_existing_rows_and_columns() -> None:
    assert {name for name, _ in IMPOSSIBLE} <= {row.name for row in ROWS}
    assert {column for _, column in IMPOSSIBLE} <= set(EXPECTATIONS)
