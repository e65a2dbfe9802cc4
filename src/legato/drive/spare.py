"""States that are folded already. May know: stores as keys. Decides: how many are kept.

A program that serves people makes a handle for every request, and each would read and fold the whole conversation again. So a handle that
is let go of leaves its state here, and the next one on that ledger takes it and reads only what was appended since. One handle has it at a
time, and a state that somebody else still looks at is left to nobody. It is a cache and nothing more: whoever takes a state asks the store
whether the ledger is still the one that it was folded from, and whether it still has what was folded: a file may be restored from a copy.

Handles are let go of at any moment, also by the garbage collector in the middle of this module: so nobody who leaves or takes a state ever
waits for the lock here, and a state that cannot be left or taken at once is folded again.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from contextlib import suppress
from typing import NamedTuple

from legato.core.codec import weigh
from legato.core.state import State
from legato.stores.contract import Store

MOST_FACTS = 20_000
"""How many facts the spare states of one store may have in all: some tens of megabytes."""

MOST_BYTES = 32 * 1024 * 1024
"""How many bytes those facts may be, written down: a few hold whole books."""

AT_ONCE = 128
"""How many facts are weighed at once: quicker than one by one, and never the whole conversation a second time in memory."""


class Spare(NamedTuple):
    """A state, the birth name of the ledger that it is the fold of, and how many bytes how many of its facts are."""

    born: str
    state: State
    weighed: int = 0
    weight: int = 0


class _Shelf:
    """The spare states of one store, the one that was left last at the end."""

    def __init__(self) -> None:
        self.spares: OrderedDict[str, Spare] = OrderedDict()
        self.facts = 0
        self.weight = 0

    def pop(self, session: str) -> Spare | None:
        return self._without(self.spares.pop(session, None))

    def put(self, session: str, spare: Spare) -> None:
        self.pop(session)
        self.spares[session] = spare
        self.facts += spare.state.length
        self.weight += spare.weight
        while self.facts > MOST_FACTS or self.weight > MOST_BYTES:
            self._without(self.spares.popitem(last=False)[1])

    def _without(self, spare: Spare | None) -> Spare | None:
        if spare is not None:
            self.facts -= spare.state.length
            self.weight -= spare.weight
        return spare


_lock = threading.Lock()
_shelves: weakref.WeakKeyDictionary[Store, _Shelf] = weakref.WeakKeyDictionary()


def leave(store: Store, session: str, spare: Spare) -> None:
    """Leave a state for the next handle; what has not been taken for longest makes room."""
    if not spare.born or spare.state.length > MOST_FACTS:
        return
    facts, weight = spare.state.facts, spare.weight
    for first in range(spare.weighed, len(facts), AT_ONCE):
        weight += weigh(facts[first : first + AT_ONCE])
    if weight > MOST_BYTES or not _lock.acquire(blocking=False):
        return
    try:
        _shelves.setdefault(store, _Shelf()).put(session, Spare(spare.born, spare.state, spare.state.length, weight))
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
        return shelf.pop(session) if shelf else None
    except TypeError:
        return None
    finally:
        _lock.release()


def clear(store: Store) -> None:
    """Let go of all states of a store: words were erased in it."""
    with _lock, suppress(TypeError):
        _shelves.pop(store, None)


def _forget() -> None:
    """A forked child begins without: another thread of its parent's may have been in the middle of leaving one."""
    global _lock, _shelves
    _lock, _shelves = threading.Lock(), weakref.WeakKeyDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
