"""A request to Chat Completions. May know: the view of an agent. Decides: what is sent.

The body is joined from fragments: each group is written once and kept, so a request costs what is new plus a join. The API holds
nothing, so everything goes by value, every time. A reply is one message, its words and its calls; one message per output follows at
once, as the API asks. A server that only speaks like OpenAI's (`compatible`) is written to as most of them understand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec

from legato.core.facts import Call, Content, File, Hosted, Image, Part, Reasoning, Refusal, Text, Words
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.messages_to_model import summary
from legato.core.turn_context import Frame
from legato.core.view import Request
from legato.providers.formats.calls import call_id
from legato.providers.formats.compiled import Compiled, Fragment, Head, joined
from legato.providers.formats.course import Course, course_of
from legato.providers.formats.group_cache import cache_of
from legato.providers.formats.loose import object_in
from legato.providers.formats.losses import FOREIGN, NOT_TAKEN_BACK
from legato.providers.formats.options import Options, options_from
from legato.providers.formats.parts import STAND_IN, address_of
from legato.providers.rules.chat.laws import LENIENT, OPENAI, judge, judge_messages
from legato.providers.rules.json_schemas import is_enforced, output_format, told
from legato.providers.rules.names import by_wire_name, wire_name
from legato.providers.rules.rule_set import Complaint
from legato.providers.rules.shape import by_shape

REASONING = "reasoning_content"
"""Where compatible servers put their reasoning, and some want it back."""

# Everything is written in the order in which it is built, which is always the same: a schema keeps its properties in their order.
_encode = msgspec.json.Encoder().encode

SAID = frozenset(("content", "text", "arguments", REASONING))
CALL_IDS = frozenset(("id", "tool_call_id"))

_judged = by_shape(judge_messages, SAID, CALL_IDS)
_judged_leniently = by_shape(partial(judge_messages, profile=LENIENT), SAID, CALL_IDS)


def compile_request(request: Request, options: Options, origin: str = "", *, stream: bool, reasoning: bool = False) -> Compiled:
    """The request as bytes. `reasoning`: replies that came from `origin` are sent back with the reasoning that came with them."""
    head = _head(request.frame, options.text(), stream)
    about = (options.compatible, origin, reasoning)
    written = course_of(request, "chat", about, lambda: _Written(*about))
    asked = told(request.frame.output) if request.frame.output and not _is_enforced(request.frame.output, options.compatible) else ""
    instructions = "\n\n".join(filter(None, (request.frame.instructions, asked)))
    opening = [_encode({"role": "system", "content": instructions})] if instructions else []
    opening += [_encode({"role": "user", "content": text}) for text in request.frame.messages]
    if request.summary:
        opening.append(_encode({"role": "user", "content": summary(request.summary)}))
    if not opening and not written.pieces:
        opening.append(_encode({"role": "user", "content": STAND_IN}))
    return Compiled(
        joined(head.body[:-1] + b',"messages":[', opening, written.pieces, b"]}"),
        head.names,
        reasoning=written.thinks,
        losses=written.not_told_yet([*_not_there(request, options, head.names), *written.losses]),
        complaints=(*head.complaints, *written.complaints),
    )


def judged_options(options: Options) -> tuple[Complaint, ...]:
    """What the law book says of options, whatever they are used for."""
    return _head(Frame(""), options.text(), False).complaints


# -- everything but the messages ---------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _head(frame: Frame, options_text: str, stream: bool) -> Head:
    """Everything but the messages: what a frame asks for is written and judged once."""
    options, names = options_from(options_text), by_wire_name(tool.name for tool in frame.tools)
    limit = "max_tokens" if options.compatible else "max_completion_tokens"
    body = {
        "model": options.model,
        "tools": [_tool(tool.name, tool.description, tool.parameters) for tool in frame.tools] or None,
        "tool_choice": _choice(options.tool_choice, names),
        "parallel_tool_calls": options.parallel_calls if frame.tools else None,
        "response_format": _format(frame.output, options.compatible),
        "reasoning_effort": options.effort,
        "verbosity": options.verbosity,
        "temperature": options.temperature,
        "top_p": options.top_p,
        limit: options.max_tokens,
        "stop": options.stop or None,
        "seed": options.seed,
        "service_tier": options.service_tier,
        "stream": stream or None,
        "stream_options": {"include_usage": True} if stream else None,
        **options.extra,
    }
    written = _encode({name: value for name, value in body.items() if value is not None})
    judged = {**msgspec.json.decode(written), "messages": [{"role": "user", "content": "json"}]}
    return Head(written, names, tuple(judge(judged, profile=LENIENT if options.compatible else OPENAI)))


def _tool(name: str, description: str, parameters: str) -> dict[str, Any]:
    told = {"description": description} if description else {}
    return {"type": "function", "function": {"name": wire_name(name), **told, "parameters": msgspec.Raw(parameters.encode())}}


def _choice(choice: str | None, names: Mapping[str, str]) -> object:
    if choice is None or not names:
        return None
    if choice in ("auto", "none", "required"):
        return choice
    name = wire_name(choice)
    return {"type": "function", "function": {"name": name}} if name in names else None


def _not_there(request: Request, options: Options, names: Mapping[str, str]) -> list[str]:
    """A tool that is to be called and that this agent does not have: the models of several agents can be one."""
    choice = options.tool_choice
    if choice in (None, "auto", "none", "required") or wire_name(str(choice)) in names:
        return []
    return [f"tool_choice {choice!r} of {request.agent}: it has no such tool"]


def _format(output: str, compatible: bool) -> dict[str, Any] | None:
    return {"type": "json_schema", "json_schema": output_format(output)} if output and _is_enforced(output, compatible) else None


def _is_enforced(output: str, compatible: bool) -> bool:
    """Whether a schema can be enforced. Compatible servers do so with grammars, which may begin with anything."""
    return compatible or is_enforced(output)


# -- the messages ------------------------------------------------------------------------------------------------------


class _Written(Course):
    """All groups as messages, and what is lost on the way. `thinks`: reasoning is among what is sent."""

    def __init__(self, compatible: bool, origin: str, reasoning: bool) -> None:
        self._compatible = compatible
        self._reasoning = reasoning
        super().__init__(origin)

    def begin(self) -> None:
        self.pieces: list[bytes] = []
        self.losses: dict[str, None] = {}
        self.complaints: list[Complaint] = []
        self.thinks = False

    def add(self, group: Group, own: bool, request: Request) -> None:
        home = group.fact is not None and bool(self.origin) and group.fact.origin == self.origin
        back = self._reasoning and home
        key = f"chat {own:d}{self._compatible:d}{back:d}{home:d}"
        cache = cache_of(group)
        fragment: Fragment | None = cache.get(key)
        if fragment is None:
            fragment = cache[key] = _Writing(own, self._compatible, back, home, request.contents).fragment(group)
        if fragment.body:
            self.pieces.append(fragment.body)
        self.losses.update(dict.fromkeys(fragment.losses))
        self.complaints += fragment.complaints
        self.thinks = self.thinks or fragment.thinks


class _Writing(msgspec.Struct):
    """How one group is written, and what is lost on the way.

    `own`: with ids of our own for its calls. `back`: with the reasoning that came with it. `home`: it goes to the model that it came from.
    """

    own: bool
    compatible: bool
    back: bool
    home: bool
    contents: Mapping[str, bytes]
    losses: list[str] = []
    thinks: bool = False

    def fragment(self, group: Group) -> Fragment:
        """The messages that a group is."""
        messages: list[dict[str, Any]] = []
        shown: list[dict[str, Any]] = []
        for entry in group.entries:
            if isinstance(entry, AssistantEntry):
                messages += self._reply(entry)
            elif isinstance(entry, OutputEntry):
                messages.append(self._output(entry, shown))
            else:
                messages.append({"role": "user", "content": self._content(entry.content)})
        if shown:
            # A tool's message has words only. What else the tools returned follows their messages, which stand together.
            messages.append({"role": "user", "content": shown})
        complaints = (_judged_leniently if self.compatible else _judged)(messages) if messages else ()
        return Fragment(b",".join(map(_encode, messages)), tuple(self.losses), complaints, self.thinks)

    def _reply(self, entry: AssistantEntry) -> list[dict[str, Any]]:
        """A reply as one message; none if nothing is left of it."""
        words: list[str] = []
        calls: list[dict[str, Any]] = []
        thoughts: list[Reasoning] = []
        for index, item in enumerate(entry.items):
            match item:
                case Words():
                    words.append(item.text)
                    self.losses += [f"citations of {entry.agent}: this API takes words only"] if item.notes else []
                case Refusal():
                    words.append(item.text)
                case Call():
                    calls.append({"id": call_id(item, entry.position, index, self.own), **self._call(item)})
                case Reasoning() if self.back:
                    thoughts.append(item)
                case Reasoning():
                    self.losses += [f"reasoning of {entry.agent}: {FOREIGN}"] if item.text or item.encrypted else []
                case Hosted():
                    self.losses.append(f"{item.kind} of {entry.agent}: {NOT_TAKEN_BACK}")
        said = "\n".join(filter(None, words))
        if not said and not calls:
            return []
        reasoning = _reasoning(thoughts)
        message = {"role": "assistant", "content": said or None, **reasoning}
        self.thinks = bool(reasoning)
        if calls:
            message["tool_calls"] = calls
        return [message]

    def _call(self, call: Call) -> dict[str, Any]:
        """A call without its id: as it came, where it came from; a function anywhere else."""
        extra = object_in(call.extra) if self.home else {}
        if extra.pop("type", "") == "custom":
            return {"type": "custom", "custom": {"name": wire_name(call.tool), "input": call.arguments}, **extra}
        return {"type": "function", "function": {"name": wire_name(call.tool), "arguments": self._arguments(call.arguments)}, **extra}

    def _arguments(self, arguments: str) -> str:
        """As the model wrote them. Compatible servers take them apart, and fail over what is no object."""
        if not self.compatible:
            return arguments
        try:
            if isinstance(msgspec.json.decode(arguments.strip() or "{}"), dict):
                return arguments.strip() or "{}"
        except (msgspec.DecodeError, RecursionError):
            pass
        return _encode({"arguments": arguments}).decode()

    def _output(self, entry: OutputEntry, shown: list[dict[str, Any]]) -> dict[str, Any]:
        """The output of a call. What is not words goes to `shown`."""
        content: object = entry.content
        if not isinstance(entry.content, str):
            told: list[Part] = []
            aside: list[dict[str, Any]] = []
            for part in entry.content:
                if isinstance(part, Text) or (isinstance(part, File) and part.url):
                    told.append(part)
                else:
                    told.append(Text(f"[{_kind(part)}: see the message after the tools' outputs]"))
                    aside.append(self._part(part))
            if aside:
                shown += [{"type": "text", "text": f"Returned by {entry.call.tool}:"}, *aside]
            content = self._content(tuple(told)) or ""
        id = call_id(entry.call, entry.ref.position, entry.ref.index, self.own)
        return {"role": "tool", "tool_call_id": id, "content": content}

    def _content(self, content: Content) -> object:
        if isinstance(content, str):
            return content
        parts = [self._part(part) for part in content]
        if self.compatible and all(part["type"] == "text" for part in parts):
            return "\n".join(part["text"] for part in parts)  # many of them have templates that know nothing else
        return parts

    def _part(self, part: Part) -> dict[str, Any]:
        match part:
            case Text(text=text):
                return {"type": "text", "text": text}
            case Image():
                return {"type": "image_url", "image_url": {"url": address_of(part, self.contents)}}
            case File(url=url) if url:
                self.losses.append(f"file {part.name or url}: this API takes no addresses of files; the model is told where it is")
                return {"type": "text", "text": f"[file {part.name}: {url}]" if part.name else f"[file: {url}]"}
            case File():
                return {"type": "file", "file": {"filename": part.name or "file", "file_data": address_of(part, self.contents)}}


def _reasoning(thoughts: Sequence[Reasoning]) -> dict[str, Any]:
    """The members of a message that have the reasoning, as it came: what only its server can read, else its words."""
    if not thoughts:
        return {}
    sealed = {name: value for item in thoughts for name, value in object_in(item.encrypted).items()}
    words = "" if "reasoning_details" in sealed else "\n\n".join(item.text for item in thoughts if item.text)  # which has them too
    return {REASONING: words, **sealed} if words else sealed


def _kind(part: Part) -> str:
    return "picture" if isinstance(part, Image) else f"file {part.name}".strip() if isinstance(part, File) else "text"
