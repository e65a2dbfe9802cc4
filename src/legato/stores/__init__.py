"""Stores of ledgers: in memory, in a SQLite file, or in Postgres. `contract.py` has the rules that every store keeps.

Only the memory store is imported at once. The others are imported at their first use: no other part of Legato needs sqlite3 or psycopg.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from legato.errors import BadInput, install_hint
from legato.stores.contract import Lease, LedgerInfo, Store
from legato.stores.memory import MemoryStore

if TYPE_CHECKING:
    from legato.stores.postgres.store import PostgresStore
    from legato.stores.retirement import retire
    from legato.stores.session_copy import copy
    from legato.stores.sqlite.store import SQLiteStore
    from legato.stores.store_urls import open_store

__all__ = ["Lease", "LedgerInfo", "MemoryStore", "PostgresStore", "SQLiteStore", "Store", "copy", "open_store", "retire"]

_MODULES = {
    "PostgresStore": "postgres.store",
    "SQLiteStore": "sqlite.store",
    "open_store": "store_urls",
    "copy": "session_copy",
    "retire": "retirement",
}
"""The module of each name that is imported at its first use."""


if not TYPE_CHECKING:  # a type checker would accept any name as an attribute of this package

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value: object = getattr(import_module(f"legato.stores.{_MODULES[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name != "psycopg":
                raise
            raise BadInput("PostgresStore needs the package 'psycopg'", do=install_hint("postgres")) from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
