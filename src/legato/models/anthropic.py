"""Models of Anthropic's Messages API, through Anthropic's SDK.

The provider can refuse a request for replaying thinking, for reusing a container or for enforcing an output. Then the request is sent
again without that part. A turn that the provider pauses is continued until it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from msgspec.structs import replace

from legato.core.facts import NO_USAGE, Usage
from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.errors import BadInput, ModelFailed
from legato.models.model import Emit
from legato.models.prices import Price
from legato.models.provider_model import ProviderModel
from legato.models.request_check import CheckMode
from legato.models.sdk_client import JSON_HEADERS, decode_stream, emit_text, import_sdk, make_missing_key_hint
from legato.providers.formats.anthropic.decode import (
    COMPACTED_TURN,
    PAUSED_TURN,
    continue_turn,
    decode_reply,
    decode_usage_parts,
    join_messages,
)
from legato.providers.formats.anthropic.encode import SAMPLING_HEADERS, encode_request, find_option_violations
from legato.providers.formats.anthropic.stream import AnthropicStreamDecoder
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import as_object, as_text
from legato.providers.formats.provider_errors import is_reasoning_rejection
from legato.providers.formats.request_options import AnthropicOptions, RequestOptions
from legato.providers.rules.anthropic.request_shape import SAMPLING_FIELDS

MAX_PAUSES_PER_TURN = 8
"""The number of times that one paused turn is continued."""

CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}

_MISSING_OPTIONS = {
    "memory": "leave it out: Anthropic stores no conversations",
    "seed": "leave it out",
    "verbosity": "leave it out",
    "compatible": "leave it out",
}
_RESERVED_MEMBERS = {
    "model": "it is the model's name",
    "messages": "the ledger owns the conversation",
    "stream": "write stream=False where the model is made",
}


class Anthropic(ProviderModel):
    """A model of Anthropic's Messages API, or of any server that speaks it.

    `cache=True` makes the provider cache instructions, tools and the conversation so far (use `cache=False` for a server that does not know
    `cache_control`). `effort` turns on adaptive thinking, `thinking_tokens` thinking with a budget. Other options: `temperature`, `top_p`,
    `max_tokens` (default 8192), `tool_choice`, `parallel_calls`, `stop`, `hosted`, ... (see
    `legato.providers.formats.request_options.RequestOptions`); `extra={...}` for anything else, `betas=[...]` for features that need a
    beta header.

    >>> Anthropic("claude-opus-5-5", api_key="sk-ant-...", effort="low")
    <Anthropic claude-opus-5-5>
    """

    provider = "anthropic"
    api_name, origin_key, path, sdk_name, request_id_header = "Anthropic's API", "anthropic", "/v1/messages", "anthropic", "request-id"
    missing_options, reserved_members, find_option_violations = _MISSING_OPTIONS, _RESERVED_MEMBERS, find_option_violations

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        stream: bool = True,
        cache: bool = True,
        betas: Sequence[str] = (),
        check: CheckMode = "strict",
        prices: Mapping[str, Price] | None = None,
        timeout: float | None = None,
        client: Any = None,
        **options: Unpack[AnthropicOptions],
    ) -> None:
        if isinstance(betas, str):
            raise BadInput("betas is a list of names", found=repr(betas), do=f"write betas=[{betas!r}]")
        extra = {**(CACHE_CONTROL if cache else {}), **(options.get("extra") or {})}
        self._set_up({**options, "model": model, "extra": extra}, stream, check, prices, timeout, client, base_url, api_key=api_key)
        beta_headers = {"anthropic-beta": ",".join(betas)} if betas else {}
        self._headers = {**JSON_HEADERS, **beta_headers, **(SAMPLING_HEADERS if _has_sampling(self.options) else {})}

    @property
    def name(self) -> str:
        """The name that is recorded with each reply."""
        return f"anthropic:{self.options.model}"

    def _encode(self, request: ModelRequest, origin: str, omitted_parts: frozenset[str]) -> EncodedRequest:
        return encode_request(
            request,
            self.options,
            origin,
            stream=self._stream,
            with_reasoning="reasoning" not in omitted_parts,
            enforce_output="output" not in omitted_parts,
            reuse_container="container" not in omitted_parts,
        )

    def _find_refused_parts(self, failure: ModelFailed, encoded: EncodedRequest, request: ModelRequest) -> Iterator[str]:
        if encoded.has_reasoning and _is_thinking_rejection(failure):
            yield "reasoning"
        if encoded.container and _is_container_rejection(failure):
            yield "container"
        if request.turn_context.output and _is_output_schema_rejection(failure):
            yield "output"

    async def _send(self, client: Any, encoded: EncodedRequest, origin: str, emit: Emit) -> ModelReply:
        """Send a request, continue the turn while the provider pauses it, and return the whole reply."""
        body, request_id = await self._request_message(client, encoded, emit)
        for _ in range(MAX_PAUSES_PER_TURN):
            if not self._is_paused(body):
                break
            try:
                continued = continue_turn(encoded, body)
                if continued.violations:
                    raise ModelFailed(f"the provider paused the turn, and would refuse its continuation: {continued.violations[0].message}")
                more, request_id = await self._translate_errors(self._request_message(client, continued, emit))
            except ModelFailed as failure:
                failure.usage = self._compute_usage(body) + self._add_cost(failure.usage or NO_USAGE)
                raise
            body = join_messages(body, more)
        reply = decode_reply(body, encoded, origin, request_id)
        reply = replace(reply, usage=self._compute_usage(body))
        return reply if self._stream else emit_text(reply, emit)

    def _is_paused(self, body: Any) -> bool:
        """Return True if a reply is unfinished. A reply that was requested as a summary is whole with the summary."""
        reason = as_object(body).get("stop_reason")
        return reason == PAUSED_TURN or (reason == COMPACTED_TURN and "compaction" not in self.options.extra)

    def _compute_usage(self, body: Any) -> Usage:
        """Return the usage of a message with its cost, each part priced by the model that wrote it."""
        message, total = as_object(body), NO_USAGE
        for model, part in decode_usage_parts(message.get("usage")):
            total += self._add_cost(part, model or as_text(message.get("model")))
        return total

    async def _request_message(self, client: Any, encoded: EncodedRequest, emit: Emit) -> tuple[Any, str]:
        """Send a request; return its message and the request id."""
        if not self._stream:
            return await self._post(client, encoded)
        stream, request_id = await self._open_stream(client, encoded)
        decoder = AnthropicStreamDecoder(emit)
        return await decode_stream(decoder, stream, decoder.build_message), request_id

    @staticmethod
    def _make_client(options: Mapping[str, Any], timeout: float) -> Any:
        anthropic = import_sdk("anthropic")
        try:
            client = anthropic.AsyncAnthropic(max_retries=0, timeout=timeout, **options)
        except anthropic.AnthropicError as error:
            raise BadInput(f"Anthropic's client cannot be made: {error}", do=make_missing_key_hint("ANTHROPIC_API_KEY")) from None
        if not (client.api_key or client.auth_token or client.credentials):
            raise BadInput("Anthropic's client has no key", do=make_missing_key_hint("ANTHROPIC_API_KEY"))
        return client


def _has_sampling(options: RequestOptions) -> bool:
    return options.temperature is not None or options.top_p is not None or any(name in options.extra for name in SAMPLING_FIELDS)


def _is_thinking_rejection(failure: ModelFailed) -> bool:
    return is_reasoning_rejection(failure) or (not failure.retryable and "thinking" in failure.summary)


def _is_container_rejection(failure: ModelFailed) -> bool:
    """Return True if the provider may have refused a container, which does not last.

    An expired container was answered with a bare 500 (2026-08), so a 500 counts as a refusal, once.
    """
    return failure.status == 500 or (not failure.retryable and "container" in failure.summary)


def _is_output_schema_rejection(failure: ModelFailed) -> bool:
    """Return True if the provider refused the schema of the output, or any schema: older models enforce none."""
    return not failure.retryable and any(words in failure.summary for words in ("output_config", "output_format", "json_schema", "schema"))
