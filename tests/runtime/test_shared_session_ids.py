"""Conversations that share a session id, at once or one after another, are never mixed."""

import asyncio

import pytest

from legato import Agent, HandoffBuilder
from legato.core.facts import MessageReceived, Opened
from legato.errors import DefinitionChanged, LedgerExists, UnknownLedger
from legato.runtime.run import Result
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call
from tests.runtime.blocking import start


@pytest.fixture(params=["one store", "two stores on one file"])
async def stores(request, tmp_path):
    """Two clients of the same sessions: in one process, or (as if) in two processes."""
    if request.param == "one store":
        one = MemoryStore()
        yield one, one
    else:
        async with SQLiteStore(tmp_path / "s.db") as one, SQLiteStore(tmp_path / "s.db") as other:
            yield one, other


def make_workflow(name="talk"):
    model = ScriptedModel(lambda request: f"{name} heard {request.messages[-1].text}")
    return HandoffBuilder(name, [Agent(f"{name} clerk", model=model)]).build()


async def test_child_session_of_deleted_session_is_not_continued(stores):
    store, _ = stores
    poet = Agent("poet", model=ScriptedModel(lambda request: " | ".join(message.text for message in request.messages)))
    model = ScriptedModel(
        lambda request: call("ask_poet", task=request.messages[-1].text) if request.messages[-1].role == "user" else "done"
    )
    workflow = HandoffBuilder("w", [Agent("clerk", model=model, tools=[poet.as_tool()])]).build()
    first = workflow.session("customer", store=store)
    await first.run("the secret of the first")
    await store.delete("customer")
    second = workflow.session("customer", store=store)
    await second.run("hello from the second")
    assert (await second.seen()).messages[-1].text == "hello from the second"
    assert [info.ledger for info in await store.list() if info.ledger != "customer"] == [f"customer/{second.state.ledger_id}:2.0"]


async def test_session_belongs_to_one_of_two_workflows(stores):
    """Two workflows create one session at once: one of them is refused, and its message is not recorded."""
    sessions = [
        await make_workflow(name).session("s", store=store).refresh() for name, store in zip(("sales", "legal"), stores, strict=True)
    ]
    outcomes = await asyncio.gather(*(start(session.run(f"for {session.workflow.name}")) for session in sessions), return_exceptions=True)
    (result,) = [each for each in outcomes if isinstance(each, Result)]
    (error,) = [each for each in outcomes if isinstance(each, DefinitionChanged)]
    winner, loser = result.session.workflow.name, "legal" if result.session.workflow.name == "sales" else "sales"
    assert f"belongs to workflow {winner!r}, not to {loser!r}" in str(error)
    facts = await stores[0].read("s")
    assert [fact.workflow for fact in facts if isinstance(fact, Opened)] == [winner]
    assert [fact.content for fact in facts if isinstance(fact, MessageReceived)] == [f"for {winner}"]
    assert [info.ledger for info in await stores[0].list()] == ["s"]
    for session in sessions:
        if session.workflow.name == loser:
            with pytest.raises(DefinitionChanged):
                await session.run("once more")
    assert len(await stores[0].read("s")) == len(facts)


async def test_concurrent_loads_make_one_copy(stores):
    workflow = make_workflow()
    session = workflow.session("s")
    await session.run("Hi")
    text = await session.to_string()
    copies = [workflow.load(text, store=store) for store in stores for _ in range(2)]
    await asyncio.gather(*(copy.refresh() for copy in copies))
    (facts,) = {tuple((await copy.refresh()).facts) for copy in copies}
    assert facts[:-1] == tuple(session.facts)
    assert isinstance(facts[-1], Opened)
    await asyncio.gather(*(start(copy.run(f"to copy {number}")) for number, copy in enumerate(copies)))
    await copies[0].refresh()
    texts = [message.text for message in copies[0].messages if message.role == "user"]
    assert texts[0] == "Hi"
    assert sorted(texts[1:]) == [f"to copy {number}" for number in range(4)]


@pytest.mark.parametrize("at", [0, 1, None])
async def test_fork_to_existing_id_is_refused(stores, at):
    store, other = stores
    workflow = make_workflow()
    mine, theirs = workflow.session("mine", store=store), workflow.session("theirs", store=other)
    await mine.run("my words")
    await theirs.run("their words")
    for existing_id in ("theirs", "mine"):
        with pytest.raises(LedgerExists):
            await mine.fork(at=at, id=existing_id)
    assert [message.text for message in (await theirs.refresh()).messages] == ["their words", "talk heard their words"]
    branch = await mine.fork(at=0, id="free")
    assert (branch.status, await store.read("free")) == ("new", [])


async def test_deleted_session_cannot_be_forked(stores):
    store, _ = stores
    session = make_workflow().session("s", store=store)
    await session.run("Hi")
    await store.delete("s")
    with pytest.raises(UnknownLedger):
        await session.fork(at=0)
