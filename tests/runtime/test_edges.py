"""Where the pure centre meets the world: values of any type, appends that fail, user code that does anything."""

import asyncio
import re
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel

from legato import Agent, HandoffBuilder, Image, Limits, Provided, file, guardrail, history, image, tool
from legato.core.facts import CallReturned, MessageReceived, Opened
from legato.errors import BadInput, CodecError, LedgerExists, ModelFailed, StoreLocked, UnknownLedger
from legato.models import Call, Reasoning, Reply, Usage, Words
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.runtime.holding import recorded


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


def alone(model, **more):
    return HandoffBuilder("w", [Agent("a", model=model, **more)]).build()


INPUTS = {
    "a key that is no text": lambda session: session.run("x", key=5),
    "a reason to cancel that is no text": lambda session: session.cancel(123),
    "a picture without a type": lambda session: session.run([image("https://x", media_type=None)]),
    "a file without a name": lambda session: session.run([file(b"x", name=None)]),
}


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
async def test_what_could_not_be_read_again_is_refused_and_not_written(store, given):
    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    workflow = alone(ScriptedModel(lambda seen: call("pay") if seen.turn == 0 else "done"), tools=[pay])
    session = workflow.session("s", store=store)
    await session.run("hello")
    with pytest.raises(BadInput):
        await given(session)
    fresh = await workflow.session("s", store=store).refresh()
    assert [message.text for message in fresh.messages] == ["hello"]
    assert fresh.status == "pending"


