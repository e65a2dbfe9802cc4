"""The names that programs import from `agent_framework.openai`."""

from legato.compat.agent_framework.clients import OpenAIChatClient, OpenAIChatCompletionClient, OpenAIResponsesClient
from legato.compat.agent_framework.options import OpenAIChatCompletionOptions, OpenAIChatOptions, OpenAIResponsesOptions

__all__ = [
    "OpenAIChatClient",
    "OpenAIChatCompletionClient",
    "OpenAIChatCompletionOptions",
    "OpenAIChatOptions",
    "OpenAIResponsesClient",
    "OpenAIResponsesOptions",
]
