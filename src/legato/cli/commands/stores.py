"""`legato redact`, `legato retire` and `legato copy`: maintenance of stores."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from legato.cli.options import JsonOption, SessionArgument, StoreOption, TenantOption
from legato.errors import BadInput

if TYPE_CHECKING:
    from legato.cli.store_locator import OpenedStore
    from legato.stores import Store

T = TypeVar("T")
_DAYS_PER_UNIT = {"m": 1 / 1440, "h": 1 / 24, "d": 1.0, "w": 7.0, "y": 365.0}


def redact(
    session: SessionArgument,
    position: Annotated[list[int] | None, typer.Option(help="The position of a fact whose text is erased. May be repeated.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Erase the whole conversation.")] = False,
    reason: Annotated[str, typer.Option(help="The reason, for the record.")] = "",
    by: Annotated[str, typer.Option(help="The person who asked for it, for the record.")] = "",
    frames: Annotated[bool, typer.Option(help="Erase the instructions of every turn that saw the text, too.")] = False,
    store: StoreOption = "",
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Erase text of a session permanently, also in every fork that shares it.

    The facts keep their positions, and agents see "[erased on request]" in place of the text. Prints what else was erased, where the text
    is still quoted, and who else may have it. The key can prove later what was erased; it is printed once and stored nowhere.

    \b
    legato redact customer-42 --position 1 --reason "asked for by the customer" --store desk.db
    legato redact customer-42 --all --store desk.db
    """
    from legato.cli.terminal import write_json
    from legato.runtime.erasure import redact_facts as erase

    if everything == bool(position):
        raise BadInput("the text to erase is not named", expected="--position N, or --all")
    positions = None if everything else position
    report = _run_with_store(store, tenant, lambda opened: erase(opened, session, positions, reason=reason, by=by, turn_contexts=frames))
    if as_json:
        write_json(report)
        return
    if not report.positions:
        typer.echo("nothing to erase: the text is erased already")
        return
    typer.echo(f"erased in {session!r}: position {_join(report.positions)}")
    for name, values in (("erased with it", report.derived), ("also in", report.forks), ("still quoted at", report.quoting)):
        if values:
            typer.echo(f"  {name:16} {_join(values)}")
    for name, values in (("look at", report.child_sessions), ("delete there", report.providers)):
        if values:
            typer.echo(f"  {name:16} {_join(values)}")
    typer.echo(f"  {'key':16} {report.key}")


def retire_sessions(
    older_than: Annotated[str, typer.Option(help="The minimum age of the last change: 90m, 36h, 90d, 12w, 2y.")],
    archive: Annotated[str, typer.Option(help="The archive: a folder, a path, or the URL of a store. Default: none.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    store: StoreOption = "",
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Delete sessions that have not changed for a long time, after copying them to an archive.

    A session that is being driven, or that changes meanwhile, stays. Child sessions (of agents that work as tools) are archived and deleted
    with their session. Facts that forks share stay readable in the forks. The command may be stopped at any point and repeated. Restore a
    session with `legato copy`.

    \b
    legato retire --older-than 90d --archive /var/archive --store desk.db
    """
    from legato.cli.terminal import write_json
    from legato.inspection.terminal_safe_text import escape_unprintable, format_count
    from legato.stores import retire

    age = _parse_age(older_than)
    report = _run_with_store(
        store, tenant, lambda opened: retire(opened, age, archive=archive or None, dry_run=dry_run, progress=_make_progress_line())
    )
    if as_json:
        write_json(report)
    elif dry_run:
        typer.echo(
            "\n".join([*map(escape_unprintable, report.retired), f"{format_count(len(report.retired), 'session')} would be retired"])
        )
    else:
        typer.echo(str(report))
    if report.diverged:
        typer.echo(f"not retired, because the archive has another session with that id: {_join(report.diverged)}", err=True)
        raise typer.Exit(1)


def copy_sessions(
    source: Annotated[str, typer.Argument(help="A store: a path, sqlite:///path, or postgresql://...")],
    target: Annotated[str, typer.Argument(help="Another store.")],
    session: Annotated[list[str] | None, typer.Option(help="Copy only this session. May be repeated.")] = None,
    tenant: Annotated[str, typer.Option(help="The tenant of the sessions, in both stores.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Copy sessions from one store to another, each fact once.

    Session ids, ledger ids and positions stay the same, and forks share the same facts. Child sessions, contents and erasures are copied,
    too. The command may be stopped at any point; repeated, it copies what is missing or new.

    \b
    legato copy desk.db postgresql://desk@db.example.com/desk
    legato copy archive.db desk.db --session customer-42
    """
    from legato.cli.terminal import write_json
    from legato.stores import copy

    async def copy_to_target(store: Store) -> object:
        async with _open_store(target, tenant, create=True) as opened:
            return await copy(store, opened.store, sessions=session or None, progress=_make_progress_line())

    report = _run_with_store(source, tenant, copy_to_target)
    if as_json:
        write_json(report)
    else:
        typer.echo(str(report))


def _run_with_store(url: str, tenant: str, action: Callable[[Store], Awaitable[T]]) -> T:
    async def run() -> T:
        async with _open_store(url, tenant) as opened:
            return await action(opened.store)

    return asyncio.run(run())


def _open_store(url: str, tenant: str, *, create: bool = False) -> AbstractAsyncContextManager[OpenedStore]:
    from legato.cli.store_locator import open_located_store

    if not url:
        raise BadInput("the store is not named", expected="a path or a URL; --store, or LEGATO_STORE")
    return open_located_store(url, tenant=tenant, create=create)


def _parse_age(text: str) -> timedelta:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdwy])", text)
    if match is None:
        raise BadInput(f"{text!r} is not an age", expected="a number and m, h, d, w or y: 90d")
    if not float(match[1]):
        raise BadInput(f"an age of {text!r} would retire every session", expected="a number above 0")
    return timedelta(days=float(match[1]) * _DAYS_PER_UNIT[match[2]])


def _make_progress_line() -> Callable[[int, int, str], None] | None:
    """Return a callback that prints progress in one line; None if standard error is not a terminal."""
    if not sys.stderr.isatty():
        return None
    from legato.inspection.terminal_safe_text import to_one_line

    def print_progress(count: int, total: int, session: str) -> None:
        text = f"{count}/{total} {to_one_line(session)}" if session else ""
        typer.echo(f"\r\x1b[K{text}", err=True, nl=False)

    return print_progress


def _join(values: tuple[object, ...]) -> str:
    from legato.inspection.terminal_safe_text import escape_unprintable

    return ", ".join(escape_unprintable(str(value)) for value in values)
