"""What stores refuse, and in which words, so that every store says the same."""

from __future__ import annotations

from collections.abc import Mapping

from legato.errors import BadInput, DamagedStore, LedgerConflict, LedgerExists, StoreError, UnknownLedger


def check_lengths(found: Mapping[str, int], expected: Mapping[str, int] | None) -> None:
    """Refuse to delete a ledger and its children where one has grown, begun or gone since the caller looked."""
    if expected is None or found == expected:
        return
    name = min(name for name in {*found, *expected} if found.get(name, 0) != expected.get(name, 0))
    raise LedgerConflict(name, expected.get(name, 0), found.get(name, 0))


def unknown_ledger(ledger: str) -> UnknownLedger:
    return UnknownLedger(f"there is no ledger {ledger!r} in this store", do="look at store.list() for the names it has")


def not_born_so(ledger: str, length: int) -> UnknownLedger:
    """The refusal where a caller means a ledger of another birth name than the one that is there, of this length."""
    return another_ledger(ledger) if length else unknown_ledger(ledger)


def another_ledger(ledger: str) -> UnknownLedger:
    return UnknownLedger(
        f"ledger {ledger!r} was deleted, and another made under the same name",
        do="nothing was written; read the ledger that is there now before going on with it",
    )


def check_fork(ledger: str, at: int, new: str, *, length: int, taken: bool, expected: int | None) -> None:
    """Refuse to fork a ledger of this length, if there is none, it has grown, the name is taken, or it has no such position."""
    if not length:
        raise unknown_ledger(ledger)
    if expected is not None and expected != length:
        raise LedgerConflict(ledger, expected, length)
    if taken:
        raise ledger_exists(new)
    if not 0 <= at <= length:
        raise beyond_end(ledger, at, length)


def ledger_exists(ledger: str) -> LedgerExists:
    return LedgerExists(f"there already is a ledger {ledger!r} in this store", do="choose another name; nothing was written")


def beyond_end(ledger: str, at: int, length: int) -> BadInput:
    return BadInput(
        f"ledger {ledger!r} cannot be forked at {at}",
        expected=f"0 to {length}, the number of its facts",
        found=str(at),
        do="fork at a position that the ledger has; nothing was written",
    )


def no_epoch_left(ledger: str) -> StoreError:
    return StoreError(
        f"ledger {ledger!r} cannot be leased: its facts name the largest epoch that there is",
        do="nobody's leases reached it, so the facts were made up; load the session under another id if you trust it: "
        "workflow.load(await session.to_string(), id=...)",
    )


def no_content(ledger: str, digest: str) -> StoreError:
    return StoreError(
        f"ledger {ledger!r} has no content {digest!r}",
        do="give contents together with the facts that name them, in one append",
    )


def never_released(place: str, found: str) -> StoreError:
    return StoreError(
        f"{place} was made by a development version of Legato, before the first release",
        found=found,
        do="begin in a new one, and bring sessions along as text: session.to_string() with the version that made it, then workflow.load(); "
        "nothing was changed",
    )


def damaged_fact(found: str, position: int, length: int) -> DamagedStore:
    return DamagedStore(
        f"a stored fact was changed since it was written: position {position} of {length}",
        readable=position,
        found=found,
        do="store.salvage(ledger) gives the facts before it; restore the rest from a copy",
    )


def damaged_content(ledger: str, digest: str, readable: int) -> DamagedStore:
    return DamagedStore(f"content {digest!r} of {ledger!r} is damaged", readable=readable, do="restore it from a copy")


def bad_start(start: int) -> BadInput:
    return BadInput(f"a ledger cannot be read from position {start}", expected="0 or more", found=str(start))


def closed_store() -> StoreError:
    return StoreError("this store is closed", do="open another store on the same data, or close this one later")


def checked_tenant(name: object) -> str:
    """The name of a tenant, if it can be one."""
    if isinstance(name, str) and 0 < len(name) <= 200 and name.isprintable():
        return name
    raise BadInput(
        "this cannot be the name of a tenant",
        expected="1 to 200 printable characters",
        found=ascii(name)[:80],
        do="a store without a tenant's name is the one that tenant() is asked of",
    )


def of_one_tenant(tenant: str) -> BadInput:
    return BadInput(
        f"this store is that of tenant {tenant!r}, and has no others",
        do="ask the store that it came from: whose ledgers are meant is decided where a store is opened",
    )
