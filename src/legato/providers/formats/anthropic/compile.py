"""A request to the Messages API. May know: the view of an agent and what its provider said before. Decides: what is sent.

The body is joined from fragments: each group is written once and kept, so a request costs what is new plus a join. Everything goes by
value. Results of tools come first in the user's message after the reply that called them, because a reply and its outputs are one
group; what the user says next follows them in the same message. `past.py` says which thinking goes back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from legato.core.digests import digest_bytes
from legato.core.facts import Item, ModelReplied
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.messages_to_model import summary
from legato.core.turn_context import Frame
from legato.core.view import Request
from legato.providers.formats.anthropic.blocks import (
    Block,
    reply_blocks,
    result_block,
    results_of,
    said_blocks,
    uses_left_open,
    waits_in_container,
)
from legato.providers.formats.anthropic.formats import enforced
from legato.providers.formats.anthropic.past import MOVED, Replay, Section, Talk, binds, told
from legato.providers.formats.compiled import Compiled, Head
from legato.providers.formats.course import Course, course_of
from legato.providers.formats.group_cache import cache_of
from legato.providers.formats.loose import json_text, mapping, object_in, objects, text
from legato.providers.formats.losses import REFUSED
from legato.providers.formats.options import Options, options_from
from legato.providers.formats.parts import STAND_IN
from legato.providers.rules.anthropic.betas import ALL
from legato.providers.rules.anthropic.laws import judge, judge_messages
from legato.providers.rules.anthropic.request import SAMPLING, WITHOUT_SAMPLING
from legato.providers.rules.anthropic.thinking import KINDS
from legato.providers.rules.json_schemas import told as told_schema
from legato.providers.rules.names import by_wire_name, wire_name
from legato.providers.rules.rule_set import Complaint
from legato.providers.rules.shape import by_shape

MAX_TOKENS = 8192
"""How long a reply may get, where the options do not say: the API asks for a limit. Thinking comes on top."""

WITH_SAMPLING = {"anthropic-version": "2023-06-01"}
"""The version of the API that a request asks for which has options of sampling: the next one, which the SDK asks for, refuses them."""
_HEADERS = {"anthropic-version": WITHOUT_SAMPLING, "anthropic-beta": ALL}
"""What requests are judged with before they are sent: whether a beta is asked for is between the caller and the provider."""

RUN_CODE = ("code_execution_", "web_search_2026", "web_fetch_2026")
"""Prefixes of the types of the provider's tools that use a container."""

SAID = frozenset(("text", "thinking", "signature", "data", "content", "input"))
CALL_IDS = frozenset(("id", "tool_use_id"))

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.decode


def compile_request(
    request: Request,
    options: Options,
    origin: str,
    *,
    stream: bool,
    reasoning: bool = True,
    enforce: bool = True,
    reuse: bool = True,
) -> Compiled:
    """The request as bytes. `reasoning=False`: without any, after a refusal; `enforce=False`: a typed output is told, not enforced;
    `reuse=False`: the provider's code runs in a container of its own."""
    opening = (*request.frame.messages, *([summary(request.summary)] if request.summary else ()))
    frame = _frame(request.frame, options.text(), enforce)
    about = (frame, opening, Replay(origin, options.model, options.replay_reasoning, reasoning, reuse))
    conversation = course_of(request, "anthropic", about, lambda: _Conversation(*about))
    talk = conversation.talk
    head = _head(request.frame, options.text(), stream, enforce, talk.open_loop)
    container = _container(options, conversation)
    losses = [*conversation.losses, *head.losses, *((f"container of {request.agent}: {REFUSED}",) if not reuse else ())]
    where = b'"container":%b,' % container.encode() if container else b""
    return Compiled(
        talk.body(b"{" + where + head.body[1:-1] + b',"messages":['),
        head.names,
        told=told(talk.before_a_reply(), bare=not reasoning),
        reasoning=conversation.thinks,
        losses=conversation.not_told_yet(losses),
        complaints=(*head.complaints, *conversation.complaints),
        container=container,
    )


def _container(options: Options, conversation: _Conversation) -> str:
    """Return the container for the provider's code, as JSON: the one that the caller names, else the one that it ran in last."""
    given = options.extra.get("container")
    last = conversation.container if conversation.open_uses or _runs_code(options) else ""
    if last and isinstance(given, dict) and not given.get("id"):
        return json_text({**given, "id": last})
    return json_text(given or last) if given or last else ""


