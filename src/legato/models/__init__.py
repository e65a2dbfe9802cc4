"""Models: what answers a request. A provider's client is a thin edge around a pure wire; `Model` is all that the driver knows."""

from legato.core.facts import Call, Hosted, Item, Reasoning, Refusal, Usage, Words
from legato.core.view import Request
from legato.models.anthropic import Anthropic
from legato.models.azure import AzureOpenAIResponses
from legato.models.base import Emit, Model, Reply, resolve
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
