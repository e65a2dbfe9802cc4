"""Copies of sessions between stores: each fact is copied once, whatever interrupts the copy; and its reports."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, file, tool
from legato.core.child_session_ids import make_child_session_id
from legato.core.facts import CallReturned, CallStarted, MessageReceived, OutputText, Reasoning, Redacted
from legato.core.messages import find_content_digests
from legato.core.texts_for_model import REDACTED_TEXT
from legato.core.view import ModelRequest
from legato.errors import DamagedStore, LedgerExists, UnknownLedger
from legato.models.model import Emit, ModelReply
from legato.stores import MemoryStore, PostgresStore, SQLiteStore, Store, copy
from legato.stores import session_copy as module
from legato.testing import Died, FailingStore, Fault, ScriptedModel, call

Make = Callable[[str], Store]


@pytest.fixture(params=["memory to memory", "memory to sqlite", "sqlite to postgres", "postgres to sqlite"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    async with AsyncExitStack() as stack:

        def made(kind: str, name: str) -> Store:
            if kind == "postgres":
                return PostgresStore(request.getfixturevalue("database"))
            return MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / f"{name}.db", "process")

        one, _, two = request.param.partition(" to ")
        opened = made(one, "one"), made(two, "two")
        for store in opened:
            stack.push_async_callback(store.close)
        yield opened


def desk() -> Workflow:
    @tool
    async def look_up(name: str) -> list[object]:
        """Look somebody up."""
        return [f"{name} is known", file(f"record of {name}".encode(), "record.txt", "text/plain")]

    def reply(seen: object) -> object:
        last = seen.messages[-1]  # type: ignore[attr-defined]
        return call("look_up", name=last.text) if last.role == "user" and len(last.text) < 20 else f"Done with {last.text[:10]}."

    return HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply), tools=[look_up])]).build()


async def talk(store: Store, id: str, *words: str) -> None:
    for each in words:
        await desk().session(id, store=store).run(each)


async def assert_equal_sessions(one: Store, two: Store, *names: str) -> None:
    """Assert that both stores have these sessions with the same facts, contents and ids."""
    for name in names:
        facts = list(await one.read(name))
        assert list(await two.read(name)) == facts, name
        assert facts
        assert await two.ledger_id(name) == await one.ledger_id(name)
        for digest in set().union(*map(find_content_digests, facts)):
            assert await two.content(name, digest) == await one.content(name, digest)


async def test_copied_sessions_are_equal_and_continue(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann", "Bob")
    await talk(source, "t", "Eve")
    report = await copy(source, target)
    assert (report.sessions, report.new, report.facts) == (2, 2, len(await source.read("s")) + len(await source.read("t")))
    await assert_equal_sessions(source, target, "s", "t")
    await talk(target, "s", "Ida")  # with tools: a lease of the target is newer than the epochs of the facts
    assert isinstance((await target.read("s"))[-2], CallReturned)
    assert len([fact for fact in await target.read("s") if isinstance(fact, CallStarted)]) == 3


async def test_copied_session_can_be_driven(stores: tuple[Store, Store]) -> None:
    """The copied facts name epochs above that of the copy's own lease."""
    source, target = stores
    await talk(source, "s", "ann", "bob", "cyd")
    await copy(source, target)
    lease = await target.lease("s")
    assert lease is not None
    await target.release(lease)