def _runs_code(options: Options) -> bool:
    """Tell whether a tool of the provider's runs code: searches and fetches do since 2026, to filter what they found."""
    tools = [*options.hosted, *objects(options.extra.get("tools"))]
    return any(text(tool.get("type")).startswith(RUN_CODE) for tool in tools)


def judged_options(options: Options) -> tuple[Complaint, ...]:
    """What the law book says of options, whatever they are used for."""
    body = {"system": "?", **_plain_settings(options, False), **_thinking(options, "", []), **options.extra}
    return _judged_head(_encode({name: value for name, value in body.items() if value is not None}))


# -- everything but the messages ---------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _frame(frame: Frame, options_text: str, enforce: bool) -> bytes:
    """The digest of what thinking is bound to besides the messages."""
    return digest_bytes(_encode(_bound(frame, options_from(options_text), enforce))).encode()


def _bound(frame: Frame, options: Options, enforce: bool) -> dict[str, Any]:
    """What thinking is bound to besides the messages: `system` and `tools`."""
    output = frame.output
    asked = told_schema(output) if output and not (enforce and enforced(output)) else ""
    system = "\n\n".join(filter(None, (frame.instructions, asked)))
    tools: list[Any] = [
        {"name": wire_name(tool.name), "description": tool.description, "input_schema": _schema(tool.parameters)} for tool in frame.tools
    ]
    body: dict[str, Any] = {}
    if system.strip():
        cache = options.extra.get("cache_control")
        body["system"] = [{"type": "text", "text": system, "cache_control": cache}] if cache else system
    if tools or options.hosted:
        body["tools"] = [*tools, *options.hosted]
    return body | {name: options.extra[name] for name in ("system", "tools") if name in options.extra}


@lru_cache(maxsize=1024)
def _schema(parameters: str) -> msgspec.Raw:
    """A tool's schema. Its properties keep their order, in which a model writes its arguments."""
    schema = _decode(parameters)
    return msgspec.Raw(parameters.encode() if schema.get("type") == "object" else msgspec.json.encode({**schema, "type": "object"}))


class _Head(Head, frozen=True):
    losses: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def _head(frame: Frame, options_text: str, stream: bool, enforce: bool, loop: str) -> _Head:
    """Everything but the messages: what a frame asks for is written and judged once. `loop`: see `Talk.open_loop`."""
    options, losses = options_from(options_text), list[str]()
    written = _encode(_bound(frame, options, enforce) | _settings(frame, options, stream, enforce, loop, losses))
    container = options.extra.get("container")
    judged = _judged_head(written[:-1] + b',"container":%b}' % _encode(container) if container is not None else written)
    return _Head(written, by_wire_name(tool.name for tool in frame.tools), judged, tuple(losses))


def _settings(frame: Frame, options: Options, stream: bool, enforce: bool, loop: str, losses: list[str]) -> dict[str, Any]:
    format = enforced(frame.output) if frame.output and enforce else None
    config = {
        "effort": _effort(options),
        "format": {"type": "json_schema", "schema": format} if format else None,
        **(options.extra.get("output_config") or {}),
    }
    choice = _choice(frame, options, losses)
    thinking = _thinking(options, _reason_not_to_think(loop, choice), losses, frame.agent)
    body = {
        **_plain_settings(options, stream),
        **thinking,
        "tool_choice": choice,
        **options.extra,
        "container": None,  # it changes with the conversation
        "output_config": {name: value for name, value in config.items() if value is not None} or None,
    }
    return {name: value for name, value in body.items() if value is not None}


def _plain_settings(options: Options, stream: bool) -> dict[str, Any]:
    return {
        "model": options.model,
        "max_tokens": options.max_tokens or MAX_TOKENS + (options.thinking_tokens or 0),
        "temperature": options.temperature,
        "top_p": options.top_p,
        "stop_sequences": list(options.stop) or None,
        "service_tier": options.service_tier,
        "stream": stream or None,
    }


def _effort(options: Options) -> str | None:
    return {"none": None, "minimal": "low"}.get(options.effort, options.effort) if options.effort else None


