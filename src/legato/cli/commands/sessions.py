"""`legato ls`, `show`, `fork` and `delete`.

The program of a session is not needed. With `--workflow` more is known: which arguments are secret, and the exact status.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legato.cli.options import JsonOption, SessionArgument, StoreOption, TenantOption, WorkflowOption

if TYPE_CHECKING:
    from legato.cli.store_locator import OpenedStore
    from legato.inspection.session_summaries import SessionSummary
    from legato.runtime.session import Session


def ls(
    store: StoreOption = "",
    workflow: WorkflowOption = "",
    tenant: TenantOption = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="The number of sessions, the newest first.", min=1)] = 20,
    as_json: JsonOption = False,
) -> None:
    """List the sessions of a store, the newest first."""
    asyncio.run(_ls(store, workflow, tenant, limit, as_json))


async def _ls(store: str, workflow: str, tenant: str, limit: int, as_json: bool) -> None:
    from legato.cli.store_locator import default_store_path, open_by_options
    from legato.cli.terminal import format_time, print_line, print_table, write_json
    from legato.inspection.terminal_safe_text import to_one_line

    if not store and not workflow and not default_store_path().exists():  # before the first session, this is not an error
        if as_json:
            write_json([])
        else:
            print_line("no sessions yet: start one with `legato chat module:workflow`")
        return
    async with open_by_options(store, workflow, tenant) as opened:
        summaries = await _read_summaries(opened, limit)
        name = opened.name
    if as_json:
        write_json(summaries)
    elif not summaries:
        print_line(f"no sessions in {name}")
    else:
        colours = {"pending": "yellow", "failed": "red", "damaged": "red", "waiting": "green"}
        print_table(
            ("session", "workflow", "status", "facts", "updated", "last message"),
            [
                (
                    summary.id,
                    summary.workflow,
                    (summary.status, colours.get(summary.status, "")),
                    str(summary.facts),
                    format_time(summary.updated),
                    to_one_line(summary.damaged or (f"{summary.last.author}: {summary.last.text}" if summary.last.author else ""), 60),
                )
                for summary in summaries
            ],
        )


async def _read_summaries(opened: OpenedStore, limit: int) -> list[SessionSummary]:
    """Return the summaries of the newest sessions, with those that cannot be read."""
    from functools import partial

    from legato.inspection.session_browser import SessionBrowser

    browser = SessionBrowser(opened.store, partial(opened.find_session, any_workflow=True), opened.is_workflow)
    summaries: list[SessionSummary] = []
    after = ""
    while len(summaries) < limit:
        page = await browser.page(limit=limit - len(summaries), after=after)
        summaries += page.sessions
        after = page.next
        if not after:
            break
    return summaries


def show(
    session: SessionArgument,
    store: StoreOption = "",
    workflow: WorkflowOption = "",
    tenant: TenantOption = "",
    facts: Annotated[bool, typer.Option("--facts", help="Print the facts of the ledger instead, one JSON object per line.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a session: its messages, tool calls and handoffs, pending requests, and usage."""
    asyncio.run(_show(session, store, workflow, tenant, facts, as_json))


async def _show(id: str, store: str, workflow: str, tenant: str, facts: bool, as_json: bool) -> None:
    from legato.cli.event_printer import EventPrinter
    from legato.cli.store_locator import open_by_options
    from legato.cli.terminal import print_line, write_json
    from legato.inspection.secret_masks import mask_request_arguments
    from legato.inspection.session_export import replay_events
    from legato.inspection.session_summaries import build_facts_page
    from legato.inspection.terminal_safe_text import format_count

    async with open_by_options(store, workflow, tenant) as opened:
        session = await opened.find_session(id)
        if as_json and not facts:
            write_json(await _session_to_json(session, bool(workflow)))
            return
    if facts:
        for fact in build_facts_page(session, 0, session.state.length).facts:
            write_json(fact)
        return
    print_line((f"{id}", "bold"), f"  {session.state.workflow}, {session.status}, {format_count(session.state.length, 'fact')}")
    printer = EventPrinter(session.workflow.agents)
    for event in replay_events(session):
        printer.print_event(event)
    printer.end_line()
    for request in session.pending:
        print_line(
            ("? ", "yellow"),
            request.prompt if not request.tool else f"{request.agent}: {request.tool}({mask_request_arguments(session, request)})",
        )
    if session.error:
        print_line(("failed: ", "red"), session.error)
    usage = session.usage
    cost = "" if usage.dollars is None else f", {usage.dollars:.4f} dollars"
    unpriced = f", price of {usage.unpriced_tokens} tokens not known" if usage.unpriced_tokens else ""
    print_line((f"{usage.input} tokens in, {usage.output} out{cost}{unpriced}", "dim"))
    if not workflow and any(event.type == "tool_started" for event in replay_events(session)):
        print_line(("all arguments are masked: --workflow module:name says which of them are secret", "dim"))


