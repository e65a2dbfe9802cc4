"""A session is deleted while a handle on it is open, and another is made under its id: the two conversations never mix."""

import asyncio
import multiprocessing

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.facts import MessageReceived, Opened
from legato.errors import LedgerExists, StoreError, UnknownLedger
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import FailingStore, Fault, ScriptedModel, call


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


def desk(paid=None):
    """Pays what it is told to, once somebody has approved it."""

    @tool(needs_approval=True)
    async def pay(order: str) -> str:
        (paid if paid is not None else []).append(order)
        return f"paid {order}"

    def reply(seen):
        return "done" if seen.messages[-1].role == "tool" else call("pay", order=seen.messages[-1].text)

    return HandoffBuilder("desk", [Agent("payer", model=ScriptedModel(reply), tools=[pay])]).build()


def talk():
    return HandoffBuilder("talk", [Agent("clerk", model=ScriptedModel(lambda seen: f"I heard {seen.messages[-1].text}"))]).build()


async def awaited(run):
    return await run


async def streamed(run):
    return [event async for event in run]


async def replace(store, how, workflow=None):
    """Delete session "s" and, unless that is all, make another of at least its length."""
    length = len(await store.read("s"))
    await store.delete("s")
    workflow = workflow or desk()
    if how != "deleted":
        session = workflow.session("s", store=store)
        await session.run("new")
        while how == "longer" and len(session.facts) <= length:
            for request in session.pending:
                await session.reject(request)
            await session.run("newer")
        assert how == "longer" or len(session.facts) == length


