"""The store that keeps ledgers in a Postgres database.

Each operation is one statement that commits by itself, so one round trip. `sql/` has the tables and the functions of several statements,
`shared_database.py` the connections, `listener.py` the connection for notifications and leases, `rows.py` the facts.
"""

from __future__ import annotations

import asyncio
import copy
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, LiteralString

from psycopg.types.numeric import Int4, Int8

from legato.core.facts import AnyFact
from legato.core.redaction import LedgerRedaction, Redactor
from legato.errors import BadInput, DamagedStore, LedgerConflict, LegatoError, StoreUnavailable
from legato.stores.contract import Lease, LedgerInfo, newest_epoch
from legato.stores.postgres import statements as sql
from legato.stores.postgres.delta_channel import PostgresDeltaChannel
from legato.stores.postgres.rows import (
    ForkTree,
    RelatedLedger,
    compute_checksum,
    decode_fact_rows,
    encode_fact_columns,
    ledger_key,
    raise_for_outcome,
)
from legato.stores.postgres.shared_database import PostgresDatabase, Rows, parse_dsn
from legato.stores.store_errors import (
    check_tenant_name,
    closed_store_error,
    damaged_content_error,
    fork_position_error,
    ledger_exists_error,
    nested_tenant_error,
    no_epoch_left_error,
    start_position_error,
    unknown_content_error,
    unknown_ledger_error,
    wrong_ledger_error,
)

MAX_POSITION = 2**31 - 1
MAX_DURATION_S = 86_400.0  # of leases and timeouts
LARGE_APPEND_BYTES = 16_000_000  # the server may take long to write a larger append
MAX_INLINE_DECODE_BYTES = 131_072  # facts decoded on the event loop, in about a millisecond; more are decoded on a thread


