"""Anthropic's models, through Anthropic's own SDK. May know: the SDK and the wire. Decides: which part of a request was refused.

A request that sends thinking back, or has its output enforced, can be refused for that alone: then the same turn goes again without.
A turn that the provider pauses is gone on with until it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from msgspec.structs import replace

from legato.core.facts import NO_USAGE, Usage
from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.errors import BadInput, ModelFailed
from legato.models.base import Emit
from legato.models.check import Check
from legato.models.prices import Price
from legato.models.provider import ProviderModel
from legato.models.sdk import JSON, import_sdk, no_key, read_by, tell
from legato.providers.formats.anthropic.compile import WITH_SAMPLING, compile_request, judged_options
from legato.providers.formats.anthropic.read import COMPACTED, PAUSED, continued, joined, read_reply, usage_parts
from legato.providers.formats.anthropic.stream import StreamReader
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.failures import about_reasoning
from legato.providers.formats.loose import mapping, text
from legato.providers.formats.options import AnthropicOptions, Options
from legato.providers.rules.anthropic.request import SAMPLING

MOST_PAUSES = 8
"""How often one turn that the provider pauses is gone on with."""

CACHE = {"cache_control": {"type": "ephemeral"}}

_LACKS = {
    "memory": "leave it out: Anthropic keeps no conversation",
    "seed": "leave it out",
    "verbosity": "leave it out",
    "compatible": "leave it out",
}
_OWNED = {
    "model": "it is the model's name",
    "messages": "the conversation is the ledger's",
    "stream": "write stream=False where the model is made",
}


class Anthropic(ProviderModel):
    """A model of Anthropic's Messages API, or of any server that speaks it.

    `cache=True` has the provider cache instructions, tools and the conversation so far (a server that does not know `cache_control`
    wants `cache=False`). `effort` turns adaptive thinking on, `thinking_tokens` thinking with a budget. Other options: `temperature`,
    `top_p`, `max_tokens` (8192 unless you say so), `tool_choice`, `parallel_calls`, `stop`, `hosted`, ... (see
    `legato.providers.formats.options.Options`); `extra={...}` for anything else, `betas=[...]` for what the provider asks a header for.

    >>> Anthropic("claude-opus-5-5", api_key="sk-ant-...", effort="low")
    <Anthropic claude-opus-5-5>
    """

    provider = "anthropic"
    api, key, path, sdk, request_id = "Anthropic's API", "anthropic", "/v1/messages", "anthropic", "request-id"
    lacks, owned, judged_options = _LACKS, _OWNED, judged_options

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        stream: bool = True,
        cache: bool = True,
        betas: Sequence[str] = (),
        check: Check = "strict",
        prices: Mapping[str, Price] | None = None,
        timeout: float | None = None,
        client: Any = None,
        **options: Unpack[AnthropicOptions],
    ) -> None:
        if isinstance(betas, str):
            raise BadInput("betas is a list of names", found=repr(betas), do=f"write betas=[{betas!r}]")
        extra = {**(CACHE if cache else {}), **(options.get("extra") or {})}
        self._set_up({**options, "model": model, "extra": extra}, stream, check, prices, timeout, client, base_url, api_key=api_key)
        asked = {"anthropic-beta": ",".join(betas)} if betas else {}
        self._headers = {**JSON, **asked, **(WITH_SAMPLING if _samples(self.options) else {})}

    @property
    def name(self) -> str:
        """What is recorded with each reply."""
        return f"anthropic:{self.options.model}"

    def _compile(self, request: Request, origin: str, left_out: frozenset[str]) -> Compiled:
        kept = {part: part not in left_out for part in ("reasoning", "enforce", "reuse")}
        return compile_request(request, self.options, origin, stream=self._stream, **kept)

    def _refused_parts(self, failure: ModelFailed, compiled: Compiled, request: Request) -> Iterator[str]:
        if compiled.reasoning and _about_thinking(failure):
            yield "reasoning"
        if compiled.container and _about_container(failure):
            yield "reuse"
        if request.frame.output and _about_format(failure):
            yield "enforce"

    async def _send(self, client: Any, compiled: Compiled, origin: str, emit: Emit) -> Reply:
        """The reply, however often the provider pauses."""
        body, request_id = await self._message(client, compiled, emit)
        for _ in range(MOST_PAUSES):
            if not self._is_paused(body):
                break
            try:
                on = continued(compiled, body)
                if on.complaints:
                    raise ModelFailed(f"the provider paused in a way that it would not go on from: {on.complaints[0].message}")
                more, request_id = await self._failing(self._message(client, on, emit))
            except ModelFailed as failure:
                failure.usage = self._usage_of(body) + self._with_cost(failure.usage or NO_USAGE)
                raise
            body = joined(body, more)
        reply = read_reply(body, compiled, origin, request_id)
        reply = replace(reply, usage=self._usage_of(body))
        return reply if self._stream else tell(reply, emit)

    def _is_paused(self, body: Any) -> bool:
        """Tell whether a reply has only begun. One that was asked to be a summary is whole with it."""
        stopped = mapping(body).get("stop_reason")
        return stopped == PAUSED or (stopped == COMPACTED and "compaction" not in self.options.extra)

    def _usage_of(self, body: Any) -> Usage:
        """Return the usage of a message, each part of it by the model that wrote it."""
        message, total = mapping(body), NO_USAGE
        for model, part in usage_parts(message.get("usage")):
            total += self._with_cost(part, model or text(message.get("model")))
        return total

    async def _message(self, client: Any, compiled: Compiled, emit: Emit) -> tuple[Any, str]:
        """The message that answers a request, and the provider's id of the exchange."""
        if not self._stream:
            return await self._post(client, compiled)
        stream, request_id = await self._open_stream(client, compiled)
        reader = StreamReader(emit)
        return await read_by(reader, stream, reader.body), request_id

    @staticmethod
    def _make(given: Mapping[str, Any], timeout: float) -> Any:
        anthropic = import_sdk("anthropic")
        try:
            client = anthropic.AsyncAnthropic(max_retries=0, timeout=timeout, **given)
        except anthropic.AnthropicError as error:
            raise BadInput(f"Anthropic's client cannot be made: {error}", do=no_key("ANTHROPIC_API_KEY")) from None
        if not (client.api_key or client.auth_token or client.credentials):
            raise BadInput("Anthropic's client has no key", do=no_key("ANTHROPIC_API_KEY"))
        return client


def _samples(options: Options) -> bool:
    return options.temperature is not None or options.top_p is not None or any(name in options.extra for name in SAMPLING)


def _about_thinking(failure: ModelFailed) -> bool:
    return about_reasoning(failure) or (not failure.retryable and "thinking" in failure.summary)


def _about_container(failure: ModelFailed) -> bool:
    """Tell whether a request may have been refused for its container, which does not last. One that is gone was answered with a bare 500
    (2026-08), so that is taken for it once."""
    return failure.status == 500 or (not failure.retryable and "container" in failure.summary)


def _about_format(failure: ModelFailed) -> bool:
    """Whether a refusal is about the schema of the output, or about there being one: older models enforce none."""
    return not failure.retryable and any(words in failure.summary for words in ("output_config", "output_format", "json_schema", "schema"))
