"""Routes that read, fork, export and delete sessions."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from legato.core.facts import AnyFact, CallReturned, Content, Decided, File, Image, MessageReceived
from legato.core.messages import to_parts
from legato.errors import BadInput, UnknownLedger
from legato.inspection import model_input_explanation, session_export
from legato.inspection.model_input_explanation import ModelInputExplanation
from legato.inspection.session_browser import Inbox, SessionPage
from legato.inspection.session_summaries import FactsPage, SessionDetail, build_facts_page, build_session_detail, summarize_requests
from legato.inspection.status_timeline import StatusTimeline, build_status_timeline
from legato.inspection.usage_report import UsageReport, build_usage_report
from legato.runtime.session import Session
from legato.server.api.api_types import (
    SESSION_PATH,
    DeleteResult,
    ExportQuery,
    FactsQuery,
    ForkBody,
    InboxQuery,
    ModelCalls,
    PendingRequestsPage,
    SessionsQuery,
)
from legato.server.api.endpoints import ApiRequest, Endpoint, NoFields
from legato.server.http_errors import RequestRefused
from legato.server.session_registry import SessionRegistry

INLINE_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Image types that browsers may show inline: they cannot carry scripts. Everything else is sent as a download."""

EXPORT_FORMATS = {
    "json": ("application/json", "json"),
    "markdown": ("text/markdown; charset=utf-8", "md"),
    "session": ("application/json", "session.json"),
}


async def list_sessions(request: ApiRequest[SessionsQuery, NoFields]) -> SessionPage:
    """List the sessions, the most recently updated first."""
    query = request.query
    return await request.registry.session_browser.page(
        search=query.search, status=query.status, workflow=query.workflow, limit=query.limit, after=query.after
    )


async def list_inbox(request: ApiRequest[InboxQuery, NoFields]) -> Inbox:
    """List the pending requests of all sessions."""
    return await request.registry.session_browser.inbox(limit=request.query.limit, after=request.query.after)


async def get_session(request: ApiRequest[NoFields, NoFields]) -> SessionDetail:
    """Return one session."""
    return await describe_session(request.registry, await request.registry.find_session(request.session_id))


async def describe_session(registry: SessionRegistry, session: Session) -> SessionDetail:
    """Describe a session. If the engine set it aside as a dead letter, `error` says why: the ledger does not know that."""
    detail = build_session_detail(session, is_served=registry.is_served(session), can_drive=registry.can_drive(session))
    dead_letter = await registry.find_dead_letter_error(session.id)
    if not dead_letter or detail.error:
        return detail
    return msgspec.structs.replace(detail, error=f"set aside until it is resumed: {dead_letter}")


async def delete_session(request: ApiRequest[NoFields, NoFields]) -> DeleteResult:
    """Delete a session. Facts that its forks share stay readable through the forks."""
    if not await request.registry.store.delete(request.session_id):
        raise UnknownLedger(f"there is no session {request.session_id!r}", do="look at the list of sessions")
    return DeleteResult(True)


async def list_facts(request: ApiRequest[FactsQuery, NoFields]) -> FactsPage:
    """List the facts of the ledger. Secret arguments are replaced by digests."""
    return build_facts_page(await request.registry.find_session(request.session_id), request.query.start, request.query.limit)


async def get_status_timeline(request: ApiRequest[NoFields, NoFields]) -> StatusTimeline:
    """Return the session's status after each of its facts."""
    return await build_status_timeline(await request.registry.find_session(request.session_id))


async def list_pending(request: ApiRequest[NoFields, NoFields]) -> PendingRequestsPage:
    """List the pending requests of a session."""
    return PendingRequestsPage(list(summarize_requests(await request.registry.find_session(request.session_id))))


async def get_usage(request: ApiRequest[NoFields, NoFields]) -> UsageReport:
    """Return the tokens and the cost of a session, by agent and by handoff."""
    return await build_usage_report(await request.registry.find_session(request.session_id))


async def list_model_requests(request: ApiRequest[NoFields, NoFields]) -> ModelCalls:
    """List the replies of the session's models, in order."""
    return ModelCalls(await model_input_explanation.summarize_replies(await request.registry.find_session(request.session_id)))


async def get_model_input(request: ApiRequest[NoFields, NoFields]) -> ModelInputExplanation:
    """Explain the model input of one reply: what the agent saw and why, the exact request, and the changes since the previous requests."""
    session, number = await request.registry.find_session(request.session_id), request.path_parameters["n"]
    if not number.isdecimal() or not number.isascii() or len(number) > 9 or int(number) >= session.state.reply_count:
        do = f"choose 0 to {session.state.reply_count - 1}" if session.state.reply_count else "no model has replied in it yet"
        raise RequestRefused(404, "unknown_call", f"session {request.session_id!r} has no reply with that number", do=do)
    return await model_input_explanation.explain_model_input(session, int(number))


