"""AG-UI over the served workflows: the routes, and the course of a run.

A thread is a session. Of the messages that a client sends, only new ones of the user are sent to the session; the ledger has the rest.
`ids.py` makes ids, `event_encoder.py` encodes events, `interrupts.py` handles pending requests, and `conversation_messages.py` builds the
whole conversation.
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
from legato.core.planner import find_active_agent
from legato.engines.engine import EngineSession
from legato.errors import BadInput, LegatoError, UnknownLedger
from legato.runtime.session import Session
from legato.server.agui.conversation_messages import build_messages
from legato.server.agui.event_encoder import RunEventEncoder
from legato.server.agui.ids import is_message_recorded
from legato.server.agui.interrupts import apply_resume
from legato.server.api.endpoints import make_route, read_json_body
from legato.server.attachments import decode_attachment
from legato.server.http_errors import RequestRefused, error_to_dict, mask_unexpected_error
from legato.server.moments import moments
from legato.server.session_registry import SessionRegistry
from legato.server.streaming_responses import EventStreamResponse

MAX_ID_CHARS = 300
SNAPSHOT_ROLES = ("user", "assistant", "tool")
"""The roles of messages in a snapshot. Messages with other roles are the client's own, and stay as they are."""


def make_routes(registry: SessionRegistry) -> list[Route]:
    """Return the routes: `/agui` if one workflow is served, and `/agui/NAME` for any of several."""

    async def run_agent(request: Request) -> ASGIApp:
        run_input = await _read_input(request)
        name = _find_workflow(registry, unquote(request.path_params.get("name", "")))
        return EventStreamResponse(_encode_events(registry, name, run_input), registry.closing, {})

    return [make_route("POST", path, run_agent) for path in ("/agui", "/agui/{name}")]


async def _read_input(request: Request) -> RunAgentInput:
    try:
        body = await read_json_body(request, dict[str, Any])
        run_input = RunAgentInput.model_validate(body)
    except msgspec.ValidationError as error:
        raise BadInput(f"the body is not a valid RunAgentInput: {error}", expected="AG-UI's RunAgentInput") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"the body is not a valid RunAgentInput: {where}: {first['msg']}", expected="AG-UI's RunAgentInput") from None
    if any(not each.id or len(each.id) > MAX_ID_CHARS for each in run_input.messages) or not 0 < len(run_input.run_id) <= MAX_ID_CHARS:
        raise BadInput(f"an id must have 1 to {MAX_ID_CHARS} characters")
    return run_input


def _find_workflow(registry: SessionRegistry, name: str) -> str:
    if name and name not in registry.workflows:
        raise RequestRefused(404, "not_found", f"workflow {name[:100]!r} is not served here", expected=", ".join(registry.workflows))
    if not name and len(registry.workflows) > 1:
        raise RequestRefused(
            404, "not_found", "several workflows are served here", do="post to /agui/NAME", expected=", ".join(registry.workflows)
        )
    return name or next(iter(registry.workflows))


async def _encode_events(registry: SessionRegistry, workflow: str, run_input: RunAgentInput) -> AsyncGenerator[bytes, None]:
    encoder = EventEncoder()
    async with aclosing(_run_with_errors(registry, workflow, run_input)) as events:
        async for event in events:
            yield encoder.encode(event).encode()


async def _run_with_errors(registry: SessionRegistry, workflow: str, run_input: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
    """Yield the events of a run, and an error event if it fails."""
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id, protocol_version=PROTOCOL_VERSION)
    try:
        async with aclosing(_run(registry, workflow, run_input)) as events:
            async for event in events:
                yield event
    except Exception as error:
        refusal = error if isinstance(error, LegatoError) else mask_unexpected_error(error)
        fields = error_to_dict(refusal)
        yield RunErrorEvent(message=". ".join(fields[name] for name in ("message", "do") if name in fields), code=refusal.code)


