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
from msgspec.structs import replace

from legato.core.facts import Call, Content, File, Hosted, Image, Reasoning, Refusal, Text, Words
from legato.core.frame import Frame
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.view import Request
from legato.core.wording import summary
from legato.wire.calls import call_id
from legato.wire.compiled import Compiled, Fragment, Head, joined
from legato.wire.course import Course, course_of
from legato.wire.group_cache import cache_of
from legato.wire.law import Complaint
from legato.wire.loose import objects, text
from legato.wire.losses import FOREIGN, NOT_GIVEN_OUT, NOT_TAKEN_BACK, REFUSED, STANDS_LAST, UNWANTED
from legato.wire.names import by_wire_name, wire_name
from legato.wire.options import Options, options_from
from legato.wire.parts import STAND_IN, address_of
from legato.wire.responses.laws import SOUND_OR_FILM, judge, judge_each, judge_items
from legato.wire.responses.past import Past, past_of, proof_of
from legato.wire.responses.round_trip import (
    BY_VALUE,
    NOT_BY_VALUE,
    is_output_of,
    programs_named,
    programs_of,
    waits_for_caller,
    without_program,
    write_call,
    write_hosted,
    write_message,
    write_output,
)
from legato.wire.schemas import is_closed, is_of_an_object, told
from legato.wire.shape import by_shape

SAID = frozenset(("content", "text", "arguments", "output", "encrypted_content"))
NO_DOCUMENTS = ("audio/", "video/")
CITED_ELSEWHERE = "only the provider that wrote them takes them back"
CALL_IDS = frozenset(("call_id",))

_encode = msgspec.json.Encoder().encode
_judged = by_shape(judge_items, SAID, CALL_IDS)
_judged_each = by_shape(judge_each, SAID, CALL_IDS)


def compile_request(
    request: Request, options: Options, origin: str, *, stream: bool, by_value: bool = False, reasoning: bool = True
) -> Compiled:
    """The request as bytes. `by_value`: whatever the provider is said to hold; `reasoning=False`: without any, after a refusal."""
    options_text = options.text()
    head = _head(request.frame, options_text, stream)
    opening: list[bytes] = []
    complaints = [*head.complaints]
    past, held = Past(), ""
    namespaces = tuple((name, namespace) for name, (_, namespace) in _brought(options_text).items() if namespace)
    about = (origin, options.replay_reasoning, reasoning, namespaces)
    course: Course
    if options.memory == "inline":
        course = written = course_of(request, "responses", about, lambda: _Written(*about))
        opening += [_encode({"role": "user", "content": text}) for text in request.frame.messages]
    else:
        course = proof = proof_of(request, origin)
        past, held = Past() if by_value else past_of(request, options, proof), proof.told
        written = _Written(*about, refused=proof.refused)
        if any(programs_named(group.fact.items) for group in request.groups[past.groups :] if group.fact is not None):
            before = (group.fact.items for group in request.groups[: past.groups] if group.fact is not None)  # the provider has these
            written.programs = frozenset().union(*map(programs_of, before))
        for group in request.groups[past.groups :]:
            written.add(group, group.position in proof.own, request)
    if past.open_reply is not None:
        losses: list[str] = []
        outputs = _outputs(past.open_reply, request.contents, losses)
        written.losses.update(dict.fromkeys(losses))
        opening += map(_encode, outputs)
        complaints += _judged_each(outputs)
    if request.summary and not past.groups:
        opening.append(_encode({"role": "user", "content": summary(request.summary)}))
    if not opening and not written.pieces:
        opening.append(_encode({"role": "user", "content": STAND_IN}))
    named = b"previous_response_id" if past.response else b"conversation"
    base = b',"%b":%b' % (named, _encode(past.base)) if past.base else b""
    return Compiled(
        joined(head.body[:-1] + base + b',"input":[', opening, written.pieces, b"]}"),
        head.names,
        held,
        past.base,
        written.thinks,
        course.not_told_yet([*_not_there(request.frame, options), *written.losses]),
        (*complaints, *written.complaints),
        bare=not reasoning,
        hosted=written.hosted,
    )


def judged_options(options: Options) -> tuple[Complaint, ...]:
    """What the law book says of options, whatever they are used for."""
    return _head(Frame(""), options.text(), False).complaints


