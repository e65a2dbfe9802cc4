"""Provider state as the exchanges of one recording show it. Ids that they do not show may exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from legato.providers.formats.lenient_json import as_objects, as_text
from legato.providers.rules.anthropic import provider_state as anthropic
from legato.providers.rules.anthropic.prefix_digest import digest_thinking
from legato.providers.rules.responses.provider_state import (
    UNSEEN_TYPE,
    DecryptedContent,
    ResponsesModelInfo,
    StoredItem,
    UnknownResponsesState,
)


class _RecordedTurn(Struct, frozen=True):
    """A response with its input and its output."""

    items: Sequence[dict[str, Any]]
    is_stored: bool
    previous_response_id: str = ""
    conversation_id: str = ""


ValueT = TypeVar("ValueT")


class RecordedValues(Generic[ValueT]):
    """The value of each id. An id with several values is a placeholder of the recording, and has none."""

    def __init__(self) -> None:
        self._values: dict[str, ValueT] = {}
        self._placeholders: set[str] = set()

    def add(self, id: str, value: ValueT) -> None:
        """Add the value of an id in an exchange."""
        if self._values.setdefault(id, value) != value:
            self._placeholders.add(id)

    def get(self, id: str) -> ValueT | None:
        """Return the value of an id; None if it is unknown or a placeholder."""
        return None if id in self._placeholders else self._values.get(id)


class RecordedResponsesState(UnknownResponsesState):
    """The state of the Responses API in a recording: responses and their items, conversations, and encrypted reasoning."""

    def __init__(self, models: Callable[[str], ResponsesModelInfo | None] = ResponsesModelInfo) -> None:
        super().__init__(models)
        self._turns: RecordedValues[_RecordedTurn] = RecordedValues()
        self._conversations: dict[str, list[dict[str, Any]]] = {}
        self._items: RecordedValues[tuple[StoredItem, bool]] = RecordedValues()  # True: it was stored
        self._blobs: RecordedValues[DecryptedContent] = RecordedValues()

    def add_exchange(self, request: dict[str, Any], response: dict[str, Any]) -> None:
        """Add an exchange that succeeded."""
        output, input, conversation = as_objects(response.get("output")), request.get("input"), request.get("conversation")
        items = [*([{"role": "user", "content": input}] if isinstance(input, str) else as_objects(input)), *output]
        is_stored = response.get("store") is not False and request.get("store") is not False
        conversation_id = as_text(conversation.get("id") if isinstance(conversation, dict) else conversation)
        self._turns.add(
            as_text(response.get("id")), _RecordedTurn(items, is_stored, as_text(request.get("previous_response_id")), conversation_id)
        )
        if conversation_id:
            self._conversations.setdefault(conversation_id, []).extend(items)
        for before, item, after in zip([{}, *output], output, [*output[1:], {}], strict=False):
            id = item.get("id")
            if isinstance(id, str):
                reasoning = as_text(before.get("id")) if before.get("type") == "reasoning" else ""
                following = as_text(after.get("id")) if item.get("type") == "reasoning" else ""
                self._items.add(id, (StoredItem(item, reasoning, following), is_stored))
                if isinstance(seal := item.get("encrypted_content"), str):
                    self._blobs.add(seal, DecryptedContent("", id, as_text(response.get("model")), following))

    def find_response_items(self, response: str) -> Sequence[dict[str, Any]] | None:
        """Return all items up to the end of a response. The items before the first recorded response are unknown."""
        turns: list[_RecordedTurn] = []
        turn = self._turns.get(response)
        if turn is not None and not turn.is_stored:
            return None
        while turn is not None and turn not in turns:
            turns.append(turn)
            turn = self._turns.get(turn.previous_response_id)
        whole = bool(turns) and not turns[-1].previous_response_id and not turns[-1].conversation_id
        items = [item for turn in reversed(turns) for item in turn.items]
        return items if whole else [{"type": UNSEEN_TYPE}, *items]

    def find_conversation_items(self, id: str) -> Sequence[dict[str, Any]] | None:
        """Return the recorded items of a conversation. It may have been created with other items."""
        return [{"type": UNSEEN_TYPE}, *self._conversations.get(id, ())]

    def find_item(self, id: str) -> StoredItem | None:
        """Return a recorded item. An item that is not in the recording may exist; an item that was not stored does not."""
        recorded = self._items.get(id)
        if recorded is None:
            return super().find_item(id)
        item, is_stored = recorded
        return item if is_stored else None

    def decrypt(self, seal: str) -> DecryptedContent | None:
        """Return the content of encrypted reasoning, if the recording has its creation."""
        return self._blobs.get(seal) or super().decrypt(seal)


class RecordedAnthropicState(anthropic.UnknownAnthropicState):
    """The state of the Messages API in a recording: signatures, and the thinking that they sign."""

    def __init__(self, models: Callable[[str], anthropic.AnthropicModelInfo | None] = anthropic.read_model_name) -> None:
        super().__init__(models)
        self._signatures: RecordedValues[anthropic.ThinkingSignature] = RecordedValues()

    def add_exchange(self, request: dict[str, Any], response: dict[str, Any]) -> None:
        """Add an exchange that succeeded."""
        for block in as_objects(response.get("content")):
            if block.get("type") == "thinking":
                digest = digest_thinking(as_text(block.get("thinking")))
                self._signatures.add(
                    as_text(block.get("signature")), anthropic.ThinkingSignature(digest, "", as_text(response.get("model")))
                )

    def read_signature(self, text: str) -> anthropic.ThinkingSignature | None:
        """Return the content of a signature, if the recording has its creation."""
        return self._signatures.get(text) or super().read_signature(text)
