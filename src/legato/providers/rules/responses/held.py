"""What the provider holds, as far as a law needs to know it. May know: data. Decides: nothing; whoever asks brings an answer.

The emulator answers from its shelf; Legato's own check answers from what its ledger says was sent and received.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

UNSEEN = "unseen"
"""The type of an entry that stands for items which cannot be seen: any number, of any type."""


class HeldItem(Struct, frozen=True):
    """A stored item, and what it was born with."""

    item: dict[str, Any]
    reasoning: str = ""  # the id of the reasoning item that it was produced right after, if any
    following: str = ""  # for a reasoning item: the id of the item that was produced right after it, if any
    certain: bool = True  # False: an item of this id may exist, and nothing more is known


class Blob(Struct, frozen=True):
    """What an `encrypted_content` turns out to be when it is opened."""

    organisation: str
    item: str
    model: str
    following: str = ""


class ModelInfo(Struct, frozen=True):
    """What matters about a model."""

    name: str
    reasons: bool | None = None  # None: not known
    window: int = 0  # tokens; 0: no limit known
    effort: str = ""  # how hard it thinks unless it is told otherwise; empty: not known
    efforts: tuple[str, ...] = ()  # the efforts that it takes; empty: not known


class Held(Protocol):
    """Asked by the laws. Everything is about one account."""

    organisation: str

    def chain(self, response: str) -> Sequence[dict[str, Any]] | None:
        """Every item, input and output, that this stored response stands on, its own output last. None: there is none of that id."""
        ...

    def conversation(self, id: str) -> Sequence[dict[str, Any]] | None:
        """The items of a conversation. None: there is none of that id."""
        ...

    def locked(self, conversation: str) -> bool:
        """Whether another request is at work on that conversation."""
        ...

    def stored_prompt(self, id: str) -> bool:
        """Whether there is a stored prompt of that id."""
        ...

    def item(self, id: str) -> HeldItem | None:
        """A stored item."""
        ...

    def blob(self, text: str) -> Blob | None:
        """What an `encrypted_content` holds. None: it cannot be decrypted or parsed."""
        ...

    def model(self, name: str) -> ModelInfo | None:
        """What is known of a model. None: it does not exist."""
        ...


@runtime_checkable
class Forgets(Protocol):
    """What a `Held` may also be able to tell: why it does not have a response any more."""

    def expired(self, response: str) -> bool:
        """Whether there was a response of that id that has become too old."""
        ...


class Nothing:
    """A provider that holds nothing and knows every model: what a request is judged by on its own.

    >>> Nothing().chain("resp_1") is None
    True
    """

    organisation = ""

    def chain(self, response: str) -> Sequence[dict[str, Any]] | None:
        """There is none."""
        return None

    def conversation(self, id: str) -> Sequence[dict[str, Any]] | None:
        """There is none."""
        return None

    def locked(self, conversation: str) -> bool:
        """Nobody is at work."""
        return False

    def stored_prompt(self, id: str) -> bool:
        """There is none."""
        return False

    def item(self, id: str) -> HeldItem | None:
        """There is none."""
        return None

    def blob(self, text: str) -> Blob | None:
        """Taken at its word: it cannot be opened here."""
        return Blob("", "", "")

    def model(self, name: str) -> ModelInfo | None:
        """Any name will do."""
        return ModelInfo(name)


class UnknownProviderState(Nothing):
    """A provider that may hold whatever a request refers to: for a request whose account cannot be looked into.

    Every id exists. What stands behind it cannot be seen, so no rule is judged that depends on it: whether a call is answered in a
    conversation, or which reasoning belongs to a stored message. What the request itself shows is judged as ever.

    >>> UnknownProviderState().chain("resp_1")
    ({'type': 'unseen'},)
    """

    def __init__(self, models: Callable[[str], ModelInfo | None] = ModelInfo) -> None:
        self._models = models

    def chain(self, response: str) -> Sequence[dict[str, Any]] | None:
        """Items that cannot be seen."""
        return ({"type": UNSEEN},)

    def conversation(self, id: str) -> Sequence[dict[str, Any]] | None:
        """Items that cannot be seen."""
        return ({"type": UNSEEN},)

    def stored_prompt(self, id: str) -> bool:
        """Every prompt exists."""
        return True

    def item(self, id: str) -> HeldItem | None:
        """Every item exists, and cannot be seen."""
        return HeldItem({"type": UNSEEN}, certain=False)

    def model(self, name: str) -> ModelInfo | None:
        """What `models` knows; by default, any name will do."""
        return self._models(name)