HOW = ["deleted", "the same length", "longer"]
DONE_TO_IT = {
    "send": lambda session, request: awaited(session.run("more")),
    "send and stream": lambda session, request: streamed(session.run("more", stream=True)),
    "send once": lambda session, request: awaited(session.run("old", key="k")),
    "resume": lambda session, request: awaited(session.resume()),
    "approve": lambda session, request: session.approve(request),
    "approve for good": lambda session, request: session.approve(request, always=True),
    "reject": lambda session, request: session.reject(request, "no"),
    "edit": lambda session, request: session.edit(request, {"order": "other"}),
    "answer": lambda session, request: session.answer(request, "paid by hand"),
    "revoke": lambda session, request: session.revoke("payer", "pay"),
    "cancel": lambda session, request: session.cancel("stop"),
    "refresh": lambda session, request: session.refresh(),
    "seen": lambda session, request: session.seen(),
    "fork": lambda session, request: session.fork(id="branch"),
    "to_string": lambda session, request: session.to_string(),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("does", DONE_TO_IT.values(), ids=DONE_TO_IT)
async def test_whatever_is_done_with_an_old_handle_is_told_and_changes_nothing_of_the_new_session(store, does, how):
    paid = []
    session = desk(paid).session("s", store=store)
    result = await session.run("old", key="k")
    (request,) = result.pending
    before = session.facts
    await replace(store, how)
    new = await store.read("s")
    for _ in range(2):  # and it stays so
        with pytest.raises(UnknownLedger, match="session 's' was deleted while this handle was open") as told:
            await does(session, request)
        assert "open the session anew" in told.value.do
        assert ("another made" in told.value.found) == (how != "deleted")
    assert await store.read("s") == new
    assert session.facts == before, "nothing of the new one was taken for its own"
    assert {info.ledger for info in await store.list()} == ({"s"} if new else set())
    anew = await desk(paid).session("s", store=store).refresh()
    if not new:
        assert anew.status == "new"
        await anew.run("new")
    (request,) = anew.pending
    await anew.approve(request)
    assert (await anew.resume()).text == "done"
    assert paid == ["newer" if how == "longer" else "new"]


@pytest.mark.parametrize("knows", ["it made the session", "it opened the session", "it forked the session", "it loaded the session"])
async def test_a_handle_knows_its_conversation_however_it_came_by_it(store, knows):
    first = talk().session("original" if knows in ("it forked the session", "it loaded the session") else "s", store=store)
    await first.run("old")
    match knows:
        case "it made the session":
            old = first
        case "it opened the session":
            old = await talk().session("s", store=store).refresh()
        case "it forked the session":
            old = await first.fork(id="s")
        case _:
            old = await talk().load(await first.to_string(), id="s", store=store).refresh()
    length = old.state.length
    await store.delete("s")
    new = talk().session("s", store=store)
    while len(await store.read("s")) < length:
        await new.run("new")
    facts = new.facts
    with pytest.raises(UnknownLedger, match="was deleted"):
        await old.run("more")
    assert await store.read("s") == facts
    assert (await new.run("hello")).text == "I heard hello"


class Meanwhile:
    """A store in which something happens, once, right before or after this process asks for something."""

    def __init__(self, store, operation, happens, when="before"):
        self._store, self._operation, self._happens, self._when = store, operation, happens, when
        self.armed = False

    def __getattr__(self, name):
        found = getattr(self._store, name)
        return found if name != self._operation else self._disturbed(found)

    def _disturbed(self, found):
        async def disturbed(*given, **more):
            happens, self.armed = self.armed, False
            if happens and self._when == "before":
                await self._happens()
            result = await found(*given, **more)
            if happens and self._when == "after":
                await self._happens()
            return result

        return disturbed


AT_THE_LAST_MOMENT = {
    "send": ("append", lambda session, request: awaited(session.run("more"))),
    "send and stream": ("append", lambda session, request: streamed(session.run("more", stream=True))),
    "approve": ("append", lambda session, request: session.approve(request)),
    "reject": ("append", lambda session, request: session.reject(request)),
    "cancel": ("append", lambda session, request: session.cancel()),
    "fork": ("fork", lambda session, request: session.fork(id="branch")),
    "fork earlier": ("fork", lambda session, request: session.fork(at=2, id="branch")),
    "resume": ("lease", lambda session, request: awaited(session.resume())),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("operation", "does"), AT_THE_LAST_MOMENT.values(), ids=AT_THE_LAST_MOMENT)
async def test_a_session_that_is_replaced_after_the_handle_looked_is_told_all_the_same(store, operation, does, how):
    meanwhile = Meanwhile(store, operation, lambda: replace(store, how))
    session = desk().session("s", store=meanwhile)
    (request,) = (await session.run("old")).pending
    before = session.facts
    meanwhile.armed = True
    with pytest.raises(UnknownLedger, match="was deleted"):
        await does(session, request)
    assert not meanwhile.armed
    assert session.facts == before
    facts = await store.read("s")
    assert len([fact for fact in facts if isinstance(fact, Opened)]) == (how != "deleted")
    assert not [fact for fact in facts if isinstance(fact, MessageReceived) and fact.content in ("old", "more")]
    assert await store.read("branch") == []


async def test_a_handle_that_finds_its_session_replaced_while_it_reads_it_first_has_the_new_one_whole(store):
    await desk().session("s", store=store).run("old")
    meanwhile = Meanwhile(store, "born", lambda: replace(store, "the same length"), "after")
    meanwhile.armed = True
    session = await desk().session("s", store=meanwhile).refresh()
    assert [message.text for message in session.messages if message.role == "user"] == ["new"]
    assert session.facts == await store.read("s")
    await session.approve(session.pending[0])
    await replace(store, "longer")
    with pytest.raises(UnknownLedger):
        await session.refresh()


async def test_a_handle_that_looked_just_before_its_session_was_made_knows_it_too(store):
    meanwhile = Meanwhile(store, "born", lambda: awaited(talk().session("s", store=store).run("theirs")), "after")
    meanwhile.armed = True
    session = await talk().session("s", store=meanwhile).refresh()
    assert [message.text for message in session.messages] == ["theirs", "I heard theirs"]
    await replace(store, "the same length", talk())
    with pytest.raises(UnknownLedger):
        await session.run("more")


async def test_two_who_make_a_session_at_once_are_in_the_same_one(store):
    meanwhile = Meanwhile(store, "append", lambda: awaited(talk().session("s", store=store).run("theirs")))
    meanwhile.armed = True
    session = talk().session("s", store=meanwhile)
    await session.run("mine")
    assert [message.text for message in session.messages] == ["theirs", "I heard theirs", "mine", "I heard mine"]
    assert await store.born("s") == session.facts[0].ledger
    await replace(store, "longer", talk())
    with pytest.raises(UnknownLedger):
        await session.run("more")


async def test_a_handle_that_was_told_wrongly_that_its_first_message_failed_knows_the_session_it_made(store):
    session = talk().session("s", store=FailingStore(store, [Fault(1, "after")], only=["append"]))
    with pytest.raises(StoreError, match="a fault was planned"):
        await session.run("hello", key="k")
    assert (await session.run("hello", key="k")).text == "I heard hello"
    assert await store.born("s") == session.facts[0].ledger
    await replace(store, "the same length", talk())
    with pytest.raises(UnknownLedger):
        await session.run("more")


async def test_a_session_that_others_made_without_a_birth_name_works_and_its_deletion_is_noticed(store):
    await store.append("s", 0, [Opened(at=1, ledger="l", workflow="talk")])
    session = talk().session("s", store=store)
    assert (await session.run("hello")).text == "I heard hello"
    assert await store.born("s") == ""
    await store.delete("s")
    with pytest.raises(UnknownLedger, match="was deleted"):
        await session.run("more")
    assert await store.read("s") == []


@pytest.mark.parametrize("how", HOW)
async def test_a_later_copy_is_not_added_to_a_session_that_replaced_the_one_it_continues(store, how):
    first = talk().session("s", store=MemoryStore())
    await first.run("old")
    await store.append("s", 0, first.facts, born="an earlier copy")
    await first.run("more")
    later = await first.to_string()
    meanwhile = Meanwhile(store, "append", lambda: replace(store, how, talk()))
    meanwhile.armed = True
    copy = talk().load(later, store=meanwhile)
    with pytest.raises(UnknownLedger):
        await copy.refresh()
    facts = await store.read("s")
    assert not [fact for fact in facts if isinstance(fact, MessageReceived) and fact.content in ("old", "more")]
    if how == "deleted":  # then there is room for it
        await copy.refresh()
        assert [message.text for message in copy.messages] == ["old", "I heard old", "more", "I heard more"]
    else:
        with pytest.raises(LedgerExists):
            await copy.refresh()
        assert await store.read("s") == facts


# -- in the middle of a drive ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("how", HOW)
async def test_a_tool_that_runs_when_its_session_is_replaced_leaves_nothing_in_the_new_one(store, how, stream):
    running, go = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        running.set()
        await go.wait()
        return "worked"

    busy = HandoffBuilder("w", [Agent("a", model=ScriptedModel(lambda seen: call("work") if seen.turn == 0 else "done"), tools=[work])])
    session = busy.build().session("s", store=store)
    driving = asyncio.ensure_future((streamed if stream else awaited)(session.run("old", stream=stream)))
    await running.wait()
    other = HandoffBuilder("w", [Agent("a", model=ScriptedModel(lambda seen: "new"))]).build()
    length = len(await store.read("s"))
    await store.delete("s")
    while how != "deleted" and len(await store.read("s")) < length + (how == "longer"):
        await other.session("s", store=store).run("another")
    facts = await store.read("s")
    if how != "longer":  # a longer one is noticed while the tool still runs
        go.set()
    with pytest.raises(UnknownLedger, match="was deleted"):
        await asyncio.wait_for(driving, 60)
    go.set()
    await asyncio.sleep(0.05)
    assert await store.read("s") == facts
    anew = other.session("s", store=store)
    assert (await anew.run("hello")).text == "new"


@pytest.mark.parametrize("how", HOW)
async def test_a_reply_to_a_session_that_was_replaced_starts_no_tool_and_is_not_said_in_the_new_one(store, how):
    thinking, go, done = asyncio.Event(), asyncio.Event(), []

    @tool
    async def pay() -> str:
        done.append("paid")
        return "paid"

    async def reply(seen):
        thinking.set()
        await go.wait()
        return call("pay")

    session = HandoffBuilder("talk", [Agent("clerk", model=ScriptedModel(reply), tools=[pay])]).build().session("s", store=store)
    driving = asyncio.ensure_future(awaited(session.run("old")))
    await thinking.wait()
    await store.delete("s")
    if how != "deleted":
        await store.append("s", 0, [Opened(at=1, ledger="l", workflow="talk"), MessageReceived(at=2, content="new")], born="l")
    if how == "longer":
        await talk().session("s", store=store).run("newer")
    facts = await store.read("s")
    go.set()
    with pytest.raises(UnknownLedger, match="was deleted"):
        await asyncio.wait_for(driving, 60)
    assert await store.read("s") == facts
    assert done == []
    anew = talk().session("s", store=store)
    assert (await anew.run("hello")).text == "I heard hello"


# -- two processes -----------------------------------------------------------------------------------------------------------


def elsewhere(database, pipe):
    """Another process with a handle on the session: opens it, waits, and then tries everything."""

    async def main():
        async with SQLiteStore(database) as store:
            session = await desk().session("s", store=store).refresh()
            (request,) = session.pending
            pipe.send("open")
            pipe.recv()
            told = {}
            for name, does in DONE_TO_IT.items():
                try:
                    await does(session, request)
                    told[name] = "done"
                except UnknownLedger as error:
                    told[name] = error.summary
            pipe.send(told)

    asyncio.run(main())


@pytest.mark.parametrize("how", HOW)
async def test_a_handle_in_another_process_is_told_too(tmp_path, how):
    database = tmp_path / "s.db"
    processes = multiprocessing.get_context("spawn")
    async with SQLiteStore(database) as store:
        await desk().session("s", store=store).run("old")
        ours, theirs = processes.Pipe()
        other = processes.Process(target=elsewhere, args=(database, theirs), daemon=True)
        other.start()
        try:
            assert await asyncio.to_thread(ours.recv) == "open"
            await replace(store, how)
            facts = await store.read("s")
            ours.send("go")
            told = await asyncio.to_thread(ours.recv)
        finally:
            other.kill()
            other.join()
        assert told == dict.fromkeys(DONE_TO_IT, "session 's' was deleted while this handle was open")
        assert await store.read("s") == facts
        assert await store.read("branch") == []
        anew = await desk().session("s", store=store).refresh()
        if facts:
            await anew.approve(anew.pending[0])
            assert (await anew.resume()).text == "done"
