"""A request to the Responses API. May know: the view of an agent and what the provider holds. Decides: what is sent.

The body is joined from fragments: each group is written once and kept, so a request costs what is new plus a join. Nothing is sent
with an item id; calls and outputs are paired by call id. In order: who keeps the conversation (`memory`), what of it the provider
provably holds, and the rest by value.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import inf
from typing import Any

import msgspec

from legato.core.facts import Call, Content, File, Hosted, Image, Reasoning, Refusal, Text, Words
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.view import Request
from legato.core.wording import summary
from legato.wire.calls import call_id, groups_with_own_ids
from legato.wire.compiled import Compiled, Fragment
from legato.wire.law import Complaint
from legato.wire.losses import FOREIGN, REFUSED, STANDS_LAST, UNWANTED, not_told_yet, refused_before
from legato.wire.names import by_wire_name, wire_name
from legato.wire.options import Options
from legato.wire.parts import address_of
from legato.wire.responses.laws import judge
from legato.wire.responses.past import Past, past_of
from legato.wire.schemas import is_closed
from legato.wire.sequence import sequence

ONLY_BY_LOOKUP = ("file_search_call", "image_generation_call")
"""What the provider does by itself and takes back only as a reference to what it stored."""

_encode = msgspec.json.Encoder().encode
_REASONING = b'{"type":"reasoning",'


def compile_request(
    request: Request, options: Options, origin: str, *, stream: bool, by_value: bool = False, reasoning: bool = True
) -> Compiled:
    """The request as bytes. `by_value`: whatever the provider is said to hold; `reasoning=False`: without any, after a refusal."""
    past = Past() if by_value else past_of(request, options, origin)
    groups = request.groups[past.groups :]
    refused = refused_before(request.groups, origin) if reasoning else inf
    own = groups_with_own_ids(groups)
    pieces: list[bytes] = []
    losses: list[str] = []
    head = _head(request, options, past, stream)
    complaints = [*_judged_head(head)]
    if past.open_reply is not None:
        pieces.append(_outputs_of(past.open_reply, request.contents))
    if options.memory == "inline":
        pieces += [_encode({"role": "user", "content": text}) for text in request.frame.messages]
    if request.summary and not past.groups:
        pieces.append(_encode({"role": "user", "content": summary(request.summary)}))
    sent = False
    for group in groups:
        withheld = _withheld(group, origin, options.replay_reasoning, refused)
        fragment = _fragment(group, withheld, group.position in own, request.contents)
        sent = sent or (not withheld and _REASONING in fragment.body)
        pieces.append(fragment.body)
        losses += fragment.losses
        complaints += fragment.complaints
    body = head[:-1] + b',"input":[' + b",".join(piece for piece in pieces if piece) + b"]}"
    return Compiled(
        body,
        by_wire_name(tool.name for tool in request.frame.tools),
        tuple(sequence(request)) if options.memory != "inline" else (),
        past.base,
        sent,
        not_told_yet(losses, request.groups),
        tuple(complaints),
        bare=not reasoning,
    )


# -- everything but the input ------------------------------------------------------------------------------------------


def _head(request: Request, options: Options, past: Past, stream: bool) -> bytes:
    frame = request.frame
    added = frame.messages if options.memory != "inline" else ()
    body: dict[str, Any] = {"model": options.model, "instructions": "\n\n".join(filter(None, (frame.instructions, *added)))}
    tools = [
        {
            "type": "function",
            "name": wire_name(tool.name),
            "description": tool.description,
            "parameters": msgspec.Raw(tool.parameters.encode()),
            "strict": False,
        }
        for tool in frame.tools
    ]
    body["tools"] = [*tools, *options.hosted]
    if frame.output:
        strict = is_closed(msgspec.json.decode(frame.output))
        format = {"type": "json_schema", "name": "output", "schema": msgspec.Raw(frame.output.encode()), "strict": strict}
        body["text"] = {"format": format}
    if options.verbosity:
        body["text"] = {**body.get("text", {}), "verbosity": options.verbosity}
    reasoning = {"effort": options.effort, "summary": options.reasoning_summary}
    body |= {
        "store": options.memory != "inline",
        "include": ["reasoning.encrypted_content"] if options.memory == "inline" and options.replay_reasoning else None,
        "previous_response_id": past.response,
        "conversation": past.conversation,
        "reasoning": {name: value for name, value in reasoning.items() if value} or None,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "max_output_tokens": options.max_tokens,
        "tool_choice": _choice(options.tool_choice),
        "parallel_tool_calls": options.parallel_calls,
        "service_tier": options.service_tier,
        "stream": stream or None,
        **options.extra,
    }
    return _encode({name: value for name, value in body.items() if value is not None and value != "" and value != []})


@lru_cache(maxsize=256)
def _judged_head(head: bytes) -> tuple[Complaint, ...]:
    """What the law book says of everything but the input. A frame is judged once. What the provider holds, only the provider knows."""
    body = {name: value for name, value in msgspec.json.decode(head).items() if name not in ("previous_response_id", "conversation")}
    return tuple(judge({**body, "input": "?"}))


def _choice(choice: str | None) -> object:
    if choice in (None, "auto", "none", "required"):
        return choice
    return {"type": "function", "name": wire_name(str(choice))}


# -- the input ---------------------------------------------------------------------------------------------------------


def _withheld(group: Group, origin: str, wanted: bool, refused: float) -> str:
    """Why the reasoning of a reply does not go back; empty: it does."""
    if group.fact is None or group.fact.origin != origin:
        return FOREIGN
    if not wanted:
        return UNWANTED
    return REFUSED if group.position < refused else ""


def _fragment(group: Group, withheld: str, own: bool, contents: Mapping[str, bytes]) -> Fragment:
    key = f"responses {own:d} {withheld}"
    found: Fragment | None = group.wire.get(key)
    if found is None:
        found = _written(group, withheld, own, contents)
        group.wire[key] = found
    return found


def _written(group: Group, withheld: str, own: bool, contents: Mapping[str, bytes]) -> Fragment:
    items: list[dict[str, Any]] = []
    losses: list[str] = []
    for entry in group.entries:
        if isinstance(entry, AssistantEntry):
            items += _reply(entry, withheld, own, losses)
        elif isinstance(entry, OutputEntry):
            id = call_id(entry.call, entry.ref.position, entry.ref.index, own)
            items.append({"type": "function_call_output", "call_id": id, "output": _output(entry.content, contents)})
        else:
            items.append({"role": "user", "content": _content(entry.content, contents)})
    return Fragment(b",".join(map(_encode, items)), tuple(losses), tuple(judge({"model": "any", "input": items})) if items else ())


def _reply(entry: AssistantEntry, withheld: str, own: bool, losses: list[str]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for index, item in enumerate(entry.items):
        match item:
            case Words(text=text) | Refusal(text=text):
                items.append({"role": "assistant", "content": text})
                if isinstance(item, Words) and item.notes:
                    losses.append(f"citations of {entry.agent}: the API takes back words only")
            case Call():
                id = call_id(item, entry.position, index, own)
                items.append({"type": "function_call", "call_id": id, "name": wire_name(item.tool), "arguments": item.arguments})
            case Reasoning(encrypted=encrypted):
                if encrypted and not withheld:
                    items.append({"type": "reasoning", "summary": [], "encrypted_content": encrypted})
                elif encrypted or item.text:
                    losses.append(f"reasoning of {entry.agent}: {withheld or FOREIGN}")
            case Hosted(kind=kind):
                losses.append(f"{kind} of {entry.agent}: only the provider that ran it can take it back")
    while items and items[-1].get("type") == "reasoning":
        items.pop()  # the reply was cut short
        losses.append(f"reasoning of {entry.agent}: {STANDS_LAST}")
    return items


def _outputs_of(group: Group, contents: Mapping[str, bytes]) -> bytes:
    """The outputs of a reply that the provider holds, under the ids that it knows."""
    outputs = [entry for entry in group.entries if isinstance(entry, OutputEntry)]
    return b",".join(
        _encode({"type": "function_call_output", "call_id": entry.call.call_id, "output": _output(entry.content, contents)})
        for entry in outputs
    )


def _output(content: Content, contents: Mapping[str, bytes]) -> object:
    return content if isinstance(content, str) else _content(content, contents)


def _content(content: Content, contents: Mapping[str, bytes]) -> object:
    if isinstance(content, str):
        return content
    return [_part(part, contents) for part in content]


def _part(part: Text | Image | File, contents: Mapping[str, bytes]) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "input_text", "text": text}
        case Image():
            return {"type": "input_image", "image_url": address_of(part, contents), "detail": "auto"}
        case File(url=url) if url:
            return {"type": "input_file", "file_url": url}
        case File():
            return {"type": "input_file", "filename": part.name or "file", "file_data": address_of(part, contents)}
