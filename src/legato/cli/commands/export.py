"""`legato export`: a session as JSON, as Markdown, or as an exact copy."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from legato.cli.options import JsonOption, SessionArgument, StoreOption, TenantOption, WorkflowOption


class ExportFormat(StrEnum):
    """The format of an export."""

    json = "json"
    markdown = "markdown"
    session = "session"


def export(
    session: SessionArgument,
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--as", help="json: everything that is recorded; markdown: for reading; session: exact, for workflow.load, with all secrets."
        ),
    ] = ExportFormat.json,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file, which must not exist yet.")] = None,
    store: StoreOption = "",
    workflow: WorkflowOption = "",
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Export a session: as data or for reading, with digests in place of secrets; or exactly, to continue elsewhere."""
    asyncio.run(_export(session, form, out, store, workflow, tenant, as_json))


async def _export(id: str, form: ExportFormat, out: Path | None, store: str, workflow: str, tenant: str, as_json: bool) -> None:
    from legato.cli.store_locator import open_by_options
    from legato.cli.terminal import print_line, write_json
    from legato.inspection.session_export import export_json, export_markdown
    from legato.inspection.terminal_safe_text import escape_json

    async with open_by_options(store, workflow, tenant) as opened:
        session = await opened.find_session(id)
        if form is ExportFormat.json:
            text = await export_json(session)
        elif form is ExportFormat.markdown:
            text = await export_markdown(session)
        else:
            text = escape_json(await session.to_string())
            print_line("this export is exact and contains secret arguments, if there are any; workflow.load(text) reads it", err=True)
    if out is not None:
        _write_new_file(out, text)
        if as_json:
            write_json({"session": id, "as": form.value, "file": str(out), "bytes": len(text.encode())})
        else:
            print_line(f"{id} is in {out}")
    else:
        typer.echo(text)


def _write_new_file(path: Path, text: str) -> None:
    from legato.errors import BadInput
    from legato.private_files import open_private_file

    try:
        with open(path, "x", encoding="utf-8", opener=open_private_file) as file:
            file.write(text + "\n")
    except FileExistsError:
        raise BadInput(f"{path} exists already", do="choose another name; nothing was written") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written", found=str(error.strerror)) from None
