"""States that are folded already. May know: stores as keys. Decides: how many are kept.

A program that serves people makes a handle for every request, and each would read and fold the whole conversation again. So a handle that
is let go of leaves its state here, and the next one on that ledger takes it and reads only what was appended since. One handle has it at a
time. It is a cache and nothing more: whoever takes a state asks the store whether the ledger is still the one that it was folded from.

Handles are let go of at any moment, also by the garbage collector in the middle of this module: so nobody ever waits for the lock here, and
a state that cannot be left or taken at once is folded again.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import NamedTuple

from legato.core.state import State
from legato.stores.contract import Store

MOST_FACTS = 20_000
"""How many facts the spare states of one store may have in all: some tens of megabytes, if replies are long."""


class Spare(NamedTuple):
    """A state, and the birth name of the ledger that it is the fold of."""

    born: str
    state: State


class _Shelf:
    """The spare states of one store, the one that was left last at the end."""

    def __init__(self) -> None:
        self.spares: OrderedDict[str, Spare] = OrderedDict()
        self.facts = 0


_lock = threading.Lock()
_shelves: weakref.WeakKeyDictionary[Store, _Shelf] = weakref.WeakKeyDictionary()


def leave(store: Store, session: str, spare: Spare) -> None:
    """Leave a state for the next handle; what has not been taken for longest makes room."""
    if not spare.born or spare.state.length > MOST_FACTS or not _lock.acquire(blocking=False):
        return
    try:
        shelf = _shelves.setdefault(store, _Shelf())
        before = shelf.spares.pop(session, None)
        shelf.spares[session] = spare
        shelf.facts += spare.state.length - (before.state.length if before else 0)
        while shelf.facts > MOST_FACTS:
            _, oldest = shelf.spares.popitem(last=False)
            shelf.facts -= oldest.state.length
    except TypeError:
        pass  # a store that cannot be referred to weakly has none
    finally:
        _lock.release()


def take(store: Store, session: str) -> Spare | None:
    """The state that the last handle on this session left, if any; nobody else gets it."""
    if not _lock.acquire(blocking=False):
        return None
    try:
        shelf = _shelves.get(store)
        spare = shelf.spares.pop(session, None) if shelf else None
        if shelf and spare:
            shelf.facts -= spare.state.length
        return spare
    except TypeError:
        return None
    finally:
        _lock.release()
