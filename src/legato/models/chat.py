"""Models of Chat Completions, of OpenAI or any compatible server, through OpenAI's SDK.

Some servers refuse their own reasoning, and some refuse a request without it. Then the request is sent again the other way, once. The
driver handles all other failures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.errors import ModelFailed
from legato.models.model import Emit
from legato.models.prices import Price
from legato.models.provider_model import ProviderModel
from legato.models.request_check import CheckMode
from legato.models.sdk_client import decode_stream, emit_text, make_openai_client, read_body
from legato.providers.formats.chat.decode import SEALED_REASONING_MEMBERS, decode_reply
from legato.providers.formats.chat.encode import REASONING_MEMBER, encode_request, find_option_violations
from legato.providers.formats.chat.stream import ChatStreamDecoder
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import decode_json
from legato.providers.formats.request_options import ChatOptions

KEY_PLACEHOLDER = "none"
"""The API key for a server that needs none: the SDK requires one."""

_MISSING_OPTIONS = {
    "memory": "Chat Completions stores nothing: use OpenAIResponses",
    "hosted": "Chat Completions runs no tools of its own: use OpenAIResponses, or extra={...} for what your server has",
    "reasoning_summary": "use OpenAIResponses",
    "thinking_tokens": "set effort=..., or use extra={...} for what your server has",
}

_RESERVED_MEMBERS = {
    "model": "it is the model's name",
    "messages": "the ledger owns the conversation",
    "tools": "write Agent(tools=...)",
    "stream": "write stream=False where the model is made",
    "n": "an agent uses one choice per reply",
}


class OpenAIChat(ProviderModel):
    """A model of OpenAI's Chat Completions API, or of any server that speaks it: vLLM, llama.cpp, Ollama, LM Studio, gateways.

    `base_url` is the address of such a server. With `compatible=True`, requests use what most such servers understand: `max_tokens`, text
    as plain strings, arguments that are always an object, and the model's reasoning replayed to it. Options: `temperature`, `top_p`,
    `max_tokens`, `effort`, `tool_choice`, `stop`, `seed`, ... (see `legato.providers.formats.request_options.RequestOptions`);
    `extra={...}` for anything else, `None` in it leaves a member out.

    >>> OpenAIChat("qwen3", base_url="http://localhost:8000/v1", compatible=True, temperature=0.2)
    <OpenAIChat qwen3 at http://localhost:8000/v1>
    """

    api_name, origin_key, path, sdk_name = "Chat Completions", "chat", "/chat/completions", "openai"
    missing_options, reserved_members, find_option_violations = _MISSING_OPTIONS, _RESERVED_MEMBERS, find_option_violations

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        stream: bool = True,
        check: CheckMode = "strict",
        prices: Mapping[str, Price] | None = None,
        timeout: float | None = None,
        organization: str | None = None,
        client: Any = None,
        compatible: bool = False,
        **options: Unpack[ChatOptions],
    ) -> None:
        self.provider = "" if compatible else "openai"
        all_options = {"model": model, "compatible": compatible, **options}
        self._set_up(all_options, stream, check, prices, timeout, client, base_url, api_key=api_key, organization=organization)

    @staticmethod
    def _make_client(options: Mapping[str, Any], timeout: float) -> Any:
        if "base_url" in options and "api_key" not in options and not os.environ.get("OPENAI_API_KEY"):
            options = {**options, "api_key": KEY_PLACEHOLDER}
        return make_openai_client(options, timeout)

    @property
    def name(self) -> str:
        """The name that is recorded with each reply."""
        return f"openai-chat:{self.options.model}"

    def _encode(self, request: ModelRequest, origin: str, omitted_parts: frozenset[str]) -> EncodedRequest:
        replay_reasoning = self.options.compatible and self.options.replay_reasoning
        with_reasoning = replay_reasoning is not ("reasoning" in omitted_parts)  # after a refusal, do the opposite
        return encode_request(request, self.options, origin, stream=self._stream, with_reasoning=with_reasoning)

    def _find_refused_parts(self, failure: ModelFailed, encoded: EncodedRequest, request: ModelRequest) -> Iterator[str]:
        if not failure.retryable and any(name in failure.summary for name in (REASONING_MEMBER, *SEALED_REASONING_MEMBERS)):
            yield "reasoning"

    async def _send(self, client: Any, encoded: EncodedRequest, origin: str, emit: Emit) -> ModelReply:
        if not self._stream:
            body, request_id = await self._post(client, encoded)
            return emit_text(decode_reply(body, encoded, origin, request_id), emit)
        stream, request_id = await self._open_stream(client, encoded)
        if "application/json" in stream.response.headers.get("content-type", ""):  # the server does not stream, or reports an error
            return emit_text(decode_reply(decode_json(await read_body(stream)), encoded, origin, request_id), emit)
        decoder = ChatStreamDecoder(emit)
        return await decode_stream(decoder, stream, lambda: decoder.build_reply(encoded, origin, request_id))
