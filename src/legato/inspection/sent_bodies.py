"""The bodies of recorded model requests, encoded again from the ledger alone.

A reply names the API, address and model that it came from (`origin`), and its turn context has the model's options. So its request can be
encoded again, byte for byte, without the program and without a key. One thing is not recorded: whether the request asked for a stream.
Here it always does.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from legato.core.facts import ModelReplied
from legato.core.secret_arguments import mask_arguments
from legato.core.view import ModelRequest
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.request_options import RequestOptions, decode_options
from legato.providers.rules.identifiers import sanitize_tool_name

PROVIDER_FORMATS = ("responses", "chat", "anthropic")
FUNCTION_CALL_TYPE = "function_call"

DigestCheck = Literal["proved", "refuted", ""]


class SentBody(Struct, frozen=True):
    """The body of a model request.

    `provider_format` is empty for a model of the user's own; then the body is what Legato passes to it. `digest_check`: "proved" if the
    digest that was recorded with the reply fits this body, "refuted" if it does not, empty if none was recorded.
    """

    provider_format: str
    body: bytes
    digest_check: DigestCheck = ""


def encode_sent_request(request: ModelRequest, fact: ModelReplied) -> SentBody:
    """Encode the request of a reply as it was sent."""
    options = _find_recorded_options(request.turn_context.options, fact.origin)
    if options is None:
        return encode_custom_model_input(request)
    compiled = _encode_as_sent(request, options, fact.origin, fact)
    return SentBody(_format_of(fact.origin), compiled.body, _check_digest(compiled, fact))


def mask_sent_body(sent_body: SentBody, exact: ModelRequest, masked_request: ModelRequest) -> SentBody:
    """Return the body with digests in place of secrets. `masked_request` is the exact request with digests in place of secrets.

    The masked request cannot be encoded instead: the provider's storage is confirmed by digests of the exact content, so the body would
    differ in more than the secrets. So arguments are masked in the exact body, each as in `masked_request`, or whole if it is not there.
    """
    if masked_request is exact:
        return sent_body
    if not sent_body.provider_format:
        return encode_custom_model_input(masked_request)
    body = _ArgumentMasker(exact, masked_request).mask(msgspec.json.decode(sent_body.body))
    return SentBody(sent_body.provider_format, msgspec.json.encode(body), sent_body.digest_check)


class _ArgumentMasker:
    """Masks the arguments of calls in the body of a request."""

    def __init__(self, exact: ModelRequest, masked_request: ModelRequest) -> None:
        self._masked_arguments: dict[tuple[str, str], Any] = {}  # by name and arguments, as text or as JSON
        self._masked_texts: dict[str, str] = {}  # edited arguments, which outputs repeat for the model
        for group, masked_group in zip(exact.groups, masked_request.groups, strict=True):
            for call, masked_call in zip(group.calls, masked_group.calls, strict=True):
                name, arguments, mask = sanitize_tool_name(call.call.tool), call.call.arguments, masked_call.call.arguments
                # Another agent's tool may have the same name, and no secrets: a mask wins.
                if arguments != mask or (name, arguments) not in self._masked_arguments:
                    self._masked_arguments[name, arguments] = mask
                    self._masked_arguments[name, _canonical_arguments(arguments)] = msgspec.json.decode(_canonical_arguments(mask))
                if call.edited and call.arguments != masked_call.arguments:
                    self._masked_texts[call.arguments] = masked_call.arguments

    def mask(self, value: Any) -> Any:
        match value:
            case {"name": str(name), "arguments": str(arguments)} if value.get("type", FUNCTION_CALL_TYPE) == FUNCTION_CALL_TYPE:
                return {**value, "arguments": self._masked_arguments.get((name, arguments), mask_arguments(arguments, None))}
            case {"type": "tool_use", "name": str(name), "input": arguments}:
                text = msgspec.json.encode(arguments, order="sorted").decode()
                return {**value, "input": self._masked_arguments.get((name, text), {"arguments": mask_arguments(text, None)})}
            case dict():
                return {key: self.mask(each) for key, each in value.items()}
            case list():
                return [self.mask(each) for each in value]
            case str():
                for exact, mask in self._masked_texts.items():
                    value = value.replace(exact, mask)
        return value


def _canonical_arguments(arguments: str) -> str:
    """Return the arguments as a JSON object with sorted keys."""
    try:
        decoded = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        decoded = arguments
    return msgspec.json.encode(decoded if isinstance(decoded, dict) else {"arguments": decoded}, order="sorted").decode()


def encode_with_options(request: ModelRequest, options: RequestOptions | None, origin: str, fact: ModelReplied) -> SentBody:
    """Encode a request for a model with these options, in place of the request of a reply. None: a model of the user's own."""
    if options is None:
        return encode_custom_model_input(request)
    return SentBody(_format_of(origin), _encode_as_sent(request, options, origin, fact).body)


