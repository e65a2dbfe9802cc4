"""The table of clients on the page of OpenAI's APIs has every row and every column that `make peers` has, and says nothing of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.desk import COLUMNS
from tests.peers.matrix import BEGIN, CANNOT, END, PAGE, ROWS, Cell, Row, draw_table, write_table


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table_of(text: str) -> list[list[str]]:
    """The rows of the table between the markers, without the line below its head."""
    assert text.count(BEGIN) == text.count(END) == 1
    between = text.partition(BEGIN)[2].partition(END)[0]
    head, _, *rows = between.strip().splitlines()
    return [cells_of(line) for line in (head, *rows)]


def test_the_page_has_every_client_and_column() -> None:
    head, *rows = table_of(PAGE.read_text())
    assert head == ["client", *COLUMNS]
    assert [row[0] for row in rows] == [row.name for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_cell_says_that_it_works_or_why_it_cannot(row: Row) -> None:
    (found,) = (cells for cells in table_of(PAGE.read_text()) if cells[0] == row.name)
    for column, text in zip(COLUMNS, found[1:], strict=True):
        assert text == CANNOT.get((row.name, column), "yes"), column


def test_a_failure_is_written_as_one(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    cells = [Cell(ROWS[0], column, "it saw nothing" if column == "plain" else "") for column in COLUMNS]
    write_table(cells, page)
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")
    assert table_of(page.read_text())[1][:3] == [ROWS[0].name, "**fails**", "yes"]
    assert "old" not in page.read_text()
    assert draw_table(cells) in page.read_text()


def test_what_a_client_cannot_do_names_rows_and_columns_that_there_are() -> None:
    assert {name for name, _ in CANNOT} <= {row.name for row in ROWS}
    assert {column for _, column in CANNOT} <= set(COLUMNS)
