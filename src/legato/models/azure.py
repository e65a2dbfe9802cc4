"""OpenAI's models on Azure, through OpenAI's SDK: Azure's addresses, keys and credentials."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from legato.errors import BadInput
from legato.models.openai import OpenAIResponses
from legato.models.sdk_client import EMULATOR_HINT, find_configured_address, import_sdk, make_missing_key_hint
from legato.providers.formats.request_options import MemoryMode

TOKEN_SCOPE = "https://cognitiveservices.azure.com/.default"


class AzureOpenAIResponses(OpenAIResponses):
    """A deployment on Azure OpenAI. It needs a key, the environment variable AZURE_OPENAI_API_KEY or a credential of `azure-identity`.

    Only the deployment itself knows what it stores: with `memory="chained"`, another deployment is sent all history by value.

    >>> AzureOpenAIResponses("my-gpt-5", endpoint="https://example.openai.azure.com", api_key="...")
    <AzureOpenAIResponses my-gpt-5, inline>
    """

    provider = "azure"
    is_name_a_model = False

    def __init__(
        self,
        deployment: str,
        *,
        endpoint: str | None = None,
        api_key: str | None = None,
        credential: Any = None,
        memory: MemoryMode = "inline",
        **more: Any,
    ) -> None:
        self._endpoint = endpoint
        self._credential = credential
        super().__init__(deployment, api_key=api_key, memory=memory, **more)
        self.address = find_configured_address(endpoint, more.get("client"))

    @property
    def name(self) -> str:
        """The name that is recorded with each reply."""
        return f"azure:{self.options.model}"

    def _make_extra_client_options(self) -> dict[str, Any]:
        return {"endpoint": self._endpoint, "credential": self._credential}

    @staticmethod
    def _make_client(options: Mapping[str, Any], timeout: float) -> Any:
        openai = import_sdk("openai")
        key = options.get("api_key") or os.environ.get("AZURE_OPENAI_API_KEY")
        endpoint = (options.get("endpoint") or os.environ.get("AZURE_OPENAI_ENDPOINT", "")).rstrip("/")
        if not endpoint:
            do = f"set AZURE_OPENAI_ENDPOINT, or pass endpoint=...; {EMULATOR_HINT}"
            raise BadInput("Azure needs an endpoint", do=do)
        credential = options.get("credential")
        if not key and credential is None:
            do = f"{make_missing_key_hint('AZURE_OPENAI_API_KEY')}, or pass credential=DefaultAzureCredential()"
            raise BadInput("Azure needs a key or a credential", do=do)
        bearer = key if credential is None else get_token_function(credential)
        headers = {"api-key": key} if key and credential is None else {}
        return openai.AsyncOpenAI(
            base_url=f"{endpoint}/openai/v1/", api_key=bearer, default_headers=headers, max_retries=0, timeout=timeout
        )


def get_token_function(credential: Any) -> Callable[[], Awaitable[str]]:
    """Return an async function that gets a token from a credential, sync or async."""

    async def get_token() -> str:
        get = credential.get_token
        access_token = await get(TOKEN_SCOPE) if inspect.iscoroutinefunction(get) else await asyncio.to_thread(get, TOKEN_SCOPE)
        token: str = access_token.token
        return token

    return get_token
