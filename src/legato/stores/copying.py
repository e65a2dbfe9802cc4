"""Copying sessions from one store to another.

A copy is the same ledger: the same name, birth name, positions and contents. Each fact is brought once: what the target has is how the
session begins there, and the rest is appended to it. So a copy that was killed goes on where it stopped, and one of a session that has
grown brings what is new. Forks come after what they were forked from, and share with it in the target too.

A session is copied with its child sessions, or not at all. They are read after it and written before it: so the target never has a session
without its child sessions, nor a child session that is behind what its parent knows of it.

Words that were erased in the source since are erased in the target as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from msgspec import Struct

from legato.core.child_session_ids import is_child_of, parent_calls, root_session_id
from legato.core.facts import AnyFact, Opened, Redacted
from legato.core.messages import contents_of
from legato.core.redaction import Erased, same_but_for_erased
from legato.errors import BadInput, DamagedStore, LedgerConflict, LedgerExists, UnknownLedger
from legato.stores.contract import LedgerInfo, Store, read_with_identity

ALL = 2**31 - 1
"""More sessions than a store has."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Told how many sessions are done, of how many, and the one that comes next."""


class Copied(Struct, frozen=True):
    """What a copy did: how many `sessions` it looked at, how many of them are `new` in the target or have `grown` there, and how many
    `facts` were brought. `erased`: sessions in which words were erased in the target too. `gone`: deleted in the source meanwhile."""

    sessions: int = 0
    new: int = 0
    grown: int = 0
    facts: int = 0
    erased: int = 0
    gone: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = f"{self.sessions} sessions: {self.new} new, {self.grown} have grown, {self.sessions - self.new - self.grown} as they were"
        return f"{told}; {self.facts} facts"


async def copy(source: Store, target: Store, *, sessions: Iterable[str] | None = None, progress: Progress | None = None) -> Copied:
    """Bring sessions to another store: all of them, or these. May be asked again at any time, and after any interruption.

        await copy(SQLiteStore("desk.db"), PostgresStore("postgresql://..."))

    The source may be in use, and keeps all it has. A damaged session, and one that the target has in another version, is left out; when all
    others are done, `DamagedStore` or `LedgerExists` says which.
    """
    wanted = await _choose_families(source, sessions)
    total = Copied(sessions=sum(map(len, wanted)))
    copier, damaged = Copier(source, target), dict[str, DamagedStore]()
    for number, family in enumerate(wanted):
        if progress is not None:
            progress(number, len(wanted), family[0].ledger)
        try:
            total = _sum(total, await copier.bring(family))
        except DamagedStore as error:
            damaged[family[0].ledger] = error
    if progress is not None:
        progress(len(wanted), len(wanted), "")
    if damaged:
        raise _damaged_sessions(damaged, len(wanted)) from next(iter(damaged.values()))
    if copier.diverged:
        raise _diverged_sessions(copier.diverged, total.sessions)
    return total


async def _choose_families(source: Store, sessions: Iterable[str] | None) -> list[list[LedgerInfo]]:
    """All sessions of a store with their child sessions, or these; `UnknownLedger` or `BadInput` if one of them is no session there."""
    found = families(await source.list(ALL))
    if sessions is None:
        return found
    chosen = {sessions} if isinstance(sessions, str) else set(sessions)
    if missing := chosen - {family[0].ledger for family in found}:
        name = min(missing)
        if (root := root_session_id(name)) != name:
            raise BadInput(f"{name!r} is a child session of {root!r}", do=f"nothing was copied; copy {root!r}: its child sessions go along")
        raise UnknownLedger(f"there is no session {name!r} in {source!r}", do="nothing was copied; look at store.list()")
    return [family for family in found if family[0].ledger in chosen]


def _damaged_sessions(damaged: Mapping[str, DamagedStore], total: int) -> DamagedStore:
    name, first = next(iter(damaged.items()))
    return DamagedStore(
        f"{len(damaged)} of {total} sessions are damaged and were not copied: {', '.join(map(repr, [*damaged][:5]))}",
        found=f"{name}: {first.summary}",
        do="the others were copied; restore the damaged ones from a copy of the store",
    )


def _diverged_sessions(diverged: Sequence[str], total: int) -> LedgerExists:
    return LedgerExists(
        f"the target has another session {diverged[0]!r}: the two went different ways",
        expected="a session of that name that begins as this one does, or none",
        found=f"{len(diverged)} of {total} sessions differ: {', '.join(diverged[:5])}",
        do="the others were copied; bring this one under another id: workflow.load(await session.to_string(), id=...)",
    )


def in_order(infos: Sequence[LedgerInfo]) -> list[LedgerInfo]:
    """Those that others were forked from first, and else the oldest first."""
    by_name = {info.ledger: info for info in infos}
    done: dict[str, LedgerInfo] = {}
    for info in reversed(infos):
        line: list[LedgerInfo] = []
        while info.ledger not in done and info not in line:
            line.append(info)
            info = by_name.get(info.parent, info)
        done.update((each.ledger, each) for each in reversed(line))
    return list(done.values())


