"""A request to the Messages API. May know: the view of an agent and what its provider said before. Decides: what is sent.

The body is joined from fragments: each group is written once and kept, so a request costs what is new plus a join. Everything goes by
value. Results of tools come first in the user's message after the reply that called them, because a reply and its outputs are one
group; what the user says next follows them in the same message. `past.py` says which thinking goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from legato.core.digest import digest_bytes
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.view import Request
from legato.core.wording import summary
from legato.wire.anthropic.blocks import Block, reply_blocks, result_block, said_blocks
from legato.wire.anthropic.formats import enforced
from legato.wire.anthropic.laws import judge
from legato.wire.anthropic.past import STAND_IN, Replay, Section, Talk, told
from legato.wire.anthropic.request import BINDING_CONTROLS
from legato.wire.anthropic.thinking import KINDS
from legato.wire.calls import groups_with_own_ids
from legato.wire.compiled import Compiled
from legato.wire.law import Complaint
from legato.wire.names import by_wire_name, wire_name
from legato.wire.options import Options
from legato.wire.schemas import told as told_schema

MAX_TOKENS = 8192
"""How long a reply may get, where the options do not say: the API asks for a limit. Thinking comes on top."""

_HEADERS = {"anthropic-version": "2023-06-01", "anthropic-beta": BINDING_CONTROLS}
"""What requests are judged with before they are sent: whether a beta is asked for is between the caller and the provider."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.decode


def compile_request(
    request: Request, options: Options, origin: str, *, stream: bool, reasoning: bool = True, enforce: bool = True
) -> Compiled:
    """The request as bytes. `reasoning=False`: without any, after a refusal; `enforce=False`: a typed output is told, not enforced."""
    losses: list[str] = []
    frame = _frame(request, options, enforce)
    talk = Talk(digest_bytes(_encode(frame)).encode(), _stand_in())
    for text in (*request.frame.messages, summary(request.summary) if request.summary else ""):
        if text.strip():
            talk.add(_section("user", [{"type": "text", "text": text}]))
    replay = Replay(request.groups, origin, options.model, options.replay_reasoning, reasoning)
    own = groups_with_own_ids(request.groups)
    complaints: list[Complaint] = []
    sent = False
    for group in request.groups:
        is_own = group.position in own
        withheld, verbatim = replay.of(group, talk.before_a_reply(), is_own) if group.fact else ("", False)
        fragment = _fragment(group, withheld, verbatim, is_own, request.contents)
        for section in fragment.sections:
            talk.add(section)
        losses += fragment.losses
        complaints += fragment.complaints
        sent = sent or fragment.thinks
    talk.let_the_user_speak()
    settings = _settings(request, options, stream, enforce, talk.open_loop, losses)
    head = _encode(frame | settings)
    return Compiled(
        head[:-1] + b',"messages":[' + talk.body() + b"]}",
        by_wire_name(tool.name for tool in request.frame.tools),
        sequence=told(talk.before_a_reply(), bare=not reasoning),
        reasoning=sent,
        losses=_news(losses, request),
        complaints=(*_judged_head(head), *complaints),
    )


def judged_options(options: Options) -> tuple[Complaint, ...]:
    """What the law book says of options, whatever they are used for."""
    body = {"system": "?", **_plain_settings(options, False), **_thinking(options, "", []), **options.extra}
    return _judged_head(_encode({name: value for name, value in body.items() if value is not None}))


def _news(losses: list[str], request: Request) -> tuple[str, ...]:
    """Each loss once; what a reply in the view has told is known."""
    known = {loss for group in request.groups if group.fact for loss in group.fact.losses}
    return tuple(loss for loss in dict.fromkeys(losses) if loss not in known)


# -- everything but the messages ---------------------------------------------------------------------------------------


