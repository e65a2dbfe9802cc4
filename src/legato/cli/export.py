"""`legato export`. May know: sessions, files. Decides: where what leaves a store is written."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from legato.cli.options import Json, Named, SessionId, Stored, Tenant


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
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Write a session down: as data or to read, with digests in place of secrets; or exactly, to go on elsewhere."""
    asyncio.run(_export(session, form, out, store, workflow, tenant, as_json))


async def _export(id: str, form: Form, out: Path | None, store: str, workflow: str, tenant: str, as_json: bool) -> None:
    from legato.cli.places import looked_into
    from legato.cli.telling import tell, write_json
    from legato.inspection.exporting import document, page
    from legato.inspection.plain import escaped_json

    async with looked_into(store, workflow, tenant) as here:
        session = await here.session(id)
        if form is Form.json:
            text = await document(session)
        elif form is Form.markdown:
            text = await page(session)
        else:
            text = escaped_json(await session.to_string())
            tell("exact: secret arguments are in it, if there are any; workflow.load(text) reads it", err=True)
    if out is not None:
        _written(out, text)
        if as_json:
            write_json({"session": id, "as": form.value, "file": str(out), "bytes": len(text.encode())})
        else:
            tell(f"{id} is in {out}")
    else:
        typer.echo(text)


def _written(path: Path, text: str) -> None:
    from legato.errors import BadInput
    from legato.private_files import open_private

    try:
        with open(path, "x", encoding="utf-8", opener=open_private) as file:
            file.write(text + "\n")
    except FileExistsError:
        raise BadInput(f"{path} is there already", do="choose another name; nothing was written") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written", found=str(error.strerror)) from None
