"""A reply of Chat Completions. May know: what the API sends, and what servers that speak like it do. Decides: what of it is recorded.

Tolerant: compatible servers leave out ids, usage and reasons, send arguments as objects and words as parts, and report errors as
successes. What is not known is recorded as what it is (`Hosted`), never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.core.facts import Call, Hosted, Item, Reasoning, Refusal, Usage, Words
from legato.core.model_reply import Reply
from legato.errors import ModelFailed
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.failures import refusal_of
from legato.providers.formats.loose import json_text, mapping, number, objects, text

CALL_EXTRAS = ("extra_content", "provider_specific_fields", "thought_signature")
"""Members of calls that compatible servers want back: Gemini's signatures, under the names of its own server and of gateways."""

SEALS = ("reasoning_details", "extra_content", "provider_specific_fields", "thought_signature")
"""Members of messages that hold reasoning in a form that only the server which sent it can read, and that it wants back: OpenRouter's
and Gemini's."""

_READ_ELSEWHERE = ("content", "tool_calls", "function_call", "annotations", "audio", "reasoning", *SEALS)

_LENGTH = ("length", "max_tokens", "model_length", "max_output_tokens")
_FILTER = ("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "sensitive")


def read_reply(body: Any, compiled: Compiled, origin: str, request_id: str = "") -> Reply:
    """The reply that a completion is; `ModelFailed` if it is none, or tells of a failure."""
    completion = mapping(body)
    choices = objects(completion.get("choices"))
    choice = next((each for each in choices if is_first(each)), choices[0] if choices else {})
    for answer in (completion, choice):
        if failed(answer):
            raise failure_of(answer, request_id)
    reason, message = reason_of(choice), choice.get("message")
    if not isinstance(message, dict) and reason not in _FILTER:  # of a message that was filtered, Azure leaves nothing
        raise ModelFailed("the provider's answer is no completion: it has no message", retryable=True)
    message = mapping(message)
    said = Said()
    said.add(message)
    said.add_sources(completion)
    said.leave_out(choice)
    said.further_choices.update(range(1, len(choices)))
    calls = objects(message.get("tool_calls"))
    if not calls and mapping(message.get("function_call")).get("name"):
        calls = [{"function": message["function_call"]}]
    return reply_of(completion, reason, said, calls, compiled, origin, request_id)


def is_first(choice: dict[str, Any]) -> bool:
    """Tell whether a choice, or a piece of it, belongs to the first that was asked for."""
    return choice.get("index") in (0, None)


def reply_of(
    about: dict[str, Any], reason: str, said: Said, calls: Sequence[dict[str, Any]], compiled: Compiled, origin: str, request_id: str
) -> Reply:
    """A reply from its parts. `about` has the completion's id, model and usage."""
    return Reply(
        items=(*said.items(), *(_call(call, compiled) for call in calls)),
        finish="length" if reason in _LENGTH else "filter" if reason in _FILTER else "stop",
        usage=usage_in(about),
        model=text(about.get("model")),
        response_id=text(about.get("id")),
        origin=origin,
        request_id=request_id,
        losses=(*compiled.losses, *said.losses()),
    )


def reason_of(choice: dict[str, Any]) -> str:
    """Why a reply ended; empty if that is not said. OpenAI's first models with eyes said it in `finish_details`, as 'max_tokens'."""
    reason = (text(choice.get("finish_reason")) or text(mapping(choice.get("finish_details")).get("type"))).lower()
    if reason in ("", "null"):  # some servers write it so
        return "content_filter" if _is_filtered(choice) else ""
    return reason


def _is_filtered(choice: dict[str, Any]) -> bool:
    """Tell whether one of Azure's filters has taken the message away."""
    results = mapping(choice.get("content_filter_results")) or mapping(choice.get("content_filter_result"))
    return any(mapping(result).get("filtered") is True for result in results.values())


def usage_in(answer: dict[str, Any]) -> Usage:
    """The tokens that an answer or a chunk tells of. Groq's streams have them in a member of its own."""
    return usage_of(answer.get("usage") or mapping(answer.get("x_groq")).get("usage"))


def usage_of(usage: Any) -> Usage:
    """Tokens, as the API counts them."""
    given = mapping(usage)
    details = mapping(given.get("prompt_tokens_details"))
    return Usage(
        input=number(given.get("prompt_tokens")),
        output=number(given.get("completion_tokens")),
        cached=next(filter(None, map(number, _cached_counts(given, details))), 0),
        written=number(details.get("cache_write_tokens")),
        reasoning=number(mapping(given.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def _cached_counts(usage: dict[str, Any], details: dict[str, Any]) -> tuple[Any, ...]:
    """OpenAI's count, DeepSeek's, Together's and Mistral's."""
    return details.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"), usage.get("num_cached_tokens")


# -- failures that come as successes -----------------------------------------------------------------------------------


def failed(answer: dict[str, Any]) -> bool:
    """Whether an answer, a chunk or a choice tells of a failure."""
    return bool(answer.get("error")) or "error" in (answer.get("object"), answer.get("type"), reason_of(answer))


def failure_of(answer: dict[str, Any], request_id: str = "") -> ModelFailed:
    """The failure that it tells of. One that does not say what it is may pass."""
    error = answer.get("error") or answer
    told = error if isinstance(error, dict) else {"message": text(error)}
    code = told.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 0
    if not text(told.get("message")):
        told = {**told, "message": "the provider failed without saying why"}
    failure = refusal_of(status, {"error": told}, request_id=request_id)
    failure.retryable = failure.retryable or not (status or failure.reason)
    return failure


# -- what is said ------------------------------------------------------------------------------------------------------


class Said:
    """All that a message says besides calls. A message in one piece is added once, one that is streamed piece by piece.

    `further_choices`: the indexes of choices that were not asked for by an agent, which says one thing at a time.
    """

    def __init__(self) -> None:
        self.further_choices: set[Any] = set()
        self._thought: list[str] = []
        self._words: list[str] = []
        self._refusal: list[str] = []
        self._notes: list[dict[str, Any]] = []
        self._audio: dict[str, Any] = {}
        self._seals: dict[str, Any] = {}
        self._unknown: dict[str, Any] = {}
        self._other: list[Item] = []
        self._left_out: dict[str, None] = {}

    def add(self, piece: dict[str, Any]) -> str:
        """Take in a piece; what of it is for the user is given back."""
        words, refusal = len(self._words), len(self._refusal)
        self._thought.append(text(piece.get("reasoning_content")) or text(piece.get("reasoning")))
        self._content(piece.get("content"))
        self._refusal.append(text(piece.get("refusal")))
        self._notes += objects(piece.get("annotations"))
        for name, value in mapping(piece.get("audio")).items():
            grows = name in ("data", "transcript") and isinstance(value, str)
            self._audio[name] = text(self._audio.get(name)) + value if grows else value
        for name, value in piece.items():
            if name in SEALS and (sealed := _without_empty(value)):
                self._seals[name] = join_pieces(self._seals.get(name), sealed)
            elif name not in _READ_ELSEWHERE and isinstance(value, (dict, list)) and value:
                self._unknown[name] = join_pieces(self._unknown.get(name), value)
        spoken = "" if any(self._words) else text(mapping(piece.get("audio")).get("transcript"))
        return "".join([*self._words[words:], *self._refusal[refusal:], spoken])

    def add_sources(self, answer: dict[str, Any]) -> None:
        """Take in what some servers say beside the message of where its words come from."""
        for name in ("citations", "search_results"):
            if isinstance(answer.get(name), list) and answer[name]:
                self._unknown[name] = answer[name]

    def leave_out(self, choice: dict[str, Any]) -> None:
        """Take in what a choice has that is not recorded."""
        if any(mapping(choice.get("logprobs")).values()):
            self._left_out["logprobs of the reply: they are not recorded"] = None

    def losses(self) -> list[str]:
        """What of the answer is not recorded, in words."""
        count = len(self.further_choices)
        choices = [f"{count} further choice{'s' if count > 1 else ''} of the reply: an agent says one thing at a time"] if count else []
        return [*choices, *self._left_out]

    def _content(self, content: Any) -> None:
        if isinstance(content, str):
            self._words.append(content)
        for part in objects(content):
            match part.get("type"):
                case "text" | "output_text" | None:
                    self._words.append(text(part.get("text")))
                    self._notes += objects(part.get("annotations"))
                case "refusal":
                    self._refusal.append(text(part.get("refusal")))
                case "thinking" | "reasoning":
                    told = part.get("thinking") or part.get("text")
                    self._thought += [told] if isinstance(told, str) else [text(each.get("text")) for each in objects(told)]
                case kind:
                    self._other.append(Hosted(text(kind) or "unknown", json_text(part)))

    def items(self) -> list[Item]:
        """What is recorded of it, in the order in which it was thought and said. Of speech, its words are recorded too."""
        thought, words, refusal = "".join(self._thought), "".join(self._words), "".join(self._refusal)
        words = words or text(self._audio.get("transcript"))
        sealed = json_text(self._seals) if self._seals else ""
        items: list[Item] = [Reasoning(thought or self._unsealed(), sealed)] if thought or sealed else []
        items += [Words(words, notes=json_text(self._notes) if self._notes else "")] if words else []
        items += [Refusal(refusal)] if refusal else []
        items += self._other
        unknown = self._unknown if words or not self._notes else {"annotations": self._notes, **self._unknown}
        items += [Hosted(name, json_text({name: value})) for name, value in unknown.items()]
        says = any(value for name, value in self._audio.items() if name != "expires_at")  # some servers send an empty one
        return [*items, Hosted("audio", json_text(self._audio), text(self._audio.get("id")))] if says else items

    def _unsealed(self) -> str:
        """The reasoning that stands in plain words among what is for the server."""
        details = objects(self._seals.get("reasoning_details"))
        return "".join(text(each.get("text")) or text(each.get("summary")) for each in details)


def _without_empty(value: Any) -> Any:
    """A value without what is empty in it: gateways send `provider_specific_fields` of nulls with every message."""
    return {name: member for name, member in value.items() if member} if isinstance(value, dict) else value


def join_pieces(before: Any, piece: Any) -> Any:
    """A value that comes in pieces, with one more. Texts grow within the object of a list that they belong to; the rest is replaced.

    >>> join_pieces([{"index": 0, "text": "I"}], [{"index": 0, "text": " see"}, {"index": 1, "data": "x"}])
    [{'index': 0, 'text': 'I see'}, {'index': 1, 'data': 'x'}]
    """
    if isinstance(before, dict) and isinstance(piece, dict):
        return {**before, **piece}
    if not (isinstance(before, list) and isinstance(piece, list)):
        return piece
    whole = list(before)
    for each in piece:
        last = whole[-1] if whole else None
        if isinstance(last, dict) and isinstance(each, dict) and _continues(last, each):
            grown = {name: text(last.get(name)) + text(each.get(name)) for name in _GROWING if name in each}
            whole[-1] = {**last, **{name: value for name, value in each.items() if value is not None}, **grown}
        else:
            whole.append(each)
    return whole


_GROWING = ("text", "summary")


def _continues(last: dict[str, Any], piece: dict[str, Any]) -> bool:
    same = all(last.get(name) == piece.get(name) for name in ("type", "index"))
    return same and "index" in piece and piece.get("id") in (None, last.get("id")) and "data" not in piece


# -- what is called ----------------------------------------------------------------------------------------------------


def _call(call: dict[str, Any], compiled: Compiled) -> Call:
    called, custom = called_in(call), is_custom(call)
    name = text(called.get("name"))
    extra = {name: member for name in CALL_EXTRAS if (member := _without_empty(call.get(name)))}
    extra |= {"type": "custom"} if custom else {}
    arguments = arguments_of(called) or ("" if custom else "{}")
    return Call(compiled.tools.get(name, name), arguments, text(call.get("id")), extra=json_text(extra) if extra else "")


def is_custom(call: dict[str, Any]) -> bool:
    """Tell whether a call is of a tool that takes text. Some servers send an empty `custom` with every function, or the reverse."""
    kinds = [kind for kind in ("function", "custom") if mapping(call.get(kind))]
    return kinds == ["custom"] or (len(kinds) == 2 and call.get("type") == "custom")


def called_in(call: dict[str, Any]) -> dict[str, Any]:
    """The part of a call that names a tool and its arguments."""
    return mapping(call.get("custom" if is_custom(call) else "function")) or call


def arguments_of(called: dict[str, Any]) -> str:
    """The arguments as they were written, or, where a server sends an object, as they would have been; empty if there are none."""
    given = called.get("arguments", called.get("input"))
    return given if isinstance(given, str) else "" if given is None else json_text(given)