def _encode_as_sent(request: ModelRequest, options: RequestOptions, origin: str, fact: ModelReplied) -> EncodedRequest:
    """Encode for what the provider stored then: in the conversation that the reply names, or by value if the provider had lost it."""
    if options.memory == "conversation" and fact.base:
        request = replace(request, conversation=fact.base)
    compiled = encode_for_origin(request, options, origin)
    return encode_for_origin(request, options, origin, by_value=True) if compiled.base_id and not fact.base else compiled


def encode_for_origin(request: ModelRequest, options: RequestOptions, origin: str, *, by_value: bool = False) -> EncodedRequest:
    """Encode the request in the provider format that an origin names."""
    from legato.providers.formats.anthropic import encode as anthropic
    from legato.providers.formats.chat import encode as chat
    from legato.providers.formats.responses import encode as responses

    match _format_of(origin):
        case "responses":
            return responses.encode_request(request, options, origin, stream=True, by_value=by_value)
        case "chat":
            back = options.compatible and options.replay_reasoning
            return chat.encode_request(request, options, stream=True, origin=origin, with_reasoning=back)
        case _:
            return anthropic.encode_request(request, options, origin, stream=True)


def encode_custom_model_input(request: ModelRequest) -> SentBody:
    """Encode what a model of the user's own receives."""
    frame = request.turn_context
    plain: dict[str, Any] = {
        "agent": frame.agent,
        "instructions": frame.instructions,
        "tools": [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in frame.tools],
        "messages": request.messages,
    }
    if frame.output:
        plain["output"] = frame.output
    return SentBody("", msgspec.json.encode(plain, order="sorted"))


def _format_of(origin: str) -> str:
    provider_format = origin.partition(" ")[0]
    return provider_format if provider_format in PROVIDER_FORMATS else ""


def _find_recorded_options(text: str, origin: str) -> RequestOptions | None:
    """Return the options of the model that replied. With a fallback model, the turn context has those of all its models."""
    if not text or not _format_of(origin):
        return None
    try:
        decoded = msgspec.json.decode(text)
        texts = decoded if isinstance(decoded, list) else [text]
        candidates = [decode_options(each) for each in texts if each]
    except (msgspec.DecodeError, TypeError):
        return None
    model = origin.split(" ", 2)[-1]
    return next((options for options in candidates if options.model == model), None)


def _check_digest(compiled: EncodedRequest, fact: ModelReplied) -> DigestCheck:
    from legato.providers.formats.comparable_history import extend_digest_with_reply
    from legato.providers.formats.loss_reasons import REASONING_REFUSED_MARK

    recorded = fact.stored_digest.removesuffix(REASONING_REFUSED_MARK).strip()
    digest = compiled.history_digest
    if not recorded or not digest:
        return ""
    if _format_of(fact.origin) == "responses":
        digest = extend_digest_with_reply(digest, fact.items)
    return "proved" if digest == recorded else "refuted"
