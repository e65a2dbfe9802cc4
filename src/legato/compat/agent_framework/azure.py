"""The names that programs import from `agent_framework.azure`."""

from legato.compat.agent_framework.clients import AzureOpenAIResponsesClient

__all__ = ["AzureOpenAIResponsesClient"]
