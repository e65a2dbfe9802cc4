"""Unchecked messages: they wait outside the conversation for input guardrails, and no model is requested meanwhile."""

import asyncio

import pytest

from legato import Agent, HandoffBuilder, Limits, guardrail, history, tool
from legato.core.facts import CallReturned, Cancelled, Compacted, MessageReceived, ModelReplied, ModelRequestFailed
from legato.errors import ModelFailed
from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.runtime.blocking import BlockingGuardrail, Breakpoint, make_blocked_model, start, wait_for_facts


def make_workflow(guard, *replies, **more):
    model = ScriptedModel(by_agent={"a": list(replies)})
    return HandoffBuilder("w", [Agent("a", model=model, guardrails=[guard.guardrail], **more)]).build(), model


def read_request_texts(model, number=-1):
    return [message.text for message in model.requests[number].messages]


async def test_message_during_request_follows_the_reply(store):
    guard, pause = BlockingGuardrail(), Breakpoint()
    model = make_blocked_model(pause, ["to the first", "to the second"])
    workflow = HandoffBuilder("w", [Agent("a", model=model, guardrails=[guard.guardrail])]).build()
    first = start(workflow.session("s", store=store).run("first"))
    await pause.reached.wait()
    second = start(workflow.session("s", store=store).run("slow second"))
    await guard.reached.wait()
    pause.go.set()
    await wait_for_facts(store, ModelReplied)
    assert len(model.requests) == 1, "no model is requested while a message is checked"
    guard.go.set()
    await asyncio.gather(first, second)
    assert read_request_texts(model) == ["first", "to the first", "slow second"]
    assert len(model.requests) == 2


async def test_no_model_request_during_message_check(store):
    guard, pause = BlockingGuardrail(), Breakpoint()

    @tool
    async def work() -> str:
        await pause.hit()
        return "worked"

    workflow, model = make_workflow(guard, call("work"), "done", tools=[work])
    first = start(workflow.session("s", store=store).run("first"))
    await pause.reached.wait()
    second = start(workflow.session("s", store=store).run("slow second"))
    await guard.reached.wait()
    pause.go.set()
    await wait_for_facts(store, CallReturned)
    assert len(model.requests) == 1
    guard.go.set()
    await asyncio.gather(first, second)
    assert read_request_texts(model) == ["first", "", "worked", "slow second"]


@pytest.mark.parametrize("mode", ["queue", "supersede"])
async def test_new_agent_guardrails_check_message_before_handoff(store, mode):
    first_agent_texts, strict = [], BlockingGuardrail()

    @guardrail("input")
    def anything(context, text):
        first_agent_texts.append(text)

    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel(by_agent={"a": [[call("pay"), handoff("b")]], "b": ["b here"]})
    agents = [Agent("a", model=model, tools=[pay], guardrails=[anything]), Agent("b", model=model, guardrails=[strict.guardrail])]
    workflow = HandoffBuilder("w", agents).add_handoff("a", "b").add_handoff("b", "a").with_messages(mode).build()
    session = workflow.session("s", store=store)
    await session.run("Hi")
    await session.run("bad")
    if mode == "queue":
        await session.approve(session.pending[0])
        await session.resume()
    assert (session.status, first_agent_texts, strict.checked_texts) == ("waiting", ["Hi", "bad"], ["bad"])
    assert (model.requests[-1].agent, read_request_texts(model)[0]) == ("b", "Hi")
    assert "bad" not in read_request_texts(model)


async def test_cancel_during_check_holds_until_next_message(store):
    """The next message takes the unchecked one along."""
    guard = BlockingGuardrail()
    workflow, model = make_workflow(guard, "to both")
    driving = start(workflow.session("s", store=store).run("slow first"))
    await guard.reached.wait()
    other = workflow.session("s", store=store)
    await other.cancel()
    assert (await asyncio.wait_for(driving, 60)).status == "cancelled"
    guard.go.set()
    assert (await other.resume()).status == "cancelled"
    assert not model.requests
    assert (await other.run("second")).text == "to both"
    assert read_request_texts(model) == ["slow first", "second"]
    assert guard.checked_texts == ["slow first", "slow first", "second"]


