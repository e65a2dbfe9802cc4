"""Input items as facts.

Items that a caller passes (a list given as input, the provider's items of an id) become the ledger's beginning by value, each once:
a user's message is said, adjacent assistant items are one reply, an output answers its call. Items that cannot be recorded unchanged are
refused before anything is written, with what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from legato.compat.agents.exceptions import UserError
from legato.compat.data_urls import read_data_url
from legato.core.digests import digest_arguments, digest_bytes
from legato.core.facts import (
    SOURCE_IMPORT,
    AgentPrompted,
    AnyFact,
    Call,
    Content,
    Decided,
    File,
    Image,
    MessageReceived,
    ModelReplied,
    Opened,
    Part,
    ReplyItem,
    Text,
)
from legato.core.messages import validate_text
from legato.core.planner import needs_input_check
from legato.core.state import State
from legato.core.turn_context import TurnContext, encode_turn_context
from legato.core.workflow_graph import WorkflowGraph
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.responses.decode import decode_reply
from legato.runtime.clock import new_id, now_ms
from legato.runtime.driver import check_agent_exists

IMPORTED_OPTIONS = "brought along"
"""The options of an imported turn context: no model has these, so the next turn gets a context of its own."""

GO_ON = "Go on."
"""The prompt of an agent that replies after a reply: there is no user's message, and not every provider takes a list that ends with one."""


@dataclass
class _Reply:
    items: tuple[ReplyItem, ...]


@dataclass
class _Result:
    call_id: str
    content: Content


@dataclass
class ImportedItems:
    """The turns of a list of items, in order, and the bytes of its images and files."""

    turns: list[Content | _Reply | _Result] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)


def read_items(items: str | Iterable[Any]) -> ImportedItems:
    """Read the items. `UserError` names the first item that cannot be used."""
    if isinstance(items, Mapping) or not isinstance(items, Iterable):
        raise UserError(f"the input is text or a list of items, not {type(items).__name__}")
    given = [{"role": "user", "content": items}] if isinstance(items, str) else [_plain(item) for item in items]
    if not given:
        raise UserError("the input is empty: say something, or pass a RunState to go on without a message")
    found = ImportedItems()
    reply: list[dict[str, Any]] = []

    def close() -> None:
        if reply:
            found.turns.append(_Reply(decode_reply({"output": [*reply]}, EncodedRequest(b"", {}), "").items))
            reply.clear()

    for index, item in enumerate(given):
        where = f"input[{index}]"
        kind, role = item.get("type", "message"), item.get("role")
        if kind == "message" and role == "assistant":
            reply.append(_assistant(item))
        elif kind == "message" and role == "user":
            close()
            found.turns.append(_content(item.get("content"), where, found.contents))
        elif kind == "message":
            raise UserError(f"{where} is a message of role {role!r}: put what it says into the agent's instructions")
        elif kind == "function_call_output":
            close()
            found.turns.append(_Result(str(item.get("call_id")), _content(item.get("output"), where, found.contents, empty=True)))
        elif kind == "item_reference":
            raise UserError(f"{where} only points at an item that the provider may hold: give the item itself")
        else:
            reply.append(item)
    close()
    _check(found)
    return found


def _plain(item: Any) -> dict[str, Any]:
    if hasattr(item, "model_dump"):
        item = item.model_dump(exclude_none=True)
    if not isinstance(item, Mapping):
        raise UserError(f"an input item is a dict, not {type(item).__name__}")
    return dict(item)