def _frame(request: Request, options: Options, enforce: bool) -> dict[str, Any]:
    """What thinking is bound to besides the messages: `system` and `tools`."""
    output = request.frame.output
    asked = told_schema(output) if output and not (enforce and enforced(output)) else ""
    system = "\n\n".join(filter(None, (request.frame.instructions, asked)))
    tools: list[Any] = [
        {"name": wire_name(tool.name), "description": tool.description, "input_schema": _schema(tool.parameters)}
        for tool in request.frame.tools
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


def _settings(request: Request, options: Options, stream: bool, enforce: bool, loop: str, losses: list[str]) -> dict[str, Any]:
    format = enforced(request.frame.output) if request.frame.output and enforce else None
    config = {
        "effort": _effort(options),
        "format": {"type": "json_schema", "schema": format} if format else None,
        **(options.extra.get("output_config") or {}),
    }
    choice = _choice(request, options, losses)
    thinking = _thinking(options, _reason_not_to_think(loop, choice), losses, request.agent)
    body = {
        **_plain_settings(options, stream),
        **thinking,
        "tool_choice": choice,
        **options.extra,
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


def _choice(request: Request, options: Options, losses: list[str]) -> dict[str, Any] | None:
    names = [wire_name(tool.name) for tool in request.frame.tools]
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
            losses.append(f"tool_choice of {request.agent}: it has no tool {name!r}")
            return None


@lru_cache(maxsize=256)
def _judged_head(head: bytes) -> tuple[Complaint, ...]:
    """What the law book says of everything but the messages. A frame is judged once."""
    return tuple(judge({**_decode(head), "messages": [{"role": "user", "content": "?"}]}, _HEADERS))


# -- the messages ------------------------------------------------------------------------------------------------------


class Written(msgspec.Struct, frozen=True):
    """A group as it is sent; what of it could not be; what is wrong with it; and whether it has thinking."""

    sections: tuple[Section, ...]
    losses: tuple[str, ...]
    complaints: tuple[Complaint, ...]
    thinks: bool


def _fragment(group: Group, withheld: str, verbatim: bool, own: bool, contents: Mapping[str, bytes]) -> Written:
    key = f"anthropic {verbatim:d}{own:d} {withheld}"
    found: Written | None = group.wire.get(key)
    if found is None:
        found = group.wire[key] = _written(group, withheld, verbatim, own, contents)
    return found


def _written(group: Group, withheld: str, verbatim: bool, own: bool, contents: Mapping[str, bytes]) -> Written:
    said: list[Block] = []
    heard: list[Block] = []
    losses: list[str] = []
    for entry in group.entries:
        if isinstance(entry, AssistantEntry):
            said += reply_blocks(entry.items, entry.agent, entry.position, losses, withheld=withheld, verbatim=verbatim, own=own)
        elif isinstance(entry, OutputEntry):
            heard.append(result_block(entry, own, contents, losses))
        else:
            heard += said_blocks(entry.content, contents, losses)
    sections = tuple(_section(role, blocks) for role, blocks in (("assistant", said), ("user", heard)) if blocks)
    thinks = any(_type(block) in KINDS for block in said)
    return Written(sections, tuple(losses), _judged(sections), thinks)


def _section(role: str, blocks: list[Block]) -> Section:
    body = b",".join(map(_encode, blocks))
    return Section(role, body, _type(blocks[0]), digest_bytes(role.encode() + b" " + body).encode())


def _type(block: Block | msgspec.Raw) -> str:
    """A block's type. One that only the provider writes is kept as it wrote it: nobody here asks what it is."""
    return str(block["type"]) if isinstance(block, dict) else "another"


def _judged(sections: tuple[Section, ...]) -> tuple[Complaint, ...]:
    """What the law book says of a group by itself."""
    messages = [{"role": section.role, "content": _decode(b"[" + section.body + b"]")} for section in sections]
    if not messages:
        return ()
    ending = [{"role": "user", "content": "?"}] if messages[-1]["role"] == "assistant" else []
    return tuple(judge({"model": "any", "max_tokens": 1, "messages": [*messages, *ending]}, _HEADERS))


@lru_cache(maxsize=1)
def _stand_in() -> Section:
    return _section("user", [{"type": "text", "text": STAND_IN}])
