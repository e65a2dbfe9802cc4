"""What stores say when they refuse. May know: the errors. Decides: the words, so that every store says the same."""

from __future__ import annotations

from legato.errors import BadInput, LedgerExists, StoreError, UnknownLedger


def unknown_ledger(ledger: str) -> UnknownLedger:
    return UnknownLedger(f"there is no ledger {ledger!r} in this store", do="look at store.list() for the names it has")


def another_ledger(ledger: str) -> UnknownLedger:
    return UnknownLedger(
        f"ledger {ledger!r} was deleted, and another made under the same name",
        do="nothing was written; read the ledger that is there now before going on with it",
    )


def ledger_exists(ledger: str) -> LedgerExists:
    return LedgerExists(f"there already is a ledger {ledger!r} in this store", do="choose another name; nothing was written")


def beyond_end(ledger: str, at: int, length: int) -> BadInput:
    return BadInput(
        f"ledger {ledger!r} cannot be forked at {at}",
        expected=f"0 to {length}, the number of its facts",
        found=str(at),
        do="fork at a position that the ledger has; nothing was written",
    )


def no_content(ledger: str, digest: str) -> StoreError:
    return StoreError(
        f"ledger {ledger!r} has no content {digest!r}",
        do="give contents together with the facts that name them, in one append",
    )


def bad_start(start: int) -> BadInput:
    return BadInput(f"a ledger cannot be read from position {start}", expected="0 or more", found=str(start))


def closed_store() -> StoreError:
    return StoreError("this store is closed", do="open another store on the same data, or close this one later")
