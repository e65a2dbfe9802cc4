"""What is there. May know: sessions, and what of them may be shown. Decides: nothing about that; only how it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from legato.core.facts import AnyFact, CallReturned, Content, Decided, File, Image, MessageReceived
from legato.core.messages import parts_of
from legato.errors import BadInput, UnknownLedger
from legato.inspection import exporting, seen
from legato.inspection.browsing import Inbox, RowsPage
from legato.inspection.course import Course, course_of
from legato.inspection.listing import Detail, FactsPage, detail_of, facts_page, questions
from legato.inspection.seen import Seen
from legato.inspection.spending import Spending, spending
from legato.runtime.session import Session
from legato.server.answering import Refused
from legato.server.api.shapes import (
    SESSION,
    CallsShape,
    Deleted,
    ExportQuery,
    FactsQuery,
    ForkBody,
    InboxQuery,
    PendingShape,
    SessionsQuery,
)
from legato.server.api.table import Asked, Endpoint, Nothing
from legato.server.serving import Serving

SHOWN_AS_THEY_ARE = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Pictures in which nothing can be run. Everything else is a file to be kept."""

EXPORTS = {
    "json": ("application/json", "json"),
    "markdown": ("text/markdown; charset=utf-8", "md"),
    "session": ("application/json", "session.json"),
}


async def sessions(asked: Asked[SessionsQuery, Nothing]) -> RowsPage:
    """The sessions, the one that moved last first."""
    query = asked.query
    return await asked.serving.browsing.page(
        search=query.search, status=query.status, workflow=query.workflow, limit=query.limit, after=query.after
    )


async def inbox(asked: Asked[InboxQuery, Nothing]) -> Inbox:
    """What people are asked, across all sessions."""
    return await asked.serving.browsing.inbox(limit=asked.query.limit, after=asked.query.after)


async def session(asked: Asked[Nothing, Nothing]) -> Detail:
    """One session."""
    return await detail(asked.serving, await asked.serving.session(asked.id))


async def detail(serving: Serving, found: Session) -> Detail:
    """A session as its page shows it. Of one that was set aside, its error says why: its ledger does not know."""
    told = detail_of(found, served=serving.is_served(found), can_drive=serving.can_drive(found))
    aside = await serving.aside(found.id)
    return msgspec.structs.replace(told, error=f"set aside until it is resumed: {aside}") if aside and not told.error else told


async def delete(asked: Asked[Nothing, Nothing]) -> Deleted:
    """Delete a session. What its forks share with it stays readable through them."""
    if not await asked.serving.store.delete(asked.id):
        raise UnknownLedger(f"there is no session {asked.id!r}", do="look at the list of sessions")
    return Deleted(True)


async def facts(asked: Asked[FactsQuery, Nothing]) -> FactsPage:
    """The ledger, with digests in place of secrets."""
    return facts_page(await asked.serving.session(asked.id), asked.query.start, asked.query.limit)


async def course(asked: Asked[Nothing, Nothing]) -> Course:
    """How a session stood after each of its facts."""
    return await course_of(await asked.serving.session(asked.id))


async def pending(asked: Asked[Nothing, Nothing]) -> PendingShape:
    """What blocks a conversation."""
    return PendingShape(list(questions(await asked.serving.session(asked.id))))


async def usage(asked: Asked[Nothing, Nothing]) -> Spending:
    """What a session has used, by agent and by handoff."""
    return await spending(await asked.serving.session(asked.id))


async def calls(asked: Asked[Nothing, Nothing]) -> CallsShape:
    """Every reply of a model, in order."""
    return CallsShape(await seen.calls(await asked.serving.session(asked.id)))


async def call(asked: Asked[Nothing, Nothing]) -> Seen:
    """What an agent saw when it replied and why, the exact request, and what had changed since the call before and the agent before."""
    found, number = await asked.serving.session(asked.id), asked.path["n"]
    if not number.isdecimal() or not number.isascii() or len(number) > 9 or int(number) >= found.state.replies:
        do = f"choose 0 to {found.state.replies - 1}" if found.state.replies else "nothing was replied so far"
        raise Refused(404, "unknown_call", f"session {asked.id!r} has no reply of that number", do=do)
    return await seen.seen(found, int(number))


