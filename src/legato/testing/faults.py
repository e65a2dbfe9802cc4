"""Stores that fail on purpose. May know: the store contract. Decides: nothing; a plan says what fails, when and how.

The interesting failure is the ambiguous one: the operation was carried out, and the caller is told that it was not. The next is
death: the process that called is gone, before or after, and nothing of it may touch the store again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from legato.core.facts import AnyFact
from legato.core.redaction import Erased, Erases
from legato.errors import StoreError
from legato.stores.contract import Lease, LedgerInfo, Store

OPERATIONS = (
    "append", "read", "born", "content", "fork", "redact", "delete", "children", "list", "lease", "release", "unrested", "wait", "watch",
)  # fmt: skip


class Died(BaseException):
    """The process is gone. Not an `Exception`: nothing catches it, as nothing survives `kill -9`."""


@dataclass(frozen=True)
class Fault:
    """One failure: the `at`-th operation (from 1) fails `before` anything happened or `after` all of it did.

    `error` is what the caller gets; `Died` means that there is no caller any more. With `lasting`, every later operation fails
    the same way until `heal()`.

    >>> Fault(3, "after")
    Fault(at=3, when='after', error=<class 'legato.errors.StoreError'>, lasting=False)
    """

    at: int
    when: Literal["before", "after"] = "before"
    error: type[StoreError] | type[Died] = StoreError
    lasting: bool = False


Plan: TypeAlias = Callable[[str, str, int], BaseException | None]
"""Asked before and after each operation, `plan(operation, "before" or "after", number)`: what goes wrong there, if anything."""


def plan_of(faults: Iterable[Fault]) -> Plan:
    """A list of faults as a plan."""
    due: dict[tuple[int, str], Fault] = {(fault.at, fault.when): fault for fault in faults if not fault.lasting}
    lasting = [fault for fault in faults if fault.lasting]

    def plan(operation: str, when: str, number: int) -> BaseException | None:
        fault = due.get((number, when))
        if fault is None:
            fault = next((each for each in lasting if each.when == when and number >= each.at), None)
        if fault is None:
            return None
        if issubclass(fault.error, StoreError):
            return fault.error(f"a fault was planned {when} operation {number} ({operation})", do="nothing: this is a test")
        return fault.error(f"{when} operation {number} ({operation})")

    return plan


class FailingStore:
    """A store of one process that fails as planned. The store behind it is shared with others and stays whole.

    `plan` is a list of `Fault`s or a function. `only` names the operations that are counted and fail (by default, all but `wait`, `watch`
    and `close`). `delay` is awaited before and after each append, read and lease. `operations` is how many there were; `acknowledged` is
    every append that was confirmed to its caller.

    >>> import asyncio
    >>> from legato.stores import MemoryStore
    >>> store = FailingStore(MemoryStore(), [Fault(2, "before")])
    >>> asyncio.run(store.read("desk"))
    []
    >>> asyncio.run(store.read("desk"))
    Traceback (most recent call last):
        ...
    legato.errors.StoreError: a fault was planned before operation 2 (read)
      do        nothing: this is a test
    """

    def __init__(
        self,
        store: Store,
        plan: Plan | Sequence[Fault] = (),
        only: Iterable[str] = OPERATIONS[:-2],
        delay: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.store = store
        self.operations = 0
        self.dead = False
        self.healed = False
        self.acknowledged: list[tuple[str, int, Sequence[AnyFact]]] = []
        self.on_death: Callable[[], None] | None = None
        self.held: dict[str, Lease] = {}
        self._plan: Plan | None = plan if callable(plan) else plan_of(plan) if plan else None
        self._only = frozenset(only)
        self._delay = delay

    def heal(self) -> None:
        """From now on nothing fails."""
        self.healed = True

    def die(self, why: str = "") -> Died:
        """Declare this process dead: the store refuses everything it asks. Raise what this returns."""
        self.dead = True
        if self.on_death is not None:
            self.on_death()
        return Died(why)

    async def bury(self) -> None:
        """Free the leases of the dead process, as an operating system does."""
        leases, self.held = list(self.held.values()), {}
        for lease in leases:
            await self.store.release(lease)

    def _before(self, operation: str) -> int:
        if self.dead:
            raise Died(f"{operation} after death")
        if operation not in self._only:
            return 0
        self.operations += 1
        return self.operations

    def _fail(self, operation: str, when: str, number: int) -> None:
        if self.dead:
            raise Died(f"{operation} after death")
        if self._plan is None or self.healed or not number:
            return
        error = self._plan(operation, when, number)
        if isinstance(error, Died):
            raise self.die(str(error))
        if error is not None:
            raise error

    async def _dawdle(self) -> None:
        if self._delay is not None:
            await self._delay()
            if self.dead:
                raise Died("while it waited for the store")

    # A dead process must not even get a coroutine: these are plain functions that give one.

    def append(
        self,
        ledger: str,
        expected: int,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        durable: bool = False,
        born: str = "",
    ) -> Coroutine[Any, Any, int]:
        number = self._before("append")

        async def append() -> int:
            self._fail("append", "before", number)
            await self._dawdle()
            length = await self.store.append(ledger, expected, facts, contents=contents, durable=durable, born=born)
            self._fail("append", "after", number)
            await self._dawdle()
            self.acknowledged.append((ledger, expected, facts))
            return length

        return append()

    def _do(self, operation: str, awaitable: Callable[[], Coroutine[Any, Any, Any]]) -> Coroutine[Any, Any, Any]:
        number = self._before(operation)

        async def do() -> Any:
            self._fail(operation, "before", number)
            if operation == "read":
                await self._dawdle()
            value = await awaitable()
            self._fail(operation, "after", number)
            return value

        return do()

    def read(self, ledger: str, start: int = 0, *, born: str = "") -> Coroutine[Any, Any, Sequence[AnyFact]]:
        return self._do("read", lambda: self.store.read(ledger, start, born=born))

    def born(self, ledger: str) -> Coroutine[Any, Any, str]:
        return self._do("born", lambda: self.store.born(ledger))

    def content(self, ledger: str, digest: str) -> Coroutine[Any, Any, bytes]:
        return self._do("content", lambda: self.store.content(ledger, digest))

    def fork(
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
    ) -> Coroutine[Any, Any, int]:
        return self._do("fork", lambda: self.store.fork(ledger, at, new, facts, contents=contents, born=born, of=of, expected=expected))

    def redact(self, ledger: str, erasing: Erases, *, born: str = "") -> Coroutine[Any, Any, Mapping[str, Erased]]:
        return self._do("redact", lambda: self.store.redact(ledger, erasing, born=born))

    def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, born: str = "") -> Coroutine[Any, Any, bool]:
        return self._do("delete", lambda: self.store.delete(ledger, expected=expected, born=born))

    def children(self, ledger: str) -> Coroutine[Any, Any, Sequence[LedgerInfo]]:
        return self._do("children", lambda: self.store.children(ledger))

    def list(self, limit: int = 100, after: LedgerInfo | None = None) -> Coroutine[Any, Any, Sequence[LedgerInfo]]:
        return self._do("list", lambda: self.store.list(limit, after))

    def lease(self, ledger: str) -> Coroutine[Any, Any, Lease | None]:
        number = self._before("lease")

        async def take() -> Lease | None:
            self._fail("lease", "before", number)
            await self._dawdle()
            lease = await self.store.lease(ledger)
            if lease is not None:
                self.held[ledger] = lease
            self._fail("lease", "after", number)
            return lease

        return take()

    def unrested(self, limit: int = 100, after: LedgerInfo | None = None) -> Coroutine[Any, Any, Sequence[LedgerInfo]]:
        return self._do("unrested", lambda: self.store.unrested(limit, after))

    def tenant(self, name: str) -> FailingStore:
        """The same process on a tenant's store: it fails by the same plan, and counts for itself."""
        other = copy.copy(self)
        other.store, other.held, other.acknowledged = self.store.tenant(name), {}, []
        return other

    def release(self, lease: Lease, *, rested: int | None = None) -> Coroutine[Any, Any, None]:
        number = self._before("release")

        async def give() -> None:
            self._fail("release", "before", number)
            await self.store.release(lease, rested=rested)
            if self.held.get(lease.ledger) == lease:
                del self.held[lease.ledger]
            self._fail("release", "after", number)

        return give()

    def wait(self, ledger: str, position: int, timeout: float) -> Coroutine[Any, Any, bool]:
        return self._do("wait", lambda: self.store.wait(ledger, position, timeout))

    def watch(self, ledger: str, position: int, moved: Callable[[int], None]) -> Callable[[], None]:
        self._fail("watch", "before", self._before("watch"))
        return self.store.watch(ledger, position, moved)

    async def close(self) -> None:
        """The store behind is not this process's to close."""

    def __repr__(self) -> str:
        return f"<FailingStore: {self.operations} operations{', dead' if self.dead else ''}>"