def _reason_not_to_think(loop: str, choice: dict[str, Any] | None) -> str:
    """Why a model that is given a budget for thinking must not think: it would be refused."""
    if choice and choice["type"] in ("any", "tool"):
        return "off for this request, because a tool is forced"
    if loop and loop not in KINDS:
        return "off until this loop of tools ends, because it began without"
    return ""


def _thinking(options: Options, against: str, losses: list[str], agent: str = "") -> dict[str, Any]:
    display = {"display": options.reasoning_summary} if options.reasoning_summary else {}
    if options.thinking_tokens and against:
        losses.append(f"thinking of {agent}: {against}")
        return {"thinking": {"type": "disabled"}}
    if options.thinking_tokens:
        return {"thinking": {"type": "enabled", "budget_tokens": options.thinking_tokens, **display}}
    if options.thinking_tokens == 0 or options.effort == "none":
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "adaptive", **display}} if options.effort or display else {}


def _choice(frame: Frame, options: Options, losses: list[str]) -> dict[str, Any] | None:
    names = [wire_name(tool.name) for tool in frame.tools]
    if not names and not options.hosted:
        return None
    parallel = {"disable_parallel_tool_use": True} if options.parallel_calls is False else {}
    match options.tool_choice:
        case None:
            return {"type": "auto", **parallel} if parallel else None
        case "auto":
            return {"type": "auto", **parallel}
        case "required":
            return {"type": "any", **parallel}
        case "none":
            return {"type": "none"}
        case name:
            if wire_name(name) in names or any(tool.get("name") == name for tool in options.hosted):
                return {"type": "tool", "name": wire_name(name), **parallel}
            losses.append(f"tool_choice of {frame.agent}: it has no tool {name!r}")
            return None


def _judged_head(head: bytes) -> tuple[Complaint, ...]:
    """What the law book says of everything but the messages."""
    body = _decode(head)
    headers = {**_HEADERS, **(WITH_SAMPLING if any(name in body for name in SAMPLING) else {})}
    return tuple(judge({**body, "messages": [{"role": "user", "content": "?"}]}, headers))


# -- the messages ------------------------------------------------------------------------------------------------------


class Written(msgspec.Struct, frozen=True):
    """A group as it is sent; what of it could not be; what is wrong with it; whether it has thinking; and whether all is as it came."""

    sections: tuple[Section, ...]
    losses: tuple[str, ...]
    complaints: tuple[Complaint, ...]
    thinks: bool
    verbatim: bool


