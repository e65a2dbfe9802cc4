"""OpenAI's models on Azure, through OpenAI's own SDK. May know: the SDK. Decides: how Azure is addressed and its keys are brought."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from legato.errors import BadInput
from legato.models.openai import OpenAIResponses
from legato.models.sdk import WITHOUT_A_KEY, configured_address, import_sdk, no_key
from legato.providers.formats.options import Memory

SCOPE = "https://cognitiveservices.azure.com/.default"


class AzureOpenAIResponses(OpenAIResponses):
    """A deployment on Azure OpenAI. A key, or a credential of `azure-identity`; without either, AZURE_OPENAI_API_KEY.

    What a deployment stores is known to that deployment alone: with `memory="chained"`, another one is told everything by value.

    >>> AzureOpenAIResponses("my-gpt-5", endpoint="https://example.openai.azure.com", api_key="...")
    <AzureOpenAIResponses my-gpt-5, inline>
    """

    provider = "azure"
    names_models = False

    def __init__(
        self,
        deployment: str,
        *,
        endpoint: str | None = None,
        api_key: str | None = None,
        credential: Any = None,
        memory: Memory = "inline",
        **more: Any,
    ) -> None:
        self._endpoint = endpoint
        self._credential = credential
        super().__init__(deployment, api_key=api_key, memory=memory, **more)
        self.address = configured_address(endpoint, more.get("client"))

    @property
    def name(self) -> str:
        """What is recorded with each reply."""
        return f"azure:{self.options.model}"

    def _more_client_options(self) -> dict[str, Any]:
        return {"endpoint": self._endpoint, "credential": self._credential}

    @staticmethod
    def _make(given: Mapping[str, Any], timeout: float) -> Any:
        openai = import_sdk("openai")
        key = given.get("api_key") or os.environ.get("AZURE_OPENAI_API_KEY")
        endpoint = (given.get("endpoint") or os.environ.get("AZURE_OPENAI_ENDPOINT", "")).rstrip("/")
        if not endpoint:
            do = f"set AZURE_OPENAI_ENDPOINT, or pass endpoint=...; {WITHOUT_A_KEY}"
            raise BadInput("Azure needs an endpoint", do=do)
        credential = given.get("credential")
        if not key and credential is None:
            do = f"{no_key('AZURE_OPENAI_API_KEY')}, or pass credential=DefaultAzureCredential()"
            raise BadInput("Azure needs a key or a credential", do=do)
        bearer = key if credential is None else tokens_of(credential)
        headers = {"api-key": key} if key and credential is None else {}
        return openai.AsyncOpenAI(
            base_url=f"{endpoint}/openai/v1/", api_key=bearer, default_headers=headers, max_retries=0, timeout=timeout
        )


def tokens_of(credential: Any) -> Callable[[], Awaitable[str]]:
    """A function that gets a token from a credential, whether that is a plain one or an async one."""

    async def token() -> str:
        get = credential.get_token
        found = await get(SCOPE) if inspect.iscoroutinefunction(get) else await asyncio.to_thread(get, SCOPE)
        text: str = found.token
        return text

    return token
