"""Stores that violate the contract, each in one way. `check_store` must find all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from legato.core import codec
from legato.errors import LedgerConflict, UnknownLedger
from legato.stores import Lease, MemoryStore, SQLiteStore
from legato.stores.ledger_watchers import LedgerWatchers

# ruff: noqa: ASYNC109 - parameter names of the contract
# Faulty on purpose, by overriding any method: types would be in the way here.
# mypy: disable-error-code="override,no-untyped-def"


class SkipsPositionCheck(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        return await super().append(ledger, len(await self.read(ledger)), facts, **options)


class ChecksPositionTooEarly(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        if len(await self.read(ledger)) != expected:
            raise LedgerConflict(ledger, expected, len(await self.read(ledger)))
        await asyncio.sleep(0)
        return await super().append(ledger, len(await self.read(ledger)), facts, **options)


class ReportsWrongPosition(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        try:
            return await super().append(ledger, expected, facts, **options)
        except LedgerConflict as conflict:
            raise LedgerConflict(ledger, conflict.expected_position, conflict.expected_position) from None


class AppendsHalf(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        await super().append(ledger, expected, facts[: (len(facts) + 1) // 2], **options)
        return expected + len(facts)


class AppendsOneByOne(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        for number, fact in enumerate(facts):
            await super().append(ledger, expected + number, [fact], **options)
            await asyncio.sleep(0)
        return expected + len(facts)


class AcknowledgesTooEarly(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        later = asyncio.ensure_future(super().append(ledger, expected, list(facts), **options))
        later.add_done_callback(lambda redactions: redactions.exception())
        return expected + len(facts)


class RewritesAllFacts(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        for fact in await self.read(ledger):
            codec.encode_fact(fact)
        return await super().append(ledger, expected, facts, **options)


class SortsByTime(MemoryStore):
    async def read(self, ledger, start=0, **options):
        return sorted(await super().read(ledger, start, **options), key=lambda fact: fact.at)


class IgnoresStart(MemoryStore):
    async def read(self, ledger, start=0, **options):
        return await super().read(ledger, 0 if start >= 0 else start, **options)


class ReturnsInternalList(MemoryStore):
    async def read(self, ledger, start=0, **options):
        return self._ledgers[ledger].facts if start == 0 and ledger in self._ledgers else await super().read(ledger, start, **options)


class LowercasesNames(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        return await super().append(ledger.lower(), expected, facts, **options)

    async def read(self, ledger, start=0, **options):
        return await super().read(ledger.lower(), start, **options)


class LosesContents(MemoryStore):
    async def append(self, ledger, expected, facts, *, contents=None, **options):
        return await super().append(ledger, expected, facts, **options)


class OverwritesContents(MemoryStore):
    async def append(self, ledger, expected, facts, *, contents=None, **options):
        length = await super().append(ledger, expected, facts, contents=contents, **options)
        self._ledgers[ledger].contents.update({digest: (expected, body) for digest, body in (contents or {}).items()})
        return length


class RecordsContentsFirst(MemoryStore):
    async def append(self, ledger, expected, facts, *, contents=None, **options):
        if ledger in self._ledgers:
            self._ledgers[ledger].contents.update({digest: (expected, body) for digest, body in (contents or {}).items()})
        return await super().append(ledger, expected, facts, contents=contents, **options)


class SharesFactListWithFork(MemoryStore):
    async def fork(self, ledger, at, new, facts, **options):
        length = await super().fork(ledger, at, new, facts, **options)
        if not facts and at == len(self._ledgers[ledger].facts):
            self._ledgers[new].facts = self._ledgers[ledger].facts
        return length


class ForksAtTheEnd(MemoryStore):
    async def fork(self, ledger, at, new, facts, **options):
        return await super().fork(ledger, len(await self.read(ledger)) if at >= 0 else at, new, facts, **options)


class ForksSeeLaterContents(MemoryStore):
    async def fork(self, ledger, at, new, facts, **options):
        length = await super().fork(ledger, at, new, facts, **options)
        self._ledgers[new].contents = dict(self._ledgers[ledger].contents)
        return length


class ForksLoseContents(MemoryStore):
    async def fork(self, ledger, at, new, facts, **options):
        length = await super().fork(ledger, at, new, facts, **options)
        self._ledgers[new].contents = {}
        return length


class OverwritesForkTarget(MemoryStore):
    async def fork(self, ledger, at, new, facts, **options):
        if new != ledger:
            await self.delete(new)
        return await super().fork(ledger, at, new, facts, **options)


class ForksRestartEpochs(MemoryStore):
    async def fork(self, ledger, at, new, facts, **options):
        length = await super().fork(ledger, at, new, facts, **options)
        self._ledgers[new].epoch = 0
        return length


class DeletesSharedFacts(MemoryStore):
    async def fork(self, ledger, at, new, facts, **options):
        length = await super().fork(ledger, at, new, facts, **options)
        self._shares = {**getattr(self, "_shares", {}), new: (ledger, at)}
        return length

    async def delete(self, ledger, **options):
        for new, (parent, at) in getattr(self, "_shares", {}).items():
            if parent == ledger and new in self._ledgers:
                del self._ledgers[new].facts[:at]
        return await super().delete(ledger, **options)


class DeletesUnchecked(MemoryStore):
    async def delete(self, ledger, **options):
        return await super().delete(ledger)


class KeepsDeletedLedgers(MemoryStore):
    async def delete(self, ledger, **options):
        return bool(await self.read(ledger))


class ListsByCreation(MemoryStore):
    async def list(self, limit=100, after=None):
        order = list(self._ledgers)
        return sorted(await super().list(limit, after), key=lambda info: order.index(info.ledger), reverse=True)


class ListsByFactTime(MemoryStore):
    async def list(self, limit=100, after=None):
        return sorted(await super().list(limit, after), key=lambda info: info.updated_at, reverse=True)


class IgnoresListLimit(MemoryStore):
    async def list(self, limit=100, after=None):
        return await super().list(after=after)


class RepeatsFirstPage(MemoryStore):
    async def list(self, limit=100, after=None):
        return await super().list(limit)


class LosesPageAfterGrowth(MemoryStore):
    async def list(self, limit=100, after=None):
        result = await super().list(10_000)
        names = [info.ledger for info in result]
        start = names.index(after.ledger) + 1 if after is not None and after.ledger in names else 0
        return result[start : start + limit]


class LeasesTwice(MemoryStore):
    async def lease(self, ledger):
        return await super().lease(ledger) or Lease(ledger, self._ledgers[ledger].epoch)


class LeasesOnlyExistingLedgers(MemoryStore):
    async def lease(self, ledger):
        return await super().lease(ledger) if await self.read(ledger) else None


class ReusesEpochs(MemoryStore):
    async def release(self, lease, **options):
        await super().release(lease, **options)
        self._ledgers[lease.ledger].epoch = lease.epoch - 1


class IgnoresEpochsOfFacts(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        epoch = self._ledgers[ledger].epoch if ledger in self._ledgers else 0
        length = await super().append(ledger, expected, facts, **options)
        self._ledgers[ledger].epoch = epoch
        return length


class ReleasesForeignLeases(MemoryStore):
    async def release(self, lease, **options):
        self._ledgers[lease.ledger].lease = None


class SharesEpochsAmongLedgers(MemoryStore):
    async def lease(self, ledger):
        record = self._ledgers.get(ledger) or self._create(ledger)
        record.epoch = max(each.epoch for each in self._ledgers.values())
        return await super().lease(ledger)


class ConfusesFactAndLeaseEpochs(MemoryStore):
    async def release(self, lease, **options):
        if self._ledgers[lease.ledger].epoch == lease.epoch:
            await super().release(lease, **options)


class ReleasesByName(MemoryStore):
    async def release(self, lease, **options):
        if (present := self._ledgers[lease.ledger].lease) is not None:
            await super().release(present, **options)


class ForgetsEpochsOfDeletedLedgers(MemoryStore):
    async def delete(self, ledger, **options):
        is_deleted = await super().delete(ledger, **options)
        self._inherited_epoch = 0
        return is_deleted


class NeverEndsWaits(MemoryStore):
    async def wait(self, ledger, position, timeout):
        if len(await self.read(ledger)) > position:
            return True
        await asyncio.sleep(min(timeout, 1))
        return False


class NotifiesWatchersOnce(MemoryStore):
    def watch(self, ledger, position, on_growth):
        def once(length):
            stop()
            on_growth(length)

        stop = super().watch(ledger, position, once)
        return stop


class NotifiesStoppedWatchers(MemoryStore):
    def watch(self, ledger, position, on_growth):
        super().watch(ledger, position, on_growth)
        return lambda: None


class IgnoresPresentLength(MemoryStore):
    def watch(self, ledger, position, on_growth):
        return super().watch(ledger, self._length(ledger), on_growth)


class ClosesWithoutNotice(MemoryStore):
    async def close(self):
        self._watchers.reset()
        await super().close()


class EndsWaitsForAnyGrowth(MemoryStore):
    async def wait(self, ledger, position, timeout):
        before = sum(len(record.facts) for record in self._ledgers.values())
        for _ in range(int(timeout * 100)):
            if len(await self.read(ledger)) > position or sum(len(record.facts) for record in self._ledgers.values()) > before:
                return True
            await asyncio.sleep(0.01)
        return len(await self.read(ledger)) > position


class WaitAlwaysReturnsTrue(MemoryStore):
    async def wait(self, ledger, position, timeout):
        await super().wait(ledger, position, timeout)
        return True


class WorksInOneEventLoop(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        loop = asyncio.get_running_loop()
        if self.__dict__.setdefault("loop", loop) is not loop:
            raise RuntimeError("attached to a different loop")
        return await super().append(ledger, expected, facts, **options)


class WorksAfterClosing(MemoryStore):
    async def close(self):
        pass


class AppendIgnoresLedgerId(MemoryStore):
    async def append(self, ledger, expected, facts, *, ledger_id="", **options):
        return await super().append(ledger, expected, facts, ledger_id="" if expected else ledger_id, **options)


class ReadIgnoresLedgerId(MemoryStore):
    async def read(self, ledger, start=0, *, ledger_id=""):
        return await super().read(ledger, start)


class ForkIgnoresLedgerId(MemoryStore):
    async def fork(self, ledger, at, new, facts, *, parent_ledger_id="", **options):
        return await super().fork(ledger, at, new, facts, **options)


class ForkIgnoresExpectedLength(MemoryStore):
    async def fork(self, ledger, at, new, facts, *, expected=None, **options):
        return await super().fork(ledger, at, new, facts, **options)


class ChecksLedgerIdTooEarly(MemoryStore):
    async def append(self, ledger, expected, facts, *, ledger_id="", **options):
        if expected:
            await self.read(ledger, ledger_id=ledger_id)
            await asyncio.sleep(0)
        return await super().append(ledger, expected, facts, ledger_id="" if expected else ledger_id, **options)


class ReadsAgainAfterIdCheck(MemoryStore):
    async def read(self, ledger, start=0, *, ledger_id=""):
        await super().read(ledger, start, ledger_id=ledger_id)
        await asyncio.sleep(0)
        return await super().read(ledger, start)


class ReportsWrongIdAsConflict(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        try:
            return await super().append(ledger, expected, facts, **options)
        except UnknownLedger:
            raise LedgerConflict(ledger, expected, len(await self.read(ledger))) from None


class AcceptsAnyIdForLedgerWithoutId(MemoryStore):
    async def append(self, ledger, expected, facts, *, ledger_id="", **options):
        return await super().append(
            ledger, expected, facts, ledger_id=ledger_id if not expected or await self.ledger_id(ledger) else "", **options
        )


class ForksGetParentsLedgerId(MemoryStore):
    async def fork(self, ledger, at, new, facts, *, ledger_id="", **options):
        ledger_id = self._ledgers[ledger].ledger_id if ledger in self._ledgers else ledger_id
        return await super().fork(ledger, at, new, facts, ledger_id=ledger_id, **options)


class KeepsFirstLedgerId(MemoryStore):
    async def append(self, ledger, expected, facts, *, ledger_id="", **options):
        first = self.__dict__.setdefault("first", {}).setdefault(ledger, ledger_id)
        return await super().append(ledger, expected, facts, ledger_id=first if expected == 0 else ledger_id, **options)


class ChangesLedgerIdWithAppends(MemoryStore):
    async def append(self, ledger, expected, facts, *, ledger_id="", **options):
        length = await super().append(ledger, expected, facts, ledger_id=ledger_id, **options)
        self._ledgers[ledger].ledger_id = ledger_id
        return length


class ReportsRedactionOnly(MemoryStore):
    async def redact(self, ledger, redactor, **options):
        record = list(await self.read(ledger))
        redactions = await super().redact(ledger, redactor, **options)
        self._ledgers[ledger].facts[: len(record)] = record
        return redactions


class RedactsWithoutRecord(MemoryStore):
    async def redact(self, ledger, redactor, **options):
        redactions = await super().redact(ledger, redactor, **options)
        for name, redaction in redactions.items():
            del self._ledgers[name].facts[len(self._ledgers[name].facts) - len(redaction.appended_facts) :]
        return redactions


class RedactsOneBranch(MemoryStore):
    async def redact(self, ledger, redactor, **options):
        others = {name: (list(record.facts), dict(record.contents)) for name, record in self._ledgers.items() if name != ledger}
        redactions = await super().redact(ledger, redactor, **options)
        for name, (facts, contents) in others.items():
            self._ledgers[name].facts, self._ledgers[name].contents = facts, contents
        return {ledger: redactions[ledger]} if redactions else {}


class RedactsUnsharedPositions(MemoryStore):
    async def redact(self, ledger, redactor, **options):
        for record in self._ledgers.values():
            record.shared = len(record.facts) if record.origin else 0
        return await super().redact(ledger, redactor, **options)


class KeepsRedactedContents(MemoryStore):
    async def redact(self, ledger, redactor, **options):
        before = {name: dict(record.contents) for name, record in self._ledgers.items()}
        redactions = await super().redact(ledger, redactor, **options)
        for name, contents in before.items():
            self._ledgers[name].contents |= contents
        return redactions


class DropsReferencedContents(MemoryStore):
    async def redact(self, ledger, redactor, **options):
        redactions = await super().redact(ledger, redactor, **options)
        for redaction in redactions.values():
            for record in self._ledgers.values():
                record.contents = {digest: body for digest, body in record.contents.items() if digest not in redaction.dropped_contents}
        return redactions


class LosesNewContents(MemoryStore):
    async def redact(self, ledger, redactor, **options):
        redactions = await super().redact(ledger, redactor, **options)
        for redaction in redactions.values():
            for digest in redaction.new_contents:
                self._ledgers[ledger].contents.pop(digest, None)
        return redactions


class RedactIgnoresLedgerId(MemoryStore):
    async def redact(self, ledger, redactor, *, ledger_id=""):
        return await super().redact(ledger, redactor)


class RedactsPartially(MemoryStore):
    async def redact(self, ledger, redactor, **options):
        for position in sorted(redactor.positions or ()):
            await super().redact(ledger, replace(redactor, positions=frozenset((position,))), **options)
        return await super().redact(ledger, redactor, **options)


class RedactsStaleFacts(MemoryStore):
    async def redact(self, ledger, redactor, **options):
        if ledger not in self._ledgers:
            return await super().redact(ledger, redactor, **options)
        facts = list(self._ledgers[ledger].facts)
        await asyncio.sleep(0)
        self._ledgers[ledger].facts = facts
        return await super().redact(ledger, redactor, **options)


class RedactsWithoutNotice(MemoryStore):
    async def redact(self, ledger, redactor, **options):
        watchers, self._watchers = self._watchers, LedgerWatchers()
        try:
            return await super().redact(ledger, redactor, **options)
        finally:
            self._watchers = watchers


APPEND, READ = "every kind of fact is read back", "read returns the facts from `start` on"
LEDGER_ID, WRONG_LEDGER = (
    "a ledger has the id that it was created with",
    "operations on a ledger that was deleted or replaced are refused and write nothing",
)
REDACTED, NOT_REDACTED = (
    "redacted text is gone, the other facts stay in place, and the redaction is appended",
    "an impossible redaction is refused and writes nothing",
)
BRANCHES = "facts that forks share are redacted in all of them"
IN_MEMORY: list[tuple[type[MemoryStore], str]] = [
    (SkipsPositionCheck, "an append at the wrong position writes nothing"),
    (ChecksPositionTooEarly, "of many appends that race for one position exactly one"),
    (ReportsWrongPosition, "an append at the wrong position writes nothing"),
    (AppendsHalf, APPEND),
    (AppendsOneByOne, "an append of several facts is never read in part"),
    (AcknowledgesTooEarly, "an acknowledged append is read at once by every other handle"),
    (RewritesAllFacts, "an append to a long ledger costs"),
    (SortsByTime, APPEND),
    (IgnoresStart, READ),
    (ReturnsInternalList, "the result of a read does not change when more is appended"),
    (LowercasesNames, "ledgers are kept apart"),
    (LosesContents, "contents are recorded with their append"),
    (OverwritesContents, "contents are recorded with their append"),
    (RecordsContentsFirst, "contents are recorded with their append"),
    (SharesFactListWithFork, "neither branch sees what the other appends later"),
    (ForksAtTheEnd, "a fork begins with the facts before its position"),
    (ForksSeeLaterContents, "a fork shares the contents recorded before it"),
    (ForksLoseContents, "a fork shares the contents recorded before it"),
    (OverwritesForkTarget, "an impossible fork is refused and writes nothing"),
    (ForkIgnoresExpectedLength, "an impossible fork is refused and writes nothing"),
    (ForksRestartEpochs, "the epochs of a fork begin above its parent's"),
    (DeletesSharedFacts, "facts that forks share stay readable when the original ledgers are deleted"),
    (DeletesUnchecked, "a deletion with an expected length or ledger id is refused if the ledger is another one or has grown"),
    (KeepsDeletedLedgers, "a deleted ledger is gone"),
    (ListsByCreation, "list returns the ledgers"),
    (ListsByFactTime, "list returns the ledgers"),
    (IgnoresListLimit, "list returns the ledgers"),
    (RepeatsFirstPage, "paging through a list returns each ledger that did not grow once"),
    (LosesPageAfterGrowth, "paging through a list returns each ledger that did not grow once"),
    (LeasesTwice, "a lease has one holder at a time"),
    (LeasesOnlyExistingLedgers, "a ledger may be leased before its first fact"),
    (ReusesEpochs, "a lease has one holder at a time"),
    (IgnoresEpochsOfFacts, "the epoch of a lease is larger than every epoch in the ledger's facts"),
    (ReleasesForeignLeases, "a lease has one holder at a time"),
    (SharesEpochsAmongLedgers, "epochs in facts concern their own ledger only"),
    (ConfusesFactAndLeaseEpochs, "a lease outlives appends of facts with larger epochs"),
    (ReleasesByName, "releasing the lease of a deleted ledger does not affect a new ledger of that name"),
    (ForgetsEpochsOfDeletedLedgers, "the epochs of a ledger that was deleted and made again begin above those before"),
    (NeverEndsWaits, "wait ends when the ledger has grown"),
    (NotifiesWatchersOnce, "watch reports every growth of the ledger"),
    (NotifiesStoppedWatchers, "watch reports every growth of the ledger"),
    (IgnoresPresentLength, "watch reports every growth of the ledger"),
    (ClosesWithoutNotice, "watch calls back once more when the store is closed"),
    (EndsWaitsForAnyGrowth, "wait returns False when the time is over"),
    (WaitAlwaysReturnsTrue, "wait returns False when the time is over"),
    (WorksInOneEventLoop, "one store serves several event loops"),
    (WorksAfterClosing, "a closed store raises errors"),
    (AppendIgnoresLedgerId, WRONG_LEDGER),
    (ReadIgnoresLedgerId, WRONG_LEDGER),
    (ForkIgnoresLedgerId, WRONG_LEDGER),
    (ChecksLedgerIdTooEarly, "a ledger that is replaced during an append"),
    (ReadsAgainAfterIdCheck, "a ledger that is replaced during an append"),
    (ReportsWrongIdAsConflict, WRONG_LEDGER),
    (AcceptsAnyIdForLedgerWithoutId, WRONG_LEDGER),
    (ForksGetParentsLedgerId, LEDGER_ID),
    (KeepsFirstLedgerId, LEDGER_ID),
    (ChangesLedgerIdWithAppends, LEDGER_ID),
    (ReportsRedactionOnly, REDACTED),
    (RedactsWithoutRecord, REDACTED),
    (RedactsOneBranch, BRANCHES),
    (RedactsUnsharedPositions, BRANCHES),
    (KeepsRedactedContents, "contents are dropped with the last fact that names them"),
    (LosesNewContents, "contents are dropped with the last fact that names them"),
    (DropsReferencedContents, "a content that a fork still names"),
    (RedactIgnoresLedgerId, NOT_REDACTED),
    (RedactsPartially, NOT_REDACTED),
    (RedactsStaleFacts, "a redaction and appends that race with it are all recorded"),
    (RedactsWithoutNotice, "a redaction ends a wait for the ledger"),
]


class LeasesSurviveProcessDeath(SQLiteStore):
    """The lease is a file, which a killed process cannot remove."""

    async def lease(self, ledger: str) -> Lease | None:
        mark = Path(f"{self.path}.{ledger}.held")
        if mark.exists():
            return None
        lease = await super().lease(ledger)
        if lease:
            mark.touch()
        return lease

    async def release(self, lease: Lease, **options) -> None:
        Path(f"{self.path}.{lease.ledger}.held").unlink(missing_ok=True)
        await super().release(lease)


class LosesAppendsWhenKilled(SQLiteStore):
    """Facts are written when the store is closed, not when the append is acknowledged."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.later: dict[str, list[Any]] = {}

    async def append(self, ledger, expected, facts, **options):
        result = await super().read(ledger)
        record = self.later.setdefault(ledger, [])
        if len(result) + len(record) != expected:
            raise LedgerConflict(ledger, expected, len(result) + len(record))
        record += facts
        return expected + len(facts)

    async def read(self, ledger, start=0, **options):
        return [*await super().read(ledger), *self.later.get(ledger, [])][start:]

    async def close(self):
        for ledger, facts in self.later.items():
            await super().append(ledger, len(await super().read(ledger)), facts)
        self.later = {}
        await super().close()


