"""Stores that fail as planned.

The interesting failure is the ambiguous one: the store carried the operation out, and its caller gets an error. The next one is death:
the calling process dies before or after the operation, and must not use the store again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from legato.core.facts import AnyFact
from legato.core.redaction import LedgerRedaction, Redactor
from legato.errors import StoreError
from legato.stores.contract import Lease, LedgerInfo, Store

STORE_OPERATIONS = (
    "append", "read", "ledger_id", "content", "fork", "redact", "delete", "children", "list", "lease", "release", "list_runnable",
    "wait", "watch",
)  # fmt: skip


class Died(BaseException):
    """The death of a process. It is no `Exception`, so that nothing catches it, as nothing survives `kill -9`."""


@dataclass(frozen=True)
class Fault:
    """One planned failure: operation number `at` (from 1) fails before or after it is carried out.

    `error` is raised to the caller; with `Died` the calling process dies. With `persistent`, every later operation fails the same way
    until `heal()`.

    >>> Fault(3, "after")
    Fault(at=3, when='after', error=<class 'legato.errors.StoreError'>, persistent=False)
    """

    at: int
    when: Literal["before", "after"] = "before"
    error: type[StoreError] | type[Died] = StoreError
    persistent: bool = False


FaultPlan: TypeAlias = Callable[[str, str, int], BaseException | None]
"""`plan(operation, when, number)` is called before and after each operation, and returns the error to raise, if any.

