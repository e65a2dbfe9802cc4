"""Copying sessions between stores: each fact once, whatever interrupts it; and what has to be told."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, file, tool
from legato.core.child_session_ids import child_session_id
from legato.core.facts import CallReturned, CallStarted, Reasoning, Redacted, Words
from legato.core.messages import contents_of
from legato.core.messages_to_model import ERASED
from legato.core.view import Request
from legato.errors import DamagedStore, LedgerExists, UnknownLedger
from legato.models.base import Emit, Reply
from legato.stores import MemoryStore, PostgresStore, SQLiteStore, Store, copy
from legato.stores import copying as module
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


async def same(one: Store, two: Store, *names: str) -> None:
    """These sessions are in both stores: the same facts, contents and birth names."""
    for name in names:
        facts = list(await one.read(name))
        assert list(await two.read(name)) == facts, name
        assert facts
        assert await two.born(name) == await one.born(name)
        for digest in set().union(*map(contents_of, facts)):
            assert await two.content(name, digest) == await one.content(name, digest)


async def test_sessions_arrive_as_they_are_and_go_on(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann", "Bob")
    await talk(source, "t", "Eve")
    done = await copy(source, target)
    assert (done.sessions, done.new, done.facts) == (2, 2, len(await source.read("s")) + len(await source.read("t")))
    await same(source, target, "s", "t")
    await talk(target, "s", "Ida")  # with tools: a lease there is newer than what the facts name
    assert isinstance((await target.read("s"))[-2], CallReturned)
    assert len([fact for fact in await target.read("s") if isinstance(fact, CallStarted)]) == 3


async def test_copied_session_can_be_driven(stores: tuple[Store, Store]) -> None:
    """The facts that a copy brings name epochs above the lease that it holds meanwhile."""
    source, target = stores
    await talk(source, "s", "ann", "bob", "cyd")
    await copy(source, target)
    lease = await target.lease("s")
    assert lease is not None
    await target.release(lease)


async def test_a_second_copy_brings_what_is_new_and_nothing_else(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    await copy(source, target)
    before = len(await source.read("s"))
    assert (await copy(source, target)).facts == 0
    await talk(source, "s", "Bob")
    await talk(source, "t", "Eve")
    done = await copy(source, target)
    assert (done.new, done.grown, done.facts) == (1, 1, len(await source.read("s")) - before + len(await source.read("t")))
    await same(source, target, "s", "t")


async def test_forks_share_in_the_target_too(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann", "Bob")
    trunk = await desk().session("s", store=source).refresh()
    await trunk.fork(6, "a")
    await talk(source, "a", "Eve")
    await (await desk().session("a", store=source).refresh()).fork(id="b")
    await talk(source, "s", "Ida")  # so that the newest is not the first
    await copy(source, target)
    await same(source, target, "s", "a", "b")
    assert {info.ledger: info.parent for info in await target.list()} == {"s": "", "a": "s", "b": "a"}
    # What is erased in one is erased in all: they share it.
    done = await desk().session("b", store=target).redact(1)
    assert done.forks == ("a", "s")


async def test_forks_of_what_was_deleted_share_what_they_have_in_common(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    trunk = await desk().session("s", store=source).refresh()
    for name in "ab":
        await trunk.fork(id=name)
        await talk(source, name, f"I am {name}")
    await source.delete("s")
    await copy(source, target)
    await same(source, target, "a", "b")
    assert (await desk().session("a", store=target).redact(1)).forks == ("b",)


async def forks_erased_with(store: Store, name: str) -> set[str]:
    """The sessions that lose a word when it is erased in this one."""
    return set((await desk().session(name, store=store).redact(1)).forks)


async def load(store: Store, of: str, id: str, *, move: bool = False) -> None:
    text = await (await desk().session(of, store=store).refresh()).to_string()
    await desk().load(text, id=id, store=store, move=move).run(f"I am {id}")


async def fork(store: Store, of: str, id: str, at: int | None = None) -> None:
    await (await desk().session(of, store=store).refresh()).fork(at, id)


FAMILIES = [{"a", "fork of a"}, {"b", "fork of b", "early fork of b"}, {"c"}, {"moved"}, {"copy of fork", "fork of copy of fork"}]


@pytest.mark.parametrize("deleted", ["", "a", "b", "fork of a", "copy of fork"])
async def test_copies_stay_families_of_their_own(stores: tuple[Store, Store], deleted: str) -> None:
    """What was loaded from a string shares nothing with what the string came from, in the source and in the target."""
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
        for family in ({*family} - {deleted} for family in FAMILIES):
            for name in sorted(family)[:1]:
                assert await forks_erased_with(store, name) == family - {name}, store


async def test_fork_shares_nothing_with_another_session_of_its_parents_name(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "a", "Ann")
    text = await (await desk().session("a", store=source).refresh()).to_string()
    await fork(source, "a", "f")
    await desk().load(text, id="a", store=target).run("somebody else's")
    with pytest.raises(LedgerExists, match="another session 'a'"):
        await copy(source, target)
    assert await forks_erased_with(target, "f") == set()


async def test_only_the_sessions_that_are_named_are_copied(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    await talk(source, "t", "Eve")
    await copy(source, target, sessions=["t"])
    assert [info.ledger for info in await target.list()] == ["t"]
    with pytest.raises(UnknownLedger, match="no session 'u'"):
        await copy(source, target, sessions=["s", "u"])


async def test_a_session_that_went_another_way_is_named_left_alone_and_costs_no_other_its_copy(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    await copy(source, target)
    await talk(source, "s", "Bob")
    await talk(target, "s", "Bea")
    await talk(target, "u", "somebody else altogether")
    for name in "tu":
        await talk(source, name, "Eve")
    kept = [list(await target.read(name)) for name in "su"]
    with pytest.raises(LedgerExists, match=r"another session 's'(?s:.*)2 of 3 sessions differ: s, u(?s:.*)workflow.load"):
        await copy(source, target)
    assert [list(await target.read(name)) for name in "su"] == kept
    await same(source, target, "t")


async def test_a_target_that_is_ahead_is_left_as_it_is(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Ann")
    await copy(source, target)
    await talk(target, "s", "Bob")
    await desk().session("s", store=target).redact(1)
    kept = list(await target.read("s"))
    assert (await copy(source, target)).facts == 0
    assert list(await target.read("s")) == kept


async def test_target_that_erased_more_is_left_alone(stores: tuple[Store, Store]) -> None:
    """A reply lost its thoughts with the message before it, and then its words, but only in the target."""
    source, target = stores

    class Thinking(ScriptedModel):
        async def reply(self, request: Request, emit: Emit) -> Reply:
            return Reply(items=(Reasoning("hm", "sealed"), Words("It is blue.")))

    workflow = HandoffBuilder("desk", [Agent("triage", model=Thinking([]))]).build()
    session = workflow.session("s", store=source)
    await session.run("Which colour?")
    await session.redact(1)
    await copy(source, target)
    await workflow.session("s", store=target).redact(2)
    erased = await target.read("s")
    assert (await copy(source, target)).facts == 0
    assert await target.read("s") == erased
    assert "blue" not in str(erased)


async def test_what_was_erased_since_is_erased_in_the_target_too(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await talk(source, "s", "Anneliese", "Bob")
    await (await desk().session("s", store=source).refresh()).fork(id="f")
    await copy(source, target)
    old = list(await target.read("s"))
    digests = contents_of(next(fact for fact in old if isinstance(fact, CallReturned)))
    await talk(source, "s", "after that")
    session = await desk().session("s", store=source).refresh()
    first = next(position for position, fact in enumerate(session.facts) if isinstance(fact, CallReturned))
    quoted = (await session.redact(1, 2, first)).quoted
    await session.redact(*quoted)
    await talk(source, "s", "and more")
    done = await copy(source, target)
    assert done.erased
    await same(source, target, "s", "f")
    assert "Anneliese" not in str(await target.read("s")) + str(await target.read("f"))
    for digest in digests:
        with pytest.raises(Exception, match="no content"):
            await target.content("s", digest)
    assert (await target.read("s"))[1].content == ERASED
    assert sum(isinstance(fact, Redacted) for fact in await target.read("s")) == 2
    await talk(target, "s", "it goes on")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_every_operation_the_next_run_brings_the_rest_and_nothing_twice(when: str) -> None:
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
                for info in await target.list():  # what is there is whole, so nobody can go on without what was decided in it
                    assert await target.read(info.ledger) == await source.read(info.ledger)
                await copy(source, target)
                await same(source, target, "s", "f")
                continue
            break
        assert at >= 3


async def test_killed_while_an_erasure_is_brought_the_next_run_finishes_it() -> None:
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
            await same(source, target, "s", "f")


async def test_a_session_that_is_replaced_in_the_source_is_another_one(stores: tuple[Store, Store]) -> None:
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
            assert self.reads < 10, "it is asked for again and again"
            return await source.content(ledger, digest)

    vanishing = Vanishing()
    for name in ("list", "born", "read", "children"):
        setattr(vanishing, name, getattr(source, name))
    assert (await copy(vanishing, target)).gone == ("s",)
    assert await target.read("s") == []


async def test_parent_deleted_meanwhile_leaves_no_child() -> None:
    """The child session is written first. When its parent cannot follow, it is deleted in the target again."""
    source, child = MemoryStore(), child_session_id("s", f"{'0' * 32}:2.0")
    await talk(source, "s", "ann")
    await talk(source, child, "ann")

    class Target(MemoryStore):
        """A target during whose first append the session is deleted in the source."""

        async def append(self, *args: Any, **options: Any) -> int:
            await source.delete("s")
            return await super().append(*args, **options)

    target = Target()
    assert set((await copy(source, target)).gone) == {"s", child}
    assert await target.list() == []


async def test_session_begun_anew_meanwhile_keeps_its_birth_name() -> None:
    """It was deleted after it was listed, and begun anew between two reads of the copy."""

    class Source(MemoryStore):
        """A source in which a deleted session is begun anew when it is looked up for the first time."""

        deleted = False

        async def born(self, ledger: str) -> str:
            before = await super().born(ledger)
            if self.deleted:
                self.deleted = False
                await talk(self, "s", "bob")
            return before

    source, target = Source(), MemoryStore()
    await talk(source, "s", "ann")
    infos = await source.list()
    source.deleted = await source.delete("s")
    await module.Copier(source, target).bring(infos)
    await same(source, target, "s")


async def test_damaged_session_costs_no_other_its_copy(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "s.db") as source:
        for name in ("a", "b", "c"):
            await talk(source, name, "Ann")
    with closing(sqlite3.connect(tmp_path / "s.db")) as file, file:
        file.execute("UPDATE facts SET body = x'00' WHERE key = (SELECT max(key) FROM facts WHERE key >> 32 = 2)")
    async with SQLiteStore(tmp_path / "s.db") as source, MemoryStore() as target:
        with pytest.raises(DamagedStore, match="1 of 3 sessions are damaged and were not copied: 'b'"):
            await copy(source, target)
        await same(source, target, "a", "c")
        assert not await target.read("b")


async def test_progress_is_told() -> None:
    source, told = MemoryStore(), []
    await talk(source, "s", "Ann")
    await talk(source, "t", "Eve")
    await copy(source, MemoryStore(), progress=lambda *now: told.append(now))
    assert told == [(0, 2, "s"), (1, 2, "t"), (2, 2, "")]


def test_the_order_is_parents_first_whatever_the_order_of_the_list() -> None:
    from legato.stores import LedgerInfo

    infos = [LedgerInfo("c", 1, 9, "b"), LedgerInfo("a", 1, 8, ""), LedgerInfo("b", 1, 7, "a"), LedgerInfo("x", 1, 6, "gone")]
    assert [info.ledger for info in module.in_order(infos)] == ["x", "a", "b", "c"]
