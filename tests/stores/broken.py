"""Stores that break their contract, each in one way. `check_store` must see every one of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from legato.core import codec
from legato.errors import LedgerConflict, UnknownLedger
from legato.stores import Lease, MemoryStore, SQLiteStore
from legato.stores.live import Waiters

# ruff: noqa: ASYNC109 - the contract's names, and stores that need not be quick
# Broken on purpose, and by overriding whatever it takes: types would only be in the way here.
# mypy: disable-error-code="override,no-untyped-def"


class ForgetsToCheckThePosition(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        return await super().append(ledger, len(await self.read(ledger)), facts, **options)


class ChecksThePositionTooEarly(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        if len(await self.read(ledger)) != expected:
            raise LedgerConflict(ledger, expected, len(await self.read(ledger)))
        await asyncio.sleep(0)
        return await super().append(ledger, len(await self.read(ledger)), facts, **options)


class SaysTheWrongPosition(MemoryStore):
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
        later.add_done_callback(lambda done: done.exception())
        return expected + len(facts)


class WritesEverythingAgain(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        for fact in await self.read(ledger):
            codec.encode(fact)
        return await super().append(ledger, expected, facts, **options)


class SortsByTime(MemoryStore):
    async def read(self, ledger, start=0, **options):
        return sorted(await super().read(ledger, start, **options), key=lambda fact: fact.at)


class IgnoresStart(MemoryStore):
    async def read(self, ledger, start=0, **options):
        return await super().read(ledger, 0 if start >= 0 else start, **options)


class ReturnsItsOwnList(MemoryStore):
    async def read(self, ledger, start=0, **options):
        return self._ledgers[ledger].facts if start == 0 and ledger in self._ledgers else await super().read(ledger, start, **options)


class FoldsNames(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        return await super().append(ledger.lower(), expected, facts, **options)

    async def read(self, ledger, start=0, **options):
        return await super().read(ledger.lower(), start, **options)


class LosesContents(MemoryStore):
    async def append(self, ledger, expected, facts, *, contents=None, **options):
        return await super().append(ledger, expected, facts, **options)


class ReplacesContents(MemoryStore):
    async def append(self, ledger, expected, facts, *, contents=None, **options):
        length = await super().append(ledger, expected, facts, contents=contents, **options)
        self._ledgers[ledger].contents.update({digest: (expected, body) for digest, body in (contents or {}).items()})
        return length


class RecordsContentsFirst(MemoryStore):
    async def append(self, ledger, expected, facts, *, contents=None, **options):
        if ledger in self._ledgers:
            self._ledgers[ledger].contents.update({digest: (expected, body) for digest, body in (contents or {}).items()})
        return await super().append(ledger, expected, facts, contents=contents, **options)


class ForksLookAtTheirParent(MemoryStore):
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


class ForksOntoAnything(MemoryStore):
    async def fork(self, ledger, at, new, facts, **options):
        if new != ledger:
            await self.delete(new)
        return await super().fork(ledger, at, new, facts, **options)


class ForksBeginAtEpochOne(MemoryStore):
    async def fork(self, ledger, at, new, facts, **options):
        length = await super().fork(ledger, at, new, facts, **options)
        self._ledgers[new].epoch = 0
        return length


class DeletesWhatForksShare(MemoryStore):
    async def fork(self, ledger, at, new, facts, **options):
        length = await super().fork(ledger, at, new, facts, **options)
        self._shares = {**getattr(self, "_shares", {}), new: (ledger, at)}
        return length

    async def delete(self, ledger, **options):
        for new, (parent, at) in getattr(self, "_shares", {}).items():
            if parent == ledger and new in self._ledgers:
                del self._ledgers[new].facts[:at]
        return await super().delete(ledger, **options)


class DeletesWhateverIsThere(MemoryStore):
    async def delete(self, ledger, **options):
        return await super().delete(ledger)


class KeepsWhatWasDeleted(MemoryStore):
    async def delete(self, ledger, **options):
        return bool(await self.read(ledger))


class ListsInOrderOfCreation(MemoryStore):
    async def list(self, limit=100, after=None):
        order = list(self._ledgers)
        return sorted(await super().list(limit, after), key=lambda info: order.index(info.ledger), reverse=True)


class ListsByTimeOfTheFacts(MemoryStore):
    async def list(self, limit=100, after=None):
        return sorted(await super().list(limit, after), key=lambda info: info.updated, reverse=True)


class ListsEverything(MemoryStore):
    async def list(self, limit=100, after=None):
        return await super().list(after=after)


class ListsFromTheBeginningWithEveryPage(MemoryStore):
    async def list(self, limit=100, after=None):
        return await super().list(limit)


class LosesItsPlaceWhenTheLastLineGrew(MemoryStore):
    async def list(self, limit=100, after=None):
        found = await super().list(10_000)
        names = [info.ledger for info in found]
        start = names.index(after.ledger) + 1 if after is not None and after.ledger in names else 0
        return found[start : start + limit]


class LeasesTwice(MemoryStore):
    async def lease(self, ledger):
        return await super().lease(ledger) or Lease(ledger, self._ledgers[ledger].epoch)


class LeasesOnlyWhatIsThere(MemoryStore):
    async def lease(self, ledger):
        return await super().lease(ledger) if await self.read(ledger) else None


class GivesTheSameEpochAgain(MemoryStore):
    async def release(self, lease, **options):
        await super().release(lease, **options)
        self._ledgers[lease.ledger].epoch = lease.epoch - 1


class ForgetsEpochsOfElsewhere(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        epoch = self._ledgers[ledger].epoch if ledger in self._ledgers else 0
        length = await super().append(ledger, expected, facts, **options)
        self._ledgers[ledger].epoch = epoch
        return length


class ReleasesWhatOthersHold(MemoryStore):
    async def release(self, lease, **options):
        self._ledgers[lease.ledger].held = None


class SharesEpochsAmongLedgers(MemoryStore):
    async def lease(self, ledger):
        kept = self._ledgers.get(ledger) or self._create(ledger)
        kept.epoch = max(each.epoch for each in self._ledgers.values())
        return await super().lease(ledger)


class TakesTheNewestEpochForTheLease(MemoryStore):
    async def release(self, lease, **options):
        if self._ledgers[lease.ledger].epoch == lease.epoch:
            await super().release(lease, **options)


class ReleasesByNameAndEpoch(MemoryStore):
    async def release(self, lease, **options):
        held = self._ledgers[lease.ledger].held
        if held is not None and held.epoch == lease.epoch:
            await super().release(held, **options)


class NeverWakes(MemoryStore):
    async def wait(self, ledger, position, timeout):
        if len(await self.read(ledger)) > position:
            return True
        await asyncio.sleep(min(timeout, 1))
        return False


class TellsThoseWhoWatchOnce(MemoryStore):
    def watch(self, ledger, position, moved):
        def once(length):
            stop()
            moved(length)

        stop = super().watch(ledger, position, once)
        return stop


class TellsThoseWhoWatchNoMore(MemoryStore):
    def watch(self, ledger, position, moved):
        super().watch(ledger, position, moved)
        return lambda: None


class LooksAtNothingThatWasThere(MemoryStore):
    def watch(self, ledger, position, moved):
        return super().watch(ledger, self._length(ledger), moved)


class LetsThemWatchForEver(MemoryStore):
    async def close(self):
        self._waiters.forget()
        await super().close()


class WakesForEverything(MemoryStore):
    async def wait(self, ledger, position, timeout):
        before = sum(len(kept.facts) for kept in self._ledgers.values())
        for _ in range(int(timeout * 100)):
            if len(await self.read(ledger)) > position or sum(len(kept.facts) for kept in self._ledgers.values()) > before:
                return True
            await asyncio.sleep(0.01)
        return len(await self.read(ledger)) > position


class AlwaysSaysTrue(MemoryStore):
    async def wait(self, ledger, position, timeout):
        await super().wait(ledger, position, timeout)
        return True


class LivesInOneLoop(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        loop = asyncio.get_running_loop()
        if self.__dict__.setdefault("loop", loop) is not loop:
            raise RuntimeError("attached to a different loop")
        return await super().append(ledger, expected, facts, **options)


class WorksAfterClosing(MemoryStore):
    async def close(self):
        pass


class AppendsToWhateverHasTheName(MemoryStore):
    async def append(self, ledger, expected, facts, *, born="", **options):
        return await super().append(ledger, expected, facts, born="" if expected else born, **options)


class ReadsWhateverHasTheName(MemoryStore):
    async def read(self, ledger, start=0, *, born=""):
        return await super().read(ledger, start)


class ForksWhateverHasTheName(MemoryStore):
    async def fork(self, ledger, at, new, facts, *, of="", **options):
        return await super().fork(ledger, at, new, facts, **options)


class ForksWhateverItsMakerBelieves(MemoryStore):
    async def fork(self, ledger, at, new, facts, *, expected=None, **options):
        return await super().fork(ledger, at, new, facts, **options)


class LooksAtTheBirthNameTooEarly(MemoryStore):
    async def append(self, ledger, expected, facts, *, born="", **options):
        if expected:
            await self.read(ledger, born=born)
            await asyncio.sleep(0)
        return await super().append(ledger, expected, facts, born="" if expected else born, **options)


class LooksAtTheBirthNameAfterReading(MemoryStore):
    async def read(self, ledger, start=0, *, born=""):
        await super().read(ledger, start, born=born)
        await asyncio.sleep(0)
        return await super().read(ledger, start)


class TellsAnotherLedgerAsAConflict(MemoryStore):
    async def append(self, ledger, expected, facts, **options):
        try:
            return await super().append(ledger, expected, facts, **options)
        except UnknownLedger:
            raise LedgerConflict(ledger, expected, len(await self.read(ledger))) from None


class TakesTheNamelessForAnybody(MemoryStore):
    async def append(self, ledger, expected, facts, *, born="", **options):
        return await super().append(ledger, expected, facts, born=born if not expected or await self.born(ledger) else "", **options)


class GivesForksTheirParentsName(MemoryStore):
    async def fork(self, ledger, at, new, facts, *, born="", **options):
        born = self._ledgers[ledger].born if ledger in self._ledgers else born
        return await super().fork(ledger, at, new, facts, born=born, **options)


class KeepsTheFirstNameForever(MemoryStore):
    async def append(self, ledger, expected, facts, *, born="", **options):
        first = self.__dict__.setdefault("first", {}).setdefault(ledger, born)
        return await super().append(ledger, expected, facts, born=first if expected == 0 else born, **options)


class RenamesWithEveryAppend(MemoryStore):
    async def append(self, ledger, expected, facts, *, born="", **options):
        length = await super().append(ledger, expected, facts, born=born, **options)
        self._ledgers[ledger].born = born
        return length


class SaysThatItErased(MemoryStore):
    async def redact(self, ledger, erasing, **options):
        kept = list(await self.read(ledger))
        done = await super().redact(ledger, erasing, **options)
        self._ledgers[ledger].facts[: len(kept)] = kept
        return done


class ErasesInSilence(MemoryStore):
    async def redact(self, ledger, erasing, **options):
        done = await super().redact(ledger, erasing, **options)
        for name, erased in done.items():
            del self._ledgers[name].facts[len(self._ledgers[name].facts) - len(erased.added) :]
        return done


class ErasesInOneBranch(MemoryStore):
    async def redact(self, ledger, erasing, **options):
        others = {name: (list(kept.facts), dict(kept.contents)) for name, kept in self._ledgers.items() if name != ledger}
        done = await super().redact(ledger, erasing, **options)
        for name, (facts, contents) in others.items():
            self._ledgers[name].facts, self._ledgers[name].contents = facts, contents
        return {ledger: done[ledger]} if done else {}


class ErasesThePositionInEveryBranch(MemoryStore):
    async def redact(self, ledger, erasing, **options):
        for kept in self._ledgers.values():
            kept.shared = len(kept.facts) if kept.origin else 0
        return await super().redact(ledger, erasing, **options)


class KeepsErasedContents(MemoryStore):
    async def redact(self, ledger, erasing, **options):
        before = {name: dict(kept.contents) for name, kept in self._ledgers.items()}
        done = await super().redact(ledger, erasing, **options)
        for name, contents in before.items():
            self._ledgers[name].contents |= contents
        return done


class DropsWhatOthersName(MemoryStore):
    async def redact(self, ledger, erasing, **options):
        done = await super().redact(ledger, erasing, **options)
        for erased in done.values():
            for kept in self._ledgers.values():
                kept.contents = {digest: body for digest, body in kept.contents.items() if digest not in erased.dropped}
        return done


class BringsNoContents(MemoryStore):
    async def redact(self, ledger, erasing, **options):
        done = await super().redact(ledger, erasing, **options)
        for erased in done.values():
            for digest in erased.contents:
                self._ledgers[ledger].contents.pop(digest, None)
        return done


class ErasesInWhateverHasTheName(MemoryStore):
    async def redact(self, ledger, erasing, *, born=""):
        return await super().redact(ledger, erasing)


class ErasesUntilItIsRefused(MemoryStore):
    async def redact(self, ledger, erasing, **options):
        for position in sorted(erasing.positions or ()):
            await super().redact(ledger, replace(erasing, positions=frozenset((position,))), **options)
        return await super().redact(ledger, erasing, **options)


class ErasesWhatItReadBefore(MemoryStore):
    async def redact(self, ledger, erasing, **options):
        if ledger not in self._ledgers:
            return await super().redact(ledger, erasing, **options)
        facts = list(self._ledgers[ledger].facts)
        await asyncio.sleep(0)
        self._ledgers[ledger].facts = facts
        return await super().redact(ledger, erasing, **options)


class ErasesUnheard(MemoryStore):
    async def redact(self, ledger, erasing, **options):
        waiters, self._waiters = self._waiters, Waiters()
        try:
            return await super().redact(ledger, erasing, **options)
        finally:
            self._waiters = waiters


APPEND, READ = "every kind of fact is read back", "read gives the facts from `start` on"
BORN, REFUSED = "a ledger has the birth name that it was made with", "whoever means a ledger that was deleted or replaced is refused"
ERASED, NOT_ERASED = "erased words are gone, the rest stays", "an erasure that cannot be made is refused"
BRANCHES = "what forks share is erased in all of them"
IN_MEMORY: list[tuple[type[MemoryStore], str]] = [
    (ForgetsToCheckThePosition, "an append at the wrong position writes nothing"),
    (ChecksThePositionTooEarly, "of many appends that race for one position exactly one"),
    (SaysTheWrongPosition, "an append at the wrong position writes nothing"),
    (AppendsHalf, APPEND),
    (AppendsOneByOne, "an append of several facts is never seen in part"),
    (AcknowledgesTooEarly, "what one handle acknowledged"),
    (WritesEverythingAgain, "an append to a long ledger costs"),
    (SortsByTime, APPEND),
    (IgnoresStart, READ),
    (ReturnsItsOwnList, "what read returned stays as it was"),
    (FoldsNames, "ledgers are kept apart"),
    (LosesContents, "contents are recorded with their append"),
    (ReplacesContents, "contents are recorded with their append"),
    (RecordsContentsFirst, "contents are recorded with their append"),
    (ForksLookAtTheirParent, "neither branch sees"),
    (ForksAtTheEnd, "a fork begins with what lies before it"),
    (ForksSeeLaterContents, "a fork shares the contents recorded before it"),
    (ForksLoseContents, "a fork shares the contents recorded before it"),
    (ForksOntoAnything, "a fork that cannot be made is refused"),
    (ForksWhateverItsMakerBelieves, "a fork that cannot be made is refused"),
    (ForksBeginAtEpochOne, "a fork's epochs begin above its parent's"),
    (DeletesWhatForksShare, "what forks share stays readable"),
    (DeletesWhateverIsThere, "a ledger that has grown, or is another one"),
    (KeepsWhatWasDeleted, "a deleted ledger is gone"),
    (ListsInOrderOfCreation, "list gives the ledgers"),
    (ListsByTimeOfTheFacts, "list gives the ledgers"),
    (ListsEverything, "list gives the ledgers"),
    (ListsFromTheBeginningWithEveryPage, "a list that is gone on with"),
    (LosesItsPlaceWhenTheLastLineGrew, "a list that is gone on with"),
    (LeasesTwice, "a lease has one holder at a time"),
    (LeasesOnlyWhatIsThere, "a ledger may be leased before its first fact"),
    (GivesTheSameEpochAgain, "a lease has one holder at a time"),
    (ForgetsEpochsOfElsewhere, "a lease is newer than any epoch that the ledger's facts name"),
    (ReleasesWhatOthersHold, "a lease has one holder at a time"),
    (SharesEpochsAmongLedgers, "epochs that facts name concern their ledger alone"),
    (TakesTheNewestEpochForTheLease, "a lease outlives appends of facts that name newer epochs"),
    (ReleasesByNameAndEpoch, "who gives back the lease of a deleted ledger takes nothing"),
    (NeverWakes, "wait ends when the ledger has grown"),
    (TellsThoseWhoWatchOnce, "who watches is told whenever"),
    (TellsThoseWhoWatchNoMore, "who watches is told whenever"),
    (LooksAtNothingThatWasThere, "who watches is told whenever"),
    (LetsThemWatchForEver, "who watches a store that is closed"),
    (WakesForEverything, "wait says False when the time is over"),
    (AlwaysSaysTrue, "wait says False when the time is over"),
    (LivesInOneLoop, "one store serves several event loops"),
    (WorksAfterClosing, "a closed store says so"),
    (AppendsToWhateverHasTheName, REFUSED),
    (ReadsWhateverHasTheName, REFUSED),
    (ForksWhateverHasTheName, REFUSED),
    (LooksAtTheBirthNameTooEarly, "a ledger that is replaced at the very moment"),
    (LooksAtTheBirthNameAfterReading, "a ledger that is replaced at the very moment"),
    (TellsAnotherLedgerAsAConflict, REFUSED),
    (TakesTheNamelessForAnybody, REFUSED),
    (GivesForksTheirParentsName, BORN),
    (KeepsTheFirstNameForever, BORN),
    (RenamesWithEveryAppend, BORN),
    (SaysThatItErased, ERASED),
    (ErasesInSilence, ERASED),
    (ErasesInOneBranch, BRANCHES),
    (ErasesThePositionInEveryBranch, BRANCHES),
    (KeepsErasedContents, "contents go with the last fact that names them"),
    (BringsNoContents, "contents go with the last fact that names them"),
    (DropsWhatOthersName, "a content that a fork still names"),
    (ErasesInWhateverHasTheName, NOT_ERASED),
    (ErasesUntilItIsRefused, NOT_ERASED),
    (ErasesWhatItReadBefore, "an erasure and appends that race"),
    (ErasesUnheard, "whoever waits for a ledger hears of an erasure"),
]


class LeasesOutliveTheirHolder(SQLiteStore):
    """The lease is a file that somebody must remember to remove."""

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


class ForgetsWhenKilled(SQLiteStore):
    """Writes when it is closed, not when it acknowledges."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.later: dict[str, list[Any]] = {}

    async def append(self, ledger, expected, facts, **options):
        found = await super().read(ledger)
        kept = self.later.setdefault(ledger, [])
        if len(found) + len(kept) != expected:
            raise LedgerConflict(ledger, expected, len(found) + len(kept))
        kept += facts
        return expected + len(facts)

    async def read(self, ledger, start=0, **options):
        return [*await super().read(ledger), *self.later.get(ledger, [])][start:]

    async def close(self):
        for ledger, facts in self.later.items():
            await super().append(ledger, len(await super().read(ledger)), facts)
        self.later = {}
        await super().close()