async def test_withheld_message_after_cancel_revives_nothing(store):
    guard = BlockingGuardrail()
    workflow, model = make_workflow(guard, "to the first and the third")
    await workflow.session("s", store=store).run("bad")
    facts = [MessageReceived(at=1, content="first", awaits_guardrails=True), Cancelled(at=2)]
    await store.append("s", 3, facts)
    session = workflow.session("s", store=store)
    assert (await session.run("bad")).status == "cancelled"
    assert not model.requests
    assert (await session.run("third")).text == "to the first and the third"
    assert read_request_texts(model) == ["first", "third"]


@pytest.mark.parametrize("words", ["slow", "slow and bad"])
async def test_next_driver_checks_message_after_crash(tmp_path, words):
    guard = BlockingGuardrail()
    workflow, model = make_workflow(guard, "hello")
    async with SQLiteStore(tmp_path / "s.db") as store:
        driving = start(workflow.session("s", store=store).run(words))
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


async def test_fork_during_check_checks_message_itself(store):
    guard = BlockingGuardrail()
    workflow, model = make_workflow(guard, "hello")
    driving = start(workflow.session("s", store=store).run("slow"))
    await guard.reached.wait()
    branch = await workflow.session("s", store=store).fork(id="branch")
    guard.go.set()
    assert (await driving).text == "hello"
    assert branch.status == "running"
    assert (await branch.resume()).text == "hello"
    assert guard.checked_texts == ["slow", "slow"]
    assert [request.session_id for request in model.requests] == ["s", "branch"]


async def test_failing_guardrail_leaves_message_unchecked(store):
    calls = 0

    @guardrail("input")
    def moody(context, text):
        nonlocal calls
        calls += 1
        if calls == 2:
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
async def test_limit_rejected_during_check_spares_the_message(store, words):
    guard = BlockingGuardrail()

    @tool
    async def look() -> str:
        return "seen"

    model = ScriptedModel(lambda request: "stopped" if request.messages[-1].text == "slow" else call("look"))
    builder = HandoffBuilder("w", [Agent("a", model=model, tools=[look], guardrails=[guard.guardrail])])
    workflow = builder.with_limits(Limits(turns=2)).build()
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    await session.run("go")
    driving = start(session.run(words))
    await guard.reached.wait()
    await other.refresh()
    await other.reject(other.pending[0])
    guard.go.set()
    result = await asyncio.wait_for(driving, 60)
    assert (result.status, result.text) == ("waiting", "stopped" if words == "slow" else "withheld")
    assert len(model.requests) == (3 if words == "slow" else 2)
    assert guard.checked_texts == ["go", words]


@pytest.mark.parametrize("words", ["slow", "slow and bad"])
async def test_failed_model_is_requested_again_for_message(store, words):
    """The model fails while a message is checked, and is requested again if the message passes."""
    guard, pause = BlockingGuardrail(), Breakpoint()

    async def reply(request):
        if request.messages[-1].text != "slow":
            await pause.hit()
            raise ModelFailed("down")
        return "to both"

    model = ScriptedModel(reply)
    workflow = HandoffBuilder("w", [Agent("a", model=model, guardrails=[guard.guardrail])]).build()
    first = start(workflow.session("s", store=store).run("first"))
    await pause.reached.wait()
    second = start(workflow.session("s", store=store).run(words))
    await guard.reached.wait()
    pause.go.set()
    await wait_for_facts(store, ModelRequestFailed)
    guard.go.set()
    results = await asyncio.wait_for(asyncio.gather(first, second), 60)
    expected = ("waiting", "to both") if words == "slow" else ("failed", "withheld")
    assert [(result.status, result.text) for result in results] == [expected, expected]


async def test_summary_in_progress_is_not_repeated_for_message(store):
    guard, pause, calls = BlockingGuardrail(), Breakpoint(), []

    async def shorter(text):
        calls.append(text)
        await pause.hit()
        return "in short"

    model = ScriptedModel(lambda request: "long " * 50)
    agent = Agent("a", model=model, guardrails=[guard.guardrail], history=history.summarised(50, by=shorter, keep=1))
    workflow = HandoffBuilder("w", [agent]).build()
    await workflow.session("s", store=store).run("hello " * 50)
    first = start(workflow.session("s", store=store).run("again"))
    await pause.reached.wait()
    second = start(workflow.session("s", store=store).run("slow and bad"))
    await guard.reached.wait()
    pause.go.set()
    await wait_for_facts(store, Compacted)
    guard.go.set()
    await asyncio.gather(first, second)
    assert len(calls) == 1
