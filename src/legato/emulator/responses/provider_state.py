"""The stored objects of the Responses API, and the provider state that its rules ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.emulator.encrypted_content import ContentCipher
from legato.emulator.model_catalogue import ModelCatalogue
from legato.emulator.responses.stored_turns import StoredTurn, TurnStorage
from legato.emulator.storage import ProviderStorage, make_damage_error
from legato.providers.rules.responses.provider_state import DecryptedContent, ResponsesModelInfo, StoredItem

RESPONSE_LIFETIME_S = 30 * 24 * 60 * 60  # conversations do not expire


class ResponsesStorage:
    """The stored responses, conversations and turns of all accounts, and the locks of conversations."""

    def __init__(self, objects: ProviderStorage, cipher: ContentCipher, models: ModelCatalogue) -> None:
        self.objects = objects
        self.cipher = cipher
        self.models = models
        self.turns = TurnStorage(objects)
        self.locks: set[tuple[str, str]] = set()  # account and conversation; a lock does not outlive the process
        self.locked_once: set[tuple[str, str]] = set()  # by a fault, for the next check only

    def find_response(self, account: str, id: str, now: float) -> dict[str, Any] | None:
        """Return a stored response without its output. None: unknown, deleted or expired."""
        row = self.objects.get(account, "response", id)
        try:
            return row["body"] if row is not None and now < row["expires_at"] else None
        except (KeyError, TypeError) as error:
            raise make_damage_error("response", id, error) from error

    def store_response(self, account: str, body: dict[str, Any]) -> None:
        """Store a response. Its output is stored in its turn."""
        self.objects.put(
            account, "response", body["id"], {"body": {**body, "output": []}, "expires_at": body["created_at"] + RESPONSE_LIFETIME_S}
        )

    def expire_response(self, account: str, id: str) -> bool:
        """Let a response expire. False: there is none with that id."""
        row = self.objects.get(account, "response", id)
        if row:
            self.objects.put(account, "response", id, {**row, "expires_at": 0})
        return row is not None

    def find_conversation(self, account: str, id: str) -> dict[str, Any] | None:
        """Return the row of a conversation, with its last turn and the ids of its deleted items."""
        row = self.objects.get(account, "conversation", id)
        if row is not None and not ("tail" in row and "deleted" in row):
            raise make_damage_error("conversation", id, KeyError("tail, deleted"))
        return row

    def list_turns(self, account: str, row: dict[str, Any]) -> list[StoredTurn]:
        """Return the turns of a conversation, the oldest first."""
        return self.turns.list_chain(account, row["tail"])

    def list_items(self, account: str, row: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the items of a conversation, the oldest first."""
        deleted_ids = set(row["deleted"])
        return [item for turn in self.list_turns(account, row) for item in turn.items if item["id"] not in deleted_ids]


class EmulatorResponsesState:
    """The provider state of the Responses API, as one account sees it."""

    def __init__(self, storage: ResponsesStorage, account: str, now: float, *, is_deployment: bool = False) -> None:
        self.organisation = account
        self._storage = storage
        self._now = now
        self._is_deployment = is_deployment  # an Azure deployment may have any name

    def find_response_items(self, response: str) -> Sequence[dict[str, Any]] | None:
        """Return all items of a stored response's chain, input and output, its own output last."""
        if self._storage.find_response(self.organisation, response, self._now) is None:
            return None
        return [item for turn in self._storage.turns.list_chain(self.organisation, response) for item in turn.items]

    def is_response_expired(self, response: str) -> bool:
        """Return True if a response with that id exists and has expired."""
        is_stored = self._storage.objects.get(self.organisation, "response", response) is not None
        return is_stored and self._storage.find_response(self.organisation, response, self._now) is None

    def find_conversation_items(self, id: str) -> Sequence[dict[str, Any]] | None:
        """Return the items of a conversation."""
        row = self._storage.find_conversation(self.organisation, id)
        return None if row is None else self._storage.list_items(self.organisation, row)

    def is_conversation_locked(self, conversation: str) -> bool:
        """Return True if another request has locked the conversation."""
        key = (self.organisation, conversation)
        return key in self._storage.locks or key in self._storage.locked_once

    def has_prompt(self, id: str) -> bool:
        """Return False: the emulator stores no prompts."""
        return False

    def find_item(self, id: str) -> StoredItem | None:
        """Return a stored item."""
        return self._storage.turns.find_item(self.organisation, id)

    def decrypt(self, text: str) -> DecryptedContent | None:
        """Return the content of an `encrypted_content`."""
        return self._storage.cipher.decrypt_reasoning(text)

    def find_model(self, name: str) -> ResponsesModelInfo | None:
        """Return the properties of a model. None: it does not exist."""
        return self._storage.models.find_responses_info(name, is_deployment=self._is_deployment)
