"""The cache of session states, one for the whole process.

A server makes a handle for every request, and each handle would read and fold the whole conversation again. The cache keeps the state of
a session for its next handle, and the rows that lists show of it. It has one budget in bytes, and drops the least recently used entry.

**A cached state is never advanced.** Any number of handles may look at it, in any thread. A handle leaves its state here after its first
read and at the end of a run. When it goes on, it copies the state first (`core/state_copy.py`), which costs a pointer for each fact; a run
takes its state out instead if no other handle has it, and then costs only what is new. So a state that one handle holds never changes
because another handle goes on, and no handle has to give a state back. (With one owner at a time there would be no copies, but every
reader, also a user who keeps `session.state`, would have to say when it is done.)

It is a cache and never a source. A state is of one ledger, by its birth name, and is used only if the store has its last fact still:
see `Ledger._read`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from legato.core.codec import weigh
from legato.core.facts import AnyFact
from legato.core.state import State
from legato.errors import BadInput
from legato.stores.contract import Store

MAX_BYTES = 64 * 1024 * 1024
"""How much is kept, where `LEGATO_CACHE_BYTES` does not say."""

BYTES_PER_FACT = 500
"""What a fact takes in memory besides its text, roughly."""

FACTS_AT_ONCE = 128
"""How many facts are measured at once: quicker than one by one, and never the whole conversation a second time in memory."""

Key: TypeAlias = "tuple[weakref.ref[Store], str, object]"


class CachedState(Struct, frozen=True):
    """A state, the birth name of the ledger that it is the fold of, and the bytes that its facts take."""

    born: str
    state: State
    size: int


class _Entry(Struct):
    value: Any
    size: int
    is_shared: bool = False  # it was given to somebody


class SessionCache:
    """Values by store, session and kind: of the kind `CachedState` a state, of others what is worked out of one. Any thread may use it."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self.bytes = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()  # the one that was used last is at the end
        self._keys: dict[weakref.ref[Store], set[Key]] = {}  # of each store
        self._closed: list[weakref.ref[Store]] = []  # stores that are gone, and whose entries are still here

    @property
    def max_bytes(self) -> int:
        """The budget."""
        if self._max_bytes is None:
            self._max_bytes = _configured_bytes()
        return self._max_bytes

    def get(self, store: Store, session: str, kind: object) -> Any:
        """Return what is kept of this kind; None if nothing is."""
        key = _key(store, session, kind)
        with self._lock:
            if key is None or key not in self._entries:
                return None
            self._entries.move_to_end(key)
            entry = self._entries[key]
            entry.is_shared = True
            return entry.value

    def take_back(self, store: Store, session: str, kind: object, value: object) -> bool:
        """Remove a value that was put here, unless it was given to somebody; whether that was done."""
        key = _key(store, session, kind)
        with self._lock:
            entry = self._entries.get(key) if key is not None else None
            if key is None or entry is None or entry.value is not value or entry.is_shared:
                return False
            self._remove(key)
            return True

    def put(self, store: Store, session: str, kind: object, value: object, size: int) -> None:
        """Keep a value of so many bytes, in place of the one of its kind. What was used longest ago makes room."""
        key = _key(store, session, kind)
        with self._lock:
            while self._closed:
                self._remove(*self._keys.pop(self._closed.pop()))
            if key is None:
                return
            self._remove(key)
            if size > self.max_bytes:
                return
            if key[0] not in self._keys:
                self._keys[weakref.ref(store, self._closed.append)] = set()
            self._keys[key[0]].add(key)
            self._entries[key] = _Entry(value, size)
            self.bytes += size
            while self.bytes > self.max_bytes:
                self._remove(next(iter(self._entries)))

    def drop(self, store: Store, session: str, kind: object) -> None:
        """Forget what is kept of this kind."""
        key = _key(store, session, kind)
        with self._lock:
            self._remove(*[key] if key is not None else ())

    def clear(self, store: Store) -> None:
        """Forget everything of a store: words were erased in it."""
        key = _key(store, "", None)
        with self._lock:
            self._remove(*self._keys.get(key[0], ()) if key is not None else ())

    def _remove(self, *keys: Key) -> None:
        for key in keys:
            if key in self._entries:
                self.bytes -= self._entries.pop(key).size
                self._keys.get(key[0], set()).discard(key)  # without any, its store has gone a moment ago


def _key(store: Store, session: str, kind: object) -> Key | None:
    """None for a store that cannot be referred to weakly, or has no hash: nothing of it is kept."""
    try:
        key = weakref.ref(store), session, kind
        hash(key)
    except TypeError:
        return None
    return key


def _configured_bytes() -> int:
    given = os.environ.get("LEGATO_CACHE_BYTES", "")
    if given and not given.isdecimal():
        raise BadInput("LEGATO_CACHE_BYTES is a number of bytes", found=repr(given)[:80], do="write 0 for no cache, or leave it out")
    return int(given) if given else MAX_BYTES


def measure(facts: Sequence[AnyFact], first: int = 0) -> int:
    """How many bytes the facts from this position on take."""
    starts = range(first, len(facts), FACTS_AT_ONCE)
    return sum(weigh(facts[start : start + FACTS_AT_ONCE]) for start in starts) + (len(facts) - first) * BYTES_PER_FACT


SESSIONS = SessionCache()
"""The cache of this process."""


def share_state(store: Store, session: str, cached: CachedState) -> None:
    """Keep the state of a session for its next handles, in whatever thread they are."""
    _ = cached.state.open.by_phase  # calls are filed when somebody looks: two threads must not do that at once
    SESSIONS.put(store, session, CachedState, cached, cached.size)


def _begin_anew() -> None:
    """A forked child begins without: another thread of its parent may have held the lock."""
    SESSIONS.__init__()  # type: ignore[misc]  # other modules hold this object


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
