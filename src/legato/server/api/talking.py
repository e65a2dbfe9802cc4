"""What is given to a conversation, and what happens in it. May know: sessions. Decides: how what was sent is given to a session."""

from __future__ import annotations

from typing import Any

from legato.core.messages import file, image
from legato.core.pending_requests import Pending
from legato.engines.contract import Submitted
from legato.errors import BadInput
from legato.inspection.hiding import unhidden
from legato.inspection.listing import Detail
from legato.runtime.event_cursor import cursor_after
from legato.runtime.session import Session
from legato.server.api.looking import detail
from legato.server.api.shapes import (
    SESSION,
    AnswerBody,
    BeginBody,
    CancelBody,
    EventsQuery,
    FilePart,
    ImagePart,
    Rests,
    SayBody,
    Taken,
    TextPart,
)
from legato.server.api.table import Asked, Endpoint, Nothing
from legato.server.attachments import decode_attachment
from legato.server.limits import one_more_stream
from legato.server.naming import find_request, request_named
from legato.server.streams import Stream
from legato.sse import EventStream


async def begin(asked: Asked[Nothing, BeginBody]) -> Detail:
    """Begin a session, and say something in it."""
    body = asked.body
    if body.key and not body.id:
        raise BadInput("a key tells deliveries to one session apart", do='add the "id" that the session is to have')
    session = asked.serving.begin(body.workflow, body.id)
    await session.open(_message(body.message) if body.message is not None else None, body.key or None)
    return await detail(asked.serving, await asked.serving.session(session.id))


async def say(asked: Asked[Nothing, SayBody]) -> Taken:
    """Say something."""
    session = await _drivable(asked)
    await session.say(_message(asked.body.message), asked.body.key or None)
    return Taken(session.state.length, session.status)


async def resume(asked: Asked[Nothing, Nothing]) -> Rests:
    """Go on with what is owed: after a failure, or after it was set aside because the workflow's own code raised."""
    session = await _drivable(asked)
    await asked.serving.retry(session)
    return Rests(session.status)


async def cancel(asked: Asked[Nothing, CancelBody]) -> Rests:
    """Stop what the conversation is doing."""
    session = await _drivable(asked)
    await session.cancel(asked.body.words)
    return Rests((await session.refresh()).status)


async def decide(asked: Asked[Nothing, AnswerBody]) -> Rests:
    """Answer a request. One that is not pending, or not with these arguments, is refused, and nothing is changed."""
    session, body = await _drivable(asked), asked.body
    found = find_request(session, body.request, body.key)
    if found is not None and found.call is not None and not body.digest:
        raise BadInput("say which arguments you looked at", expected='the "digest" of the request', do="nothing was changed")
    # What is looked for is the id and the digest. That it is pending, and was when it was delivered before, is for the ledger to say.
    meant = request_named(body.request, body.digest)
    key = body.key or None
    match body.verdict:
        case "approve":
            await session.approve(meant, always=body.always, key=key)
        case "reject":
            await session.reject(meant, body.words, key=key)
        case "edit":
            await session.edit(meant, _edited(session, found, body), key=key)
        case "answer":
            await session.answer(meant, body.value, key=key)
    return Rests((await session.refresh()).status)


def _edited(session: Session, found: Pending | None, body: AnswerBody) -> dict[str, Any]:
    """The arguments to run with. A secret one that was left as it was shown keeps the value that is recorded."""
    if body.arguments is None:
        raise BadInput("an edit needs arguments", expected='"arguments": {...}', do="nothing was changed")
    return unhidden(session, found, body.arguments) if found is not None else body.arguments


async def events(asked: Asked[EventsQuery, Nothing]) -> Stream:
    """What happens in the conversation, from the beginning or after an event, as server-sent events."""
    last = asked.request.headers.get("last-event-id") or asked.query.after
    cursor_after(last or None)
    one_more_stream(asked.request.scope)
    return Stream(EventStream(await asked.serving.session(asked.id), asked.query.after), asked.serving.closing)


async def _drivable(asked: Asked[Any, Any]) -> Submitted:
    return asked.serving.drivable(await asked.serving.session(asked.id))


def _message(given: str | list[TextPart | ImagePart | FilePart]) -> Any:
    if isinstance(given, str):
        return given
    return [_part(part) for part in given]


def _part(part: TextPart | ImagePart | FilePart) -> Any:
    if isinstance(part, TextPart):
        return part.text
    content = decode_attachment(part.base64)
    if isinstance(part, ImagePart):
        return image(content, part.media_type)
    return file(content, part.name, part.media_type)


EVENTS = {
    "type": "string",
    "description": "Server-sent events. `data` is JSON: `type`, `position` and `data`; `id` is the cursor to go on after.",
}
ENDPOINTS = [
    Endpoint("POST", "/api/sessions", begin, "Begin a session", body=BeginBody, gives=Detail, status=201),
    Endpoint("POST", f"{SESSION}/messages", say, "Say something", body=SayBody, gives=Taken, status=202),
    Endpoint("POST", f"{SESSION}/resume", resume, "Go on with what is owed", body=Nothing, gives=Rests, status=202),
    Endpoint("POST", f"{SESSION}/cancel", cancel, "Stop what the conversation is doing", body=CancelBody, gives=Rests),
    Endpoint("POST", f"{SESSION}/answers", decide, "Answer a request", body=AnswerBody, gives=Rests),
    Endpoint(
        "GET",
        f"{SESSION}/events",
        events,
        "What happens, as it happens",
        query=EventsQuery,
        as_type=("text/event-stream",),
        shape=EVENTS,
        also=(204,),
    ),
]
