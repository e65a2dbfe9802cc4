"""Models behind Chat Completions, OpenAI's or anybody's, through OpenAI's own SDK. May know: the SDK and the wire.

Decides: whether a server that is particular about its reasoning is asked once more. Every other failure is the driver's business.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.errors import ModelFailed
from legato.models.base import Emit
from legato.models.check import Check
from legato.models.prices import Price
from legato.models.provider import ProviderModel
from legato.models.sdk import make_openai, read_by, tell, whole_of
from legato.providers.formats.chat.compile import REASONING, compile_request, judged_options
from legato.providers.formats.chat.read import SEALS, read_reply
from legato.providers.formats.chat.stream import StreamReader
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.loose import json_of
from legato.providers.formats.options import ChatOptions

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


class OpenAIChat(ProviderModel):
    """A model of OpenAI's Chat Completions API, or of any server that speaks it: vLLM, llama.cpp, Ollama, LM Studio, gateways.

    `base_url` names such a server; `compatible=True` has it written to as most of them understand: `max_tokens`, words as plain text,
    arguments that are always an object, the model's own reasoning sent back to it. Options: `temperature`, `top_p`, `max_tokens`,
    `effort`, `tool_choice`, `stop`, `seed`, ... (see `legato.providers.formats.options.Options`); `extra={...}` for anything else,
    `None` in it leaves a member out.

    >>> OpenAIChat("qwen3", base_url="http://localhost:8000/v1", compatible=True, temperature=0.2)
    <OpenAIChat qwen3 at http://localhost:8000/v1>
    """

    api, key, path, sdk = "Chat Completions", "chat", "/chat/completions", "openai"
    lacks, owned, judged_options = _LACKS, _OWNED, judged_options

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
        self.provider = "" if compatible else "openai"
        given = {"model": model, "compatible": compatible, **options}
        self._set_up(given, stream, check, prices, timeout, client, base_url, api_key=api_key, organization=organization)

    @staticmethod
    def _make(given: Mapping[str, Any], timeout: float) -> Any:
        if "base_url" in given and "api_key" not in given and not os.environ.get("OPENAI_API_KEY"):
            given = {**given, "api_key": NO_KEY}
        return make_openai(given, timeout)

    @property
    def name(self) -> str:
        """What is recorded with each reply."""
        return f"openai-chat:{self.options.model}"

    def _compile(self, request: Request, origin: str, left_out: frozenset[str]) -> Compiled:
        wanted = self.options.compatible and self.options.replay_reasoning
        back = wanted is not ("reasoning" in left_out)  # some servers refuse their reasoning, and some its absence
        return compile_request(request, self.options, origin, stream=self._stream, reasoning=back)

    def _refused_parts(self, failure: ModelFailed, compiled: Compiled, request: Request) -> Iterator[str]:
        if not failure.retryable and any(name in failure.summary for name in (REASONING, *SEALS)):
            yield "reasoning"

    async def _send(self, client: Any, compiled: Compiled, origin: str, emit: Emit) -> Reply:
        if not self._stream:
            body, request_id = await self._post(client, compiled)
            return tell(read_reply(body, compiled, origin, request_id), emit)
        stream, request_id = await self._open_stream(client, compiled)
        if "application/json" in stream.response.headers.get("content-type", ""):  # a server that does not stream, or an error
            return tell(read_reply(json_of(await whole_of(stream)), compiled, origin, request_id), emit)
        reader = StreamReader(emit)
        return await read_by(reader, stream, lambda: reader.reply(compiled, origin, request_id))
