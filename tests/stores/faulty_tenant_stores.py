"""Stores that mix up tenants, or do not know which ledgers are idle (rules 14 and 15). `check_store` must find all of them."""

from __future__ import annotations

from legato.stores import MemoryStore, SQLiteStore

# Faulty on purpose, by overriding any method: types would be in the way here.
# mypy: disable-error-code="override,no-untyped-def"


class SharesOneStoreForTenants(MemoryStore):
    def tenant(self, name):
        super().tenant(name)
        return self


class LowercasesTenants(MemoryStore):
    def tenant(self, name):
        return super().tenant(name.lower())


class TenantsReadRootLedgers(MemoryStore):
    async def read(self, ledger, start=0, **options):
        root = self.__dict__.get("_root")
        result = await super().read(ledger, start, **options)
        return result or (await root.read(ledger, start, **options) if root else result)

    def tenant(self, name):
        store = super().tenant(name)
        store._root = self
        return store


class ListsAllTenants(MemoryStore):
    async def list(self, limit=100, after=None):
        return [info for store in (self, *self._tenants.values()) for info in await MemoryStore.list(store, limit, after)]


class NotifiesAllTenants(MemoryStore):
    def tenant(self, name):
        store = super().tenant(name)
        store._watchers = self._watchers
        return store


class LeasesForAllTenants(MemoryStore):
    async def lease(self, ledger):
        if any(ledger in store._ledgers and store._ledgers[ledger].lease for store in self._tenants.values()):
            return None
        return await super().lease(ledger)


class DeletesForAllTenants(MemoryStore):
    async def delete(self, ledger):
        for store in self._tenants.values():
            store._ledgers.pop(ledger, None)
        return await super().delete(ledger)


class TenantOpensTenants(MemoryStore):
    def tenant(self, name):
        tenant, self._tenant = self._tenant, ""
        try:
            return super().tenant(name)
        finally:
            self._tenant = tenant


class TenantClosesAllTenants(MemoryStore):
    async def close(self):
        self._close()


class ListsLeasedAsRunnable(MemoryStore):
    async def list_runnable(self, limit=100, after=None):
        lease_ = [(record, record.lease) for record in self._ledgers.values() if record.lease]
        for record, _ in lease_:
            record.lease = None
        result = await super().list_runnable(limit, after)
        for record, lease in lease_:
            record.lease = lease
        return result


class NeverRecordsIdle(MemoryStore):
    async def release(self, lease, *, idle_at=None):
        await super().release(lease)


class EveryReleaseRecordsIdle(MemoryStore):
    async def release(self, lease, *, idle_at=None):
        await super().release(lease, idle_at=len(await self.read(lease.ledger)))


class RecordsIdleAtEnd(MemoryStore):
    async def release(self, lease, *, idle_at=None):
        await super().release(lease, idle_at=None if idle_at is None else len(await self.read(lease.ledger)))


class RecordsIdleByEndedLease(MemoryStore):
    async def release(self, lease, *, idle_at=None):
        if idle_at is not None and lease.ledger in self._ledgers:
            self._ledgers[lease.ledger].idle_at = idle_at
        await super().release(lease, idle_at=idle_at)


class ListsNewestRunnableFirst(MemoryStore):
    async def list_runnable(self, limit=100, after=None):
        return (await super().list_runnable(10_000, after))[::-1][:limit]


class RepeatsFirstRunnablePage(MemoryStore):
    async def list_runnable(self, limit=100, after=None):
        return await super().list_runnable(limit)


class OmitsNeverDriven(MemoryStore):
    async def list_runnable(self, limit=100, after=None):
        return [info for info in await super().list_runnable(limit, after) if self._ledgers[info.ledger].epoch]


class LosesIdlePositions(SQLiteStore):
    async def _close(self):
        self._idle_positions.clear()
        await super()._close()


class LosesTenants(SQLiteStore):
    def tenant(self, name):
        self.__dict__.setdefault("suffix", f"{id(self)}")
        return super().tenant(f"{name[:100]} {self.suffix}")


APART, UNSEEN, DRIVING = "each tenant", "no tenant can see or reach the ledgers of another", "leases and waits of one tenant"
SCOPE, RUNNABLE, OVER = "a tenant's store has no tenants", "ledgers that were never driven", "a lease that has ended records no idleness"
IN_MEMORY: list[tuple[type[MemoryStore], str]] = [
    (SharesOneStoreForTenants, APART),
    (LowercasesTenants, APART),
    (TenantsReadRootLedgers, APART),
    (ListsAllTenants, UNSEEN),
    (NotifiesAllTenants, DRIVING),
    (LeasesForAllTenants, DRIVING),
    (DeletesForAllTenants, UNSEEN),
    (TenantOpensTenants, SCOPE),
    (TenantClosesAllTenants, SCOPE),
    (ListsLeasedAsRunnable, "a leased ledger is not listed until it is released"),
    (NeverRecordsIdle, RUNNABLE),
    (EveryReleaseRecordsIdle, "a leased ledger is not listed until it is released"),
    (RecordsIdleAtEnd, RUNNABLE),
    (RecordsIdleByEndedLease, OVER),
    (ListsNewestRunnableFirst, RUNNABLE),
    (RepeatsFirstRunnablePage, "paging through runnable ledgers returns each of them"),
    (OmitsNeverDriven, RUNNABLE),
]
IN_A_FILE: list[tuple[type[SQLiteStore], str]] = [
    (LosesIdlePositions, "recorded idleness is there after reopening"),
    (LosesTenants, "tenants are there after reopening"),
]
