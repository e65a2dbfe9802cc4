"""One session's ledger in a store. May know: stores and the state. Decides: how facts get in.

There is one way in: `append(propose)`. `propose` looks at the state and yields facts; each is applied as it is yielded, so the next
can follow from it, and all are recorded in one atomic append. If another writer was first, the state is folded again with
what it wrote and `propose` is asked anew: an input or an outcome that is still legal is proposed again, a claim is decided again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from legato.core.codec import proved
from legato.core.facts import AnyFact, Started
from legato.core.state import State, fold
from legato.errors import BadInput, LedgerConflict, UnknownLedger
from legato.stores.contract import Store

Propose: TypeAlias = Callable[[State], Iterator[AnyFact]]


class LoopLock:
    """A lock for the tasks of one event loop, and then of another: a session may outlive the loop it was first used in."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._loop.is_running() and self._lock.locked():
                raise BadInput(
                    "one session object is used in two event loops at once",
                    do="make a handle in each: workflow.session(id, store=...)",
                )
            self._loop, self._lock = loop, asyncio.Lock()
        await self._lock.acquire()

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()


class Ledger:
    """The state of one session, kept level with its store."""

    def __init__(self, store: Store, session: str) -> None:
        self.store = store
        self.session = session
        self.state = fold((), session)
        self.loaded = False
        self.lock = LoopLock()
        self.listeners: list[Callable[[], None]] = []  # called when the state has moved
        self._sound = 0  # how many facts of the state are known to be in the store

    @property
    def settled(self) -> State:
        """The state without what is just being proposed: what the store is known to have."""
        return self.state if self.state.length == self._sound else fold(self.state.facts[: self._sound], self.session)

    async def refresh(self) -> State:
        """Read what others appended, and return the state."""
        async with self.lock:
            await self._catch_up()
        return self.state

    async def append(self, propose: Propose, contents: Mapping[str, bytes] | None = None) -> list[AnyFact]:
        """Record what `propose` yields, and return it. Nothing is recorded if it yields nothing or raises."""
        async with self.lock:
            try:
                return await self._append(propose, contents)
            except BaseException:
                self._forget()
                raise

    async def _append(self, propose: Propose, contents: Mapping[str, bytes] | None) -> list[AnyFact]:
        while True:
            facts: list[AnyFact] = []
            for proposed in propose(self.state):
                fact = proved(proposed)  # what could not be read again is never written, to any store
                self.state.apply(fact)
                facts.append(fact)
            if not facts:
                return facts
            durable = any(type(fact) is Started for fact in facts)
            try:
                await self.store.append(self.session, self._sound, facts, contents=contents, durable=durable)
            except LedgerConflict as conflict:
                if conflict.found_position < self._sound:
                    raise UnknownLedger(
                        f"session {self.session!r} was deleted while this handle was open",
                        expected=f"{self._sound} facts or more",
                        found=f"{conflict.found_position}",
                        do="nothing was written; open the session anew with workflow.session(id)",
                    ) from conflict
                self._forget()
                await self._catch_up()
                continue
            self._sound = self.state.length
            self._tell()
            return facts

    async def _catch_up(self) -> None:
        read = await self.store.read(self.session, self._sound)
        for fact in read:
            self.state.apply(fact)
            self._sound += 1
        self.loaded = True
        if read:
            self._tell()

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()

    def _forget(self) -> None:
        """Forget facts that were proposed and never confirmed: the store alone knows what became of them.

        If they were written after all, the next append finds its place taken, reads them, and is decided anew.
        """
        if self.state.length != self._sound:
            self.state = fold(self.state.facts[: self._sound], self.session)
