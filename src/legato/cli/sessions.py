"""`legato ls`, `show`, `fork`, `delete`. May know: any store. Decides: how sessions are listed and read.

The program of a session need not be at hand. With `--workflow` more is known: which arguments are secret, and what only a program
can tell about what is owed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legato.cli.options import Json, Named, SessionId, Stored, Tenant

if TYPE_CHECKING:
    from legato.cli.places import Place
    from legato.inspection.listing import Row
    from legato.runtime.session import Session


def ls(
    store: Stored = "",
    workflow: Named = "",
    tenant: Tenant = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many, the most recent first.", min=1)] = 20,
    as_json: Json = False,
) -> None:
    """List the sessions of a store, the most recent first."""
    asyncio.run(_ls(store, workflow, tenant, limit, as_json))


async def _ls(store: str, workflow: str, tenant: str, limit: int, as_json: bool) -> None:
    from legato.cli.places import default_path, looked_into
    from legato.cli.telling import table, tell, when, write_json
    from legato.inspection.plain import one_line

    if not store and not workflow and not default_path().exists():  # nobody has begun yet: that is no mistake
        if as_json:
            write_json([])
        else:
            tell("no sessions yet: `legato chat module:workflow` begins one")
        return
    async with looked_into(store, workflow, tenant) as here:
        rows = await _rows(here, limit)
        name = here.name
    if as_json:
        write_json(rows)
    elif not rows:
        tell(f"no sessions in {name}")
    else:
        colours = {"pending": "yellow", "failed": "red", "damaged": "red", "waiting": "green"}
        table(
            ("session", "workflow", "status", "facts", "last", "said"),
            [
                (
                    row.id,
                    row.workflow,
                    (row.status, colours.get(row.status, "")),
                    str(row.facts),
                    when(row.updated),
                    one_line(row.damaged or (f"{row.last.author}: {row.last.text}" if row.last.author else ""), 60),
                )
                for row in rows
            ],
        )


async def _rows(here: Place, limit: int) -> list[Row]:
    """The newest sessions. One that cannot be read is told, and hides no other."""
    from functools import partial

    from legato.inspection.browsing import Browsing

    browsing = Browsing(here.store, partial(here.session, of_any=True), here.is_named)
    rows: list[Row] = []
    after = ""
    while len(rows) < limit:
        page = await browsing.page(limit=limit - len(rows), after=after)
        rows += page.sessions
        after = page.next
        if not after:
            break
    return rows


def show(
    session: SessionId,
    store: Stored = "",
    workflow: Named = "",
    tenant: Tenant = "",
    facts: Annotated[bool, typer.Option("--facts", help="The facts of the ledger instead, one JSON object per line.")] = False,
    as_json: Json = False,
) -> None:
    """Show a session: what was said and done, what is pending, what it used."""
    asyncio.run(_show(session, store, workflow, tenant, facts, as_json))


async def _show(id: str, store: str, workflow: str, tenant: str, facts: bool, as_json: bool) -> None:
    from legato.cli.places import looked_into
    from legato.cli.telling import tell, write_json
    from legato.cli.transcript import Transcript
    from legato.inspection.exporting import told
    from legato.inspection.hiding import shown_arguments
    from legato.inspection.listing import facts_page
    from legato.inspection.plain import counted

    async with looked_into(store, workflow, tenant) as here:
        session = await here.session(id)
        if as_json and not facts:
            write_json(await _document(session, bool(workflow)))
            return
    if facts:
        for fact in facts_page(session, 0, session.state.length).facts:
            write_json(fact)
        return
    tell((f"{id}", "bold"), f"  {session.state.workflow}, {session.status}, {counted(session.state.length, 'fact')}")
    screen = Transcript(session.workflow.agents)
    for event in told(session):
        screen.show(event)
    screen.end()
    for request in session.pending:
        tell(
            ("? ", "yellow"),
            request.prompt if not request.tool else f"{request.agent}: {request.tool}({shown_arguments(session, request)})",
        )
    if session.error:
        tell(("failed: ", "red"), session.error)
    used = session.usage
    known = "" if used.dollars is None else f", {used.dollars:.4f} dollars"
    unknown = f", price of {used.unpriced_tokens} tokens not known" if used.unpriced_tokens else ""
    tell((f"{used.input} tokens in, {used.output} out{known}{unknown}", "dim"))
    if not workflow and any(event.type == "tool_started" for event in told(session)):
        tell(("values of arguments are hidden: --workflow module:name says which of them are secret", "dim"))


async def _document(session: Session, served: bool) -> dict[str, Any]:
    """A session with all that was said and done in it, as data."""
    import msgspec

    from legato.inspection.event_data import event_data
    from legato.inspection.exporting import told
    from legato.inspection.listing import detail_of
    from legato.inspection.spending import spending

    return {
        **msgspec.to_builtins(detail_of(session, served=served, can_drive=served)),
        "messages": session.messages,
        "events": [event_data(event, session) for event in told(session)],
        "spent": await spending(session),
    }


def fork(
    session: SessionId,
    at: Annotated[int | None, typer.Option(help="How many facts to share; all, by default. `show --facts` numbers them from 0.")] = None,
    id: Annotated[str, typer.Option(help="The new session's id.")] = "",
    store: Stored = "",
    workflow: Named = "",
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Begin a new session with the first facts of another. Neither sees what the other does afterwards.

    What was approved there and has not happened yet is asked again. Child sessions that it waits for are forked too.
    """
    asyncio.run(_fork(session, at, id, store, workflow, tenant, as_json))


async def _fork(id: str, at: int | None, new: str, store: str, workflow: str, tenant: str, as_json: bool) -> None:
    from legato.cli.places import looked_into
    from legato.cli.telling import tell, write_json

    async with looked_into(store, workflow, tenant) as here:
        session = await here.session(id)
        branch = await session.fork(at, new or await here.free_id(id))
    shared = session.state.length if at is None else at
    if as_json:
        write_json({"session": branch.id, "from": id, "at": shared, "status": branch.status})
    else:
        tell(f"{branch.id}: begins with {shared} of the {session.state.length} facts of {id}, and is {branch.status}")


def delete(
    session: SessionId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: Stored = "",
    workflow: Named = "",
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Delete a session and its child sessions. What its forks share with it stays readable through them."""
    asyncio.run(_delete(session, yes, store, workflow, tenant, as_json))


async def _delete(id: str, yes: bool, store: str, workflow: str, tenant: str, as_json: bool) -> None:
    from legato.cli.places import looked_into
    from legato.cli.telling import tell, write_json
    from legato.errors import BadInput, LegatoError
    from legato.inspection.plain import counted, harmless

    async with looked_into(store, workflow, tenant) as here:
        try:
            found = await here.session(id)
            children = len(await here.store.children(id))
            along = f", with {counted(children, 'child session')}" if children else ""
            what = f"{id} ({counted(len(found.messages), 'message')}, {found.status}{along})"
        except LegatoError as error:
            if error.code == "unknown_ledger":
                raise
            what = f"{id} (it cannot be read: {error.summary})"
        if not yes:
            import sys

            if not sys.stdin.isatty():
                raise BadInput("deleting asks first, and nobody can answer here", do="add --yes")
            if not typer.confirm(f"Delete {harmless(what)}? It cannot be brought back"):
                raise typer.Exit(1)
        gone = await here.store.delete(id)
    if as_json:
        write_json({"session": id, "deleted": gone})
    else:
        tell(f"deleted {what}")
