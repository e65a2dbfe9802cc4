"""Exports of a session as JSON and as Markdown, with digests in place of secrets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from legato.core.child_session_ids import list_parent_calls
from legato.core.facts import ModelReplied, ModelRequestFailed
from legato.core.state import fold
from legato.core.turn_context import decode_turn_context
from legato.inspection.markdown_escapes import escape_inline, escape_paragraph
from legato.inspection.secret_masks import mask_facts
from legato.inspection.session_summaries import fact_to_json, summarize_requests
from legato.inspection.terminal_safe_text import encode_printable_json, escape_unprintable, to_one_line
from legato.inspection.workflow_from_ledger import rebuild_workflow
from legato.runtime.events import Event, HandoffData, ToolData, make_events
from legato.runtime.session import Session
from legato.workflow.agent_as_tool import iter_workflow_tree

MAX_ARGUMENTS_CHARS = 2000
"""Characters of a call's arguments on a Markdown page."""

MAX_DECISION_CHARS = 2000
"""Characters of a person's decision on a Markdown page: it may stand in place of an output."""


async def export_json(session: Session) -> str:
    """Return everything that is recorded, as JSON. It is for reading: no session can continue from it."""
    return encode_printable_json({"legato_export": 1, **await _to_document(session)})


async def _to_document(session: Session) -> dict[str, Any]:
    facts = mask_facts(session.state, session.workflow.definition.graph)
    digests = sorted({fact.context_digest for fact in facts if isinstance(fact, ModelReplied | ModelRequestFailed) and fact.context_digest})
    turn_contexts = {digest: decode_turn_context(await session.store.content(session.id, digest)) for digest in digests}
    return {
        "session": session.id,
        "workflow": session.state.workflow,
        "status": session.status,
        "messages": session.messages,
        "pending": summarize_requests(session),
        "usage": session.usage,
        "usage_by_agent": session.usage_by_agent,
        "frames": turn_contexts,
        "facts": [fact_to_json(position, fact) for position, fact in enumerate(facts)],
        "children": [await _to_document(child) for child in await _read_child_sessions(session)],
    }


async def _read_child_sessions(session: Session) -> list[Session]:
    """Return the child sessions of a session's own calls, in the order of the calls."""
    workflows = {workflow.name: workflow for workflow in iter_workflow_tree([session.workflow])}
    children = []
    for info in await session.store.children(session.id):
        parent, _, call = next(list_parent_calls(info.ledger))
        facts = await session.store.read(info.ledger) if parent == session.id else ()
        if facts:
            recorded = rebuild_workflow(facts)
            child = workflows.get(recorded.name, recorded).session(info.ledger, store=session.store)
            children.append((call, await child.refresh()))
    return [child for _, child in sorted(children, key=lambda each: each[0])]


async def export_markdown(session: Session) -> str:
    """Return the conversation as Markdown, followed by its child sessions. Messages cannot become markup: they are quoted and escaped."""
    pages = [_render_page(session), *[await export_markdown(child) for child in await _read_child_sessions(session)]]
    return "\n\n".join(pages)


def _render_page(session: Session) -> str:
    opened_at = [_format_time(fact.at) for fact in session.state.facts[:1]]
    summary = ", ".join([escape_paragraph(to_one_line(session.state.workflow)), session.status, *opened_at])
    lines = [f"# {escape_inline(session.id)}", "", summary]
    for event in replay_events(session):
        match event.type, event.data:
            case (("said" | "message"), message):
                lines += ["", f"**{escape_inline(message.author_name or 'user')}**", ""]
                lines += [f"> {escape_paragraph(line)}" for line in escape_unprintable(message.text).splitlines()]
            case "handoff_sent", HandoffData() as handoff:
                reason = f": {escape_inline(handoff.reason)}" if handoff.reason else ""
                lines += ["", f"*{escape_inline(handoff.source)} handed over to {escape_inline(handoff.target)}{reason}*"]
            case (("tool_returned" | "tool_lost" | "tool_late"), ToolData() as call):
                lines += ["", f"*{escape_inline(call.agent)} called* `{_escape_code(call.tool)}`", ""]
                lines += [f"    {to_one_line(escape_unprintable(call.arguments), MAX_ARGUMENTS_CHARS)}"]
                lines += [f"    {line}" for line in escape_unprintable(call.output).splitlines()]
            case "decided" | "judged" | "cancelled" | "model_failed", text:
                max_chars = MAX_DECISION_CHARS if event.type == "decided" else 100
                lines += ["", f"*{event.type.replace('_', ' ')}: {escape_inline(str(text or ''), max_chars)}*"]
    return "\n".join(lines)


def replay_events(session: Session, since: int = 0) -> Iterator[Event]:
    """Yield the events of a session again, from a position on."""
    graph, state = session.workflow.definition.graph, fold((), session.id)
    for position, fact in enumerate(session.state.facts):
        state.apply(fact)
        if position >= since:
            yield from make_events(fact, position, state, graph)


def _escape_code(text: str) -> str:
    return to_one_line(escape_unprintable(text)).replace("`", "'")


def _format_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