async def fork(asked: Asked[Nothing, ForkBody]) -> Detail:
    """Begin a session with the first facts of another."""
    found = await asked.serving.session(asked.id)
    return await detail(asked.serving, await asked.serving.fork(found, asked.body.at, asked.body.id))


async def export(asked: Asked[ExportQuery, Nothing]) -> Response:
    """A session as a file. Exactly as it is, which has its secrets, only for whoever says so twice."""
    found, how = await asked.serving.session(asked.id), asked.query.form
    if how == "session" and asked.query.exact != "yes":
        do = "or ask for json or markdown"
        raise BadInput("the exact session has its secrets", expected="exact=yes, if they are meant to leave", do=do)
    match how:
        case "json":
            text = await exporting.document(found)
        case "markdown":
            text = await exporting.page(found)
        case _:
            text = await found.to_string()
    kind, ending = EXPORTS[how]
    return Response(text, headers={"content-disposition": _attachment(f"{asked.id}.{ending}")}, media_type=kind)


async def content(asked: Asked[Nothing, Nothing]) -> Response:
    """The bytes of a picture or file that the conversation has."""
    found, digest = await asked.serving.session(asked.id), asked.path["digest"]
    part = next((part for fact in found.state.facts for part in _attached(fact) if part.digest == digest), None)
    if part is None:
        do = "see its messages for those it has"
        raise Refused(404, "unknown_content", f"session {asked.id!r} has no picture or file of that name", do=do)
    body = await found.store.content(found.id, digest)
    headers = {"content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'"}
    if isinstance(part, Image) and part.media_type in SHOWN_AS_THEY_ARE:
        return Response(body, headers=headers, media_type=part.media_type)
    name = part.name if isinstance(part, File) and part.name else digest
    return Response(body, headers={**headers, "content-disposition": _attachment(name)}, media_type="application/octet-stream")


def _attached(fact: AnyFact) -> Iterator[Image | File]:
    given: Content = ""
    match fact:
        case MessageReceived(content=content):
            given = content
        case CallReturned(output=output) | Decided(output=output):
            given = output
    yield from (part for part in parts_of(given) if isinstance(part, (Image, File)) and part.digest) if not isinstance(given, str) else ()


def _attachment(name: str) -> str:
    """How a file is named for whoever keeps it: whatever an id has in it, a header gets letters."""
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


FILES = tuple(kind.partition(";")[0] for kind in dict.fromkeys(kind for kind, _ in EXPORTS.values()))
PICTURES = (*SHOWN_AS_THEY_ARE, "application/octet-stream")
ENDPOINTS = [
    Endpoint("GET", "/api/sessions", sessions, "The sessions", query=SessionsQuery, gives=RowsPage),
    Endpoint("GET", "/api/inbox", inbox, "What people are asked, across sessions", query=InboxQuery, gives=Inbox),
    Endpoint("GET", SESSION, session, "One session", gives=Detail),
    Endpoint("DELETE", SESSION, delete, "Delete a session", gives=Deleted),
    Endpoint("GET", f"{SESSION}/facts", facts, "The ledger", query=FactsQuery, gives=FactsPage),
    Endpoint("GET", f"{SESSION}/course", course, "Status and agent in control as of every position", gives=Course),
    Endpoint("GET", f"{SESSION}/pending", pending, "What blocks a conversation", gives=PendingShape),
    Endpoint("GET", f"{SESSION}/calls", calls, "Every reply of a model", gives=CallsShape),
    Endpoint("GET", f"{SESSION}/calls/{{n}}", call, "What an agent saw when it replied", gives=Seen),
    Endpoint("GET", f"{SESSION}/usage", usage, "Tokens and cost, by agent and by handoff", gives=Spending),
    Endpoint("POST", f"{SESSION}/fork", fork, "Begin a session with the first facts of another", body=ForkBody, gives=Detail, status=201),
    Endpoint("GET", f"{SESSION}/export", export, "A session as a file", query=ExportQuery, as_type=FILES, shape={}),
    Endpoint("GET", f"{SESSION}/contents/{{digest}}", content, "The bytes of a picture or file", as_type=PICTURES, shape={}),
]
