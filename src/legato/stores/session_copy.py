"""Copies of sessions in another store.

A copy is the same ledger: the same name, id, positions and contents. Each fact is copied once: the target's facts are the beginning of the
session there, and only the rest is appended. So a copy that was killed continues where it stopped, and a second copy of a session that has
grown adds what is new. Forks are copied after the sessions that they were forked from, and share facts with them in the target too.

A session is copied with its child sessions, or not at all. They are read after it and written before it. So the target never has a session
without its child sessions, nor a child session that is behind what its parent knows of it.

Text that was erased in the source is erased in the target as well.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from legato.core.child_session_ids import find_root_session_id, is_child_of, list_parent_calls
from legato.core.facts import AnyFact, Opened, Redacted
from legato.core.messages import find_content_digests
from legato.core.redaction import LedgerRedaction, PositionRedactor, find_redacted_differences
from legato.errors import BadInput, DamagedStore, LedgerConflict, LedgerExists, UnknownLedger
from legato.stores.contract import LedgerInfo, Store, read_with_identity

MAX_SESSIONS = 2**31 - 1
"""The limit for listing all sessions of a store: more than any store has."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""A callback with the number of copied sessions, the number of all sessions, and the id of the next one."""


class CopyReport(Struct, frozen=True):
    """The result of a copy.

    It counts the `sessions` that were read, those that are `new` or have `grown` in the target, the `facts` that were copied, and the
    sessions that were `redacted` in the target too. `deleted` names the sessions that were deleted in the source meanwhile.
    """

    sessions: int = 0
    new: int = 0
    grown: int = 0
    facts: int = 0
    redacted: int = 0
    deleted: tuple[str, ...] = ()

    def __str__(self) -> str:
        unchanged = self.sessions - self.new - self.grown
        return f"{self.sessions} sessions: {self.new} new, {self.grown} grown, {unchanged} unchanged; {self.facts} facts"


async def copy(source: Store, target: Store, *, sessions: Iterable[str] | None = None, progress: Progress | None = None) -> CopyReport:
    """Copy sessions to another store: all of them, or `sessions`. A copy may be repeated at any time, and after any interruption.

        await copy(SQLiteStore("desk.db"), PostgresStore("postgresql://..."))

    The source may be in use, and is not changed. Damaged sessions, and sessions of which the target has another version, are left out; when
    all others are copied, `DamagedStore` or `LedgerExists` names them.
    """
    wanted = await _select_session_trees(source, sessions)
    total = CopyReport(sessions=sum(map(len, wanted)))
    copier, damaged = SessionCopier(source, target), dict[str, DamagedStore]()
    for number, tree in enumerate(wanted):
        if progress is not None:
            progress(number, len(wanted), tree[0].ledger)
        try:
            total = _add_reports(total, await copier.copy_tree(tree))
        except DamagedStore as error:
            damaged[tree[0].ledger] = error
    if progress is not None:
        progress(len(wanted), len(wanted), "")
    if damaged:
        raise _damaged_sessions(damaged, len(wanted)) from next(iter(damaged.values()))
    if copier.diverged:
        raise _diverged_sessions(copier.diverged, total.sessions)
    return total


async def _select_session_trees(source: Store, sessions: Iterable[str] | None) -> list[list[LedgerInfo]]:
    """Return all session trees of a store, or those of `sessions`. Raise `UnknownLedger` or `BadInput` if one is no session there."""
    found = group_session_trees(await source.list(MAX_SESSIONS))
    if sessions is None:
        return found
    chosen = {sessions} if isinstance(sessions, str) else set(sessions)
    if missing := chosen - {tree[0].ledger for tree in found}:
        name = min(missing)
        if (root := find_root_session_id(name)) != name:
            raise BadInput(f"{name!r} is a child session of {root!r}", do=f"nothing was copied; copy {root!r}: its child sessions go along")
        raise UnknownLedger(f"there is no session {name!r} in {source!r}", do="nothing was copied; look at store.list()")
    return [tree for tree in found if tree[0].ledger in chosen]


