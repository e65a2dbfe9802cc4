"""Edge cases of sessions and drivers: invalid values, failing appends, and user code that does anything."""

import asyncio
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel

from legato import Agent, HandoffBuilder, Image, Limits, Provided, file, guardrail, history, image, tool
from legato.core.facts import CallReturned, MessageReceived
from legato.errors import BadInput, ModelFailed, StoreLocked
from legato.models import Call, ModelReply, OutputText, Reasoning, Usage
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.runtime.blocking import complete, wait_for_facts


def make_workflow(model, **more):
    return HandoffBuilder("w", [Agent("a", model=model, **more)]).build()


INVALID_INPUTS = {
    "a key that is no text": lambda session: session.run("x", key=5),
    "a reason to cancel that is no text": lambda session: session.cancel(123),
    "a picture without a type": lambda session: session.run([image("https://x", media_type=None)]),
    "a file without a name": lambda session: session.run([file(b"x", name=None)]),
}


@pytest.mark.parametrize("misuse", INVALID_INPUTS.values(), ids=INVALID_INPUTS)
async def test_input_that_cannot_be_decoded_is_not_written(store, misuse):
    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    workflow = make_workflow(ScriptedModel(lambda request: call("pay") if request.reply_count == 0 else "done"), tools=[pay])
    session = workflow.session("s", store=store)
    await session.run("hello")
    with pytest.raises(BadInput):
        await misuse(session)
    fresh = await workflow.session("s", store=store).refresh()
    assert [message.text for message in fresh.messages] == ["hello"]
    assert fresh.status == "pending"


INVALID_REPLIES = {
    "arguments as a dict": ModelReply(items=(Call("x", {"a": 1}),)),
    "a call id that is no text": ModelReply(items=(Call("x", "{}", call_id=None),)),
    "text in the place of words": ModelReply(items=("hello",)),
    "an end of its own": ModelReply(items=(OutputText("x"),), finish="end_turn"),
    "half a token": ModelReply(items=(OutputText("x"),), usage=Usage(input=1.5)),
    "half a surrogate pair": ModelReply(items=(OutputText("\ud800"),)),
    "no reply at all": "hello",
    "an exception of its client": ConnectionError("reset by peer"),
    "a cancellation of its own": asyncio.CancelledError(),
}


@pytest.mark.parametrize("reply", INVALID_REPLIES.values(), ids=INVALID_REPLIES)
async def test_invalid_reply_fails_and_session_can_resume(store, reply):
    """A reply that cannot be recorded is a failure with a reason, and the session can be resumed."""

    class OddModel:
        name = "odd"
        asked = 0

        async def reply(self, request, emit):
            self.asked += 1
            if self.asked > 1:
                return ModelReply(items=(OutputText("better"),))
            if isinstance(reply, BaseException):
                raise reply
            return reply

    model = OddModel()
    session = make_workflow(model).session("s", store=store)
    result = await session.run("hello")
    assert (result.status, model.asked) == ("failed", 1)
    assert result.error
    assert (await session.resume()).text == "better"
    assert [message.text for message in session.messages] == ["hello", "better"]


async def drive_until_started_then_crash(workflow, store, started):
    """Drive until a tool has started, stop like a crashed process, and return a new handle."""
    driving = asyncio.ensure_future(complete(workflow.session("s", store=store).run("go")))
    await started.wait()
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    return workflow.session("s", store=store)


class PayingWorkflow:
    def __init__(self, **limits):
        self.started = asyncio.Event()

        @tool
        async def pay() -> str:
            self.started.set()
            await asyncio.sleep(30)
            return "paid"

        @tool
        async def other() -> str:
            return "other"

        model = ScriptedModel(lambda request: [call("pay"), call("other")] if request.reply_count == 0 else "end")
        builder = HandoffBuilder("w", [Agent("a", model=model, tools=[pay, other])])
        self.workflow = builder.with_limits(Limits(turns=9, **limits)).build()


async def test_rejected_limit_leaves_outcome_request_pending(store):
    payer = PayingWorkflow(tool_calls=1)
    session = await drive_until_started_then_crash(payer.workflow, store, payer.started)
    await session.resume()
    assert [request.kind for request in session.pending] == ["outcome", "limit"]
    await session.reject(session.pending[1])
    await session.resume()
    [request] = session.pending
    assert request.kind == "outcome"
    await session.answer(request, "it was paid")
    await session.resume()
    outputs = [call.output.content for call in session.state.groups[1].calls]
    assert outputs[0] == "it was paid"
    assert "Not run" in outputs[1]