def _assistant(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    parts = [{"type": "output_text", "text": content}] if isinstance(content, str) else content
    return {**item, "type": "message", "content": parts}


def _content(content: Any, where: str, contents: dict[str, bytes], empty: bool = False) -> Content:
    if isinstance(content, str):
        return validate_text(content, "input", empty)
    if not isinstance(content, list):
        raise UserError(f"{where} has no content that can be read")
    parts = tuple(_part(part, where, contents) for part in content)
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else parts


def _part(part: Any, where: str, contents: dict[str, bytes]) -> Part:
    part = _plain(part)
    match part.get("type"):
        case "input_text" | "text" | "output_text":
            return Text(str(part.get("text", "")))
        case "input_image" if part.get("image_url"):
            media_type, digest = _bytes(part["image_url"], where, contents)
            return Image(media_type, digest=digest) if digest else Image(url=part["image_url"])
        case "input_file" if part.get("file_url"):
            return File(str(part.get("filename") or ""), url=part["file_url"])
        case "input_file" if part.get("file_data"):
            media_type, digest = _bytes(part["file_data"], where, contents)
            if digest:
                return File(str(part.get("filename") or ""), media_type, digest=digest)
    raise UserError(
        f"{where} has a part of type {part.get('type')!r} that cannot be kept by value: give text, an image_url, a file_url, or file_data "
        "as a data: address"
    )


def _bytes(address: str, where: str, contents: dict[str, bytes]) -> tuple[str, str]:
    """The type and digest of what a data: address holds; none of another."""
    try:
        found = read_data_url(address)
    except ValueError:
        raise UserError(f"{where} has a data: address whose bytes are not base64") from None
    if found is None:
        return "", ""
    media_type, body = found
    digest = digest_bytes(body)
    contents[digest] = body
    return media_type or "application/octet-stream", digest


def _check(found: ImportedItems) -> None:
    """Every call has one output, and every output a call."""
    open_calls: dict[str, str] = {}
    for turn in found.turns:
        if isinstance(turn, _Reply):
            if open_calls:
                break
            calls = [item for item in turn.items if isinstance(item, Call)]
            open_calls = {call.call_id: call.tool for call in calls}
            if len(open_calls) != len(calls):
                raise UserError(f"two calls of one reply have the id {calls[0].call_id!r}: give each an id of its own")
        elif isinstance(turn, _Result) and open_calls.pop(turn.call_id, None) is None:
            raise UserError(f"the input has an output for the call {turn.call_id!r}, and no such call that waits for one")
    if open_calls:
        waiting = ", ".join(f"{tool} ({id})" for id, tool in open_calls.items())
        raise UserError(
            f"the input has calls without outputs: {waiting}. Add a function_call_output for each; to go on with a run that waits for "
            "approval, pass its RunState instead of its items"
        )


def propose_facts(
    what: ImportedItems, agent: str, workflow: str, graph: WorkflowGraph, origin: str, run: bool
) -> Callable[[State], Iterator[AnyFact]]:
    """Return the items as facts for `Ledger.append`. `run`: a run begins with them, so something must be left to reply to."""
    frame, _ = encode_turn_context(TurnContext(agent=agent, options=IMPORTED_OPTIONS))

    def propose(state: State) -> Iterator[AnyFact]:
        if not state.facts:
            yield Opened(at=now_ms(), ledger_id=new_id(), workflow=workflow)
        # An earlier message of the list was judged, or not, when it was said: only what is new is.
        new = len(what.turns) if not run else next((i for i in range(len(what.turns), 0, -1) if not _is_user_message(what.turns[i - 1])), 0)
        for index, turn in enumerate(what.turns):
            if isinstance(turn, _Reply):
                yield _answered(turn, agent, frame, origin, state)
            elif isinstance(turn, _Result):
                yield _decided(turn, state)
            else:
                yield MessageReceived(at=now_ms(), content=turn, awaits_guardrails=index >= new and needs_input_check(state, graph))
        if run:
            if not (
                state.awaits_reply or state.unchecked_messages or state.batch
            ):  # it ends with a reply, and the agent is to speak nevertheless
                yield AgentPrompted(at=now_ms(), agent=agent, text=GO_ON)
            check_agent_exists(state, graph)

    return propose


def turn_context_contents(agent: str) -> dict[str, bytes]:
    """Return the turn context that imported replies are recorded with, by digest."""
    digest, data = encode_turn_context(TurnContext(agent=agent, options=IMPORTED_OPTIONS))
    return {digest: data}


def _is_user_message(turn: Content | _Reply | _Result) -> bool:
    return not isinstance(turn, (_Reply, _Result))


def _answered(turn: _Reply, agent: str, frame: str, origin: str, state: State) -> ModelReplied:
    if not state.awaits_reply:
        raise UserError("the input begins with words of the assistant: begin with a message of the user, or put them into the instructions")
    # Items do not tell which agent made an earlier reply; it must be in the name of the agent that has control.
    speaker = agent if state.is_new_run or not state.active_agent else state.active_agent
    return ModelReplied(at=now_ms(), agent=speaker, context_digest=frame, upto=state.length - 1, items=turn.items, origin=origin)


def _decided(turn: _Result, state: State) -> Decided:
    call = next((call for call in state.batch if call.call.call_id == turn.call_id and call.output is None), None)
    if call is None:
        raise UserError(f"the input has an output for the call {turn.call_id!r}, and no such call waits for one in this conversation")
    return Decided(
        at=now_ms(),
        kind="result",
        verdict="answer",
        call=call.ref,
        digest=digest_arguments(call.arguments),
        output=turn.content,
        source=SOURCE_IMPORT,
    )
