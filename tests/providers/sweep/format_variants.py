"""The format variants of the sweep: a provider format with a memory mode and a model.

Each variant runs against the emulator's code for its API, in this process and without HTTP. The provider rules are as strict as their
switches allow: they also refuse what no provider was seen to refuse.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.emulator.anthropic.adapter import AnthropicAdapter
from legato.emulator.api_adapter import ApiAdapter
from legato.emulator.chat.adapter import ChatAdapter
from legato.emulator.encrypted_content import ContentCipher
from legato.emulator.ids import IdGenerator
from legato.emulator.model_catalogue import ModelCatalogue
from legato.emulator.request_types import ApiReply, EmulatorRequest
from legato.emulator.responses.adapter import ResponsesAdapter
from legato.emulator.storage import ProviderStorage
from legato.models.model import Emit
from legato.models.sdk_client import emit_text
from legato.providers.formats.anthropic import decode as anthropic_decode
from legato.providers.formats.anthropic import encode as anthropic_encode
from legato.providers.formats.anthropic.stream import AnthropicStreamDecoder
from legato.providers.formats.chat import decode as chat_decode
from legato.providers.formats.chat import encode as chat_encode
from legato.providers.formats.chat.stream import ChatStreamDecoder
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.request_options import RequestOptions
from legato.providers.formats.responses import decode as responses_decode
from legato.providers.formats.responses import encode as responses_encode
from legato.providers.formats.responses import stored_history
from legato.providers.formats.responses.stream import ResponsesStreamDecoder
from legato.providers.formats.sse_decoder import SSEDecoder
from legato.providers.rules.anthropic import rules as anthropic
from legato.providers.rules.chat import rules as chat
from legato.providers.rules.responses import rules as responses

RESPONSES_SWITCHES = replace(
    responses.OPENAI,
    unique_call_ids=True,
    single_outputs=True,
    unique_tool_names=True,
    same_model_blobs=True,
    reasoning_pairing_unstored=True,
)
CHAT_SWITCHES = replace(chat.OPENAI, duplicate_answers=True, unknown_members=True, unknown_parameter="unknown")
COMPATIBLE_SWITCHES = replace(chat.LENIENT, duplicate_answers=True)
ANTHROPIC_SWITCHES = replace(anthropic.AnthropicRuleSwitches(), first_message_is_user=True, alternation=True)
_HEADERS = {"anthropic-version": "2023-06-01"}


class FormatVariant(Struct, frozen=True):
    """A provider format with a memory mode and a model."""

    api: Literal["responses", "chat", "anthropic"]
    options: RequestOptions

    @property
    def name(self) -> str:
        """The format and the mode, for counting."""
        if self.api == "responses":
            return f"responses {self.options.memory}"
        if self.api == "chat":
            return "chat compatible" if self.options.compatible else "chat"
        return "anthropic older" if self.options.thinking_tokens else "anthropic binding"

    @property
    def origin(self) -> str:
        return f"{self.api} in process {self.options.model}"

    def encode(self, request: ModelRequest, *, stream: bool, by_value: bool = False, with_reasoning: bool = True) -> EncodedRequest:
        """Encode a request in this format."""
        options, origin = self.options, self.origin
        if self.api == "responses":
            return responses_encode.encode_request(
                request, options, origin, stream=stream, by_value=by_value, with_reasoning=with_reasoning
            )
        if self.api == "chat":
            with_reasoning = options.compatible and with_reasoning
            return chat_encode.encode_request(request, options, stream=stream, origin=origin, with_reasoning=with_reasoning)
        return anthropic_encode.encode_request(request, options, origin, stream=stream, with_reasoning=with_reasoning)

    def decode(self, answer: ApiReply, encoded: EncodedRequest, emit: Emit, *, stream: bool) -> ModelReply:
        """Decode the reply in an answer, from its body or its events."""
        if not stream:
            module: Any = {"responses": responses_decode, "chat": chat_decode, "anthropic": anthropic_decode}[self.api]
            return emit_text(module.decode_reply(msgspec.json.decode(msgspec.json.encode(answer.body)), encoded, self.origin), emit)
        decoders: Any = {"responses": ResponsesStreamDecoder, "chat": ChatStreamDecoder, "anthropic": AnthropicStreamDecoder}
        decoder, sse_decoder = decoders[self.api](emit), SSEDecoder()
        for event in answer.events:
            for sse_event in sse_decoder.feed(event.encode()):
                decoder.feed(sse_event.data)
        reply: ModelReply = decoder.build_reply(encoded, self.origin)
        return reply


def _responses(memory: Any, model: str = "gpt-5") -> FormatVariant:
    return FormatVariant("responses", RequestOptions(model=model, memory=memory))


VARIANTS: tuple[FormatVariant, ...] = (
    _responses("inline"),
    _responses("chained"),
    _responses("conversation"),
    FormatVariant("chat", RequestOptions(model="gpt-5")),
    FormatVariant("chat", RequestOptions(model="some-model", compatible=True)),
    FormatVariant("anthropic", RequestOptions(model="claude-opus-5-5", effort="low", extra={"cache_control": {"type": "ephemeral"}})),
    FormatVariant("anthropic", RequestOptions(model="claude-sonnet-4-5", thinking_tokens=1024)),
)
OTHER_MODEL_VARIANTS: tuple[FormatVariant, ...] = (
    _responses("inline", "gpt-5-mini"),
    _responses("chained", "gpt-5-mini"),
    FormatVariant("anthropic", RequestOptions(model="claude-sonnet-5-5", effort="low")),
)
"""Other models behind the same APIs: the reasoning of one model is not for the other."""


class InProcessProvider:
    """The emulator's code for all variants, with one account."""

    def __init__(self, seed: str) -> None:
        storage, ids, cipher, models = ProviderStorage(), IdGenerator(seed), ContentCipher(b"k" * 32), ModelCatalogue()
        self._responses = ResponsesAdapter(storage, ids, cipher, RESPONSES_SWITCHES, models)
        self._chat = ChatAdapter(storage, ids, CHAT_SWITCHES, models)
        self._compatible = ChatAdapter(storage, ids, COMPATIBLE_SWITCHES, ModelCatalogue(accepts_any_name=True))
        self._anthropic = AnthropicAdapter(ids, cipher, ANTHROPIC_SWITCHES, models)
        self._request_count = 0

    def get_adapter(self, variant: FormatVariant) -> ApiAdapter:
        if variant.api == "chat":
            return self._compatible if variant.options.compatible else self._chat
        return self._responses if variant.api == "responses" else self._anthropic

    def make_request(self, variant: FormatVariant, body: dict[str, Any], size: int = 0) -> EmulatorRequest:
        self._request_count += 1
        headers = _HEADERS if variant.api == "anthropic" else {}
        return EmulatorRequest(
            api=variant.api, number=self._request_count, body=body, headers=headers, account="org", now=1_800_000_000.0, body_bytes=size
        )

    def conversation_for(self, variant: FormatVariant, request: ModelRequest) -> str:
        """Return the conversation for a request, created if need be, as `OpenAIResponses` does."""
        if variant.options.memory != "conversation":
            return ""
        usable = stored_history.find_usable_conversation(request, variant.origin)
        if usable:
            return usable
        status, conversation = self._responses.conversation_endpoints.create(self.make_request(variant, {}), {})
        assert status == 200
        return str(conversation["id"])
