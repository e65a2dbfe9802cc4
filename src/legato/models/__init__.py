"""Models: what answers a request. A provider's client is a thin edge around a pure wire; `Model` is all that the driver knows.

A client is imported when its name is first used, here or in a string such as "openai:gpt-5.1": the wires and law books of all providers
take four times as long to import as the rest of Legato (docs/PERFORMANCE.md), and a program speaks one of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from legato.core.facts import Call, Hosted, Item, Reasoning, Refusal, Usage, Words
from legato.core.view import Request
from legato.models.base import Emit, Model, Reply, resolve

if TYPE_CHECKING:
    from legato.models.anthropic import Anthropic
    from legato.models.azure import AzureOpenAIResponses
    from legato.models.chat import OpenAIChat
    from legato.models.fallback import FallbackModel
    from legato.models.openai import OpenAIResponses
    from legato.models.prices import Price

__all__ = [
    "Anthropic",
    "AzureOpenAIResponses",
    "Call",
    "Emit",
    "FallbackModel",
    "Hosted",
    "Item",
    "Model",
    "OpenAIChat",
    "OpenAIResponses",
    "Price",
    "Reasoning",
    "Refusal",
    "Reply",
    "Request",
    "Usage",
    "Words",
    "resolve",
]

_FOUND_IN = {
    "Anthropic": "anthropic",
    "AzureOpenAIResponses": "azure",
    "FallbackModel": "fallback",
    "OpenAIChat": "chat",
    "OpenAIResponses": "openai",
    "Price": "prices",
}


if not TYPE_CHECKING:  # a type checker would take any name for one that is found here

    def __getattr__(name: str) -> object:
        if name not in _FOUND_IN:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_FOUND_IN[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