def families(infos: Sequence[LedgerInfo]) -> list[list[LedgerInfo]]:
    """Sessions with their child sessions: each parent before its children, what was forked from first, and else the oldest first.

    A child session whose parent is not there is listed as a session of its own.
    """
    ordered = in_order(infos)
    names = {info.ledger for info in ordered}
    found: dict[str, list[LedgerInfo]] = {}
    for info in ordered:
        above = [name for name, _, _ in parent_calls(info.ledger) if name in names]
        found.setdefault(above[-1] if above else info.ledger, []).append(info)
    return [sorted(family, key=_depth) for family in found.values()]


class Copier:
    """Brings sessions one by one, and remembers which have a beginning in common."""

    def __init__(self, source: Store, target: Store) -> None:
        self._source = source
        self._target = target
        self._roots: dict[str, list[str]] = {}  # the name that a ledger began with -> sessions in the target that began so
        self._births: dict[str, str] = {}  # of those in the target that are as they are in the source, or were before they were retired
        self.diverged: list[str] = []

    async def bring(self, family: Sequence[LedgerInfo]) -> Copied:
        """Bring all of a session and its child sessions that the target has not. Nothing of them is driven there meanwhile."""
        read = await self._read_all(family)
        lease = await self._target.lease(family[0].ledger)
        try:
            if diverged := [info.ledger for info, born, facts in read if len(read) > 1 and await self._differs(info, born, facts)]:
                self.diverged += diverged
                return Copied()
            total = Copied()
            for info, born, facts in reversed(read):
                total = _sum(total, await self._bring(info, born, facts))
            return await self._remove_orphans(read, total.gone) if total.gone and len(read) > 1 else total
        finally:
            if lease is not None:
                await self._target.release(lease)

    async def _remove_orphans(self, read: Sequence[tuple[LedgerInfo, str, list[AnyFact]]], gone: Sequence[str]) -> Copied:
        """Delete the child sessions that were brought for a parent that was deleted in the source, and is not in the target either."""
        absent = [name for name in gone if not await self._target.born(name)]
        for info, born, facts in reversed(read):
            if any(is_child_of(info.ledger, name) for name in absent):
                with suppress(LedgerConflict, UnknownLedger):  # somebody goes on with it, or has deleted it too
                    await self._target.delete(info.ledger, expected={info.ledger: len(facts)}, born=born)
        return Copied(gone=tuple(info.ledger for info, _, _ in read))

    async def _read_all(self, family: Sequence[LedgerInfo]) -> list[tuple[LedgerInfo, str, list[AnyFact]]]:
        """Each session with its birth name and facts, parents first; also child sessions that began since the family was listed."""
        read: dict[str, tuple[LedgerInfo, str, list[AnyFact]]] = {}
        new = list(family)
        while new:
            for info in new:
                read[info.ledger] = (info, *await self._read(info))
            began = [info for info in await self._source.children(family[0].ledger) if info.ledger not in read]
            new = sorted(began, key=_depth)
        return sorted(read.values(), key=lambda each: _depth(each[0]))

    async def _differs(self, info: LedgerInfo, born: str, facts: list[AnyFact]) -> bool:
        """Whether the target has another version of a session: neither goes on where the other ends."""
        there = list(await self._target.read(info.ledger))
        if not there or not facts:
            return False
        if await self._target.born(info.ledger) != born:
            return True
        return not _same_conversation(there, facts)

    async def _read(self, info: LedgerInfo) -> tuple[str, list[AnyFact]]:
        """The birth name and the facts of a ledger; no facts if it was deleted meanwhile."""
        name = info.ledger
        if info.damaged:
            raise DamagedStore(f"{name!r} cannot be copied: {info.damaged}", do="restore it from a copy of the store")
        born, facts = await read_with_identity(self._source, name)
        return born, list(facts)

    async def _bring(self, info: LedgerInfo, born: str, facts: list[AnyFact]) -> Copied:
        name = info.ledger
        if not facts:
            return Copied(gone=(name,))
        while True:
            try:
                return await self._level(info, born, facts)
            except LedgerConflict:
                continue  # somebody else writes to the target: look again
            except (LedgerExists, UnknownLedger):
                if await self._source.born(name) != born:
                    return Copied(gone=(name,))  # deleted there while it was copied
                if await self._target.born(name) in ("", born):
                    continue  # it was made, or deleted, at this moment
                self.diverged.append(name)
                return Copied()

    async def _level(self, info: LedgerInfo, born: str, facts: list[AnyFact]) -> Copied:
        name = info.ledger
        there = list(await self._target.read(name))
        if there and await self._target.born(name) != born:
            raise LedgerExists(f"there is another session {name!r}")
        known = len(there)
        changed = same_but_for_erased(there, facts) if there[: len(facts)] != facts[:known] else {}
        if changed is None or (changed and Redacted not in map(type, facts[known:])):
            if not _same_conversation(there, facts):
                self.diverged.append(name)
            return Copied()  # else the target is ahead, and has erased something
        start = known or await self._begin(info, born, facts)
        if changed:
            start = await self._erase(name, born, there, facts, changed)
        await self._append(name, born, facts, start)
        self._remember(name, born, facts)
        brought = len(facts) - known
        return Copied(new=not known, grown=bool(known and (brought > 0 or changed)), facts=max(brought, 0), erased=bool(changed))

    async def _begin(self, info: LedgerInfo, born: str, facts: list[AnyFact]) -> int:
        """Make the session in the target, as a fork of one that begins as it does if there is one; how many facts it has then."""
        for base in (info.parent, *self._roots.get(_root(facts), ())):
            of = await self._target.born(base) if base else ""
            if base and of == (self._births.get(base) or await self._source.born(base)):  # and not another one of its name
                beginning = list(await self._target.read(base))
                shared = _in_common(beginning, facts)
                if shared and (base == info.parent or _owner(base, beginning, shared) == _owner(info.ledger, facts, shared)):
                    contents = await self._contents(info.ledger, facts, shared)
                    return await self._target.fork(base, shared, info.ledger, facts[shared:], contents=contents, born=born, of=of)
        return 0

    async def _append(self, name: str, born: str, facts: list[AnyFact], start: int) -> None:
        if start >= len(facts):
            return
        contents = await self._contents(name, facts, start)
        await self._target.append(name, start, facts[start:], contents=contents, durable=True, born=born)

    async def _contents(self, name: str, facts: list[AnyFact], start: int) -> dict[str, bytes]:
        """What the facts from `start` on name, and none before them does."""
        digests = set().union(*map(contents_of, facts[start:])) - set().union(*map(contents_of, facts[:start]))
        return {digest: await self._source.content(name, digest) for digest in digests}

    async def _erase(self, name: str, born: str, there: list[AnyFact], facts: list[AnyFact], changed: Mapping[int, AnyFact]) -> int:
        """Bring the target to where words were erased in the source, and erase them there; how many facts it has then."""
        at = next(position for position in range(len(there), len(facts)) if isinstance(facts[position], Redacted))
        if at > len(there):
            await self._append(name, born, facts[:at], len(there))
        old = set().union(*(contents_of(there[position]) for position in changed))
        named = set().union(*map(contents_of, facts))
        new = {digest: position for position, fact in changed.items() for digest in contents_of(fact) - old}
        contents = {digest: (position, await self._source.content(name, digest)) for digest, position in new.items()}
        erased = Erased(changed, (facts[at],), contents, frozenset(old - named), frozenset(named))
        await self._target.redact(name, _Follows(at, erased), born=born)
        return at + 1

    def _remember(self, name: str, born: str, facts: list[AnyFact]) -> None:
        self._births[name] = born
        known = self._roots.setdefault(_root(facts), [])
        if name not in known:
            known.append(name)


