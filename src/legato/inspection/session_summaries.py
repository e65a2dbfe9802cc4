"""Summaries of sessions, pending requests and facts, as lists and pages show them.

The fields are stable: programs read them over HTTP and from `--json`. Everything is computed from what a session handle has already read;
nothing here reads a store or caches anything.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from legato.core.child_session_ids import find_root_session_id
from legato.core.facts import AnyFact, GuardrailJudged, Opened, TerminationJudged
from legato.core.pending_requests import Pending, Verdict
from legato.errors import LegatoError
from legato.inspection.secret_masks import decode_masked_arguments, find_secret_names, mask_facts
from legato.inspection.terminal_safe_text import truncate
from legato.inspection.usage_report import TokenUsage, to_token_usage
from legato.inspection.workflow_from_ledger import ALL_ARGUMENTS_SECRET
from legato.runtime.event_cursor import EventCursor, digest_ledger_id
from legato.runtime.session import Session
from legato.stores.contract import LedgerInfo

MAX_LAST_MESSAGE_CHARS = 200
"""Characters of the last message in a summary."""


class LastMessage(Struct, frozen=True):
    """The newest message."""

    author: str = ""
    text: str = ""


class SessionSummary(Struct, frozen=True, kw_only=True):
    """One session in a list.

    `parent` is the session that it was forked from, `within` the root session of a child session. `served`: its workflow is available, so
    more is known than the ledger says. `damaged`: why it cannot be read; then its status is "damaged" or "unreadable", and the other fields
    have only what the store's list says.
    """

    id: str
    workflow: str = ""
    status: str
    agent: str = ""
    facts: int
    updated: int
    parent: str = ""
    within: str = ""
    last: LastMessage = LastMessage()
    pending: int = 0
    served: bool = False
    error: str = ""
    damaged: str = ""


class ForkOrigin(Struct, frozen=True):
    """The session that a session's first facts come from; `at` is their number."""

    session: str
    at: int
    kind: str = "fork"


class RequestSummary(Struct, frozen=True, kw_only=True):
    """A pending request, as people see it.

    `arguments` and `prompt` have digests in place of secrets; `digest` is that of the exact arguments. `verdicts`: the possible answers.
    `schema`: the JSON schema of the arguments, for a form that edits them. `secrets`: the names of the secret arguments. `session`: the
    session that asks, which may be a child session. `for_client`: the tool is a client tool of the run, and the client supplies its result.
    """

    id: str
    kind: str
    prompt: str
    agent: str
    tool: str = ""
    arguments: Any = {}
    digest: str = ""
    session: str
    call: str = ""
    limit: str = ""
    verdicts: tuple[Verdict, ...]
    schema: Any = None
    secrets: tuple[str, ...] = ()
    for_client: bool = False


class SessionDetail(Struct, frozen=True, kw_only=True):
    """One session: its summary, with the pending requests in place of their number, and more."""

    id: str
    workflow: str
    status: str
    agent: str
    facts: int
    updated: int
    opened: int
    parent: str
    within: str
    origin: ForkOrigin | None
    last: LastMessage
    pending: tuple[RequestSummary, ...]
    served: bool
    can_drive: bool
    error: str
    damaged: str
    usage: TokenUsage
    losses: tuple[str, ...]
    messages: int
    replies: int


class FactsPage(Struct, frozen=True):
    """Some facts of a ledger, each with its position; `length` is the number of all facts.

    `cursor` is the event cursor after the last of them: a client that has read the facts can follow the events from there.
    """

    facts: list[dict[str, Any]]
    length: int
    cursor: str


def summarize_session(session: Session, info: LedgerInfo | None = None, is_served: bool = True) -> SessionSummary:
    """Return the summary of a session. `info` is the store's, if available: it says which session the facts are shared with."""
    state, origin = session.state, _find_origin(session)
    return SessionSummary(
        id=session.id,
        workflow=state.workflow,
        status=session.status,
        agent=state.active_agent,
        facts=state.length,
        updated=state.facts[-1].at if state.facts else 0,
        parent=info.parent if info is not None else origin.session if origin and origin.kind == "fork" else "",
        within=_find_root_session(session.id),
        last=_last_message(session),
        pending=len(session.pending),
        served=is_served,
        error=session.error,
    )


def summarize_unreadable(info: LedgerInfo, error: LegatoError) -> SessionSummary:
    """Return the summary of a session that cannot be read, so that a list shows it and the others."""
    return SessionSummary(
        id=info.ledger,
        status="damaged" if error.code == "damaged" else "unreadable",
        facts=info.length,
        updated=info.updated_at,
        parent=info.parent,
        within=_find_root_session(info.ledger),
        damaged=error.summary,
    )


