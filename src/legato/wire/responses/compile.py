"""A request to the Responses API. May know: the view of an agent and what the provider holds. Decides: what is sent.

The body is joined from fragments: each group is written once and kept, so a request costs what is new plus a join. Nothing is sent
with an item id; calls and outputs are paired by call id. In order: who keeps the conversation (`memory`), what of it the provider
provably holds, and the rest by value.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from legato.core.facts import Call, Content, File, Hosted, Image, Item, Reasoning, Refusal, Text, Words
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.view import Request
from legato.core.wording import summary
from legato.wire.calls import call_id, groups_with_own_ids
from legato.wire.compiled import Compiled, Fragment
from legato.wire.law import Complaint
from legato.wire.losses import not_told_yet
from legato.wire.names import by_wire_name, wire_name
from legato.wire.options import Options
from legato.wire.parts import address_of
from legato.wire.responses.laws import judge
from legato.wire.responses.past import Past, past_of
from legato.wire.schemas import is_closed, is_of_an_object, told
from legato.wire.sequence import sequence

ONLY_BY_LOOKUP = ("file_search_call", "image_generation_call")
"""What the provider does by itself and takes back only as a reference to what it stored."""

_encode = msgspec.json.Encoder().encode


def compile_request(
    request: Request, options: Options, origin: str, *, stream: bool, by_value: bool = False, reasoning: bool = True
) -> Compiled:
    """The request as bytes. `by_value`: whatever the provider is said to hold; `reasoning=False`: without any, after a refusal."""
    past = Past() if by_value else past_of(request, options, origin)
    groups = request.groups[past.groups :]
    replay = reasoning and options.replay_reasoning
    own = groups_with_own_ids(groups)
    pieces: list[bytes] = []
    losses = _not_there(request, options)
    head = _head(request, options, past, stream)
    complaints = [*_judged_head(head)]
    if past.open_reply is not None:
        pieces.append(_outputs_of(past.open_reply, request.contents))
    if options.memory == "inline":
        pieces += [_encode({"role": "user", "content": text}) for text in request.frame.messages]
    if request.summary and not past.groups:
        pieces.append(_encode({"role": "user", "content": summary(request.summary)}))
    for group in groups:
        fragment = _fragment(group, replay and _is_from(group, origin), group.position in own, request.contents)
        pieces.append(fragment.body)
        losses += fragment.losses
        complaints += fragment.complaints
    body = head[:-1] + b',"input":[' + b",".join(piece for piece in pieces if piece) + b"]}"
    sent = any(isinstance(item, Reasoning) and item.encrypted for group in groups if _is_from(group, origin) for item in _items(group))
    return Compiled(
        body,
        by_wire_name(tool.name for tool in request.frame.tools),
        tuple(sequence(request)) if options.memory != "inline" else (),
        past.base,
        sent and replay,
        not_told_yet(losses, request.groups),
        tuple(complaints),
    )


# -- everything but the input ------------------------------------------------------------------------------------------


def _head(request: Request, options: Options, past: Past, stream: bool) -> bytes:
    frame = request.frame
    added = frame.messages if options.memory != "inline" else ()
    schema = msgspec.json.decode(frame.output) if frame.output else None
    asked = told(frame.output) if frame.output and not is_of_an_object(schema) else ""
    body: dict[str, Any] = {"model": options.model, "instructions": "\n\n".join(filter(None, (frame.instructions, asked, *added)))}
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
    if schema and not asked:
        raw = msgspec.Raw(frame.output.encode())
        format = {"type": "json_schema", "name": "output", "schema": raw, "strict": is_closed(schema)}
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
        "tool_choice": _choice(request, options),
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


def _choice(request: Request, options: Options) -> object:
    """Which tool is to be called. An agent that does not have it, or has none at all, is asked without: the API would refuse it."""
    choice = options.tool_choice
    if choice is None or not (request.frame.tools or options.hosted):
        return None
    if choice in ("auto", "none", "required"):
        return choice
    if any(tool.name == choice for tool in request.frame.tools):
        return {"type": "function", "name": wire_name(choice)}
    return {"type": choice} if any(tool.get("type") == choice for tool in options.hosted) else None


def _not_there(request: Request, options: Options) -> list[str]:
    """A tool that is to be called and that this agent does not have: the models of several agents can be one."""
    choice = options.tool_choice
    if choice in (None, "auto", "none", "required") or _choice(request, options) is not None:
        return []
    return [f"tool_choice {choice!r} of {request.agent}: it has no such tool"]


# -- the input ---------------------------------------------------------------------------------------------------------


def _is_from(group: Group, origin: str) -> bool:
    return group.fact is not None and group.fact.origin == origin


def _items(group: Group) -> tuple[Item, ...]:
    return next((entry.items for entry in group.entries if isinstance(entry, AssistantEntry)), ())


def _fragment(group: Group, reasoning: bool, own: bool, contents: Mapping[str, bytes]) -> Fragment:
    key = f"responses {reasoning:d}{own:d}"
    found: Fragment | None = group.wire.get(key)
    if found is None:
        found = _written(group, reasoning, own, contents)
        group.wire[key] = found
    return found


def _written(group: Group, reasoning: bool, own: bool, contents: Mapping[str, bytes]) -> Fragment:
    items: list[dict[str, Any]] = []
    losses: list[str] = []
    for entry in group.entries:
        if isinstance(entry, AssistantEntry):
            items += _reply(entry, reasoning, own, losses)
        elif isinstance(entry, OutputEntry):
            id = call_id(entry.call, entry.ref.position, entry.ref.index, own)
            items.append({"type": "function_call_output", "call_id": id, "output": _output(entry.content, contents)})
        else:
            items.append({"role": "user", "content": _content(entry.content, contents)})
    return Fragment(b",".join(map(_encode, items)), tuple(losses), tuple(judge({"model": "any", "input": items})) if items else ())


def _reply(entry: AssistantEntry, reasoning: bool, own: bool, losses: list[str]) -> list[dict[str, Any]]:
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
                if reasoning and encrypted:
                    items.append({"type": "reasoning", "summary": [], "encrypted_content": encrypted})
                elif encrypted or item.text:
                    losses.append(f"reasoning of {entry.agent}: only the model that made it can read it")
            case Hosted(kind=kind):
                losses.append(f"{kind} of {entry.agent}: only the provider that ran it can take it back")
    while items and items[-1].get("type") == "reasoning":
        items.pop()  # nothing follows it: the reply was cut short, and the provider refuses reasoning that stands alone
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