async def _session_to_json(session: Session, has_workflow: bool) -> dict[str, Any]:
    """Return a session with its messages, events and usage, as data."""
    import msgspec

    from legato.inspection.event_json import event_to_json
    from legato.inspection.session_export import replay_events
    from legato.inspection.session_summaries import build_session_detail
    from legato.inspection.usage_report import build_usage_report

    return {
        **msgspec.to_builtins(build_session_detail(session, is_served=has_workflow, can_drive=has_workflow)),
        "messages": session.messages,
        "events": [event_to_json(event, session) for event in replay_events(session)],
        "spent": await build_usage_report(session),
    }


def fork(
    session: SessionArgument,
    at: Annotated[int | None, typer.Option(help="The number of facts to share. Default: all. `show --facts` numbers them from 0.")] = None,
    id: Annotated[str, typer.Option(help="The id of the new session.")] = "",
    store: StoreOption = "",
    workflow: WorkflowOption = "",
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Fork a session: begin a new one with its first facts. Afterwards, neither sees changes of the other.

    Approved calls that have not run yet are asked about again. Child sessions that the session waits for are forked too.
    """
    asyncio.run(_fork(session, at, id, store, workflow, tenant, as_json))


async def _fork(id: str, at: int | None, new: str, store: str, workflow: str, tenant: str, as_json: bool) -> None:
    from legato.cli.store_locator import open_by_options
    from legato.cli.terminal import print_line, write_json

    async with open_by_options(store, workflow, tenant) as opened:
        session = await opened.find_session(id)
        fork = await session.fork(at, new or await opened.generate_session_id(id))
    shared = session.state.length if at is None else at
    if as_json:
        write_json({"session": fork.id, "from": id, "at": shared, "status": fork.status})
    else:
        print_line(f"{fork.id}: begins with {shared} of the {session.state.length} facts of {id}; it is {fork.status}")


def delete(
    session: SessionArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    store: StoreOption = "",
    workflow: WorkflowOption = "",
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Delete a session and its child sessions. Facts that its forks share with it stay readable in the forks."""
    asyncio.run(_delete(session, yes, store, workflow, tenant, as_json))


async def _delete(id: str, yes: bool, store: str, workflow: str, tenant: str, as_json: bool) -> None:
    from legato.cli.store_locator import open_by_options
    from legato.cli.terminal import print_line, write_json
    from legato.errors import BadInput, LegatoError
    from legato.inspection.terminal_safe_text import escape_unprintable, format_count

    async with open_by_options(store, workflow, tenant) as opened:
        try:
            session = await opened.find_session(id)
            children = len(await opened.store.children(id))
            children_text = f", with {format_count(children, 'child session')}" if children else ""
            description = f"{id} ({format_count(len(session.messages), 'message')}, {session.status}{children_text})"
        except LegatoError as error:
            if error.code == "unknown_ledger":
                raise
            description = f"{id} (it cannot be read: {error.summary})"
        if not yes:
            import sys

            if not sys.stdin.isatty():
                raise BadInput("deleting needs a confirmation, and standard input is not a terminal", do="add --yes")
            if not typer.confirm(f"Delete {escape_unprintable(description)}? This cannot be undone"):
                raise typer.Exit(1)
        is_deleted = await opened.store.delete(id)
    if as_json:
        write_json({"session": id, "deleted": is_deleted})
    else:
        print_line(f"deleted {description}")
