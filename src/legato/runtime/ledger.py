"""One session's ledger in a store. May know: stores and the state. Decides: how facts get in.

There is one way in: `append(propose)`. `propose` looks at the state and yields facts; each is applied as it is yielded, so the next
can follow from it, and all are recorded in one atomic append. If another writer was first, the state is folded again with
what it wrote and `propose` is asked anew: an input or an outcome that is still legal is proposed again, a claim is decided again.

What others appended may say that words were erased (`Redacted`). Then everything is read again: a handle has no words that its store
has not.

A session may be deleted while a handle on it is open, and another made under its id. So the handle knows its ledger by its birth name
too, and gives that with all it reads and appends: what it has read is never mixed with another conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias, TypeVar

from legato.core.child_session_ids import root_session_id
from legato.core.codec import FactT, proved
from legato.core.facts import AnyFact, ApprovalChecked, CallLost, CallStarted, Fact, HandedOff, Opened, Redacted
from legato.core.messages import contents_of
from legato.core.state import State, fold
from legato.core.state_copy import copy_call, copy_state
from legato.errors import BadInput, DefinitionChanged, LedgerConflict, StoreError, UnknownLedger
from legato.runtime.session_cache import SESSIONS, CachedState, measure, share_state
from legato.stores.contract import Store, read_with_identity

Propose: TypeAlias = Callable[[State], Iterable[AnyFact]]

T = TypeVar("T")

PLAIN = frozenset((CallStarted, HandedOff, ApprovalChecked, CallLost))
"""Facts of numbers, digests and names that are on record already: they can always be read again."""


FACTS_PER_SLICE = 1024
"""How many facts are folded before other tasks of the event loop run: one to three milliseconds. A fact takes one to three microseconds,
so a ledger of 20,000 turns takes a tenth of a second."""


class LoopLock:
    """A lock for the tasks of one event loop, and then of another: a session may outlive the loop it was first used in."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: asyncio.Lock

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


async def used(store: Store, doing: Awaitable[T]) -> T:
    """What a store gives for a session. What it raises says which store it was: user code may have others, and errors of its own."""
    try:
        return await doing
    except StoreError as error:
        error.store = store
        raise


def failed_itself(store: Store, error: BaseException) -> bool:
    """Whether an error is that of this store, and not one that user code brought."""
    return isinstance(error, StoreError) and error.store is store


async def fold_in_slices(facts: Sequence[AnyFact], session: str = "") -> State:
    """The state that these facts lead to; what `fold` gives."""
    state = State(session=session)
    await apply_in_slices(state, facts)
    return state


async def apply_in_slices(state: State, facts: Sequence[AnyFact], after_each: Callable[[], None] | None = None) -> None:
    """Advance a state by these facts. Until that is done it is for this caller alone, unless the facts are no more than a slice.

    `after_each` is called after each fact, if given.
    """
    apply, is_long = state.apply, len(facts) > FACTS_PER_SLICE
    for first in range(0, len(facts), FACTS_PER_SLICE):
        for fact in facts[first : first + FACTS_PER_SLICE] if is_long else facts:
            apply(fact)
            if after_each is not None:
                after_each()
        if is_long:
            await asyncio.sleep(0)


async def read_state(store: Store, session: str) -> State:
    """Read the state of a session, of whichever workflow. It is empty if there is none, and may be shared: do not advance it."""
    return await Ledger(store, session).refresh()


async def let_rest(store: Store, session: str, length: int) -> None:
    """Say that nobody need drive a ledger that has so many facts. Whoever drives it just now says so himself, or that it does not rest."""
    with suppress(StoreError):  # then it is driven once more than need be, or somebody who looks says so later
        if (lease := await store.lease(session)) is not None:
            await store.release(lease, rested=length)


def _erased_since(state: State, at: int) -> list[Redacted]:
    from legato.core.redaction import known_to_branch  # seldom needed

    return known_to_branch(state.facts, at)


