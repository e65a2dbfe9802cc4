"""What every store promises. Numbered, so that the conformance checks (`legato.testing.check_store`) can quote it.

 1. `append(ledger, expected, facts)` records all the facts or none. `expected` is the number of facts the writer believes
    are there; if it is not so, `LedgerConflict` says what was found, and nothing was written. `expected=0` creates the ledger.
 2. What `append` acknowledged is read by every later `read`, in this process and in others, after reopening, and after
    `kill -9`. With `durable=True` it has also reached the disk (as far as the store's durability level says).
 3. `read(ledger, start)` returns the facts from `start` on, in order, decoded and whole. An unknown ledger reads as empty.
 4. One append costs O(new facts), whatever the ledger's length.
 5. `contents` given with an append are recorded with it, atomically, once per digest; `content` returns them.
 6. `fork(ledger, at, new, facts)` makes a ledger that begins with the first `at` facts of another, shared and not copied, and
    goes on with `facts` and their `contents`, atomically. Neither branch ever sees what the other appends afterwards. Contents are shared
    too. With `expected`, only if the ledger has so many facts: else `LedgerConflict`, and there is no fork.
 7. `delete(ledger)` removes the ledger and its children (17), all of them or none; what forks share stays readable through them. The names
    may be used again. With `expected`, the length of each of them by name, only if they are exactly those: else `LedgerConflict`, and
    they are still there; with `born`, only if the ledger was born so (13).
 8. `list(limit)` gives ledgers, the most recently appended first. `list(limit, after)` goes on behind a line that it gave, whatever has
    become of that ledger since: whoever goes on until there are no more has seen every one that did not grow meanwhile.
 9. `lease(ledger)` gives the right to drive, to one holder at a time among all processes, or None while another holds it. Each
    lease has a larger `epoch` than every earlier one of that ledger and than any that its facts name since they were last `Opened`
    (`CallStarted`: they may come from another store); a fork's begin above its parent's. What facts name concerns their ledger alone: where
    no larger epoch is left, a lease of it is refused with `StoreError`, and all others are given as before. A lease ends with its
    holder's process, also where a clock was set back meanwhile. `release` gives it up, also if its caller is cancelled meanwhile. A
    lease guards nothing by itself: the expected position does.
10. `watch(ledger, position, moved)` has `moved(length)` called, in the event loop that asks, once the ledger has more than `position`
    facts, and then again whenever it has grown, appended here or in any other process; until what it returns is called. What is
    appended here it tells at once; of others it may hear later. A store that is closed says once more that there is something to see:
    whoever looks is told. `wait(ledger, position, timeout)` returns True once the ledger has more than `position` facts, or False when
    the time is over; looking at what is there may take a second, however short that time is. Both are about lengths alone: of a ledger
    that was deleted and made again, they tell when it is longer than what was known. Who must know sooner looks, by birth name (13).
11. Damage is told as `DamagedStore`, naming how many facts are still readable; a full disk as `StoreFull`, a lock held too long
    as `StoreLocked`, a read-only file as `StoreReadOnly`. After any of them the store works on once the cause is gone.
12. No operation makes the event loop wait for a lock, a network, or a disk that is to confirm a write. What is small, and is done by
    the operating system from its memory, may be done at once. A store may be used from several event loops, one after another or
    at once.
13. A ledger has a birth name, given by whoever makes it: `born` of the append that creates it, or of the fork. `born(ledger)` says
    it. It tells a ledger from another that was made under the same name after it was deleted, whatever their lengths: an `append`
    at a position above 0 and a `read` that give `born`, and a `fork` that gives `of`, are about the ledger that was born so. If it
    is not there, deleted or replaced, they are refused with `UnknownLedger`, before any `LedgerConflict`, and nothing is written;
    the name is looked at in the same transaction as what it guards. An empty one is not looked at.
14. `tenant(name)` gives the same store for one tenant. Whatever is asked of it is about that tenant's ledgers alone: their names, facts,
    contents, birth names, forks, leases, waits and lists are not those of another tenant, nor those of the store that it came from.
    Whose ledgers are meant is decided where a store is opened, and never by data: a tenant's store has no tenants. It ends with the
    store that it came from; closing it does nothing.
15. `release(lease, rested=n)` also says that the driver came to rest when it had seen `n` facts: nothing was left to be done without its
    people. `unrested(limit)` gives ledgers that have grown beyond that, or that never came to rest, and that nobody has leased: the one
    that was appended to longest ago first. `unrested(limit, after)` goes on behind a line that it gave, whatever has become of that
    ledger since: whoever goes on until there are no more has seen every one that wanted a driver all the while. None is ever left
    out for long; one that rests may be named, and is found to rest by whoever drives it. A lease that is over says nothing about
    rest any more.
16. `redact(ledger, erasing)` asks `erasing` what becomes of the ledger, and of each other with a name that shares facts with it by forks;
    then it replaces facts, appends, and adds and drops contents as told, in all of them or in none. `erasing` is asked about facts
    that nobody changes before it is done; what it raises is raised, and nothing was written. A content is dropped where some
    ledger dropped it and none of them names it any more. What was replaced or dropped can be read from the store in no way
    afterwards; which of its bytes may outlive that outside of it, the store's page says. Positions and birth names stay as they
    are. Returned is what became of each ledger that was changed.
17. `children(ledger)` gives the ledgers of child sessions of a session, at any depth (`core/child_session_ids.py`), in the order of their
    names. It costs what it gives, whatever else the store has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct

from legato.core.argument_checks import provides
from legato.core.facts import MAX_COUNT, AnyFact, CallStarted, Opened
from legato.errors import BadInput, UnknownLedger
from legato.stores.refusals import no_epoch_left

if TYPE_CHECKING:
    from legato.core.redaction import Erased, Erases


class Lease(Struct, frozen=True, gc=False):
    """The right to drive one ledger. `epoch` grows with every holder.

    `number` is the store's own: a ledger that was made under the name of a deleted one has another.
    """

    ledger: str
    epoch: int
    number: int = 0


class LedgerInfo(Struct, frozen=True):
    """One line of `list()`. `updated` is the `at` of the last fact, in milliseconds since the epoch, by the clock of who wrote it.

    `touched` is the line's place in the order of lists. It grows with every append, so two lines that are equal tell of the same facts.
    `damaged`: what is wrong with the line itself, if something is; then `ledger` may be no name that could be read.
    """

    ledger: str
    length: int
    updated: int
    parent: str = ""
    touched: int = 0
    damaged: str = ""


@runtime_checkable
class Store(Protocol):
    """See the module's numbered contract."""

    async def append(
        self,
        ledger: str,
        expected: int,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        durable: bool = False,
        born: str = "",
    ) -> int:
        """Record the facts at `expected` and return the new length (1, 2, 4, 5).

        `born` is the birth name: at 0, of the ledger that is made; else of the ledger that is meant (13).
        """
        ...

    async def read(self, ledger: str, start: int = 0, *, born: str = "") -> Sequence[AnyFact]:
        """The facts from `start` on (3), of the ledger that was born so (13)."""
        ...

    async def born(self, ledger: str) -> str:
        """The birth name (13): empty if there is no such ledger, or if it was made without one."""
        ...

    async def content(self, ledger: str, digest: str) -> bytes:
        """What was recorded under this digest (5); `UnknownLedger` or `StoreError` if there is none."""
        ...

    async def fork(
        self,
        ledger: str,
        at: int,
        new: str,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        born: str = "",
        of: str = "",
        expected: int | None = None,
    ) -> int:
        """Begin `new` with the first `at` facts of `ledger`, then `facts` with their `contents` (6). Returns its length.

        `born` is the birth name of `new`, `of` that of `ledger` (13); `expected` is its length, where that matters. `LedgerExists` if
        `new` is taken; `UnknownLedger` if `ledger` is not there; `BadInput` if `at` is beyond its end.
        """
        ...

    async def redact(self, ledger: str, erasing: Erases, *, born: str = "") -> Mapping[str, Erased]:
        """Erase words in the ledger that was born so (13), and in those that share them (16). `UnknownLedger` if it is not there."""
        ...

    async def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, born: str = "") -> bool:
        """Remove the ledger and its children (7), if they are as long as expected and it was born so (13). False if there was none."""
        ...

    async def children(self, ledger: str) -> Sequence[LedgerInfo]:
        """The ledgers of child sessions (17)."""
        ...

    async def list(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """The most recent ledgers first (8); those behind a line that was given before, to go on there."""
        ...

    async def lease(self, ledger: str) -> Lease | None:
        """Take the right to drive (9)."""
        ...

    async def release(self, lease: Lease, *, rested: int | None = None) -> None:
        """Give the right to drive back (9); `rested` is how many facts the driver had seen when it came to rest, if it did (15)."""
        ...

    async def unrested(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """The ledgers that want a driver and have none (15); those behind a line that was given before, to go on there."""
        ...

    def tenant(self, name: str) -> Store:
        """The same store for one tenant (14)."""
        ...

    async def wait(self, ledger: str, position: int, timeout: float) -> bool:  # noqa: ASYNC109 - it is an answer, not an error
        """Wait for the ledger to grow beyond `position` facts (10)."""
        ...

    def watch(self, ledger: str, position: int, moved: Callable[[int], None]) -> Callable[[], None]:
        """Be told whenever the ledger grows beyond `position` facts; call what this returns to be told no more (10)."""
        ...

    async def close(self) -> None:
        """Let go of files, threads and leases. Closing twice is harmless."""
        ...


async def read_with_identity(store: Store, ledger: str) -> tuple[str, Sequence[AnyFact]]:
    """Read a ledger's birth name and facts, both of the same ledger although it may be replaced meanwhile; no facts if there is none."""
    while True:
        born = await store.born(ledger)
        try:
            facts = await store.read(ledger, born=born)
        except UnknownLedger:
            continue  # it was deleted since
        if born or not facts or not await store.born(ledger):  # it was not made between the two reads, or it has no birth name
            return born, facts


def newest_epoch(facts: Sequence[AnyFact]) -> int:
    """The newest epoch that these facts name since they were last opened: leases that are given later have newer ones (9)."""
    newest = 0
    for fact in facts:
        if type(fact) is CallStarted:
            newest = max(newest, fact.epoch)
        elif type(fact) is Opened:  # epochs begin anew there
            newest = 0
    if newest > MAX_COUNT:
        raise BadInput(f"no lease has the epoch {newest}", expected=f"at most {MAX_COUNT}", do="nothing was written")
    return newest


def next_epoch(ledger: str, *known: int) -> int:
    """The epoch of a new lease: above those that are known of this ledger."""
    newest = max(known)
    if newest >= MAX_COUNT:
        raise no_epoch_left(ledger)
    return newest + 1


_judged: dict[type, bool] = {}


def is_store(given: object) -> bool:
    """Whether this has what a store has. Asked once for each class: looking at a protocol costs as much as a whole step."""
    kind = type(given)
    if kind not in _judged:
        _judged[kind] = provides(given, Store)
    return _judged[kind] and not isinstance(given, type)