class SkipsDamage(SQLiteStore):
    async def read(self, ledger, start=0, **options):
        return (await self.salvage(ledger))[start:] if start >= 0 else await super().read(ledger, start, **options)


class WaitsInItsOwnProcessOnly(SQLiteStore):
    async def wait(self, ledger, position, timeout):
        return len(await self.read(ledger)) > position


class WatchesItsOwnProcessOnly(SQLiteStore):
    def watch(self, ledger, position, moved):
        return self._waiters.watch(ledger, position, moved)


class ForgetsBirthNames(SQLiteStore):
    """Knows them as long as it is open."""

    async def born(self, ledger):
        return self.__dict__.get("names", {}).get(ledger, "")

    async def append(self, ledger, expected, facts, *, born="", **options):
        if expected == 0:
            self.__dict__.setdefault("names", {})[ledger] = born
        return await super().append(ledger, expected, facts, born=born, **options)


class BelievesTheBirthNameItSawFirst(SQLiteStore):
    """Looks at the file once, and not again when somebody may have replaced the ledger."""

    async def known(self, ledger, expected, born):
        seen = self.__dict__.setdefault("names", {})
        if not seen.get(ledger):
            seen[ledger] = await self.born(ledger) if expected else born
        if expected and born and born != seen[ledger]:
            raise UnknownLedger("another one")

    async def append(self, ledger, expected, facts, *, born="", **options):
        await self.known(ledger, expected, born)
        return await super().append(ledger, expected, facts, born="" if expected else born, **options)

    async def read(self, ledger, start=0, *, born=""):
        await self.known(ledger, 1, born)
        return await super().read(ledger, start)


IN_A_FILE: list[tuple[type[SQLiteStore], str]] = [
    (LeasesOutliveTheirHolder, "a lease ends with the process that held it"),
    (ForgetsWhenKilled, "what a process acknowledged is there after it was killed"),
    (SkipsDamage, "damage is told"),
    (WaitsInItsOwnProcessOnly, "wait ends when another process appends"),
    (WatchesItsOwnProcessOnly, "who watches is told when another process appends"),
    (ForgetsBirthNames, "birth names are there after reopening"),
    (BelievesTheBirthNameItSawFirst, "a ledger that another process replaced is another one"),
]
