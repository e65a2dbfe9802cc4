"""Sessions that are deleted while a handle on them is open, and perhaps created again under their id: conversations never mix."""

import asyncio
import multiprocessing

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.facts import MessageReceived, Opened
from legato.errors import LedgerExists, StoreError, UnknownLedger
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import FailingStore, Fault, ScriptedModel, call
from tests.runtime.blocking import complete


def make_paying_workflow(paid=None):
    """Return a workflow that pays each order when a person has approved it, and notes that in `paid`."""

    @tool(needs_approval=True)
    async def pay(order: str) -> str:
        (paid if paid is not None else []).append(order)
        return f"paid {order}"

    def reply(request):
        return "done" if request.messages[-1].role == "tool" else call("pay", order=request.messages[-1].text)

    return HandoffBuilder("desk", [Agent("payer", model=ScriptedModel(reply), tools=[pay])]).build()


def make_chat_workflow():
    return HandoffBuilder("talk", [Agent("clerk", model=ScriptedModel(lambda request: f"I heard {request.messages[-1].text}"))]).build()


async def stream_events(run):
    return [event async for event in run]


async def replace_session(store, replacement, workflow=None):
    """Delete session "s", and create it again with the same length or a greater one, as `replacement` says."""
    length = len(await store.read("s"))
    await store.delete("s")
    workflow = workflow or make_paying_workflow()
    if replacement != "deleted":
        session = workflow.session("s", store=store)
        await session.run("new")
        while replacement == "longer" and len(session.facts) <= length:
            for request in session.pending:
                await session.reject(request)
            await session.run("newer")
        assert replacement == "longer" or len(session.facts) == length