class HidesDamage(SQLiteStore):
    async def read(self, ledger, start=0, **options):
        return (await self.salvage(ledger))[start:] if start >= 0 else await super().read(ledger, start, **options)


class WaitsForOwnProcessOnly(SQLiteStore):
    async def wait(self, ledger, position, timeout):
        return len(await self.read(ledger)) > position


class WatchesOwnProcessOnly(SQLiteStore):
    def watch(self, ledger, position, on_growth):
        return self._watchers.watch(ledger, position, on_growth)


class LosesLedgerIds(SQLiteStore):
    """Ledger ids are known while the store is open."""

    async def ledger_id(self, ledger):
        return self.__dict__.get("names", {}).get(ledger, "")

    async def append(self, ledger, expected, facts, *, ledger_id="", **options):
        if expected == 0:
            self.__dict__.setdefault("names", {})[ledger] = ledger_id
        return await super().append(ledger, expected, facts, ledger_id=ledger_id, **options)


class CachesLedgerIds(SQLiteStore):
    """The id is read once, and not again when another process has replaced the ledger."""

    async def check_cached_id(self, ledger, expected, ledger_id):
        ids = self.__dict__.setdefault("names", {})
        if not ids.get(ledger):
            ids[ledger] = await self.ledger_id(ledger) if expected else ledger_id
        if expected and ledger_id and ledger_id != ids[ledger]:
            raise UnknownLedger("another one")

    async def append(self, ledger, expected, facts, *, ledger_id="", **options):
        await self.check_cached_id(ledger, expected, ledger_id)
        return await super().append(ledger, expected, facts, ledger_id="" if expected else ledger_id, **options)

    async def read(self, ledger, start=0, *, ledger_id=""):
        await self.check_cached_id(ledger, 1, ledger_id)
        return await super().read(ledger, start)


IN_A_FILE: list[tuple[type[SQLiteStore], str]] = [
    (LeasesSurviveProcessDeath, "a lease ends with the process that held it"),
    (LosesAppendsWhenKilled, "what a process acknowledged is there after it was killed"),
    (HidesDamage, "damage is reported"),
    (WaitsForOwnProcessOnly, "wait ends when another process appends"),
    (WatchesOwnProcessOnly, "watch reports the appends of another process"),
    (LosesLedgerIds, "ledger ids are there after reopening"),
    (CachesLedgerIds, "a ledger that another process replaced has another id"),
]
