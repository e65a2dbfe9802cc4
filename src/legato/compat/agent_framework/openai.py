"""What programs import from `agent_framework.openai`."""

from legato.compat.agent_framework.clients import OpenAIChatClient, OpenAIChatCompletionClient, OpenAIResponsesClient

__all__ = ["OpenAIChatClient", "OpenAIChatCompletionClient", "OpenAIResponsesClient"]