async def test_second_copy_adds_only_new_facts(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    await copy(source, target)
    before = len(await source.read("s"))
    assert (await copy(source, target)).facts == 0
    await talk(source, "s", "Bob")
    await talk(source, "t", "Eve")
    report = await copy(source, target)
    assert (report.new, report.grown, report.facts) == (1, 1, len(await source.read("s")) - before + len(await source.read("t")))
    await assert_equal_sessions(source, target, "s", "t")


async def test_forks_share_facts_in_the_target(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann", "Bob")
    trunk = await desk().session("s", store=source).refresh()
    await trunk.fork(6, "a")
    await talk(source, "a", "Eve")
    await (await desk().session("a", store=source).refresh()).fork(id="b")
    await talk(source, "s", "Ida")  # so that the newest is not the first
    await copy(source, target)
    await assert_equal_sessions(source, target, "s", "a", "b")
    assert {info.ledger: info.parent for info in await target.list()} == {"s": "", "a": "s", "b": "a"}
    # Shared facts are erased in all sessions.
    report = await desk().session("b", store=target).redact(1)
    assert report.forks == ("a", "s")


async def test_forks_of_deleted_session_share_common_facts(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    trunk = await desk().session("s", store=source).refresh()
    for name in "ab":
        await trunk.fork(id=name)
        await talk(source, name, f"I am {name}")
    await source.delete("s")
    await copy(source, target)
    await assert_equal_sessions(source, target, "a", "b")
    assert (await desk().session("a", store=target).redact(1)).forks == ("b",)


async def redact_and_list_forks(store: Store, name: str) -> set[str]:
    """Redact a message of a session. Return the other sessions that lose it."""
    return set((await desk().session(name, store=store).redact(1)).forks)


async def load(store: Store, source_id: str, id: str, *, move: bool = False) -> None:
    text = await (await desk().session(source_id, store=store).refresh()).to_string()
    await desk().load(text, id=id, store=store, move=move).run(f"I am {id}")


async def fork(store: Store, source_id: str, id: str, at: int | None = None) -> None:
    await (await desk().session(source_id, store=store).refresh()).fork(at, id)


FORK_TREES = [{"a", "fork of a"}, {"b", "fork of b", "early fork of b"}, {"c"}, {"moved"}, {"copy of fork", "fork of copy of fork"}]


@pytest.mark.parametrize("deleted", ["", "a", "b", "fork of a", "copy of fork"])
async def test_session_copies_stay_separate_fork_trees(stores: tuple[Store, Store], deleted: str) -> None:
    """A session that was loaded from a string shares no facts with the origin of the string, in the source and in the target."""
    source, target = stores
    await talk(source, "a", "Ann")
    await load(source, "a", "b")
    await load(source, "b", "c")
    await load(source, "a", "moved", move=True)
    await fork(source, "a", "fork of a")
    await fork(source, "b", "fork of b")
    await fork(source, "b", "early fork of b", 3)
    await load(source, "fork of a", "copy of fork")
    await fork(source, "copy of fork", "fork of copy of fork")
    if deleted:
        await source.delete(deleted)
    await copy(source, target)
    for store in stores:
        for tree in ({*tree} - {deleted} for tree in FORK_TREES):
            for name in sorted(tree)[:1]:
                assert await redact_and_list_forks(store, name) == tree - {name}, store


async def test_fork_shares_nothing_with_replaced_parent(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "a", "Ann")
    text = await (await desk().session("a", store=source).refresh()).to_string()
    await fork(source, "a", "f")
    await desk().load(text, id="a", store=target).run("somebody else's")
    with pytest.raises(LedgerExists, match="another session 'a'"):
        await copy(source, target)
    assert await redact_and_list_forks(target, "f") == set()


async def test_only_named_sessions_are_copied(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    await talk(source, "t", "Eve")
    await copy(source, target, sessions=["t"])
    assert [info.ledger for info in await target.list()] == ["t"]
    with pytest.raises(UnknownLedger, match="no session 'u'"):
        await copy(source, target, sessions=["s", "u"])


async def test_diverged_session_is_skipped_and_named(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    await copy(source, target)
    await talk(source, "s", "Bob")
    await talk(target, "s", "Bea")
    await talk(target, "u", "somebody else altogether")
    for name in "tu":
        await talk(source, name, "Eve")
    before = [list(await target.read(name)) for name in "su"]
    with pytest.raises(LedgerExists, match=r"another session 's'(?s:.*)2 of 3 sessions differ: s, u(?s:.*)workflow.load"):
        await copy(source, target)
    assert [list(await target.read(name)) for name in "su"] == before
    await assert_equal_sessions(source, target, "t")


async def test_target_ahead_of_source_is_unchanged(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    await copy(source, target)
    await talk(target, "s", "Bob")
    await desk().session("s", store=target).redact(1)
    before = list(await target.read("s"))
    assert (await copy(source, target)).facts == 0
    assert list(await target.read("s")) == before


async def test_target_with_more_redactions_is_unchanged(stores: tuple[Store, Store]) -> None:
    """A reply lost its reasoning with the message before it, and then its text, but only in the target."""
    source, target = stores

    class Thinking(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
            return ModelReply(items=(Reasoning("hm", "sealed"), OutputText("It is blue.")))

    workflow = HandoffBuilder("desk", [Agent("triage", model=Thinking([]))]).build()
    session = workflow.session("s", store=source)
    await session.run("Which colour?")
    await session.redact(1)
    await copy(source, target)
    await workflow.session("s", store=target).redact(2)
    redacted_facts = await target.read("s")
    assert (await copy(source, target)).facts == 0
    assert await target.read("s") == redacted_facts
    assert "blue" not in str(redacted_facts)


async def test_later_redaction_is_repeated_in_target(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Anneliese", "Bob")
    await (await desk().session("s", store=source).refresh()).fork(id="f")
    await copy(source, target)
    old = list(await target.read("s"))
    digests = find_content_digests(next(fact for fact in old if isinstance(fact, CallReturned)))
    await talk(source, "s", "after that")
    session = await desk().session("s", store=source).refresh()
    first = next(position for position, fact in enumerate(session.facts) if isinstance(fact, CallReturned))
    quoted = (await session.redact(1, 2, first)).quoting
    await session.redact(*quoted)
    await talk(source, "s", "and more")
    report = await copy(source, target)
    assert report.redacted
    await assert_equal_sessions(source, target, "s", "f")
    assert "Anneliese" not in str(await target.read("s")) + str(await target.read("f"))
    for digest in digests:
        with pytest.raises(Exception, match="no content"):
            await target.content("s", digest)
    assert (await target.read("s"))[1].content == REDACTED_TEXT
    assert sum(isinstance(fact, Redacted) for fact in await target.read("s")) == 2
    await talk(target, "s", "it goes on")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_copy_is_completed_by_next_run(when: str) -> None:
    """The copy is killed at every operation in turn; the next run copies the rest, and nothing twice."""
    source = MemoryStore()
    await talk(source, "s", "Ann", "Bob")
    await (await desk().session("s", store=source).refresh()).fork(id="f")
    await talk(source, "f", "Eve")
    for erase in (False, True):
        if erase:
            await desk().session("s", store=source).redact(1)
        at = 0
        while True:
            at += 1
            target = MemoryStore()
            dying = FailingStore(target, [Fault(at, when, Died)], only=["append", "fork", "redact"])  # type: ignore[arg-type]
            try:
                await copy(source, dying)
            except Died:
                for info in await target.list():  # every session in the target is complete
                    assert await target.read(info.ledger) == await source.read(info.ledger)
                await copy(source, target)
                await assert_equal_sessions(source, target, "s", "f")
                continue
            break
        assert at >= 3


async def test_repeated_redaction_is_recorded_in_sessions_without_source(stores: tuple[Store, Store]) -> None:
    """An archived session shares its text with a fork. The fork loses the text after the session was deleted in the source."""
    source, archive = stores
    await talk(source, "s", "Ada's secret", "and more")
    fork = await desk().session("s", store=source).fork(at=4, id="f")
    await fork.run("go on")
    await copy(source, archive)
    await source.delete("s")
    await fork.redact(1)
    assert (await copy(source, archive)).redacted == 1
    facts = await archive.read("s")
    assert "Ada" not in str([fact for fact in facts if isinstance(fact, MessageReceived)])
    assert [fact.positions for fact in facts if isinstance(fact, Redacted)] == [(1,)]
    assert (await desk().session("s", store=archive).run("hello")).status == "waiting"
    assert [type(fact) for fact in await archive.read("f")] == [type(fact) for fact in await source.read("f")]
    assert (await copy(source, archive)).redacted == 0


async def test_repeated_redaction_is_recorded_in_restored_forks(stores: tuple[Store, Store]) -> None:
    """The fork was in the archive when the session that it shares its text with was redacted."""
    source, archive = stores
    await talk(source, "s", "Ada's secret", "and more")
    await (await desk().session("s", store=source).fork(id="f")).run("go on")
    await copy(source, archive)
    await source.delete("f")
    await desk().session("s", store=source).redact(1)
    await copy(archive, source, sessions=["f"])
    await desk().session("f", store=source).run("and on")
    await copy(source, archive)
    facts = await archive.read("f")
    assert "Ada" not in str([fact for fact in facts if isinstance(fact, MessageReceived)])
    assert [fact.positions for fact in facts if isinstance(fact, Redacted)] == [(1,)]
    assert [fact.content for fact in facts if isinstance(fact, MessageReceived)][-1] == "and on"
    assert (await desk().session("f", store=archive).run("hello")).status == "waiting"


async def test_killed_redaction_copy_is_completed_later() -> None:
    for when in ("before", "after"):
        for at in (1, 2, 3):
            source, target = MemoryStore(), MemoryStore()
            await talk(source, "s", "Ann", "Bob")
            await (await desk().session("s", store=source).refresh()).fork(id="f")
            await copy(source, target)
            await desk().session("s", store=source).redact(1)
            dying = FailingStore(target, [Fault(at, when, Died)], only=["append", "redact"])  # type: ignore[arg-type]
            try:
                await copy(source, dying)
            except Died:
                await copy(source, target)
            await assert_equal_sessions(source, target, "s", "f")


async def test_session_replaced_in_source_is_another_one(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    await copy(source, target)
    await source.delete("s")
    await talk(source, "s", "Ann")
    with pytest.raises(LedgerExists, match="another session 's'"):
        await copy(source, target)


async def test_copy_ends_when_its_source_is_deleted() -> None:
    source, target = MemoryStore(), MemoryStore()
    await talk(source, "s", "ann")

    class Vanishing(MemoryStore):
        """A source whose session is deleted once its facts were read."""

        reads = 0

        async def content(self, ledger: str, digest: str) -> bytes:
            await source.delete("s")
            self.reads += 1
            assert self.reads < 10, "the copy does not end"
            return await source.content(ledger, digest)

    vanishing = Vanishing()
    for name in ("list", "ledger_id", "read", "children"):
        setattr(vanishing, name, getattr(source, name))
    assert (await copy(vanishing, target)).deleted == ("s",)
    assert await target.read("s") == []


async def test_parent_deleted_meanwhile_leaves_no_child() -> None:
    """The child session is written first. When its parent cannot follow, it is deleted in the target again."""
    source, child = MemoryStore(), make_child_session_id("s", f"{'0' * 32}:2.0")
    await talk(source, "s", "ann")
    await talk(source, child, "ann")

    class Target(MemoryStore):
        """A target during whose first append the session is deleted in the source."""

        async def append(self, *args: Any, **options: Any) -> int:
            await source.delete("s")
            return await super().append(*args, **options)

    target = Target()
    assert set((await copy(source, target)).deleted) == {"s", child}
    assert await target.list() == []


async def test_session_recreated_meanwhile_keeps_its_id() -> None:
    """The session was deleted after it was listed, and created again between two reads of the copy."""

    class Source(MemoryStore):
        """A source in which a deleted session is created again when its id is read for the first time."""

        deleted = False

        async def ledger_id(self, ledger: str) -> str:
            before = await super().ledger_id(ledger)
            if self.deleted:
                self.deleted = False
                await talk(self, "s", "bob")
            return before

    source, target = Source(), MemoryStore()
    await talk(source, "s", "ann")
    infos = await source.list()
    source.deleted = await source.delete("s")
    await module.SessionCopier(source, target).copy_tree(infos)
    await assert_equal_sessions(source, target, "s")


async def test_damaged_session_stops_no_other_copy(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "s.db") as source:
        for name in ("a", "b", "c"):
            await talk(source, name, "Ann")
    with closing(sqlite3.connect(tmp_path / "s.db")) as file, file:
        file.execute("UPDATE facts SET body = x'00' WHERE key = (SELECT max(key) FROM facts WHERE key >> 32 = 2)")
    async with SQLiteStore(tmp_path / "s.db") as source, MemoryStore() as target:
        with pytest.raises(DamagedStore, match="1 of 3 sessions are damaged and were not copied: 'b'"):
            await copy(source, target)
        await assert_equal_sessions(source, target, "a", "c")
        assert not await target.read("b")


async def test_progress_callback_gets_every_session() -> None:
    source, calls = MemoryStore(), []
    await talk(source, "s", "Ann")
    await talk(source, "t", "Eve")
    await copy(source, MemoryStore(), progress=lambda *arguments: calls.append(arguments))
    assert calls == [(0, 2, "s"), (1, 2, "t"), (2, 2, "")]


def test_fork_origins_are_sorted_first() -> None:
    from legato.stores import LedgerInfo

    infos = [LedgerInfo("c", 1, 9, "b"), LedgerInfo("a", 1, 8, ""), LedgerInfo("b", 1, 7, "a"), LedgerInfo("x", 1, 6, "gone")]
    assert [info.ledger for info in module.sort_origins_first(infos)] == ["x", "a", "b", "c"]
