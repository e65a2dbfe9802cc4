"""A reply of the Messages API. May know: what the API sends. Decides: what of it is recorded.

Tolerant: compatible servers leave things out. What is not known is recorded as what it is (`Hosted`), never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from legato.core.facts import NO_USAGE, Call, Hosted, Item, Reasoning, Refusal, Usage, Words
from legato.core.model_reply import Reply
from legato.errors import ModelFailed
from legato.providers.formats.anthropic.blocks import CALL_MEMBERS, DIRECT, reply_blocks, results_of
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.failures import refusal_of
from legato.providers.formats.loose import json_text, mapping, number, objects, text
from legato.providers.rules.anthropic.laws import judge_messages
from legato.providers.rules.anthropic.prefix import Prefix
from legato.providers.rules.anthropic.thinking import KINDS

PAUSED = "pause_turn"
COMPACTED = "compaction"
"""Why a reply stopped that has only begun: its request is asked again with it, and goes on from there."""
SHAPES = "MS"
"""What the clauses about the shape of blocks are called."""
_CUT = ("max_tokens", "model_context_window_exceeded", PAUSED)
_COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
REPLY_MEMBERS = ("container", "context_management", "diagnostics", "input_transformations", "stop_details", "stop_sequence")
"""What is recorded of a whole reply besides its items, where it says anything (`ModelReplied.extra`). The container goes back."""
_NOT_IN_THE_SUM = ("compaction", "advisor_message")
"""What a request may make the provider sample besides the reply. It is billed, and no part of the counts at the top (measured)."""


def read_reply(body: Any, compiled: Compiled, origin: str, request_id: str = "") -> Reply:
    """The reply that a message object is; `ModelFailed` if it is none, or tells of a failure."""
    message = mapping(body)
    if message.get("type") == "error" or (message.get("error") and "content" not in message):
        raise refusal_of(0, message, request_id=request_id)
    if not isinstance(message.get("content"), list):
        raise ModelFailed("the provider's answer is no message: it has no content", retryable=True)
    content = objects(message["content"])
    stopped = text(message.get("stop_reason"))
    items = [item for block in content if (item := _item(block, compiled)) is not None]
    if stopped == "refusal":
        items = _refused(items, mapping(message.get("stop_details")))
    return Reply(
        items=tuple(items),
        finish="filter" if stopped == "refusal" else "length" if stopped in _CUT else "stop",
        usage=usage_of(message.get("usage")),
        model=text(message.get("model")),
        response_id=text(message.get("id")),
        origin=origin,
        held=_held(compiled, content, items),
        request_id=request_id,
        losses=compiled.losses,
        extra=_members(message, REPLY_MEMBERS),
    )


def usage_of(usage: Any) -> Usage:
    """All tokens that a request has cost."""
    total = NO_USAGE
    for _, part in usage_parts(usage):
        total += part
    return total


def usage_parts(usage: Any) -> list[tuple[str, Usage]]:
    """The tokens of the reply, and of what else was sampled for it: by which model (empty: by the one that was asked), and how many.

    >>> usage_parts({"input_tokens": 5, "iterations": [{"type": "compaction", "input_tokens": 9}, {"type": "message", "input_tokens": 5}]})
    ... # doctest: +ELLIPSIS
    [('', Usage(input=5,...)), ('', Usage(input=9,...))]
    """
    beside = [part for part in objects(mapping(usage).get("iterations")) if part.get("type") in _NOT_IN_THE_SUM]
    return [("", _counted(usage)), *((text(part.get("model")), _counted(part)) for part in beside)]


def _counted(usage: Any) -> Usage:
    """Tokens. The API counts what it read from its cache, and wrote to it, beside the rest of the input; here it is part of it."""
    given = mapping(usage)
    fresh, written, cached, output = (number(given.get(name)) for name in _COUNTED)
    thinking = number(mapping(given.get("output_tokens_details")).get("thinking_tokens"))
    return Usage(input=fresh + written + cached, output=output, cached=cached, reasoning=thinking, written=written)


def _item(block: dict[str, Any], compiled: Compiled) -> Item | None:
    match block.get("type"):
        case "text":
            words, notes = text(block.get("text")), block.get("citations")
            return Words(words, notes=json_text(notes) if notes else "") if words else None
        case "thinking":
            return Reasoning(text(block.get("thinking")), text(block.get("signature")))
        case "redacted_thinking":
            return Reasoning(encrypted=text(block.get("data")), redacted=True)
        case "tool_use":
            name = text(block.get("name"))
            extra = _members({**block, "caller": None} if block.get("caller") == DIRECT else block, CALL_MEMBERS)
            return Call(compiled.tools.get(name, name), _arguments(block.get("input")), text(block.get("id")), extra=extra)
        case kind:
            return Hosted(text(kind) or "unknown", json_text(block), text(block.get("id")))


def _members(thing: dict[str, Any], names: Sequence[str]) -> str:
    """Some members as the text of an object; empty if none of them says anything."""
    found = {name: thing[name] for name in names if _says_anything(thing.get(name))}
    return json_text(found) if found else ""


def _says_anything(value: Any) -> bool:
    return any(map(_says_anything, value.values())) if isinstance(value, dict) else value not in (None, "", [])


def _arguments(given: Any) -> str:
    """The arguments in the order in which the model wrote them; text is what a stream broke off in."""
    return given if isinstance(given, str) else msgspec.json.encode({} if given is None else given).decode()


def _refused(items: list[Item], details: dict[str, Any]) -> list[Item]:
    """A reply that the provider stopped: its words are no answer, and its calls are not to run."""
    said: list[Item] = []
    for item in items:
        if isinstance(item, Words):
            said.append(Refusal(item.text))
        elif isinstance(item, Call):
            said.append(Hosted("refused tool_use", json_text(msgspec.to_builtins(item)), item.call_id))
        else:
            said.append(item)
    told = text(details.get("explanation"))
    return said if any(isinstance(item, Refusal) for item in said) or not told else [*said, Refusal(told)]


def _held(compiled: Compiled, content: list[dict[str, Any]], items: list[Item]) -> str:
    """What stood before the reply, if it can go back as it came. Thinking is bound to the blocks before it in its own reply, too."""
    last = max((index for index, block in enumerate(content) if block.get("type") in KINDS), default=0)
    if last:
        written = msgspec.json.decode(msgspec.json.encode(reply_blocks(items, "", 0, [], resumed=results_of(items))))
        if _digest(written[: last + 1]) != _digest(content[: last + 1]):
            return ""
    return compiled.told


def _digest(blocks: list[dict[str, Any]]) -> str:
    prefix = Prefix({})
    for block in blocks:
        prefix.add("assistant", block)
    return prefix.digest()


# -- turns that the provider pauses ------------------------------------------------------------------------------------


def continued(compiled: Compiled, body: Any) -> Compiled:
    """The same request, with what the provider has said so far: it goes on from there, in the same container."""
    message = mapping(body)
    said = {"role": "assistant", "content": message.get("content")}
    complaints = judge_messages([{"role": "user", "content": "?"}, said], {"anthropic-version": "2023-06-01"})
    misshapen = tuple(complaint for complaint in complaints if complaint.clause.id.startswith(SHAPES))  # what it began may be open
    inside = in_container(compiled, text(mapping(message.get("container")).get("id")))
    joined = inside.body.removesuffix(b"]}") + b"," + msgspec.json.encode(said) + b"]}"
    return msgspec.structs.replace(inside, body=joined, complaints=misshapen)


def in_container(compiled: Compiled, id: str) -> Compiled:
    """The same request in a container, unless it names one."""
    given = msgspec.json.decode(compiled.container) if compiled.container else {}
    if not id or not isinstance(given, dict) or given.get("id"):
        return compiled
    member = json_text({**given, "id": id} if given else id)
    before = b'"container":%b,' % compiled.container.encode() if given else b""
    body = compiled.body.replace(before, b"", 1) if given else compiled.body
    return msgspec.structs.replace(compiled, body=b'{"container":%b,%b' % (member.encode(), body[1:]), container=member)


def joined(before: Any, after: Any) -> dict[str, Any]:
    """A paused message and its continuation as one."""
    first, second = mapping(before), mapping(after)
    spent = [mapping(message.get("usage")) for message in (first, second)]
    thought = sum(number(mapping(usage.get("output_tokens_details")).get("thinking_tokens")) for usage in spent)
    usage = {name: sum(number(usage.get(name)) for usage in spent) for name in _COUNTED}
    said = {name: first[name] for name in REPLY_MEMBERS if _says_anything(first.get(name)) and not _says_anything(second.get(name))}
    return {
        **second,
        **said,
        "content": [*objects(first.get("content")), *objects(second.get("content"))],
        "usage": {
            **usage,
            "output_tokens_details": {"thinking_tokens": thought},
            "iterations": [part for each in spent for part in objects(each.get("iterations"))],
        },
    }