`when` is `"before"` or `"after"`.
"""


def make_fault_plan(faults: Iterable[Fault]) -> FaultPlan:
    """Return a plan that raises these faults."""
    transient: dict[tuple[int, str], Fault] = {(fault.at, fault.when): fault for fault in faults if not fault.persistent}
    persistent = [fault for fault in faults if fault.persistent]

    def plan(operation: str, when: str, number: int) -> BaseException | None:
        fault = transient.get((number, when))
        if fault is None:
            fault = next((each for each in persistent if each.when == when and number >= each.at), None)
        if fault is None:
            return None
        if issubclass(fault.error, StoreError):
            return fault.error(f"a fault was planned {when} operation {number} ({operation})", do="nothing: this is a test")
        return fault.error(f"{when} operation {number} ({operation})")

    return plan


class FailingStore:
    """The store handle of one process, which fails as planned. The store behind it may be shared and never fails.

    `plan` is a list of `Fault`s or a function. `only` has the operations that are counted and may fail (by default, all but `wait`,
    `watch` and `close`). `delay` is awaited before and after each append, and before each read and lease. `operations` is the number of
    counted operations so far; `acknowledged` has every append that was confirmed to its caller.

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
        plan: FaultPlan | Sequence[Fault] = (),
        only: Iterable[str] = STORE_OPERATIONS[:-2],
        delay: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.store = store
        self.operations = 0
        self.is_dead = False
        self.is_healed = False
        self.acknowledged: list[tuple[str, int, Sequence[AnyFact]]] = []
        self.on_death: Callable[[], None] | None = None
        self.held_leases: dict[str, Lease] = {}
        self._plan: FaultPlan | None = plan if callable(plan) else make_fault_plan(plan) if plan else None
        self._only = frozenset(only)
        self._delay = delay

    def heal(self) -> None:
        """End all faults."""
        self.is_healed = True

    def die(self, why: str = "") -> Died:
        """Declare this process dead, so that all its operations fail, and return the error to raise."""
        self.is_dead = True
        if self.on_death is not None:
            self.on_death()
        return Died(why)

    async def release_leases(self) -> None:
        """Release the leases of the dead process, as an operating system does."""
        leases, self.held_leases = list(self.held_leases.values()), {}
        for lease in leases:
            await self.store.release(lease)

    def _begin_operation(self, operation: str) -> int:
        if self.is_dead:
            raise Died(f"{operation} after death")
        if operation not in self._only:
            return 0
        self.operations += 1
        return self.operations

    def _fail_if_planned(self, operation: str, when: str, number: int) -> None:
        if self.is_dead:
            raise Died(f"{operation} after death")
        if self._plan is None or self.is_healed or not number:
            return
        error = self._plan(operation, when, number)
        if isinstance(error, Died):
            raise self.die(str(error))
        if error is not None:
            raise error

    async def _wait_delay(self) -> None:
        if self._delay is not None:
            await self._delay()
            if self.is_dead:
                raise Died("during the delay of a store operation")

    # These are plain functions that return coroutines, because a dead process must not even get a coroutine.

    def append(
        self,
        ledger: str,
        expected: int,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        durable: bool = False,
        ledger_id: str = "",
    ) -> Coroutine[Any, Any, int]:
        number = self._begin_operation("append")

        async def append() -> int:
            self._fail_if_planned("append", "before", number)
            await self._wait_delay()
            length = await self.store.append(ledger, expected, facts, contents=contents, durable=durable, ledger_id=ledger_id)
            self._fail_if_planned("append", "after", number)
            await self._wait_delay()
            self.acknowledged.append((ledger, expected, facts))
            return length

        return append()

    def _perform(self, operation: str, awaitable: Callable[[], Coroutine[Any, Any, Any]]) -> Coroutine[Any, Any, Any]:
        number = self._begin_operation(operation)

        async def do() -> Any:
            self._fail_if_planned(operation, "before", number)
            if operation == "read":
                await self._wait_delay()
            value = await awaitable()
            self._fail_if_planned(operation, "after", number)
            return value

        return do()

    def read(self, ledger: str, start: int = 0, *, ledger_id: str = "") -> Coroutine[Any, Any, Sequence[AnyFact]]:
        return self._perform("read", lambda: self.store.read(ledger, start, ledger_id=ledger_id))

    def ledger_id(self, ledger: str) -> Coroutine[Any, Any, str]:
        return self._perform("ledger_id", lambda: self.store.ledger_id(ledger))

    def content(self, ledger: str, digest: str) -> Coroutine[Any, Any, bytes]:
        return self._perform("content", lambda: self.store.content(ledger, digest))

    def fork(
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
    ) -> Coroutine[Any, Any, int]:
        return self._perform(
            "fork",
            lambda: self.store.fork(
                ledger, at, new, facts, contents=contents, ledger_id=ledger_id, parent_ledger_id=parent_ledger_id, expected=expected
            ),
        )

    def redact(self, ledger: str, redactor: Redactor, *, ledger_id: str = "") -> Coroutine[Any, Any, Mapping[str, LedgerRedaction]]:
        return self._perform("redact", lambda: self.store.redact(ledger, redactor, ledger_id=ledger_id))

    def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, ledger_id: str = "") -> Coroutine[Any, Any, bool]:
        return self._perform("delete", lambda: self.store.delete(ledger, expected=expected, ledger_id=ledger_id))

    def children(self, ledger: str) -> Coroutine[Any, Any, Sequence[LedgerInfo]]:
        return self._perform("children", lambda: self.store.children(ledger))

    def list(self, limit: int = 100, after: LedgerInfo | None = None) -> Coroutine[Any, Any, Sequence[LedgerInfo]]:
        return self._perform("list", lambda: self.store.list(limit, after))

    def lease(self, ledger: str) -> Coroutine[Any, Any, Lease | None]:
        number = self._begin_operation("lease")

        async def take_lease() -> Lease | None:
            self._fail_if_planned("lease", "before", number)
            await self._wait_delay()
            lease = await self.store.lease(ledger)
            if lease is not None:
                self.held_leases[ledger] = lease
            self._fail_if_planned("lease", "after", number)
            return lease

        return take_lease()

    def list_runnable(self, limit: int = 100, after: LedgerInfo | None = None) -> Coroutine[Any, Any, Sequence[LedgerInfo]]:
        return self._perform("list_runnable", lambda: self.store.list_runnable(limit, after))

    def tenant(self, name: str) -> FailingStore:
        """Return a handle of the same process on a tenant's store. It fails by the same plan, and counts its own operations."""
        other = copy.copy(self)
        other.store, other.held_leases, other.acknowledged = self.store.tenant(name), {}, []
        return other

    def release(self, lease: Lease, *, idle_at: int | None = None) -> Coroutine[Any, Any, None]:
        number = self._begin_operation("release")

        async def release_lease() -> None:
            self._fail_if_planned("release", "before", number)
            await self.store.release(lease, idle_at=idle_at)
            if self.held_leases.get(lease.ledger) == lease:
                del self.held_leases[lease.ledger]
            self._fail_if_planned("release", "after", number)

        return release_lease()

    def wait(self, ledger: str, position: int, timeout: float) -> Coroutine[Any, Any, bool]:
        return self._perform("wait", lambda: self.store.wait(ledger, position, timeout))

    def watch(self, ledger: str, position: int, on_growth: Callable[[int], None]) -> Callable[[], None]:
        self._fail_if_planned("watch", "before", self._begin_operation("watch"))
        return self.store.watch(ledger, position, on_growth)

    async def close(self) -> None:
        """Do nothing: other processes use the store behind."""

    def __repr__(self) -> str:
        return f"<FailingStore: {self.operations} operations{', dead' if self.is_dead else ''}>"
