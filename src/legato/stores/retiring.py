"""Retiring sessions that were not used for long.

A session is deleted together with its child sessions, in one transaction, once all of them are in the archive, if there is one, and only
if they are still as they were then: no driver has the session, and nothing was appended to any of them. What forks share stays with
them. So retiring can be interrupted at any point and repeated.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from msgspec import Struct

from legato.errors import BadInput, LedgerConflict, UnknownLedger
from legato.stores.contract import LedgerInfo, Store, is_store
from legato.stores.copying import ALL, Copier, Progress, families

ARCHIVE = "archive.db"
"""The name of an archive's file, where a folder was given."""


class Retired(Struct, frozen=True):
    """What became of the sessions that are old enough: `retired` are gone (with `dry_run`: would be), `archived` of them were copied.

    `busy`: somebody drives them, or they have grown meanwhile. `diverged`: the archive has another session of that name. Both stay.
    `dry`: nothing was done.
    """

    retired: tuple[str, ...] = ()
    archived: int = 0
    busy: tuple[str, ...] = ()
    diverged: tuple[str, ...] = ()
    dry: bool = False

    def __str__(self) -> str:
        if self.dry:
            return f"{len(self.retired)} sessions would be retired"
        told = f"{len(self.retired)} sessions retired, {self.archived} of them archived"
        stay = [f"{len(names)} stay: {why}" for names, why in ((self.busy, "in use"), (self.diverged, "the archive has others")) if names]
        return "; ".join([told, *stay])


async def retire(
    store: Store,
    older_than: timedelta | float,
    *,
    archive: Store | str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Retired:
    """Delete the sessions to which nothing was appended for so long (a `timedelta`, or days), after copying them to an archive.

        await retire(store, timedelta(days=90), archive="archive.db")

    `archive` is a store, what `open_store` takes, or a folder, in which it is the file `archive.db` (a path
    without an ending is a folder, which is made if it is not there); None: they are deleted for good.
    Child sessions (of agents that worked as tools) go with the session that they worked for. Bring one back with `copy`.
    """
    days = older_than.total_seconds() / 86400 if isinstance(older_than, timedelta) else older_than
    if isinstance(days, bool) or not isinstance(days, (int, float)) or not days > 0:
        raise BadInput("older_than is a timedelta, or a number of days above 0", found=repr(older_than)[:80])
    before = time.time() * 1000 - days * 86_400_000
    old = [family for family in families(await store.list(ALL)) if _is_old(family, before)]
    if dry_run:
        return Retired(retired=tuple(info.ledger for family in old for info in family), dry=True)
    async with _opened(archive) as target:
        return await _Retiring(store, target).all(old, progress)


def _is_old(family: list[LedgerInfo], before: float) -> bool:
    """Whether nothing was appended since to a session, nor to any of its child sessions."""
    return all(info.updated < before and not info.damaged for info in family)


@asynccontextmanager
async def _opened(archive: Store | str | os.PathLike[str] | None) -> AsyncIterator[Store | None]:
    """The archive; closed again, if it was opened here."""
    if not isinstance(archive, (str, os.PathLike)):
        if archive is not None and not is_store(archive):
            raise BadInput("an archive is a store, or the path or URL of one", found=type(archive).__name__)
        yield archive
        return
    from legato.stores.opening import open_store

    store = open_store(_file_in(os.fspath(archive)))
    try:
        yield store
    finally:
        await store.close()


def _file_in(where: str) -> str:
    """The file in a folder, where one was given: one that is there, or a path that is written as folders are, without an ending."""
    path = Path(where)
    if "://" in where or path.is_file() or not (path.is_dir() or where.endswith(os.sep) or not path.suffix):
        return where
    path.mkdir(parents=True, exist_ok=True)
    return str(path / ARCHIVE)


class _Retiring:
    """One store, one archive."""

    def __init__(self, store: Store, archive: Store | None) -> None:
        self._store = store
        self._copier = Copier(store, archive) if archive is not None else None
        self._retired: list[str] = []
        self._busy: list[str] = []

    async def all(self, old: list[list[LedgerInfo]], progress: Progress | None) -> Retired:
        for number, family in enumerate(old):
            if progress is not None:
                progress(number, len(old), family[0].ledger)
            await self._family(family)
        if progress is not None:
            progress(len(old), len(old), "")
        scrub = getattr(self._store, "scrub", None)
        if self._retired and scrub is not None:
            await scrub()  # the bytes go too
        diverged = tuple(self._copier.diverged) if self._copier else ()
        return Retired(tuple(self._retired), len(self._retired) if self._copier else 0, tuple(self._busy), diverged)

    async def _family(self, family: list[LedgerInfo]) -> None:
        name = family[0].ledger
        lease = await self._store.lease(name)
        if lease is None:
            self._busy.append(name)
            return
        try:
            born = await self._store.born(name)
            if self._copier is not None:
                await self._copier.bring(family)
                if any(info.ledger in self._copier.diverged for info in family):
                    return
            # Whatever was appended since they were listed may not be in the archive: then they stay.
            if await self._store.delete(name, expected={info.ledger: info.length for info in family}, born=born):
                self._retired.extend(info.ledger for info in family)
        except (LedgerConflict, UnknownLedger):
            self._busy.append(name)
        finally:
            await self._store.release(lease)
