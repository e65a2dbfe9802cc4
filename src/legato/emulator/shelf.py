"""What the emulated provider holds, in memory or in a file. May know: SQLite. Decides: nothing; it keeps and finds.

One table: whose it is, what kind of thing, its id, and the thing as JSON. In a file it survives a restart of the emulator.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from legato.errors import BadInput
from legato.private_files import create_private


class Shelf:
    """Things by account, kind and id.

    >>> shelf = Shelf()
    >>> shelf.put("org-1", "response", "resp_1", {"status": "completed"})
    >>> shelf.get("org-1", "response", "resp_1")
    {'status': 'completed'}
    >>> shelf.get("org-2", "response", "resp_1") is None
    True
    """

    def __init__(self, path: str | Path | None = None) -> None:
        base: sqlite3.Connection | None = None
        try:
            if path:
                create_private(path)
            self._base = base = sqlite3.connect(str(path) if path else ":memory:", isolation_level=None, check_same_thread=False)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS held (account TEXT, kind TEXT, id TEXT, thing BLOB, PRIMARY KEY (account, kind, id))"
            )
            self._base.execute("SELECT account, kind, id, thing FROM held LIMIT 0")
        except sqlite3.Error as error:
            if base is not None:
                base.close()
            raise BadInput(
                "the emulator's state file cannot be used", found=f"{path}: {error}", do="name a file that an emulator made, or a new one"
            ) from error

    def put(self, account: str, kind: str, id: str, thing: dict[str, Any]) -> None:
        """Keep a thing, in place of what had the same id."""
        self._base.execute("INSERT OR REPLACE INTO held VALUES (?, ?, ?, ?)", (account, kind, id, msgspec.json.encode(thing)))

    def get(self, account: str, kind: str, id: str) -> dict[str, Any] | None:
        """The thing of that id, if this account has it."""
        try:
            row = self._base.execute("SELECT thing FROM held WHERE account = ? AND kind = ? AND id = ?", (account, kind, id)).fetchone()
            thing: dict[str, Any] | None = msgspec.json.decode(row[0], type=dict[str, Any]) if row else None
        except (sqlite3.DatabaseError, msgspec.MsgspecError, UnicodeError, TypeError) as error:
            raise damaged(kind, id, error) from error
        return thing

    def delete(self, account: str, kind: str, id: str) -> bool:
        """Forget a thing. False if there was none."""
        return self._base.execute("DELETE FROM held WHERE account = ? AND kind = ? AND id = ?", (account, kind, id)).rowcount > 0

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()


def damaged(kind: str, id: str, error: Exception) -> BadInput:
    """What is told about a thing that is not as it was put there."""
    return BadInput(f"the state file is damaged: the {kind} {id!r} cannot be read", found=str(error), do="begin with a new state file")