async def fork_session(request: ApiRequest[NoFields, ForkBody]) -> SessionDetail:
    """Create a session that shares the first facts of another one."""
    session = await request.registry.find_session(request.session_id)
    return await describe_session(request.registry, await request.registry.fork_session(session, request.body.at, request.body.id))


async def export_session(request: ApiRequest[ExportQuery, NoFields]) -> Response:
    """Export a session as a file. The exact form contains secrets, so it must be confirmed with `exact=yes`."""
    session, form = await request.registry.find_session(request.session_id), request.query.form
    if form == "session" and request.query.exact != "yes":
        do = "or export it as json or markdown"
        raise BadInput("the exact session contains its secrets", expected="exact=yes, to confirm that they may be exported", do=do)
    match form:
        case "json":
            text = await session_export.export_json(session)
        case "markdown":
            text = await session_export.export_markdown(session)
        case _:
            text = await session.to_string()
    media_type, extension = EXPORT_FORMATS[form]
    return Response(text, headers={"content-disposition": _content_disposition(f"{request.session_id}.{extension}")}, media_type=media_type)


async def get_attachment(request: ApiRequest[NoFields, NoFields]) -> Response:
    """Return the bytes of an image or file of the conversation."""
    session, digest = await request.registry.find_session(request.session_id), request.path_parameters["digest"]
    part = next((part for fact in session.state.facts for part in _list_attachments(fact) if part.digest == digest), None)
    if part is None:
        do = "use the digest of an image or file in its messages"
        raise RequestRefused(404, "unknown_content", f"session {request.session_id!r} has no image or file with that digest", do=do)
    body = await session.store.content(session.id, digest)
    headers = {"content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'"}
    if isinstance(part, Image) and part.media_type in INLINE_IMAGE_TYPES:
        return Response(body, headers=headers, media_type=part.media_type)
    name = part.name if isinstance(part, File) and part.name else digest
    return Response(body, headers={**headers, "content-disposition": _content_disposition(name)}, media_type="application/octet-stream")


def _list_attachments(fact: AnyFact) -> Iterator[Image | File]:
    content: Content = ""
    match fact:
        case MessageReceived(content=received):
            content = received
        case CallReturned(output=output) | Decided(output=output):
            content = output
    if not isinstance(content, str):
        yield from (part for part in to_parts(content) if isinstance(part, (Image, File)) and part.digest)


def _content_disposition(name: str) -> str:
    """Encode a file name for the header, whatever characters a session id contains (RFC 6266)."""
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


EXPORT_MEDIA_TYPES = tuple(kind.partition(";")[0] for kind in dict.fromkeys(kind for kind, _ in EXPORT_FORMATS.values()))
ATTACHMENT_MEDIA_TYPES = (*INLINE_IMAGE_TYPES, "application/octet-stream")
ENDPOINTS = [
    Endpoint("GET", "/api/sessions", list_sessions, "List the sessions", query=SessionsQuery, response_type=SessionPage),
    Endpoint("GET", "/api/inbox", list_inbox, "List the pending requests of all sessions", query=InboxQuery, response_type=Inbox),
    Endpoint("GET", SESSION_PATH, get_session, "Read a session", response_type=SessionDetail),
    Endpoint("DELETE", SESSION_PATH, delete_session, "Delete a session", response_type=DeleteResult),
    Endpoint("GET", f"{SESSION_PATH}/facts", list_facts, "List the facts", query=FactsQuery, response_type=FactsPage),
    Endpoint(
        "GET",
        f"{SESSION_PATH}/course",
        get_status_timeline,
        "Read the status and the agent in control after every fact",
        response_type=StatusTimeline,
    ),
    Endpoint("GET", f"{SESSION_PATH}/pending", list_pending, "List the pending requests of a session", response_type=PendingRequestsPage),
    Endpoint("GET", f"{SESSION_PATH}/calls", list_model_requests, "List the replies of models", response_type=ModelCalls),
    Endpoint(
        "GET", f"{SESSION_PATH}/calls/{{n}}", get_model_input, "Explain the model input of a reply", response_type=ModelInputExplanation
    ),
    Endpoint("GET", f"{SESSION_PATH}/usage", get_usage, "Read tokens and cost, by agent and by handoff", response_type=UsageReport),
    Endpoint("POST", f"{SESSION_PATH}/fork", fork_session, "Fork a session", body=ForkBody, response_type=SessionDetail, status=201),
    Endpoint(
        "GET",
        f"{SESSION_PATH}/export",
        export_session,
        "Export a session",
        query=ExportQuery,
        media_types=EXPORT_MEDIA_TYPES,
        response_schema={},
    ),
    Endpoint(
        "GET",
        f"{SESSION_PATH}/contents/{{digest}}",
        get_attachment,
        "Read an image or file",
        media_types=ATTACHMENT_MEDIA_TYPES,
        response_schema={},
    ),
]