REPLACEMENTS = ["deleted", "the same length", "longer"]
OPERATIONS = {
    "send": lambda session, request: complete(session.run("more")),
    "send and stream": lambda session, request: stream_events(session.run("more", stream=True)),
    "send once": lambda session, request: complete(session.run("old", key="k")),
    "resume": lambda session, request: complete(session.resume()),
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


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@pytest.mark.parametrize("operate", OPERATIONS.values(), ids=OPERATIONS)
async def test_stale_handle_raises_and_changes_nothing(store, operate, replacement):
    """Every operation on a handle whose session was deleted raises `UnknownLedger`, and a new session under the same id stays as it was."""
    paid = []
    session = make_paying_workflow(paid).session("s", store=store)
    result = await session.run("old", key="k")
    (request,) = result.pending
    before = session.facts
    await replace_session(store, replacement)
    new = await store.read("s")
    for _ in range(2):  # and it stays so
        with pytest.raises(UnknownLedger, match="session 's' was deleted while this handle was open") as raised:
            await operate(session, request)
        assert "open the session again" in raised.value.do
        assert ("another made" in raised.value.found) == (replacement != "deleted")
    assert await store.read("s") == new
    assert session.facts == before, "the handle has no facts of the new session"
    assert {info.ledger for info in await store.list()} == ({"s"} if new else set())
    reopened = await make_paying_workflow(paid).session("s", store=store).refresh()
    if not new:
        assert reopened.status == "new"
        await reopened.run("new")
    (request,) = reopened.pending
    await reopened.approve(request)
    assert (await reopened.resume()).text == "done"
    assert paid == ["newer" if replacement == "longer" else "new"]


@pytest.mark.parametrize("origin", ["created", "opened", "forked", "loaded"])
async def test_handle_recognises_its_deleted_session(store, origin):
    """A handle knows its ledger id whether it created, opened, forked or loaded the session."""
    first = make_chat_workflow().session("original" if origin in ("forked", "loaded") else "s", store=store)
    await first.run("old")
    match origin:
        case "created":
            old = first
        case "opened":
            old = await make_chat_workflow().session("s", store=store).refresh()
        case "forked":
            old = await first.fork(id="s")
        case _:
            old = await make_chat_workflow().load(await first.to_string(), id="s", store=store).refresh()
    length = old.state.length
    await store.delete("s")
    new = make_chat_workflow().session("s", store=store)
    while len(await store.read("s")) < length:
        await new.run("new")
    facts = new.facts
    with pytest.raises(UnknownLedger, match="was deleted"):
        await old.run("more")
    assert await store.read("s") == facts
    assert (await new.run("hello")).text == "I heard hello"


class DisturbedStore:
    """A store in which something else happens once, right before or after an operation."""

    def __init__(self, store, operation, happens, when="before"):
        self._store, self._operation, self._happens, self._when = store, operation, happens, when
        self.armed = False

    def __getattr__(self, name):
        method = getattr(self._store, name)
        return method if name != self._operation else self._with_disturbance(method)

    def _with_disturbance(self, method):
        async def call_disturbed(*args, **options):
            happens, self.armed = self.armed, False
            if happens and self._when == "before":
                await self._happens()
            result = await method(*args, **options)
            if happens and self._when == "after":
                await self._happens()
            return result

        return call_disturbed


WRITES = {
    "send": ("append", lambda session, request: complete(session.run("more"))),
    "send and stream": ("append", lambda session, request: stream_events(session.run("more", stream=True))),
    "approve": ("append", lambda session, request: session.approve(request)),
    "reject": ("append", lambda session, request: session.reject(request)),
    "cancel": ("append", lambda session, request: session.cancel()),
    "fork": ("fork", lambda session, request: session.fork(id="branch")),
    "fork earlier": ("fork", lambda session, request: session.fork(at=2, id="branch")),
    "resume": ("lease", lambda session, request: complete(session.resume())),
}


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@pytest.mark.parametrize(("operation", "operate"), WRITES.values(), ids=WRITES)
async def test_session_replaced_just_before_write_raises(store, operation, operate, replacement):
    """The session is replaced between the handle's last read and its write."""
    meanwhile = DisturbedStore(store, operation, lambda: replace_session(store, replacement))
    session = make_paying_workflow().session("s", store=meanwhile)
    (request,) = (await session.run("old")).pending
    before = session.facts
    meanwhile.armed = True
    with pytest.raises(UnknownLedger, match="was deleted"):
        await operate(session, request)
    assert not meanwhile.armed
    assert session.facts == before
    facts = await store.read("s")
    assert len([fact for fact in facts if isinstance(fact, Opened)]) == (replacement != "deleted")
    assert not [fact for fact in facts if isinstance(fact, MessageReceived) and fact.content in ("old", "more")]
    assert await store.read("branch") == []


async def test_session_replaced_during_first_read_is_read_completely(store):
    await make_paying_workflow().session("s", store=store).run("old")
    meanwhile = DisturbedStore(store, "ledger_id", lambda: replace_session(store, "the same length"), "after")
    meanwhile.armed = True
    session = await make_paying_workflow().session("s", store=meanwhile).refresh()
    assert [message.text for message in session.messages if message.role == "user"] == ["new"]
    assert session.facts == await store.read("s")
    await session.approve(session.pending[0])
    await replace_session(store, "longer")
    with pytest.raises(UnknownLedger):
        await session.refresh()


async def test_handle_knows_session_created_during_first_read(store):
    meanwhile = DisturbedStore(store, "ledger_id", lambda: complete(make_chat_workflow().session("s", store=store).run("theirs")), "after")
    meanwhile.armed = True
    session = await make_chat_workflow().session("s", store=meanwhile).refresh()
    assert [message.text for message in session.messages] == ["theirs", "I heard theirs"]
    await replace_session(store, "the same length", make_chat_workflow())
    with pytest.raises(UnknownLedger):
        await session.run("more")


async def test_concurrent_creators_share_one_session(store):
    meanwhile = DisturbedStore(store, "append", lambda: complete(make_chat_workflow().session("s", store=store).run("theirs")))
    meanwhile.armed = True
    session = make_chat_workflow().session("s", store=meanwhile)
    await session.run("mine")
    assert [message.text for message in session.messages] == ["theirs", "I heard theirs", "mine", "I heard mine"]
    assert await store.ledger_id("s") == session.facts[0].ledger_id
    await replace_session(store, "longer", make_chat_workflow())
    with pytest.raises(UnknownLedger):
        await session.run("more")


async def test_handle_knows_session_after_misreported_failure(store):
    """The store reports that the first append failed although it was written."""
    session = make_chat_workflow().session("s", store=FailingStore(store, [Fault(1, "after")], only=["append"]))
    with pytest.raises(StoreError, match="a fault was planned"):
        await session.run("hello", key="k")
    assert (await session.run("hello", key="k")).text == "I heard hello"
    assert await store.ledger_id("s") == session.facts[0].ledger_id
    await replace_session(store, "the same length", make_chat_workflow())
    with pytest.raises(UnknownLedger):
        await session.run("more")


async def test_session_without_ledger_id_works(store):
    """A session that was created without a ledger id works, and its deletion is noticed."""
    await store.append("s", 0, [Opened(at=1, ledger_id="l", workflow="talk")])
    session = make_chat_workflow().session("s", store=store)
    assert (await session.run("hello")).text == "I heard hello"
    assert await store.ledger_id("s") == ""
    await store.delete("s")
    with pytest.raises(UnknownLedger, match="was deleted"):
        await session.run("more")
    assert await store.read("s") == []


@pytest.mark.parametrize("replacement", REPLACEMENTS)
async def test_later_copy_is_not_added_to_replaced_session(store, replacement):
    first = make_chat_workflow().session("s", store=MemoryStore())
    await first.run("old")
    await store.append("s", 0, first.facts, ledger_id="an earlier copy")
    await first.run("more")
    later = await first.to_string()
    meanwhile = DisturbedStore(store, "append", lambda: replace_session(store, replacement, make_chat_workflow()))
    meanwhile.armed = True
    copy = make_chat_workflow().load(later, store=meanwhile)
    with pytest.raises(UnknownLedger):
        await copy.refresh()
    facts = await store.read("s")
    assert not [fact for fact in facts if isinstance(fact, MessageReceived) and fact.content in ("old", "more")]
    if replacement == "deleted":  # then the id is free
        await copy.refresh()
        assert [message.text for message in copy.messages] == ["old", "I heard old", "more", "I heard more"]
    else:
        with pytest.raises(LedgerExists):
            await copy.refresh()
        assert await store.read("s") == facts


# -- in the middle of a drive ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("replacement", REPLACEMENTS)
async def test_running_tool_writes_nothing_to_replaced_session(store, replacement, stream):
    running, go = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        running.set()
        await go.wait()
        return "worked"

    busy = HandoffBuilder(
        "w", [Agent("a", model=ScriptedModel(lambda request: call("work") if request.reply_count == 0 else "done"), tools=[work])]
    )
    session = busy.build().session("s", store=store)
    driving = asyncio.ensure_future((stream_events if stream else complete)(session.run("old", stream=stream)))
    await running.wait()
    other = HandoffBuilder("w", [Agent("a", model=ScriptedModel(lambda request: "new"))]).build()
    length = len(await store.read("s"))
    await store.delete("s")
    while replacement != "deleted" and len(await store.read("s")) < length + (replacement == "longer"):
        await other.session("s", store=store).run("another")
    facts = await store.read("s")
    if replacement != "longer":  # a longer ledger is noticed while the tool still runs
        go.set()
    with pytest.raises(UnknownLedger, match="was deleted"):
        await asyncio.wait_for(driving, 60)
    go.set()
    await asyncio.sleep(0.05)
    assert await store.read("s") == facts
    reopened = other.session("s", store=store)
    assert (await reopened.run("hello")).text == "new"


@pytest.mark.parametrize("replacement", REPLACEMENTS)
async def test_reply_is_not_recorded_in_replaced_session(store, replacement):
    """A reply to a request of the deleted session starts no tool, and is not recorded in the new session."""
    thinking, go, done = asyncio.Event(), asyncio.Event(), []

    @tool
    async def pay() -> str:
        done.append("paid")
        return "paid"

    async def reply(request):
        thinking.set()
        await go.wait()
        return call("pay")

    session = HandoffBuilder("talk", [Agent("clerk", model=ScriptedModel(reply), tools=[pay])]).build().session("s", store=store)
    driving = asyncio.ensure_future(complete(session.run("old")))
    await thinking.wait()
    await store.delete("s")
    if replacement != "deleted":
        await store.append("s", 0, [Opened(at=1, ledger_id="l", workflow="talk"), MessageReceived(at=2, content="new")], ledger_id="l")
    if replacement == "longer":
        await make_chat_workflow().session("s", store=store).run("newer")
    facts = await store.read("s")
    go.set()
    with pytest.raises(UnknownLedger, match="was deleted"):
        await asyncio.wait_for(driving, 60)
    assert await store.read("s") == facts
    assert done == []
    reopened = make_chat_workflow().session("s", store=store)
    assert (await reopened.run("hello")).text == "I heard hello"


@pytest.mark.parametrize("moment", ["before a message", "while a tool runs"])
async def test_run_on_deleted_session_raises(store, moment):
    """The session is deleted before the next message, or while a tool runs."""
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        begun.set()
        await go.wait()
        return "waited"

    model = ScriptedModel(lambda request: call("wait") if request.reply_count == 0 else "done")
    session = HandoffBuilder("w", [Agent("a", model=model, tools=[wait])]).build().session("s", store=store)
    driving = asyncio.ensure_future(complete(session.run("go")))
    if moment == "before a message":
        go.set()
        await driving
        await store.delete("s")
        with pytest.raises(UnknownLedger, match="was deleted"):
            await asyncio.wait_for(session.run("more")._complete(), 60)
        return
    await asyncio.wait_for(begun.wait(), 60)
    await store.delete("s")
    go.set()
    with pytest.raises(UnknownLedger, match="was deleted"):
        await asyncio.wait_for(driving, 60)


# -- two processes -----------------------------------------------------------------------------------------------------------


def try_all_in_process(database, pipe):
    """Open the session in another process, wait, and then try every operation."""

    async def main():
        async with SQLiteStore(database) as store:
            session = await make_paying_workflow().session("s", store=store).refresh()
            (request,) = session.pending
            pipe.send("open")
            pipe.recv()
            outcomes = {}
            for name, operate in OPERATIONS.items():
                try:
                    await operate(session, request)
                    outcomes[name] = "done"
                except UnknownLedger as error:
                    outcomes[name] = error.summary
            pipe.send(outcomes)

    asyncio.run(main())


@pytest.mark.parametrize("replacement", REPLACEMENTS)
async def test_stale_handle_in_other_process_raises(tmp_path, replacement):
    database = tmp_path / "s.db"
    processes = multiprocessing.get_context("spawn")
    async with SQLiteStore(database) as store:
        await make_paying_workflow().session("s", store=store).run("old")
        ours, theirs = processes.Pipe()
        other = processes.Process(target=try_all_in_process, args=(database, theirs), daemon=True)
        other.start()
        try:
            assert await asyncio.to_thread(ours.recv) == "open"
            await replace_session(store, replacement)
            facts = await store.read("s")
            ours.send("go")
            outcomes = await asyncio.to_thread(ours.recv)
        finally:
            other.kill()
            other.join()
        assert outcomes == dict.fromkeys(OPERATIONS, "session 's' was deleted while this handle was open")
        assert await store.read("s") == facts
        assert await store.read("branch") == []
        reopened = await make_paying_workflow().session("s", store=store).refresh()
        if facts:
            await reopened.approve(reopened.pending[0])
            assert (await reopened.resume()).text == "done"