class Ledger:
    """The state of one session, kept level with its store."""

    def __init__(self, store: Store, session: str, workflow: str | None = None) -> None:
        self.store = store
        self.session = session
        self._workflow = workflow  # whose conversation this is to be; None: of any
        self.state = fold((), session)
        self.loaded = False
        self.lock = LoopLock()
        self.listeners: list[Callable[[], None]] = []  # called when the state has moved
        self._sound = 0  # how many facts of the state are known to be in the store
        self._born = ""  # the birth name of the ledger that they are of
        self._proved: Fact | None = None  # known to be readable
        self._cached: CachedState | None = None  # what the state is in the cache, if it is there: then it is not advanced
        self._measured = (0, 0)  # how many facts of the state were measured for the cache, and their bytes

    @property
    def settled(self) -> State:
        """The state without what is just being proposed: what the store is known to have."""
        return self.state if self.state.length == self._sound else fold(self.state.facts[: self._sound], self.session)

    @property
    def recorded(self) -> int:
        """How many facts the store is known to have; `state.length` also counts what is just being proposed, and may be refused."""
        return self._sound

    @property
    def born(self) -> str:
        """The birth name of the ledger that was read."""
        return self._born

    async def refresh(self) -> State:
        """Read what others appended, and return the state."""
        async with self.lock:
            await self._catch_up()
        return self.state

    def share(self) -> None:
        """Put the state into the cache, for other handles on the session. Not while something is being proposed."""
        state, (measured, size) = self.state, self._measured
        if not self._sound or state.length != self._sound or self._cached is not None:
            return
        size += measure(state.facts, measured)
        self._measured, self._cached = (state.length, size), CachedState(self._born, state, size)
        share_state(self.store, self.session, self._cached)

    def withdraw(self) -> None:
        """Take the state out of the cache for a run, which shares it when it has ended; not if another handle was given it."""
        if self._cached is not None and SESSIONS.take_back(self.store, self.session, CachedState, self._cached):
            self._cached = None

    async def content(self, digest: str) -> bytes:
        """Bytes that facts of this session name."""
        return await used(self.store, self.store.content(self.session, digest))

    def prove(self, fact: FactT) -> FactT:
        """The fact as every later reader will find it; `BadInput` if it cannot be recorded. It is not proved again when it is."""
        return self.mark_proved(proved(fact))

    def mark_proved(self, fact: FactT) -> FactT:
        """Have a fact not proved when it is recorded: it was, or differs from one that was in numbers only."""
        self._proved = fact
        return fact

    async def append(self, propose: Propose, contents: Mapping[str, bytes] | None = None) -> list[AnyFact]:
        """Record what `propose` yields, and return it. Nothing is recorded if it yields nothing or raises."""
        async with self.lock:
            try:
                return await self._append(propose, contents)
            except (Exception, asyncio.CancelledError):
                await self._forget()
                raise
            except BaseException:  # this coroutine is closed, or the process ends: it may not wait for anything
                self.state = self.settled
                raise

    async def fork(self, at: int, new: str, opened: Opened) -> None:
        """Begin the ledger `new` with the first `at` facts of this one, then `opened`, and what it must know of words that are gone."""
        while True:
            state = await self.refresh()
            known = _erased_since(state, at) if state.erasures.at >= at else []
            try:
                await used(
                    self.store,
                    self.store.fork(self.session, at, new, [opened, *known], born=opened.ledger, of=self._born, expected=self._sound),
                )
                return
            except LedgerConflict:
                continue  # it has grown since: by an erasure, perhaps
            except UnknownLedger as unknown:
                raise self._deleted(unknown) from unknown

    async def _append(self, propose: Propose, contents: Mapping[str, bytes] | None) -> list[AnyFact]:
        while True:
            facts: list[AnyFact] = []
            if self._cached is not None:
                self.state, self._cached = copy_state(self.state), None
            state = self.state
            for proposed in propose(state):
                fact = proposed if proposed is self._proved or type(proposed) in PLAIN else proved(proposed)
                copy_call(state, fact)
                state.apply(fact)
                facts.append(fact)
            if not facts:
                return facts
            durable = CallStarted in map(type, facts)
            kept = contents
            if contents:  # what turned out to be illegal, or was made from what has been erased since, leaves nothing behind
                named = set().union(*map(contents_of, facts))
                kept = {digest: data for digest, data in contents.items() if digest in named}
            born = self._born if self._sound else self.state.ledger
            try:
                await self.store.append(self.session, self._sound, facts, contents=kept, durable=durable, born=born)
            except UnknownLedger as unknown:
                raise self._deleted(unknown) from unknown
            except LedgerConflict as conflict:
                if conflict.found_position < self._sound:  # so it is noticed of a ledger without a birth name
                    raise self._deleted(conflict) from conflict
                await self._forget()
                await self._catch_up()
                continue
            except StoreError as error:
                error.store = self.store
                raise
            self._sound, self._born = self.state.length, born
            self._tell()
            return facts

    async def _catch_up(self) -> None:
        try:
            born, state, facts = await self._read()
            if state.length and Redacted in map(type, facts):
                state, facts = State(session=self.session), await self._read_anew(born)
        except StoreError as error:
            error.store = self.store
            raise
        if facts and (self._cached is not None or len(facts) > FACTS_PER_SLICE):
            # Other tasks run between slices. They see the state as it was, and never the first half of what was appended in one piece.
            state, self._cached = copy_state(state), None
        for fact in facts:
            copy_call(state, fact)
        try:
            await apply_in_slices(state, facts)
            self.state = state
        finally:
            self._born, self._sound = born, self.state.length
        first, self.loaded = not self.loaded, True
        if self._workflow is not None and self.state.workflow not in ("", self._workflow):
            root = root_session_id(self.session)
            other = f"open {root!r}, the session that it works for" if root != self.session else "use another session id"
            raise DefinitionChanged(
                f"session {self.session!r} belongs to workflow {self.state.workflow!r}, not to {self._workflow!r}",
                do=f"open it with a workflow of that name, or {other}; nothing was changed",
            )
        if first:
            self.share()
        if facts:
            self._tell()

    async def _read(self) -> tuple[str, State, Sequence[AnyFact]]:
        """The state to go on from, the birth name of its ledger, and the facts that it lacks."""
        if self._sound:
            try:
                return self._born, self.state, await self.store.read(self.session, self._sound, born=self._born)
            except UnknownLedger as unknown:
                raise self._deleted(unknown) from unknown
        cached: CachedState | None = SESSIONS.get(self.store, self.session, CachedState)
        if cached is not None:
            last = cached.state.length - 1
            try:
                last_and_new = await self.store.read(self.session, last, born=cached.born)
            except UnknownLedger:
                last_and_new = ()  # it was deleted since
            if last_and_new and last_and_new[0] == cached.state.facts[last]:  # else the store was restored from an older copy
                self._cached, self._measured = cached, (cached.state.length, cached.size)
                return cached.born, cached.state, last_and_new[1:]
        self._measured = (0, 0)  # a read that was cut off may have begun with a cached state
        born, facts = await read_with_identity(self.store, self.session)
        return born, self.state, facts

    async def _read_anew(self, born: str) -> Sequence[AnyFact]:
        """Everything from the first fact on: words that were read before are erased since, and must not be shown any more."""
        SESSIONS.drop(self.store, self.session, CachedState)
        self._cached, self._measured, self._proved = None, (0, 0), None
        try:
            return await self.store.read(self.session, born=born)
        except UnknownLedger as unknown:
            raise self._deleted(unknown) from unknown

    def _deleted(self, told: StoreError) -> UnknownLedger:
        deleted = UnknownLedger(
            f"session {self.session!r} was deleted while this handle was open",
            expected=f"the conversation that it has read {self._sound} facts of",
            found=told.summary,
            do="nothing was written; open the session anew with workflow.session(id)",
        )
        deleted.store = self.store
        return deleted

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()

    async def _forget(self) -> None:
        """Forget facts that were proposed and never confirmed: the store alone knows what became of them.

        If they were written after all, the next append finds its place taken, reads them, and is decided anew.
        """
        if self.state.length == self._sound:
            return
        try:
            self.state = await fold_in_slices(self.state.facts[: self._sound], self.session)
        except asyncio.CancelledError:
            self.state = self.settled
            raise
