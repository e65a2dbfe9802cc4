"""OpenAI's models, through OpenAI's own SDK. May know: the SDK and the wires. Decides: which part of a request was refused.

A request that leans on what the provider holds, or sends its reasoning back, can be refused for that alone: then the same turn goes
again by value, or without reasoning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.errors import ModelFailed
from legato.models.background import cancel_reply, fetch_reply, pending_id
from legato.models.base import Emit
from legato.models.check import Check
from legato.models.prices import Price
from legato.models.provider import ProviderModel
from legato.models.sdk import bounded_request, make_openai, read_by, tell, tell_rest
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.failures import about_reasoning, is_refusal, lacks_conversations
from legato.providers.formats.options import Memory, ResponsesOptions
from legato.providers.formats.responses.compile import compile_request, judged_options
from legato.providers.formats.responses.past import usable_conversation
from legato.providers.formats.responses.read import read_reply
from legato.providers.formats.responses.stream import StreamReader

_LACKS = {
    "stop": "use OpenAIChat, whose API stops where it is told",
    "seed": "use OpenAIChat, or leave it out",
    "thinking_tokens": "say how hard to think with effort=...",
    "compatible": "this is for OpenAIChat; here, the answers of other servers are understood as they come",
}


_OWNED = {
    "model": "it is the model's name",
    "input": "the conversation is the ledger's",
    "instructions": "they are the agent's",
    "tools": "tools are the agent's, and hosted=[...] are the provider's",
    "stream": "write stream=False where the model is made",
    "store": "write memory=...",
    "previous_response_id": "write memory='chained'",
    "conversation": "write memory='conversation'",
}


class OpenAIResponses(ProviderModel):
    """A model of OpenAI's Responses API, or of any server that speaks it.

    `memory` says who keeps the conversation: "inline" (default) sends it by value and has the provider store nothing; "chained" sends
    what is new and names the reply before it; "conversation" uses one conversation of the provider's per session. In each, what
    the provider turns out not to have goes by value. Options: `temperature`, `top_p`, `max_tokens`, `effort`, `tool_choice`, ...
    (see `legato.providers.formats.options.Options`); `extra={...}` for anything else.

    >>> OpenAIResponses("gpt-5.1", api_key="sk-...", effort="low")
    <OpenAIResponses gpt-5.1, inline>
    """

    provider = "openai"
    api, key, path, sdk = "the Responses API", "responses", "/responses", "openai"
    lacks, owned, judged_options = _LACKS, _OWNED, judged_options
    _make = staticmethod(make_openai)

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        memory: Memory = "inline",
        stream: bool = True,
        check: Check = "strict",
        prices: Mapping[str, Price] | None = None,
        timeout: float | None = None,
        organization: str | None = None,
        client: Any = None,
        **options: Unpack[ResponsesOptions],
    ) -> None:
        self._has_conversations = True  # until the provider says otherwise
        given = {"model": model, "memory": memory, **options}
        where = {"api_key": api_key, "organization": organization, **self._more_client_options()}
        self._set_up(given, stream, check, prices, timeout, client, base_url, **where)

    def _more_client_options(self) -> dict[str, Any]:
        """What else `_make` is given."""
        return {}

    @property
    def name(self) -> str:
        """What is recorded with each reply."""
        return f"openai:{self.options.model}"

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self.options.memory}>"

    async def conversation_for(self, request: Request) -> str:
        """The provider's conversation that this request is to go to, made if there is none; empty where none is used or to be had."""
        if self.options.memory != "conversation" or not self._has_conversations:
            return ""
        async with bounded_request(self._clients.timeout_s):
            return await self._conversation_for(request)

    async def _conversation_for(self, request: Request) -> str:
        client = self._clients()
        known = usable_conversation(request, self._origin(client))
        if known:
            return known
        try:
            made = await self._failing(client.conversations.create())
        except ModelFailed as failure:
            if not lacks_conversations(failure):
                raise
            self._has_conversations = False  # an account that keeps nothing, or a server that does not know them: all goes without
            return ""
        id: str = made.id
        return id

    def _compile(self, request: Request, origin: str, left_out: frozenset[str]) -> Compiled:
        by_value, reasoning = "memory" in left_out, "reasoning" not in left_out
        return compile_request(request, self.options, origin, stream=self._stream, by_value=by_value, reasoning=reasoning)

    def _refused_parts(self, failure: ModelFailed, compiled: Compiled, request: Request) -> Iterator[str]:
        if compiled.base and is_refusal(failure):
            yield "memory"
        # what the provider did by itself is left out together with reasoning
        if (compiled.reasoning and about_reasoning(failure)) or (compiled.hosted and is_refusal(failure)):
            yield "reasoning"

    async def _send(self, client: Any, compiled: Compiled, origin: str, emit: Emit) -> Reply:
        if not self._stream:
            body, request_id = await self._post(client, compiled)
            if id := pending_id(body):
                body = await fetch_reply(client, id)
            return tell(read_reply(body, compiled, origin, request_id), emit)
        stream, request_id = await self._open_stream(client, compiled)
        reader = StreamReader(emit)
        try:
            return await read_by(reader, stream, lambda: reader.reply(compiled, origin, request_id))
        except ModelFailed as failure:
            if reader.complete or not (failure.retryable and reader.background_id):
                raise
            reply = read_reply(await fetch_reply(client, reader.background_id), compiled, origin, request_id)
            return tell_rest(reply, reader.emitted, emit)
        except asyncio.CancelledError:
            if reader.background_id and not reader.complete:
                await cancel_reply(client, reader.background_id)
            raise
