"""What verbs have in common. May know: typer. Decides: how stores, sessions and workflows are named, and how a shell completes them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer


def session_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The sessions that a shell offers: those of the store that the command would look into. Nothing goes wrong while somebody types."""
    import asyncio

    async def look() -> list[tuple[str, str]]:
        from legato.cli.places import place
        from legato.cli.telling import when

        async with place(ctx.params.get("store") or "", tenant=ctx.params.get("tenant") or "") as here:
            return [(info.ledger, f"{info.length} facts, {when(info.updated)}") for info in await here.store.list(1000)]

    try:
        return [(id, about) for id, about in asyncio.run(look()) if id.startswith(incomplete)]
    except Exception:
        return []


Stored: TypeAlias = Annotated[
    str,
    typer.Option(
        "--store", envvar="LEGATO_STORE", help="Where sessions are: a path or a store's URL. Default: a file of your own.", show_envvar=True
    ),
]
Named: TypeAlias = Annotated[
    str,
    typer.Option("--workflow", "-w", help="module:workflow, whose sessions these are: it knows which arguments are secret, and its store."),
]
Tenant: TypeAlias = Annotated[str, typer.Option(help="Whose sessions: those of this tenant.")]
SessionId: TypeAlias = Annotated[str, typer.Argument(help="The session.", autocompletion=session_ids, metavar="SESSION")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