async def test_cancelled_rerun_may_have_taken_effect(store):
    """A tool that was started once, and is cancelled before its rerun, is never reported as not run."""
    payer = PayingWorkflow()
    session = await drive_until_started_then_crash(payer.workflow, store, payer.started)
    await session.resume()
    await session.approve(session.pending[0])
    await session.cancel()
    output = session.state.groups[1].calls[0].output
    assert "may have taken effect" in output.content


async def test_failing_validator_keeps_finished_tool_output(store):
    def fail(value):
        raise KeyError("boom")

    class Case(BaseModel):
        number: Annotated[int, AfterValidator(fail)]

    @tool
    async def first() -> str:
        return "done"

    model = ScriptedModel(lambda request: [call("first"), handoff("b", input={"number": 1})] if request.reply_count == 0 else "told")
    builder = HandoffBuilder("w", [Agent("a", model=model, tools=[first]), Agent("b", model=model)])
    session = builder.add_handoff("a", "b", input_type=Case).add_handoff("b", []).build().session("s", store=store)
    result = await session.run("go")
    assert result.text == "told"
    outputs = [message.text for message in model.requests[-1].messages if message.role == "tool"]
    assert outputs[0] == "done"
    assert "Not handed over" in outputs[1]


@pytest.mark.parametrize("fault", ["the store refuses once", "the drive is cancelled"])
async def test_finished_tool_is_recorded_after_drive_ends(store, fault):
    class FaultyStore:
        """A store that refuses or delays the append of the tool's outcome."""

        def __init__(self):
            self.met = asyncio.Event()
            self.armed = True

        def __getattr__(self, name):
            return getattr(store, name)

        async def append(self, ledger, expected, facts, **more):
            if self.armed and any(isinstance(fact, CallReturned) for fact in facts):
                self.armed = False
                self.met.set()
                if fault == "the store refuses once":
                    raise StoreLocked("busy")
                await asyncio.sleep(30)
            return await store.append(ledger, expected, facts, **more)

    @tool
    async def pay() -> str:
        return "paid"

    faulty = FaultyStore()
    model = ScriptedModel(lambda request: call("pay") if request.reply_count == 0 else "done")
    session = make_workflow(model, tools=[pay]).session("s", store=faulty)
    driving = asyncio.ensure_future(complete(session.run("go")))
    await faulty.met.wait()
    if fault == "the drive is cancelled":
        driving.cancel()
    assert isinstance((await asyncio.gather(driving, return_exceptions=True))[0], StoreLocked | asyncio.CancelledError)
    await wait_for_facts(store, CallReturned)
    result = await session.resume()
    assert result.text == "done", "the outcome is known"
    assert [message.text for message in model.requests[-1].messages if message.role == "tool"] == ["paid"]


async def test_message_during_request_preparation_is_checked_first(store):
    context_made, gate, asked = asyncio.Event(), asyncio.Event(), []

    @guardrail("input")
    def no_secrets(context, text):
        return "blocked" if "secret" in text else None

    async def slowly(turn):
        context_made.set()
        await gate.wait()
        return f"You know of: {turn.messages[-1].text}"

    async def reply(request):
        asked.append(([message.text for message in request.messages], request.turn_context.instructions))
        return "ok"

    workflow = make_workflow(ScriptedModel(reply), guardrails=[no_secrets], context_providers=[slowly])
    first = asyncio.ensure_future(complete(workflow.session("s", store=store).run("hello")))
    await context_made.wait()
    second = asyncio.ensure_future(complete(workflow.session("s", store=store).run("my secret")))
    await wait_for_facts(store, MessageReceived, 2)
    gate.set()
    await asyncio.gather(first, second)
    assert not any("my secret" in texts for texts, _ in asked)
    third = await workflow.session("s", store=store).run("and this?")
    assert third.text == "ok"
    assert asked[-1] == (["hello", "ok", "and this?"], "You know of: and this?")