class _Conversation(Course):
    """All groups as messages, and what is lost on the way. `thinks`: thinking is among what is sent."""

    def __init__(self, frame: bytes, opening: Sequence[str], replay: Replay) -> None:
        self._opening = (frame, opening)
        self._replay = replay
        self._abandoned: frozenset[str] = frozenset()
        super().__init__(replay.origin)

    def begin(self) -> None:
        frame, opening = self._opening
        self.talk = Talk(frame, _stand_in())
        self.losses: dict[str, None] = {}
        self.complaints: list[Complaint] = []
        self.thinks = False
        self.container = ""
        self.open_uses: set[str] = set()
        self._sent_open: set[str] = set()
        for words in opening:
            if words.strip():
                self.talk.add(_section("user", [{"type": "text", "text": words}]))

    def go(self, request: Request) -> None:
        """On to the end of a request. A use that a later reply turns out not to go on with is taken out again, with what stood on it."""
        super().go(request)
        while self._sent_open & self._abandoned:
            self._begin()
            super().go(request)

    def add(self, group: Group, own: bool, request: Request) -> None:
        withheld, verbatim = self._terms_of(group, group.fact, own) if group.fact else ("", False)
        resumed, pending = self._pass_open_uses(group, verbatim)
        key = f"anthropic {verbatim:d}{own:d} {withheld} {' '.join((*sorted(resumed), '|', *sorted(pending)))}"
        cache = cache_of(group)
        fragment: Written | None = cache.get(key)
        if fragment is None:
            fragment = _written(group, withheld, verbatim, own, request.contents, resumed)
            if verbatim and fragment.complaints:  # what the provider wrote has a form that is not known here: words and calls go on
                fragment = _written(group, withheld or MOVED, False, own, request.contents)
            cache[key] = fragment
        if verbatim and not fragment.verbatim:
            self._abandoned |= resumed
            self.open_uses = set()
        for section in fragment.sections:
            self.talk.add(section)
        self.losses.update(dict.fromkeys(fragment.losses))
        self.complaints += fragment.complaints
        self.thinks = self.thinks or fragment.thinks

    def _terms_of(self, group: Group, reply: ModelReplied, own: bool) -> tuple[str, bool]:
        """Why the thinking of a reply does not go back (empty: it does), and whether the rest goes back as it came."""
        self.container = self._container_of(reply) or self.container
        withheld, verbatim = self._replay.of(group, self.talk.before_a_reply(), own, self.refused)
        if verbatim and self._cannot_go_on(reply.items):
            return withheld or (MOVED if binds(self._replay.model) else ""), False
        return withheld, verbatim

    def _container_of(self, reply: ModelReplied) -> str:
        """The container in which the provider's code ran for a reply; empty: in none that can be used again."""
        if not reply.extra or reply.origin != self.origin or not self._replay.reuse:
            return ""
        return text(mapping(object_in(reply.extra).get("container")).get("id"))

    def _cannot_go_on(self, items: Sequence[Item]) -> bool:
        """Whether the provider's tools wait in a reply for what does not come: no later reply went on, or their container is not known."""
        return bool(uses_left_open(items) & self._abandoned) or (waits_in_container(items) and not self.container)

    def _pass_open_uses(self, group: Group, verbatim: bool) -> tuple[set[str], set[str]]:
        """The uses of the provider's tools that a group has the results of, and those that it leaves open."""
        if group.fact is None:
            return set(), set()
        items = group.fact.items
        resumed = self.open_uses & results_of(items) if verbatim else set()
        if left := self.open_uses - resumed:
            self._abandoned |= left
        pending = uses_left_open(items) if verbatim else set()
        self.open_uses = pending
        self._sent_open |= pending
        return resumed, pending


def _written(
    group: Group,
    withheld: str,
    verbatim: bool,
    own: bool,
    contents: Mapping[str, bytes],
    resumed: Collection[str] = (),
) -> Written:
    said: list[Block] = []
    heard: list[Block] = []
    losses: list[str] = []
    for entry in group.entries:
        if isinstance(entry, AssistantEntry):
            said += reply_blocks(
                entry.items,
                entry.agent,
                entry.position,
                losses,
                withheld=withheld,
                verbatim=verbatim,
                own=own,
                resumed=resumed,
            )
        elif isinstance(entry, OutputEntry):
            heard.append(result_block(entry, own, contents, losses, verbatim))
        else:
            heard += said_blocks(entry.content, contents, losses)
    spoken = [(role, blocks) for role, blocks in (("assistant", said), ("user", heard)) if blocks]
    messages: list[dict[str, Any]] = [{"role": role, "content": blocks} for role, blocks in spoken]
    if messages and messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": "?"})
    if resumed:
        uses = [{"type": "server_tool_use", "id": id, "name": "any", "input": {}} for id in sorted(resumed)]
        messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": uses}, {"role": "user", "content": "?"}, *messages]
    thinks = any(_type(block) in KINDS for block in said)
    complaints = _judged(messages) if messages else ()
    return Written(tuple(_section(*each) for each in spoken), tuple(losses), complaints, thinks, verbatim)


def _section(role: str, blocks: list[Block]) -> Section:
    body = b",".join(map(_encode, blocks))
    return Section(role, body, _type(blocks[0]), digest_bytes(role.encode() + b" " + body).encode())


def _type(block: Block | msgspec.Raw) -> str:
    """A block's type. One that only the provider writes is kept as it wrote it: nobody here asks what it is."""
    return str(block["type"]) if isinstance(block, dict) else "another"


def _judge(messages: list[dict[str, Any]]) -> list[Complaint]:
    """What the law book says of a group by itself."""
    return judge_messages(_decode(_encode(messages)), _HEADERS)


_judged = by_shape(_judge, SAID, CALL_IDS)


@lru_cache(maxsize=1)
def _stand_in() -> Section:
    return _section("user", [{"type": "text", "text": STAND_IN}])
