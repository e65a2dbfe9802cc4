"""`legato import`: a conversation of another framework becomes a session."""

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
_BUILDER_HINT = "the name of your HandoffBuilder; Handoff if it has none"
_RUNNER_HINT = "openai-agents, if the program uses legato.compat.agents"
_WORKFLOW_HINTS = {"checkpoint": _BUILDER_HINT, "messages": _BUILDER_HINT, "run-state": _RUNNER_HINT, "session": _RUNNER_HINT}


def import_conversation(
    source: Annotated[Path, typer.Argument(help="A checkpoint, a list of messages, a RunState string, or a SQLiteSession file.")],
    store: Annotated[str, typer.Option(help="The store of the new session: a path or a URL.", envvar="LEGATO_STORE")] = "",
    session: Annotated[str, typer.Option(help="The id of the new session.")] = "",
    workflow: Annotated[str, typer.Option(help="The name of the workflow that continues it.")] = "",
    kind: Annotated[str, typer.Option(help="checkpoint, messages, run-state or session. Default: what the file looks like.")] = "",
    agent: Annotated[str, typer.Option(help="For a SQLiteSession, which does not record agents: the agent that begins.")] = "assistant",
    of: Annotated[str, typer.Option(help="For a SQLiteSession: the id of one of its sessions.")] = "",
    rename: Annotated[list[str] | None, typer.Option(help="Rename an agent: old=new. May be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Import a conversation of another framework: Microsoft Agent Framework, or the OpenAI Agents SDK.

    Prints what the file contains, each message once, and what cannot be imported. With --store, --session and --workflow it becomes a
    session that a workflow of that name continues. Nothing is unpickled or run, and the file is not changed.

    \b
    legato import checkpoints/55a8.json
    legato import checkpoints/55a8.json --store sqlite:desk.sqlite --session customer-42 --workflow desk
    """
    from legato.compat.imports.untrusted_input import escape_unprintable

    kind = kind or _guess_kind(source)
    conversation = _read(source, kind, agent, of)
    target_options = [name for name, value in (("--store", store), ("--session", session), ("--workflow", workflow)) if value]
    report = conversation.report
    names = conversation.renaming(_parse_renames(rename))
    if session or workflow:
        if len(target_options) < 3:
            raise BadInput(
                "the target of the import is incomplete", expected="--store, --session and --workflow", found=", ".join(target_options)
            )
        report = asyncio.run(_save(conversation, store, session, workflow, names))
    agents = [names.get(name, name) for name in conversation.agents]
    if as_json:
        from legato.cli.terminal import write_json

        write_json({"imported": bool(session), "agents": agents, "report": report})
        return
    typer.echo(str(report))
    typer.echo(escape_unprintable(f"  agents: {', '.join(agents) or 'none'}"))
    typer.echo(
        f"imported as session {session!r} of workflow {workflow!r}"
        if session
        else f"nothing was imported: give --store, --session and --workflow ({_WORKFLOW_HINTS[kind]})"
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
            raise BadInput("--kind names no kind of data", expected=", ".join(KINDS), found=repr(other))


class _FormatMarkers(msgspec.Struct):
    checkpoint_id: msgspec.Raw = msgspec.Raw(b"")
    schema: msgspec.Raw = msgspec.field(name="$schemaVersion", default=msgspec.Raw(b""))


def _guess_kind(source: Path) -> str:
    from legato.compat.imports.untrusted_input import BOM, import_refusal, read_bytes

    data = read_bytes(source).removeprefix(BOM)
    if data.startswith(b"SQLite format 3\x00"):
        return "session"
    if data.lstrip().startswith(b"["):
        return "messages"
    try:
        markers = msgspec.json.decode(data, type=_FormatMarkers)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise import_refusal(f"{source.name} is neither JSON nor a SQLite file", found=str(error)) from None
    if not (markers.checkpoint_id or markers.schema):
        raise import_refusal(
            f"{source.name} has an unknown format", expected="a checkpoint, a RunState, a list of messages or a SQLiteSession's file"
        )
    return "checkpoint" if markers.checkpoint_id else "run-state"


async def _save(conversation: Conversation, store: str, session: str, workflow: str, names: Mapping[str, str]) -> Report:
    from legato.cli.store_locator import open_located_store

    async with open_located_store(store, create=True) as opened:
        return await conversation.save(opened.store, session, workflow=workflow, agents=names)


def _parse_renames(texts: list[str] | None) -> dict[str, str]:
    names = {}
    for text in texts or []:
        old, equals, new = text.partition("=")
        if not equals or not new:
            raise BadInput(f"--rename {text!r} has no new name", do="write it as old=new")
        names[old] = new
    return names
