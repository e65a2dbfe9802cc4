"""Turns on the shelf: what it costs to find their items, and what a damaged shelf is told as."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from legato.emulator import serve
from legato.emulator.responses.turns import Turn, Turns
from legato.emulator.shelf import Shelf
from legato.errors import BadInput


class Looked(dict[str, Any]):
    """An item that counts how often anybody looks at an id."""

    looks = 0

    def get(self, name: str, default: Any = None) -> Any:
        Looked.looks += name == "id"
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        Looked.looks += name == "id"
        return super().__getitem__(name)


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    shelf = Shelf()
    yield shelf
    shelf.close()


def messages(count: int) -> list[dict[str, Any]]:
    return [{"type": "message", "id": f"msg_{number}", "role": "user", "content": "Hi"} for number in range(count)]


def looks_for(shelf: Shelf, count: int) -> int:
    turns = Turns(shelf)
    turns.add("org-1", Turn(f"turn_{count}", messages(count), inputs=count))
    row = turns._row("org-1", f"turn_{count}")
    row.items[:] = map(Looked, row.items)
    Looked.looks = 0
    for item in messages(count):
        held = turns.item("org-1", item["id"])
        assert held is not None
        assert held.item == item
    return Looked.looks


def test_finding_all_items_of_a_turn_costs_as_much_as_there_are() -> None:
    for count in (10, 1000):
        shelf = Shelf()
        assert looks_for(shelf, count) <= 2 * count
        shelf.close()


def test_an_item_on_a_shelf_that_does_not_tell_its_index_is_found(shelf: Shelf) -> None:
    turns = Turns(shelf)
    turns.add("org-1", Turn("turn_1", messages(3), inputs=3))
    shelf.put("org-1", "item", "msg_2", {"turn": "turn_1"})
    held = turns.item("org-1", "msg_2")
    assert held is not None
    assert held.item["id"] == "msg_2"


def test_an_item_that_its_turn_does_not_have_is_not_there(shelf: Shelf) -> None:
    turns = Turns(shelf)
    turns.add("org-1", Turn("turn_1", messages(3), inputs=3))
    shelf.put("org-1", "item", "msg_9", {"turn": "turn_1", "index": 1})
    shelf.put("org-1", "item", "msg_8", {"turn": "turn_9"})
    assert turns.item("org-1", "msg_9") is None
    assert turns.item("org-1", "msg_8") is None


@pytest.mark.parametrize("kind", ["turn", "item"])
def test_a_row_of_another_form_is_told_as_damage(shelf: Shelf, kind: str) -> None:
    turns = Turns(shelf)
    turns.add("org-1", Turn("turn_1", messages(1), inputs=1))
    shelf.put("org-1", kind, "turn_1" if kind == "turn" else "msg_0", {"turn": 7})
    with pytest.raises(BadInput, match=f"the state file is damaged: the {kind}"):
        turns.item("org-1", "msg_0")


@pytest.mark.parametrize("damage", [b"{", b"[1]", b"\xff\xfe", 7, None, b"{}"])
def test_a_damaged_row_is_told_as_an_error_of_the_emulator(tmp_path: Path, damage: Any) -> None:
    state = tmp_path / "held.db"
    headers = {"authorization": "Bearer k"}
    with serve(state=state) as emulator:
        body = {"model": "gpt-4o", "input": "Hi"}
        id = httpx2.post(f"{emulator.openai_url}/responses", headers=headers, json=body).json()["id"]
    base = sqlite3.connect(state)
    base.execute("UPDATE held SET thing = ? WHERE kind = 'response'", (damage,))
    base.commit()
    base.close()
    with serve(state=state) as emulator:
        found = httpx2.get(f"{emulator.openai_url}/responses/{id}", headers=headers)
        asked = httpx2.post(f"{emulator.openai_url}/responses", headers=headers, json={**body, "previous_response_id": id})
    for reply in (found, asked):
        assert reply.status_code == 400
        assert f"the state file is damaged: the response '{id}'" in reply.json()["error"]["message"]