def build_session_detail(session: Session, is_served: bool = True, can_drive: bool = True) -> SessionDetail:
    """Return a session as its page shows it."""
    summary, state, origin = summarize_session(session, is_served=is_served), session.state, _find_origin(session)
    return SessionDetail(
        **{name: getattr(summary, name) for name in SessionSummary.__struct_fields__ if name != "pending"},
        opened=state.facts[0].at if state.facts else 0,
        origin=origin,
        pending=summarize_requests(session),
        can_drive=can_drive,
        usage=to_token_usage(session.usage),
        losses=tuple(session.losses),
        messages=len(session.messages),
        replies=state.reply_count,
    )


def summarize_requests(session: Session) -> tuple[RequestSummary, ...]:
    """Return the pending requests of a session, in order."""
    return tuple(summarize_request(session, request) for request in session.pending)


def summarize_request(session: Session, request: Pending) -> RequestSummary:
    """Return a pending request as people see it."""
    arguments = decode_masked_arguments(session, request)
    return RequestSummary(
        id=request.id,
        kind=request.kind,
        prompt=request.prompt,
        agent=request.agent,
        tool=request.tool,
        arguments=arguments,
        digest=request.digest,
        session=request.session,
        call=str(request.call or ""),
        limit=request.limit,
        verdicts=request.verdicts,
        schema=_find_arguments_schema(session.find_session_of(request), request),
        secrets=_find_secret_names(session.find_session_of(request), request, arguments),
        for_client=request.for_client,
    )


def build_facts_page(session: Session, start: int = 0, limit: int = 500) -> FactsPage:
    """Return the facts from a position on, with digests in place of secrets."""
    facts = session.state.facts
    masked = mask_facts(session.state, session.workflow.definition.graph, start, start + limit)
    cursor = EventCursor(digest_ledger_id(session.state.ledger_id), min(start, len(facts)) + len(masked))
    return FactsPage([fact_to_json(position, fact) for position, fact in enumerate(masked, start)], len(facts), str(cursor))


def fact_to_json(position: int, fact: AnyFact) -> dict[str, Any]:
    """Return a fact as data, with its position. Of a guardrail's verdict, `about` is the position of the fact that it is about."""
    data = msgspec.to_builtins(fact)
    return (
        {**data, "position": position, "about": fact.position}
        if isinstance(fact, (GuardrailJudged, TerminationJudged))
        else {"position": position, **data}
    )


def join_message_texts(session: Session) -> str:
    """Return the texts of all messages of users and agents, for a search."""
    return "\n".join(message.text for message in session.messages)


def _last_message(session: Session) -> LastMessage:
    messages = session.messages
    if not messages:
        return LastMessage()
    return LastMessage(messages[-1].author_name or messages[-1].role, truncate(messages[-1].text, MAX_LAST_MESSAGE_CHARS))


def _find_origin(session: Session) -> ForkOrigin | None:
    """Return the origin of the newest `Opened` fact: the session's own if it was forked or imported."""
    names = session.state.ledger_ids
    opened = session.state.facts[names[-1][0]] if names else None
    if not isinstance(opened, Opened) or opened.origin is None:
        return None
    return ForkOrigin(opened.origin.session, opened.origin.position, opened.origin.kind)


def _find_root_session(id: str) -> str:
    """Return the root session of a child session; empty if it is none."""
    root = find_root_session_id(id)
    return root if root != id else ""


def _find_arguments_schema(session: Session, request: Pending) -> Any:
    definition = session.workflow.definition
    agent, edge = definition.agents.get(request.agent), None
    if agent is not None and request.tool in agent.tools:
        return msgspec.json.decode(agent.tools[request.tool].parameters)
    rules = definition.graph.agents.get(request.agent)
    if rules is not None and request.tool in rules.edges:
        edge = definition.edges.get((request.agent, rules.edges[request.tool].target))
    return msgspec.json.decode(edge.schema) if edge is not None else None


def _find_secret_names(session: Session, request: Pending, arguments: Any) -> tuple[str, ...]:
    """Return the names of the secret arguments: all names if the tool is unknown, else also passed names that the tool does not know."""
    secrets = find_secret_names(session, request)
    names = tuple(arguments) if isinstance(arguments, dict) else ()
    if secrets is None or secrets is ALL_ARGUMENTS_SECRET:
        return names
    return tuple(dict.fromkeys((*secrets, *(name for name in names if name in secrets))))