async def _run(registry: SessionRegistry, workflow: str, run_input: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
    if run_input.tools:
        raise BadInput("workflows have their own tools, and do not call a client's over AG-UI", do="send no tools")
    session = await _find_or_create_session(registry, workflow, run_input.thread_id)
    first_position = session.state.length
    new_messages = [
        each for each in run_input.messages if isinstance(each, UserMessage) and not is_message_recorded(session.state, each.id)
    ]
    for name in ("context", "forwarded_props"):
        if getattr(run_input, name):
            yield CustomEvent(name="legato.ignored", value=name)
    is_retry = bool(session.state.facts) and session.status == "failed" and not new_messages and not run_input.resume
    not_pending = await apply_resume(session, run_input.resume or [])
    for each in new_messages:
        await session.say(_read_parts(each), each.id)
    for id in not_pending:
        yield CustomEvent(name="legato.not_pending", value=id)
    async with aclosing(_stream_events(session, run_input, first_position, new_messages, is_retry)) as events:
        async for event in events:
            yield event


async def _stream_events(
    session: EngineSession, run_input: RunAgentInput, first_position: int, new_messages: list[UserMessage], is_retry: bool
) -> AsyncGenerator[BaseEvent, None]:
    """Yield the events from a position on. `new_messages` were sent since. `is_retry`: the last run failed and is tried again."""
    state = session.state
    encoder = RunEventEncoder(session, run_input.run_id, first_position, run_input.messages)
    if not state.facts:
        for event in encoder.encode_empty_run():
            yield event
        return
    recorded_messages = build_messages(state, session.workflow.definition.graph, first_position)
    if _message_ids(run_input.messages, new_messages) != _message_ids(recorded_messages):
        yield encoder.make_snapshot(first_position, new_messages)
    yield _make_state_snapshot(session, run_input)
    min_length = state.length
    if is_retry:
        min_length += 1
        await session.wake()
    async with aclosing(moments(session, first_position, min_length)) as stream:
        async for moment in stream:
            for event in encoder.encode(moment):
                if event.type in ("RUN_FINISHED", "RUN_ERROR"):
                    yield _make_state_snapshot(session, run_input)
                yield event


async def _find_or_create_session(registry: SessionRegistry, workflow: str, id: str) -> EngineSession:
    try:
        session = await registry.find_session(id)
    except UnknownLedger:
        return registry.require_drivable(await registry.create_session(workflow, id).refresh())
    if session.state.workflow != workflow:
        raise BadInput(f"thread {id!r} belongs to workflow {session.state.workflow!r}, not to {workflow!r}", do="use another thread id")
    return registry.require_drivable(session)


def _message_ids(messages: list[Message], excluded: list[UserMessage] | None = None) -> list[str]:
    excluded_ids = {each.id for each in excluded or []}
    return [each.id for each in messages if each.role in SNAPSHOT_ROLES and each.id not in excluded_ids]


def _make_state_snapshot(session: Session, run_input: RunAgentInput) -> StateSnapshotEvent:
    """Return the client's state, with the state of the session added as `legato`."""
    graph = session.workflow.definition.graph
    session_state = {"workflow": graph.name, "agent": find_active_agent(session.state, graph), "status": session.status}
    return StateSnapshotEvent(snapshot={**(run_input.state if isinstance(run_input.state, dict) else {}), "legato": session_state})


def _read_parts(message: UserMessage) -> Any:
    if isinstance(message.content, str):
        return message.content
    return [_read_part(part) for part in message.content]


def _read_part(part: Any) -> Any:
    if isinstance(part, TextPart):
        return part.text
    if not isinstance(part, (ImagePart, DocumentPart)):
        raise BadInput(f"a message cannot have a part of type {part.type!r}", expected="text, an image or a document")
    source = part.source
    if isinstance(source, UrlSource):
        if not source.value.startswith(("https://", "http://")):
            raise BadInput("a URL must begin with https:// or http://", found=repr(source.value)[:80])
        return image(source.value) if isinstance(part, ImagePart) else file(source.value)
    if not isinstance(source, DataSource):
        raise BadInput("file ids of providers are unknown here", do="send the bytes, or a URL")
    content = decode_attachment(source.value)
    if isinstance(part, DocumentPart):
        return file(content, media_type=source.mime_type)
    if not source.mime_type.startswith("image/"):
        raise BadInput("this is not an image type", found=source.mime_type[:80])
    return image(content, source.mime_type)
