"""OpenAI's models, through OpenAI's own SDK. May know: the SDK and the wires. Decides: what to try when a request is refused.

A request that leans on what the provider holds, or sends its reasoning back, can be refused for that alone: then the same turn goes
again by value, or without reasoning. Every other failure is the driver's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Unpack

from legato.core.reply import Reply
from legato.core.view import Request
from legato.errors import BadInput, ModelFailed
from legato.models.arguments import check_arguments, options_of
from legato.models.background import cancel_reply, fetch_reply, pending_id
from legato.models.base import Emit
from legato.models.check import Check, check
from legato.models.masking import note_request
from legato.models.prices import Price, Priced
from legato.models.sdk import (
    JSON,
    Clients,
    address_of,
    bounded_request,
    configured_address,
    failing,
    needs,
    no_key,
    read_by,
    shown,
    tell,
    tell_rest,
)
from legato.wire.compiled import Compiled
from legato.wire.failures import about_reasoning, is_refusal, lacks_conversations
from legato.wire.loose import json_of
from legato.wire.options import Memory, ResponsesOptions
from legato.wire.responses.compile import compile_request, judged_options
from legato.wire.responses.past import usable_conversation
from legato.wire.responses.read import read_reply
from legato.wire.responses.stream import StreamReader

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


class OpenAIResponses(Priced):
    """A model of OpenAI's Responses API, or of any server that speaks it.

    `memory` says who keeps the conversation: "inline" (default) sends it by value and has the provider store nothing; "chained" sends
    what is new and names the reply before it; "conversation" uses one conversation of the provider's per session. In each, what
    the provider turns out not to have goes by value. Options: `temperature`, `top_p`, `max_tokens`, `effort`, `tool_choice`, ...
    (see `legato.wire.options.Options`); `extra={...}` for anything else.

    >>> OpenAIResponses("gpt-5.1", api_key="sk-...", effort="low")
    <OpenAIResponses gpt-5.1, inline>
    """

    provider = "openai"

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
        check_arguments(stream=stream, check=check, prices=prices, timeout=timeout)
        given = {"model": model, "memory": memory, **options}
        self.options = options_of("the Responses API", given, lacks=_LACKS, owned=_OWNED, judged=judged_options, how=check)
        self.options_text = self.options.recorded()
        self._stream = stream
        self._check = check
        self.prices = prices
        self._has_conversations = True  # until the provider says otherwise
        self._base_url = base_url
        self.address = configured_address(base_url, client)
        where = {"base_url": base_url, "api_key": api_key, "organization": organization}
        self._clients = Clients(self._make, {**where, **self._more_client_options()}, client, timeout)

    def _more_client_options(self) -> dict[str, Any]:
        """What else `_make` is given."""
        return {}

    @staticmethod
    def _make(given: Mapping[str, Any], timeout: float) -> Any:
        try:
            import openai
        except ImportError:
            raise needs("openai", "openai") from None
        try:
            return openai.AsyncOpenAI(max_retries=0, timeout=timeout, **given)
        except openai.OpenAIError as error:
            raise BadInput(f"OpenAI's client cannot be made: {error}", do=no_key("OPENAI_API_KEY")) from None

    @property
    def name(self) -> str:
        """What is recorded with each reply."""
        return f"openai:{self.options.model}"

    def __repr__(self) -> str:
        where = f" at {shown(self._base_url)}" if self._base_url else ""
        return f"<{type(self).__name__} {self.options.model}{where}, {self.options.memory}>"

    def _origin(self, client: Any) -> str:
        return f"responses {address_of(client)} {self.options.model}"

    async def close(self) -> None:
        """Close its connections, in the running event loop. A model that is used again opens new ones."""
        await self._clients.close()

    async def conversation_for(self, request: Request) -> str:
        """The provider's conversation that this request is to go to, made if there is none; empty where none is used or to be had."""
        if self.options.memory != "conversation" or not self._has_conversations:
            return ""
        async with bounded_request(self._clients.timeout_s):
            return await self._conversation_for(request)

    async def _conversation_for(self, request: Request) -> str:
        client = self._clients()
        import openai  # not before the client is made: where it is not installed, that says what to do

        known = usable_conversation(request, self._origin(client))
        if known:
            return known
        try:
            return await failing(_new_conversation(client), openai)
        except ModelFailed as failure:
            if not lacks_conversations(failure):
                raise
            self._has_conversations = False  # an account that keeps nothing, or a server that does not know them: all goes without
            return ""

    async def body(self, request: Request) -> bytes:
        """What the provider is sent for a request, such as `await session.seen()`: nothing is sent."""
        return compile_request(request, self.options, self._origin(self._clients()), stream=self._stream).body

    async def _ask(self, request: Request, emit: Emit) -> Reply:
        client, options = self._clients(), self.options
        import openai  # not before the client is made: where it is not installed, that says what to do

        origin = self._origin(client)
        by_value, reasoning = False, True
        while True:
            compiled = compile_request(request, options, origin, stream=self._stream, by_value=by_value, reasoning=reasoning)
            check(compiled, self._check)
            try:
                return await failing(self._send(client, compiled, origin, emit), openai)
            except ModelFailed as failure:
                if compiled.base and not by_value and is_refusal(failure):
                    by_value = True
                elif reasoning and _is_about_what_went_back(failure, compiled):
                    reasoning = False
                else:
                    raise

    async def _send(self, client: Any, compiled: Compiled, origin: str, emit: Emit) -> Reply:
        import httpx2
        import openai

        options = {"headers": JSON}
        if not self._stream:
            answer = await client.post("/responses", content=compiled.body, cast_to=httpx2.Response, options=options)
            note_request(answer)
            body = json_of(answer.content)
            if id := pending_id(body):
                body = await fetch_reply(client, id)
            return tell(read_reply(body, compiled, origin, answer.headers.get("x-request-id", "")), emit)
        stream = await client.post(
            "/responses", content=compiled.body, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object], options=options
        )
        reader = StreamReader(emit)
        request_id = stream.response.headers.get("x-request-id", "")
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


def _is_about_what_went_back(failure: ModelFailed, compiled: Compiled) -> bool:
    """Whether a refusal may be about reasoning, or about what the provider did by itself: then the same turn goes again without."""
    return (compiled.reasoning and about_reasoning(failure)) or (compiled.hosted and is_refusal(failure))


async def _new_conversation(client: Any) -> str:
    made = await client.conversations.create()
    id: str = made.id
    return id
