"""The contract of all stores. Its rules are numbered, so that the conformance checks (`legato.testing.check_store`) can quote them.

 1. `append(ledger, expected, facts)` records all facts or none. `expected` is the number of facts that the writer knows of. If the ledger
    has another number, `LedgerConflict` names it and nothing is written. `expected=0` creates the ledger.
 2. Facts that `append` acknowledged are returned by every later `read`: in this process and in others, after reopening, and after
    `kill -9`. With `durable=True` they have also reached the disk (as far as the store's durability level says).
 3. `read(ledger, start)` returns the facts from `start` on, in order, decoded and complete. An unknown ledger reads as empty.
 4. One append costs O(new facts), whatever the length of the ledger.
 5. The `contents` of an append are recorded with it, atomically, once per digest. `content` returns them.
 6. `fork(ledger, at, new, facts)` creates a ledger that begins with the first `at` facts of another one, shared and not copied, followed
    by `facts` and their `contents`, atomically. Neither branch sees what the other appends later. Contents are shared too. With
    `expected`, the fork is made only if the parent has that many facts; else `LedgerConflict`, and there is no fork.
 7. `delete(ledger)` removes a ledger and its children (17), all of them or none. Facts that forks share stay readable through the forks.
    The names may be used again. With `expected` (a length for each name) they are removed only if these are exactly the ledgers and
    lengths found; else `LedgerConflict`, and nothing is removed. With `ledger_id`, only if the ledger has that id (13).
 8. `list(limit)` returns ledgers, the most recently appended first. `list(limit, after)` continues after a line of an earlier result,
    whatever happened to that ledger since. Paging to the end returns every ledger that did not grow meanwhile.
 9. `lease(ledger)` gives the right to drive a session, to one holder at a time among all processes, or returns None while another holder
    has it. Each lease has a larger `epoch` than every earlier lease of that ledger, and than every epoch that its facts name since they
    were last `Opened` (`CallStarted`: such facts may come from another store). The epochs of a fork begin above its parent's, and those
    of a new ledger above those of all ledgers that were deleted: one may be copied back, while a driver of its earlier life still works.
    Epochs in facts concern their own ledger alone: where no larger epoch is left, leasing that ledger raises `StoreError`, and all other
    ledgers are leased as before. A lease ends with its holder's process, even if a clock was set back meanwhile. `release` ends it too,
    even if the caller is cancelled meanwhile. A lease guards nothing by itself: the expected position does.
10. `watch(ledger, position, on_growth)` calls `on_growth(length)` in the caller's event loop, once the ledger has more than `position`
    facts and again whenever it grows, whether this process or another appends, until the returned function is called. Growth by this
    store is reported at once, growth by others may be reported later. A store that is closed calls `on_growth` once more; a read then
    raises why. `wait(ledger, position, timeout)` returns True once the ledger has more than `position` facts, or False when the time is
    over; reading the length may take a second, however short the timeout is. Both are about lengths alone: if a ledger was deleted and
    made again, they report it when it is longer than the known length. Callers that must know sooner compare ledger ids (13).
11. Damage raises `DamagedStore`, which names how many facts are still readable; a full disk raises `StoreFull`, a lock held too long
    `StoreLocked`, a read-only file `StoreReadOnly`. The store works again once the cause is gone.
12. No operation makes the event loop wait for a lock, a network, or a disk that is to confirm a write. Small work that the operating
    system does in memory may be done inline. A store may be used from several event loops, one after another or at once.
13. A ledger has an id, chosen by the caller that creates it: the `ledger_id` of the append that creates it, or of the fork.
    `ledger_id(ledger)` returns it. It distinguishes a ledger from another one that was made under the same name after a deletion, whatever
    their lengths. An `append` at a position above 0 and a `read` with `ledger_id`, and a `fork` with `parent_ledger_id`, mean the ledger
    with that id. If it is not there, because it was deleted or replaced, they raise `UnknownLedger`, before any `LedgerConflict`, and
    nothing is written. The id is compared in the same transaction as the operation that it guards. An empty id is not compared.
14. `tenant(name)` returns the same store for one tenant. All its operations concern that tenant's ledgers alone: names, facts, contents,
    ids, forks, leases, waits and lists are separate from those of other tenants and of the store that it came from. The tenant is chosen
    where a store is opened, never by data: a tenant's store has no tenants. It is closed with the store that it came from; closing it does
    nothing.
15. `release(lease, idle_at=n)` also records that the session became idle at `n` facts: no work was left to do without its people.
    `list_runnable(limit)` returns ledgers that have grown beyond that, or that never became idle, and that are not leased: the ledger with
    the oldest last append comes first. `list_runnable(limit, after)` continues after a line of an earlier result, whatever happened to
    that ledger since. Paging to the end returns every ledger that needed a driver all the time. None is left out for long. An idle ledger
    may be returned; its driver then finds that it is idle. A lease that has ended records no idleness.
16. `redact(ledger, redactor)` asks `redactor` what to change in the ledger, and in every other named ledger that shares facts with it by
    forks. Then it replaces facts, appends, and adds and drops contents accordingly, in all of these ledgers or in none. No other writer
    changes the facts between the question and the change. What `redactor` raises is raised, and nothing is written. A content is dropped
    where some ledger dropped it and no ledger names it any more. Replaced facts and dropped contents can no longer be read from the
    store; the store's page says which of their bytes may outlive that elsewhere. Positions and ledger ids stay as they are. The result
    has what was changed in each changed ledger.
17. `children(ledger)` returns the ledgers of a session's child sessions, at any depth (`core/child_session_ids.py`), sorted by name. Its
    cost depends on the result alone, not on what else is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct

from legato.core.argument_checks import implements_protocol
from legato.core.facts import MAX_COUNT, AnyFact, CallStarted, Opened
from legato.errors import BadInput, UnknownLedger
from legato.stores.store_errors import no_epoch_left_error

if TYPE_CHECKING:
    from legato.core.redaction import LedgerRedaction, Redactor


class Lease(Struct, frozen=True, gc=False):
    """The right to drive one ledger. `epoch` grows with every holder.

    `ledger_number` is the store's own number: a ledger that was made under the name of a deleted one has a different number.
    """

    ledger: str
    epoch: int
    ledger_number: int = 0


class LedgerInfo(Struct, frozen=True):
    """One line of `list()`. `updated_at` is the `at` of the last fact, in milliseconds since the epoch, by the clock of its writer.

    `touched` is the position in the order of lists. It grows with every append, so equal lines stand for the same facts. `damage` says what
    is wrong with the line itself, if anything; then `ledger` may be a name that cannot be read.
    """

    ledger: str
    length: int
    updated_at: int
    parent: str = ""
    touched: int = 0
    damage: str = ""


@runtime_checkable
class Store(Protocol):
    """A store of ledgers; the numbers name the rules of the module."""

    async def append(
        self,
        ledger: str,
        expected: int,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        durable: bool = False,
        ledger_id: str = "",
    ) -> int:
        """Record the facts at `expected` and return the new length (1, 2, 4, 5).

        `ledger_id`: at position 0 the id of the ledger that is created, else the id that the ledger must have (13).
        """
        ...

    async def read(self, ledger: str, start: int = 0, *, ledger_id: str = "") -> Sequence[AnyFact]:
        """Return the facts from `start` on (3), of the ledger with this id (13)."""
        ...

    async def ledger_id(self, ledger: str) -> str:
        """Return the ledger's id (13): empty if there is no such ledger, or if it was made without one."""
        ...

    async def content(self, ledger: str, digest: str) -> bytes:
        """Return the content with this digest (5). Raises `UnknownLedger` or `StoreError` if there is none."""
        ...

    async def fork(
        self,
        ledger: str,
        at: int,
        new: str,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        ledger_id: str = "",
        parent_ledger_id: str = "",
        expected: int | None = None,
    ) -> int:
        """Create `new` with the first `at` facts of `ledger`, then `facts` with their `contents` (6). Return its length.

        `ledger_id` is the id of `new`, `parent_ledger_id` the id that `ledger` must have (13), `expected` the length that it must have.
        Raises `LedgerExists` if `new` is taken, `UnknownLedger` if `ledger` is not there, `BadInput` if `at` is beyond its end.
        """
        ...

    async def redact(self, ledger: str, redactor: Redactor, *, ledger_id: str = "") -> Mapping[str, LedgerRedaction]:
        """Erase text in the ledger with this id (13), and in those that share it (16). Raises `UnknownLedger` if it is not there."""
        ...

    async def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, ledger_id: str = "") -> bool:
        """Remove the ledger and its children (7), if they have these lengths and the ledger this id (13). Return False if there is none."""
        ...

    async def children(self, ledger: str) -> Sequence[LedgerInfo]:
        """Return the ledgers of the child sessions (17)."""
        ...

    async def list(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """Return ledgers, the most recent first (8). `after` is a line of an earlier result, to continue there."""
        ...

    async def lease(self, ledger: str) -> Lease | None:
        """Take the right to drive the session (9)."""
        ...

    async def release(self, lease: Lease, *, idle_at: int | None = None) -> None:
        """End a lease (9). `idle_at` is the number of facts at which the session became idle, if it did (15)."""
        ...

    async def list_runnable(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """Return the ledgers that need a driver and have none (15). `after` is a line of an earlier result, to continue there."""
        ...

    def tenant(self, name: str) -> Store:
        """Return the same store for one tenant (14)."""
        ...

    async def wait(self, ledger: str, position: int, timeout: float) -> bool:  # noqa: ASYNC109 - a timeout is an answer here, not an error
        """Wait for the ledger to grow beyond `position` facts (10)."""
        ...

    def watch(self, ledger: str, position: int, on_growth: Callable[[int], None]) -> Callable[[], None]:
        """Call `on_growth` whenever the ledger grows beyond `position` facts, until the returned function is called (10)."""
        ...

    async def close(self) -> None:
        """Release files, threads and leases. Closing twice is harmless."""
        ...


async def read_with_identity(store: Store, ledger: str) -> tuple[str, Sequence[AnyFact]]:
    """Return a ledger's id and facts, both of the same ledger although it may be replaced meanwhile; no facts if there is none."""
    while True:
        ledger_id = await store.ledger_id(ledger)
        try:
            facts = await store.read(ledger, ledger_id=ledger_id)
        except UnknownLedger:
            continue  # it was deleted in between
        if ledger_id or not facts or not await store.ledger_id(ledger):  # it was not made between the two reads, or it has no id
            return ledger_id, facts


def newest_epoch(facts: Sequence[AnyFact]) -> int:
    """Return the newest epoch that these facts name since they were last opened; later leases have newer epochs (9)."""
    newest = 0
    for fact in facts:
        if type(fact) is CallStarted:
            newest = max(newest, fact.epoch)
        elif type(fact) is Opened:  # epochs start again there
            newest = 0
    if newest > MAX_COUNT:
        raise BadInput(f"no lease has the epoch {newest}", expected=f"at most {MAX_COUNT}", do="nothing was written")
    return newest


MAX_INHERITED_EPOCH = 2**40
"""The largest epoch of a deleted ledger above which new ledgers begin. No store gives so many leases; facts may name any epoch."""


def inherit_epoch(inherited: int, deleted: int) -> int:
    """Return the epoch above which new ledgers begin (9), after a ledger was deleted that had this epoch."""
    return max(inherited, deleted) if deleted <= MAX_INHERITED_EPOCH else inherited


def next_epoch(ledger: str, *known_epochs: int) -> int:
    """Return the epoch of a new lease: above the known epochs of this ledger."""
    newest = max(known_epochs)
    if newest >= MAX_COUNT:
        raise no_epoch_left_error(ledger)
    return newest + 1


_store_types: dict[type, bool] = {}


def is_store(value: object) -> bool:
    """Return True if a value has the methods of a store. Checked once for each class: the check costs as much as a whole step."""
    kind = type(value)
    if kind not in _store_types:
        _store_types[kind] = implements_protocol(value, Store)
    return _store_types[kind] and not isinstance(value, type)
