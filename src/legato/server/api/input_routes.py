"""Routes that create sessions, send messages, answer requests and stream events."""

from __future__ import annotations

from typing import Any

from legato.core.messages import file, image
from legato.core.pending_requests import Pending
from legato.engines.engine import EngineSession
from legato.errors import BadInput
from legato.inspection.secret_masks import restore_secrets
from legato.inspection.session_summaries import SessionDetail
from legato.runtime.event_cursor import parse_cursor
from legato.runtime.session import Session
from legato.server.api.api_types import (
    SESSION_PATH,
    AnswerBody,
    CancelBody,
    EventsQuery,
    FilePart,
    ImagePart,
    MessageAccepted,
    MessageBody,
    NewSessionBody,
    SessionStatus,
    TextPart,
)
from legato.server.api.endpoints import ApiRequest, Endpoint, NoFields
from legato.server.api.session_routes import describe_session
from legato.server.attachments import decode_attachment
from legato.server.protocol_ids import find_request, make_request_reference
from legato.server.request_limits import count_stream
from legato.server.streaming_responses import ClosableResponse
from legato.sse import EventStream


async def create_session(request: ApiRequest[NoFields, NewSessionBody]) -> SessionDetail:
    """Create a session, with an optional first message."""
    body = request.body
    if body.key and not body.id:
        raise BadInput("a key needs a session id: it identifies one delivery to one session", do='add the "id" of the new session')
    session = request.registry.create_session(body.workflow, body.id)
    await session.open(_read_message(body.message) if body.message is not None else None, body.key or None)
    return await describe_session(request.registry, await request.registry.find_session(session.id))


async def send_message(request: ApiRequest[NoFields, MessageBody]) -> MessageAccepted:
    """Send a message."""
    session = await _find_drivable(request)
    await session.say(_read_message(request.body.message), request.body.key or None)
    return MessageAccepted(session.state.length, session.status)


async def resume_session(request: ApiRequest[NoFields, NoFields]) -> SessionStatus:
    """Resume pending work: after a model failure, or after the session was set aside because the workflow's own code raised."""
    session = await _find_drivable(request)
    await request.registry.retry_session(session)
    return SessionStatus(session.status)


async def cancel_session(request: ApiRequest[NoFields, CancelBody]) -> SessionStatus:
    """Cancel the work that is in progress."""
    session = await _find_drivable(request)
    await session.cancel(request.body.words)
    return SessionStatus((await session.refresh()).status)


async def answer_request(request: ApiRequest[NoFields, AnswerBody]) -> SessionStatus:
    """Answer a pending request. Nothing changes if it is not pending, or not with the arguments of this digest."""
    session, body = await _find_drivable(request), request.body
    pending = find_request(session, body.request, body.key)
    if pending is not None and pending.call is not None and not body.digest:
        raise BadInput(
            "an answer about a call needs the digest of its arguments", expected='the "digest" of the request', do="nothing was changed"
        )
    # Only the ledger decides whether this id and digest are pending, or were when the same key was delivered before.
    reference = make_request_reference(body.request, body.digest)
    key = body.key or None
    match body.verdict:
        case "approve":
            await session.approve(reference, always=body.always, key=key)
        case "reject":
            await session.reject(reference, body.words, key=key)
        case "edit":
            await session.edit(reference, _edited_arguments(session, pending, body), key=key)
        case "answer":
            await session.answer(reference, body.value, key=key)
    return SessionStatus((await session.refresh()).status)


def _edited_arguments(session: Session, pending: Pending | None, body: AnswerBody) -> dict[str, Any]:
    """Return the arguments to run with. A secret argument whose digest was sent back unchanged keeps its recorded value."""
    if body.arguments is None:
        raise BadInput("an edit needs arguments", expected='"arguments": {...}', do="nothing was changed")
    return restore_secrets(session, pending, body.arguments) if pending is not None else body.arguments


async def stream_events(request: ApiRequest[EventsQuery, NoFields]) -> ClosableResponse:
    """Stream the session's events as server-sent events, from the beginning or after a cursor."""
    last = request.http_request.headers.get("last-event-id") or request.query.after
    parse_cursor(last or None)
    count_stream(request.http_request.scope)
    return ClosableResponse(
        EventStream(await request.registry.find_session(request.session_id), request.query.after), request.registry.closing
    )


async def _find_drivable(request: ApiRequest[Any, Any]) -> EngineSession:
    return request.registry.require_drivable(await request.registry.find_session(request.session_id))


def _read_message(message: str | list[TextPart | ImagePart | FilePart]) -> Any:
    if isinstance(message, str):
        return message
    return [_read_part(part) for part in message]


def _read_part(part: TextPart | ImagePart | FilePart) -> Any:
    if isinstance(part, TextPart):
        return part.text
    content = decode_attachment(part.base64)
    if isinstance(part, ImagePart):
        return image(content, part.media_type)
    return file(content, part.name, part.media_type)


EVENT_STREAM_SCHEMA = {
    "type": "string",
    "description": "Server-sent events. `data` is JSON: `type`, `position` and `data`; `id` is the cursor to resume after.",
}
ENDPOINTS = [
    Endpoint("POST", "/api/sessions", create_session, "Create a session", body=NewSessionBody, response_type=SessionDetail, status=201),
    Endpoint(
        "POST", f"{SESSION_PATH}/messages", send_message, "Send a message", body=MessageBody, response_type=MessageAccepted, status=202
    ),
    Endpoint(
        "POST", f"{SESSION_PATH}/resume", resume_session, "Resume pending work", body=NoFields, response_type=SessionStatus, status=202
    ),
    Endpoint("POST", f"{SESSION_PATH}/cancel", cancel_session, "Cancel the work in progress", body=CancelBody, response_type=SessionStatus),
    Endpoint("POST", f"{SESSION_PATH}/answers", answer_request, "Answer a pending request", body=AnswerBody, response_type=SessionStatus),
    Endpoint(
        "GET",
        f"{SESSION_PATH}/events",
        stream_events,
        "Stream the events",
        query=EventsQuery,
        media_types=("text/event-stream",),
        response_schema=EVENT_STREAM_SCHEMA,
        other_statuses=(204,),
    ),
]
