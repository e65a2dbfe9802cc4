"""`legato redact`, `legato retire` and `legato copy`. May know: stores. Decides: how a time is written, and what is shown."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from legato.cli.options import Json, SessionId, Stored, Tenant
from legato.errors import BadInput

if TYPE_CHECKING:
    from legato.stores import Store

T = TypeVar("T")
_UNITS = {"m": 1 / 1440, "h": 1 / 24, "d": 1.0, "w": 7.0, "y": 365.0}


def redact(
    session: SessionId,
    position: Annotated[list[int] | None, typer.Option(help="The position of a fact whose words go. May be given again.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All words of the conversation.")] = False,
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")] = "",
    by: Annotated[str, typer.Option(help="Who asked for it; it is recorded.")] = "",
    frames: Annotated[bool, typer.Option(help="Also the instructions of every turn that saw the words.")] = False,
    store: Stored = "",
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Erase words of a session, for good, in every fork that shares them.

    The facts stay where they are, and agents see "[erased on request]" in their place. Shown is what went along, where the words are still
    quoted, and who else may hold them. The key proves later what was erased; it is shown once, and kept nowhere.

    \b
    legato redact customer-42 --position 1 --reason "asked for by the customer" --store desk.db
    legato redact customer-42 --all --store desk.db
    """
    from legato.cli.telling import write_json
    from legato.runtime.erasure import redact as erase

    if everything == bool(position):
        raise BadInput("say what to erase", expected="--position N, or --all")
    chosen = None if everything else position
    done = _with(store, tenant, lambda opened: erase(opened, session, chosen, reason=reason, by=by, frames=frames))
    if as_json:
        write_json(done)
        return
    if not done.positions:
        typer.echo("nothing to erase: the words are gone already")
        return
    typer.echo(f"erased in {session!r}: position {_list(done.positions)}")
    for name, values in (("along with it", done.along), ("also in", done.forks), ("still quoted at", done.quoted)):
        if values:
            typer.echo(f"  {name:16} {_list(values)}")
    for name, values in (("look at", done.nested), ("delete there", done.providers)):
        if values:
            typer.echo(f"  {name:16} {_list(values)}")
    typer.echo(f"  {'key':16} {done.key}")


def retire_(
    older_than: Annotated[str, typer.Option(help="Since when nothing was appended: 90m, 36h, 90d, 12w, 2y.")],
    archive: Annotated[str, typer.Option(help="Where they are kept: a folder, a path, or the URL of a store. Without: nowhere.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    store: Stored = "",
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Delete sessions that nobody has used for long, after copying them to an archive.

    One that somebody drives, or that grows meanwhile, stays. Child sessions (of agents that worked as tools) are archived and deleted with
    their session. What forks share stays with them. It may be stopped at any point and asked again. Bring a session back with `legato
    copy`.

    \b
    legato retire --older-than 90d --archive /var/archive --store desk.db
    """
    from legato.cli.telling import write_json
    from legato.inspection.plain import counted, harmless
    from legato.stores import retire

    age = _age(older_than)
    done = _with(store, tenant, lambda opened: retire(opened, age, archive=archive or None, dry_run=dry_run, progress=_progress()))
    if as_json:
        write_json(done)
    elif dry_run:
        typer.echo("\n".join([*map(harmless, done.retired), f"{counted(len(done.retired), 'session')} would be retired"]))
    else:
        typer.echo(str(done))
    if done.diverged:
        typer.echo(f"not retired, because the archive has another session of that name: {_list(done.diverged)}", err=True)
        raise typer.Exit(1)


def copy_(
    source: Annotated[str, typer.Argument(help="A store: a path, sqlite:///path, or postgresql://...")],
    target: Annotated[str, typer.Argument(help="Another.")],
    session: Annotated[list[str] | None, typer.Option(help="Only this session. May be given again.")] = None,
    tenant: Annotated[str, typer.Option(help="Whose sessions, in both: those of this tenant.")] = "",
    as_json: Json = False,
) -> None:
    """Copy sessions from one store to another, each fact once.

    Ids, positions and birth names stay the same, forks share what they shared, child sessions and contents come along, and so does what was
    erased. It may be stopped at any point and asked again, and brings then what is missing or new.

    \b
    legato copy desk.db postgresql://desk@db.example.com/desk
    legato copy archive.db desk.db --session customer-42
    """
    from legato.cli.telling import write_json
    from legato.stores import copy

    async def both(opened: Store) -> object:
        async with _opened(target, tenant, make=True) as other:
            return await copy(opened, other, sessions=session or None, progress=_progress())

    done = _with(source, tenant, both)
    if as_json:
        write_json(done)
    else:
        typer.echo(str(done))


def _with(url: str, tenant: str, doing: Callable[[Store], Awaitable[T]]) -> T:
    if not url:
        raise BadInput("say where the sessions are", expected="--store, or LEGATO_STORE")

    async def run() -> T:
        async with _opened(url, tenant) as store:
            return await doing(store)

    return asyncio.run(run())


@asynccontextmanager
async def _opened(url: str, tenant: str, *, make: bool = False) -> AsyncIterator[Store]:
    from legato.cli.places import opened

    store = opened(url, make=make)
    try:
        yield store.tenant(tenant) if tenant else store
    finally:
        await store.close()


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdwy])", text)
    if found is None:
        raise BadInput(f"{text!r} is no time", expected="a number and m, h, d, w or y: 90d")
    if not float(found[1]):
        raise BadInput(f"{text!r} would be every session", expected="a number above 0")
    return timedelta(days=float(found[1]) * _UNITS[found[2]])


def _progress() -> Callable[[int, int, str], None] | None:
    """A line that is written over, for people who watch."""
    if not sys.stderr.isatty():
        return None
    from legato.inspection.plain import one_line

    def show(done: int, total: int, session: str) -> None:
        told = f"{done}/{total} {one_line(session)}" if session else ""
        typer.echo(f"\r\x1b[K{told}", err=True, nl=False)

    return show


def _list(values: tuple[object, ...]) -> str:
    from legato.inspection.plain import harmless

    return ", ".join(harmless(str(value)) for value in values)
