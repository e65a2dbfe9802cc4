"""`legato export`. May know: sessions. Decides: what leaves a store, and that secrets do not unless somebody says so."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legato.cli.options import Json, Named, SessionId, Stored

if TYPE_CHECKING:
    from legato.session import Session


class Form(StrEnum):
    """What is written."""

    json = "json"
    markdown = "markdown"
    session = "session"


def export(
    session: SessionId,
    form: Annotated[
        Form,
        typer.Option(
            "--as", help="json: all that is recorded; markdown: to read; session: exact, for workflow.load, with all secrets in it."
        ),
    ] = Form.json,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file, which must not be there yet.")] = None,
    store: Stored = "",
    workflow: Named = "",
    as_json: Json = False,
) -> None:
    """Write a session down: as data or to read, with digests in place of secrets; or exactly, to go on elsewhere."""
    asyncio.run(_export(session, form, out, store, workflow, as_json))


async def _export(id: str, form: Form, out: Path | None, store: str, workflow: str, as_json: bool) -> None:
    from legato.cli.places import looked_into
    from legato.cli.telling import tell, write_json

    async with looked_into(store, workflow) as here:
        session = await here.session(id)
        if form is Form.json:
            text = await _document(session)
        elif form is Form.markdown:
            text = _page(session)
        else:
            text = await _exact(session, bool(workflow))
            tell("exact: secret arguments are in it, if there are any; workflow.load(text) reads it", err=True)
    if out is not None:
        _written(out, text)
        if as_json:
            write_json({"session": id, "as": form.value, "file": str(out), "bytes": len(text.encode())})
        else:
            tell(f"{id} is in {out}")
    else:
        typer.echo(text)


async def _document(session: Session) -> str:
    import msgspec

    from legato.core.facts import Answered, Attempted
    from legato.core.frame import decode_frame
    from legato.shown.hiding import shown_facts, shown_request

    facts = shown_facts(session.facts, session.workflow.definition.graph)
    named = sorted({fact.frame for fact in facts if isinstance(fact, Answered | Attempted) and fact.frame})
    frames = {digest: decode_frame(await session.store.content(session.id, digest)) for digest in named}
    document: dict[str, Any] = {
        "legato_export": 1,
        "session": session.id,
        "workflow": session.state.workflow,
        "status": session.status,
        "messages": session.messages,
        "pending": [shown_request(session, request) for request in session.pending],
        "usage": session.usage,
        "usage_by_agent": session.usage_by_agent,
        "frames": frames,
        "facts": [{"position": position, **msgspec.to_builtins(fact)} for position, fact in enumerate(facts)],
    }
    return msgspec.json.encode(document).decode()


def _page(session: Session) -> str:
    """The conversation as Markdown. What was said cannot become markup of the page: it stands in quotes, line by line."""
    from legato.cli.telling import harmless, one_line, when
    from legato.cli.transcript import told
    from legato.drive.events import HandoffData, ToolData

    lines = [f"# {one_line(session.id)}", "", f"{session.state.workflow}, {session.status}, {when(session.facts[0].at)}"]
    for event in told(session):
        match event.type, event.data:
            case (("said" | "message"), message):
                lines += ["", f"**{message.author_name or 'user'}**", "", *(f"> {line}" for line in harmless(message.text).splitlines())]
            case "handoff_sent", HandoffData() as passed:
                lines += ["", f"*{passed.source} handed over to {passed.target}{f': {one_line(passed.reason)}' if passed.reason else ''}*"]
            case (("tool_returned" | "tool_lost" | "tool_late"), ToolData() as call):
                lines += ["", f"*{call.agent} called* `{call.tool}`", "", f"    {one_line(harmless(call.arguments), 2000)}"]
                lines += [f"    {line}" for line in harmless(call.output).splitlines()]
            case "decided" | "judged" | "cancelled" | "model_failed", text:
                lines += ["", f"*{event.type.replace('_', ' ')}: {one_line(harmless(str(text or '')))}*"]
    return "\n".join(lines)


async def _exact(session: Session, known: bool) -> str:
    from legato.errors import BadInput

    if not known and any(call.waited for call in session.state.batch if call.output is None):
        raise BadInput(
            f"a call of {session.id!r} waits for a conversation of its own, which only its program can find",
            do="add --workflow module:name",
        )
    return await session.to_string()


def _written(path: Path, text: str) -> None:
    from legato.errors import BadInput

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    except FileExistsError:
        raise BadInput(f"{path} is there already", do="choose another name; nothing was written") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written", found=str(error.strerror)) from None
