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

from legato.core.facts import Call, Content, File, Hosted, Image, Reasoning, Refusal, Text, Words
from legato.core.frame import Frame
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.view import Request
from legato.core.wording import summary
from legato.wire.calls import call_id
from legato.wire.compiled import Compiled, Fragment, Head, joined
from legato.wire.course import Course, course_of
from legato.wire.law import Complaint
from legato.wire.names import by_wire_name, wire_name
from legato.wire.options import Options, options_from
from legato.wire.parts import address_of
from legato.wire.responses.laws import judge, judge_each, judge_items
from legato.wire.responses.past import Past, past_of, proof_of
from legato.wire.schemas import is_closed
from legato.wire.shape import by_shape

SAID = frozenset(("content", "text", "arguments", "output", "encrypted_content"))
CALL_IDS = frozenset(("call_id",))

_encode = msgspec.json.Encoder().encode
_judged = by_shape(judge_items, SAID, CALL_IDS)
_judged_each = by_shape(judge_each, SAID, CALL_IDS)


def compile_request(
    request: Request, options: Options, origin: str, *, stream: bool, by_value: bool = False, reasoning: bool = True
) -> Compiled:
    """The request as bytes. `by_value`: whatever the provider is said to hold; `reasoning=False`: without any, after a refusal."""
    head = _head(request.frame, options.text(), stream)
    replay = reasoning and options.replay_reasoning
    opening: list[bytes] = []
    complaints = [*head.complaints]
    past, told = Past(), ""
    course: Course
    if options.memory == "inline":
        course = written = course_of(request, "responses", (origin, replay), lambda: _Written(origin, replay))
        opening += [_encode({"role": "user", "content": text}) for text in request.frame.messages]
    else:
        course = proof = proof_of(request, origin)
        past, told = Past() if by_value else past_of(request, options, proof), proof.told
        written = _Written(origin, replay)
        for group in request.groups[past.groups :]:
            written.add(group, group.position in proof.own, request.contents)
    if past.open_reply is not None:
        outputs = _outputs(past.open_reply, request.contents)
        opening += map(_encode, outputs)
        complaints += _judged_each(outputs)
    if request.summary and not past.groups:
        opening.append(_encode({"role": "user", "content": summary(request.summary)}))
    named = b"previous_response_id" if past.response else b"conversation"
    base = b',"%b":%b' % (named, _encode(past.base)) if past.base else b""
    return Compiled(
        joined(head.body[:-1] + base + b',"input":[', opening, written.pieces, b"]}"),
        head.names,
        told,
        past.base,
        written.thinks,
        course.not_told_yet(written.losses),
        (*complaints, *written.complaints),
    )


# -- everything but the input ------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _head(frame: Frame, options_text: str, stream: bool) -> Head:
    """Everything but the input and what it goes on from: what a frame asks for is written and judged once."""
    options = options_from(options_text)
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
    written = _encode({name: value for name, value in body.items() if value is not None and value != "" and value != []})
    judged = {**msgspec.json.decode(written), "input": "?"}
    held = ("previous_response_id", "conversation")  # what the provider holds, only the provider knows
    complaints = judge({name: value for name, value in judged.items() if name not in held})
    return Head(written, by_wire_name(tool.name for tool in frame.tools), tuple(complaints))


def _choice(choice: str | None) -> object:
    if choice in (None, "auto", "none", "required"):
        return choice
    return {"type": "function", "name": wire_name(str(choice))}


# -- the input ---------------------------------------------------------------------------------------------------------


class _Written(Course):
    """The groups that are sent by value, and what is lost on the way. `thinks`: reasoning is among what is sent."""

    def __init__(self, origin: str, reasoning: bool) -> None:
        super().__init__()
        self._origin = origin
        self._reasoning = reasoning
        self.pieces: list[bytes] = []
        self.losses: dict[str, None] = {}
        self.complaints: list[Complaint] = []
        self.thinks = False

    def add(self, group: Group, own: bool, contents: Mapping[str, bytes]) -> None:
        back = self._reasoning and group.fact is not None and group.fact.origin == self._origin
        key = f"responses {back:d}{own:d}"
        fragment: Fragment | None = group.wire.get(key)
        if fragment is None:
            fragment = group.wire[key] = _written(group, back, own, contents)
        if fragment.body:
            self.pieces.append(fragment.body)
        self.losses.update(dict.fromkeys(fragment.losses))
        self.complaints += fragment.complaints
        self.thinks = self.thinks or fragment.thinks


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
    thinks = any(item.get("type") == "reasoning" for item in items)
    return Fragment(b",".join(map(_encode, items)), tuple(losses), _judged(items), thinks)


def _reply(entry: AssistantEntry, reasoning: bool, own: bool, losses: list[str]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for index, item in enumerate(entry.items):
        match item:
            case Words(text=text) | Refusal(text=text):
                items.append({"role": "assistant", "content": text})
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


def _outputs(group: Group, contents: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """The outputs of a reply that the provider holds, under the ids that it gave."""
    return [
        {"type": "function_call_output", "call_id": entry.call.call_id, "output": _output(entry.content, contents)}
        for entry in group.entries
        if isinstance(entry, OutputEntry)
    ]


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
