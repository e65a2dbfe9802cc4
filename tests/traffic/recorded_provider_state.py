"""What a provider holds, as far as the exchanges of one recording show it. What they do not show may exist, and cannot be seen."""

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


class _Turn(Struct, frozen=True):
    """A response with what it answered."""

    items: Sequence[dict[str, Any]]
    stored: bool
    previous: str = ""
    conversation: str = ""


ValueT = TypeVar("ValueT")


class Shown(Generic[ValueT]):
    """What the exchanges show of each id. An id that stands for several things is a placeholder of the recording, and shows nothing."""

    def __init__(self) -> None:
        self._values: dict[str, ValueT] = {}
        self._placeholders: set[str] = set()

    def add(self, id: str, value: ValueT) -> None:
        """An exchange shows this of an id."""
        if self._values.setdefault(id, value) != value:
            self._placeholders.add(id)

    def get(self, id: str) -> ValueT | None:
        """What is shown; None if nothing is."""
        return None if id in self._placeholders else self._values.get(id)


class RecordedResponses(UnknownResponsesState):
    """What the Responses API was seen to keep: responses, the items in them, conversations, and what sealed reasoning holds."""

    def __init__(self, models: Callable[[str], ResponsesModelInfo | None] = ResponsesModelInfo) -> None:
        super().__init__(models)
        self._turns: Shown[_Turn] = Shown()
        self._conversations: dict[str, list[dict[str, Any]]] = {}
        self._items: Shown[tuple[StoredItem, bool]] = Shown()  # with whether it was to be stored
        self._blobs: Shown[DecryptedContent] = Shown()

    def learn(self, request: dict[str, Any], response: dict[str, Any]) -> None:
        """Take in an exchange that succeeded."""
        output, given, conversation = as_objects(response.get("output")), request.get("input"), request.get("conversation")
        items = [*([{"role": "user", "content": given}] if isinstance(given, str) else as_objects(given)), *output]
        stored = response.get("store") is not False and request.get("store") is not False
        talk = as_text(conversation.get("id") if isinstance(conversation, dict) else conversation)
        self._turns.add(as_text(response.get("id")), _Turn(items, stored, as_text(request.get("previous_response_id")), talk))
        if talk:
            self._conversations.setdefault(talk, []).extend(items)
        for before, item, after in zip([{}, *output], output, [*output[1:], {}], strict=False):
            name = item.get("id")
            if isinstance(name, str):
                reasoning = as_text(before.get("id")) if before.get("type") == "reasoning" else ""
                following = as_text(after.get("id")) if item.get("type") == "reasoning" else ""
                self._items.add(name, (StoredItem(item, reasoning, following), stored))
                if isinstance(seal := item.get("encrypted_content"), str):
                    self._blobs.add(seal, DecryptedContent("", name, as_text(response.get("model")), following))

    def find_response_items(self, response: str) -> Sequence[dict[str, Any]] | None:
        """Everything that a response stands on. What stood before the first one that was recorded cannot be seen."""
        turns: list[_Turn] = []
        turn = self._turns.get(response)
        if turn is not None and not turn.stored:
            return None
        while turn is not None and turn not in turns:
            turns.append(turn)
            turn = self._turns.get(turn.previous)
        whole = bool(turns) and not turns[-1].previous and not turns[-1].conversation
        items = [item for turn in reversed(turns) for item in turn.items]
        return items if whole else [{"type": UNSEEN_TYPE}, *items]

    def find_conversation_items(self, id: str) -> Sequence[dict[str, Any]] | None:
        """What was seen to go into a conversation. It may have been made with other items."""
        return [{"type": UNSEEN_TYPE}, *self._conversations.get(id, ())]

    def find_item(self, id: str) -> StoredItem | None:
        """An item that was seen. One that was never seen may exist; one that was not to be stored does not."""
        shown = self._items.get(id)
        if shown is None:
            return super().find_item(id)
        item, stored = shown
        return item if stored else None

    def decrypt(self, seal: str) -> DecryptedContent | None:
        """What sealed reasoning holds, if it was seen to be made."""
        return self._blobs.get(seal) or super().decrypt(seal)


class RecordedSignatures(anthropic.UnknownAnthropicState):
    """The signatures that the Messages API was seen to give, and the thinking that they vouch for."""

    def __init__(self, models: Callable[[str], anthropic.AnthropicModelInfo | None] = anthropic.read_model_name) -> None:
        super().__init__(models)
        self._signed: Shown[anthropic.ThinkingSignature] = Shown()

    def learn(self, request: dict[str, Any], response: dict[str, Any]) -> None:
        """Take in an exchange that succeeded."""
        for block in as_objects(response.get("content")):
            if block.get("type") == "thinking":
                digest = digest_thinking(as_text(block.get("thinking")))
                self._signed.add(as_text(block.get("signature")), anthropic.ThinkingSignature(digest, "", as_text(response.get("model"))))

    def read_signature(self, text: str) -> anthropic.ThinkingSignature | None:
        """What a signature vouches for, if it was seen to be given."""
        return self._signed.get(text) or super().read_signature(text)
