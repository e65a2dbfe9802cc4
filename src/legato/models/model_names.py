"""Models by name: "openai:gpt-5.1" and the like."""

from __future__ import annotations

from collections.abc import Callable

from legato.errors import BadInput
from legato.models.model import Model


def _make_openai_responses(name: str) -> Model:
    from legato.models.openai import OpenAIResponses

    return OpenAIResponses(name)


def _make_openai_chat(name: str) -> Model:
    from legato.models.chat import OpenAIChat

    return OpenAIChat(name)


def _make_azure_responses(name: str) -> Model:
    from legato.models.azure import AzureOpenAIResponses

    return AzureOpenAIResponses(name)


def _make_anthropic(name: str) -> Model:
    from legato.models.anthropic import Anthropic

    return Anthropic(name)


MODEL_FACTORIES: dict[str, Callable[[str], Model]] = {
    "openai": _make_openai_responses,
    "openai-chat": _make_openai_chat,
    "azure": _make_azure_responses,
    "anthropic": _make_anthropic,
}


def parse_model_name(text: str, whose: str) -> tuple[str, str]:
    """Return the provider and the model's name in a string; `BadInput` if it names no model. `whose`: its receiver, for the error."""
    provider, colon, name = text.partition(":")
    if not colon or not name or provider not in MODEL_FACTORIES:
        raise BadInput(
            f"{whose}: {text!r} names no model",
            expected=", ".join(f'"{each}:..."' for each in MODEL_FACTORIES),
            do='write model="openai:gpt-5.1"; for other servers OpenAIChat("...", base_url=..., compatible=True)',
        )
    return provider, name


def make_model(text: str, whose: str) -> Model:
    """Make the model that a string names. API keys and addresses come from the SDKs' environment variables."""
    provider, name = parse_model_name(text, whose)
    return MODEL_FACTORIES[provider](name)