def _damaged_sessions(damaged: Mapping[str, DamagedStore], total: int) -> DamagedStore:
    name, first = next(iter(damaged.items()))
    return DamagedStore(
        f"{len(damaged)} of {total} sessions are damaged and were not copied: {', '.join(map(repr, [*damaged][:5]))}",
        found=f"{name}: {first.summary}",
        do="the others were copied; restore the damaged ones from a copy of the store",
    )


def _diverged_sessions(diverged: Sequence[str], total: int) -> LedgerExists:
    return LedgerExists(
        f"the target has another session {diverged[0]!r}: the two have diverged",
        expected="a session of that name that begins as this one does, or none",
        found=f"{len(diverged)} of {total} sessions differ: {', '.join(diverged[:5])}",
        do="the others were copied; copy this one under another id: workflow.load(await session.to_string(), id=...)",
    )


def sort_origins_first(infos: Sequence[LedgerInfo]) -> list[LedgerInfo]:
    """Sort sessions before the sessions that were forked from them, and otherwise by age, the oldest first."""
    by_name = {info.ledger: info for info in infos}
    done: dict[str, LedgerInfo] = {}
    for info in reversed(infos):
        origins: list[LedgerInfo] = []
        while info.ledger not in done and info not in origins:
            origins.append(info)
            info = by_name.get(info.parent, info)
        done.update((each.ledger, each) for each in reversed(origins))
    return list(done.values())


def group_session_trees(infos: Sequence[LedgerInfo]) -> list[list[LedgerInfo]]:
    """Group sessions with their child sessions: each parent before its children, fork origins first, otherwise the oldest first.

    A child session whose parent is missing forms a tree of its own.
    """
    ordered = sort_origins_first(infos)
    names = {info.ledger for info in ordered}
    found: dict[str, list[LedgerInfo]] = {}
    for info in ordered:
        above = [name for name, _, _ in list_parent_calls(info.ledger) if name in names]
        found.setdefault(above[-1] if above else info.ledger, []).append(info)
    return [sorted(tree, key=_depth_key) for tree in found.values()]


