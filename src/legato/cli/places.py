"""Where sessions are. May know: stores, the environment. Decides: which store a verb looks into, and what an id that is not there means.

In this order: `--store` or LEGATO_STORE, which somebody named; the store that the workflow was built with; a SQLite file of the user's.
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


def default_path(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """The user's own file, where this system keeps a program's data.

    >>> default_path({"XDG_DATA_HOME": "/data"}, "linux").as_posix()
    '/data/legato/sessions.sqlite'
    """
    if platform == "win32":
        folder = Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    else:
        folder = Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return folder / "legato" / "sessions.sqlite"


def sqlite_path(url: str) -> Path | None:
    """The file that a URL or a path means; None if it means something else.

    >>> [sqlite_path(each) and sqlite_path(each).as_posix() for each in ("a.db", "sqlite:a.db", "sqlite:////var/a.db", "postgres://x")]
    ['a.db', 'a.db', '/var/a.db', None]
    """
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", url)  # one letter is a drive
    if scheme and scheme[1].lower() != "sqlite":
        return None
    return Path(url[len(scheme[0]) :].removeprefix("///") if scheme else url).expanduser()


def opened(url: str, *, make: bool = False) -> Store:
    """The store that a URL or a path means. A file that is not there is made only if `make` says so: a mistyped path is no empty store."""
    from legato import stores

    path = sqlite_path(url)
    if path is not None and path.name:
        if not make and not path.exists():
            raise BadInput(f"there is no store {path}", do="say which: --store PATH, or LEGATO_STORE; `legato chat` makes one")
        return stores.SQLiteStore(path)
    return stores.open_store(url)


def store_url(given: str, workflow: Workflow | None = None) -> str:
    """What `opened` opens; empty if it is the workflow's own."""
    if given:
        return given
    if workflow is not None and workflow.store is not None:
        return ""
    return str(default_path())


def shown_url(url: str) -> str:
    """A store's name as it may be shown: never with a password.

    >>> shown_url("postgresql://desk:secret@localhost/desk?password=x")
    'postgresql://desk@localhost/desk'
    """
    if "://" not in url or sqlite_path(url) is not None:
        return url
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}"


class Place:
    """An open store, and the workflow whose sessions are looked at, if one was named."""

    def __init__(self, store: Store, name: str, workflow: Workflow | None) -> None:
        self.store = store
        self.name = name
        self.workflow = workflow

    def is_named(self, workflow: str) -> bool:
        """Whether this is the name of the workflow that was named."""
        return self.workflow is not None and self.workflow.name == workflow

    async def session(self, id: str, *, of_any: bool = False) -> Session:
        """A handle on a session that is there. `UnknownLedger` if it is not: a mistyped id is no new session here.

        `of_any`: sessions of other workflows than the one that was named are read as they are recorded, and not refused.
        """
        from legato.inspection.recorded import as_recorded
        from legato.stores.contract import read_with_identity

        _, facts = await read_with_identity(self.store, id)
        if not facts:
            near = [info.ledger for info in await self.store.list() if info.ledger.startswith(id[:4])][:3]
            like = f"; like it: {', '.join(near)}" if near else ""
            raise UnknownLedger(f"there is no session {id!r}", found=f"looked in {self.name}{like}", do="look at `legato ls`")
        recorded = as_recorded(facts)
        named = self.workflow if not of_any or self.is_named(recorded.name) else None
        return await (named or recorded).session(id, store=self.store).refresh()

    async def free_id(self, like: str) -> str:
        """An id that nobody has."""
        from legato.runtime.clock import fresh_like

        while True:
            id = fresh_like(like)
            if not await self.store.born(id) and not await self.store.read(id):
                return id


def looked_into(given: str, workflow: str, tenant: str = "") -> AbstractAsyncContextManager[Place]:
    """The place of a verb that looks at what is there: `--store`, `--workflow` and `--tenant`, as they were typed."""
    from legato.cli.naming import workflow_named

    return place(given, workflow_named(workflow) if workflow else None, tenant=tenant)


@asynccontextmanager
async def place(given: str, workflow: Workflow | None = None, *, make: bool = False, tenant: str = "") -> AsyncIterator[Place]:
    """The place that a verb works in, closed at the end."""
    url = store_url(given, workflow)
    if url:
        if make and not given:
            default_path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = opened(url, make=make)
    else:
        assert workflow is not None and workflow.store is not None
        store = workflow.store
    try:
        name = shown_url(url) if url else f"the workflow's own store, {store!r}"
        yield Place(store.tenant(tenant) if tenant else store, f"{name}, tenant {tenant}" if tenant else name, workflow)
    finally:
        await store.close()
