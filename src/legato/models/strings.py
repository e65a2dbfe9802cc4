"""Models by name. May know: the clients. Decides: what a string such as "openai:gpt-5.1" stands for."""

from __future__ import annotations

from collections.abc import Callable

from legato.errors import BadInput
from legato.models.base import Model


def _openai(name: str) -> Model:
    from legato.models.openai import OpenAIResponses

    return OpenAIResponses(name)


def _chat(name: str) -> Model:
    from legato.models.chat import OpenAIChat

    return OpenAIChat(name)


def _azure(name: str) -> Model:
    from legato.models.azure import AzureOpenAIResponses

    return AzureOpenAIResponses(name)


def _anthropic(name: str) -> Model:
    from legato.models.anthropic import Anthropic

    return Anthropic(name)


PROVIDERS: dict[str, Callable[[str], Model]] = {"openai": _openai, "openai-chat": _chat, "azure": _azure, "anthropic": _anthropic}


def check_string(text: str, whose: str) -> tuple[str, str]:
    """The provider and the name in a string; `BadInput` if it names no model. Nothing is made yet."""
    provider, colon, name = text.partition(":")
    if not colon or not name or provider not in PROVIDERS:
        raise BadInput(
            f"{whose}: {text!r} names no model",
            expected=", ".join(f'"{each}:..."' for each in PROVIDERS),
            do='write model="openai:gpt-5.1"; for other servers OpenAIChat("...", base_url=..., compatible=True)',
        )
    return provider, name


def model_named(text: str, whose: str) -> Model:
    """The model that a string names. Keys and addresses come from the environment, as the SDKs have them."""
    provider, name = check_string(text, whose)
    return PROVIDERS[provider](name)
