"""A request to the Responses API. May know: the view of an agent and what the provider holds. Decides: what is sent.

The body is joined from fragments: each group is written once and kept, so a request costs what is new plus a join. Nothing is sent
with an item id; calls and outputs are paired by call id. In order: who keeps the conversation (`memory`), what of it the provider
provably holds, and the rest by value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from legato.core.facts import Call, Content, File, Hosted, Image, Item, Reasoning, Refusal, Text, Words
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.messages_to_model import summary
from legato.core.turn_context import Frame
from legato.core.view import Request
from legato.providers.formats.calls import call_id
from legato.providers.formats.compiled import Compiled, Fragment, Head, joined
from legato.providers.formats.course import Course, course_of
from legato.providers.formats.group_cache import cache_of
from legato.providers.formats.loose import objects, text
from legato.providers.formats.losses import FOREIGN, NOT_GIVEN_OUT, NOT_TAKEN_BACK, REFUSED, STANDS_LAST, UNWANTED
from legato.providers.formats.options import Options, options_from
from legato.providers.formats.parts import STAND_IN, address_of
from legato.providers.formats.responses.past import Past, Proof, past_of, proof_of
from legato.providers.formats.responses.round_trip import (
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
from legato.providers.rules.json_schemas import is_enforced, output_format, told
from legato.providers.rules.names import by_wire_name, wire_name
from legato.providers.rules.responses.laws import SOUND_OR_FILM, judge, judge_each, judge_items
from legato.providers.rules.rule_set import Complaint
from legato.providers.rules.shape import by_shape

SAID = frozenset(("content", "text", "arguments", "output", "encrypted_content"))
NO_DOCUMENTS = ("audio/", "video/")
NO_SOUND_OR_FILM = "this API takes documents, no sound or film; the model is told that it is there"
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
    namespaces = tuple((name, namespace) for name, (_, namespace) in _brought(options_text).items() if namespace)
    about = (origin, options.replay_reasoning, reasoning, namespaces)
    past, held = Past(), ""
    course: Course
    if options.memory == "inline":
        course = written = course_of(request, "responses", about, lambda: _Written(*about))
    else:
        course = proof = proof_of(request, origin)
        past, held = Past() if by_value else past_of(request, options, proof), proof.told
        written = _Written(*about, refused=proof.refused)
        written.go_on_from(past, proof, request)
    named = b"previous_response_id" if past.response else b"conversation"
    base = b',"%b":%b' % (named, _encode(past.base)) if past.base else b""
    return Compiled(
        joined(head.body[:-1] + base + b',"input":[', _opening(request, options, past, written), written.pieces, b"]}"),
        head.names,
        held,
        past.base,
        written.thinks,
        course.not_told_yet([*_not_there(request.frame, options), *written.losses]),
        (*head.complaints, *written.complaints),
        bare=not reasoning,
        hosted=written.hosted,
    )


def _opening(request: Request, options: Options, past: Past, written: _Written) -> list[bytes]:
    """What stands before the groups that are sent by value, so that there is an input at all."""
    said = [*request.frame.messages] if options.memory == "inline" else []
    if request.summary and not past.groups:
        said.append(summary(request.summary))
    if not said and not written.outputs and not written.pieces:
        said.append(STAND_IN)
    return [*written.outputs, *(_encode({"role": "user", "content": text}) for text in said)]


def judged_options(options: Options) -> tuple[Complaint, ...]:
    """What the law book says of options, whatever they are used for."""
    return _head(Frame(""), options.text(), False).complaints


# -- everything but the input ------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _head(frame: Frame, options_text: str, stream: bool) -> Head:
    """Everything but the input and what it goes on from: what a frame asks for is written and judged once."""
    options = options_from(options_text)
    by_value = options.memory == "inline"
    reasoning = {"effort": options.effort, "summary": options.reasoning_summary}
    body = {
        "model": options.model,
        "instructions": _instructions(frame, options),
        "tools": [*_tools(frame, options_text), *options.hosted],
        "text": _text(frame, options),
        "store": not by_value,
        "include": ["reasoning.encrypted_content"] if by_value and options.replay_reasoning else None,
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


def _instructions(frame: Frame, options: Options) -> str:
    """What the agent is told before all else. Who lets the provider keep the conversation says added messages anew each time."""
    added = frame.messages if options.memory != "inline" else ()
    asked = told(frame.output) if frame.output and not is_enforced(frame.output) else ""
    return "\n\n".join(filter(None, (frame.instructions, asked, *added)))


def _tools(frame: Frame, options_text: str) -> list[dict[str, Any]]:
    """The agent's tools, but for those that the options declare."""
    brought = _brought(options_text)
    return [
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


def _text(frame: Frame, options: Options) -> dict[str, Any] | None:
    """The form and the length of what is said."""
    enforced = frame.output and is_enforced(frame.output)
    form = {"format": {"type": "json_schema", **output_format(frame.output)}} if enforced else {}
    return {**form, **({"verbosity": options.verbosity} if options.verbosity else {})} or None


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

    def __init__(self, origin: str, wanted: bool, allowed: bool, namespaces: tuple[tuple[str, str], ...] = (), refused: float = -1) -> None:
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
        self.outputs: list[bytes] = []  # of the calls of a reply that the provider holds

    def go_on_from(self, past: Past, proof: Proof, request: Request) -> None:
        """Take in what the provider does not hold yet: outputs for the calls of its last reply, and all groups after it."""
        rest = request.groups[past.groups :]
        if any(programs_named(group.fact.items) for group in rest if group.fact is not None):
            before = (group.fact.items for group in request.groups[: past.groups] if group.fact is not None)  # the provider has these
            self.programs = frozenset().union(*map(programs_of, before))
        for group in rest:
            self.add(group, group.position in proof.own, request)
        if past.open_reply is not None:
            writing = _Writing("", False, request.contents, {}, None)
            items = [writing.write_output(entry) for entry in past.open_reply.entries if isinstance(entry, OutputEntry)]
            self.outputs += map(_encode, items)
            self.losses.update(dict.fromkeys(writing.losses))
            self.complaints += _judged_each(items)

    def add(self, group: Group, own: bool, request: Request) -> None:
        withheld = self._withheld(group)
        made = programs_of(group.fact.items) if group.fact is not None and withheld not in (FOREIGN, REFUSED) else frozenset()
        named = programs_named(group.fact.items) & self.programs if group.fact is not None and self.programs else frozenset()
        key = f"responses {own:d} {withheld}{self._key}{sorted(named) if named else ''}"
        cache = cache_of(group)
        fragment: Fragment | None = cache.get(key)
        if fragment is None:
            how = (withheld, own, request.contents, self._namespaces)
            fragment = _Writing(*how, self.programs | made).write(group)
            if fragment.hosted and fragment.complaints:  # what the provider did has a form that is not known here: it stays behind
                fragment = _Writing(*how, self.programs, hosted=False).write(group)
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


class _Writing(msgspec.Struct):
    """How one group is written, and what is lost on the way.

    `withheld`: why the reasoning of a reply does not go back; empty: it does. `own`: its calls get ids of ours. `namespaces`: of tools that
    the options declare. `programs`: those that calls may say they were made by; None: any, since the provider holds the calls.
    `hosted`: what the provider did by itself may go back.
    """

    withheld: str
    own: bool
    contents: Mapping[str, bytes]
    namespaces: Mapping[str, str]
    programs: frozenset[str] | None
    hosted: bool = True
    losses: list[str] = []

    @property
    def takes_back(self) -> bool:
        """Whether what the provider did by itself goes back to it."""
        return self.hosted and self.withheld not in (FOREIGN, REFUSED)

    def write(self, group: Group) -> Fragment:
        """The items that a group is."""
        items: list[dict[str, Any]] = []
        for entry in group.entries:
            if isinstance(entry, AssistantEntry):
                items += self._reply(entry)
            elif isinstance(entry, OutputEntry):
                items.append(self.write_output(entry))
            else:
                items.append({"role": "user", "content": self._content(entry.content)})
        kinds = {item.get("type") for item in items}
        cited = any(item.get("role") == "assistant" and not isinstance(item["content"], str) for item in items)
        return Fragment(
            b",".join(map(_encode, items)),
            tuple(self.losses),
            _judged(items),
            "reasoning" in kinds,
            cited or not kinds.isdisjoint(BY_VALUE),
        )

    def write_output(self, entry: OutputEntry) -> dict[str, Any]:
        """The output of a call."""
        id = call_id(entry.call, entry.ref.position, entry.ref.index, self.own)
        return write_output(self._plain(entry.call), id, self._content(entry.content))

    def _reply(self, entry: AssistantEntry) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for index, item in enumerate(entry.items):
            match item:
                case Words():
                    items.append(self._words(item, entry.agent))
                case Refusal():
                    items.append({"role": "assistant", "content": item.text})
                case Call():
                    items.append(self._call(item, call_id(item, entry.position, index, self.own)))
                case Reasoning():
                    items += self._reasoning(item, entry.agent)
                case Hosted():
                    items += self._hosted(item, entry, index)
        while items and items[-1].get("type") == "reasoning":
            items.pop()  # the reply was cut short
            self.losses.append(f"reasoning of {entry.agent}: {STANDS_LAST}")
        return items

    def _words(self, words: Words, agent: str) -> dict[str, Any]:
        if words.notes and not self.takes_back:
            self.losses.append(f"citations of {agent}: {REFUSED if self.withheld == REFUSED else CITED_ELSEWHERE}")
        return write_message(words.text, "" if self.withheld == FOREIGN else words.extra, words.notes if self.takes_back else "")

    def _call(self, call: Call, id: str) -> dict[str, Any]:
        written = write_call(self._plain(call), id, wire_name(call.tool))
        if self.namespaces and (namespace := self.namespaces.get(written.get("name", ""))):
            written.setdefault("namespace", namespace)  # another model's call of a tool that is there now
        return written

    def _plain(self, call: Call) -> Call:
        """A call as this provider made it; another's as a plain one."""
        if not call.extra or self.programs is None:
            return call
        return replace(call, extra="") if self.withheld == FOREIGN else without_program(call, self.programs)

    def _reasoning(self, reasoning: Reasoning, agent: str) -> list[dict[str, Any]]:
        if reasoning.encrypted and not self.withheld:
            return [{"type": "reasoning", "summary": [], "encrypted_content": reasoning.encrypted}]
        if reasoning.encrypted or reasoning.text or reasoning.item_id:  # of one that was erased nothing is left to lose
            self.losses.append(f"reasoning of {agent}: {self.withheld or NOT_GIVEN_OUT}")
        return []

    def _hosted(self, hosted: Hosted, entry: AssistantEntry, index: int) -> list[dict[str, Any]]:
        if why := self._stays_behind(hosted, entry.items):
            self.losses.append(f"{hosted.kind} of {entry.agent}: {why}")
            return []
        return [write_hosted(hosted.kind, hosted.body, f"{BY_VALUE[hosted.kind]}_{entry.position}_{index}")]

    def _stays_behind(self, hosted: Hosted, items: Sequence[Item]) -> str:
        """Why something that a provider did by itself does not go back; empty: it does."""
        if self.withheld in (FOREIGN, REFUSED):
            return REFUSED if self.withheld == REFUSED else NOT_TAKEN_BACK
        if self.takes_back and not is_output_of(hosted, self.programs or ()):
            return "its program is not in this request"
        if self.takes_back and hosted.kind in BY_VALUE and not waits_for_caller(hosted, items):
            return ""
        return NOT_BY_VALUE.get(hosted.kind, NOT_TAKEN_BACK)

    def _content(self, content: Content) -> object:
        return content if isinstance(content, str) else [self._part(part) for part in content]

    def _part(self, part: Text | Image | File) -> dict[str, Any]:
        match part:
            case Text(text=text):
                return {"type": "input_text", "text": text}
            case Image():
                return {"type": "input_image", "image_url": address_of(part, self.contents), "detail": "auto"}
            case File(url=url, media_type=kind) if kind.startswith(NO_DOCUMENTS) or SOUND_OR_FILM.search(url):
                what = url or kind
                self.losses.append(f"file {part.name or what}: {NO_SOUND_OR_FILM}")
                return {"type": "input_text", "text": f"[file {part.name}: {what}]" if part.name else f"[file: {what}]"}
            case File(url=url) if url:
                return {"type": "input_file", "file_url": url}
            case File():
                return {"type": "input_file", "filename": part.name or "file", "file_data": address_of(part, self.contents)}
