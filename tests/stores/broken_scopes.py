"""Stores that mix up their tenants, or do not know which ledgers rest (sentences 14 and 15). `check_store` must see every one of them."""

from __future__ import annotations

from legato.stores import MemoryStore, SQLiteStore

# Broken on purpose, and by overriding whatever it takes: types would only be in the way here.
# mypy: disable-error-code="override,no-untyped-def"


class IsOneForAllTenants(MemoryStore):
    def tenant(self, name):
        super().tenant(name)
        return self


class FoldsTenants(MemoryStore):
    def tenant(self, name):
        return super().tenant(name.lower())


class TenantsSeeWhatNobodyOwns(MemoryStore):
    async def read(self, ledger, start=0, **options):
        root = self.__dict__.get("_root")
        found = await super().read(ledger, start, **options)
        return found or (await root.read(ledger, start, **options) if root else found)

    def tenant(self, name):
        made = super().tenant(name)
        made._root = self
        return made


class ListsTheLedgersOfAllTenants(MemoryStore):
    async def list(self, limit=100, after=None):
        return [info for store in (self, *self._tenants.values()) for info in await MemoryStore.list(store, limit, after)]


class WakesAllTenants(MemoryStore):
    def tenant(self, name):
        made = super().tenant(name)
        made._waiters = self._waiters
        return made


class LeasesForAllTenants(MemoryStore):
    async def lease(self, ledger):
        if any(ledger in store._ledgers and store._ledgers[ledger].held for store in self._tenants.values()):
            return None
        return await super().lease(ledger)


class DeletesForAllTenants(MemoryStore):
    async def delete(self, ledger):
        for store in self._tenants.values():
            store._ledgers.pop(ledger, None)
        return await super().delete(ledger)


class ATenantReachesOthers(MemoryStore):
    def tenant(self, name):
        was, self._tenant = self._tenant, ""
        try:
            return super().tenant(name)
        finally:
            self._tenant = was


class ATenantsEndIsEverybodys(MemoryStore):
    async def close(self):
        self._end()


class NamesWhatSomebodyDrives(MemoryStore):
    async def unrested(self, limit=100, after=None):
        held = [(kept, kept.held) for kept in self._ledgers.values() if kept.held]
        for kept, _ in held:
            kept.held = None
        found = await super().unrested(limit, after)
        for kept, lease in held:
            kept.held = lease
        return found


class NeverRests(MemoryStore):
    async def release(self, lease, *, rested=None):
        await super().release(lease)


class RestsWhoeverReleases(MemoryStore):
    async def release(self, lease, *, rested=None):
        await super().release(lease, rested=len(await self.read(lease.ledger)))


class RestsAtTheEndWhateverItIsTold(MemoryStore):
    async def release(self, lease, *, rested=None):
        await super().release(lease, rested=None if rested is None else len(await self.read(lease.ledger)))


class RestsByALeaseThatIsOver(MemoryStore):
    async def release(self, lease, *, rested=None):
        if rested is not None and lease.ledger in self._ledgers:
            self._ledgers[lease.ledger].rested = rested
        await super().release(lease, rested=rested)


class NamesTheNewestFirst(MemoryStore):
    async def unrested(self, limit=100, after=None):
        return (await super().unrested(10_000, after))[::-1][:limit]


class BeginsAgainWithEveryPage(MemoryStore):
    async def unrested(self, limit=100, after=None):
        return await super().unrested(limit)


class NamesNothingThatWasNeverDriven(MemoryStore):
    async def unrested(self, limit=100, after=None):
        return [info for info in await super().unrested(limit, after) if self._ledgers[info.ledger].epoch]


class ForgetsWhereItRested(SQLiteStore):
    async def _end(self):
        self._rests.clear()
        await super()._end()


class ForgetsItsTenants(SQLiteStore):
    def tenant(self, name):
        self.__dict__.setdefault("made", f"{id(self)}")
        return super().tenant(f"{name[:100]} {self.made}")


APART, UNSEEN, DRIVING = "ledgers of one name belong to each tenant", "what one tenant does", "leases and waits of one tenant"
SCOPE, UNRESTED, OVER = "whose ledgers are meant", "ledgers that were never driven", "a lease that is over says nothing"
IN_MEMORY: list[tuple[type[MemoryStore], str]] = [
    (IsOneForAllTenants, APART),
    (FoldsTenants, APART),
    (TenantsSeeWhatNobodyOwns, APART),
    (ListsTheLedgersOfAllTenants, UNSEEN),
    (WakesAllTenants, DRIVING),
    (LeasesForAllTenants, DRIVING),
    (DeletesForAllTenants, UNSEEN),
    (ATenantReachesOthers, SCOPE),
    (ATenantsEndIsEverybodys, SCOPE),
    (NamesWhatSomebodyDrives, "a ledger that somebody drives is not named"),
    (NeverRests, UNRESTED),
    (RestsWhoeverReleases, "a ledger that somebody drives is not named"),
    (RestsAtTheEndWhateverItIsTold, UNRESTED),
    (RestsByALeaseThatIsOver, OVER),
    (NamesTheNewestFirst, UNRESTED),
    (BeginsAgainWithEveryPage, "whoever goes on behind the last line"),
    (NamesNothingThatWasNeverDriven, UNRESTED),
]
IN_A_FILE: list[tuple[type[SQLiteStore], str]] = [
    (ForgetsWhereItRested, "where drivers came to rest is there after reopening"),
    (ForgetsItsTenants, "tenants are there after reopening"),
]
