"""Ledgers in a Postgres database. May know: what the server's functions answer. Decides: what is asked of it, and what its answers mean.

Each operation is one statement that commits by itself, so one round trip. `postgres_sql/` has the tables and what takes more than one
statement, `postgres_server.py` the connections, `postgres_line.py` the one that listens and keeps leases alive, `postgres_rows.py` the
facts.
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
from legato.core.redaction import Erased, Erases
from legato.errors import BadInput, DamagedStore, LedgerConflict, LegatoError, StoreUnavailable
from legato.stores import postgres_statements as sql
from legato.stores.contract import Lease, LedgerInfo, newest_epoch
from legato.stores.postgres_live import PostgresLive
from legato.stores.postgres_rows import Family, Kin, checksum, facts_in, key_of, refuse, written
from legato.stores.postgres_server import Rows, Server, parameters_of
from legato.stores.refusals import (
    bad_start,
    beyond_end,
    checked_tenant,
    closed_store,
    damaged_content,
    ledger_exists,
    no_content,
    no_epoch_left,
    not_born_so,
    of_one_tenant,
    unknown_ledger,
)

MOST = 2**31 - 1  # a position can be
LONGEST = 86_400.0  # seconds that a lease or a wait may last
LARGE_BYTES = 16_000_000  # of an append, from which on the server may take long to write it
MAX_BYTES_AT_ONCE = 131_072  # of facts that are decoded on the event loop, in about a millisecond; more are decoded on a thread


class PostgresStore:
    """Sessions in a Postgres database, for any number of processes on any number of machines.

    >>> store = PostgresStore("postgresql://legato:secret@db.example.com/talks", tenant="acme")
    >>> store
    PostgresStore('postgresql://legato@db.example.com/talks', tenant='acme')

    `dsn` is a URL or libpq's `key=value` form. Nothing is opened before the first operation, which also brings the database's schema up
    to date (schema `legato`; see docs/postgres.md). `tenant`: whose ledgers these are; `store.tenant(name)` gives another's, on the same
    connections. `lease_seconds`: how long after its death a process is taken for driving still. `pool_size`: connections at most for each
    event loop; one more, for the whole store, listens. `lock_timeout`: how many seconds to wait for others' locks. `answer_timeout`: how
    many seconds more an open connection may say nothing before it is given up. `prepare=False` for a pooler that cannot keep prepared
    statements. `durable=False` leaves `synchronous_commit` as the server has it, where it is switched off: then the newest appends may be
    lost when the server is killed. `live=False`: words are not sent while they are said (see docs/streaming.md): everybody who may
    connect to the database could listen to them.
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
        live: bool = True,
    ) -> None:
        for name, value in (("lease_seconds", lease_seconds), ("lock_timeout", lock_timeout), ("answer_timeout", answer_timeout)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LONGEST:
                raise BadInput(f"{name} is a number of seconds, above 0 and at most a day", found=repr(value))
        if pool_size < 1:
            raise BadInput("pool_size is a number of connections, at least 1", found=repr(pool_size))
        self._tenant = checked_tenant(tenant) if tenant else ""
        self._server = Server(parameters_of(dsn), lease_seconds, pool_size, lock_timeout, answer_timeout, prepare, durable)
        self._live = live
        self._of: PostgresStore | None = None
        self._tenants: weakref.WeakValueDictionary[str, PostgresStore] = weakref.WeakValueDictionary()

    def __repr__(self) -> str:
        return f"PostgresStore({self._server.where!r}{f', tenant={self._tenant!r}' if self._tenant else ''})"

    def tenant(self, name: str) -> PostgresStore:
        """The same store for one tenant: its ledgers alone. It shares the connections, and ends with the store that it came from."""
        if self._tenant:
            raise of_one_tenant(self._tenant)
        found = self._tenants.get(checked_tenant(name))
        if found is None:
            found = copy.copy(self)
            found._tenant, found._of = name, self
            self._tenants[name] = found
        return found

    @property
    def live(self) -> PostgresLive | None:
        """What carries words while they are said; see `live.py`."""
        return PostgresLive(self._server.line.notes, self._tenant) if self._live else None

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
        """Record the facts at `expected` and return the new length."""
        kept = _as_bytes(contents)
        format, bodies, crcs = written(expected, facts)
        given = (
            self._tenant,
            ledger,
            Int4(expected),
            born,
            Int8(facts[-1].at if facts else 0),
            format,
            bodies,
            crcs,
            *_contents(expected, kept),
            Int8(newest_epoch(facts)),
        )
        [(outcome, reached)] = await self._write(sql.APPEND, given, long=_is_large(bodies, kept))
        if outcome == "conflict":
            raise LedgerConflict(ledger, expected, reached)
        refuse(outcome, ledger)
        self._grew(ledger, reached)
        return int(reached)

    async def read(self, ledger: str, start: int = 0, *, born: str = "") -> Sequence[AnyFact]:
        """The facts from `start` on. If some are damaged, `DamagedStore.readable` says how many come before; see `salvage`."""
        if start < 0:
            raise bad_start(start)
        rows = await self._look(sql.READ, (self._tenant, ledger, Int4(min(start, MOST))))
        if born and (not rows or rows[0][1] != born):
            raise not_born_so(ledger, len(rows))
        if not rows:
            return []
        facts, damage = await _decoded(ledger, rows, start)
        if damage is not None:
            raise damage
        return facts

    async def born(self, ledger: str) -> str:
        """The birth name."""
        rows = await self._look(sql.BORN, (self._tenant, ledger))
        return str(rows[0][0]) if rows else ""

    async def salvage(self, ledger: str) -> Sequence[AnyFact]:
        """The facts that come before the first damage: all of them, if there is none."""
        rows = await self._look(sql.READ, (self._tenant, ledger, Int4(0)))
        return (await _decoded(ledger, rows, 0))[0] if rows else []

    async def verify(self) -> Sequence[str]:
        """Read all ledgers and contents of this tenant and say what is wrong with them, one line each; nothing if they are sound."""
        found = []
        for (name,) in await self._look(sql.NAMES, (self._tenant,)):
            try:
                await self.read(name)
            except StoreUnavailable:
                raise
            except LegatoError as error:
                found.append(f"ledger {name!r}: {error.summary}")
        for number, position, crc, body in await self._look(sql.CONTENTS, (self._tenant,)):
            if crc != checksum(position, body):
                found.append(f"a content of the ledger with number {number} is damaged")
        return found

    async def content(self, ledger: str, digest: str) -> bytes:
        """What was recorded under this digest."""
        rows = await self._look(sql.CONTENT, (digest, self._tenant, ledger))
        if not rows:
            raise unknown_ledger(ledger)
        [(length, position, crc, body)] = rows
        if body is None:
            raise no_content(ledger, digest)
        if crc != checksum(position, body):
            raise damaged_content(ledger, digest, length)
        return bytes(body)

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
        """Begin `new` with the first `at` facts of `ledger`, shared and not copied, then `facts`."""
        kept = _as_bytes(contents)
        format, bodies, crcs = written(at, facts)
        last = facts[-1:] or (await self.read(ledger, at - 1, born=of))[:1] if at > 0 else facts[-1:]
        given = (
            self._tenant,
            ledger,
            Int4(max(min(at, MOST), -1)),
            new,
            born,
            of,
            Int8(last[0].at if last else 0),
            *(format, bodies, crcs),
            *_contents(at, kept),
            None if expected is None else Int4(expected),
            Int8(newest_epoch(facts)),
        )
        [(outcome, reached)] = await self._write(sql.FORK, given, long=_is_large(bodies, kept))
        if outcome == "conflict":
            raise LedgerConflict(ledger, expected or 0, reached)
        if outcome == "exists":
            raise ledger_exists(new)
        if outcome == "beyond":
            raise beyond_end(ledger, at, reached)
        refuse(outcome, ledger)
        self._grew(new, reached)
        return int(reached)

    async def redact(self, ledger: str, erasing: Erases, *, born: str = "") -> Mapping[str, Erased]:
        """Erase words in the ledger, and in those that share them. Old rows stay in the server's files until it has cleaned up."""
        while True:
            rows = await self._look(sql.FAMILY, (self._tenant, ledger))
            if not rows:
                raise unknown_ledger(ledger)
            if born and rows[0][6] != born:
                raise not_born_so(ledger, rows[0][4])
            family = Family([row[:5] for row in rows])
            done = await self._worked_out(family, family.kin[rows[0][5]], erasing)
            if done is None:
                continue
            changed = {id: erased for id, erased in done.items() if erased.added}
            if not changed:
                return {}
            [(carried_out,)] = await self._write(sql.REDACT, family.redaction(self._tenant, family.kin[rows[0][5]], done), long=True)
            if carried_out:
                for each in (family.kin[id] for id in changed):
                    self._grew(str(each.name), each.length + 1)
                return {str(family.kin[id].name): erased for id, erased in changed.items()}

    async def _worked_out(self, family: Family, asked: Kin, erasing: Erases) -> dict[int, Erased] | None:
        """What becomes of each ledger; None if one has moved since the family was looked at."""
        done: dict[int, Erased] = {}
        for each in family.named:
            name = str(each.name)
            facts = await self.read(name)
            if len(facts) != each.length:
                return None
            shared = family.count_shared(asked, each)
            contents = {}
            for digest in erasing.looks_at(facts, shared):
                rows = await self._look(sql.CONTENT, (digest, self._tenant, name))
                if rows and rows[0][3] is not None:
                    contents[digest] = bytes(rows[0][3])
            done[each.id] = erasing.erased(facts, shared, contents)
        return done

    async def children(self, ledger: str) -> Sequence[LedgerInfo]:
        """The ledgers of child sessions, at any depth."""
        return [LedgerInfo(*row) for row in await self._look(sql.CHILDREN, (self._tenant, ledger))]

    async def delete(self, ledger: str, *, expected: Mapping[str, int] | None = None, born: str = "") -> bool:
        """Remove the ledger and its children. What forks share lives on in them."""
        lengths = (None, None) if expected is None else (list(expected), list(expected.values()))
        [(outcome, name, wanted, reached)] = await self._write(sql.REMOVE, (self._tenant, ledger, *lengths, born), long=True)
        if outcome == "conflict":
            raise LedgerConflict(name, wanted, reached)
        if outcome == "none":
            return False
        refuse(outcome, ledger)
        return True

    async def list(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """The most recent ledgers first; those behind a line that was given before, to go on there."""
        given = (self._tenant, Int8(after.touched if after is not None else 2**63 - 1), Int8(max(limit, 0)))
        return [LedgerInfo(*row) for row in await self._look(sql.RECENT, given)]

    async def unrested(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        """The ledgers that have grown since a driver last rested there, and that nobody drives: the one that waits for longest first."""
        behind = Int8(after.touched if after is not None else -1)
        given = (self._tenant, behind, Int8(max(limit, 0)))
        return [LedgerInfo(*row) for row in await self._look(sql.UNRESTED, given)]

    async def lease(self, ledger: str) -> Lease | None:
        """Take the right to drive, or None while another holds it. It ends with `release`, `close`, or soon after this process."""
        return await self._server.to_the_end(self._lease(ledger), otherwise=self._give_back)

    async def _lease(self, ledger: str) -> Lease | None:
        [(outcome, epoch, number)] = await self._server.run(sql.LEASE, (self._tenant, ledger, self._server.lease_seconds))
        if outcome == "held":
            return None
        if outcome == "none left":
            raise no_epoch_left(ledger)
        refuse(outcome, ledger)
        lease = Lease(ledger, epoch, number)
        self._server.line.hold(self._tenant, lease)
        return lease

    def _give_back(self, lease: Lease | None) -> None:
        """Whoever asked for it was cancelled meanwhile."""
        if lease is not None:
            self._server.keep(self.release(lease))

    async def release(self, lease: Lease, *, rested: int | None = None) -> None:
        """Give the right to drive back. Releasing a lease that is over is harmless."""
        if not self._server.line.let_go(lease):
            return
        rests = [None if rested is None else Int4(rested)]
        with suppress(StoreUnavailable):  # it is not renewed any more, and ends with its time
            await self._write(sql.RELEASE, ([self._tenant], [Int8(lease.number)], [Int8(lease.epoch)], rests))

    async def wait(self, ledger: str, position: int, timeout: float) -> bool:  # noqa: ASYNC109 - it is an answer, not an error
        """Wait for the ledger to grow beyond `position` facts, here or in any other process."""
        key = key_of(self._tenant, ledger)

        async def length() -> int:
            self._server.line.watch(key, self._tenant, ledger, looks=True)
            rows = await self._server.for_as_long_as_asked(self._look(sql.BORN, (self._tenant, ledger)))
            return int(rows[0][1]) if rows else 0

        return await self._server.waiters.wait(key, position, timeout, length)

    def watch(self, ledger: str, position: int, moved: Callable[[int], None]) -> Callable[[], None]:
        """Be told whenever the ledger grows beyond `position` facts, here or in any other process."""
        if self._server.closed:
            raise closed_store()
        key = key_of(self._tenant, ledger)
        stop = self._server.waiters.watch(key, position, moved)
        self._server.line.watch(key, self._tenant, ledger, looks=False)
        return stop

    async def beside(self, statement: LiteralString, given: Sequence[Any]) -> Rows:
        """Execute a statement about what is kept beside the ledgers, on the store's connections; its rows."""
        return await self._write(statement, given)

    async def close(self) -> None:
        """Give leases back and close all connections. Closing twice is harmless, and closing a tenant's store does nothing."""
        if self._of is None:
            await self._server.close()

    async def __aenter__(self) -> PostgresStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _grew(self, ledger: str, length: int) -> None:
        key = key_of(self._tenant, ledger)
        self._server.line.tell(key, length)
        self._server.waiters.wake(key, length)

    async def _look(self, statement: LiteralString, given: Sequence[Any]) -> Rows:
        """Execute what changes nothing, and may so be asked again when the line breaks."""
        return await self._server.run(statement, given, again=True)

    async def _write(self, statement: LiteralString, given: Sequence[Any], *, long: bool = False) -> Rows:
        """Execute what writes. It comes to its end although whoever asked may be cancelled: else the connection would be lost with it."""
        return await self._server.to_the_end(self._server.run(statement, given, long=long))


async def _decoded(ledger: str, rows: Rows, start: int) -> tuple[list[AnyFact], DamagedStore | None]:
    """What `facts_in` says; of many facts, or of large ones, without holding the event loop."""
    if sum(len(row[-1]) for row in rows[1:]) <= MAX_BYTES_AT_ONCE:
        return facts_in(ledger, rows, start)
    return await asyncio.to_thread(facts_in, ledger, rows, start)


def _as_bytes(contents: Mapping[str, bytes] | None) -> dict[str, bytes]:
    return {digest: bytes(body) for digest, body in contents.items()} if contents else {}


def _contents(position: int, kept: Mapping[str, bytes]) -> tuple[list[str], list[bytes], list[int]]:
    """Contents as the columns that a statement is given."""
    return list(kept), list(kept.values()), [checksum(position, body) for body in kept.values()]


def _is_large(bodies: Sequence[bytes], kept: Mapping[str, bytes]) -> bool:
    return sum(map(len, kept.values())) + sum(map(len, bodies)) > LARGE_BYTES
