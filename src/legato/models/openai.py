"""Models of OpenAI's Responses API, through OpenAI's SDK.

The provider can refuse a request for continuing stored history, or for replaying reasoning. Then the request is sent again with all history
by value, or without reasoning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.errors import ModelFailed
from legato.models.background_responses import cancel_reply, fetch_reply, get_pending_id
from legato.models.model import Emit
from legato.models.prices import Price
from legato.models.provider_model import ProviderModel
from legato.models.request_check import CheckMode
from legato.models.sdk_client import decode_stream, emit_remaining_text, emit_text, limit_request_time, make_openai_client
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.provider_errors import is_reasoning_rejection, is_request_rejection, is_unsupported_conversation_error
from legato.providers.formats.request_options import MemoryMode, ResponsesOptions
from legato.providers.formats.responses.decode import decode_reply
from legato.providers.formats.responses.encode import encode_request, find_option_violations
from legato.providers.formats.responses.stored_history import find_usable_conversation
from legato.providers.formats.responses.stream import ResponsesStreamDecoder

_MISSING_OPTIONS = {
    "stop": "use OpenAIChat, whose API has stop sequences",
    "seed": "use OpenAIChat, or leave it out",
    "thinking_tokens": "set effort=...",
    "compatible": "leave it out: it is for OpenAIChat, and replies of other servers are understood without it",
}

_RESERVED_MEMBERS = {
    "model": "it is the model's name",
    "input": "the ledger owns the conversation",
    "instructions": "write Agent(instructions=...)",
    "tools": "write Agent(tools=...), and hosted=[...] for tools that the provider runs",
    "stream": "write stream=False where the model is made",
    "store": "write memory=...",
    "previous_response_id": "write memory='chained'",
    "conversation": "write memory='conversation'",
}


class OpenAIResponses(ProviderModel):
    """A model of OpenAI's Responses API, or of any server that speaks it.

    `memory` says where the history is stored: "inline" (default) sends all history by value, and the provider stores nothing; "chained"
    sends what is new and names the previous reply; "conversation" uses one conversation of the provider per session. History that the
    provider turns out not to store is sent by value. Options: `temperature`, `top_p`, `max_tokens`, `effort`, `tool_choice`, ...
    (see `legato.providers.formats.request_options.RequestOptions`); `extra={...}` for anything else.

    >>> OpenAIResponses("gpt-5.1", api_key="sk-...", effort="low")
    <OpenAIResponses gpt-5.1, inline>
    """

    provider = "openai"
    api_name, origin_key, path, sdk_name = "the Responses API", "responses", "/responses", "openai"
    missing_options, reserved_members, find_option_violations = _MISSING_OPTIONS, _RESERVED_MEMBERS, find_option_violations
    _make_client = staticmethod(make_openai_client)

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        memory: MemoryMode = "inline",
        stream: bool = True,
        check: CheckMode = "strict",
        prices: Mapping[str, Price] | None = None,
        timeout: float | None = None,
        organization: str | None = None,
        client: Any = None,
        **options: Unpack[ResponsesOptions],
    ) -> None:
        self._has_conversations = True  # until the provider says otherwise
        all_options = {"model": model, "memory": memory, **options}
        client_options = {"api_key": api_key, "organization": organization, **self._make_extra_client_options()}
        self._set_up(all_options, stream, check, prices, timeout, client, base_url, **client_options)

    def _make_extra_client_options(self) -> dict[str, Any]:
        """Return further options for `_make_client`."""
        return {}

    @property
    def name(self) -> str:
        """The name that is recorded with each reply."""
        return f"openai:{self.options.model}"

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self.options.memory}>"

    async def conversation_for(self, request: ModelRequest) -> str:
        """Return the provider's conversation for this request, created if need be; empty if none is used or available."""
        if self.options.memory != "conversation" or not self._has_conversations:
            return ""
        async with limit_request_time(self._clients.timeout_s):
            return await self._conversation_for(request)

    async def _conversation_for(self, request: ModelRequest) -> str:
        client = self._clients()
        known = find_usable_conversation(request, self._make_origin(client))
        if known:
            return known
        try:
            conversation = await self._translate_errors(client.conversations.create())
        except ModelFailed as failure:
            if not is_unsupported_conversation_error(failure):
                raise
            self._has_conversations = False  # the account stores nothing, or the server has no conversations
            return ""
        id: str = conversation.id
        return id

    def _encode(self, request: ModelRequest, origin: str, omitted_parts: frozenset[str]) -> EncodedRequest:
        by_value, reasoning = "memory" in omitted_parts, "reasoning" not in omitted_parts
        return encode_request(request, self.options, origin, stream=self._stream, by_value=by_value, with_reasoning=reasoning)

    def _find_refused_parts(self, failure: ModelFailed, encoded: EncodedRequest, request: ModelRequest) -> Iterator[str]:
        if encoded.base_id and is_request_rejection(failure):
            yield "memory"
        # uses of hosted tools are left out together with reasoning
        if (encoded.has_reasoning and is_reasoning_rejection(failure)) or (encoded.has_hosted_items and is_request_rejection(failure)):
            yield "reasoning"

    async def _send(self, client: Any, encoded: EncodedRequest, origin: str, emit: Emit) -> ModelReply:
        if not self._stream:
            body, request_id = await self._post(client, encoded)
            if id := get_pending_id(body):
                body = await fetch_reply(client, id)
            return emit_text(decode_reply(body, encoded, origin, request_id), emit)
        stream, request_id = await self._open_stream(client, encoded)
        decoder = ResponsesStreamDecoder(emit)
        try:
            return await decode_stream(decoder, stream, lambda: decoder.build_reply(encoded, origin, request_id))
        except ModelFailed as failure:
            if decoder.is_complete or not (failure.retryable and decoder.background_id):
                raise
            reply = decode_reply(await fetch_reply(client, decoder.background_id), encoded, origin, request_id)
            return emit_remaining_text(reply, decoder.emitted_text, emit)
        except asyncio.CancelledError:
            if decoder.background_id and not decoder.is_complete:
                await cancel_reply(client, decoder.background_id)
            raise