class PostgresStore:
    """A store of sessions in a Postgres database, for any number of processes on any number of machines.

    >>> store = PostgresStore("postgresql://legato:secret@db.example.com/talks", tenant="acme")
    >>> store
    PostgresStore('postgresql://legato@db.example.com/talks', tenant='acme')

    `dsn` is a URL or libpq's `key=value` form. Nothing is opened before the first operation, which also brings the database's schema up
    to date (schema `legato`; see docs/postgres.md). `tenant`: the tenant of these ledgers; `store.tenant(name)` returns another tenant's
    store, on the same connections. `lease_seconds`: how long the leases of a dead process stay taken. `pool_size`: the most connections for
    each event loop; one more, for the whole store, listens. `lock_timeout`: how many seconds to wait for locks. `answer_timeout`: how many
    more seconds a connection may be silent before it is given up. `prepare=False` for a pooler that cannot keep prepared statements.
    `durable=False` leaves `synchronous_commit` as the server has it, even if it is off: then the newest appends may be lost when the server
    is killed. `send_deltas=False`: text is not sent while a model writes it (see docs/streaming.md), because every role that may connect
    to the database could read it.
    """

    def __init__(
        self,
        dsn: str,
        *,
        tenant: str = "",
        lease_seconds: float = 6.0,
        pool_size: int = 8,
        lock_timeout: float = 10.0,
        answer_timeout: float = 20.0,
        prepare: bool = True,
        durable: bool = True,
        send_deltas: bool = True,
    ) -> None:
        for name, value in (("lease_seconds", lease_seconds), ("lock_timeout", lock_timeout), ("answer_timeout", answer_timeout)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_DURATION_S:
                raise BadInput(f"{name} is a number of seconds, above 0 and at most a day", found=repr(value))
        if pool_size < 1:
            raise BadInput("pool_size is a number of connections, at least 1", found=repr(pool_size))
        self._tenant = check_tenant_name(tenant) if tenant else ""
        self._database = PostgresDatabase(parse_dsn(dsn), lease_seconds, pool_size, lock_timeout, answer_timeout, prepare, durable)
        self._sends_deltas = send_deltas
        self._origin: PostgresStore | None = None
        self._tenants: weakref.WeakValueDictionary[str, PostgresStore] = weakref.WeakValueDictionary()

    def __repr__(self) -> str:
        return f"PostgresStore({self._database.target!r}{f', tenant={self._tenant!r}' if self._tenant else ''})"

    def tenant(self, name: str) -> PostgresStore:
        """Return the same store for one tenant. It shares the connections, and is closed with the store that it came from."""
        if self._tenant:
            raise nested_tenant_error(self._tenant)
        store = self._tenants.get(check_tenant_name(name))
        if store is None:
            store = copy.copy(self)
            store._tenant, store._origin = name, self
            self._tenants[name] = store
        return store

    @property
    def delta_channel(self) -> PostgresDeltaChannel | None:
        """The delta channel between all processes that use the database; None with `send_deltas=False`."""
        return PostgresDeltaChannel(self._database.listener.deltas, self._tenant) if self._sends_deltas else None

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
        """Record the facts at `expected` and return the new length."""
        bodies_by_digest = _copy_contents(contents)
        format, bodies, crcs = encode_fact_columns(expected, facts)
        arguments = (
            self._tenant,
            ledger,
            Int4(expected),
            ledger_id,
            Int8(facts[-1].at if facts else 0),
            format,
            bodies,
            crcs,
            *_content_columns(expected, bodies_by_digest),
            Int8(newest_epoch(facts)),
        )
        [(outcome, length)] = await self._execute(sql.APPEND, arguments, is_long=_is_large(bodies, bodies_by_digest))
        if outcome == "conflict":
            raise LedgerConflict(ledger, expected, length)
        raise_for_outcome(outcome, ledger)
        self._announce_growth(ledger, length)
        return int(length)

    async def read(self, ledger: str, start: int = 0, *, ledger_id: str = "") -> Sequence[AnyFact]:
        """Return the facts from `start` on. If some are damaged, `DamagedStore.readable` is the number before them; see `salvage`."""
        if start < 0:
            raise start_position_error(start)
        rows = await self._fetch(sql.READ, (self._tenant, ledger, Int4(min(start, MAX_POSITION))))
        if ledger_id and (not rows or rows[0][1] != ledger_id):
            raise wrong_ledger_error(ledger, len(rows))
        if not rows:
            return []
        facts, damage = await _decode_rows(ledger, rows, start)
        if damage is not None:
            raise damage
        return facts

    async def ledger_id(self, ledger: str) -> str:
        """Return the ledger's id."""
        rows = await self._fetch(sql.READ_LEDGER_ID, (self._tenant, ledger))
        return str(rows[0][0]) if rows else ""

    async def salvage(self, ledger: str) -> Sequence[AnyFact]:
        """Return the facts before the first damage: all of them if there is none."""
        rows = await self._fetch(sql.READ, (self._tenant, ledger, Int4(0)))
        return (await _decode_rows(ledger, rows, 0))[0] if rows else []

    async def verify(self) -> Sequence[str]:
        """Read all ledgers and contents of this tenant. Return one line for each that is damaged."""
        problems = []
        for (name,) in await self._fetch(sql.LIST_NAMES, (self._tenant,)):
            try:
                await self.read(name)
            except StoreUnavailable:
                raise
            except LegatoError as error:
                problems.append(f"ledger {name!r}: {error.summary}")
        for number, position, crc, body in await self._fetch(sql.READ_CONTENTS, (self._tenant,)):
            if crc != compute_checksum(position, body):
                problems.append(f"a content of the ledger with number {number} is damaged")
        return problems

    async def content(self, ledger: str, digest: str) -> bytes:
        """Return the content with this digest."""
        rows = await self._fetch(sql.READ_CONTENT, (digest, self._tenant, ledger))
        if not rows:
            raise unknown_ledger_error(ledger)
        [(length, position, crc, body)] = rows
        if body is None:
            raise unknown_content_error(ledger, digest)
        if crc != compute_checksum(position, body):
            raise damaged_content_error(ledger, digest, length)
        return bytes(body)

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
        """Create `new` with the first `at` facts of `ledger`, shared and not copied, then `facts`."""
        bodies_by_digest = _copy_contents(contents)
        format, bodies, crcs = encode_fact_columns(at, facts)
        last = facts[-1:] or (await self.read(ledger, at - 1, ledger_id=parent_ledger_id))[:1] if at > 0 else facts[-1:]
        arguments = (
            self._tenant,
            ledger,
            Int4(max(min(at, MAX_POSITION), -1)),
            new,
            ledger_id,
            parent_ledger_id,
            Int8(last[0].at if last else 0),
            *(format, bodies, crcs),
            *_content_columns(at, bodies_by_digest),
            None if expected is None else Int4(expected),
            Int8(newest_epoch(facts)),
        )
        [(outcome, length)] = await self._execute(sql.FORK, arguments, is_long=_is_large(bodies, bodies_by_digest))
        if outcome == "conflict":
            raise LedgerConflict(ledger, expected or 0, length)
        if outcome == "exists":
            raise ledger_exists_error(new)
        if outcome == "beyond":
            raise fork_position_error(ledger, at, length)
        raise_for_outcome(outcome, ledger)
        self._announce_growth(new, length)
        return int(length)

    async def redact(self, ledger: str, redactor: Redactor, *, ledger_id: str = "") -> Mapping[str, LedgerRedaction]:
        """Erase text in the ledger, and in those that share it. Old rows stay in the server's files until a vacuum."""
        while True:
            rows = await self._fetch(sql.READ_FORK_TREE, (self._tenant, ledger))
            if not rows:
                raise unknown_ledger_error(ledger)
            if ledger_id and rows[0][6] != ledger_id:
                raise wrong_ledger_error(ledger, rows[0][4])
            tree = ForkTree([row[:5] for row in rows])
            target = tree.ledgers[rows[0][5]]
            redactions = await self._plan_redactions(tree, target, redactor)
            if redactions is None:
                continue
            changed = {id: redaction for id, redaction in redactions.items() if redaction.appended_facts}
            if not changed:
                return {}
            [(is_done,)] = await self._execute(sql.REDACT, tree.redaction_arguments(self._tenant, target, redactions), is_long=True)
            if is_done:
                for each in (tree.ledgers[id] for id in changed):
                    self._announce_growth(str(each.name), each.length + 1)
                return {str(tree.ledgers[id].name): redaction for id, redaction in changed.items()}

    async def _plan_redactions(self, tree: ForkTree, target: RelatedLedger, redactor: Redactor) -> dict[int, LedgerRedaction] | None:
        """Return the redaction of each ledger; None if one has changed since the tree was read."""
        redactions: dict[int, LedgerRedaction] = {}
        for each in tree.named_ledgers:
            name = str(each.name)
            facts = await self.read(name)
            if len(facts) != each.length:
                return None
            shared = tree.count_shared(target, each)
            contents = {}
            for digest in redactor.find_needed_contents(facts, shared):
                rows = await self._fetch(sql.READ_CONTENT, (digest, self._tenant, name))
                if rows and rows[0][3] is not None:
                    contents[digest] = bytes(rows[0][3])
            redactions[each.id] = redactor.redact(facts, shared, contents)
        return redactions

    async def children(self, ledger: str) -> Sequence[LedgerInfo]:
        """Return the ledgers of child sessions, at any depth."""
        return [LedgerInfo(*row) for row in await self._fetch(sql.LIST_CHILDREN, (self._tenant, ledger))]

    async def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, ledger_id: str = "") -> bool:
        """Remove the ledger and its children. Facts that forks share stay in the forks."""
        lengths = (None, None) if expected is None else (list(expected), list(expected.values()))
        [(outcome, name, expected_length, length)] = await self._execute(
            sql.DELETE, (self._tenant, ledger, *lengths, ledger_id), is_long=True
        )
        if outcome == "conflict":
            raise LedgerConflict(name, expected_length, length)
        if outcome == "none":
            return False
        raise_for_outcome(outcome, ledger)
        return True

    async def list(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """Return ledgers, the most recent first. `after` is a line of an earlier result, to continue there."""
        arguments = (self._tenant, Int8(after.touched if after is not None else 2**63 - 1), Int8(max(limit, 0)))
        return [LedgerInfo(*row) for row in await self._fetch(sql.LIST_RECENT, arguments)]

    async def list_runnable(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """Return the ledgers that have grown since they were last idle and are not leased, the one with the oldest append first."""
        arguments = (self._tenant, Int8(after.touched if after is not None else -1), Int8(max(limit, 0)))
        return [LedgerInfo(*row) for row in await self._fetch(sql.LIST_RUNNABLE, arguments)]

    async def lease(self, ledger: str) -> Lease | None:
        """Take the right to drive, or return None while another driver has it. It ends with `release`, `close`, or the process."""
        return await self._database.run_to_completion(self._take_lease(ledger), on_unclaimed=self._release_unclaimed)

    async def _take_lease(self, ledger: str) -> Lease | None:
        [(outcome, epoch, number)] = await self._database.execute(sql.LEASE, (self._tenant, ledger, self._database.lease_seconds))
        if outcome == "held":
            return None
        if outcome == "none left":
            raise no_epoch_left_error(ledger)
        raise_for_outcome(outcome, ledger)
        lease = Lease(ledger, epoch, number)
        self._database.listener.add_lease(self._tenant, lease)
        return lease

    def _release_unclaimed(self, lease: Lease | None) -> None:
        """Release a lease whose caller was cancelled meanwhile."""
        if lease is not None:
            self._database.run_in_background(self.release(lease))

    async def release(self, lease: Lease, *, idle_at: int | None = None) -> None:
        """End a lease. Releasing a lease that has ended is harmless."""
        if not self._database.listener.remove_lease(lease):
            return
        idle_positions = [None if idle_at is None else Int4(idle_at)]
        with suppress(StoreUnavailable):  # the lease is not renewed any more, so it expires
            await self._execute(sql.RELEASE, ([self._tenant], [Int8(lease.ledger_number)], [Int8(lease.epoch)], idle_positions))

    async def wait(self, ledger: str, position: int, timeout: float) -> bool:  # noqa: ASYNC109 - a timeout is an answer here, not an error
        """Wait for the ledger to grow beyond `position` facts, here or in any other process."""
        key = ledger_key(self._tenant, ledger)

        async def read_length() -> int:
            self._database.listener.watch(key, self._tenant, ledger, is_checked=True)
            rows = await self._database.await_or_abandon(self._fetch(sql.READ_LEDGER_ID, (self._tenant, ledger)))
            return int(rows[0][1]) if rows else 0

        return await self._database.watchers.wait(key, position, timeout, read_length)

    def watch(self, ledger: str, position: int, on_growth: Callable[[int], None]) -> Callable[[], None]:
        """Call `on_growth` whenever the ledger grows beyond `position` facts, here or in any other process."""
        if self._database.is_closed:
            raise closed_store_error()
        key = ledger_key(self._tenant, ledger)
        stop_watching = self._database.watchers.watch(key, position, on_growth)
        self._database.listener.watch(key, self._tenant, ledger, is_checked=False)
        return stop_watching

    async def execute(self, statement: LiteralString, arguments: Sequence[Any]) -> Rows:
        """Execute a statement about tables beside the ledgers, on the store's connections. Return its rows."""
        return await self._execute(statement, arguments)

    async def close(self) -> None:
        """Release all leases and close all connections. Closing twice is harmless, and closing a tenant's store does nothing."""
        if self._origin is None:
            await self._database.close()

    async def __aenter__(self) -> PostgresStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _announce_growth(self, ledger: str, length: int) -> None:
        key = ledger_key(self._tenant, ledger)
        self._database.listener.announce(key, length)
        self._database.watchers.notify(key, length)

    async def _fetch(self, statement: LiteralString, arguments: Sequence[Any]) -> Rows:
        """Execute a statement that changes nothing, so that it may be repeated when the connection breaks."""
        return await self._database.execute(statement, arguments, is_repeatable=True)

    async def _execute(self, statement: LiteralString, arguments: Sequence[Any], *, is_long: bool = False) -> Rows:
        """Execute a statement that writes, to its end even if the caller is cancelled: otherwise the connection would be lost too."""
        return await self._database.run_to_completion(self._database.execute(statement, arguments, is_long=is_long))


async def _decode_rows(ledger: str, rows: Rows, start: int) -> tuple[list[AnyFact], DamagedStore | None]:
    """Decode rows, on a thread if there are so many bytes that they would hold the event loop."""
    if sum(len(row[-1]) for row in rows[1:]) <= MAX_INLINE_DECODE_BYTES:
        return decode_fact_rows(ledger, rows, start)
    return await asyncio.to_thread(decode_fact_rows, ledger, rows, start)


def _copy_contents(contents: Mapping[str, bytes] | None) -> dict[str, bytes]:
    return {digest: bytes(body) for digest, body in contents.items()} if contents else {}


def _content_columns(position: int, bodies_by_digest: Mapping[str, bytes]) -> tuple[list[str], list[bytes], list[int]]:
    """Return contents as the array arguments of a statement: digests, bodies, checksums."""
    return list(bodies_by_digest), list(bodies_by_digest.values()), [compute_checksum(position, body) for body in bodies_by_digest.values()]


def _is_large(bodies: Sequence[bytes], bodies_by_digest: Mapping[str, bytes]) -> bool:
    return sum(map(len, bodies_by_digest.values())) + sum(map(len, bodies)) > LARGE_APPEND_BYTES