CALLBACKS = ("instructions", "provider", "guardrail", "approval", "termination", "summariser")


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("where", CALLBACKS)
async def test_cancelled_error_of_user_code_is_reported(where, kind):
    """User code that raises `CancelledError` itself is called once, and its failure is raised."""
    asked = 0

    def cancelled(*misuse):
        nonlocal asked
        asked += 1
        if where == "instructions" and asked > 1:
            return "Be kind."
        raise asyncio.CancelledError

    async def later(*misuse):
        return cancelled()

    cancelled_async = later if kind == "async" else cancelled

    @tool(needs_approval=cancelled_async if where == "approval" else False)
    async def pay() -> str:
        return "paid"

    agent = Agent(
        "a",
        cancelled_async if where == "instructions" else "",
        ScriptedModel(lambda request: call("pay") if request.reply_count == 0 else "done"),
        tools=[pay],
        context_providers=[cancelled_async] if where == "provider" else [],
        guardrails=[guardrail("input")(cancelled_async)] if where == "guardrail" else [],
        history=history.summarised(1, by=cancelled_async, keep=1) if where == "summariser" else None,
    )
    builder = HandoffBuilder("w", [agent])
    if where == "termination":
        builder.with_termination_condition(cancelled_async)
    session = builder.build().session("s")

    async def talk():
        for words in ("hello " * 20, "again " * 20):
            await session.run(words)

    with pytest.raises(RuntimeError, match="cancelled from within"):
        await asyncio.wait_for(talk(), 60)
    assert asked == 1


async def test_handoff_with_invalid_unicode_reason_is_answered(store):
    script = {"a": [Call("handoff_to_b", '{"reason":"\\ud800"}'), handoff("b", "better")], "b": ["here"]}
    model = ScriptedModel(by_agent=script)
    agents = [Agent("a", model=model), Agent("b", model=model, history=history.dialogue())]
    session = HandoffBuilder("w", agents).build().session("s", store=store)
    assert (await session.run("go")).text == "here"


async def test_edited_handoff_shows_edited_reason(store):
    model = ScriptedModel(by_agent={"a": [handoff("b", "refund 100")], "b": ["fine"]})
    builder = HandoffBuilder("w", [Agent("a", model=model), Agent("b", model=model)])
    session = builder.add_handoff("a", "b", needs_approval=True).add_handoff("b", "a").build().session("s", store=store)
    await session.run("go")
    await session.edit(session.pending[0], {"reason": "refund 5"})
    await session.resume()
    assert "refund 5" in model.requests[-1].messages[-1].text


def test_handle_works_in_second_event_loop(tmp_path):
    session = make_workflow(ScriptedModel(lambda request: "x")).session("s", store=SQLiteStore(tmp_path / "s.db"))

    async def both():
        async def look():
            for _ in range(20):
                await session.refresh()
                await asyncio.sleep(0)

        await asyncio.gather(complete(session.run("m")), look())

    asyncio.run(both())
    asyncio.run(both())
    asyncio.run(session.store.close())


async def test_policy_change_within_turn_keeps_recorded_policy(store):
    """The history policy is changed within a turn: `seen` shows what was sent."""

    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel(lambda request: call("pay") if request.reply_count == 0 else "done")
    await make_workflow(model, tools=[pay]).session("s", store=store).run("go")
    changed = await make_workflow(model, tools=[pay], history=history.dialogue()).session("s", store=store).refresh()
    await changed.approve(changed.pending[0])
    await changed.resume()
    assert [str(message) for message in (await changed.seen()).messages] == [str(message) for message in model.requests[-1].messages]


async def test_history_filter_cannot_change_messages(store):
    def change_group(groups):
        groups[0].content = "EVIL"
        return groups

    model = ScriptedModel(["ok"])
    session = make_workflow(model, history=history.custom(change_group)).session("s", store=store)
    await session.run("good")
    assert model.requests[0].messages[0].text == session.messages[0].text == "good"


async def test_rejected_reply_is_visible_to_its_agent_only(store):
    @guardrail("output")
    def no_secrets(context, text):
        return "do not say that" if "secret" in text else None

    script = {"a": ["the secret", "nothing to see", handoff("b")], "b": ["what now?"]}
    model = ScriptedModel(by_agent=script)
    agents = [Agent("a", model=model, guardrails=[no_secrets]), Agent("b", model=model)]
    session = HandoffBuilder("w", agents).build().session("s", store=store)
    shown = [event async for event in session.run("tell me", stream=True)]
    assert not any("secret" in str(event) for event in shown)
    assert [message.text for message in session.messages] == ["tell me", "nothing to see"]
    await session.run("go on")
    assert "the secret" in [message.text for message in model.requests[1].messages], "the agent sees its rejected reply"
    assert "the secret" not in [message.text for message in model.requests[-1].messages], "the other agent does not"


async def test_invalid_context_provider_result_raises():
    for misuse in (["x"], 5, Provided(messages="abc")):
        with pytest.raises(BadInput, match="cannot be part of a turn context"):
            await make_workflow(ScriptedModel(["x"]), context_providers=[lambda turn, misuse=misuse: misuse]).run("go")


