"""Stored turns: the cost of finding items, and damaged state files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from legato.emulator import serve
from legato.emulator.responses.stored_turns import StoredTurn, TurnStorage
from legato.emulator.storage import ProviderStorage
from legato.errors import BadInput


class CountingItem(dict[str, Any]):
    """An item that counts the lookups of its id."""

    lookups = 0

    def get(self, name: str, default: Any = None) -> Any:
        CountingItem.lookups += name == "id"
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        CountingItem.lookups += name == "id"
        return super().__getitem__(name)


@pytest.fixture
def storage() -> Iterator[ProviderStorage]:
    storage = ProviderStorage()
    yield storage
    storage.close()


def make_messages(count: int) -> list[dict[str, Any]]:
    return [{"type": "message", "id": f"msg_{number}", "role": "user", "content": "Hi"} for number in range(count)]


def count_lookups(storage: ProviderStorage, count: int) -> int:
    turns = TurnStorage(storage)
    turns.add("org-1", StoredTurn(f"turn_{count}", make_messages(count), input_count=count))
    row = turns._read_cached("org-1", f"turn_{count}")
    row.items[:] = map(CountingItem, row.items)
    CountingItem.lookups = 0
    for item in make_messages(count):
        stored_turn = turns.find_item("org-1", item["id"])
        assert stored_turn is not None
        assert stored_turn.item == item
    return CountingItem.lookups


def test_finding_items_takes_linear_time() -> None:
    for count in (10, 1000):
        storage = ProviderStorage()
        assert count_lookups(storage, count) <= 2 * count
        storage.close()


def test_item_without_index_is_found(storage: ProviderStorage) -> None:
    """State files of older emulators have no index."""
    turns = TurnStorage(storage)
    turns.add("org-1", StoredTurn("turn_1", make_messages(3), input_count=3))
    storage.put("org-1", "item", "msg_2", {"turn": "turn_1"})
    stored_turn = turns.find_item("org-1", "msg_2")
    assert stored_turn is not None
    assert stored_turn.item["id"] == "msg_2"


def test_item_missing_from_turn_is_none(storage: ProviderStorage) -> None:
    turns = TurnStorage(storage)
    turns.add("org-1", StoredTurn("turn_1", make_messages(3), input_count=3))
    storage.put("org-1", "item", "msg_9", {"turn": "turn_1", "index": 1})
    storage.put("org-1", "item", "msg_8", {"turn": "turn_9"})
    assert turns.find_item("org-1", "msg_9") is None
    assert turns.find_item("org-1", "msg_8") is None


@pytest.mark.parametrize("kind", ["turn", "item"])
def test_invalid_row_is_reported_as_damage(storage: ProviderStorage, kind: str) -> None:
    turns = TurnStorage(storage)
    turns.add("org-1", StoredTurn("turn_1", make_messages(1), input_count=1))
    storage.put("org-1", kind, "turn_1" if kind == "turn" else "msg_0", {"turn": 7})
    with pytest.raises(BadInput, match=f"the state file is damaged: the {kind}"):
        turns.find_item("org-1", "msg_0")


@pytest.mark.parametrize("damage", [b"{", b"[1]", b"\xff\xfe", 7, None, b"{}"])
def test_damaged_row_is_an_emulator_error(tmp_path: Path, damage: Any) -> None:
    state = tmp_path / "state.db"
    headers = {"authorization": "Bearer k"}
    with serve(state=state) as emulator:
        body = {"model": "gpt-4o", "input": "Hi"}
        id = httpx2.post(f"{emulator.openai_url}/responses", headers=headers, json=body).json()["id"]
    connection = sqlite3.connect(state)
    connection.execute("UPDATE held SET thing = ? WHERE kind = 'response'", (damage,))
    connection.commit()
    connection.close()
    with serve(state=state) as emulator:
        retrieved = httpx2.get(f"{emulator.openai_url}/responses/{id}", headers=headers)
        continued = httpx2.post(f"{emulator.openai_url}/responses", headers=headers, json={**body, "previous_response_id": id})
    for reply in (retrieved, continued):
        assert reply.status_code == 400
        assert f"the state file is damaged: the response '{id}'" in reply.json()["error"]["message"]
