"""Models behind Chat Completions, OpenAI's or anybody's, through OpenAI's own SDK. May know: the SDK and the wire.

Decides: whether a server that is particular about its reasoning is asked once more. Every other failure is the driver's business.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Unpack

from legato.core.reply import Reply
from legato.core.view import Request
from legato.errors import BadInput, ModelFailed
from legato.models.arguments import check_arguments, options_of
from legato.models.base import Emit
from legato.models.check import Check, check
from legato.models.masking import note_request
from legato.models.prices import Price, Priced
from legato.models.sdk import (
    JSON,
    Clients,
    address_of,
    configured_address,
    failing,
    needs,
    no_key,
    read_by,
    shown,
    tell,
    whole_of,
)
from legato.wire.chat.compile import REASONING, compile_request, judged_options
from legato.wire.chat.read import SEALS, read_reply
from legato.wire.chat.stream import StreamReader
from legato.wire.compiled import Compiled
from legato.wire.loose import json_of
from legato.wire.options import ChatOptions

NO_KEY = "none"
"""What is sent to a server that asks for no key: the SDK will not go without one."""

_LACKS = {
    "memory": "Chat Completions keeps nothing: use OpenAIResponses",
    "hosted": "Chat Completions runs no tools of its own: use OpenAIResponses, or extra={...} for what your server has",
    "reasoning_summary": "use OpenAIResponses",
    "thinking_tokens": "say how hard to think with effort=..., or use extra={...} for what your server has",
}


_OWNED = {
    "model": "it is the model's name",
    "messages": "the conversation is the ledger's",
    "tools": "tools are the agent's",
    "stream": "write stream=False where the model is made",
    "n": "an agent says one thing at a time",
}


class OpenAIChat(Priced):
    """A model of OpenAI's Chat Completions API, or of any server that speaks it: vLLM, llama.cpp, Ollama, LM Studio, gateways.

    `base_url` names such a server; `compatible=True` has it written to as most of them understand: `max_tokens`, words as plain text,
    arguments that are always an object, the model's own reasoning sent back to it. Options: `temperature`, `top_p`, `max_tokens`,
    `effort`, `tool_choice`, `stop`, `seed`, ... (see `legato.wire.options.Options`); `extra={...}` for anything else, `None` in it
    leaves a member out.

    >>> OpenAIChat("qwen3", base_url="http://localhost:8000/v1", compatible=True, temperature=0.2)
    <OpenAIChat qwen3 at http://localhost:8000/v1>
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        stream: bool = True,
        check: Check = "strict",
        prices: Mapping[str, Price] | None = None,
        timeout: float | None = None,
        organization: str | None = None,
        client: Any = None,
        compatible: bool = False,
        **options: Unpack[ChatOptions],
    ) -> None:
        check_arguments(stream=stream, check=check, prices=prices, timeout=timeout)
        given = {"model": model, "compatible": compatible, **options}
        self.options = options_of("Chat Completions", given, lacks=_LACKS, owned=_OWNED, judged=judged_options, how=check)
        self.options_text = self.options.recorded()
        self._stream = stream
        self._check = check
        self.prices = prices
        self.provider = "" if compatible else "openai"
        self._base_url = base_url
        self.address = configured_address(base_url, client)
        where = {"base_url": base_url, "api_key": api_key, "organization": organization}
        self._clients = Clients(_make, where, client, timeout)

    @property
    def name(self) -> str:
        """What is recorded with each reply."""
        return f"openai-chat:{self.options.model}"

    def __repr__(self) -> str:
        where = f" at {shown(self._base_url)}" if self._base_url else ""
        return f"<{type(self).__name__} {self.options.model}{where}>"

    async def close(self) -> None:
        """Close its connections, in the running event loop. A model that is used again opens new ones."""
        await self._clients.close()

    async def body(self, request: Request) -> bytes:
        """What the provider is sent for a request, such as `await session.seen()`: nothing is sent."""
        options = self.options
        origin = f"chat {address_of(self._clients())} {options.model}"
        back = options.compatible and options.replay_reasoning
        return compile_request(request, options, stream=self._stream, origin=origin, reasoning=back).body

    async def _ask(self, request: Request, emit: Emit) -> Reply:
        client, options = self._clients(), self.options
        import openai  # not before the client is made: where it is not installed, that says what to do

        origin = f"chat {address_of(client)} {options.model}"
        reasoning = options.compatible and options.replay_reasoning
        compiled = compile_request(request, options, stream=self._stream, origin=origin, reasoning=reasoning)
        check(compiled, self._check)
        try:
            return await failing(self._send(client, compiled, origin, emit), openai)
        except ModelFailed as failure:
            if failure.retryable or not any(name in failure.summary for name in (REASONING, *SEALS)):
                raise
            other = compile_request(request, options, stream=self._stream, origin=origin, reasoning=not reasoning)
            if other.body == compiled.body:
                raise
            check(other, self._check)
        return await failing(self._send(client, other, origin, emit), openai)

    async def _send(self, client: Any, compiled: Compiled, origin: str, emit: Emit) -> Reply:
        import httpx2
        import openai

        path, options = "/chat/completions", {"headers": JSON}
        if not self._stream:
            answer = await client.post(path, content=compiled.body, cast_to=httpx2.Response, options=options)
            note_request(answer)
            return tell(read_reply(json_of(answer.content), compiled, origin, answer.headers.get("x-request-id", "")), emit)
        stream = await client.post(
            path, content=compiled.body, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object], options=options
        )
        request_id = stream.response.headers.get("x-request-id", "")
        if "application/json" in stream.response.headers.get("content-type", ""):  # a server that does not stream, or an error
            return tell(read_reply(json_of(await whole_of(stream)), compiled, origin, request_id), emit)
        reader = StreamReader(emit)
        return await read_by(reader, stream, lambda: reader.reply(compiled, origin, request_id))


def _make(given: Mapping[str, Any], timeout: float) -> Any:
    try:
        import openai
    except ImportError:
        raise needs("openai", "openai") from None
    if "base_url" in given and "api_key" not in given and not os.environ.get("OPENAI_API_KEY"):
        given = {**given, "api_key": NO_KEY}
    try:
        return openai.AsyncOpenAI(max_retries=0, timeout=timeout, **given)
    except openai.OpenAIError as error:
        raise BadInput(f"OpenAI's client cannot be made: {error}", do=no_key("OPENAI_API_KEY")) from None