class SessionCopier:
    """A copier of session trees, which remembers the sessions with a common beginning."""

    def __init__(self, source: Store, target: Store) -> None:
        self._source = source
        self._target = target
        self._sessions_by_first_ledger: dict[str, list[str]] = {}  # a first ledger id -> sessions in the target that begin with it
        self._ledger_ids: dict[str, str] = {}  # of the sessions in the target that equal the source's, or did before they were retired
        self._redacting: set[str] = set()  # sessions whose redaction is being repeated: they may share facts with one another
        self.diverged: list[str] = []

    async def copy_tree(self, tree: Sequence[LedgerInfo]) -> CopyReport:
        """Copy what the target lacks of a session and its child sessions. No driver can run the target's session meanwhile."""
        read = await self._read_tree(tree)
        lease = await self._target.lease(tree[0].ledger)
        try:
            if diverged := [
                info.ledger for info, ledger_id, facts in read if len(read) > 1 and await self._has_diverged(info, ledger_id, facts)
            ]:
                self.diverged += diverged
                return CopyReport()
            total = CopyReport()
            for info, ledger_id, facts in reversed(read):
                total = _add_reports(total, await self._copy_ledger(info, ledger_id, facts))
            return await self._remove_orphans(read, total.deleted) if total.deleted and len(read) > 1 else total
        finally:
            if lease is not None:
                await self._target.release(lease)

    async def _remove_orphans(self, read: Sequence[tuple[LedgerInfo, str, list[AnyFact]]], deleted: Sequence[str]) -> CopyReport:
        """Delete copied child sessions whose parent was deleted in the source and is not in the target either."""
        absent = [name for name in deleted if not await self._target.ledger_id(name)]
        for info, ledger_id, facts in reversed(read):
            if any(is_child_of(info.ledger, name) for name in absent):
                with suppress(LedgerConflict, UnknownLedger):  # another process continues it, or has deleted it too
                    await self._target.delete(info.ledger, expected={info.ledger: len(facts)}, ledger_id=ledger_id)
        return CopyReport(deleted=tuple(info.ledger for info, _, _ in read))

    async def _read_tree(self, tree: Sequence[LedgerInfo]) -> list[tuple[LedgerInfo, str, list[AnyFact]]]:
        """Return each session with its ledger id and facts, parents first; also child sessions that began after the tree was listed."""
        read: dict[str, tuple[LedgerInfo, str, list[AnyFact]]] = {}
        new = list(tree)
        while new:
            for info in new:
                read[info.ledger] = (info, *await self._read_source(info))
            new_children = [info for info in await self._source.children(tree[0].ledger) if info.ledger not in read]
            new = sorted(new_children, key=_depth_key)
        return sorted(read.values(), key=lambda each: _depth_key(each[0]))

    async def _has_diverged(self, info: LedgerInfo, ledger_id: str, facts: list[AnyFact]) -> bool:
        """Return True if the target has another version of a session: neither continues where the other ends."""
        target_facts = list(await self._target.read(info.ledger))
        if not target_facts or not facts:
            return False
        if await self._target.ledger_id(info.ledger) != ledger_id:
            return True
        return not _is_same_conversation(target_facts, facts)

    async def _read_source(self, info: LedgerInfo) -> tuple[str, list[AnyFact]]:
        """Return the id and the facts of a ledger; no facts if it was deleted meanwhile."""
        name = info.ledger
        if info.damage:
            raise DamagedStore(f"{name!r} cannot be copied: {info.damage}", do="restore it from a copy of the store")
        ledger_id, facts = await read_with_identity(self._source, name)
        return ledger_id, list(facts)

    async def _copy_ledger(self, info: LedgerInfo, ledger_id: str, facts: list[AnyFact]) -> CopyReport:
        name = info.ledger
        if not facts:
            return CopyReport(deleted=(name,))
        while True:
            try:
                return await self._copy_missing_facts(info, ledger_id, facts)
            except LedgerConflict:
                continue  # another process writes to the target: read it again
            except (LedgerExists, UnknownLedger):
                if await self._source.ledger_id(name) != ledger_id:
                    return CopyReport(deleted=(name,))  # it was deleted in the source while it was copied
                if await self._target.ledger_id(name) in ("", ledger_id):
                    continue  # it was made, or deleted, at this moment
                self.diverged.append(name)
                return CopyReport()

    async def _copy_missing_facts(self, info: LedgerInfo, ledger_id: str, facts: list[AnyFact]) -> CopyReport:
        name = info.ledger
        target_facts = list(await self._target.read(name))
        if target_facts and await self._target.ledger_id(name) != ledger_id:
            raise LedgerExists(f"the target has another session {name!r}")
        known = len(target_facts)
        changed = find_redacted_differences(target_facts, facts) if target_facts[: len(facts)] != facts[:known] else {}
        if changed is None or (changed and Redacted not in map(type, facts[known:])):
            if not _is_same_conversation(target_facts, facts):
                self.diverged.append(name)
            return CopyReport()  # otherwise the target is ahead, and has erased text
        start = known or await self._fork_common_beginning(info, ledger_id, facts)
        if changed:
            start = await self._repeat_redaction(name, ledger_id, target_facts, facts, changed)
        await self._append(name, ledger_id, facts, start)
        self._remember(name, ledger_id, facts)
        brought = len(facts) - known
        return CopyReport(new=not known, grown=bool(known and (brought > 0 or changed)), facts=max(brought, 0), redacted=bool(changed))

    async def _fork_common_beginning(self, info: LedgerInfo, ledger_id: str, facts: list[AnyFact]) -> int:
        """Create the session in the target as a fork of a session with the same beginning, if there is one. Return its length."""
        for base in (info.parent, *self._sessions_by_first_ledger.get(_first_ledger_id(facts), ())):
            base_id = await self._target.ledger_id(base) if base else ""
            if base and base_id == (self._ledger_ids.get(base) or await self._source.ledger_id(base)):  # and not a replaced ledger
                beginning = list(await self._target.read(base))
                shared = _count_common_facts(beginning, facts)
                owners = _find_owner_session(base, beginning, shared), _find_owner_session(info.ledger, facts, shared)
                if shared and (base == info.parent or owners[0] == owners[1]):
                    contents = await self._read_new_contents(info.ledger, facts, shared)
                    # If the base has grown meanwhile, its text may have been erased: `LedgerConflict`, and it is read again.
                    return await self._target.fork(
                        base,
                        shared,
                        info.ledger,
                        facts[shared:],
                        contents=contents,
                        ledger_id=ledger_id,
                        parent_ledger_id=base_id,
                        expected=len(beginning),
                    )
        return 0

    async def _append(self, name: str, ledger_id: str, facts: list[AnyFact], start: int) -> None:
        if start >= len(facts):
            return
        contents = await self._read_new_contents(name, facts, start)
        await self._target.append(name, start, facts[start:], contents=contents, durable=True, ledger_id=ledger_id)

    async def _read_new_contents(self, name: str, facts: list[AnyFact], start: int) -> dict[str, bytes]:
        """Read the contents that facts from `start` on name, and no fact before them does."""
        digests = set().union(*map(find_content_digests, facts[start:])) - set().union(*map(find_content_digests, facts[:start]))
        return {digest: await self._source.content(name, digest) for digest in digests}

    async def _repeat_redaction(
        self, name: str, ledger_id: str, target_facts: list[AnyFact], facts: list[AnyFact], changed: Mapping[int, AnyFact]
    ) -> int:
        """Copy the facts up to the source's redaction, and erase the same text in the target. Return its length then."""
        at = next(position for position in range(len(target_facts), len(facts)) if isinstance(facts[position], Redacted))
        if at > len(target_facts):
            await self._append(name, ledger_id, facts[:at], len(target_facts))
        old = set().union(*(find_content_digests(target_facts[position]) for position in changed))
        remaining = set().union(*map(find_content_digests, facts))
        new = {digest: position for position, fact in changed.items() for digest in find_content_digests(fact) - old}
        contents = {digest: (position, await self._source.content(name, digest)) for digest, position in new.items()}
        redaction = LedgerRedaction(changed, (facts[at],), contents, frozenset(old - remaining), frozenset(remaining))
        positions = {position for fact in facts[at:] if isinstance(fact, Redacted) for position in fact.positions}
        own = PositionRedactor(frozenset(positions), secrets.token_bytes(32), facts[at].at, _read_reason(facts[at]))
        self._redacting.add(name)
        try:
            repeated = _RepeatedRedaction(at, redaction, await self._find_ids_without_record(name, ledger_id, positions), own)
            await self._target.redact(name, repeated, ledger_id=ledger_id)
        finally:
            self._redacting.discard(name)
        return at + 1

    async def _find_ids_without_record(self, name: str, ledger_id: str, positions: set[int]) -> frozenset[str]:
        """Return the ids of ledgers in the target that share facts with a session, and get no record of this redaction by being copied.

        They are not in the source (any more), or their text is not erased there: a session that was restored from an archive may have been
        away when the session that it shares facts with was redacted.
        """
        survey = _RelativesSurvey()
        await self._target.redact(name, survey, ledger_id=ledger_id)
        unresolved, found = survey.ledger_ids - {ledger_id}, set[str]()
        for info in await self._target.list(MAX_SESSIONS) if unresolved else ():
            id = await self._target.ledger_id(info.ledger)
            if id not in unresolved:
                continue
            unresolved.discard(id)
            source_id, facts = await read_with_identity(self._source, info.ledger)
            if source_id != id:
                found.add(id)
            elif not any(isinstance(fact, Redacted) and positions & set(fact.positions) for fact in facts):
                found.add(id)
                if info.ledger not in self._redacting:
                    await self._copy_ledger(info, id, list(facts))  # the record comes after what is new
        return frozenset(found)

    def _remember(self, name: str, ledger_id: str, facts: list[AnyFact]) -> None:
        self._ledger_ids[name] = ledger_id
        known = self._sessions_by_first_ledger.setdefault(_first_ledger_id(facts), [])
        if name not in known:
            known.append(name)


