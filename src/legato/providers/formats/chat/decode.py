"""Decoding of replies of Chat Completions.

Decoding is lenient: compatible servers leave out ids, usage and reasons, send arguments as objects and text as parts, and report errors
with a success status. Unknown members are recorded unchanged as `HostedToolUse`, never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.core.facts import Call, HostedToolUse, OutputText, Reasoning, Refusal, ReplyItem, Usage
from legato.core.model_reply import ModelReply
from legato.errors import ModelFailed
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import as_count, as_object, as_objects, as_text, to_json
from legato.providers.formats.provider_errors import translate_error

REPLAYED_CALL_MEMBERS = ("extra_content", "provider_specific_fields", "thought_signature")
"""The members of calls that compatible servers want back: Gemini's signatures, as its own server and gateways name them."""

SEALED_REASONING_MEMBERS = ("reasoning_details", "extra_content", "provider_specific_fields", "thought_signature")
"""The members of messages that hold reasoning which only the sending server can read and which it wants back (OpenRouter, Gemini)."""

_DECODED_MEMBERS = ("content", "tool_calls", "function_call", "annotations", "audio", "reasoning", *SEALED_REASONING_MEMBERS)

_LENGTH_REASONS = ("length", "max_tokens", "model_length", "max_output_tokens")
_FILTER_REASONS = ("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "sensitive")


def decode_reply(body: Any, request: EncodedRequest, origin: str, request_id: str = "") -> ModelReply:
    """Decode a completion; `ModelFailed` if it is no completion, or reports a failure."""
    completion = as_object(body)
    choices = as_objects(completion.get("choices"))
    choice = next((each for each in choices if is_first_choice(each)), choices[0] if choices else {})
    for answer in (completion, choice):
        if is_failure(answer):
            raise decode_failure(answer, request_id)
    reason, message = find_finish_reason(choice), choice.get("message")
    if not isinstance(message, dict) and reason not in _FILTER_REASONS:  # Azure removes a filtered message
        raise ModelFailed("the provider's answer is no completion: it has no message", retryable=True)
    message = as_object(message)
    content = DecodedContent()
    content.add_piece(message)
    content.add_sources(completion)
    content.add_losses_of(choice)
    content.further_choices.update(range(1, len(choices)))
    calls = as_objects(message.get("tool_calls"))
    if not calls and as_object(message.get("function_call")).get("name"):
        calls = [{"function": message["function_call"]}]
    return build_reply(completion, reason, content, calls, request, origin, request_id)


def is_first_choice(choice: dict[str, Any]) -> bool:
    """Return True if a choice, or a piece of one, belongs to the first choice."""
    return choice.get("index") in (0, None)


def build_reply(
    completion: dict[str, Any],
    reason: str,
    content: DecodedContent,
    calls: Sequence[dict[str, Any]],
    request: EncodedRequest,
    origin: str,
    request_id: str,
) -> ModelReply:
    """Build a reply from its parts. `completion` has the id, the model and the usage."""
    return ModelReply(
        items=(*content.build_items(), *(_decode_call(call, request) for call in calls)),
        finish="length" if reason in _LENGTH_REASONS else "filter" if reason in _FILTER_REASONS else "stop",
        usage=find_usage(completion),
        model=as_text(completion.get("model")),
        response_id=as_text(completion.get("id")),
        origin=origin,
        request_id=request_id,
        losses=(*request.losses, *content.describe_losses()),
    )


def find_finish_reason(choice: dict[str, Any]) -> str:
    """Return the reason why a reply ended; empty if there is none. OpenAI's first vision models had it in `finish_details`."""
    reason = (as_text(choice.get("finish_reason")) or as_text(as_object(choice.get("finish_details")).get("type"))).lower()
    if reason in ("", "null"):  # some servers write it so
        return "content_filter" if _is_filtered_by_azure(choice) else ""
    return reason


def _is_filtered_by_azure(choice: dict[str, Any]) -> bool:
    """Return True if a filter of Azure removed the message."""
    results = as_object(choice.get("content_filter_results")) or as_object(choice.get("content_filter_result"))
    return any(as_object(result).get("filtered") is True for result in results.values())


def find_usage(answer: dict[str, Any]) -> Usage:
    """Return the usage in an answer or a chunk. Groq's streams have it in a member of their own."""
    return decode_usage(answer.get("usage") or as_object(answer.get("x_groq")).get("usage"))


def decode_usage(usage: Any) -> Usage:
    """Decode the API's token counts."""
    counts = as_object(usage)
    details = as_object(counts.get("prompt_tokens_details"))
    return Usage(
        input=as_count(counts.get("prompt_tokens")),
        output=as_count(counts.get("completion_tokens")),
        cached=next(filter(None, map(as_count, _find_cached_token_counts(counts, details))), 0),
        written=as_count(details.get("cache_write_tokens")),
        reasoning=as_count(as_object(counts.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def _find_cached_token_counts(usage: dict[str, Any], details: dict[str, Any]) -> tuple[Any, ...]:
    """Return the counts of cached tokens as OpenAI, DeepSeek, Together and Mistral name them."""
    return details.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"), usage.get("num_cached_tokens")


# -- failures with a success status ------------------------------------------------------------------------------------


def is_failure(answer: dict[str, Any]) -> bool:
    """Return True if an answer, a chunk or a choice reports a failure."""
    return bool(answer.get("error")) or "error" in (answer.get("object"), answer.get("type"), find_finish_reason(answer))


def decode_failure(answer: dict[str, Any], request_id: str = "") -> ModelFailed:
    """Return the reported failure. A failure without a status and a code is retryable."""
    error = answer.get("error") or answer
    details = error if isinstance(error, dict) else {"message": as_text(error)}
    code = details.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 0
    if not as_text(details.get("message")):
        details = {**details, "message": "the provider failed without saying why"}
    failure = translate_error(status, {"error": details}, request_id=request_id)
    failure.retryable = failure.retryable or not (status or failure.reason)
    return failure


# -- the content of a message ------------------------------------------------------------------------------------------


class DecodedContent:
    """The content of a message other than its calls. An unstreamed message is added once, a streamed message piece by piece.

    `further_choices`: the indexes of choices after the first, which are not recorded.
    """

    def __init__(self) -> None:
        self.further_choices: set[Any] = set()
        self._reasoning_texts: list[str] = []
        self._texts: list[str] = []
        self._refusal_texts: list[str] = []
        self._annotations: list[dict[str, Any]] = []
        self._audio: dict[str, Any] = {}
        self._sealed_reasoning: dict[str, Any] = {}
        self._unknown_members: dict[str, Any] = {}
        self._hosted_items: list[ReplyItem] = []
        self._losses: dict[str, None] = {}

    def add_piece(self, piece: dict[str, Any]) -> str:
        """Add a piece, and return its text for the user."""
        texts, refusals = len(self._texts), len(self._refusal_texts)
        self._reasoning_texts.append(as_text(piece.get("reasoning_content")) or as_text(piece.get("reasoning")))
        self._add_content(piece.get("content"))
        self._refusal_texts.append(as_text(piece.get("refusal")))
        self._annotations += as_objects(piece.get("annotations"))
        for name, value in as_object(piece.get("audio")).items():
            grows = name in ("data", "transcript") and isinstance(value, str)
            self._audio[name] = as_text(self._audio.get(name)) + value if grows else value
        for name, value in piece.items():
            if name in SEALED_REASONING_MEMBERS and (sealed := _drop_empty_members(value)):
                self._sealed_reasoning[name] = append_piece(self._sealed_reasoning.get(name), sealed)
            elif name not in _DECODED_MEMBERS and isinstance(value, (dict, list)) and value:
                self._unknown_members[name] = append_piece(self._unknown_members.get(name), value)
        spoken = "" if any(self._texts) else as_text(as_object(piece.get("audio")).get("transcript"))
        return "".join([*self._texts[texts:], *self._refusal_texts[refusals:], spoken])

    def add_sources(self, answer: dict[str, Any]) -> None:
        """Add the sources of the text, which some servers send beside the message."""
        for name in ("citations", "search_results"):
            if isinstance(answer.get(name), list) and answer[name]:
                self._unknown_members[name] = answer[name]

    def add_losses_of(self, choice: dict[str, Any]) -> None:
        """Note the members of a choice that are not recorded."""
        if any(as_object(choice.get("logprobs")).values()):
            self._losses["logprobs of the reply: they are not recorded"] = None

    def describe_losses(self) -> list[str]:
        """Return descriptions of what is not recorded."""
        count = len(self.further_choices)
        choices = [f"{count} further choice{'s' if count > 1 else ''} of the reply: an agent uses one choice per reply"] if count else []
        return [*choices, *self._losses]

    def _add_content(self, content: Any) -> None:
        if isinstance(content, str):
            self._texts.append(content)
        for part in as_objects(content):
            match part.get("type"):
                case "text" | "output_text" | None:
                    self._texts.append(as_text(part.get("text")))
                    self._annotations += as_objects(part.get("annotations"))
                case "refusal":
                    self._refusal_texts.append(as_text(part.get("refusal")))
                case "thinking" | "reasoning":
                    thinking = part.get("thinking") or part.get("text")
                    parts = [{"text": thinking}] if isinstance(thinking, str) else as_objects(thinking)
                    self._reasoning_texts += [as_text(each.get("text")) for each in parts]
                case kind:
                    self._hosted_items.append(HostedToolUse(as_text(kind) or "unknown", to_json(part)))

    def build_items(self) -> list[ReplyItem]:
        """Return the content as items: reasoning, text, refusal, the rest. The transcript of audio counts as text."""
        reasoning, text, refusal = "".join(self._reasoning_texts), "".join(self._texts), "".join(self._refusal_texts)
        text = text or as_text(self._audio.get("transcript"))
        sealed = to_json(self._sealed_reasoning) if self._sealed_reasoning else ""
        items: list[ReplyItem] = [Reasoning(reasoning or self._find_plain_reasoning(), sealed)] if reasoning or sealed else []
        items += [OutputText(text, citations=to_json(self._annotations) if self._annotations else "")] if text else []
        items += [Refusal(refusal)] if refusal else []
        items += self._hosted_items
        annotations = {"annotations": self._annotations} if self._annotations and not text else {}
        items += [HostedToolUse(name, to_json({name: value})) for name, value in {**annotations, **self._unknown_members}.items()]
        has_audio = any(value for name, value in self._audio.items() if name != "expires_at")  # some servers send an empty one
        return [*items, HostedToolUse("audio", to_json(self._audio), as_text(self._audio.get("id")))] if has_audio else items

    def _find_plain_reasoning(self) -> str:
        """Return the readable text in the sealed reasoning."""
        details = as_objects(self._sealed_reasoning.get("reasoning_details"))
        return "".join(as_text(each.get("text")) or as_text(each.get("summary")) for each in details)


def _drop_empty_members(value: Any) -> Any:
    """Return an object without its empty members: gateways send `provider_specific_fields` of nulls with every message."""
    return {name: member for name, member in value.items() if member} if isinstance(value, dict) else value


def append_piece(previous: Any, piece: Any) -> Any:
    """Return a streamed value with one more piece. Texts are joined within the object of a list that they belong to; the rest is replaced.

    >>> append_piece([{"index": 0, "text": "I"}], [{"index": 0, "text": " see"}, {"index": 1, "data": "x"}])
    [{'index': 0, 'text': 'I see'}, {'index': 1, 'data': 'x'}]
    """
    if isinstance(previous, dict) and isinstance(piece, dict):
        return {**previous, **piece}
    if not (isinstance(previous, list) and isinstance(piece, list)):
        return piece
    whole = list(previous)
    for each in piece:
        last = whole[-1] if whole else None
        if isinstance(last, dict) and isinstance(each, dict) and _is_continuation(last, each):
            joined_texts = {name: as_text(last.get(name)) + as_text(each.get(name)) for name in _JOINED_MEMBERS if name in each}
            whole[-1] = {**last, **{name: value for name, value in each.items() if value is not None}, **joined_texts}
        else:
            whole.append(each)
    return whole


_JOINED_MEMBERS = ("text", "summary")


def _is_continuation(last: dict[str, Any], piece: dict[str, Any]) -> bool:
    same = all(last.get(name) == piece.get(name) for name in ("type", "index"))
    return same and "index" in piece and piece.get("id") in (None, last.get("id")) and "data" not in piece


# -- calls -------------------------------------------------------------------------------------------------------------


def _decode_call(call: dict[str, Any], request: EncodedRequest) -> Call:
    function, is_free_text = find_tool_member(call), is_custom_call(call)
    name = as_text(function.get("name"))
    extra = {name: member for name in REPLAYED_CALL_MEMBERS if (member := _drop_empty_members(call.get(name)))}
    extra |= {"type": "custom"} if is_free_text else {}
    arguments = decode_arguments(function) or ("" if is_free_text else "{}")
    return Call(request.tool_names.get(name, name), arguments, as_text(call.get("id")), extra=to_json(extra) if extra else "")


def is_custom_call(call: dict[str, Any]) -> bool:
    """Return True if a call is of a tool that takes text. Some servers send an empty `custom` with every function, or the reverse."""
    kinds = [kind for kind in ("function", "custom") if as_object(call.get(kind))]
    return kinds == ["custom"] or (len(kinds) == 2 and call.get("type") == "custom")


def find_tool_member(call: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a call that names a tool and its arguments."""
    return as_object(call.get("custom" if is_custom_call(call) else "function")) or call


def decode_arguments(function: dict[str, Any]) -> str:
    """Return the arguments as text, also if a server sends an object; empty if there are none."""
    arguments = function.get("arguments", function.get("input"))
    return arguments if isinstance(arguments, str) else "" if arguments is None else to_json(arguments)
