"""The ledger of one session: its state in memory, kept level with a store, and the ways to append to it.

All facts are recorded by `append(propose)`. `propose` reads the state and yields facts. Each fact is applied as it is yielded, so the
next one can follow from it, and all of them are recorded in one atomic append. If another writer was first, its facts are folded in and
`propose` is called again: an input or outcome that is still legal is proposed again, and a claim is decided again.

After a `Redacted` fact of another writer the whole ledger is read again, so that no handle keeps words that its store has erased.

A session may be deleted, and another one created under its id, while a handle is open. So every read and append names the ledger by its
ledger id too, and two conversations are never mixed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, field

from legato.core.child_session_ids import find_root_session_id
from legato.core.codec import FactT, validate_fact
from legato.core.facts import AnyFact, ApprovalChecked, CallLost, CallStarted, Fact, HandedOff, Opened, Redacted
from legato.core.messages import find_content_digests
from legato.core.state import State, fold, to_recordable
from legato.core.state_copy import copy_changed_reply, copy_state
from legato.errors import BadInput, DefinitionChanged, IllegalFact, LedgerConflict, LegatoError, StoreError, UnknownLedger
from legato.runtime.session_cache import SESSION_CACHE, CachedState, cache_state, measure_facts
from legato.stores.contract import Store, read_with_identity

Propose: TypeAlias = Callable[[State], Iterable[AnyFact]]
"""A function that yields the facts to append to a state. It is called again if another writer appended first."""

T = TypeVar("T")

ALWAYS_READABLE_FACTS = frozenset((CallStarted, HandedOff, ApprovalChecked, CallLost))
"""Facts made of numbers, digests and recorded names. They can always be decoded again, so they are not validated."""

FACTS_PER_SLICE = 1024
"""Facts that are folded before other tasks of the event loop run: 1 to 3 ms. A fact takes 1 to 3 µs, so a ledger of 20,000 turns takes a
tenth of a second."""


class LoopLock:
    """An asyncio lock that may be used in one event loop after another: a session may outlive the loop that it was first used in."""

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


async def attribute_errors(store: Store, operation: Awaitable[T]) -> T:
    """Await an operation of a store, and note the store in the `StoreError` that it raises. User code may raise errors of other stores."""
    try:
        return await operation
    except StoreError as error:
        error.store = store
        raise


def is_error_of_store(store: Store, error: BaseException) -> bool:
    """Return True if this store raised the error, and not another store that user code uses."""
    return isinstance(error, StoreError) and error.store is store


async def fold_in_slices(facts: Sequence[AnyFact], session_id: str = "") -> State:
    """Return the same state as `fold`, and let other tasks run after each slice of facts."""
    state = State(session_id=session_id)
    await apply_in_slices(state, facts)
    return state


async def apply_in_slices(state: State, facts: Sequence[AnyFact], after_each: Callable[[], None] | None = None) -> None:
    """Advance a state by these facts, and call `after_each` after each of them.

    If there is more than one slice of facts, no other task may use the state before this is done.
    """
    apply, is_long = state.apply, len(facts) > FACTS_PER_SLICE
    for first in range(0, len(facts), FACTS_PER_SLICE):
        for fact in facts[first : first + FACTS_PER_SLICE] if is_long else facts:
            apply(fact)
            if after_each is not None:
                after_each()
        if is_long:
            await asyncio.sleep(0)


async def read_state(store: Store, session_id: str) -> State:
    """Read the state of a session of any workflow; an empty state if there is no such session. It may be shared: do not advance it."""
    return await Ledger(store, session_id).refresh()


async def mark_idle(store: Store, session_id: str, length: int) -> None:
    """Record in the store that a ledger of this length needs no driver. If a driver has the lease, that driver will do so."""
    with suppress(StoreError):  # then the session is driven once more than necessary, or marked later
        if (lease := await store.lease(session_id)) is not None:
            await store.release(lease, idle_at=length)


def _find_redactions_since(state: State, at: int) -> list[Redacted]:
    from legato.core.redaction import find_redactions_for_branch  # seldom needed

    return find_redactions_for_branch(state.facts, at)


class Ledger:
    """The state of one session, kept level with its store."""

    def __init__(self, store: Store, session_id: str, workflow: str | None = None) -> None:
        """`workflow` is the name of the workflow that the session must belong to; None: any."""
        self.store = store
        self.session_id = session_id
        self._workflow_name = workflow
        self.state = fold((), session_id)
        self.is_loaded = False
        self.lock = LoopLock()
        self.listeners: list[Callable[[], None]] = []
        """Functions that are called when the state has changed."""
        self.confirmed_length = 0
        """The number of facts that the store is known to have. `state.length` also counts proposed facts, which may be refused."""
        self.ledger_id = ""
        """The id of the ledger that these facts were read from."""
        self._validated_fact: Fact | None = None
        self._cached_state: CachedState | None = None  # the cache's entry for the state, if it has one: then the state is not advanced
        self._measured = (0, 0)  # the number of facts that were measured for the cache, and their bytes

    @property
    def confirmed_state(self) -> State:
        """The state without proposed facts: what the store is known to have."""
        if self.state.length == self.confirmed_length:
            return self.state
        return fold(self.state.facts[: self.confirmed_length], self.session_id)

    async def refresh(self) -> State:
        """Read what other writers appended, and return the state."""
        async with self.lock:
            await self._catch_up()
        return self.state

    def put_in_cache(self) -> None:
        """Put the state into the cache, for other handles on the session; not while facts are being proposed."""
        state, (measured, size) = self.state, self._measured
        if not self.confirmed_length or state.length != self.confirmed_length or self._cached_state is not None:
            return
        size += measure_facts(state.facts, measured)
        self._measured, self._cached_state = (state.length, size), CachedState(self.ledger_id, state, size)
        cache_state(self.store, self.session_id, self._cached_state)

    def take_from_cache(self) -> None:
        """Take the state out of the cache for a run, which puts it back at its end; not if another handle uses it."""
        if self._cached_state is not None and SESSION_CACHE.pop_unshared(self.store, self.session_id, CachedState, self._cached_state):
            self._cached_state = None

    async def read_content(self, digest: str) -> bytes:
        """Read a content that facts of this session name by its digest."""
        return await attribute_errors(self.store, self.store.content(self.session_id, digest))

    def validate(self, fact: FactT) -> FactT:
        """Return the fact as later readers will decode it; `BadInput` if it cannot be recorded. `append` does not validate it again."""
        return self.mark_validated(validate_fact(fact))

    def mark_validated(self, fact: FactT) -> FactT:
        """Let `append` accept this fact without validation: it was validated, or differs from a validated one in numbers only."""
        self._validated_fact = fact
        return fact

    async def append(self, propose: Propose, contents: Mapping[str, bytes] | None = None) -> list[AnyFact]:
        """Record the facts that `propose` yields, and return them. Nothing is recorded if it raises or yields none."""
        async with self.lock:
            try:
                return await self._append_locked(propose, contents)
            except (Exception, asyncio.CancelledError):
                await self._discard_unconfirmed()
                raise
            except BaseException:  # this coroutine is closed, or the process ends: it may not await anything
                self.state = self.confirmed_state
                raise

    async def fork(self, at: int, new: str, opened: Opened) -> None:
        """Create the ledger `new` from the first `at` facts of this one, `opened`, and the erasures that concern these facts."""
        while True:
            state = await self.refresh()
            redactions = _find_redactions_since(state, at) if state.redactions.last_position >= at else []
            try:
                await attribute_errors(
                    self.store,
                    self.store.fork(
                        self.session_id,
                        at,
                        new,
                        [opened, *redactions],
                        ledger_id=opened.ledger_id,
                        parent_ledger_id=self.ledger_id,
                        expected=self.confirmed_length,
                    ),
                )
                return
            except LedgerConflict:
                continue  # the ledger has grown since, perhaps by an erasure
            except UnknownLedger as unknown:
                raise self._make_deleted_error(unknown) from unknown

    async def _append_locked(self, propose: Propose, contents: Mapping[str, bytes] | None) -> list[AnyFact]:
        while True:
            facts: list[AnyFact] = []
            if self._cached_state is not None:
                self.state, self._cached_state = copy_state(self.state), None
            state = self.state
            for proposed in propose(state):
                fact = proposed if proposed is self._validated_fact or type(proposed) in ALWAYS_READABLE_FACTS else validate_fact(proposed)
                copy_changed_reply(state, fact)
                state.apply(fact)
                facts.append(fact)
            if not facts:
                return facts
            durable = CallStarted in map(type, facts)
            named_contents = contents
            if contents:  # contents of outcomes that were not recorded are dropped
                digests = set().union(*map(find_content_digests, facts))
                named_contents = {digest: data for digest, data in contents.items() if digest in digests}
            ledger_id = self.ledger_id if self.confirmed_length else self.state.ledger_id
            try:
                await self.store.append(
                    self.session_id, self.confirmed_length, facts, contents=named_contents, durable=durable, ledger_id=ledger_id
                )
            except UnknownLedger as unknown:
                raise self._make_deleted_error(unknown) from unknown
            except LedgerConflict as conflict:
                if conflict.found_position < self.confirmed_length:  # a ledger without a ledger id was replaced by a shorter one
                    raise self._make_deleted_error(conflict) from conflict
                await self._discard_unconfirmed()
                await self._catch_up()
                continue
            except StoreError as error:
                error.store = self.store
                raise
            self.confirmed_length, self.ledger_id = self.state.length, ledger_id
            self._notify_listeners()
            return facts

    async def _catch_up(self) -> None:
        try:
            ledger_id, state, facts = await self._read()
            if state.length and Redacted in map(type, facts):
                state, facts = State(session_id=self.session_id), await self._reread(ledger_id)
        except StoreError as error:
            error.store = self.store
            raise
        if facts and (self._cached_state is not None or len(facts) > FACTS_PER_SLICE):
            # Other tasks run between slices. They see the old state, and never half of what was appended in one piece.
            state, self._cached_state = copy_state(state), None
        for fact in facts:
            copy_changed_reply(state, fact)
        try:
            await apply_in_slices(state, facts)
            self.state = state
        finally:
            self.ledger_id, self.confirmed_length = ledger_id, self.state.length
        first, self.is_loaded = not self.is_loaded, True
        if self._workflow_name is not None and self.state.workflow not in ("", self._workflow_name):
            root = find_root_session_id(self.session_id)
            advice = f"open {root!r}, the session that it works for" if root != self.session_id else "use another session id"
            raise DefinitionChanged(
                f"session {self.session_id!r} belongs to workflow {self.state.workflow!r}, not to {self._workflow_name!r}",
                do=f"open it with a workflow of that name, or {advice}; nothing was changed",
            )
        if first:
            self.put_in_cache()
        if facts:
            self._notify_listeners()

    async def _read(self) -> tuple[str, State, Sequence[AnyFact]]:
        """Read the ledger's id, a state of it (the present or a cached one), and the facts that this state lacks."""
        if self.confirmed_length:
            try:
                return self.ledger_id, self.state, await self.store.read(self.session_id, self.confirmed_length, ledger_id=self.ledger_id)
            except UnknownLedger as unknown:
                raise self._make_deleted_error(unknown) from unknown
        cached: CachedState | None = SESSION_CACHE.get(self.store, self.session_id, CachedState)
        if cached is not None:
            last = cached.state.length - 1
            try:
                last_and_new = await self.store.read(self.session_id, last, ledger_id=cached.ledger_id)
            except UnknownLedger:
                last_and_new = ()  # the session was deleted since
            if last_and_new and last_and_new[0] == cached.state.facts[last]:  # else the store was restored from an older copy
                self._cached_state, self._measured = cached, (cached.state.length, cached.size)
                return cached.ledger_id, cached.state, last_and_new[1:]
        self._measured = (0, 0)  # an interrupted read may have begun with a cached state
        ledger_id, facts = await read_with_identity(self.store, self.session_id)
        return ledger_id, self.state, facts

    async def _reread(self, ledger_id: str) -> Sequence[AnyFact]:
        """Read all facts again: words that were read before have been erased since, and must not be shown any more."""
        SESSION_CACHE.drop(self.store, self.session_id, CachedState)
        self._cached_state, self._measured, self._validated_fact = None, (0, 0), None
        try:
            return await self.store.read(self.session_id, ledger_id=ledger_id)
        except UnknownLedger as unknown:
            raise self._make_deleted_error(unknown) from unknown

    def _make_deleted_error(self, cause: StoreError) -> UnknownLedger:
        deleted = UnknownLedger(
            f"session {self.session_id!r} was deleted while this handle was open",
            expected=f"the conversation that it has read {self.confirmed_length} facts of",
            found=cause.summary,
            do="nothing was written; open the session again with workflow.session(id)",
        )
        deleted.store = self.store
        return deleted

    def _notify_listeners(self) -> None:
        for listener in self.listeners:
            listener()

    async def _discard_unconfirmed(self) -> None:
        """Drop facts that were proposed and not confirmed by the store.

        If they were written after all, the next append meets a conflict, reads them, and is proposed again.
        """
        if self.state.length == self.confirmed_length:
            return
        try:
            self.state = await fold_in_slices(self.state.facts[: self.confirmed_length], self.session_id)
        except asyncio.CancelledError:
            self.state = self.confirmed_state
            raise


