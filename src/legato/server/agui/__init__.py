"""Served workflows behind AG-UI, so that its front ends can talk to them. May know: HTTP, and the protocol. Decides: what a run does.

A thread is a session. Of the messages that a client sends, those are said that the ledger does not have; everything else the ledger has
better. `names.py` says what things are called, `writing.py` what a run looks like, `asking.py` how questions are put and answered,
`snapshot.py` what the whole conversation is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import unquote

import msgspec
from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    CustomEvent,
    DataSource,
    DocumentPart,
    ImagePart,
    Message,
    RunAgentInput,
    RunErrorEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    TextPart,
    UrlSource,
    UserMessage,
)
from ag_ui.encoder import EventEncoder
from pydantic import ValidationError
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from legato.core.messages import file, image
from legato.core.planner import in_control
from legato.engines.contract import Submitted
from legato.errors import BadInput, LegatoError, UnknownLedger
from legato.runtime.session import Session
from legato.server.agui.asking import resumed
from legato.server.agui.names import is_said
from legato.server.agui.snapshot import messages_before
from legato.server.agui.writing import Writer
from legato.server.answering import Refused, plain, unexpected
from legato.server.api.table import read_body, route_to
from legato.server.attachments import decode_attachment
from legato.server.serving import Serving
from legato.server.streams import Lines
from legato.server.telling import moments

LONGEST_ID = 300
OF_THE_CONVERSATION = ("user", "assistant", "tool")
"""The roles of messages that a snapshot has. Others are the client's own, and stay as they are."""


def routes(serving: Serving) -> list[Route]:
    """`/agui` for the workflow that is served, and `/agui/NAME` where there are several."""

    async def answer_request(request: Request) -> ASGIApp:
        asked = await _read(request)
        name = _workflow(serving, unquote(request.path_params.get("name", "")))
        return Lines(_lines(serving, name, asked), serving.closing, {})

    return [route_to("POST", path, answer_request) for path in ("/agui", "/agui/{name}")]


async def _read(request: Request) -> RunAgentInput:
    try:
        body = await read_body(request, dict[str, Any])
        asked = RunAgentInput.model_validate(body)
    except msgspec.ValidationError as error:
        raise BadInput(f"this is no RunAgentInput: {error}", expected="AG-UI's RunAgentInput") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"this is no RunAgentInput: {where}: {first['msg']}", expected="AG-UI's RunAgentInput") from None
    if any(not each.id or len(each.id) > LONGEST_ID for each in asked.messages) or not 0 < len(asked.run_id) <= LONGEST_ID:
        raise BadInput(f"an id is 1 to {LONGEST_ID} characters")
    return asked


def _workflow(serving: Serving, name: str) -> str:
    if name and name not in serving.workflows:
        raise Refused(404, "not_found", f"workflow {name[:100]!r} is not served here", expected=", ".join(serving.workflows))
    if not name and len(serving.workflows) > 1:
        raise Refused(404, "not_found", "several workflows are served here", do="post to /agui/NAME", expected=", ".join(serving.workflows))
    return name or next(iter(serving.workflows))


async def _lines(serving: Serving, workflow: str, asked: RunAgentInput) -> AsyncGenerator[bytes, None]:
    encoder = EventEncoder()
    async with aclosing(_events(serving, workflow, asked)) as events:
        async for event in events:
            yield encoder.encode(event).encode()


