"""Where ledgers are kept: in memory, in a SQLite file, or in Postgres. `contract.py` says what every store promises.

What is not in memory is imported when it is first used: most of what it needs (sqlite3, psycopg, threads, locks) nobody else does.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from legato.errors import BadInput, install_hint
from legato.stores.contract import Lease, LedgerInfo, Store
from legato.stores.memory import MemoryStore

if TYPE_CHECKING:
    from legato.stores.copying import copy
    from legato.stores.opening import open_store
    from legato.stores.postgres import PostgresStore
    from legato.stores.retiring import retire
    from legato.stores.sqlite import SQLiteStore

__all__ = ["Lease", "LedgerInfo", "MemoryStore", "PostgresStore", "SQLiteStore", "Store", "copy", "open_store", "retire"]

_LATER = {"PostgresStore": "postgres", "SQLiteStore": "sqlite", "open_store": "opening", "copy": "copying", "retire": "retiring"}


if not TYPE_CHECKING:  # a type checker would take any name for one that is found here

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            found: object = getattr(import_module(f"legato.stores.{_LATER[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name != "psycopg":
                raise
            raise BadInput("PostgresStore needs the package 'psycopg'", do=install_hint("postgres")) from None
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
