"""Retirement of old sessions: they are archived, then deleted.

A session is deleted together with its child sessions, in one transaction, once all of them are in the archive (if there is one), and only
if they are unchanged since: no driver has the session, and nothing was appended to any of them. Facts that forks share stay in the forks.
So a retirement can be interrupted at any point and repeated.
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
from legato.stores.session_copy import MAX_SESSIONS, Progress, SessionCopier, group_session_trees

ARCHIVE_FILE_NAME = "archive.db"
"""The name of an archive's file where the archive is a folder."""


class RetirementReport(Struct, frozen=True):
    """The result of a retirement: `retired` sessions were deleted (with `is_dry_run`: would be), `archived` counts those that were copied.

    `busy` sessions have a driver or have grown meanwhile. `diverged`: the archive has another session of that name. Both are kept.
    """

    retired: tuple[str, ...] = ()
    archived: int = 0
    busy: tuple[str, ...] = ()
    diverged: tuple[str, ...] = ()
    is_dry_run: bool = False

    def __str__(self) -> str:
        if self.is_dry_run:
            return f"{len(self.retired)} sessions would be retired"
        summary = f"{len(self.retired)} sessions retired, {self.archived} of them archived"
        reasons = ((self.busy, "in use"), (self.diverged, "the archive has other versions"))
        return "; ".join([summary, *(f"{len(names)} kept: {reason}" for names, reason in reasons if names)])


async def retire(
    store: Store,
    older_than: timedelta | float,
    *,
    archive: Store | str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RetirementReport:
    """Delete the sessions without appends for this time (a `timedelta`, or days), after copying them to an archive.

        await retire(store, timedelta(days=90), archive="archive.db")

    `archive` is a store, a URL or path for `open_store`, or a folder that gets a file `archive.db` (a path without a suffix is a folder;
    it is created if it is missing). None: the sessions are deleted for good.
    Child sessions (of agents that worked as tools) are retired with their parent session. `copy` restores a session from an archive.
    """
    days = older_than.total_seconds() / 86400 if isinstance(older_than, timedelta) else older_than
    if isinstance(days, bool) or not isinstance(days, (int, float)) or not days > 0:
        raise BadInput("older_than is a timedelta, or a number of days above 0", found=repr(older_than)[:80])
    before = time.time() * 1000 - days * 86_400_000
    old_trees = [tree for tree in group_session_trees(await store.list(MAX_SESSIONS)) if _is_old(tree, before)]
    if dry_run:
        return RetirementReport(retired=tuple(info.ledger for tree in old_trees for info in tree), is_dry_run=True)
    async with _open_archive(archive) as target:
        return await _Retirement(store, target).run(old_trees, progress)


def _is_old(tree: list[LedgerInfo], before: float) -> bool:
    """Return True if nothing was appended to a session or its child sessions since."""
    return all(info.updated_at < before and not info.damage for info in tree)


@asynccontextmanager
async def _open_archive(archive: Store | str | os.PathLike[str] | None) -> AsyncIterator[Store | None]:
    """Open the archive, and close it again unless it is the caller's own store."""
    if not isinstance(archive, (str, os.PathLike)):
        if archive is not None and not is_store(archive):
            raise BadInput("an archive is a store, or the path or URL of a store", found=type(archive).__name__)
        yield archive
        return
    from legato.stores.store_urls import open_store

    store = open_store(_resolve_archive_path(os.fspath(archive)))
    try:
        yield store
    finally:
        await store.close()


def _resolve_archive_path(where: str) -> str:
    """Return the path of the archive's file. A path is a folder if a folder is there, or if it has no suffix."""
    path = Path(where)
    if "://" in where or path.is_file() or not (path.is_dir() or where.endswith(os.sep) or not path.suffix):
        return where
    path.mkdir(parents=True, exist_ok=True)
    return str(path / ARCHIVE_FILE_NAME)


class _Retirement:
    """One retirement, from one store into one archive."""

    def __init__(self, store: Store, archive: Store | None) -> None:
        self._store = store
        self._copier = SessionCopier(store, archive) if archive is not None else None
        self._retired: list[str] = []
        self._busy: list[str] = []

    async def run(self, old_trees: list[list[LedgerInfo]], progress: Progress | None) -> RetirementReport:
        for number, tree in enumerate(old_trees):
            if progress is not None:
                progress(number, len(old_trees), tree[0].ledger)
            await self._retire_tree(tree)
        if progress is not None:
            progress(len(old_trees), len(old_trees), "")
        scrub = getattr(self._store, "scrub", None)
        if self._retired and scrub is not None:
            await scrub()  # removes the bytes from the file too
        diverged = tuple(self._copier.diverged) if self._copier else ()
        return RetirementReport(tuple(self._retired), len(self._retired) if self._copier else 0, tuple(self._busy), diverged)

    async def _retire_tree(self, tree: list[LedgerInfo]) -> None:
        name = tree[0].ledger
        lease = await self._store.lease(name)
        if lease is None:
            self._busy.append(name)
            return
        try:
            ledger_id = await self._store.ledger_id(name)
            if self._copier is not None:
                await self._copier.copy_tree(tree)
                if any(info.ledger in self._copier.diverged for info in tree):
                    return
            # Facts that were appended after the listing may not be in the archive: then the sessions are kept.
            if await self._store.delete(name, expected={info.ledger: info.length for info in tree}, ledger_id=ledger_id):
                self._retired.extend(info.ledger for info in tree)
        except (LedgerConflict, UnknownLedger):
            self._busy.append(name)
        finally:
            await self._store.release(lease)
