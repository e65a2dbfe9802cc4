"""The errors of all stores, so that every store raises the same messages."""

from __future__ import annotations

from collections.abc import Mapping

from legato.errors import BadInput, DamagedStore, LedgerConflict, LedgerExists, StoreError, UnknownLedger


def check_lengths(actual: Mapping[str, int], expected: Mapping[str, int] | None) -> None:
    """Raise `LedgerConflict` if a ledger or one of its children has grown, appeared or gone since the caller read their lengths."""
    if expected is None or actual == expected:
        return
    name = min(name for name in {*actual, *expected} if actual.get(name, 0) != expected.get(name, 0))
    raise LedgerConflict(name, expected.get(name, 0), actual.get(name, 0))


def unknown_ledger_error(ledger: str) -> UnknownLedger:
    return UnknownLedger(f"there is no ledger {ledger!r} in this store", do="look at store.list() for the names it has")


def wrong_ledger_error(ledger: str, length: int) -> UnknownLedger:
    """Return the error for a caller that means a ledger with another id than the one that is there, of this length."""
    return replaced_ledger_error(ledger) if length else unknown_ledger_error(ledger)


def replaced_ledger_error(ledger: str) -> UnknownLedger:
    return UnknownLedger(
        f"ledger {ledger!r} was deleted, and another made under the same name",
        do="nothing was written; read the ledger that is there now before you continue it",
    )


def check_fork(ledger: str, at: int, new: str, *, length: int, is_name_taken: bool, expected: int | None) -> None:
    """Raise if a ledger cannot be forked: it is not there, it has grown, the name is taken, or it has no such position."""
    if not length:
        raise unknown_ledger_error(ledger)
    if expected is not None and expected != length:
        raise LedgerConflict(ledger, expected, length)
    if is_name_taken:
        raise ledger_exists_error(new)
    if not 0 <= at <= length:
        raise fork_position_error(ledger, at, length)


def ledger_exists_error(ledger: str) -> LedgerExists:
    return LedgerExists(f"there already is a ledger {ledger!r} in this store", do="choose another name; nothing was written")


def fork_position_error(ledger: str, at: int, length: int) -> BadInput:
    return BadInput(
        f"ledger {ledger!r} cannot be forked at {at}",
        expected=f"0 to {length}, the number of its facts",
        found=str(at),
        do="fork at a position that the ledger has; nothing was written",
    )


def no_epoch_left_error(ledger: str) -> StoreError:
    return StoreError(
        f"ledger {ledger!r} cannot be leased: its facts name the largest epoch that there is",
        do="no lease can have reached it, so the facts were forged; if you trust the session, load it under another id: "
        "workflow.load(await session.to_string(), id=...)",
    )


def unknown_content_error(ledger: str, digest: str) -> StoreError:
    return StoreError(
        f"ledger {ledger!r} has no content {digest!r}",
        do="pass contents together with the facts that name them, in one append",
    )


def unreleased_format_error(place: str, version: str) -> StoreError:
    return StoreError(
        f"{place} was made by a development version of Legato, before the first release",
        found=version,
        do="start with a new store, and move sessions as text: session.to_string() with the version that made it, then workflow.load(); "
        "nothing was changed",
    )


def damaged_fact_error(location: str, position: int, length: int) -> DamagedStore:
    return DamagedStore(
        f"a stored fact was changed since it was written: position {position} of {length}",
        readable=position,
        found=location,
        do="store.salvage(ledger) returns the facts before it; restore the rest from a copy",
    )


def damaged_content_error(ledger: str, digest: str, readable: int) -> DamagedStore:
    return DamagedStore(f"content {digest!r} of {ledger!r} is damaged", readable=readable, do="restore it from a copy")


def start_position_error(start: int) -> BadInput:
    return BadInput(f"a ledger cannot be read from position {start}", expected="0 or more", found=str(start))


def closed_store_error() -> StoreError:
    return StoreError("this store is closed", do="open another store on the same data, or close this one later")


def check_tenant_name(name: object) -> str:
    """Return a tenant's name if it is valid; raise `BadInput` if it is not."""
    if isinstance(name, str) and 0 < len(name) <= 200 and name.isprintable():
        return name
    raise BadInput(
        "this is not a valid name of a tenant",
        expected="1 to 200 printable characters",
        found=ascii(name)[:80],
        do="the store without a tenant is the one on which tenant() is called",
    )


def nested_tenant_error(tenant: str) -> BadInput:
    return BadInput(
        f"this store belongs to tenant {tenant!r}, and has no other tenants",
        do="call tenant() on the store that it came from: the tenant is chosen where a store is opened",
    )
