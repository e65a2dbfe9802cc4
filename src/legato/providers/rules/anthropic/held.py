"""What Anthropic can tell about a request's thinking blocks and model. May know: data. Decides: nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from legato.providers.rules.anthropic import generations


class Signed(Struct, frozen=True):
    """What the signature of a thinking block turns out to say. Whatever is empty is not known, and cannot be wrong."""

    thinking: str  # the digest of the block's text, from `thinking_digest`
    prefix: str  # the digest of everything that stood before it, from `prefix_digest`
    model: str
    account: str = ""


class ModelInfo(Struct, frozen=True):
    """What matters about a model."""

    name: str
    binds: bool = False  # preserved thinking: its blocks are bound to what stood before them
    prefill: bool = True  # whether a conversation may end with the assistant's words
    window: int = 0  # tokens; 0: no limit known
    output: int = 0  # the most tokens it writes; 0: no limit known
    system_role: bool = True  # whether messages may have the role `system`
    reads: tuple[str, ...] = ()  # models other than itself whose thinking it may read
    unlocked: bool = False  # whether any model may read its thinking
    efforts: tuple[str, ...] | None = None  # those that it can be asked for; empty: none; None: not known
    samples: bool = True  # whether `temperature`, `top_p` and `top_k` may have other values than their defaults
    samples_by_one: bool = False  # whether only one of `temperature` and `top_p` may be given
    pairs_by_id: bool = True  # whether the ids of calls and results have to agree


def info_of(name: str) -> ModelInfo:
    """What a model's name says about it.

    >>> info_of("claude-opus-4-6").efforts
    ('low', 'medium', 'high', 'max')
    """
    return ModelInfo(
        name,
        efforts=generations.efforts(name),
        samples=generations.samples(name),
        samples_by_one=generations.samples_by_one(name),
        pairs_by_id=generations.pairs_by_id(name),
    )


class Held(Protocol):
    """Asked by the laws. Everything is about one account."""

    account: str

    def signature(self, text: str) -> Signed | None:
        """What a signature says. None: it is none of ours."""
        ...

    def model(self, name: str) -> ModelInfo | None:
        """What is known of a model. None: it does not exist."""
        ...


class Nothing:
    """A provider that knows every model and takes every signature at its word: what a request is judged by on its own.

    >>> Nothing().model("claude-sonnet-5-5").binds
    False
    """

    account = ""

    def signature(self, text: str) -> Signed | None:
        """It cannot be opened here, so it says nothing that could be wrong."""
        return Signed("", "", "")

    def model(self, name: str) -> ModelInfo | None:
        """Any name will do; it is held to what it says itself."""
        return info_of(name)


class UnknownProviderState(Nothing):
    """The same for models that are known: of what this API holds, a request refers to nothing but signatures.

    >>> UnknownProviderState(lambda name: None).model("claude-sonnet-5-5") is None
    True
    """

    def __init__(self, models: Callable[[str], ModelInfo | None] = info_of) -> None:
        self._models = models

    def model(self, name: str) -> ModelInfo | None:
        """What `models` knows; by default, any name will do."""
        return self._models(name)
