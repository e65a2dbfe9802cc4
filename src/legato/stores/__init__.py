"""Where ledgers are kept: in memory, or in a SQLite file. `contract.py` says what every store promises.

`SQLiteStore` is imported when it is first used: most of what it needs (sqlite3, threads, locks) nobody else does.
"""

from typing import TYPE_CHECKING

from legato.stores.contract import Lease, LedgerInfo, Store
from legato.stores.memory import MemoryStore

if TYPE_CHECKING:
    from legato.stores.sqlite import SQLiteStore

__all__ = ["Lease", "LedgerInfo", "MemoryStore", "SQLiteStore", "Store"]


def __getattr__(name: str) -> object:
    if name != "SQLiteStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from legato.stores.sqlite import SQLiteStore

    globals()[name] = SQLiteStore
    return SQLiteStore


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