class _RepeatedRedaction(Struct, frozen=True):
    """A redactor that repeats the redaction of one session in another store.

    Sessions that share its facts lose the same text. Their own record of it follows when they are copied. Those that get none by being
    copied are redacted here, each with its own record.
    """

    position: int
    redaction: LedgerRedaction
    ids_without_record: frozenset[str]
    own: PositionRedactor

    def find_needed_contents(self, facts: Sequence[AnyFact], shared_length: int) -> set[str]:
        return self.own.find_needed_contents(facts, shared_length) if self._gets_no_record(facts) else set()

    def redact(self, facts: Sequence[AnyFact], shared_length: int, contents: Mapping[str, bytes]) -> LedgerRedaction:
        if shared_length == len(facts) == self.position:
            return self.redaction
        replaced = {position: fact for position, fact in self.redaction.replacements.items() if position < shared_length}
        if self._gets_no_record(facts):
            own = self.own.redact(facts, shared_length, contents)
            rest = {position: fact for position, fact in own.replacements.items() if position >= shared_length}
            return replace(own, replacements={**replaced, **rest})
        after = (replaced.get(position, fact) for position, fact in enumerate(facts))
        return LedgerRedaction(replaced, remaining_contents=frozenset().union(*map(find_content_digests, after)))

    def _gets_no_record(self, facts: Sequence[AnyFact]) -> bool:
        return _last_ledger_id(facts) in self.ids_without_record


