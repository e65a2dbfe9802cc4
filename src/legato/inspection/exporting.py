"""A session as a file. May know: sessions. Decides: what leaves a store, and that secrets do not unless somebody says so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from legato.core.child_session_ids import parent_calls
from legato.core.facts import ModelReplied, ModelRequestFailed
from legato.core.state import fold
from legato.core.turn_context import decode_frame
from legato.inspection.hiding import shown_facts
from legato.inspection.listing import plain_fact, questions
from legato.inspection.markdown import in_line, paragraph
from legato.inspection.plain import harmless, json_text, one_line
from legato.inspection.recorded import as_recorded
from legato.runtime.events import Event, HandoffData, ToolData, events_of
from legato.runtime.session import Session
from legato.workflow.agent_as_tool import with_child_workflows

LONGEST_ANSWER = 2000
"""How much is shown of what a person answered a call with, in letters: it stands in place of an output."""


async def document(session: Session) -> str:
    """All that is recorded, as JSON, with digests in place of secrets. It tells what happened; it is no ledger that could go on."""
    return json_text({"legato_export": 1, **await _document(session)})


async def _document(session: Session) -> dict[str, Any]:
    facts = shown_facts(session.state, session.workflow.definition.graph)
    named = sorted({fact.frame for fact in facts if isinstance(fact, ModelReplied | ModelRequestFailed) and fact.frame})
    frames = {digest: decode_frame(await session.store.content(session.id, digest)) for digest in named}
    return {
        "session": session.id,
        "workflow": session.state.workflow,
        "status": session.status,
        "messages": session.messages,
        "pending": questions(session),
        "usage": session.usage,
        "usage_by_agent": session.usage_by_agent,
        "frames": frames,
        "facts": [plain_fact(position, fact) for position, fact in enumerate(facts)],
        "children": [await _document(child) for child in await _children(session)],
    }


async def _children(session: Session) -> list[Session]:
    """The child sessions of a session's own calls, in the order of the calls."""
    workflows = {workflow.name: workflow for workflow in with_child_workflows([session.workflow])}
    found = []
    for info in await session.store.children(session.id):
        parent, _, call = next(parent_calls(info.ledger))
        facts = await session.store.read(info.ledger) if parent == session.id else ()
        if facts:
            recorded = as_recorded(facts)
            child = workflows.get(recorded.name, recorded).session(info.ledger, store=session.store)
            found.append((call, await child.refresh()))
    return [child for _, child in sorted(found, key=lambda each: each[0])]


async def page(session: Session) -> str:
    """The conversation as Markdown, its child sessions behind it. What was said cannot become markup of the page: it stands in quotes, and
    its signs are escaped."""
    pages = [_page(session), *[await page(child) for child in await _children(session)]]
    return "\n\n".join(pages)


def _page(session: Session) -> str:
    began = [_when(fact.at) for fact in session.state.facts[:1]]
    lines = [f"# {in_line(session.id)}", "", paragraph(one_line(session.state.workflow)) + ", " + ", ".join([session.status, *began])]
    for event in told(session):
        match event.type, event.data:
            case (("said" | "message"), message):
                lines += ["", f"**{in_line(message.author_name or 'user')}**", ""]
                lines += [f"> {paragraph(line)}" for line in harmless(message.text).splitlines()]
            case "handoff_sent", HandoffData() as passed:
                reason = f": {in_line(passed.reason)}" if passed.reason else ""
                lines += ["", f"*{in_line(passed.source)} handed over to {in_line(passed.target)}{reason}*"]
            case (("tool_returned" | "tool_lost" | "tool_late"), ToolData() as call):
                lines += ["", f"*{in_line(call.agent)} called* `{_code(call.tool)}`", "", f"    {one_line(harmless(call.arguments), 2000)}"]
                lines += [f"    {line}" for line in harmless(call.output).splitlines()]
            case "decided" | "judged" | "cancelled" | "model_failed", text:
                most = LONGEST_ANSWER if event.type == "decided" else 100
                lines += ["", f"*{event.type.replace('_', ' ')}: {in_line(str(text or ''), most)}*"]
    return "\n".join(lines)


def told(session: Session, since: int = 0) -> Iterator[Event]:
    """What has happened in a session, from a position on, as the events that it was."""
    graph, state = session.workflow.definition.graph, fold((), session.id)
    for position, fact in enumerate(session.state.facts):
        state.apply(fact)
        if position >= since:
            yield from events_of(fact, position, state, graph)


def _code(text: str) -> str:
    return one_line(harmless(text)).replace("`", "'")


def _when(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
