"""Options that several commands have, and the shell completion of session ids."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer


def complete_session_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the sessions of the command's store for shell completion; none if the store cannot be read."""
    import asyncio

    async def list_sessions() -> list[tuple[str, str]]:
        from legato.cli.store_locator import open_located_store
        from legato.cli.terminal import format_time

        async with open_located_store(ctx.params.get("store") or "", tenant=ctx.params.get("tenant") or "") as opened:
            return [(info.ledger, f"{info.length} facts, {format_time(info.updated_at)}") for info in await opened.store.list(1000)]

    try:
        return [(id, about) for id, about in asyncio.run(list_sessions()) if id.startswith(incomplete)]
    except Exception:
        return []


StoreOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="LEGATO_STORE",
        help="The store of the sessions: a path or a URL. Default: a SQLite file of your own.",
        show_envvar=True,
    ),
]
WorkflowOption: TypeAlias = Annotated[
    str,
    typer.Option("--workflow", "-w", help="module:workflow of the sessions: it knows which arguments are secret, and its store."),
]
TenantOption: TypeAlias = Annotated[str, typer.Option(help="The tenant of the sessions.")]
SessionArgument: TypeAlias = Annotated[str, typer.Argument(help="The session.", autocompletion=complete_session_ids, metavar="SESSION")]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
