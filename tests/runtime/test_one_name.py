"""Several conversations that could be taken for one another, because a session id is or was theirs: none is."""

import asyncio

import pytest

from legato import Agent, HandoffBuilder
from legato.core.facts import MessageReceived, Opened
from legato.errors import DefinitionChanged, LedgerExists, UnknownLedger
from legato.runtime.run import Result
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call
from tests.runtime.holding import begin


@pytest.fixture(params=["one store", "two stores on one file"])
async def stores(request, tmp_path):
    """Two who share what is stored: two tasks of one process, or, as it were, two processes."""
    if request.param == "one store":
        one = MemoryStore()
        yield one, one
    else:
        async with SQLiteStore(tmp_path / "s.db") as one, SQLiteStore(tmp_path / "s.db") as other:
            yield one, other


def talk(name="talk"):
    model = ScriptedModel(lambda seen: f"{name} heard {seen.messages[-1].text}")
    return HandoffBuilder(name, [Agent(f"{name} clerk", model=model)]).build()


async def test_an_agent_as_a_tool_does_not_go_on_with_the_conversation_of_a_deleted_session(stores):
    store, _ = stores
    poet = Agent("poet", model=ScriptedModel(lambda seen: " | ".join(message.text for message in seen.messages)))
    model = ScriptedModel(lambda seen: call("ask_poet", task=seen.messages[-1].text) if seen.messages[-1].role == "user" else "done")
    workflow = HandoffBuilder("w", [Agent("clerk", model=model, tools=[poet.as_tool()])]).build()
    first = workflow.session("customer", store=store)
    await first.run("the secret of the first")
    await store.delete("customer")
    second = workflow.session("customer", store=store)
    await second.run("hello from the second")
    assert (await second.seen()).messages[-1].text == "hello from the second"
    assert [info.ledger for info in await store.list() if info.ledger != "customer"] == [f"customer/{second.state.ledger}:2.0"]


async def test_of_two_workflows_that_make_one_session_at_once_one_is_told_and_its_message_is_recorded_nowhere(stores):
    sessions = [await talk(name).session("s", store=store).refresh() for name, store in zip(("sales", "legal"), stores, strict=True)]
    outcomes = await asyncio.gather(*(begin(session.run(f"for {session.workflow.name}")) for session in sessions), return_exceptions=True)
    (won,) = [each for each in outcomes if isinstance(each, Result)]
    (lost,) = [each for each in outcomes if isinstance(each, DefinitionChanged)]
    winner, loser = won.session.workflow.name, "legal" if won.session.workflow.name == "sales" else "sales"
    assert f"belongs to workflow {winner!r}, not to {loser!r}" in str(lost)
    facts = await stores[0].read("s")
    assert [fact.workflow for fact in facts if isinstance(fact, Opened)] == [winner]
    assert [fact.content for fact in facts if isinstance(fact, MessageReceived)] == [f"for {winner}"]
    assert [info.ledger for info in await stores[0].list()] == ["s"]
    for session in sessions:
        if session.workflow.name == loser:
            with pytest.raises(DefinitionChanged):
                await session.run("once more")
    assert len(await stores[0].read("s")) == len(facts)


async def test_one_string_that_is_loaded_twice_at_once_is_one_copy(stores):
    workflow = talk()
    session = workflow.session("s")
    await session.run("Hi")
    text = await session.to_string()
    copies = [workflow.load(text, store=store) for store in stores for _ in range(2)]
    await asyncio.gather(*(copy.refresh() for copy in copies))
    (facts,) = {tuple((await copy.refresh()).facts) for copy in copies}
    assert facts[:-1] == tuple(session.facts)
    assert isinstance(facts[-1], Opened)
    await asyncio.gather(*(begin(copy.run(f"to copy {number}")) for number, copy in enumerate(copies)))
    await copies[0].refresh()
    said = [message.text for message in copies[0].messages if message.role == "user"]
    assert said[0] == "Hi"
    assert sorted(said[1:]) == [f"to copy {number}" for number in range(4)]


@pytest.mark.parametrize("at", [0, 1, None])
async def test_a_fork_onto_an_id_that_is_taken_is_refused(stores, at):
    store, other = stores
    workflow = talk()
    mine, theirs = workflow.session("mine", store=store), workflow.session("theirs", store=other)
    await mine.run("my words")
    await theirs.run("their words")
    for taken in ("theirs", "mine"):
        with pytest.raises(LedgerExists):
            await mine.fork(at=at, id=taken)
    assert [message.text for message in (await theirs.refresh()).messages] == ["their words", "talk heard their words"]
    branch = await mine.fork(at=0, id="free")
    assert (branch.status, await store.read("free")) == ("new", [])


async def test_a_deleted_session_is_forked_nowhere_not_even_at_its_beginning(stores):
    store, _ = stores
    session = talk().session("s", store=store)
    await session.run("Hi")
    await store.delete("s")
    with pytest.raises(UnknownLedger):
        await session.fork(at=0)
