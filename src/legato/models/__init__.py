"""Models, which reply to requests. The driver uses only the protocol `Model`.

A provider's class is imported when its name is first used, here or in a string such as "openai:gpt-5.1": the formats and rules of all
providers take four times as long to import as the rest of Legato (docs/PERFORMANCE.md), and most programs use one of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from legato.core.facts import Call, HostedToolUse, OutputText, Reasoning, Refusal, ReplyItem, Usage
from legato.core.view import ModelRequest
from legato.models.model import Emit, Model, ModelReply, resolve

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
    "HostedToolUse",
    "Model",
    "ModelReply",
    "ModelRequest",
    "OpenAIChat",
    "OpenAIResponses",
    "OutputText",
    "Price",
    "Reasoning",
    "Refusal",
    "ReplyItem",
    "Usage",
    "resolve",
]

_MODULES = {
    "Anthropic": "anthropic",
    "AzureOpenAIResponses": "azure",
    "FallbackModel": "fallback",
    "OpenAIChat": "chat",
    "OpenAIResponses": "openai",
    "Price": "prices",
}


if not TYPE_CHECKING:  # a type checker would accept any name of a module with __getattr__

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