class _Follows(Struct, frozen=True):
    """What was erased elsewhere in one session. Those that share it here lose the same words, and in their turn get the record of it."""

    at: int
    done: Erased

    def looks_at(self, facts: Sequence[AnyFact], shared: int) -> set[str]:
        return set()

    def erased(self, facts: Sequence[AnyFact], shared: int, contents: Mapping[str, bytes]) -> Erased:
        if shared == len(facts) == self.at:
            return self.done
        replaced = {position: fact for position, fact in self.done.replaced.items() if position < shared}
        after = (replaced.get(position, fact) for position, fact in enumerate(facts))
        return Erased(replaced, named=frozenset().union(*map(contents_of, after)))


def _depth(info: LedgerInfo) -> tuple[int, str]:
    """Sorts parents before their child sessions."""
    return info.ledger.count("/"), info.ledger


def _same_conversation(there: list[AnyFact], facts: list[AnyFact]) -> bool:
    """Whether one of two ledgers goes on where the other ends, perhaps with words erased in the newer one."""
    if there[: len(facts)] == facts[: len(there)] or same_but_for_erased(there, facts) is not None:
        return True
    return len(there) >= len(facts) and same_but_for_erased(facts, there) is not None


def _in_common(one: list[AnyFact], other: list[AnyFact]) -> int:
    """How many facts two ledgers begin with alike."""
    least = min(len(one), len(other))
    return next((position for position in range(least) if one[position] != other[position]), least)


def _root(facts: list[AnyFact]) -> str:
    return facts[0].ledger if isinstance(facts[0], Opened) else ""


def _owner(session: str, facts: list[AnyFact], position: int) -> str:
    """The session in which the facts before a position were recorded or loaded, as far as forks tell; this one if it is not a fork.

    A session that was loaded from another's string begins with the same facts, but owns all of them, and so do its forks: whatever the
    string came from was forked from is not theirs.
    """
    owner = ""
    for fact in facts[position:]:
        if isinstance(fact, Opened) and fact.origin is not None:
            owner = "" if fact.origin.kind != "fork" else owner or fact.origin.session
    return owner or session


def _sum(one: Copied, other: Copied) -> Copied:
    return Copied(
        one.sessions,
        one.new + other.new,
        one.grown + other.grown,
        one.facts + other.facts,
        one.erased + other.erased,
        one.gone + other.gone,
    )
