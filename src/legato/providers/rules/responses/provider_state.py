"""The provider's stored state, as far as rules need it: responses, conversations, items, prompts and models.

The emulator answers from its storage; Legato's own check answers from what its ledger says was sent and received.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

UNSEEN_TYPE = "unseen"
"""The type of an entry that stands for unseen items: any number, of any type."""


class StoredItem(Struct, frozen=True):
    """A stored item, and its neighbours in the reply that produced it."""

    item: dict[str, Any]
    reasoning_id: str = ""  # the id of the reasoning item directly before it, if any
    next_item_id: str = ""  # for a reasoning item: the id of the item directly after it, if any
    is_known: bool = True  # False: an item of this id may exist, and nothing more is known


class DecryptedContent(Struct, frozen=True):
    """The meaning of an `encrypted_content`."""

    organisation: str
    item_id: str = field(name="item")
    model: str
    next_item_id: str = field(default="", name="following")


class ResponsesModelInfo(Struct, frozen=True):
    """The properties of a model that rules depend on."""

    name: str
    has_reasoning: bool | None = None  # None: not known
    context_window: int = 0  # tokens; 0: no limit known
    default_effort: str = ""  # empty: not known
    efforts: tuple[str, ...] = ()  # the accepted efforts; empty: not known


class ResponsesState(Protocol):
    """The stored state of one account, queried by rules."""

    organisation: str

    def find_response_items(self, response: str) -> Sequence[dict[str, Any]] | None:
        """Return the items of a stored response and of all responses it continues, its own output last. None: not found."""
        ...

    def find_conversation_items(self, id: str) -> Sequence[dict[str, Any]] | None:
        """Return the items of a conversation. None: not found."""
        ...

    def is_conversation_locked(self, conversation: str) -> bool:
        """Return True if another request is using that conversation."""
        ...

    def has_prompt(self, id: str) -> bool:
        """Return True if there is a stored prompt with that id."""
        ...

    def find_item(self, id: str) -> StoredItem | None:
        """Return a stored item. None: not found."""
        ...

    def decrypt(self, text: str) -> DecryptedContent | None:
        """Return the meaning of an `encrypted_content`. None: it cannot be decrypted or parsed."""
        ...

    def find_model(self, name: str) -> ResponsesModelInfo | None:
        """Return the properties of a model. None: it does not exist."""
        ...


@runtime_checkable
class ExpiryAware(Protocol):
    """An optional part of `ResponsesState`: it knows why a response is missing."""

    def is_response_expired(self, response_id: str) -> bool:
        """Return True if there was a response with that id, and it has become too old."""
        ...


class EmptyResponsesState:
    """A provider that stores nothing and knows every model. Requests are checked on their own.

    >>> EmptyResponsesState().find_response_items("resp_1") is None
    True
    """

    organisation = ""

    def find_response_items(self, response: str) -> Sequence[dict[str, Any]] | None:
        """Return None: nothing is stored."""
        return None

    def find_conversation_items(self, id: str) -> Sequence[dict[str, Any]] | None:
        """Return None: nothing is stored."""
        return None

    def is_conversation_locked(self, conversation: str) -> bool:
        """Return False: there are no other requests."""
        return False

    def has_prompt(self, id: str) -> bool:
        """Return False: nothing is stored."""
        return False

    def find_item(self, id: str) -> StoredItem | None:
        """Return None: nothing is stored."""
        return None

    def decrypt(self, text: str) -> DecryptedContent | None:
        """Return a content that fits every request: it cannot be decrypted here, and is trusted."""
        return DecryptedContent("", "", "")

    def find_model(self, name: str) -> ResponsesModelInfo | None:
        """Return a model without known limits, for any name."""
        return ResponsesModelInfo(name)


class UnknownResponsesState(EmptyResponsesState):
    """A provider that may store anything that a request refers to: for an account that cannot be looked into.

    Every id exists, and the items behind it are unseen. Rules that depend on unseen items are not checked: whether a call in a
    conversation has its output, or which reasoning belongs to a stored message. All that the request itself shows is checked.

    >>> UnknownResponsesState().find_response_items("resp_1")
    ({'type': 'unseen'},)
    """

    def __init__(self, models: Callable[[str], ResponsesModelInfo | None] = ResponsesModelInfo) -> None:
        self._models = models

    def find_response_items(self, response: str) -> Sequence[dict[str, Any]] | None:
        """Return unseen items."""
        return ({"type": UNSEEN_TYPE},)

    def find_conversation_items(self, id: str) -> Sequence[dict[str, Any]] | None:
        """Return unseen items."""
        return ({"type": UNSEEN_TYPE},)

    def has_prompt(self, id: str) -> bool:
        """Return True: every prompt exists."""
        return True

    def find_item(self, id: str) -> StoredItem | None:
        """Return an unseen item: every id exists."""
        return StoredItem({"type": UNSEEN_TYPE}, is_known=False)

    def find_model(self, name: str) -> ResponsesModelInfo | None:
        """Return what `models` returns; by default, a model without known limits."""
        return self._models(name)
