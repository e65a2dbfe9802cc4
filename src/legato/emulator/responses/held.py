"""What the emulator can tell the law book. May know: the shelf, the locks, the catalogue. Decides: what has expired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.emulator.models import Catalogue
from legato.emulator.responses.turns import Turn, Turns
from legato.emulator.seal import Seal
from legato.emulator.shelf import Shelf, damaged
from legato.providers.rules.responses.held import Blob, HeldItem, ModelInfo

KEPT_FOR = 30 * 24 * 60 * 60  # seconds a response is kept; conversations do not expire


class Store:
    """Everything the Responses API keeps, and who is at work on what."""

    def __init__(self, shelf: Shelf, seal: Seal, models: Catalogue) -> None:
        self.shelf = shelf
        self.seal = seal
        self.models = models
        self.turns = Turns(shelf)
        self.locks: set[tuple[str, str]] = set()  # account and conversation; a lock does not outlive the process
        self.locked_once: set[tuple[str, str]] = set()  # by a fault, for the request that is judged next

    def response(self, account: str, id: str, now: float) -> dict[str, Any] | None:
        """The row of a stored response: its body without its output. None: unknown, deleted or expired."""
        row = self.shelf.get(account, "response", id)
        try:
            return row["body"] if row is not None and now < row["expires_at"] else None
        except (KeyError, TypeError) as error:
            raise damaged("response", id, error) from error

    def keep_response(self, account: str, body: dict[str, Any]) -> None:
        """Keep a response. Its output lies in its turn."""
        self.shelf.put(account, "response", body["id"], {"body": {**body, "output": []}, "expires_at": body["created_at"] + KEPT_FOR})

    def expire_response(self, account: str, id: str) -> bool:
        """Make a response as old as if it were too old. False: there is none of that id."""
        row = self.shelf.get(account, "response", id)
        if row:
            self.shelf.put(account, "response", id, {**row, "expires_at": 0})
        return row is not None

    def conversation(self, account: str, id: str) -> dict[str, Any] | None:
        """The row of a conversation: what it is, its last turn, and the items that were deleted from it."""
        row = self.shelf.get(account, "conversation", id)
        if row is not None and not ("tail" in row and "deleted" in row):
            raise damaged("conversation", id, KeyError("tail, deleted"))
        return row

    def conversation_turns(self, account: str, row: dict[str, Any]) -> list[Turn]:
        """The turns of a conversation, the oldest first."""
        return self.turns.walk(account, row["tail"])

    def conversation_items(self, account: str, row: dict[str, Any]) -> list[dict[str, Any]]:
        """The items of a conversation, the oldest first."""
        gone = set(row["deleted"])
        return [item for turn in self.conversation_turns(account, row) for item in turn.items if item["id"] not in gone]


class ShelfHeld:
    """One account's part of the store, as the law book asks for it."""

    def __init__(self, store: Store, account: str, now: float, *, deployment: bool = False) -> None:
        self.organisation = account
        self._store = store
        self._now = now
        self._deployment = deployment  # the request names an Azure deployment, which may be called anything

    def chain(self, response: str) -> Sequence[dict[str, Any]] | None:
        """Every item, input and output, that this stored response stands on, its own output last."""
        if self._store.response(self.organisation, response, self._now) is None:
            return None
        return [item for turn in self._store.turns.walk(self.organisation, response) for item in turn.items]

    def expired(self, response: str) -> bool:
        """Whether there was a response of that id that has become too old."""
        known = self._store.shelf.get(self.organisation, "response", response) is not None
        return known and self._store.response(self.organisation, response, self._now) is None

    def conversation(self, id: str) -> Sequence[dict[str, Any]] | None:
        """The items of a conversation."""
        row = self._store.conversation(self.organisation, id)
        return None if row is None else self._store.conversation_items(self.organisation, row)

    def locked(self, conversation: str) -> bool:
        """Whether another request is at work on that conversation."""
        key = (self.organisation, conversation)
        return key in self._store.locks or key in self._store.locked_once

    def stored_prompt(self, id: str) -> bool:
        """The emulator keeps no prompts."""
        return False

    def item(self, id: str) -> HeldItem | None:
        """A stored item."""
        return self._store.turns.item(self.organisation, id)

    def blob(self, text: str) -> Blob | None:
        """What an `encrypted_content` holds."""
        return self._store.seal.open(text)

    def model(self, name: str) -> ModelInfo | None:
        """What the catalogue knows of a model."""
        return self._store.models.openai(name, deployment=self._deployment)
