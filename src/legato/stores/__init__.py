"""Where ledgers are kept: in memory, or in a SQLite file. `contract.py` says what every store promises."""

from legato.stores.contract import Lease, LedgerInfo, Store
from legato.stores.memory import MemoryStore
from legato.stores.sqlite import SQLiteStore

__all__ = ["Lease", "LedgerInfo", "MemoryStore", "SQLiteStore", "Store"]
