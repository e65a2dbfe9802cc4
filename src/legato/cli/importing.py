"""`legato import`. May know: stores and the readers of others' data. Decides: what a file is taken for, and what is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from legato.errors import BadInput

if TYPE_CHECKING:
    from legato.compat.imports import Conversation, Report

KINDS = ("checkpoint", "messages", "run-state", "session")
_BUILDERS = "the name of your HandoffBuilder; without one, Handoff"
_RUNNERS = "openai-agents, if the program uses legato.compat.agents"
_WORKFLOW = {"checkpoint": _BUILDERS, "messages": _BUILDERS, "run-state": _RUNNERS, "session": _RUNNERS}


def import_(
    source: Annotated[Path, typer.Argument(help="A checkpoint, a list of messages, a RunState string, or a SQLiteSession file.")],
    store: Annotated[str, typer.Option(help="Where the session goes: a path, or a store's URL.", envvar="LEGATO_STORE")] = "",
    session: Annotated[str, typer.Option(help="The id that the session gets.")] = "",
    workflow: Annotated[str, typer.Option(help="The name of the workflow that goes on with it.")] = "",
    kind: Annotated[str, typer.Option(help="checkpoint, messages, run-state or session; without it, what the file looks like.")] = "",
    agent: Annotated[str, typer.Option(help="For a SQLiteSession, which does not say who spoke: the agent that begins.")] = "assistant",
    of: Annotated[str, typer.Option(help="For a SQLiteSession: which of its sessions.")] = "",
    rename: Annotated[list[str] | None, typer.Option(help="Give an agent another name: old=new. May be given again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Bring a conversation along that another framework kept: Microsoft Agent Framework, or the OpenAI Agents SDK.

    Says what the file holds, each message once, and what cannot be taken. With --store, --session and --workflow it becomes a session
    that a workflow of that name goes on with. Nothing is unpickled or run, and the file stays as it is.

    \b
    legato import checkpoints/55a8.json
    legato import checkpoints/55a8.json --store sqlite:desk.sqlite --session customer-42 --workflow desk
    """
    from legato.compat.imports.reading import printable

    kind = kind or _looks_like(source)
    conversation = _read(source, kind, agent, of)
    wanted = [name for name, value in (("--store", store), ("--session", session), ("--workflow", workflow)) if value]
    report = conversation.report
    names = conversation.renaming(_names(rename))
    if session or workflow:
        if len(wanted) < 3:
            raise BadInput("to import, say where to", expected="--store, --session and --workflow", found=", ".join(wanted))
        report = asyncio.run(_save(conversation, store, session, workflow, names))
    agents = [names.get(name, name) for name in conversation.agents]
    if as_json:
        from legato.cli.telling import write_json

        write_json({"imported": bool(session), "agents": agents, "report": report})
        return
    typer.echo(str(report))
    typer.echo(printable(f"  agents: {', '.join(agents) or 'none'}"))
    typer.echo(
        f"imported as session {session!r} of workflow {workflow!r}"
        if session
        else f"nothing was imported: give --store, --session and --workflow ({_WORKFLOW[kind]})"
    )


def _read(source: Path, kind: str, agent: str, of: str) -> Conversation:
    from legato.compat.imports import from_checkpoint, from_messages, from_run_state, from_sqlite_session

    match kind:
        case "checkpoint":
            return from_checkpoint(source)
        case "messages":
            return from_messages(source)
        case "run-state":
            return from_run_state(source)
        case "session":
            return from_sqlite_session(source, of or None, agent=agent)
        case other:
            raise BadInput("there is no such kind of data", expected=", ".join(KINDS), found=repr(other))


class _Peek(msgspec.Struct):
    checkpoint_id: msgspec.Raw = msgspec.Raw(b"")
    schema: msgspec.Raw = msgspec.field(name="$schemaVersion", default=msgspec.Raw(b""))


def _looks_like(source: Path) -> str:
    from legato.compat.imports.reading import BOM, read_bytes, refused

    data = read_bytes(source).removeprefix(BOM)
    if data.startswith(b"SQLite format 3\x00"):
        return "session"
    if data.lstrip().startswith(b"["):
        return "messages"
    try:
        peek = msgspec.json.decode(data, type=_Peek)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise refused(f"{source.name} is neither JSON nor a SQLite file", found=str(error)) from None
    if not (peek.checkpoint_id or peek.schema):
        raise refused(
            f"{source.name} is nothing that is known", expected="a checkpoint, a RunState, a list of messages or a SQLiteSession's file"
        )
    return "checkpoint" if peek.checkpoint_id else "run-state"


async def _save(conversation: Conversation, store: str, session: str, workflow: str, names: Mapping[str, str]) -> Report:
    from legato.cli.places import place

    async with place(store, make=True) as here:
        return await conversation.save(here.store, session, workflow=workflow, agents=names)


def _names(texts: list[str] | None) -> dict[str, str]:
    names = {}
    for text in texts or []:
        old, equals, new = text.partition("=")
        if not equals or not new:
            raise BadInput(f"{text!r} renames nobody", do="write it as old=new")
        names[old] = new
    return names
