"""The cache of session states, one for the whole process.

A server opens a handle for every request, and each handle would read and fold the whole conversation again. The cache keeps the state of
a session for its next handle, and the rows that lists show of it. It has one budget in bytes, and drops the least recently used entry.

**A cached state is never advanced.** Any number of handles may read it, in any thread. A handle puts its state here after its first
read and at the end of a run. Before it advances the state again, it copies it (`core/state_copy.py`), which costs a pointer for each fact.
A run takes its state out instead if no other handle uses it, and then costs only the new facts. So a state never changes under another
handle, and no handle has to give a state back. (With one owner at a time there would be no copies, but every reader would have to say
when it is done, also a user who keeps `session.state`.)

The cache is never a source. A state belongs to one ledger id, and is used only if the store still has its last fact (`Ledger._read`).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from legato.core.codec import measure_encoded_bytes
from legato.core.facts import AnyFact
from legato.core.state import State
from legato.errors import BadInput
from legato.stores.contract import Store

DEFAULT_MAX_BYTES = 64 * 1024 * 1024
"""The budget if `LEGATO_CACHE_BYTES` is not set."""

BYTES_PER_FACT = 500
"""An estimate of the memory that a fact takes besides its text."""

MEASURED_FACTS_PER_BATCH = 128
"""Facts that are encoded at once to be measured: faster than one by one, and never the whole conversation a second time in memory."""

Key: TypeAlias = "tuple[weakref.ref[Store], str, object]"


class CachedState(Struct, frozen=True):
    """A state, the id of its ledger, and the bytes that its facts take."""

    ledger_id: str
    state: State
    size: int


class _Entry(Struct):
    value: Any
    size: int
    is_shared: bool = False  # `get` has returned it


class SessionCache:
    """Values by store, session and kind: states (of the kind `CachedState`), and what is computed from states. It is thread-safe."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self.bytes = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()  # the most recently used entry is the last one
        self._keys: dict[weakref.ref[Store], set[Key]] = {}  # the keys of each store
        self._closed: list[weakref.ref[Store]] = []  # stores that no longer exist, and whose entries are still here

    @property
    def max_bytes(self) -> int:
        """The budget in bytes."""
        if self._max_bytes is None:
            self._max_bytes = _read_configured_bytes()
        return self._max_bytes

    def get(self, store: Store, session: str, kind: object) -> Any:
        """Return the value of this kind; None if there is none."""
        key = _make_key(store, session, kind)
        with self._lock:
            if key is None or key not in self._entries:
                return None
            self._entries.move_to_end(key)
            entry = self._entries[key]
            entry.is_shared = True
            return entry.value

    def pop_unshared(self, store: Store, session: str, kind: object, value: object) -> bool:
        """Remove this very value if `get` has not returned it since it was put here. Return True if it was removed."""
        key = _make_key(store, session, kind)
        with self._lock:
            entry = self._entries.get(key) if key is not None else None
            if key is None or entry is None or entry.value is not value or entry.is_shared:
                return False
            self._remove(key)
            return True

    def put(self, store: Store, session: str, kind: object, value: object, size: int) -> None:
        """Keep a value of this size in bytes, in place of the one of its kind. The least recently used values make room."""
        key = _make_key(store, session, kind)
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
        """Remove the value of this kind."""
        key = _make_key(store, session, kind)
        with self._lock:
            self._remove(*[key] if key is not None else ())

    def remove_store(self, store: Store) -> None:
        """Remove everything of a store, because words were erased in it."""
        key = _make_key(store, "", None)
        with self._lock:
            self._remove(*self._keys.get(key[0], ()) if key is not None else ())

    def _remove(self, *keys: Key) -> None:
        for key in keys:
            if key in self._entries:
                self.bytes -= self._entries.pop(key).size
                self._keys.get(key[0], set()).discard(key)  # a store that was just collected has no keys


def _make_key(store: Store, session: str, kind: object) -> Key | None:
    """Return the key of a value; None for a store that has no weak references or no hash: its values are not cached."""
    try:
        key = weakref.ref(store), session, kind
        hash(key)
    except TypeError:
        return None
    return key


def _read_configured_bytes() -> int:
    configured = os.environ.get("LEGATO_CACHE_BYTES", "")
    if configured and not configured.isdecimal():
        raise BadInput("LEGATO_CACHE_BYTES is a number of bytes", found=repr(configured)[:80], do="write 0 for no cache, or leave it out")
    return int(configured) if configured else DEFAULT_MAX_BYTES


def measure_facts(facts: Sequence[AnyFact], first: int = 0) -> int:
    """Return an estimate of the bytes in memory that the facts from this position on take."""
    starts = range(first, len(facts), MEASURED_FACTS_PER_BATCH)
    return (
        sum(measure_encoded_bytes(facts[start : start + MEASURED_FACTS_PER_BATCH]) for start in starts)
        + (len(facts) - first) * BYTES_PER_FACT
    )


SESSION_CACHE = SessionCache()
"""The cache of this process."""


def cache_state(store: Store, session: str, cached: CachedState) -> None:
    """Cache the state of a session for its next handles, in any thread."""
    _ = cached.state.open_calls.by_phase  # this property indexes the calls when it is read, which two threads must not do at once
    SESSION_CACHE.put(store, session, CachedState, cached, cached.size)


def _reset_after_fork() -> None:
    """Empty the cache in a forked child process: another thread of the parent may have held the lock."""
    SESSION_CACHE.__init__()  # type: ignore[misc]  # other modules hold this object


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
