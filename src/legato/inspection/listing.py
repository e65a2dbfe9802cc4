"""Sessions as lists and pages show them. May know: sessions. Decides: what is told of one, in which fields.

The fields are stable: programs read them over HTTP and from `--json`. All of it is computed from what a handle has read of its ledger;
nothing here reads a store, and nothing is kept.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from legato.core.child_session_ids import root_session_id
from legato.core.facts import AnyFact, GuardrailJudged, Opened
from legato.core.pending_requests import Pending, Verdict
from legato.errors import LegatoError
from legato.inspection.hiding import plain_arguments, secrets_asked, shown_facts
from legato.inspection.plain import shortened
from legato.inspection.recorded import ALL_SECRET
from legato.inspection.spending import Used, used
from legato.runtime.event_cursor import Cursor, birthmark
from legato.runtime.session import Session
from legato.stores.contract import LedgerInfo

LONGEST = 200
"""Letters of the last message that a row tells."""


class Last(Struct, frozen=True):
    """The newest message."""

    author: str = ""
    text: str = ""


class Row(Struct, frozen=True, kw_only=True):
    """One session in a list. `parent`: the session that it was forked from; `within`: the one whose call it works for.

    `served`: whether its workflow is at hand, so that more is known than the ledger tells. `damaged`: why it cannot be read, if so it is;
    then its status is "damaged" or "unreadable", and of the rest only what the store's list says is known.
    """

    id: str
    workflow: str = ""
    status: str
    agent: str = ""
    facts: int
    updated: int
    parent: str = ""
    within: str = ""
    last: Last = Last()
    pending: int = 0
    served: bool = False
    error: str = ""
    damaged: str = ""


class ForkedFrom(Struct, frozen=True):
    """Where a session's first facts come from: `at` is how many they are."""

    session: str
    at: int
    kind: str = "fork"


class Question(Struct, frozen=True, kw_only=True):
    """Something that people are asked. `arguments` and `prompt` have digests in place of secrets; `digest` is that of the exact arguments.

    `verdicts`: how it may be answered; `schema`: the JSON schema of the arguments, for a form that edits them; `secrets`: their names.
    `session` is the conversation that asks, which may be that of an agent who works for this one as a tool. `for_client`: the tool is one
    that the client of the run offered, and the client has its result.
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


class Detail(Struct, frozen=True, kw_only=True):
    """One session: its row, with what is pending in place of how many, and more."""

    id: str
    workflow: str
    status: str
    agent: str
    facts: int
    updated: int
    opened: int
    parent: str
    within: str
    origin: ForkedFrom | None
    last: Last
    pending: tuple[Question, ...]
    served: bool
    can_drive: bool
    error: str
    damaged: str
    usage: Used
    losses: tuple[str, ...]
    messages: int
    replies: int


class FactsPage(Struct, frozen=True):
    """Some facts of a ledger, each with its position; `length` is how many there are in all.

    `cursor` is where events go on after the last of them: whoever has read the facts need not be told them again.
    """

    facts: list[dict[str, Any]]
    length: int
    cursor: str


def row_of(session: Session, info: LedgerInfo | None = None, served: bool = True) -> Row:
    """A session as one line. `info` is the store's line of it, if it is at hand: it knows whose facts are shared."""
    state, origin = session.state, _origin(session)
    return Row(
        id=session.id,
        workflow=state.workflow,
        status=session.status,
        agent=state.active,
        facts=state.length,
        updated=state.facts[-1].at if state.facts else 0,
        parent=info.parent if info is not None else origin.session if origin and origin.kind == "fork" else "",
        within=_within(session.id),
        last=_last(session),
        pending=len(session.pending),
        served=served,
        error=session.error,
    )


def unreadable(info: LedgerInfo, error: LegatoError) -> Row:
    """The row of a session that cannot be read: it hides no other."""
    return Row(
        id=info.ledger,
        status="damaged" if error.code == "damaged" else "unreadable",
        facts=info.length,
        updated=info.updated,
        parent=info.parent,
        within=_within(info.ledger),
        damaged=error.summary,
    )


def detail_of(session: Session, served: bool = True, can_drive: bool = True) -> Detail:
    """A session as its page shows it."""
    row, state, origin = row_of(session, served=served), session.state, _origin(session)
    return Detail(
        **{name: getattr(row, name) for name in Row.__struct_fields__ if name != "pending"},
        opened=state.facts[0].at if state.facts else 0,
        origin=origin,
        pending=questions(session),
        can_drive=can_drive,
        usage=used(session.usage),
        losses=tuple(session.losses),
        messages=len(session.messages),
        replies=state.replies,
    )


def questions(session: Session) -> tuple[Question, ...]:
    """What is pending in a session, in order."""
    return tuple(question(session, request) for request in session.pending)


def question(session: Session, request: Pending) -> Question:
    """A pending request, for whoever is to answer it."""
    arguments = plain_arguments(session, request)
    return Question(
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
        schema=_schema(session.asking(request), request),
        secrets=_secrets(session.asking(request), request, arguments),
        for_client=request.for_client,
    )


def facts_page(session: Session, start: int = 0, limit: int = 500) -> FactsPage:
    """The facts from a position on, with digests in place of secrets."""
    facts = session.state.facts
    shown = shown_facts(session.state, session.workflow.definition.graph, start, start + limit)
    told = Cursor(birthmark(session.state.ledger), min(start, len(facts)) + len(shown))
    return FactsPage([plain_fact(position, fact) for position, fact in enumerate(shown, start)], len(facts), str(told))


def plain_fact(position: int, fact: AnyFact) -> dict[str, Any]:
    """A fact as data, with its own position. A verdict names the position of what it judged, too: that is its `about`."""
    plain = msgspec.to_builtins(fact)
    return {**plain, "position": position, "about": fact.position} if isinstance(fact, GuardrailJudged) else {"position": position, **plain}


def said_in(session: Session) -> str:
    """All words of a conversation, for a search: what users and agents said."""
    return "\n".join(message.text for message in session.messages)


def _last(session: Session) -> Last:
    messages = session.messages
    if not messages:
        return Last()
    return Last(messages[-1].author_name or messages[-1].role, shortened(messages[-1].text, LONGEST))


def _origin(session: Session) -> ForkedFrom | None:
    """Where the ledger last began again."""
    names = session.state.names
    opened = session.state.facts[names[-1][0]] if names else None
    if not isinstance(opened, Opened) or opened.origin is None:
        return None
    return ForkedFrom(opened.origin.session, opened.origin.position, opened.origin.kind)


def _within(id: str) -> str:
    holder = root_session_id(id)
    return holder if holder != id else ""


def _schema(session: Session, request: Pending) -> Any:
    definition = session.workflow.definition
    agent, edge = definition.agents.get(request.agent), None
    if agent is not None and request.tool in agent.tools:
        return msgspec.json.decode(agent.tools[request.tool].parameters)
    rules = definition.graph.agents.get(request.agent)
    if rules is not None and request.tool in rules.edges:
        edge = definition.edges.get((request.agent, rules.edges[request.tool].target))
    return msgspec.json.decode(edge.schema) if edge is not None else None


def _secrets(session: Session, request: Pending, arguments: Any) -> tuple[str, ...]:
    """The names of those arguments that are secret: all that there are, of a tool of which nobody knows; else also those unknown to it."""
    secrets = secrets_asked(session, request)
    given = tuple(arguments) if isinstance(arguments, dict) else ()
    if secrets is None or secrets is ALL_SECRET:
        return given
    return tuple(dict.fromkeys((*secrets, *(name for name in given if name in secrets))))
