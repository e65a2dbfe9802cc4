"""Stores by URL or path, as commands and settings name them."""

from __future__ import annotations

import re

from legato.errors import BadInput
from legato.stores.contract import Store
from legato.stores.memory import MemoryStore

_URL_FORMS = "postgresql://user@host/database, sqlite:///path, a path, or memory:"


def open_store(url: str, *, lease_seconds: float | None = None) -> Store:
    """Return the store at a URL or a path; the caller closes it. `lease_seconds` is an option of `PostgresStore` alone.

    >>> open_store("memory:")
    <MemoryStore: 0 ledgers>
    >>> open_store("sqlite:////var/lib/desk.db")
    SQLiteStore('/var/lib/desk.db', durability='effects')
    >>> open_store("postgresql://desk:secret@localhost/desk")
    PostgresStore('postgresql://desk@localhost/desk')

    The path follows `sqlite:///`, so an absolute path has a fourth slash. `sqlite:path` means the same as the path.
    """
    if not isinstance(url, str) or not url.strip():
        raise BadInput("a store is named by a URL or a path", expected=_URL_FORMS, found=type(url).__name__ if url else repr(url))
    scheme = match[1].lower() if (match := re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", url)) else ""
    if scheme in ("postgres", "postgresql"):
        from legato.stores import PostgresStore

        dsn = scheme + url[len(scheme) :]
        return PostgresStore(dsn) if lease_seconds is None else PostgresStore(dsn, lease_seconds=lease_seconds)
    if lease_seconds is not None:
        raise BadInput("only Postgres has lease_seconds", do="leave it out: leases in a file or in memory end with their process")
    if url == "memory:":
        return MemoryStore()
    if scheme and scheme != "sqlite":
        raise BadInput(f"there is no kind of store named {scheme!r}", expected=_URL_FORMS)  # the rest of it may hold a password
    path = url[len(scheme) :].removeprefix(":///").removeprefix(":")
    if "//" in path or re.match("postgres(ql)?/", path):  # a URL that lost its colon would become an empty file
        raise BadInput("this is neither a URL nor a path", expected=_URL_FORMS)
    from legato.stores import SQLiteStore

    return SQLiteStore(path)