class _RelativesSurvey:
    """A redactor that changes nothing. It collects the ids of the ledgers that share facts."""

    def __init__(self) -> None:
        self.ledger_ids: set[str] = set()

    def find_needed_contents(self, facts: Sequence[AnyFact], shared_length: int) -> set[str]:
        return set()

    def redact(self, facts: Sequence[AnyFact], shared_length: int, contents: Mapping[str, bytes]) -> LedgerRedaction:
        self.ledger_ids.add(_last_ledger_id(facts))
        return LedgerRedaction(remaining_contents=frozenset().union(*map(find_content_digests, facts)))


def _last_ledger_id(facts: Sequence[AnyFact]) -> str:
    return next(fact.ledger_id for fact in reversed(facts) if isinstance(fact, Opened))


def _read_reason(fact: AnyFact) -> str:
    return fact.reason if isinstance(fact, Redacted) else ""


def _depth_key(info: LedgerInfo) -> tuple[int, str]:
    """Return a sort key that puts parents before their child sessions."""
    return info.ledger.count("/"), info.ledger


def _is_same_conversation(target_facts: list[AnyFact], facts: list[AnyFact]) -> bool:
    """Return True if one of two ledgers continues where the other ends, perhaps with text erased in the newer one."""
    if target_facts[: len(facts)] == facts[: len(target_facts)] or find_redacted_differences(target_facts, facts) is not None:
        return True
    return len(target_facts) >= len(facts) and find_redacted_differences(facts, target_facts) is not None


def _count_common_facts(one: list[AnyFact], other: list[AnyFact]) -> int:
    """Count the equal facts with which two ledgers begin."""
    least = min(len(one), len(other))
    return next((position for position in range(least) if one[position] != other[position]), least)


def _first_ledger_id(facts: list[AnyFact]) -> str:
    return facts[0].ledger_id if isinstance(facts[0], Opened) else ""


def _find_owner_session(session: str, facts: list[AnyFact], position: int) -> str:
    """Return the session in which the facts before a position were recorded or loaded, as far as forks show; `session` if it is no fork.

    A session that was loaded from another session's string begins with the same facts, but owns all of them, and so do its forks. They do
    not share facts with the origin of the session that the string came from.
    """
    owner = ""
    for fact in facts[position:]:
        if isinstance(fact, Opened) and fact.origin is not None:
            owner = "" if fact.origin.kind != "fork" else owner or fact.origin.session
    return owner or session


def _add_reports(one: CopyReport, other: CopyReport) -> CopyReport:
    return CopyReport(
        one.sessions,
        one.new + other.new,
        one.grown + other.grown,
        one.facts + other.facts,
        one.redacted + other.redacted,
        one.deleted + other.deleted,
    )