async def _events(serving: Serving, workflow: str, asked: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
    """A run; and, if something goes wrong, what did."""
    yield RunStartedEvent(thread_id=asked.thread_id, run_id=asked.run_id, protocol_version=PROTOCOL_VERSION)
    try:
        async with aclosing(_run(serving, workflow, asked)) as events:
            async for event in events:
                yield event
    except Exception as error:
        refusal = error if isinstance(error, LegatoError) else unexpected(error)
        told = plain(refusal)
        yield RunErrorEvent(message=". ".join(told[name] for name in ("message", "do") if name in told), code=refusal.code)


async def _run(serving: Serving, workflow: str, asked: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
    if asked.tools:
        raise BadInput("a workflow has its own tools: those of a client are not run", do="send no tools")
    session = await _session(serving, workflow, asked.thread_id)
    since = session.state.length
    new = [each for each in asked.messages if isinstance(each, UserMessage) and not is_said(session.state, each.id)]
    for name in ("context", "forwarded_props"):
        if getattr(asked, name):
            yield CustomEvent(name="legato.ignored", value=name)
    retried = bool(session.state.facts) and session.status == "failed" and not new and not asked.resume
    too_late = await resumed(session, asked.resume or [])
    for each in new:
        await session.say(_parts(each), each.id)
    for id in too_late:
        yield CustomEvent(name="legato.not_pending", value=id)
    async with aclosing(_tell(session, asked, since, new, retried)) as events:
        async for event in events:
            yield event


async def _tell(
    session: Submitted, asked: RunAgentInput, since: int, new: list[UserMessage], retried: bool
) -> AsyncGenerator[BaseEvent, None]:
    """What happens after the first `since` facts. `new`: what was said since. `retried`: the run had failed, and is tried again."""
    state = session.state
    writer = Writer(session, asked.run_id, since, asked.messages)
    if not state.facts:
        for event in writer.nothing():
            yield event
        return
    if _ids(asked.messages, new) != _ids(messages_before(state, session.workflow.definition.graph, since)):
        yield writer.snapshot(since, new)
    yield _state_of(session, asked)
    until = state.length
    if retried:
        until += 1
        await session.wake()  # who runs it again wants it tried again
    async with aclosing(moments(session, since, until)) as told:
        async for moment in told:
            for event in writer.told(moment):
                if event.type in ("RUN_FINISHED", "RUN_ERROR"):
                    yield _state_of(session, asked)
                yield event


async def _session(serving: Serving, workflow: str, id: str) -> Submitted:
    try:
        session = await serving.session(id)
    except UnknownLedger:
        return serving.drivable(await serving.begin(workflow, id).refresh())
    if session.state.workflow != workflow:
        raise BadInput(f"thread {id!r} belongs to workflow {session.state.workflow!r}, not to {workflow!r}", do="begin another thread")
    return serving.drivable(session)


def _ids(messages: list[Message], without: list[UserMessage] | None = None) -> list[str]:
    new = {each.id for each in without or []}
    return [each.id for each in messages if each.role in OF_THE_CONVERSATION and each.id not in new]


def _state_of(session: Session, asked: RunAgentInput) -> StateSnapshotEvent:
    """Where the session is, beside whatever state the client has."""
    graph = session.workflow.definition.graph
    told = {"workflow": graph.name, "agent": in_control(session.state, graph), "status": session.status}
    return StateSnapshotEvent(snapshot={**(asked.state if isinstance(asked.state, dict) else {}), "legato": told})


def _parts(message: UserMessage) -> Any:
    if isinstance(message.content, str):
        return message.content
    return [_part(part) for part in message.content]


def _part(part: Any) -> Any:
    if isinstance(part, TextPart):
        return part.text
    if not isinstance(part, (ImagePart, DocumentPart)):
        raise BadInput(f"{part.type!r} is no part that can be said", expected="text, an image or a document")
    source = part.source
    if isinstance(source, UrlSource):
        if not source.value.startswith(("https://", "http://")):
            raise BadInput("an address begins with https://", found=repr(source.value)[:80])
        return image(source.value) if isinstance(part, ImagePart) else file(source.value)
    if not isinstance(source, DataSource):
        raise BadInput("a handle of a provider's means nothing here", do="send the bytes, or an address")
    content = decode_attachment(source.value)
    if isinstance(part, DocumentPart):
        return file(content, media_type=source.mime_type)
    if not source.mime_type.startswith("image/"):
        raise BadInput("this is no picture", found=source.mime_type[:80])
    return image(content, source.mime_type)
