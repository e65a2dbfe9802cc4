"""The storage of the emulated provider, in memory or in a file.

One table: account, kind, id, and the object as JSON. A file survives a restart of the emulator.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from legato.errors import BadInput
from legato.private_files import create_private_file


class ProviderStorage:
    """JSON objects by account, kind and id.

    >>> storage = ProviderStorage()
    >>> storage.put("org-1", "response", "resp_1", {"status": "completed"})
    >>> storage.get("org-1", "response", "resp_1")
    {'status': 'completed'}
    >>> storage.get("org-2", "response", "resp_1") is None
    True
    """

    def __init__(self, path: str | Path | None = None) -> None:
        connection: sqlite3.Connection | None = None
        try:
            if path:
                create_private_file(path)
            self._connection = connection = sqlite3.connect(
                str(path) if path else ":memory:", isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS held (account TEXT, kind TEXT, id TEXT, thing BLOB, PRIMARY KEY (account, kind, id))"
            )
            self._connection.execute("SELECT account, kind, id, thing FROM held LIMIT 0")
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise BadInput(
                "the emulator's state file cannot be used", found=f"{path}: {error}", do="name a file that an emulator made, or a new one"
            ) from error

    def put(self, account: str, kind: str, id: str, value: dict[str, Any]) -> None:
        """Store an object, in place of one with the same id."""
        self._connection.execute("INSERT OR REPLACE INTO held VALUES (?, ?, ?, ?)", (account, kind, id, msgspec.json.encode(value)))

    def get(self, account: str, kind: str, id: str) -> dict[str, Any] | None:
        """Return the object with that id, or None if the account has none."""
        try:
            row = self._connection.execute(
                "SELECT thing FROM held WHERE account = ? AND kind = ? AND id = ?", (account, kind, id)
            ).fetchone()
            value: dict[str, Any] | None = msgspec.json.decode(row[0], type=dict[str, Any]) if row else None
        except (sqlite3.DatabaseError, msgspec.MsgspecError, UnicodeError, TypeError) as error:
            raise make_damage_error(kind, id, error) from error
        return value

    def delete(self, account: str, kind: str, id: str) -> bool:
        """Delete an object. False if there was none."""
        return self._connection.execute("DELETE FROM held WHERE account = ? AND kind = ? AND id = ?", (account, kind, id)).rowcount > 0

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def make_damage_error(kind: str, id: str, error: Exception) -> BadInput:
    """Return the error for a stored object that is damaged."""
    return BadInput(f"the state file is damaged: the {kind} {id!r} cannot be read", found=str(error), do="begin with a new state file")