RECORD_RETRY_DELAYS_S = (0.0, 0.1, 0.5, 2.0, 8.0)
"""Seconds before each attempt to record outcomes in the background: a disk may be cleared meanwhile, or a lock released."""

_background_tasks: set[asyncio.Task[Any]] = set()  # the event loop refers to tasks weakly, and these outlive their driver


class EffectOutcome(Struct, frozen=True):
    """The outcome of an effect: facts to record, and the contents that they name.

    An outcome is recorded after the effect, when the state may have changed. `to_recordable` (core/state.py) says in which form a fact is
    still recorded, if in any.
    """

    facts: tuple[AnyFact, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)
    known_length: int | None = None
    """The number of facts when the effect began, where that matters: see `classify` (core/state.py)."""
    attempt: int = 1
    """The number of the model request that a reply came from."""
    decide: Propose | None = None
    """A function that yields the facts when they are recorded, in place of `facts`."""

    def propose(self, state: State) -> Iterator[AnyFact]:
        """Yield the facts that may still be recorded, in the form in which they may be."""
        if self.decide is not None:
            yield from self.decide(state)
        for fact in self.facts:
            if (recorded := to_recordable(fact, state, self.known_length, self.attempt)) is not None:
                yield recorded


async def make_empty_outcome() -> EffectOutcome:
    """Return the outcome of an effect that is not performed after all."""
    return EffectOutcome()