# -- everything but the input ------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _head(frame: Frame, options_text: str, stream: bool) -> Head:
    """Everything but the input and what it goes on from: what a frame asks for is written and judged once."""
    options = options_from(options_text)
    added = frame.messages if options.memory != "inline" else ()
    schema = msgspec.json.decode(frame.output) if frame.output else None
    asked = told(frame.output) if frame.output and not is_of_an_object(schema) else ""
    body: dict[str, Any] = {"model": options.model, "instructions": "\n\n".join(filter(None, (frame.instructions, asked, *added)))}
    brought = _brought(options_text)
    tools = [
        {
            "type": "function",
            "name": wire_name(tool.name),
            "description": tool.description,
            "parameters": msgspec.Raw(tool.parameters.encode()),
            "strict": False,
        }
        for tool in frame.tools
        if wire_name(tool.name) not in brought
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
        "reasoning": {name: value for name, value in reasoning.items() if value} or None,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "max_output_tokens": options.max_tokens,
        "tool_choice": _choice(frame, options),
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


@lru_cache(maxsize=256)
def _brought(options_text: str) -> dict[str, tuple[str, str]]:
    """The types and namespaces of the tools that the options declare by name: how one of the agent's tools of that name is declared then.
    A tool that is loaded later is in a namespace of its own; the default one is empty."""
    found: dict[str, tuple[str, str]] = {}
    for tool in options_from(options_text).hosted:
        grouped = tool.get("type") == "namespace"
        for each in objects(tool.get("tools")) if grouped else (tool,):
            if each.get("type") in ("function", "custom"):
                name = text(each.get("name"))
                namespace = text(tool.get("name")) if grouped else name if each.get("defer_loading") else ""
                if not namespace or name not in found:
                    found[name] = each["type"], namespace
    return found


def _choice(frame: Frame, options: Options) -> object:
    """Which tool is to be called. An agent that does not have it, or has none at all, is asked without: the API would refuse it."""
    choice = options.tool_choice
    if choice is None or not (frame.tools or options.hosted):
        return None
    if choice in ("auto", "none", "required"):
        return choice
    if any(tool.name == choice for tool in frame.tools):
        kind, _ = _brought(options.text()).get(wire_name(choice), ("function", ""))
        return {"type": kind, "name": wire_name(choice)}
    return {"type": choice} if any(tool.get("type") == choice for tool in options.hosted) else None


def _not_there(frame: Frame, options: Options) -> list[str]:
    """A tool that is to be called and that this agent does not have: the models of several agents can be one."""
    choice = options.tool_choice
    if choice in (None, "auto", "none", "required") or _choice(frame, options) is not None:
        return []
    return [f"tool_choice {choice!r} of {frame.agent}: it has no such tool"]


# -- the input ---------------------------------------------------------------------------------------------------------


class _Written(Course):
    """The groups that are sent by value, and what is lost on the way. `thinks`: reasoning is among what is sent; `hosted`: something is
    that the provider did by itself."""

    def __init__(
        self, origin: str, wanted: bool, allowed: bool, namespaces: tuple[tuple[str, str], ...] = (), refused: float = -1
    ) -> None:
        self._wanted = wanted
        self._allowed = allowed
        self._namespaces = dict(namespaces)
        self._key = f"{namespaces}" if namespaces else ""
        super().__init__(origin)
        self.refused = refused

    def begin(self) -> None:
        self.pieces: list[bytes] = []
        self.losses: dict[str, None] = {}
        self.complaints: list[Complaint] = []
        self.thinks = self.hosted = False
        self.programs: frozenset[str] = frozenset()  # those of the groups so far, as calls name them

    def add(self, group: Group, own: bool, request: Request) -> None:
        withheld = self._withheld(group)
        made = programs_of(group.fact.items) if group.fact is not None and withheld not in (FOREIGN, REFUSED) else frozenset()
        named = programs_named(group.fact.items) & self.programs if group.fact is not None and self.programs else frozenset()
        key = f"responses {own:d} {withheld}{self._key}{sorted(named) if named else ''}"
        cache = cache_of(group)
        fragment: Fragment | None = cache.get(key)
        if fragment is None:
            fragment = _written(group, withheld, own, request.contents, self._namespaces, self.programs | made)
            if fragment.hosted and fragment.complaints:  # what the provider did has a form that is not known here: it stays behind
                fragment = _written(group, withheld, own, request.contents, self._namespaces, self.programs, hosted=False)
            cache[key] = fragment
        if made and fragment.hosted:
            self.programs |= made
        if fragment.body:
            self.pieces.append(fragment.body)
        self.losses.update(dict.fromkeys(fragment.losses))
        self.complaints += fragment.complaints
        self.thinks = self.thinks or fragment.thinks
        self.hosted = self.hosted or fragment.hosted

    def _withheld(self, group: Group) -> str:
        """Why the reasoning of a reply does not go back; empty: it does."""
        if group.fact is None or group.fact.origin != self.origin:
            return FOREIGN
        if not self._wanted:
            return UNWANTED
        return "" if self._allowed and group.position >= self.refused else REFUSED


def _written(
    group: Group,
    withheld: str,
    own: bool,
    contents: Mapping[str, bytes],
    namespaces: Mapping[str, str],
    programs: frozenset[str],
    hosted: bool = True,
) -> Fragment:
    items: list[dict[str, Any]] = []
    losses: list[str] = []
    for entry in group.entries:
        if isinstance(entry, AssistantEntry):
            items += _reply(entry, withheld, own, losses, hosted, namespaces, programs)
        elif isinstance(entry, OutputEntry):
            id = call_id(entry.call, entry.ref.position, entry.ref.index, own)
            items.append(write_output(_own(entry.call, withheld, programs), id, _content(entry.content, contents, losses)))
        else:
            items.append({"role": "user", "content": _content(entry.content, contents, losses)})
    kinds = {item.get("type") for item in items}
    cited = any(item.get("role") == "assistant" and not isinstance(item["content"], str) for item in items)
    return Fragment(
        b",".join(map(_encode, items)),
        tuple(losses),
        _judged(items),
        "reasoning" in kinds,
        cited or not kinds.isdisjoint(BY_VALUE),
    )


def _reply(
    entry: AssistantEntry,
    withheld: str,
    own: bool,
    losses: list[str],
    hosted: bool,
    namespaces: Mapping[str, str],
    programs: frozenset[str],
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    takes_back = hosted and withheld not in (FOREIGN, REFUSED)
    for index, item in enumerate(entry.items):
        match item:
            case Words(text=words, notes=notes, extra=extra):
                items.append(write_message(words, "" if withheld == FOREIGN else extra, notes if takes_back else ""))
                if notes and not takes_back:
                    losses.append(f"citations of {entry.agent}: {REFUSED if withheld == REFUSED else CITED_ELSEWHERE}")
            case Refusal(text=words):
                items.append({"role": "assistant", "content": words})
            case Call():
                call = write_call(_own(item, withheld, programs), call_id(item, entry.position, index, own), wire_name(item.tool))
                if namespaces and (namespace := namespaces.get(call.get("name", ""))):  # another model's call of a tool that is there now
                    call.setdefault("namespace", namespace)
                items.append(call)
            case Reasoning(encrypted=encrypted):
                if encrypted and not withheld:
                    items.append({"type": "reasoning", "summary": [], "encrypted_content": encrypted})
                elif encrypted or item.text or item.item_id:  # of one that was erased nothing is left to lose
                    losses.append(f"reasoning of {entry.agent}: {withheld or NOT_GIVEN_OUT}")
            case Hosted(kind="program_output") if takes_back and not is_output_of(item, programs):
                losses.append(f"program_output of {entry.agent}: its program is not in this request")
            case Hosted(kind=kind, body=body) if takes_back and kind in BY_VALUE and not waits_for_caller(item, entry.items):
                items.append(write_hosted(kind, body, f"{BY_VALUE[kind]}_{entry.position}_{index}"))
            case Hosted(kind=kind):
                why = NOT_TAKEN_BACK if withheld == FOREIGN else NOT_BY_VALUE.get(kind, NOT_TAKEN_BACK)
                losses.append(f"{kind} of {entry.agent}: {REFUSED if withheld == REFUSED else why}")
    while items and items[-1].get("type") == "reasoning":
        items.pop()  # the reply was cut short
        losses.append(f"reasoning of {entry.agent}: {STANDS_LAST}")
    return items


def _own(call: Call, withheld: str, programs: frozenset[str]) -> Call:
    """A call as this provider made it; another's as a plain one."""
    if not call.extra:
        return call
    return replace(call, extra="") if withheld == FOREIGN else without_program(call, programs)


def _outputs(group: Group, contents: Mapping[str, bytes], losses: list[str]) -> list[dict[str, Any]]:
    """The outputs of a reply that the provider holds, under the ids that it gave."""
    return [
        write_output(entry.call, entry.call.call_id, _content(entry.content, contents, losses))
        for entry in group.entries
        if isinstance(entry, OutputEntry)
    ]


def _content(content: Content, contents: Mapping[str, bytes], losses: list[str]) -> object:
    if isinstance(content, str):
        return content
    return [_part(part, contents, losses) for part in content]


def _part(part: Text | Image | File, contents: Mapping[str, bytes], losses: list[str]) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "input_text", "text": text}
        case Image():
            return {"type": "input_image", "image_url": address_of(part, contents), "detail": "auto"}
        case File(url=url, media_type=kind) if kind.startswith(NO_DOCUMENTS) or SOUND_OR_FILM.search(url):
            what = url or kind
            losses.append(f"file {part.name or what}: this API takes documents, no sound or film; the model is told that it is there")
            return {"type": "input_text", "text": f"[file {part.name}: {what}]" if part.name else f"[file: {what}]"}
        case File(url=url) if url:
            return {"type": "input_file", "file_url": url}
        case File():
            return {"type": "input_file", "filename": part.name or "file", "file_data": address_of(part, contents)}
