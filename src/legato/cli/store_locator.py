"""The store of a command, and the sessions in it.

A command uses `--store` or LEGATO_STORE; else the store that its workflow was built with; else a SQLite file of the user's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from legato.errors import BadInput, UnknownLedger

if TYPE_CHECKING:
    from legato.runtime.session import Session
    from legato.stores import Store
    from legato.workflow.workflow import Workflow


def default_store_path(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return the user's own SQLite file, in the folder that this system has for application data.

    >>> default_store_path({"XDG_DATA_HOME": "/data"}, "linux").as_posix()
    '/data/legato/sessions.sqlite'
    """
    if platform == "win32":
        folder = Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    else:
        folder = Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return folder / "legato" / "sessions.sqlite"


def parse_sqlite_path(url: str) -> Path | None:
    """Return the SQLite file of a URL or path; None if the URL is of another kind.

    >>> urls = ("a.db", "sqlite:a.db", "sqlite:////var/a.db", "postgres://x")
    >>> [(path := parse_sqlite_path(url)) and path.as_posix() for url in urls]
    ['a.db', 'a.db', '/var/a.db', None]
    """
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", url)  # a single letter is a drive
    if scheme and scheme[1].lower() != "sqlite":
        return None
    return Path(url[len(scheme[0]) :].removeprefix("///") if scheme else url).expanduser()


def open_store_at(url: str, *, create: bool = False) -> Store:
    """Open the store of a URL or path. A missing file is an error unless `create`: a mistyped path must not look like an empty store."""
    from legato import stores

    path = parse_sqlite_path(url)
    if path is not None and path.name:
        if not create and not path.exists():
            raise BadInput(f"there is no store {path}", do="name it with --store PATH or LEGATO_STORE; `legato chat` creates one")
        return stores.SQLiteStore(path)
    return stores.open_store(url)


def resolve_store_url(store_option: str, workflow: Workflow | None = None) -> str:
    """Return the URL or path of the store to open; empty if it is the workflow's own."""
    if store_option:
        return store_option
    if workflow is not None and workflow.store is not None:
        return ""
    return str(default_store_path())


def hide_password(url: str) -> str:
    """Return a store's URL without its password.

    >>> hide_password("postgresql://desk:secret@localhost/desk?password=x")
    'postgresql://desk@localhost/desk'
    """
    if "://" not in url or parse_sqlite_path(url) is not None:
        return url
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}"


class OpenedStore:
    """An open store with its name, and the workflow of its sessions, if the command named one."""

    def __init__(self, store: Store, name: str, workflow: Workflow | None) -> None:
        self.store = store
        self.name = name
        self.workflow = workflow

    def is_workflow(self, workflow: str) -> bool:
        """Return True if this is the name of the command's workflow."""
        return self.workflow is not None and self.workflow.name == workflow

    async def find_session(self, id: str, *, any_workflow: bool = False) -> Session:
        """Return a session that exists; `UnknownLedger` if it does not: a mistyped id must not begin a new session.

        `any_workflow`: a session of another workflow than the command's is read with one rebuilt from its ledger, and not refused.
        """
        from legato.inspection.workflow_from_ledger import rebuild_workflow
        from legato.stores.contract import read_with_identity

        _, facts = await read_with_identity(self.store, id)
        if not facts:
            similar_ids = [info.ledger for info in await self.store.list() if info.ledger.startswith(id[:4])][:3]
            hint = f"; similar ids: {', '.join(similar_ids)}" if similar_ids else ""
            raise UnknownLedger(
                f"there is no session {id!r}", found=f"looked in {self.name}{hint}", do="list the sessions with `legato ls`"
            )
        recorded = rebuild_workflow(facts)
        named = self.workflow if not any_workflow or self.is_workflow(recorded.name) else None
        return await (named or recorded).session(id, store=self.store).refresh()

    async def generate_session_id(self, like: str) -> str:
        """Return an unused session id that begins like this one."""
        from legato.runtime.clock import new_id_like

        while True:
            id = new_id_like(like)
            if not await self.store.ledger_id(id) and not await self.store.read(id):
                return id


def open_by_options(store_option: str, workflow: str, tenant: str = "") -> AbstractAsyncContextManager[OpenedStore]:
    """Open the store of a command that reads existing sessions, from its options `--store`, `--workflow` and `--tenant`."""
    from legato.cli.workflow_loader import load_workflow

    return open_located_store(store_option, load_workflow(workflow) if workflow else None, tenant=tenant)


@asynccontextmanager
async def open_located_store(
    store_option: str, workflow: Workflow | None = None, *, create: bool = False, tenant: str = ""
) -> AsyncIterator[OpenedStore]:
    """Open the store of a command, and close it at the end."""
    url = resolve_store_url(store_option, workflow)
    if url:
        if create and not store_option:
            default_store_path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = open_store_at(url, create=create)
    else:
        assert workflow is not None and workflow.store is not None
        store = workflow.store
    try:
        name = hide_password(url) if url else f"the workflow's own store, {store!r}"
        yield OpenedStore(store.tenant(tenant) if tenant else store, f"{name}, tenant {tenant}" if tenant else name, workflow)
    finally:
        await store.close()