async def record_outcomes(ledger: Ledger, outcomes: Sequence[EffectOutcome]) -> None:
    """Record these outcomes in one append, without the facts that would follow from them."""

    def propose(state: State) -> Iterator[AnyFact]:
        for outcome in outcomes:
            yield from outcome.propose(state)

    await ledger.append(propose, {digest: data for outcome in outcomes for digest, data in outcome.contents.items()})


async def record_each(ledger: Ledger, outcomes: list[EffectOutcome]) -> None:
    """Record these outcomes one by one, and remove each from the list. One that cannot be recorded does not affect the others."""
    while outcomes:
        with suppress(IllegalFact, BadInput):
            await record_outcomes(ledger, outcomes[:1])
        del outcomes[0]


def record_later(ledger: Ledger, outcomes: Sequence[EffectOutcome]) -> None:
    """Record these outcomes in the background, and retry if the store fails. To the next driver, one that is not recorded is unknown."""
    remaining = list(outcomes)

    async def record() -> None:
        for delay in RECORD_RETRY_DELAYS_S:
            await asyncio.sleep(delay)
            with suppress(StoreError):
                await record_each(ledger, remaining)
                return

    run_in_background(record)


def run_in_background(function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function in a task that may outlive its caller. Its `LegatoError` is dropped: the ledger has what it recorded."""

    async def run() -> None:
        with suppress(LegatoError):
            await function()

    task = asyncio.get_running_loop().create_task(run())
    _background_tasks.add(task)
    task.add_done_callback(_background_tasks.discard)
