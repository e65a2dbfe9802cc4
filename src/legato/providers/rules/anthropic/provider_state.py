"""The provider's state, as far as rules need it: the meaning of signatures, and the properties of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from legato.providers.rules.anthropic import model_generations


class ThinkingSignature(Struct, frozen=True):
    """The meaning of a thinking block's signature. An empty field is not known, and fits everything."""

    thinking_digest: str = field(name="thinking")  # of the block's text, from `digest_thinking`
    prefix_digest: str = field(name="prefix")  # of everything before the block, from `digest_prefix`
    model: str
    account: str = ""


class AnthropicModelInfo(Struct, frozen=True):
    """The properties of a model that rules depend on."""

    name: str
    binds_thinking: bool = False  # preserved thinking: its thinking blocks are bound to everything before them
    accepts_prefill: bool = True  # a final assistant message, which it continues
    context_window: int = 0  # tokens; 0: no limit known
    max_output_tokens: int = 0  # 0: no limit known
    accepts_system_role: bool = True  # messages with the role `system`
    readable_models: tuple[str, ...] = ()  # other models whose thinking it may read
    has_public_thinking: bool = False  # any model may read its thinking
    efforts: tuple[str, ...] | None = None  # the accepted efforts; empty: none; None: not known
    accepts_sampling: bool = True  # other values than the defaults of `temperature`, `top_p` and `top_k`
    accepts_one_sampling_option: bool = False  # `temperature` or `top_p`, not both
    compares_call_ids: bool = True  # the ids of tool uses and results must agree


def read_model_name(name: str) -> AnthropicModelInfo:
    """Return the properties that a model's name tells.

    >>> read_model_name("claude-opus-4-6").efforts
    ('low', 'medium', 'high', 'max')
    """
    return AnthropicModelInfo(
        name,
        efforts=model_generations.find_efforts(name),
        accepts_sampling=model_generations.accepts_sampling(name),
        accepts_one_sampling_option=model_generations.accepts_one_sampling_option(name),
        compares_call_ids=model_generations.compares_call_ids(name),
    )


class AnthropicState(Protocol):
    """The state of one account, queried by rules."""

    account: str

    def read_signature(self, text: str) -> ThinkingSignature | None:
        """Return the meaning of a signature. None: the provider did not make it."""
        ...

    def find_model(self, name: str) -> AnthropicModelInfo | None:
        """Return the properties of a model. None: it does not exist."""
        ...


class EmptyAnthropicState:
    """A provider that knows every model and trusts every signature. Requests are checked on their own.

    >>> EmptyAnthropicState().find_model("claude-sonnet-5-5").binds_thinking
    False
    """

    account = ""

    def read_signature(self, text: str) -> ThinkingSignature | None:
        """Return a signature that fits every block: it cannot be decrypted here, and is trusted."""
        return ThinkingSignature("", "", "")

    def find_model(self, name: str) -> AnthropicModelInfo | None:
        """Return the properties that the name tells, for any name."""
        return read_model_name(name)


class UnknownAnthropicState(EmptyAnthropicState):
    """A provider that trusts every signature, with the given models. Of stored state, requests of this API refer to signatures only.

    >>> UnknownAnthropicState(lambda name: None).find_model("claude-sonnet-5-5") is None
    True
    """

    def __init__(self, models: Callable[[str], AnthropicModelInfo | None] = read_model_name) -> None:
        self._models = models

    def find_model(self, name: str) -> AnthropicModelInfo | None:
        """Return what `models` returns; by default, the properties that the name tells."""
        return self._models(name)