REPLIES = {
    "arguments as a dict": Reply(items=(Call("x", {"a": 1}),)),
    "a call id that is no text": Reply(items=(Call("x", "{}", call_id=None),)),
    "text in the place of words": Reply(items=("hello",)),
    "an end of its own": Reply(items=(Words("x"),), finish="end_turn"),
    "half a token": Reply(items=(Words("x"),), usage=Usage(input=1.5)),
    "half a surrogate pair": Reply(items=(Words("\ud800"),)),
    "no reply at all": "hello",
    "an exception of its client": ConnectionError("reset by peer"),
    "a cancellation of its own": asyncio.CancelledError(),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
async def test_a_reply_that_cannot_be_recorded_is_a_failure_with_a_reason_and_the_session_goes_on(store, reply):
    class Odd:
        name = "odd"
        asked = 0

        async def reply(self, request, emit):
            self.asked += 1
            if self.asked > 1:
                return Reply(items=(Words("better"),))
            if isinstance(reply, BaseException):
                raise reply
            return reply

    model = Odd()
    session = alone(model).session("s", store=store)
    result = await session.run("hello")
    assert (result.status, model.asked) == ("failed", 1)
    assert result.error
    assert (await session.resume()).text == "better"
    assert [message.text for message in session.messages] == ["hello", "better"]


async def test_a_copy_that_cannot_arrive_is_refused_every_time():
    workflow = alone(ScriptedModel(lambda seen: "re"))
    session = workflow.session("s")
    await session.run("mine")
    text = await session.to_string()
    store = MemoryStore()
    await workflow.session("s", store=store).run("somebody else's")
    copy = workflow.load(text, store=store)
    for _ in range(2):
        with pytest.raises(LedgerExists):
            await copy.run("and now?")


async def test_a_copy_arrives_once_whatever_happens_on_the_way():
    class Flaky(MemoryStore):
        failed = False

        async def append(self, *given, **more):
            if not self.failed:
                self.failed = True
                raise StoreLocked("busy")
            return await super().append(*given, **more)

    workflow = alone(ScriptedModel(lambda seen: "re"))
    session = workflow.session("s")
    await session.run("first")
    copy = workflow.load(await session.to_string(), store=Flaky())
    with pytest.raises(StoreLocked):
        await copy.refresh()

    async def say(words):
        return await copy.run(words)

    await asyncio.gather(say("second"), say("third"))
    assert copy.messages[0].text == "first"
    assert {message.text for message in copy.messages if message.role == "user"} == {"first", "second", "third"}


async def test_a_later_copy_brings_an_earlier_one_up_to_date(store):
    workflow = alone(ScriptedModel(lambda seen: "re"))
    session = workflow.session("s", store=store)
    await session.run("first")
    other = MemoryStore()
    early = [*session.facts]
    await other.append("s", 0, early)
    await session.run("second")
    copy = await workflow.load(await session.to_string(), store=other).refresh()
    assert copy.facts[:-1] == session.facts
    assert isinstance(copy.facts[-1], Opened)


async def test_a_string_whose_contents_were_changed_is_refused():
    workflow = alone(ScriptedModel(["re"]))
    session = workflow.session("s")
    await session.run("first")
    text = await session.to_string()
    digest = text.split('"contents":{"')[1].split('"')[0]
    swapped = text.replace(f'"{digest}":"', f'"{digest}":"AAAA')
    with pytest.raises(CodecError, match="was changed"):
        workflow.load(swapped)
    with pytest.raises(CodecError, match="part of a session"):
        workflow.load(re.sub(r'"contents":\{[^}]*\}', '"contents":{}', text))
    for nonsense in (None, b"x", '{"legato": -1, "session": "s", "facts": []}'):
        with pytest.raises(BadInput):
            workflow.load(nonsense)


async def interrupted(workflow, store, started):
    """Drive until a tool has started, then stop as a crash would."""
    driving = asyncio.ensure_future(_awaited(workflow.session("s", store=store).run("go")))
    await started.wait()
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    return workflow.session("s", store=store)


async def _awaited(run):
    return await run


class Payer:
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

        model = ScriptedModel(lambda seen: [call("pay"), call("other")] if seen.turn == 0 else "end")
        builder = HandoffBuilder("w", [Agent("a", model=model, tools=[pay, other])])
        self.workflow = builder.with_limits(Limits(turns=9, **limits)).build()


async def test_refusing_a_limit_leaves_the_question_about_a_started_tool_open(store):
    payer = Payer(tool_calls=1)
    session = await interrupted(payer.workflow, store, payer.started)
    await session.resume()
    assert [request.kind for request in session.pending] == ["outcome", "limit"]
    await session.reject(session.pending[1])
    await session.resume()
    [question] = session.pending
    assert question.kind == "outcome"
    await session.answer(question, "it was paid")
    await session.resume()
    outputs = [call.output.content for call in session.state.groups[1].calls]
    assert outputs[0] == "it was paid"
    assert "Not run" in outputs[1]


async def test_a_started_tool_that_is_cancelled_before_its_rerun_is_never_said_not_to_have_run(store):
    payer = Payer()
    session = await interrupted(payer.workflow, store, payer.started)
    await session.resume()
    await session.approve(session.pending[0])
    await session.cancel()
    output = session.state.groups[1].calls[0].output
    assert "may have taken effect" in output.content


async def test_what_user_code_does_after_a_tool_returned_does_not_cost_it_its_result(store):
    def explode(value):
        raise KeyError("boom")

    class Case(BaseModel):
        number: Annotated[int, AfterValidator(explode)]

    @tool
    async def first() -> str:
        return "done"

    model = ScriptedModel(lambda seen: [call("first"), handoff("b", input={"number": 1})] if seen.turn == 0 else "told")
    builder = HandoffBuilder("w", [Agent("a", model=model, tools=[first]), Agent("b", model=model)])
    session = builder.add_handoff("a", "b", input_type=Case).add_handoff("b", []).build().session("s", store=store)
    result = await session.run("go")
    assert result.text == "told"
    outputs = [message.text for message in model.requests[-1].messages if message.role == "tool"]
    assert outputs[0] == "done"
    assert "Not handed over" in outputs[1]


@pytest.mark.parametrize("how", ["the store refuses once", "the caller leaves"])
async def test_a_finished_tool_is_recorded_although_the_drive_ends_first(store, how):
    class Faulty:
        """Fails, or holds up, the append that has the tool's outcome."""

        def __init__(self):
            self.met = asyncio.Event()
            self.armed = True

        def __getattr__(self, name):
            return getattr(store, name)

        async def append(self, ledger, expected, facts, **more):
            if self.armed and any(isinstance(fact, CallReturned) for fact in facts):
                self.armed = False
                self.met.set()
                if how == "the store refuses once":
                    raise StoreLocked("busy")
                await asyncio.sleep(30)
            return await store.append(ledger, expected, facts, **more)

    @tool
    async def pay() -> str:
        return "paid"

    faulty = Faulty()
    model = ScriptedModel(lambda seen: call("pay") if seen.turn == 0 else "done")
    session = alone(model, tools=[pay]).session("s", store=faulty)
    driving = asyncio.ensure_future(_awaited(session.run("go")))
    await faulty.met.wait()
    if how == "the caller leaves":
        driving.cancel()
    assert isinstance((await asyncio.gather(driving, return_exceptions=True))[0], StoreLocked | asyncio.CancelledError)
    await recorded(store, CallReturned)
    result = await session.resume()
    assert result.text == "done", "nobody had to be asked how it ended"
    assert [message.text for message in model.requests[-1].messages if message.role == "tool"] == ["paid"]


async def test_a_message_that_lands_while_a_request_is_made_is_judged_before_a_model_sees_it(store):
    made, gate, asked = asyncio.Event(), asyncio.Event(), []

    @guardrail("input")
    def no_secrets(context, text):
        return "blocked" if "secret" in text else None

    async def slowly(turn):
        made.set()
        await gate.wait()
        return f"You know of: {turn.messages[-1].text}"

    async def reply(seen):
        asked.append(([message.text for message in seen.messages], seen.frame.instructions))
        return "ok"

    workflow = alone(ScriptedModel(reply), guardrails=[no_secrets], context_providers=[slowly])
    first = asyncio.ensure_future(_awaited(workflow.session("s", store=store).run("hello")))
    await made.wait()
    second = asyncio.ensure_future(_awaited(workflow.session("s", store=store).run("my secret")))
    await recorded(store, MessageReceived, 2)
    gate.set()
    await asyncio.gather(first, second)
    assert not any("my secret" in texts for texts, _ in asked)
    third = await workflow.session("s", store=store).run("and this?")
    assert third.text == "ok"
    assert asked[-1] == (["hello", "ok", "and this?"], "You know of: and this?")


CALLBACKS = ("instructions", "provider", "guardrail", "approval", "termination", "summariser")


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("where", CALLBACKS)
async def test_user_code_that_says_it_was_cancelled_is_asked_once_and_its_failure_is_told(where, kind):
    asked = 0

    def cancelled(*given):
        nonlocal asked
        asked += 1
        if where == "instructions" and asked > 1:
            return "Be kind."
        raise asyncio.CancelledError

    async def later(*given):
        return cancelled()

    cancelled_async = later if kind == "async" else cancelled

    @tool(needs_approval=cancelled_async if where == "approval" else False)
    async def pay() -> str:
        return "paid"

    agent = Agent(
        "a",
        cancelled_async if where == "instructions" else "",
        ScriptedModel(lambda seen: call("pay") if seen.turn == 0 else "done"),
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


async def test_a_handoff_whose_reason_is_not_valid_unicode_is_answered_and_the_session_goes_on(store):
    script = {"a": [Call("handoff_to_b", '{"reason":"\\ud800"}'), handoff("b", "better")], "b": ["here"]}
    model = ScriptedModel(by_agent=script)
    agents = [Agent("a", model=model), Agent("b", model=model, history=history.dialogue())]
    session = HandoffBuilder("w", agents).build().session("s", store=store)
    assert (await session.run("go")).text == "here"


async def test_an_edited_handoff_says_what_was_edited(store):
    model = ScriptedModel(by_agent={"a": [handoff("b", "refund 100")], "b": ["fine"]})
    builder = HandoffBuilder("w", [Agent("a", model=model), Agent("b", model=model)])
    session = builder.add_handoff("a", "b", needs_approval=True).add_handoff("b", "a").build().session("s", store=store)
    await session.run("go")
    await session.edit(session.pending[0], {"reason": "refund 5"})
    await session.resume()
    assert "refund 5" in model.requests[-1].messages[-1].text


def test_a_handle_may_outlive_the_event_loop_it_was_first_used_in(tmp_path):
    session = alone(ScriptedModel(lambda seen: "x")).session("s", store=SQLiteStore(tmp_path / "s.db"))

    async def both():
        async def look():
            for _ in range(20):
                await session.refresh()
                await asyncio.sleep(0)

        await asyncio.gather(_awaited(session.run("m")), look())

    asyncio.run(both())
    asyncio.run(both())
    asyncio.run(session.store.close())


async def test_what_was_sent_is_what_seen_shows_although_the_policy_changed_in_the_middle_of_a_turn(store):
    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel(lambda seen: call("pay") if seen.turn == 0 else "done")
    await alone(model, tools=[pay]).session("s", store=store).run("go")
    changed = await alone(model, tools=[pay], history=history.dialogue()).session("s", store=store).refresh()
    await changed.approve(changed.pending[0])
    await changed.resume()
    assert [str(message) for message in (await changed.seen()).messages] == [str(message) for message in model.requests[-1].messages]


async def test_a_history_filter_cannot_change_what_was_said(store):
    def evil(groups):
        groups[0].content = "EVIL"
        return groups

    model = ScriptedModel(["ok"])
    session = alone(model, history=history.custom(evil)).session("s", store=store)
    await session.run("good")
    assert model.requests[0].messages[0].text == session.messages[0].text == "good"


async def test_a_reply_that_was_not_accepted_is_seen_by_its_agent_and_by_nobody_else(store):
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
    assert "the secret" in [message.text for message in model.requests[1].messages], "the agent sees what it is to say better"
    assert "the secret" not in [message.text for message in model.requests[-1].messages], "its colleague does not"


async def test_a_provider_that_gives_something_else_is_told_so():
    for given in (["x"], 5, Provided(messages="abc")):
        with pytest.raises(BadInput, match="no part of a frame"):
            await alone(ScriptedModel(["x"]), context_providers=[lambda turn, given=given: given]).run("go")


async def test_keyboard_interrupt_in_a_tool_harms_no_sibling(store):
    @tool
    def stop() -> str:
        raise KeyboardInterrupt

    @tool
    async def fine() -> str:
        await asyncio.sleep(0.05)
        return "fine"

    model = ScriptedModel(lambda seen: [call("stop"), call("fine")] if seen.turn == 0 else "done")
    session = alone(model, tools=[stop, fine]).session("s", store=store)
    assert (await session.run("go")).text == "done"
    outputs = [message.text for message in model.requests[-1].messages if message.role == "tool"]
    assert "tried to end the process" in outputs[0]
    assert outputs[1] == "fine"


async def test_messages_stay_in_conversational_order_when_one_was_withheld(store):
    @guardrail("input")
    def no_secrets(context, text):
        return "blocked" if "secret" in text else None

    session = alone(ScriptedModel(lambda seen: "ok"), guardrails=[no_secrets]).session("s", store=store)
    for words in ("hello", "secret", "again"):
        await session.run(words)
    assert [message.text for message in session.messages] == ["hello", "ok", "secret", "blocked", "again", "ok"]
    assert sum(isinstance(fact, MessageReceived) for fact in session.facts) == 3


@pytest.mark.parametrize("how", ["spoken to", "forgotten while a tool runs"])
async def test_a_session_that_was_deleted_under_a_handle_says_so(store, how):
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        begun.set()
        await go.wait()
        return "waited"

    session = alone(ScriptedModel(lambda seen: call("wait") if seen.turn == 0 else "done"), tools=[wait]).session("s", store=store)
    driving = asyncio.ensure_future(_awaited(session.run("go")))
    if how == "spoken to":
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


async def test_a_reply_to_a_request_that_was_cancelled_is_not_part_of_the_conversation_although_the_user_has_spoken_since(store):
    thinking, go = asyncio.Event(), asyncio.Event()
    paid = []

    @tool
    async def pay() -> str:
        paid.append(1)
        return "paid"

    async def reply(seen):
        if seen.turn == 0 and "new" not in seen.messages[-1].text:
            thinking.set()
            await go.wait()
            return call("pay")
        return "to the new question"

    workflow = alone(ScriptedModel(reply), tools=[pay])
    driving = asyncio.ensure_future(_awaited(workflow.session("s", store=store).run("pay")))
    await thinking.wait()
    other = workflow.session("s", store=store)
    await other.cancel()
    speaking = asyncio.ensure_future(_awaited(other.run("a new question")))
    await recorded(store, MessageReceived, 2)
    go.set()
    await asyncio.gather(driving, speaking)
    await other.refresh()
    assert not paid
    assert [message.text for message in other.messages] == ["pay", "a new question", "to the new question"]


def blocking(model, **more):
    @guardrail("input")
    def no_bad(context, text):
        return "blocked" if "bad" in text else None

    return HandoffBuilder("w", [Agent("a", model=model, guardrails=[no_bad], **more)])


async def test_a_withheld_message_revives_nothing(store):
    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel(lambda seen: call("pay") if seen.turn == 0 else "revived")
    session = blocking(model, tools=[pay]).build().session("s", store=store)
    await session.run("pay")
    await session.cancel()
    result = await session.run("bad")
    assert (result.status, result.text, len(model.requests)) == ("cancelled", "blocked", 1)


async def test_a_withheld_message_lifts_no_limit(store):
    @tool
    async def look() -> str:
        return "seen"

    model = ScriptedModel(lambda seen: call("look"))
    session = blocking(model, tools=[look]).with_limits(Limits(turns=2)).build().session("s", store=store)
    await session.run("go")
    for _ in range(3):
        result = await session.run("bad")
        assert [request.kind for request in result.pending] == ["limit"]
    assert len(model.requests) == 2


async def test_a_withheld_message_supersedes_nothing(store):
    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel(lambda seen: call("pay") if seen.turn == 0 else "done")
    session = blocking(model, tools=[pay]).with_messages("supersede").build().session("s", store=store)
    await session.run("pay")
    result = await session.run("bad")
    assert [request.kind for request in result.pending] == ["approval"]
    result = await session.run("good")
    assert result.text == "done"
    assert "new message first" in model.requests[-1].messages[2].text


async def test_what_one_guardrail_cannot_say_costs_its_siblings_nothing(store):
    @tool
    async def pay() -> str:
        await asyncio.sleep(0.1)
        return "paid"

    @tool
    async def other() -> str:
        return "other"

    @guardrail("tool")
    def unspeakable(context, asked):
        return "bad \ud800" if asked.tool == "other" else None

    model = ScriptedModel(lambda seen: [call("pay"), call("other")] if seen.turn == 0 else "done")
    session = alone(model, tools=[pay, other], guardrails=[unspeakable]).session("s", store=store)
    with pytest.raises(BadInput):
        await session.run("go")
    await session.refresh()
    with pytest.raises(BadInput):
        await session.resume()
    outputs = [each.output.content for each in session.state.groups[1].calls if each.output]
    assert outputs == ["paid"]


async def test_a_frame_knows_of_a_message_that_came_while_the_model_was_thinking_and_is_kept_over_a_retry(store):
    made, asked = 0, []
    thinking, go = asyncio.Event(), asyncio.Event()

    def provide(turn):
        nonlocal made
        made += 1
        return f"{made}: {turn.messages[-1].text}"

    async def reply(seen):
        asked.append(seen.frame.instructions)
        if len(asked) == 1:
            raise ModelFailed("503", retryable=True, retry_after=0)
        if len(asked) == 2:
            thinking.set()
            await go.wait()
        return "ok"

    session = alone(ScriptedModel(reply), context_providers=[provide]).session("s", store=store)
    first = asyncio.ensure_future(_awaited(session.run("first")))
    await thinking.wait()
    second = asyncio.ensure_future(_awaited(session.run("second")))
    await recorded(store, MessageReceived, 2)
    go.set()
    await asyncio.gather(first, second)
    assert asked == ["1: first", "1: first", "2: second"]


async def test_an_attachment_without_its_bytes_is_refused_and_an_empty_session_can_be_carried(store):
    workflow = alone(ScriptedModel(["ok"]))
    with pytest.raises(BadInput, match="bytes are not in this session"):
        await workflow.session("s", store=store).run([Image(digest="0" * 32)])
    empty = await workflow.session("empty", store=store).to_string()
    assert (await workflow.load(empty).refresh()).status == "new"


async def test_a_reply_without_words_that_is_refused_at_its_output_limit_is_no_output(store):
    class Silent:
        name = "silent"

        async def reply(self, request, emit):
            return Reply(items=(Reasoning(text="hm"),))

    session = alone(Silent(), output_type=int, output_retries=0).session("s", store=store)
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

    session = alone(Wrapper(ScriptedModel(["Hello."]))).session("s", store=Wrapper(MemoryStore()))
    assert (await session.run("Hi")).text == "Hello."