async def test_keyboard_interrupt_in_tool_spares_siblings(store):
    @tool
    def stop() -> str:
        raise KeyboardInterrupt

    @tool
    async def fine() -> str:
        await asyncio.sleep(0.05)
        return "fine"

    model = ScriptedModel(lambda request: [call("stop"), call("fine")] if request.reply_count == 0 else "done")
    session = make_workflow(model, tools=[stop, fine]).session("s", store=store)
    assert (await session.run("go")).text == "done"
    outputs = [message.text for message in model.requests[-1].messages if message.role == "tool"]
    assert "tried to end the process" in outputs[0]
    assert outputs[1] == "fine"


async def test_reply_to_cancelled_request_is_dropped(store):
    """Also if the user has sent another message since."""
    thinking, go = asyncio.Event(), asyncio.Event()
    paid = []

    @tool
    async def pay() -> str:
        paid.append(1)
        return "paid"

    async def reply(request):
        if request.reply_count == 0 and "new" not in request.messages[-1].text:
            thinking.set()
            await go.wait()
            return call("pay")
        return "to the new question"

    workflow = make_workflow(ScriptedModel(reply), tools=[pay])
    driving = asyncio.ensure_future(complete(workflow.session("s", store=store).run("pay")))
    await thinking.wait()
    other = workflow.session("s", store=store)
    await other.cancel()
    speaking = asyncio.ensure_future(complete(other.run("a new question")))
    await wait_for_facts(store, MessageReceived, 2)
    go.set()
    await asyncio.gather(driving, speaking)
    await other.refresh()
    assert not paid
    assert [message.text for message in other.messages] == ["pay", "a new question", "to the new question"]


async def test_invalid_guardrail_reason_spares_sibling_calls(store):
    @tool
    async def pay() -> str:
        await asyncio.sleep(0.1)
        return "paid"

    @tool
    async def other() -> str:
        return "other"

    @guardrail("tool")
    def object_with_surrogate(context, asked):
        return "bad \ud800" if asked.tool == "other" else None

    model = ScriptedModel(lambda request: [call("pay"), call("other")] if request.reply_count == 0 else "done")
    session = make_workflow(model, tools=[pay, other], guardrails=[object_with_surrogate]).session("s", store=store)
    with pytest.raises(BadInput):
        await session.run("go")
    await session.refresh()
    with pytest.raises(BadInput):
        await session.resume()
    outputs = [each.output.content for each in session.state.groups[1].calls if each.output]
    assert outputs == ["paid"]


async def test_turn_context_survives_retry_until_new_message(store):
    """A turn context is kept for a retry, and made again for a message that came during the request."""
    context_made, asked = 0, []
    thinking, go = asyncio.Event(), asyncio.Event()

    def provide(turn):
        nonlocal context_made
        context_made += 1
        return f"{context_made}: {turn.messages[-1].text}"

    async def reply(request):
        asked.append(request.turn_context.instructions)
        if len(asked) == 1:
            raise ModelFailed("503", retryable=True, retry_after=0)
        if len(asked) == 2:
            thinking.set()
            await go.wait()
        return "ok"

    session = make_workflow(ScriptedModel(reply), context_providers=[provide]).session("s", store=store)
    first = asyncio.ensure_future(complete(session.run("first")))
    await thinking.wait()
    second = asyncio.ensure_future(complete(session.run("second")))
    await wait_for_facts(store, MessageReceived, 2)
    go.set()
    await asyncio.gather(first, second)
    assert asked == ["1: first", "1: first", "2: second"]


async def test_attachment_without_bytes_is_refused(store):
    with pytest.raises(BadInput, match="bytes are not in this session"):
        await make_workflow(ScriptedModel(["ok"])).session("s", store=store).run([Image(digest="0" * 32)])


async def test_empty_reply_at_output_limit_is_no_output(store):
    class SilentModel:
        name = "silent"

        async def reply(self, request, emit):
            return ModelReply(items=(Reasoning(text="hm"),))

    session = make_workflow(SilentModel(), output_type=int, output_retries=0).session("s", store=store)
    result = await session.run("How many?")
    assert [request.limit for request in result.pending] == ["output"]
    await session.reject(result.pending[0])
    result = await session.resume()
    assert (result.status, result.text, result.output) == ("waiting", "", "")


async def test_stores_and_models_may_delegate_with_getattr():
    class Wrapper:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

    session = make_workflow(Wrapper(ScriptedModel(["Hello."]))).session("s", store=Wrapper(MemoryStore()))
    assert (await session.run("Hi")).text == "Hello."
