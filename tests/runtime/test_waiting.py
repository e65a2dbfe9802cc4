"""A message that input guardrails are yet to judge waits outside the conversation, and no model is asked past it."""

import asyncio

import pytest

from legato import Agent, HandoffBuilder, Limits, guardrail, history, tool
from legato.core.facts import CallReturned, Cancelled, Compacted, MessageReceived, ModelReplied, ModelRequestFailed
from legato.errors import ModelFailed
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.runtime.holding import Guard, Held, begin, recorded, thinking


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


def simple(guard, *replies, **more):
    model = ScriptedModel(by_agent={"a": list(replies)})
    return HandoffBuilder("w", [Agent("a", model=model, guardrails=[guard.rail], **more)]).build(), model


def seen(model, number=-1):
    return [message.text for message in model.requests[number].messages]


async def test_a_reply_that_is_being_made_is_kept_and_the_message_follows_it(store):
    guard, held = Guard(), Held()
    model = thinking(held, ["to the first", "to the second"])
    workflow = HandoffBuilder("w", [Agent("a", model=model, guardrails=[guard.rail])]).build()
    first = begin(workflow.session("s", store=store).run("first"))
    await held.reached.wait()
    second = begin(workflow.session("s", store=store).run("slow second"))
    await guard.reached.wait()
    held.go.set()
    await recorded(store, ModelReplied)
    assert len(model.requests) == 1, "no model is asked while a message is being judged"
    guard.go.set()
    await asyncio.gather(first, second)
    assert seen(model) == ["first", "to the first", "slow second"]
    assert len(model.requests) == 2


async def test_a_model_is_not_asked_for_what_follows_a_tool_while_a_message_is_being_judged(store):
    guard, held = Guard(), Held()

    @tool
    async def work() -> str:
        await held.here()
        return "worked"

    workflow, model = simple(guard, call("work"), "done", tools=[work])
    first = begin(workflow.session("s", store=store).run("first"))
    await held.reached.wait()
    second = begin(workflow.session("s", store=store).run("slow second"))
    await guard.reached.wait()
    held.go.set()
    await recorded(store, CallReturned)
    assert len(model.requests) == 1
    guard.go.set()
    await asyncio.gather(first, second)
    assert seen(model) == ["first", "", "worked", "slow second"]


@pytest.mark.parametrize("mode", ["queue", "supersede"])
async def test_the_guardrails_of_the_agent_who_takes_over_are_asked_before_that_agent_sees_it(store, mode):
    lax, strict = [], Guard()

    @guardrail("input")
    def anything(context, text):
        lax.append(text)

    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel(by_agent={"a": [[call("pay"), handoff("b")]], "b": ["b here"]})
    agents = [Agent("a", model=model, tools=[pay], guardrails=[anything]), Agent("b", model=model, guardrails=[strict.rail])]
    workflow = HandoffBuilder("w", agents).add_handoff("a", "b").add_handoff("b", "a").with_messages(mode).build()
    session = workflow.session("s", store=store)
    await session.run("Hi")
    await session.run("bad")
    if mode == "queue":
        await session.approve(session.pending[0])
        await session.resume()
    assert (session.status, lax, strict.asked) == ("waiting", ["Hi", "bad"], ["bad"])
    assert (model.requests[-1].agent, seen(model)[0]) == ("b", "Hi")
    assert "bad" not in seen(model)


async def test_a_cancel_while_it_is_being_judged_holds_until_the_next_message_which_brings_it_along(store):
    guard = Guard()
    workflow, model = simple(guard, "to both")
    driving = begin(workflow.session("s", store=store).run("slow first"))
    await guard.reached.wait()
    other = workflow.session("s", store=store)
    await other.cancel()
    assert (await asyncio.wait_for(driving, 60)).status == "cancelled"
    guard.go.set()
    assert (await other.resume()).status == "cancelled"
    assert not model.requests
    assert (await other.run("second")).text == "to both"
    assert seen(model) == ["slow first", "second"]
    assert guard.asked == ["slow first", "slow first", "second"]


async def test_a_bad_message_after_the_cancel_revives_neither(store):
    guard = Guard()
    workflow, model = simple(guard, "to the first and the third")
    await workflow.session("s", store=store).run("bad")
    facts = [MessageReceived(at=1, content="first", guarded=True), Cancelled(at=2)]
    await store.append("s", 3, facts)
    session = workflow.session("s", store=store)
    assert (await session.run("bad")).status == "cancelled"
    assert not model.requests
    assert (await session.run("third")).text == "to the first and the third"
    assert seen(model) == ["first", "third"]


