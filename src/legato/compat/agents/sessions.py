"""The SDK's sessions over Legato's append-only stores."""

from __future__ import annotations

import inspect
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from legato.compat.agents.conversation_storage import record_items, run_in_loop
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.items import TResponseInputItem
from legato.compat.agents.ledger_items import accepted_groups, input_list, list_attachment_digests
from legato.compat.agents.unsupported_errors import check_arguments, mirrors
from legato.compat.agents.workflow_builder import NAME
from legato.compat.gaps import explain
from legato.core.facts import Opened, Origin
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph
from legato.runtime.clock import new_id, now_ms
from legato.runtime.ledger import Ledger
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store

NOBODY = WorkflowGraph(NAME, {}, "assistant")
"""A workflow without agents: in their place it is recorded what was said elsewhere."""


@mirrors("SQLiteSession")
class SQLiteSession:
    """One conversation, kept in a file of Legato's (or, with ":memory:", as long as this object).

    The ledger owns the history; what this class reads and writes is a view of it.
    """

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: Any = None,
        *,
        store: Store | None = None,
    ) -> None:
        if (sessions_table, messages_table) != ("agent_sessions", "agent_messages"):
            explain("sessions_table and messages_table", "a Legato store has tables of its own")
        self.session_settings = session_settings
        if store is None:
            _check_not_theirs(Path(db_path), session_id, messages_table)
        self.session_id = session_id
        self.store: Store = store or (MemoryStore() if str(db_path) == ":memory:" else SQLiteStore(db_path))

    @property
    def session_settings(self) -> Any:
        """None: no settings of a session change what a model sees."""
        return None

    @session_settings.setter
    def session_settings(self, settings: Any) -> None:
        check_arguments("SQLiteSession", {"session_settings": settings})

    def __repr__(self) -> str:
        return f"<SQLiteSession {self.session_id!r} in {self.store!r}>"

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The conversation as items that are legal to send; with `limit`, the newest of them."""
        items = await items_of((await self._read()).state, self.store, self.session_id)
        return items if limit is None else items[len(items) - min(limit, len(items)) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Record what happened elsewhere: messages, whole replies, calls with their outputs."""
        if items:
            await record_items(self.store, self.session_id, items, NOBODY.start, NOBODY, "")

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest message, or the newest reply with its calls and their outputs, back: the conversation goes on from before it.

        Returns its last item. What was taken back stays in the store, under a name of its own.
        """
        state = (await self._read()).state
        groups = accepted_groups(state)
        if not groups:
            return None
        newest = groups[-1]
        if any(group.position > newest.position for group in groups):
            raise UserError("the newest message came while a call was pending, and cannot be taken back from behind it")
        items = await items_of(state, self.store, self.session_id)
        kept = f"{self.session_id[:300]}/{new_id()}"
        await self._fork(self.session_id, state.length, kept)
        await self.store.delete(self.session_id)
        if any(group.position < newest.position for group in groups):
            await self._fork(kept, newest.position, self.session_id)
        return items[-1]

    async def _fork(self, of: str, at: int, new: str) -> None:
        opened = Opened(at=now_ms(), ledger_id=new_id(), workflow=NAME, origin=Origin(of, at))
        await Ledger(self.store, of, NAME).fork(at, new, opened)

    async def clear_session(self) -> None:
        """Delete the conversation."""
        await self.store.delete(self.session_id)

    def close(self) -> None:
        """Let go of the file."""
        run_in_loop(self.store.close)

    async def _read(self) -> Ledger:
        ledger = Ledger(self.store, self.session_id, NAME)
        await ledger.refresh()
        return ledger


_HISTORY = {name: inspect.getattr_static(SQLiteSession, name) for name in ("get_items", "add_items", "pop_item")}
"""The methods by which the SDK reads and changes a session's history."""


def _check_not_theirs(path: Path, session_id: str, table: str) -> None:
    """Refuse a file that the SDK's own SQLiteSession wrote, before a store would refuse it as just anybody's."""
    if not path.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            theirs = file.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    except sqlite3.Error:
        return  # what else is wrong with a file, the store says better
    if theirs:
        raise UserError(
            f"{path} was written by the SDK's own SQLiteSession; here a session is a ledger in a store. Bring it along with\n"
            f"  legato import {path} --of {session_id} --agent NAME --store sqlite:NEW.db --session {session_id} --workflow {NAME}\n"
            f"and open SQLiteSession({session_id!r}, 'NEW.db'); see docs/migrate/index.md#the-conversations. Nothing was changed"
        )


async def items_of(state: State, store: Store, session: str) -> list[TResponseInputItem]:
    """The conversation as items that are legal to send."""
    groups = accepted_groups(state)
    contents = {digest: await store.content(session, digest) for digest in list_attachment_digests(groups)}
    return input_list(groups, contents)


def session_of(session: Any) -> SQLiteSession | None:
    """Return the program's session if it is of a supported type. A run reads and writes the ledger, and calls no method of it."""
    if session is None:
        return None
    if isinstance(session, SQLiteSession):
        if ignored := [name for name, own in _HISTORY.items() if inspect.getattr_static(session, name, None) is not own]:
            named = f"{type(session).__name__} has its own {' and '.join(ignored)}"
            raise UserError(
                f"{named}, which a run would not call: here the ledger is the history. "
                "To keep something out of it, change the input before Runner.run and what tools return before they return it. To choose "
                "what an agent sees, write handoff(input_filter=...) or a policy of legato.history: docs/handoffs.md#what-an-agent-sees. "
                "To erase what was said, await result.legato_session.redact(...)"
            )
        return session
    raise UserError(
        f"{type(session).__name__} keeps a history of its own, and here the ledger does: use SQLiteSession(id, path), or "
        "SQLiteSession(id, store=...) with a store of legato.stores or of your own, see docs/stores.md#the-contract"
    )