@pytest.mark.parametrize("words", ["slow", "slow and bad"])
async def test_whoever_comes_after_a_death_judges_what_waits(tmp_path, words):
    guard = Guard()
    workflow, model = simple(guard, "hello")
    async with SQLiteStore(tmp_path / "s.db") as store:
        driving = begin(workflow.session("s", store=store).run(words))
        await guard.reached.wait()
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
    guard.go.set()
    async with SQLiteStore(tmp_path / "s.db") as store:
        session = await workflow.session("s", store=store).refresh()
        assert (session.status, [message.text for message in session.messages]) == ("running", [words])
        assert (await session.resume()).text == ("hello" if words == "slow" else "withheld")
        assert (session.status, len(model.requests)) == ("waiting", words == "slow")
        assert [message.text for message in session.messages] == [words, "hello" if words == "slow" else "withheld"]


async def test_a_fork_made_while_it_waits_judges_it_for_itself(store):
    guard = Guard()
    workflow, model = simple(guard, "hello")
    driving = begin(workflow.session("s", store=store).run("slow"))
    await guard.reached.wait()
    branch = await workflow.session("s", store=store).fork(id="branch")
    guard.go.set()
    assert (await driving).text == "hello"
    assert branch.status == "running"
    assert (await branch.resume()).text == "hello"
    assert guard.asked == ["slow", "slow"]
    assert [request.session for request in model.requests] == ["s", "branch"]


async def test_what_a_guardrail_raises_is_told_and_the_message_waits_on(store):
    asked = 0

    @guardrail("input")
    def moody(context, text):
        nonlocal asked
        asked += 1
        if asked == 2:
            raise LookupError("the list of bad words is gone")

    model = ScriptedModel(lambda request: f"{len(request.messages)}")
    workflow = HandoffBuilder("w", [Agent("a", model=model, guardrails=[moody])]).build()
    session = workflow.session("s", store=store)
    await session.run("first")
    with pytest.raises(LookupError, match="bad words"):
        await session.run("second")
    assert (session.status, [message.text for message in session.messages]) == ("running", ["first", "1", "second"])
    assert (await workflow.session("s", store=store).resume()).text == "3"


@pytest.mark.parametrize("words", ["slow", "slow and bad"])
async def test_a_limit_that_is_refused_while_it_waits_is_not_about_it(store, words):
    guard = Guard()

    @tool
    async def look() -> str:
        return "seen"

    model = ScriptedModel(lambda seen: "stopped" if seen.messages[-1].text == "slow" else call("look"))
    builder = HandoffBuilder("w", [Agent("a", model=model, tools=[look], guardrails=[guard.rail])])
    workflow = builder.with_limits(Limits(turns=2)).build()
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    await session.run("go")
    driving = begin(session.run(words))
    await guard.reached.wait()
    await other.refresh()
    await other.reject(other.pending[0])
    guard.go.set()
    result = await asyncio.wait_for(driving, 60)
    assert (result.status, result.text) == ("waiting", "stopped" if words == "slow" else "withheld")
    assert len(model.requests) == (3 if words == "slow" else 2)
    assert guard.asked == ["go", words]


@pytest.mark.parametrize("words", ["slow", "slow and bad"])
async def test_a_model_that_fails_while_it_waits_is_asked_again_if_it_is_let_pass(store, words):
    guard, held = Guard(), Held()

    async def reply(seen):
        if seen.messages[-1].text != "slow":
            await held.here()
            raise ModelFailed("down")
        return "to both"

    model = ScriptedModel(reply)
    workflow = HandoffBuilder("w", [Agent("a", model=model, guardrails=[guard.rail])]).build()
    first = begin(workflow.session("s", store=store).run("first"))
    await held.reached.wait()
    second = begin(workflow.session("s", store=store).run(words))
    await guard.reached.wait()
    held.go.set()
    await recorded(store, ModelRequestFailed)
    guard.go.set()
    results = await asyncio.wait_for(asyncio.gather(first, second), 60)
    expected = ("waiting", "to both") if words == "slow" else ("failed", "withheld")
    assert [(result.status, result.text) for result in results] == [expected, expected]


async def test_a_summary_that_is_being_made_is_not_begun_anew_for_a_message_that_waits(store):
    guard, held, asked = Guard(), Held(), []

    async def shorter(text):
        asked.append(text)
        await held.here()
        return "in short"

    model = ScriptedModel(lambda seen: "long " * 50)
    agent = Agent("a", model=model, guardrails=[guard.rail], history=history.summarised(50, by=shorter, keep=1))
    workflow = HandoffBuilder("w", [agent]).build()
    await workflow.session("s", store=store).run("hello " * 50)
    first = begin(workflow.session("s", store=store).run("again"))
    await held.reached.wait()
    second = begin(workflow.session("s", store=store).run("slow and bad"))
    await guard.reached.wait()
    held.go.set()
    await recorded(store, Compacted)
    guard.go.set()
    await asyncio.gather(first, second)
    assert len(asked) == 1
